//! CRDs that leave a release: which are kept because the chart has them in `crds/`, and how many objects are deleted with the others.
//!
//! Reads only. What is deleted is planned by `plan`.

use crate::{
    decide::reason::KeptReason,
    execute::crds::objects,
    objects::desired_objects::is_crd,
    plan::{Plan, preview::DeletedObjects, revision_input::RevisionInput},
    record::recorded_manifests::RecordParser,
};
use futures::{StreamExt as _, future::ready, stream};
use serde_json::Value;
use windlass_cluster::{Cluster, ObjectRef};

/// Kinds whose objects are counted at the same time.
const AT_ONCE: usize = 16;

/// Counts the objects that are deleted with a CRD. One that is not there any more has none.
pub(crate) async fn deleted_with(cluster: &Cluster, crd: &ObjectRef) -> Option<DeletedObjects> {
    let live = match cluster.get(crd).await {
        Ok(Some(live)) => live,
        Ok(None) => return None,
        // The deletion itself fails where this matters.
        Err(_) => Value::Null,
    };
    let kind = live["spec"]["names"]["kind"].as_str().unwrap_or(&crd.name).to_owned();
    let counted = objects(cluster, &live).await.ok().flatten();
    let at_least = counted.is_some_and(|counted| counted.at_least);
    Some(DeletedObjects { kind, count: counted.map(|counted| counted.count), at_least })
}

/// Counts the objects that are deleted with each CRD among some objects.
pub(crate) async fn deleted_with_all<'o>(
    cluster: &Cluster,
    objects: impl Iterator<Item = &'o ObjectRef>,
) -> Vec<(&'o ObjectRef, DeletedObjects)> {
    let counts: Vec<_> = objects
        .filter(|object| is_crd(object))
        .map(|crd| async move { Some((crd, deleted_with(cluster, crd).await?)) })
        .collect();
    stream::iter(counts).buffered(AT_ONCE).filter_map(ready).collect().await
}

/// The warning about a CRD that is deleted with objects.
pub(crate) fn deletion_warning(crd: &ObjectRef, deleted: &DeletedObjects, moved: bool) -> Option<String> {
    let place = if moved { ", and crds/ of the chart has it" } else { "" };
    let name = &crd.name;
    (!deleted.is_none())
        .then(|| format!("CustomResourceDefinition {name} left the manifest{place}: {deleted}"))
}

/// Warnings about the CRDs that leave a release.
pub(crate) async fn warnings(
    cluster: &Cluster,
    parser: RecordParser,
    input: &RevisionInput<'_>,
    plan: &Plan,
) -> Vec<String> {
    let mut warnings: Vec<String> = kept(plan).map(kept_warning).collect();
    let deletions = plan.prune.iter().flatten().map(|deletion| &deletion.object);
    let deleted = deleted_with_all(cluster, deletions).await;
    if !deleted.is_empty() {
        let moved = input.crds_dir(parser);
        warnings.extend(
            deleted
                .iter()
                .filter_map(|(crd, counted)| deletion_warning(crd, counted, moved.contains(&crd.name))),
        );
    }
    warnings
}

fn kept(plan: &Plan) -> impl Iterator<Item = &ObjectRef> {
    plan.kept.iter().filter(|(_, reason)| *reason == KeptReason::InCrdsDir).map(|(object, _)| object)
}

fn kept_warning(crd: &ObjectRef) -> String {
    format!(
        "CustomResourceDefinition {} left the manifest, and crds/ of the chart has it: it is kept with its objects, and no longer \
         deleted with the release",
        crd.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_cluster::Gvk;

    #[test]
    fn deletions_are_counted_in_a_sentence() {
        let crd =
            ObjectRef::new(Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition"), None, "jobs.e.x");
        let table = [
            (Some(0), false, None),
            (Some(1), false, Some("1 object of kind Job is deleted with it")),
            (Some(2), false, Some("2 objects of kind Job are deleted with it")),
            (Some(500), true, Some("500 or more objects of kind Job are deleted with it")),
            (None, false, Some("all objects of kind Job are deleted with it, which cannot be counted")),
        ];
        for (count, at_least, expected) in table {
            let deleted = DeletedObjects { kind: "Job".into(), count, at_least };
            let left = "CustomResourceDefinition jobs.e.x left the manifest";
            let warning = |place: &str| expected.map(|text| format!("{left}{place}: {text}"));
            assert_eq!(deletion_warning(&crd, &deleted, false), warning(""));
            assert_eq!(deletion_warning(&crd, &deleted, true), warning(", and crds/ of the chart has it"));
        }
    }
}
