//! Executes a revision: from the decision to the recorded result.
//!
//! Owns the writes to objects: CRDs, chart hooks, applies, waits, deletions, rollback and uninstall. Does not decide what is done, and
//! knows nothing of how records are encoded.

pub(crate) mod apply;
pub(crate) mod chart_hooks;
pub(crate) mod crds;
pub(crate) mod readiness;
pub(crate) mod recreate;
pub(crate) mod release_testing;
pub(crate) mod rollback;
pub(crate) mod sanitize;
pub(crate) mod uninstall;

use crate::cluster::{ApplyOptions, Gvk, ObjectKey, ObjectRef, Propagation, ServedKinds, Validation};
use crate::redact;
use crate::release::{
    decide::{Decision, ReleaseAction},
    desired_objects::{DesiredObject, Digest, Scopes, resolve},
    drift::{ExpectedObject, correct_drift::hex},
    engine::Engine,
    engine_state::CachedRelease,
    error::{EngineError, Result},
    execute::{apply::TRIES, chart_hooks::HookRunner, readiness::status_wait},
    lock::{
        lock_policy,
        release_lease::{ReleaseLease, lost},
    },
    observe::{self, History},
    operation::RevisionOperation,
    outcome::ReleaseOutcome,
    plan::{
        self, BaseObject, Deletion, ObservedObjects, Plan, PlanStep,
        dependency_graph::{self, Wave},
        ownership,
    },
    record::{
        Info, OWNER_LABEL, Record, RecordError, RecordExtension, RecordedHook, ReleaseStatus, StoredRecord,
        now, served_kinds, to_prune,
    },
    request::{HookEvent, ReleaseId, ReleaseOptions, RenderedRelease, Wait},
};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

/// How long it is tried to record a failure: whoever asked has given up, or is to hear of it.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// What a revision is made of, wherever it comes from: a request, or a record that is rolled back to.
#[derive(Clone, Copy)]
pub(crate) struct RevisionInput<'a> {
    pub(crate) id: &'a ReleaseId,
    pub(crate) rendered: &'a RenderedRelease,
    pub(crate) chart: &'a Value,
    pub(crate) config: &'a Value,
    pub(crate) owner: Option<&'a str>,
    pub(crate) description: Option<&'a str>,
    pub(crate) labels: &'a BTreeMap<String, String>,
    /// The hooks of the revision that is repeated.
    pub(crate) old_hooks: &'a [RecordedHook],
    /// Why it is made, as the caller says.
    pub(crate) cause: &'a str,
    pub(crate) options: &'a ReleaseOptions,
    pub(crate) operation: RevisionOperation,
    pub(crate) state: Digest,
}

pub(crate) struct RevisionExecution<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) work: &'a RevisionInput<'a>,
}

impl RevisionExecution<'_> {
    pub(crate) async fn run(
        &self,
        decision: Decision,
        past: History,
        lease: &mut Option<ReleaseLease>,
    ) -> Result<ReleaseOutcome> {
        let mut outcome = ReleaseOutcome::new(decision.action, decision.reason, decision.revision);
        let (targets, plan) = tokio::select! {
            ready = self.get_ready(&decision, &past, lease, &mut outcome) => ready?,
            error = self.engine.given_up() => return Err(error),
        };
        if self.work.options.dry_run {
            return Ok(self.foretell(outcome, &plan, &targets));
        }
        self.make(&decision, past, &targets, &plan, lease.as_ref(), outcome).await
    }

    /// Everything up to the pending record: the plan, the lock, the namespace and CRDs.
    async fn get_ready(
        &self,
        decision: &Decision,
        past: &History,
        lease: &mut Option<ReleaseLease>,
        outcome: &mut ReleaseOutcome,
    ) -> Result<(Vec<DesiredObject>, Plan)> {
        let (engine, work) = (self.engine, self.work);
        let ReleaseOptions { dry_run, create_namespace, break_lock, .. } = *work.options;
        let bare = outcome.clone();
        // Nobody who respects the lock can have changed the release since it was read if the newest record is as it was then.
        let lock = async |due: bool| {
            if !due {
                return Ok::<_, EngineError>((None, Ok(true)));
            }
            let held = engine.lock(work.id, break_lock, past.records.last()).await?;
            Ok((held, engine.is_current(work.id, past).await))
        };
        let plan = async {
            let (targets, plan) = self.prepare(decision, past, outcome).await?;
            crds::check_templated(&engine.cluster, &targets, &plan).await?;
            Ok::<_, EngineError>((targets, plan))
        };
        // The lock is taken while objects are looked at, unless its namespace may not be there yet.
        let early = lease.is_none() && !dry_run && !create_namespace;
        let (planned, locked) = futures::join!(plan, lock(early));
        // Kept first of all: the caller lets it go, also where there is no plan.
        let as_read = locked.and_then(|(held, as_read)| {
            *lease = lease.take().or(held);
            as_read
        });
        if matches!(as_read, Ok(false)) {
            return Err(EngineError::Overtaken);
        }
        let ready = planned?;
        as_read?;
        if !dry_run && create_namespace {
            self.create_namespace().await?;
            if lease.is_none() {
                let (held, as_read) = lock(true).await?;
                *lease = held;
                if !as_read? {
                    return Err(EngineError::Overtaken);
                }
            }
        }
        // Last of all that comes before the record: what is refused leaves no CRD.
        if !dry_run && self.bring_kinds(decision, outcome).await? {
            *outcome = ReleaseOutcome { changed: std::mem::take(&mut outcome.changed), ..bare };
            return self.prepare(decision, past, outcome).await;
        }
        Ok(ready)
    }

    /// Writes the CRDs of `crds/`, if they are due; whether there are kinds now that were not known before.
    async fn bring_kinds(&self, decision: &Decision, outcome: &mut ReleaseOutcome) -> Result<bool> {
        let (engine, work) = (self.engine, self.work);
        if work.rendered.crds.is_empty() || !work.options.crds.is_due(decision.installing) {
            return Ok(false);
        }
        let before = engine.cluster.kinds().await?;
        outcome
            .changed
            .extend(engine.install_crds(work.id, &work.rendered.crds, work.options.crd_rules()).await?);
        Ok(!Arc::ptr_eq(&before, &engine.cluster.kinds().await?))
    }

    /// From the pending record to the deployed one.
    async fn make(
        &self,
        decision: &Decision,
        past: History,
        targets: &[DesiredObject],
        plan: &Plan,
        lease: Option<&ReleaseLease>,
        mut outcome: ReleaseOutcome,
    ) -> Result<ReleaseOutcome> {
        let engine = self.engine;
        let History { history, records, .. } = past;
        let (mut current, others) = self.begin(decision, &history, records).await?;
        let mut expected = BTreeMap::new();
        let result = tokio::select! {
            result = self.apply_all(&mut current, targets, plan, &mut expected, &mut outcome) => result,
            error = engine.given_up() => Err(error),
            () = lost(lease) => Err(EngineError::LockLost),
        };
        if let Err(error) = result {
            if tokio::time::timeout(LAST_WORDS, self.fail(&mut current, &error)).await.is_err() {
                tracing::warn!(release = %self.work.id, "the failure could not be recorded: the server does not answer");
            }
            // What is someone else's by now is theirs to keep or to delete.
            let ours = !matches!(error, EngineError::LockLost);
            if ours && self.work.options.cleanup_on_fail && self.work.operation != RevisionOperation::Install
            {
                self.clean_up(targets, plan).await;
            }
            return Err(error);
        }
        self.finish(current, others, decision, expected, outcome).await
    }

    /// Everything up to the plan: reads, and no write.
    pub(crate) async fn prepare(
        &self,
        decision: &Decision,
        past: &History,
        outcome: &mut ReleaseOutcome,
    ) -> Result<(Vec<DesiredObject>, Plan)> {
        let (engine, work) = (self.engine, self.work);
        let kinds = engine.cluster.kinds().await?;
        let documents = || work.rendered.manifests.iter().map(|m| (m.source.as_str(), &m.object));
        let scopes = Scopes::new(&kinds, &work.rendered.crds, documents().map(|(_, object)| object));
        let targets = resolve(documents(), work.id, &scopes)?;
        let order = dependency_graph::order(&targets)?;
        let base = self.base(decision, past, &kinds, &scopes, outcome)?;
        if let Some(newest) = past.newest().filter(|newest| newest.info.status == ReleaseStatus::Uninstalling)
        {
            let half = lock_policy::half_uninstalled(newest, past.free, jiff::Timestamp::now());
            outcome.warnings.push(format!("{half}: what it deleted is made again"));
        }
        let all = || targets.iter().map(|t| &t.object).chain(base.iter().flatten().map(|o| &o.object));
        engine.watch_kinds(all()).await?;
        let manager = &engine.options.field_manager;
        let wanted: BTreeMap<ObjectKey, &ObjectRef> = all().map(|object| (object.key(), object)).collect();
        let seen =
            observe::objects(&engine.cluster, engine.watches.as_ref(), manager, wanted.into_values()).await?;
        let adoption = work.options.adoption;
        plan::check_ownership(&targets, &base, &seen, work.id, adoption, work.operation.continued())?;
        let plan = plan::plan(&targets, order, &base, &seen, work.id);
        outcome.unchanged = plan.unchanged.len();
        outcome.kept.extend(plan.kept.iter().cloned());
        Ok((targets, plan))
    }

    /// The objects of past revisions that may be in the cluster.
    fn base(
        &self,
        decision: &Decision,
        past: &History,
        kinds: &ServedKinds,
        scopes: &Scopes<'_>,
        outcome: &mut ReleaseOutcome,
    ) -> Result<Vec<Vec<BaseObject>>> {
        let mut base = Vec::new();
        for stored in past.records.iter().filter(|r| decision.base.contains(&r.record.version)) {
            let record = &stored.record;
            let mut objects = Vec::new();
            for manifest in self.engine.manifests_of(record) {
                let mut manifest = manifest?;
                let told = served_kinds::to_served(std::iter::once(&mut manifest.object), kinds);
                outcome
                    .warnings
                    .extend(told.into_iter().map(|t| format!("revision {}: {t}", record.version)));
                match resolve(
                    std::iter::once((manifest.source.as_str(), &manifest.object)),
                    self.work.id,
                    scopes,
                ) {
                    Ok(targets) => objects.extend(targets.into_iter().map(|target| BaseObject {
                        applied: record.extension.applied.get(&target.key.to_string()).copied(),
                        object: target.object,
                        digest: target.digest,
                    })),
                    // An object of a kind that is no longer served is gone, or out of our reach; one that was never
                    // valid was never applied.
                    Err(error) => {
                        outcome.warnings.push(format!(
                            "revision {} has an object that is passed over: {error}",
                            record.version
                        ));
                    }
                }
            }
            base.push(objects);
        }
        Ok(base)
    }

    fn foretell(
        &self,
        mut outcome: ReleaseOutcome,
        plan: &Plan,
        targets: &[DesiredObject],
    ) -> ReleaseOutcome {
        for step in plan.waves.values().flatten() {
            let object = targets[step.target].object.clone();
            if step.before.is_some() { outcome.changed.push(object) } else { outcome.created.push(object) }
        }
        outcome.pruned.extend(plan.prune.iter().flatten().map(|d| d.object.clone()));
        outcome.record = Some(Arc::new(self.new_record(&[], outcome.revision)));
        outcome
    }

    async fn create_namespace(&self) -> Result<()> {
        let name = &self.work.id.namespace;
        let object = ObjectRef::new(Gvk::new("v1", "Namespace"), None, name);
        if self.engine.cluster.get_metadata(&object).await?.is_some() {
            return Ok(());
        }
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"name": name}}});
        let manager = &self.engine.options.field_manager;
        let options = ApplyOptions {
            manager,
            force: false,
            validation: Validation::Warn,
            dry_run: false,
            whole: false,
        };
        self.engine.cluster.apply(&object, &body, options).await?;
        Ok(())
    }

    /// Writes the pending record; makes room for it, and tells of those that nobody will finish.
    async fn begin(
        &self,
        decision: &Decision,
        history: &[crate::release::record::Revision],
        mut records: Vec<StoredRecord>,
    ) -> Result<(StoredRecord, Vec<StoredRecord>)> {
        let store = self.engine.store();
        let id = self.work.id;
        if decision.action == ReleaseAction::Resume
            && let Some(place) = records.iter().position(|r| r.record.version == decision.revision)
        {
            let mut current = records.swap_remove(place);
            let fresh = self.new_record(&records, decision.revision);
            let old = std::mem::replace(&mut current.record, fresh);
            // What was done is not done again.
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
            let hooks: Vec<Value> =
                self.engine.rendered_of(&stored.record)?.hooks.into_iter().map(|h| h.object).collect();
            self.hook_runner().clean_up(&stored.record.hooks, &hooks).await?;
            stored.record.info.status = ReleaseStatus::Failed;
            stored.record.info.description = format!("Abandoned while {status}");
            store.update(stored).await?;
        }
        for revision in to_prune(history, self.work.options.history_max) {
            store.delete(id, revision).await?;
            records.retain(|r| r.record.version != revision);
        }
        let created = store.create(self.new_record(&records, decision.revision)).await;
        let current = created.map_err(|error| match error {
            RecordError::Exists(_) if history.is_empty() => EngineError::Overtaken,
            error => error.into(),
        })?;
        Ok((current, records))
    }

    /// The hooks of the new record; those of a rollback remember their last run.
    fn new_hooks(&self) -> Vec<RecordedHook> {
        let mut hooks: Vec<RecordedHook> = self.work.rendered.hooks.iter().map(RecordedHook::from).collect();
        for (hook, old) in hooks.iter_mut().zip(self.work.old_hooks) {
            hook.last_run = old.last_run.clone();
        }
        hooks
    }

    fn new_record(&self, past: &[StoredRecord], revision: u64) -> Record {
        let work = self.work;
        let newest = past.iter().map(|s| &s.record).max_by_key(|r| r.version);
        // A rollback has the labels of the revision that it repeats.
        let inherited = newest.filter(|_| work.operation == RevisionOperation::Upgrade);
        let first = past.iter().map(|s| s.record.info.first_deployed.as_str()).find(|t| !t.is_empty());
        let now = now();
        let first_deployed = match work.operation {
            RevisionOperation::Install => now.clone(),
            RevisionOperation::Upgrade | RevisionOperation::Rollback { .. } => {
                first.unwrap_or(&now).to_owned()
            }
        };
        let mut labels = inherited.map(|r| r.labels.clone()).unwrap_or_default();
        labels.extend(work.labels.clone());
        labels.retain(|_, value| value != "null");
        if let Some(owner) = work.owner {
            labels.insert(OWNER_LABEL.to_owned(), owner.to_owned());
        }
        Record {
            name: work.id.name.clone(),
            namespace: work.id.namespace.clone(),
            version: revision,
            info: Info {
                first_deployed,
                last_deployed: now,
                status: work.operation.pending(),
                description: work.operation.underway(),
                notes: work.rendered.notes.clone(),
                rollback_revision: match work.operation {
                    RevisionOperation::Rollback { to } => to,
                    RevisionOperation::Install | RevisionOperation::Upgrade => 0,
                },
                ..Info::default()
            },
            chart: work.chart.clone(),
            config: work.config.clone(),
            manifest: work.rendered.manifest_text.clone(),
            hooks: self.new_hooks(),
            apply_method: "ssa".to_owned(),
            labels,
            extension: RecordExtension {
                cause: work.cause.to_owned(),
                holder: self.engine.options.holder.clone(),
                crds: hex(&crds::digest(&work.rendered.crds)),
                ..RecordExtension::default()
            },
            ..Record::default()
        }
    }

    async fn apply_all(
        &self,
        current: &mut StoredRecord,
        targets: &[DesiredObject],
        plan: &Plan,
        expected: &mut BTreeMap<ObjectKey, ExpectedObject>,
        outcome: &mut ReleaseOutcome,
    ) -> Result<()> {
        let (engine, work) = (self.engine, self.work);
        self.hooks(work.operation.pre(), current).await?;
        let applier = engine.applier(work.id, work.options);
        for step in &plan.unchanged {
            let target = &targets[step.target];
            if let Some(seen) = &step.before {
                let mut as_left =
                    ExpectedObject::remembered(target.object.clone(), &target.body, seen.applied);
                as_left.note(seen);
                expected.insert(target.key.clone(), as_left);
            }
        }
        for (wave, steps) in &plan.waves {
            self.await_needed(targets, plan, steps).await?;
            let (written, result) = applier.phase(targets, steps).await;
            for one in written {
                let target = &targets[one.target];
                expected.insert(
                    target.key.clone(),
                    ExpectedObject::written(target.object.clone(), &target.body, &one.after),
                );
                if one.created {
                    outcome.created.push(target.object.clone());
                } else if one.changed {
                    outcome.changed.push(target.object.clone());
                } else {
                    outcome.unchanged += 1;
                }
                if one.left {
                    current.record.extension.left.push(target.key.to_string());
                }
                outcome.warnings.extend(one.warnings);
            }
            if let Err(stopped) = result {
                return Err(self.with_conflicts_ahead(stopped, targets, plan, wave).await);
            }
            let applied = steps.iter().map(|step| &targets[step.target]);
            crds::await_applied(&engine.cluster, applied, work.options.timeout).await?;
        }
        let (pruned, result) = applier.prune(&plan.prune, Propagation::Background).await;
        outcome.pruned.extend(pruned);
        result?;
        let progress = engine.progress_of(work.id);
        status_wait::all_ready(&engine.cluster, targets.iter(), work.options, progress).await?;
        self.hooks(work.operation.post(), current).await
    }

    /// A failure of a wave. Where it is about fields of others, those in later waves are told with it: who settles the first ones
    /// need not meet them one wave after the other.
    async fn with_conflicts_ahead(
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
        let applier = self.engine.applier(self.work.id, self.work.options);
        let further = applier.conflicts_ahead(targets, later).await;
        match further.is_empty() {
            true => stopped,
            false => EngineError::Conflicts { stopped: Box::new(stopped), further },
        }
    }

    /// Waits for what the annotations of these objects ask to be ready before them.
    async fn await_needed(&self, targets: &[DesiredObject], plan: &Plan, steps: &[PlanStep]) -> Result<()> {
        let needed: BTreeSet<usize> =
            steps.iter().flat_map(|step| plan.awaits[step.target].iter().copied()).collect();
        if needed.is_empty() {
            return Ok(());
        }
        let options = ReleaseOptions { wait: Wait::ReadyAndJobs, ..self.work.options.clone() };
        let needed = needed.into_iter().map(|needed| &targets[needed]);
        status_wait::all_ready(&self.engine.cluster, needed, &options, self.engine.progress_of(self.work.id))
            .await
    }

    fn hook_runner(&self) -> HookRunner<'_> {
        self.engine.hook_runner(self.work.id, self.work.options)
    }

    async fn hooks(&self, event: HookEvent, current: &mut StoredRecord) -> Result<()> {
        if !self.work.options.run_hooks {
            return Ok(());
        }
        let objects: Vec<Value> = self.work.rendered.hooks.iter().map(|h| h.object.clone()).collect();
        self.hook_runner().run(event, current, &objects).await
    }

    /// Records the failure. What cannot be recorded is told in the log: the failure itself matters more.
    async fn fail(&self, current: &mut StoredRecord, error: &EngineError) {
        self.engine.state.forget(self.work.id);
        current.record.info.status = ReleaseStatus::Failed;
        current.record.info.description =
            self.work.operation.failed(&self.work.id.name, &redact::process().mask(&error.to_string()));
        let store = self.engine.store();
        let mut written = store.update(current).await;
        if let Err(RecordError::Changed(_)) = written {
            // A write that was given up on its way may have arrived.
            if let Ok(Some(found)) = store.get(self.work.id, current.record.version).await
                && found.record.extension.holder == current.record.extension.holder
            {
                current.resource_version = found.resource_version;
                written = store.update(current).await;
            }
        }
        if let Err(error) = written {
            tracing::warn!(release = %self.work.id, %error, "the failure could not be recorded");
        }
    }

    /// Deletes what the operation made: what was not there before and now is ours. Whatever was being written when it was given
    /// up counts too.
    async fn clean_up(&self, targets: &[DesiredObject], plan: &Plan) {
        let (engine, work) = (self.engine, self.work);
        let new = plan.waves.values().flatten().filter(|step| step.before.is_none());
        let new: Vec<&ObjectRef> = new.map(|step| &targets[step.target].object).collect();
        let deleted = async {
            let manager = &engine.options.field_manager;
            let seen: ObservedObjects =
                observe::objects(&engine.cluster, None, manager, new.iter().copied()).await?;
            let deletions = new.iter().filter_map(|object| {
                let found = seen.get(&object.key())?.as_ref()?;
                ownership::check(found, work.id).ok()?;
                Some(Deletion { object: (*object).clone(), uid: found.uid.clone() })
            });
            let groups = plan::deletion_groups(deletions.collect());
            engine.applier(work.id, work.options).prune(&groups, Propagation::Background).await.1
        };
        if let Err(error) = deleted.await {
            tracing::warn!(release = %work.id, %error, "what the upgrade created could not be deleted");
        }
    }

    /// The new revision is deployed first, the old ones are superseded then: a crash in between leaves two deployed
    /// ones, of which every reader takes the later, and never none.
    async fn finish(
        &self,
        mut current: StoredRecord,
        others: Vec<StoredRecord>,
        decision: &Decision,
        expected: BTreeMap<ObjectKey, ExpectedObject>,
        mut outcome: ReleaseOutcome,
    ) -> Result<ReleaseOutcome> {
        let (engine, work) = (self.engine, self.work);
        let store = engine.store();
        current.record.info.status = ReleaseStatus::Deployed;
        current.record.info.description =
            work.description.map_or_else(|| work.operation.done(), str::to_owned);
        current.record.extension.applied =
            expected.iter().filter_map(|(key, e)| Some((key.to_string(), e.applied?))).collect();
        let extension = &mut current.record.extension;
        extension.applied.retain(|key, _| !extension.left.contains(key));
        store.update(&mut current).await?;
        let old: BTreeSet<u64> = decision.supersede.iter().copied().collect();
        let superseding = others.into_iter().filter(|r| old.contains(&r.record.version));
        let superseding: Vec<_> = superseding.map(|stored| self.supersede(stored)).collect();
        let superseding = stream::iter(superseding).buffer_unordered(4);
        for result in superseding.collect::<Vec<Result<(), RecordError>>>().await {
            // The next reconcile puts it right.
            if let Err(error) = result {
                tracing::warn!(release = %work.id, %error, "an old revision is still called deployed");
            }
        }
        engine.state.set(
            work.id,
            CachedRelease {
                revision: decision.revision,
                record_version: current.resource_version,
                state: work.state,
                crds: crds::kept_digest(work.options.crds, &work.rendered.crds),
                checksum: work.rendered.checksum.clone(),
                drift: work.options.drift,
                expected,
            },
        );
        outcome.record = Some(Arc::new(current.record));
        Ok(outcome)
    }
}

impl RevisionExecution<'_> {
    /// An old revision is tried more than once: two that are called deployed confuse those who read them.
    async fn supersede(&self, mut stored: StoredRecord) -> Result<(), RecordError> {
        let store = self.engine.store();
        let mut tries = 0;
        loop {
            tries += 1;
            let reused = stored.record.info.status != ReleaseStatus::Deployed;
            stored.record.info.status = ReleaseStatus::Superseded;
            if reused {
                stored.record.info.description = "superseded by new release".to_owned();
            }
            let Err(error) = store.update(&mut stored).await else { return Ok(()) };
            if tries >= TRIES {
                return Err(error);
            }
            match store.get(self.work.id, stored.record.version).await {
                Ok(Some(found)) if found.record.info.status == ReleaseStatus::Superseded => return Ok(()),
                Ok(Some(found)) => stored = found,
                Ok(None) => return Ok(()),
                // Perhaps the next write gets through.
                Err(_) => {}
            }
        }
    }
}

impl Engine {
    /// Watches the kinds of objects, if this engine watches.
    pub(crate) async fn watch_kinds(&self, objects: impl Iterator<Item = &ObjectRef>) -> Result<()> {
        let Some(watches) = &self.watches else { return Ok(()) };
        let kinds = self.cluster.kinds().await?;
        let wanted: BTreeSet<(Gvk, Option<String>)> = objects
            .filter_map(|object| {
                let served = kinds.get(&object.gvk)?;
                served.watchable.then(|| (object.gvk.clone(), object.namespace.clone()))
            })
            .collect();
        watches.watch(wanted).await;
        Ok(())
    }
}
