//! The live objects of a revision, as `helm status` shows them: by version and kind, with the Pods that they select.

use crate::{
    context::Context,
    error::Result,
    objects::{
        desired_objects::{DesiredObject, Scopes, resolve},
        served_kinds,
    },
    observe::observed_objects::kinds_for,
    record::Record,
    request::ReleaseId,
};
use futures::{StreamExt as _, stream};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use windlass_cluster::{Cluster, Gvk};

const AT_ONCE: usize = 16;

/// Live objects by `version/Kind`, each kind in the order of the manifest.
pub type Resources = BTreeMap<String, Vec<Value>>;

/// The labels by which an object selects its Pods, as a selector.
fn selector(object: &Value) -> Option<String> {
    let labels = match object["kind"].as_str()? {
        "ReplicaSet" | "Deployment" | "StatefulSet" | "DaemonSet" | "Job" => {
            &object["spec"]["selector"]["matchLabels"]
        }
        "ReplicationController" => &object["spec"]["selector"],
        _ => return None,
    };
    let pair = |(key, value): (&String, &Value)| Some(format!("{key}={}", value.as_str()?));
    let pairs: Option<Vec<String>> = labels.as_object()?.iter().map(pair).collect();
    pairs.map(|pairs| pairs.join(","))
}

/// The objects of a revision, in versions that the server serves. Those of kinds that are not served are left out, with a log line.
pub(crate) async fn targets(
    context: &Context,
    id: &ReleaseId,
    record: &Record,
) -> Result<Vec<DesiredObject>> {
    let mut rendered = context.parser.rendered_of(record)?;
    let kinds = kinds_for(&context.cluster, rendered.objects(), &[]).await?;
    let warnings = served_kinds::to_served(rendered.manifests.iter_mut().map(|m| &mut m.object), &kinds);
    for warning in
        warnings.into_iter().chain(served_kinds::without_gone(&mut rendered, |gvk| kinds.get(gvk).is_some()))
    {
        tracing::warn!(release = %id, "{warning}");
    }
    let scopes = Scopes::new(&kinds, &[], rendered.objects());
    Ok(resolve(rendered.documents(), id, &scopes)?)
}

/// Reads the live objects of a revision: whole, or as the server's tables. As with Helm, objects that are missing
/// or cannot be read are left out.
pub(crate) async fn read(
    context: &Context,
    id: &ReleaseId,
    record: &Record,
    tables: bool,
) -> Result<Resources> {
    let targets = targets(context, id, record).await?;
    let mut selected = BTreeSet::new();
    let selectors: Vec<Option<(String, Option<String>)>> = targets
        .iter()
        .map(|target| {
            let found = (selector(&target.body)?, target.object.namespace.clone());
            selected.insert(found.0.clone()).then_some(found)
        })
        .collect();
    let reads = targets
        .iter()
        .zip(selectors)
        .map(|(target, pods)| read_object(&context.cluster, target, pods, tables));
    let found: Vec<_> = stream::iter(reads.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await;
    let mut resources = Resources::new();
    for (target, (object, pods)) in targets.iter().zip(found) {
        let Some(object) = object else { continue };
        let gvk = &target.object.gvk;
        resources.entry(format!("{}/{}", gvk.version, gvk.kind)).or_default().push(object);
        if !pods.is_empty() {
            resources.entry("v1/Pod(related)".to_owned()).or_default().extend(pods);
        }
    }
    Ok(resources)
}

async fn read_object(
    cluster: &Cluster,
    target: &DesiredObject,
    pods: Option<(String, Option<String>)>,
    tables: bool,
) -> (Option<Value>, Vec<Value>) {
    let pod = Gvk::new("v1", "Pod");
    let object =
        if tables { cluster.get_table(&target.object).await } else { cluster.get(&target.object).await };
    let Some(object) = object.ok().flatten() else { return (None, Vec::new()) };
    let Some((labels, namespace)) = pods else { return (Some(object), Vec::new()) };
    let related = if tables {
        cluster.list_table(&pod, namespace.as_deref(), &labels).await
    } else {
        cluster.list_object(&pod, namespace.as_deref(), &labels).await
    };
    let mut related = related.ok();
    // Items of a list lack the kind that the list states.
    let items = related.as_mut().and_then(|list| list["items"].as_array_mut());
    for one in items.into_iter().flatten().filter(|_| !tables) {
        one["apiVersion"] = "v1".into();
        one["kind"] = "Pod".into();
    }
    (Some(object), related.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn workloads_select_pods() {
        let labels = json!({"b": "2", "a": "1"});
        let of = |kind: &str, selector: Value| json!({"kind": kind, "spec": {"selector": selector}});
        let cases = [
            (of("Deployment", json!({"matchLabels": labels})), Some("a=1,b=2")),
            (of("ReplicationController", labels.clone()), Some("a=1,b=2")),
            (of("Job", Value::Null), None),
            (of("Service", labels), None),
        ];
        for (object, expected) in cases {
            assert_eq!(selector(&object).as_deref(), expected, "{object}");
        }
    }
}
