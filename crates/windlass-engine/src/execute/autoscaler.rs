//! Whether an autoscaler scales an object: a HorizontalPodAutoscaler of any served version, or KEDA's ScaledObject.
//!
//! Owns what counts as one and where it is looked for: among the objects of the release, then in the object's namespace, with the rights
//! of the release's account. Looks only when replicas are in conflict, once a namespace and operation. Writes nothing.

use crate::objects::{
    desired_objects::items,
    field_conflicts::{self, Conflict},
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta, ObjectRef};

/// Group and kind of each autoscaler.
const AUTOSCALERS: [(&str, &str); 2] =
    [("autoscaling", "HorizontalPodAutoscaler"), ("keda.sh", "ScaledObject")];
/// Field managers of autoscalers: they count where autoscalers cannot be listed.
const MANAGERS: [&str; 3] = ["kube-controller-manager", "keda", "keda-operator"];
const REPLICAS: &str = "spec.replicas";

/// Who decides about the replicas of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scaled {
    /// The manifest.
    ByManifest,
    /// This autoscaler.
    By(String),
    /// The account may not list autoscalers of these kinds: what a known autoscaler has set through `scale` stays.
    Unseen(String),
}

/// An object's reference in an autoscaler.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    group: String,
    kind: String,
    name: String,
}

/// Autoscalers of a namespace.
#[derive(Debug, Default)]
struct Live {
    autoscalers: Vec<(String, Target)>,
    unseen: Vec<&'static str>,
}

/// Finds autoscalers during one operation.
pub(crate) struct Autoscalers<'a> {
    cluster: &'a Cluster,
    live: tokio::sync::Mutex<BTreeMap<String, Arc<Live>>>,
}

/// The target of an autoscaler, with KEDA's defaults.
fn target_of(autoscaler: &Value) -> Option<Target> {
    let gvk = Gvk::of(autoscaler)?;
    if !AUTOSCALERS.contains(&(gvk.group.as_str(), gvk.kind.as_str())) {
        return None;
    }
    let target = &autoscaler["spec"]["scaleTargetRef"];
    let text = |field: &str, default: &str| {
        let own = target[field].as_str().filter(|text| !text.is_empty());
        own.unwrap_or(default).to_owned()
    };
    let (version, kind) = match gvk.group.as_str() {
        "keda.sh" => (text("apiVersion", "apps/v1"), text("kind", "Deployment")),
        _ => (text("apiVersion", "v1"), text("kind", "")),
    };
    Some(Target { group: Gvk::new(&version, &kind).group, kind, name: text("name", "") })
}

impl Target {
    fn is(&self, object: &ObjectRef) -> bool {
        self.group == object.gvk.group && self.kind == object.gvk.kind && self.name == object.name
    }
}

/// The autoscaler of an object among the documents of its release.
fn in_manifest<'v>(
    documents: impl Iterator<Item = &'v Value>,
    object: &ObjectRef,
    default_namespace: &str,
) -> Option<String> {
    documents.flat_map(items).find_map(|document| {
        let target = target_of(document)?;
        let namespace = ObjectMeta::of(document).namespace().filter(|text| !text.is_empty());
        let beside = object.namespace.as_deref() == Some(namespace.unwrap_or(default_namespace));
        (beside && target.is(object)).then(|| name_of(document))
    })
}

fn name_of(autoscaler: &Value) -> String {
    format!("{} {}", autoscaler["kind"].as_str().unwrap_or_default(), ObjectMeta::of(autoscaler).name())
}

fn scale_entries(managed_fields: &[Value]) -> impl Iterator<Item = &Value> {
    managed_fields.iter().filter(|entry| entry["subresource"] == "scale")
}

/// Whether replicas are among the conflicts, or were set through `scale`.
pub(crate) fn contested(conflicts: &[Conflict], managed_fields: &[Value]) -> bool {
    conflicts.iter().any(|conflict| conflict.field == REPLICAS)
        || scale_entries(managed_fields).next().is_some()
}

impl<'a> Autoscalers<'a> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, live: tokio::sync::Mutex::default() }
    }

    /// Who decides about an object's replicas. `documents` are those of its release.
    ///
    /// # Errors
    /// Autoscalers cannot be listed for another reason than missing rights.
    pub(crate) async fn scaled<'v>(
        &self,
        object: &ObjectRef,
        documents: impl Iterator<Item = &'v Value>,
        default_namespace: &str,
    ) -> Result<Scaled, ClusterError> {
        if let Some(name) = in_manifest(documents, object, default_namespace) {
            return Ok(Scaled::By(name));
        }
        let Some(namespace) = &object.namespace else { return Ok(Scaled::ByManifest) };
        let live = self.live(namespace).await?;
        if let Some((name, _)) = live.autoscalers.iter().find(|(_, target)| target.is(object)) {
            return Ok(Scaled::By(name.clone()));
        }
        Ok(match live.unseen.is_empty() {
            true => Scaled::ByManifest,
            false => Scaled::Unseen(live.unseen.join(", ")),
        })
    }

    async fn live(&self, namespace: &str) -> Result<Arc<Live>, ClusterError> {
        let mut known = self.live.lock().await;
        if let Some(found) = known.get(namespace) {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(self.read(namespace).await?);
        known.insert(namespace.to_owned(), Arc::clone(&found));
        Ok(found)
    }

    async fn read(&self, namespace: &str) -> Result<Live, ClusterError> {
        let kinds = self.cluster.kinds().await?;
        let mut live = Live::default();
        for (group, kind) in AUTOSCALERS {
            // Of no version: the preferred one of those that are served.
            let Some(gvk) = kinds.successor(&Gvk::new(&format!("{group}/any"), kind)) else { continue };
            let mut next: Option<String> = None;
            loop {
                let page = match self.cluster.list_page_of(gvk, Some(namespace), next.as_deref()).await {
                    Ok(page) => page,
                    Err(error) if error.is_forbidden() => {
                        live.unseen.push(kind);
                        break;
                    }
                    // The kind went since it was looked up.
                    Err(error) if error.is_not_found() => break,
                    Err(error) => return Err(error),
                };
                for mut item in page.items {
                    // Items of a list do not name their kind.
                    item["apiVersion"] = gvk.api_version().into();
                    item["kind"] = kind.into();
                    live.autoscalers.extend(target_of(&item).map(|target| (name_of(&item), target)));
                }
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
        }
        Ok(live)
    }
}

/// The object without the replicas that an autoscaler decides about; they stay as they are.
pub(crate) fn without_scaled(
    body: &Value,
    conflicts: &[Conflict],
    managed_fields: &[Value],
    scaled: &Scaled,
) -> Value {
    let mut body = body.clone();
    match scaled {
        Scaled::ByManifest => {}
        Scaled::By(_) => {
            scale_entries(managed_fields).for_each(|entry| remove_fields(&mut body, &entry["fieldsV1"]));
            if conflicts.iter().any(|conflict| conflict.field == REPLICAS) {
                field_conflicts::remove(&mut body, REPLICAS);
            }
        }
        Scaled::Unseen(_) => {
            let known = |entry: &&Value| entry["manager"].as_str().is_some_and(|m| MANAGERS.contains(&m));
            let entries = scale_entries(managed_fields).filter(known);
            entries.for_each(|entry| remove_fields(&mut body, &entry["fieldsV1"]));
        }
    }
    body
}

/// What is said when autoscalers cannot be listed.
pub(crate) fn unseen(kinds: &str, namespace: &str) -> String {
    format!(
        "replicas: the account may not list {kinds} in namespace {namespace}: those that {} set through scale stay, all others are the \
         chart's; grant the right to list them, or leave the field to its owner",
        MANAGERS.join(", ")
    )
}

fn remove_fields(object: &mut Value, fields: &Value) {
    let (Some(object), Some(fields)) = (object.as_object_mut(), fields.as_object()) else { return };
    for (field, inner) in fields {
        let Some(name) = field.strip_prefix("f:") else { continue };
        if inner.as_object().is_none_or(|i| i.keys().all(|k| k == ".")) {
            object.remove(name);
        } else if let Some(child) = object.get_mut(name) {
            remove_fields(child, inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn autoscalers_name_their_targets() {
        let of = |version: &str, kind: &str, target: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": {"scaleTargetRef": target}});
        let web = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("ns"), "web");
        let hpa = "HorizontalPodAutoscaler";
        let apps = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let mut elsewhere = of("autoscaling/v2", hpa, apps.clone());
        elsewhere["metadata"]["namespace"] = "other".into();
        let mut here = elsewhere.clone();
        here["metadata"]["namespace"] = "ns".into();
        let table = [
            (of("autoscaling/v2", hpa, apps.clone()), true),
            (of("autoscaling/v1", hpa, apps.clone()), true),
            (
                json!({"kind": "List", "apiVersion": "v1", "items": [of("autoscaling/v2", hpa, apps.clone())]}),
                true,
            ),
            (here, true),
            (elsewhere, false),
            (
                of(
                    "autoscaling/v2",
                    hpa,
                    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web2"}),
                ),
                false,
            ),
            (
                of(
                    "autoscaling/v2",
                    hpa,
                    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}),
                ),
                false,
            ),
            (
                of(
                    "autoscaling/v2",
                    hpa,
                    json!({"apiVersion": "e.x/v1", "kind": "Deployment", "name": "web"}),
                ),
                false,
            ),
            (of("autoscaling/v2", hpa, json!({"kind": "Deployment", "name": "web"})), false),
            (of("autoscaling/v2", "Other", apps.clone()), false),
            (of("e.x/v1", hpa, apps.clone()), false),
            (of("keda.sh/v1alpha1", "ScaledObject", json!({"name": "web"})), true),
            (of("keda.sh/v1alpha1", "ScaledObject", apps), true),
            (of("keda.sh/v1alpha1", "ScaledObject", json!({"kind": "StatefulSet", "name": "web"})), false),
            (of("keda.sh/v1alpha1", "ScaledJob", json!({"name": "web"})), false),
        ];
        for (document, expected) in table {
            let found = in_manifest(std::iter::once(&document), &web, "ns").is_some();
            assert_eq!(found, expected, "{document}");
        }
    }

    #[test]
    fn replicas_are_left_to_autoscalers_only() {
        let body = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "paused": false}});
        let entry = |manager: &str, subresource: &str| {
            [json!({"manager": manager, "operation": "Update", "subresource": subresource,
                "fieldsV1": {"f:spec": {"f:replicas": {}}}})]
        };
        let conflict = |field: &str| [Conflict { field: field.to_owned(), manager: "m".to_owned() }];
        let (by, unseen) = (Scaled::By("x".to_owned()), Scaled::Unseen("x".to_owned()));
        let table = [
            ("kubectl scale", "kubectl", "scale", "spec.replicas", &Scaled::ByManifest, false),
            (
                "an autoscaler that went",
                "kube-controller-manager",
                "scale",
                "spec.replicas",
                &Scaled::ByManifest,
                false,
            ),
            ("an autoscaler", "kube-controller-manager", "scale", "spec.replicas", &by, true),
            ("kubectl beside an autoscaler", "kubectl", "scale", "spec.replicas", &by, true),
            ("a patch beside an autoscaler", "kubectl-patch", "", "spec.replicas", &by, true),
            ("another field", "kubectl-patch", "", "spec.paused", &by, false),
            ("unseen autoscalers", "keda-operator", "scale", "spec.replicas", &unseen, true),
            ("kubectl, autoscalers unseen", "kubectl", "scale", "spec.replicas", &unseen, false),
        ];
        for (what, manager, subresource, field, scaled, left) in table {
            let entries = entry(manager, subresource);
            let sent = without_scaled(&body, &conflict(field), &entries, scaled);
            assert_eq!(sent["spec"]["replicas"].is_null(), left, "{what}");
            assert_eq!(contested(&conflict(field), &entries), field == "spec.replicas", "{what}");
        }
    }
}
