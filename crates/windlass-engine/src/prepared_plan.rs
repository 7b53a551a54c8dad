//! From a decision to a plan: reads what the plan is made of.
//!
//! Owns what is observed for a plan, and the watches that begin with it. What follows from it is `plan`, which is pure. Writes nothing.

use crate::{
    context::Context,
    decide::Decision,
    error::{EngineError, Result},
    lock::lock_policy,
    objects::desired_objects::{self, DesiredObject, Scopes, is_crd, resolve},
    observe::{
        observed_objects::{self, kinds_for},
        release_history::History,
    },
    outcome::ReleaseOutcome,
    plan::{
        self, Plan,
        base_objects::{base_objects, originals},
        dependency_graph,
        revision_input::RevisionInput,
    },
    record::ReleaseStatus,
    request::Adoption,
};
use jiff::Timestamp;
use std::collections::BTreeMap;
use windlass_cluster::{CacheLookup, ObjectKey, ObjectRef, Watches};

/// The objects of a revision, and the steps to them. Reads, and writes nothing.
pub(crate) async fn prepare(
    context: &Context,
    input: &RevisionInput<'_>,
    decision: &Decision,
    history: &History,
    outcome: &mut ReleaseOutcome,
) -> Result<(Vec<DesiredObject>, Plan)> {
    let rendered = input.rendered;
    desired_objects::check_metadata(rendered.objects())
        .map_err(|reason| EngineError::Undecodable { manifest: input.operation.manifest(), reason })?;
    // CRDs that are not created bring no kind.
    let crds = match input.options.crds.is_due(decision.installing) {
        true => &rendered.crds[..],
        false => &[],
    };
    let kinds = kinds_for(&context.cluster, rendered.objects(), crds).await?;
    let scopes = Scopes::new(&kinds, crds, rendered.objects());
    let targets = resolve(rendered.documents(), input.id, &scopes)?;
    let order = dependency_graph::order(&targets)?;
    let revisions = history.records.iter().map(|stored| &stored.record);
    let revisions = revisions.filter(|record| decision.base.contains(&record.version));
    let base = base_objects(revisions, input, context.parser, (&kinds, &scopes), &mut outcome.warnings)?;
    if let Some(newest) = history.newest().filter(|newest| newest.info.status == ReleaseStatus::Uninstalling)
    {
        let half = lock_policy::half_uninstalled(newest, history.free, Timestamp::now());
        outcome.warnings.push(format!("{half}: the objects that it deleted are created again"));
    }
    let all = || targets.iter().map(|t| &t.object).chain(base.iter().flatten().map(|o| &o.object));
    context.watch_kinds(all()).await?;
    let wanted: BTreeMap<ObjectKey, &ObjectRef> = all().map(|object| (object.key(), object)).collect();
    let ownership = &input.options.ownership;
    let objects: Vec<&ObjectRef> = targets.iter().map(|target| &target.object).collect();
    for adopted in ownership.without_object(&objects) {
        outcome.warnings.push(format!("{adopted} is to be adopted, and is no object of the release"));
    }
    // A first revision that may take over whatever there is need not know it beforehand: the answer to the apply tells.
    // Unless the account's rights differ from those of the caches: it must be able to read what it will write.
    let blind = base.is_empty()
        && ownership.adoption == Adoption::Any
        && !input.options.dry_run
        && !context.acts_for_another;
    let needs_read = |object: &&ObjectRef| {
        let absent = |watches: &Watches| matches!(watches.lookup(object, None), CacheLookup::Absent);
        !blind || is_crd(object) || !context.watches.as_ref().is_some_and(absent)
    };
    let wanted = wanted.into_values().filter(needs_read);
    let seen =
        observed_objects::objects(&context.cluster, context.watches.as_ref(), context.manager(), wanted)
            .await?;
    plan::check_ownership(&targets, &base, &seen, input.id, ownership, input.operation.continued())?;
    let kept_crds = input.kept_crds(context.parser);
    let mut plan = plan::plan(&targets, order, &base, &seen, input.id, (input.method, &kept_crds));
    plan.originals = originals(base, input.operation);
    outcome.unchanged = plan.unchanged.len();
    outcome.kept.extend(plan.kept.iter().cloned());
    Ok((targets, plan))
}
