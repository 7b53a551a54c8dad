//! ConfigMaps and Secrets that left the manifest, and stay as long as live workloads refer to them.
//!
//! Owns which of them are deleted. What a workload refers to is `plan::config_references`.

use crate::{
    decide::reason::KeptReason,
    engine::Engine,
    error::Result,
    execute::{RevisionExecution, RevisionInput},
    observe,
    outcome::ReleaseOutcome,
    plan::{
        Deletion, Plan,
        config_references::{self, ConfigNames, WORKLOADS},
        deletion_groups,
        dry_run::{ChangeVerb, PlannedChange},
        ownership,
    },
    record::{RetainedConfig, StoredRecord},
    request::{PruneConfig, ReleaseOptions},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::collections::{BTreeMap, BTreeSet};
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
                let named = |object: &ObjectRef| {
                    names
                        .iter()
                        .flatten()
                        .any(|(kind, name)| *kind == object.gvk.kind && *name == object.name)
                };
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

impl RevisionExecution<'_> {
    /// Deletes what left the manifest and nothing refers to, and stores the rest in the record.
    pub(crate) async fn prune_unreferenced(
        &self,
        groups: &[Vec<Deletion>],
        current: &mut StoredRecord,
        outcome: &mut ReleaseOutcome,
    ) -> Result<()> {
        let due: Vec<Deletion> =
            groups.iter().flatten().filter(|d| waits(self.input.options, &d.object)).cloned().collect();
        current.record.extension.retained = self
            .engine
            .prune_config(self.input, due, outcome)
            .await?
            .iter()
            .map(RetainedConfig::from)
            .collect();
        Ok(())
    }
}

impl Engine {
    /// Marks the planned deletions that wait for their references as skipped; returns warnings.
    pub(crate) async fn preview_retained(
        &self,
        input: &RevisionInput<'_>,
        plan: &Plan,
        changes: &mut [PlannedChange],
    ) -> Result<Vec<String>> {
        let waiting =
            plan.prune.iter().flatten().map(|d| &d.object).filter(|object| waits(input.options, object));
        let References { referenced, warnings } = references(&self.cluster, waiting).await?;
        for change in changes.iter_mut().filter(|change| change.verb == ChangeVerb::Delete) {
            let gvk = Gvk::new(&change.api_version, &change.kind);
            let object = ObjectRef::new(gvk, change.namespace.as_deref(), &change.name);
            if referenced.contains(&object.key()) {
                change.verb = ChangeVerb::Skip;
                change.reason = format!(
                    "{}; {}, and it is deleted when none does",
                    change.reason,
                    KeptReason::Referenced
                );
            }
        }
        Ok(warnings)
    }

    /// Deletes ConfigMaps and Secrets that no live workload refers to; returns the others.
    async fn prune_config(
        &self,
        input: &RevisionInput<'_>,
        due: Vec<Deletion>,
        outcome: &mut ReleaseOutcome,
    ) -> Result<Vec<ObjectRef>> {
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let References { referenced, warnings } =
            references(&self.cluster, due.iter().map(|d| &d.object)).await?;
        outcome.warnings.extend(warnings);
        let (kept, free): (Vec<Deletion>, Vec<Deletion>) =
            due.into_iter().partition(|d| referenced.contains(&d.object.key()));
        let applier = self.applier(input.id, input.options);
        let (pruned, result) = applier.prune(&deletion_groups(free), Propagation::Background).await;
        outcome.pruned.extend(pruned);
        result?;
        let kept: Vec<ObjectRef> = kept.into_iter().map(|d| d.object).collect();
        outcome.kept.extend(kept.iter().map(|object| (object.clone(), KeptReason::Referenced)));
        Ok(kept)
    }

    /// Deletes what an earlier revision retained and nothing refers to any more; returns whether the record must be updated.
    pub(crate) async fn prune_retained(
        &self,
        input: &RevisionInput<'_>,
        newest: &mut StoredRecord,
        outcome: &mut ReleaseOutcome,
    ) -> Result<bool> {
        let retained: Vec<ObjectRef> =
            newest.record.extension.retained.iter().map(RetainedConfig::object).collect();
        if retained.is_empty() {
            return Ok(false);
        }
        let manager = &self.options.field_manager;
        let seen = observe::objects(&self.cluster, self.watches.as_ref(), manager, retained.iter()).await?;
        let due = retained.into_iter().filter_map(|object| {
            let found = seen.get(&object.key())?.as_ref()?;
            let ours = ownership::check(found, input.id).is_ok();
            let kept = ownership::is_kept(found.resource_policy.as_deref());
            (ours && !kept).then(|| Deletion { object, uid: found.uid.clone() })
        });
        let kept = self.prune_config(input, due.collect(), outcome).await?;
        let kept: Vec<RetainedConfig> = kept.iter().map(RetainedConfig::from).collect();
        let changed = kept != newest.record.extension.retained;
        newest.record.extension.retained = kept;
        Ok(changed)
    }
}
