//! The stored part of an object's metadata: its owner, and a digest that shows changes of our fields.

use super::managed_fields;
use super::object_meta::ObjectMeta;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// An object's metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObservedMeta {
    pub uid: String,
    pub resource_version: String,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// Label `app.kubernetes.io/managed-by`.
    pub managed_by: Option<String>,
    /// Annotations `meta.helm.sh/release-name` and `-namespace`.
    pub release_name: Option<String>,
    pub release_namespace: Option<String>,
    /// Annotation `windlass.dev/adopted-by`: the release, `NAMESPACE/NAME`, that may take the object over.
    pub adopted_by: Option<Box<str>>,
    /// Annotation `helm.sh/resource-policy`.
    pub resource_policy: Option<Box<str>>,
    /// Annotation `windlass.dev/drift`, or Flux's equivalent: the object's own drift mode.
    pub drift: Option<Box<str>>,
    /// Hash of our field manager's apply entry, its time included; `None` without one. It changes when another
    /// manager takes a field over or applies under our name, and not when others write their own fields.
    pub applied: Option<u64>,
    /// Hash of all entries of our field manager, those by updates too: what shows changes of objects that are patched.
    pub written: Option<u64>,
    /// Helm's managers own fields by updates, not by apply.
    pub helm_updates: bool,
    /// `kubectl apply` owns fields.
    pub kubectl_applies: bool,
    /// Hash of all other entries, without those of subresources, times included.
    pub others: u64,
    /// It has an owner reference and may be garbage-collected.
    pub owned: bool,
    /// A Job that has finished.
    pub finished: bool,
}

impl ObservedMeta {
    /// Reads the metadata of an object or of a `PartialObjectMetadata`.
    pub fn of(object: &Value, manager: &str) -> Self {
        let meta = &object["metadata"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let annotation = |name: &str| text(&meta["annotations"][name]);
        let entries = ObjectMeta::of(object).managed_fields();
        let ours = entries.iter().find(|e| managed_fields::is_apply_of(e, manager));
        Self {
            uid: text(&meta["uid"]).unwrap_or_default(),
            resource_version: text(&meta["resourceVersion"]).unwrap_or_default(),
            deleting: !meta["deletionTimestamp"].is_null(),
            managed_by: text(&meta["labels"]["app.kubernetes.io/managed-by"]),
            release_name: annotation("meta.helm.sh/release-name"),
            release_namespace: annotation("meta.helm.sh/release-namespace"),
            adopted_by: annotation("windlass.dev/adopted-by").map(Into::into),
            resource_policy: annotation("helm.sh/resource-policy").map(Into::into),
            drift: drift_of(meta).map(Into::into),
            applied: hash_of(ours.into_iter()),
            written: hash_of(entries.iter().filter(|e| managed_fields::is_of(e, manager))),
            helm_updates: entries.iter().any(|e| managed_fields::is_helm_update(e, manager)),
            kubectl_applies: entries.iter().any(|e| managed_fields::is_kubectl_apply(e, manager)),
            others: hash_of(
                entries
                    .iter()
                    .filter(|e| e["subresource"].is_null() && !managed_fields::is_apply_of(e, manager)),
            )
            .unwrap_or_default(),
            owned: meta["ownerReferences"].as_array().is_some_and(|refs| !refs.is_empty()),
            finished: entries.iter().any(|e| finished(&e["fieldsV1"])),
        }
    }

    /// The resource version as a number: versions of one kind are ordered since Kubernetes 1.35, and were in practice
    /// before.
    pub fn version_number(&self) -> Option<u64> {
        self.resource_version.parse().ok()
    }
}

/// The drift mode in an object's metadata.
pub fn drift_of(metadata: &Value) -> Option<String> {
    let annotations = &metadata["annotations"];
    let flux = (annotations["helm.toolkit.fluxcd.io/driftDetection"] == "disabled").then(|| "off".to_owned());
    annotations["windlass.dev/drift"].as_str().map(str::to_owned).or(flux)
}

/// A hash of entries, independent of the order of their keys (JSON maps here are sorted); `None` without entries.
fn hash_of<'e>(entries: impl Iterator<Item = &'e Value>) -> Option<u64> {
    let mut entries = entries.peekable();
    entries.peek()?;
    let mut digest = Sha256::default();
    entries.for_each(|entry| digest.update(entry.to_string().as_bytes()));
    Some(digest.finalize().iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte)))
}

/// Whether the status fields in a managed-fields entry show a finished Job: its conditions are an atomic list, so
/// that their types are not visible, but a running Job has none.
fn finished(fields: &Value) -> bool {
    let status = &fields["f:status"];
    !status["f:startTime"].is_null() && !status["f:conditions"].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(entries: &Value) -> Value {
        json!({"metadata": {"uid": "u", "resourceVersion": "12", "managedFields": entries,
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "n"}}})
    }

    #[test]
    fn status_churn_leaves_our_hash_alone() {
        let ours = json!({"manager": "helm", "operation": "Apply", "time": "t1", "fieldsV1": {"f:spec": {"f:a": {}, "f:b": {}}}});
        let quiet = ObservedMeta::of(&object(&json!([ours])), "helm");
        let status = json!({"manager": "kubelet", "operation": "Update", "subresource": "status",
            "fieldsV1": {"f:status": {"f:phase": {}}}});
        let churned = ObservedMeta::of(&object(&json!([status, ours])), "helm");
        assert_eq!(quiet.applied, churned.applied);
        assert_eq!((quiet.version_number(), quiet.release_name.as_deref()), (Some(12), Some("r")));
    }

    #[test]
    fn entries_of_kubectl_apply_are_noted() {
        for (name, operation, subresource, noted) in [
            ("kubectl-client-side-apply", "Update", "", true),
            ("kubectl", "Apply", "", true),
            ("kubectl", "Apply", "status", false),
            ("kubectl-edit", "Update", "", false),
            ("helm", "Apply", "", false),
        ] {
            let entry = json!([{"manager": name, "operation": operation, "subresource": subresource, "fieldsV1": {}}]);
            assert_eq!(
                ObservedMeta::of(&object(&entry), "helm").kubectl_applies,
                noted,
                "{name} {subresource}"
            );
        }
        // What we apply under that name is ours.
        let own = json!([{"manager": "kubectl", "operation": "Apply", "fieldsV1": {}}]);
        assert!(!ObservedMeta::of(&object(&own), "kubectl").kubectl_applies);
    }

    #[test]
    fn a_lost_field_changes_the_hash() {
        let entry = |fields: &Value| json!([{"manager": "helm", "operation": "Apply", "fieldsV1": fields}]);
        let before = ObservedMeta::of(&object(&entry(&json!({"f:spec": {"f:a": {}, "f:b": {}}}))), "helm");
        let after = ObservedMeta::of(&object(&entry(&json!({"f:spec": {"f:a": {}}}))), "helm");
        assert!(before.applied.is_some());
        assert_ne!(before.applied, after.applied);
        assert_eq!(ObservedMeta::of(&object(&json!([])), "helm").applied, None);
    }

    #[test]
    fn a_finished_job_shows_in_its_managers() {
        let job = |fields: &Value| {
            let entry = json!([{"manager": "kube-controller-manager", "operation": "Update", "subresource": "status",
                "fieldsV1": {"f:status": fields}}]);
            ObservedMeta::of(&object(&entry), "helm").finished
        };
        assert!(job(
            &json!({"f:startTime": {}, "f:completionTime": {}, "f:conditions": {}, "f:succeeded": {}})
        ));
        assert!(job(&json!({"f:startTime": {}, "f:conditions": {}, "f:failed": {}})), "failed");
        assert!(!job(&json!({"f:startTime": {}, "f:active": {}})), "running");
        assert!(!job(&json!({"f:conditions": {}})), "suspended");
    }
}
