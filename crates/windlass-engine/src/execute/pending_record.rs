//! The pending record of a revision: written before the first object, and in place of abandoned ones.
//!
//! Owns what a new record contains. Knows nothing of objects.

use crate::{
    decide::{Decision, ReleaseAction},
    error::{EngineError, Result},
    execute::RevisionExecution,
    objects::crd_files,
    plan::revision_input::RevisionOperation,
    record::{
        Info, OWNER_LABEL, Record, RecordError, RecordExtension, RecordedHook, ReleaseStatus, Revision,
        StoredRecord, now, to_prune,
    },
    request::PruneConfig,
};
use serde_json::Value;
use windlass_base::hex::hex;

impl RevisionExecution<'_> {
    /// Writes the pending record; prunes the history and marks abandoned revisions as failed.
    pub(super) async fn begin(
        &self,
        decision: &Decision,
        revisions: &[Revision],
        mut records: Vec<StoredRecord>,
    ) -> Result<(StoredRecord, Vec<StoredRecord>)> {
        let store = self.context.store();
        let id = self.input.id;
        if decision.action == ReleaseAction::Resume
            && let Some(place) = records.iter().position(|r| r.record.version == decision.revision)
        {
            let mut current = records.swap_remove(place);
            let fresh = self.new_record(&records, decision.revision);
            let old = std::mem::replace(&mut current.record, fresh);
            // Hooks that succeeded are not run again.
            let succeeded = |hook: &RecordedHook| hook.last_run.phase == "Succeeded";
            if old.info.status.is_pending() {
                current.record.extension.hooks_done = old.extension.hooks_done;
                for (hook, old) in
                    current.record.hooks.iter_mut().zip(old.hooks).filter(|(_, old)| succeeded(old))
                {
                    hook.last_run = old.last_run;
                }
            }
            store.update(&mut current).await?;
            return Ok((current, records));
        }
        for stored in records.iter_mut().filter(|r| decision.abandon.contains(&r.record.version)) {
            let status = stored.record.info.status;
            let hooks: Vec<Value> = self
                .context
                .parser
                .rendered_of(&stored.record)?
                .hooks
                .into_iter()
                .map(|h| h.object)
                .collect();
            self.hook_runner().clean_up(&stored.record.hooks, &hooks).await?;
            stored.record.info.status = ReleaseStatus::Failed;
            stored.record.info.description = format!("Abandoned while {status}");
            store.update(stored).await?;
        }
        for revision in to_prune(revisions, self.input.options.revisions.max) {
            store.delete(id, revision).await?;
            records.retain(|r| r.record.version != revision);
        }
        let created = store.create(self.new_record(&records, decision.revision)).await;
        let current = created.map_err(|error| match error {
            RecordError::Exists(_) if revisions.is_empty() => EngineError::Overtaken,
            error => error.into(),
        })?;
        Ok((current, records))
    }

    /// The hooks of the new record; those of a rollback keep their last run.
    fn new_hooks(&self) -> Vec<RecordedHook> {
        let mut hooks: Vec<RecordedHook> = self.input.rendered.hooks.iter().map(RecordedHook::from).collect();
        for (hook, old) in hooks.iter_mut().zip(self.input.old_hooks) {
            hook.last_run = old.last_run.clone();
        }
        hooks
    }

    pub(super) fn new_record(&self, older: &[StoredRecord], revision: u64) -> Record {
        let input = self.input;
        let newest = older.iter().map(|s| &s.record).max_by_key(|r| r.version);
        // A rollback has the labels of the revision that it repeats.
        let inherited = newest.filter(|_| input.operation == RevisionOperation::Upgrade);
        let first = older.iter().map(|s| s.record.info.first_deployed.as_str()).find(|t| !t.is_empty());
        let now = now();
        let first_deployed = match input.operation {
            RevisionOperation::Install => now.clone(),
            RevisionOperation::Upgrade | RevisionOperation::Rollback { .. } => {
                first.unwrap_or(&now).to_owned()
            }
        };
        let mut labels = inherited.map(|r| r.labels.clone()).unwrap_or_default();
        labels.extend(input.labels.clone());
        labels.retain(|_, value| value != "null");
        if let Some(owner) = input.owner {
            labels.insert(OWNER_LABEL.to_owned(), owner.to_owned());
        }
        Record {
            name: input.id.name.clone(),
            namespace: input.id.namespace.clone(),
            version: revision,
            info: Info {
                first_deployed,
                last_deployed: now,
                status: input.operation.pending(),
                description: input.operation.underway(),
                notes: input.rendered.notes.clone(),
                rollback_revision: match input.operation {
                    RevisionOperation::Rollback { to } => to,
                    RevisionOperation::Install | RevisionOperation::Upgrade => 0,
                },
                ..Info::default()
            },
            chart: input.chart.clone(),
            config: input.config.clone(),
            manifest: input.rendered.manifest_text.clone(),
            hooks: self.new_hooks(),
            apply_method: input.method.as_str().to_owned(),
            labels,
            extension: RecordExtension {
                cause: input.cause.to_owned(),
                holder: self.context.options.holder.clone(),
                crds: hex(&crd_files::digest(&input.rendered.crds)),
                displaced: displaced(older, revision),
                retains: input.options.objects.prune_config == PruneConfig::Unreferenced,
                ..RecordExtension::default()
            },
            ..Record::default()
        }
    }
}

/// The revisions of a history that are superseded, and were read because their objects may be in the cluster.
fn displaced(older: &[StoredRecord], revision: u64) -> Vec<u64> {
    let records = older.iter().map(|stored| &stored.record);
    let superseded = records.filter(|r| r.info.status == ReleaseStatus::Superseded && r.version != revision);
    superseded.map(|r| r.version).collect()
}
