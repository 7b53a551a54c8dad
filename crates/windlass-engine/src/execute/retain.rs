//! ConfigMaps and Secrets that left the manifest, and stay as long as live workloads refer to them.
//!
//! Owns which of them are deleted. What a workload refers to is `objects::config_references`.

use crate::{
    context::Context,
    decide::reason::KeptReason,
    error::Result,
    execute::apply::Applier,
    objects::{
        config_references::{self, ConfigNames, WORKLOADS},
        ownership,
    },
    observe::observed_objects,
    outcome::ReleaseOutcome,
    plan::{Deletion, deletion_groups, revision_input::RevisionInput},
    record::{RetainedConfig, StoredRecord},
    request::{PruneConfig, ReleaseOptions},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectKey, ObjectRef, Propagation};

/// Pages of workloads that are read of a kind: a namespace with more of one kind keeps its ConfigMaps and Secrets.
const PAGES: usize = 40;

/// Which objects live workloads refer to.
#[derive(Default)]
pub(crate) struct References {
    pub(crate) referenced: BTreeSet<ObjectKey>,
    /// Why some count as referenced although nobody looked.
    pub(crate) warnings: Vec<String>,
}

/// Whether the deletion of this object waits for its references.
pub(crate) fn waits(options: &ReleaseOptions, object: &ObjectRef) -> bool {
    options.objects.prune_config == PruneConfig::Unreferenced
        && object.gvk.group.is_empty()
        && matches!(object.gvk.kind.as_str(), "ConfigMap" | "Secret")
}

/// Reads the live workloads of the objects' namespaces.
pub(crate) async fn references(
    cluster: &Cluster,
    objects: impl Iterator<Item = &ObjectRef>,
) -> Result<References> {
    let mut by_namespace: BTreeMap<&str, Vec<&ObjectRef>> = BTreeMap::new();
    for object in objects {
        by_namespace.entry(object.namespace.as_deref().unwrap_or_default()).or_default().push(object);
    }
    let mut found = References::default();
    for (namespace, objects) in by_namespace {
        let reads: Vec<_> = WORKLOADS
            .iter()
            .map(|(version, kind)| read(cluster, namespace, Gvk::new(version, kind), kind))
            .collect();
        let answers: Vec<Answer> = stream::iter(reads).buffered(WORKLOADS.len()).try_collect().await?;
        match answers.into_iter().collect::<std::result::Result<Vec<ConfigNames>, String>>() {
            Ok(names) => {
                let names: HashSet<(&str, &str)> =
                    names.iter().flatten().map(|(kind, name)| (*kind, name.as_str())).collect();
                let named =
                    |object: &ObjectRef| names.contains(&(object.gvk.kind.as_str(), object.name.as_str()));
                found
                    .referenced
                    .extend(objects.into_iter().filter(|object| named(object)).map(ObjectRef::key));
            }
            Err(reason) => {
                found.warnings.push(format!(
                    "ConfigMaps and Secrets that left the manifest are kept in namespace {namespace:?}: {reason}"
                ));
                found.referenced.extend(objects.into_iter().map(ObjectRef::key));
            }
        }
    }
    Ok(found)
}

/// What the workloads of a kind refer to, or why nobody knows.
type Answer = std::result::Result<ConfigNames, String>;

async fn read(cluster: &Cluster, namespace: &str, gvk: Gvk, kind: &str) -> Result<Answer> {
    let mut names = ConfigNames::new();
    let mut next: Option<String> = None;
    for _ in 0..PAGES {
        let page = match cluster.list_page_of(&gvk, Some(namespace), next.as_deref()).await {
            Ok(page) => page,
            Err(ClusterError::NoKind(_)) => return Ok(Ok(names)),
            Err(e) if e.is_not_found() => return Ok(Ok(names)),
            Err(e) if e.is_forbidden() => return Ok(Err(e.to_string())),
            Err(e) => return Err(e.into()),
        };
        page.items.iter().for_each(|workload| config_references::add(kind, workload, &mut names));
        next = page.next;
        if next.is_none() {
            return Ok(Ok(names));
        }
    }
    Ok(Err(format!("it has too many objects of kind {kind}")))
}

/// Deletes what left the manifest and nothing refers to, and stores the rest in the record.
pub(crate) async fn prune_unreferenced(
    context: &Context,
    input: &RevisionInput<'_>,
    groups: &[Vec<Deletion>],
    current: &mut StoredRecord,
    outcome: &mut ReleaseOutcome,
) -> Result<()> {
    let due: Vec<Deletion> =
        groups.iter().flatten().filter(|d| waits(input.options, &d.object)).cloned().collect();
    let kept = prune_config(context, input, due, outcome).await?;
    current.record.extension.retained = kept.iter().map(RetainedConfig::from).collect();
    Ok(())
}

/// Deletes ConfigMaps and Secrets that no live workload refers to; returns the others.
async fn prune_config(
    context: &Context,
    input: &RevisionInput<'_>,
    due: Vec<Deletion>,
    outcome: &mut ReleaseOutcome,
) -> Result<Vec<ObjectRef>> {
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let References { referenced, warnings } =
        references(&context.cluster, due.iter().map(|d| &d.object)).await?;
    outcome.warnings.extend(warnings);
    let (kept, free): (Vec<Deletion>, Vec<Deletion>) =
        due.into_iter().partition(|d| referenced.contains(&d.object.key()));
    let applier = Applier::new(context, input.id, input.options);
    let (pruned, result) = applier.prune(&deletion_groups(free), Propagation::Background).await;
    outcome.pruned.extend(pruned);
    result?;
    let kept: Vec<ObjectRef> = kept.into_iter().map(|d| d.object).collect();
    outcome.kept.extend(kept.iter().map(|object| (object.clone(), KeptReason::Referenced)));
    Ok(kept)
}

/// Deletes what an earlier revision retained and nothing refers to any more; returns whether the record must be updated.
pub(crate) async fn prune_retained(
    context: &Context,
    input: &RevisionInput<'_>,
    newest: &mut StoredRecord,
    outcome: &mut ReleaseOutcome,
) -> Result<bool> {
    let retained: Vec<ObjectRef> =
        newest.record.extension.retained.iter().map(RetainedConfig::object).collect();
    if retained.is_empty() {
        return Ok(false);
    }
    let (cluster, manager) = (&context.cluster, context.manager());
    let watches = context.watches.as_ref();
    let seen = observed_objects::objects(cluster, watches, manager, retained.iter()).await?;
    let due = retained.into_iter().filter_map(|object| {
        let found = seen.get(&object.key())?.as_ref()?;
        let ours = ownership::check(found, input.id).is_ok();
        let kept = ownership::is_kept(found.resource_policy.as_deref());
        (ours && !kept).then(|| Deletion { object, uid: found.uid.clone() })
    });
    let kept = prune_config(context, input, due.collect(), outcome).await?;
    let kept: Vec<RetainedConfig> = kept.iter().map(RetainedConfig::from).collect();
    let changed = kept != newest.record.extension.retained;
    newest.record.extension.retained = kept;
    Ok(changed)
}
