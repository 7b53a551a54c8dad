//! The end of a failed revision: its record, its conflicts in later waves, and the deletion of what it created.
//!
//! Owns what still happens after a failure. Undoing the revision belongs to `rollback`.

use crate::{
    error::EngineError,
    execute::{RevisionExecution, apply::Applier},
    objects::{desired_objects::DesiredObject, ownership},
    observe::observed_objects,
    plan::{self, Deletion, Plan, dependency_graph::Wave, revision_input::RevisionOperation},
    record::{RecordError, ReleaseStatus, StoredRecord},
};
use std::ops::Bound;
use windlass_base::redact;
use windlass_cluster::{ObjectRef, Propagation};

impl RevisionExecution<'_> {
    /// The error of a wave. Field conflicts of later waves are added to it, so that all can be resolved at once.
    pub(super) async fn with_conflicts_ahead(
        &self,
        stopped: EngineError,
        targets: &[DesiredObject],
        plan: &Plan,
        wave: &Wave,
    ) -> EngineError {
        if !stopped.is_field_conflict() {
            return stopped;
        }
        let later = plan.waves.range((Bound::Excluded(wave), Bound::Unbounded)).flat_map(|(_, steps)| steps);
        let applier = Applier::new(self.context, self.input.id, self.input.options);
        let further = applier.conflicts_ahead(targets, later).await;
        match further.is_empty() {
            true => stopped,
            false => EngineError::Conflicts { stopped: Box::new(stopped), further },
        }
    }

    /// Records the failure. If that fails too, it is only logged: the first error matters more.
    pub(super) async fn fail(&self, current: &mut StoredRecord, error: &EngineError) {
        self.context.state.forget(&self.context.key(self.input.id));
        current.record.info.status = ReleaseStatus::Failed;
        current.record.info.description =
            self.input.operation.failed(&self.input.id.name, &redact::mask(&error.to_string()));
        let store = self.context.store();
        let mut written = store.update(current).await;
        if let Err(RecordError::Changed(_)) = written {
            // A cancelled write may have arrived.
            if let Ok(Some(found)) = store.get(self.input.id, current.record.version).await
                && found.record.extension.holder == current.record.extension.holder
            {
                current.resource_version = found.resource_version;
                written = store.update(current).await;
            }
        }
        if let Err(error) = written {
            tracing::warn!(release = %self.input.id, %error, "cannot record the failure");
        }
    }

    /// The newest revision before a rollback whose writes stopped: it is no longer what is in the cluster, and Helm marks it as
    /// superseded.
    pub(super) fn displaced_by(
        &self,
        error: &EngineError,
        others: Vec<StoredRecord>,
    ) -> Option<StoredRecord> {
        let rollback = matches!(self.input.operation, RevisionOperation::Rollback { .. });
        let newest = others.into_iter().max_by_key(|stored| stored.record.version);
        newest.filter(|stored| {
            rollback && error.stopped_writes() && stored.record.info.status != ReleaseStatus::Superseded
        })
    }

    /// Marks a revision as superseded. The next operation finds it by the record of the failed one.
    pub(super) async fn displace(&self, displaced: Option<StoredRecord>) {
        let Some(mut stored) = displaced else { return };
        stored.record.info.status = ReleaseStatus::Superseded;
        if let Err(error) = self.context.store().update(&mut stored).await {
            tracing::warn!(release = %self.input.id, %error, "the revision before the failed rollback has still its status");
        }
    }

    /// Deletes what the operation created: objects that did not exist before and are ours now, including writes in
    /// flight when it was cancelled.
    pub(super) async fn clean_up(&self, targets: &[DesiredObject], plan: &Plan) {
        let (context, input) = (self.context, self.input);
        let new = plan.waves.values().flatten().filter(|step| step.before.is_none());
        let new: Vec<&ObjectRef> = new.map(|step| &targets[step.target].object).collect();
        let deleted = async {
            let (cluster, manager) = (&context.cluster, context.manager());
            let seen = observed_objects::objects(cluster, None, manager, new.iter().copied()).await?;
            let deletions = new.iter().filter_map(|object| {
                let found = seen.get(&object.key())?.as_ref()?;
                ownership::check(found, input.id).ok()?;
                Some(Deletion { object: (*object).clone(), uid: found.uid.clone() })
            });
            let groups = plan::deletion_groups(deletions.collect());
            Applier::new(context, input.id, input.options).prune(&groups, Propagation::Background).await.1
        };
        if let Err(error) = deleted.await {
            tracing::warn!(release = %input.id, %error, "cannot delete what the upgrade created");
        }
    }
}
