//! The artifact of a source, as its status has it.

use serde::Deserialize as _;
use serde_json::{Value, json};

use flux_api::common::{SourceArtifact, failure_of, failure_state};
use windlass_cluster::{ObjectMeta, ObjectRef};
use windlass_controller::ReconcileError;
use windlass_engine::Disposition;

/// The artifact of a source that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Whose artifact it is.
    pub source: ObjectRef,
    /// Where its file is.
    pub url: String,
    /// Digest of its file: `sha256:` and hexadecimal digits.
    pub digest: String,
    /// Revision in the source's own terms.
    pub revision: String,
}

impl Artifact {
    /// The artifact of a source as it was found: observed in its generation, not stalled, with an artifact.
    ///
    /// # Errors
    /// The source does not exist, or is not ready; the text says why.
    pub fn of(source: &ObjectRef, found: Option<&Value>) -> Result<Self, ReconcileError> {
        let kind = &source.gvk.kind;
        let name = format!("{}/{}", source.namespace.as_deref().unwrap_or_default(), source.name);
        let waits = |text: String, failed: bool| ReconcileError::Reason {
            reason: "SourceNotReady",
            text: format!("{kind} '{name}' is not ready: {text}"),
            disposition: Disposition::Dependency { failed },
        };
        let Some(found) = found else { return Err(waits("it does not exist yet".to_owned(), false)) };
        let not_ready = |why: &str| {
            let failure = failure_of(found);
            let cause = failure.map(|cause| format!(": {cause}")).unwrap_or_default();
            waits(format!("{why}{cause}"), failure.is_some())
        };
        let status = &found["status"];
        let meta = ObjectMeta::of(found);
        if status["observedGeneration"] != meta.generation() {
            return Err(not_ready("latest generation of object has not been reconciled"));
        }
        let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        if conditions.iter().any(|c| c["type"] == "Stalled" && c["status"] == "True") {
            return Err(not_ready("the source is stalled"));
        }
        let artifact = SourceArtifact::deserialize(&status["artifact"]).unwrap_or_default();
        let SourceArtifact { url, digest, revision, .. } = artifact;
        if url.is_empty() || digest.is_empty() {
            return Err(not_ready("it has no artifact"));
        }
        Ok(Self { source: source.clone(), url, digest, revision })
    }
}

/// What of a source triggers a reconcile of those who use its artifact.
#[must_use]
pub fn source_state(source: &Value) -> Value {
    let status = &source["status"];
    json!([
        status["artifact"]["digest"],
        status["artifact"]["revision"],
        status["observedGeneration"] == ObjectMeta::of(source).generation(),
        status["artifact"]["digest"].is_null().then(|| failure_state(source)),
    ])
}

/// Refuses a source in another namespace than the object that refers to it, where that is not allowed.
///
/// # Errors
/// It is in another one; the text is that of Flux's controllers.
pub fn check_source_namespace(
    source: &ObjectRef,
    own: &str,
    no_cross_namespace_refs: bool,
) -> Result<(), ReconcileError> {
    if !no_cross_namespace_refs || source.namespace.as_deref() == Some(own) {
        return Ok(());
    }
    let namespace = source.namespace.as_deref().unwrap_or_default();
    Err(ReconcileError::Reason {
        reason: "AccessDenied",
        text: format!(
            "can't access '{}/{namespace}/{}', cross-namespace references have been blocked",
            source.gvk.kind, source.name
        ),
        disposition: Disposition::Stall,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_api::api_names::SOURCES;
    use windlass_cluster::Gvk;

    #[test]
    fn a_source_that_is_not_ready_says_why() {
        let reference = ObjectRef::new(Gvk::new(SOURCES, "GitRepository"), Some("shop"), "conf");
        let artifact = json!({"url": "http://a/b", "digest": "sha256:00", "revision": "main@sha1:1"});
        let source = |status: Value| {
            Some(
                json!({"metadata": {"name": "conf", "namespace": "shop", "generation": 2}, "status": status}),
            )
        };
        for (found, part) in [
            (None, "it does not exist yet"),
            (source(json!({})), "latest generation of object has not been reconciled"),
            (source(json!({"observedGeneration": 1, "artifact": artifact})), "latest generation"),
            (source(json!({"observedGeneration": 2})), "it has no artifact"),
            (
                source(
                    json!({"observedGeneration": 2, "artifact": artifact, "conditions": [{"type": "Stalled", "status": "True"}]}),
                ),
                "the source is stalled",
            ),
        ] {
            let error = Artifact::of(&reference, found.as_ref()).unwrap_err().to_string();
            assert!(error.starts_with("GitRepository 'shop/conf' is not ready: "), "{error}");
            assert!(error.contains(part), "{error}");
        }
        let ready = source(json!({"observedGeneration": 2, "artifact": artifact}));
        let found = Artifact::of(&reference, ready.as_ref()).unwrap();
        assert_eq!((found.source, found.revision.as_str()), (reference, "main@sha1:1"));
    }

    #[test]
    fn sources_of_other_namespaces_are_refused_where_they_are_blocked() {
        let source = ObjectRef::new(Gvk::new(SOURCES, "Bucket"), Some("ops"), "b");
        assert!(check_source_namespace(&source, "shop", false).is_ok());
        assert!(check_source_namespace(&source, "ops", true).is_ok());
        let error = check_source_namespace(&source, "shop", true).unwrap_err();
        assert_eq!(error.reason(), "AccessDenied");
        assert_eq!(
            error.to_string(),
            "can't access 'Bucket/ops/b', cross-namespace references have been blocked"
        );
    }
}
