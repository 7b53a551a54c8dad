//! Executes a revision: from the decision to the recorded result.
//!
//! Owns the writes to objects: CRDs, chart hooks, applies, waits, deletions, rollback and uninstall. Does not decide what is done, and
//! knows nothing of how records are encoded.

pub(crate) mod apply;
pub(crate) mod autoscaler;
pub(crate) mod chart_hooks;
pub(crate) mod client_write;
pub(crate) mod crds;
mod fail;
mod finish;
mod pending_record;
pub(crate) mod readiness;
pub(crate) mod recreate;
pub(crate) mod release_testing;
pub(crate) mod retain;
pub(crate) mod rollback;
pub(crate) mod sanitize;
pub(crate) mod uninstall;

use crate::{
    decide::Decision,
    desired_objects::{self, DesiredObject, Digest, Scopes, resolve},
    drift::ExpectedObject,
    engine::Engine,
    error::{EngineError, Result},
    execute::{chart_hooks::HookRunner, client_write::Originals, readiness::status_wait},
    lock::{
        lock_policy,
        release_lease::{ReleaseLease, lost},
    },
    observe,
    operation::RevisionOperation,
    outcome::ReleaseOutcome,
    plan::{self, BaseObject, Deletion, Plan, PlanStep, dependency_graph},
    record::{RecordedHook, ReleaseStatus, StoredRecord, release_history::History, served_kinds},
    request::{Adoption, ApplyMethod, HookEvent, ReleaseId, ReleaseOptions, RenderedRelease, Wait},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use windlass_cluster::{
    ApplyOptions, CacheLookup, Gvk, ObjectKey, ObjectRef, Propagation, ServedKinds, Validation, Watches,
};

/// Time limit of recording a failure: the caller is waiting for the error.
const RECORD_FAILURE_TIMEOUT: Duration = Duration::from_secs(60);

/// The input of a revision: a request, or a record that is rolled back to.
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
    /// The cause that the caller gave.
    pub(crate) cause: &'a str,
    pub(crate) options: &'a ReleaseOptions,
    /// How objects are written.
    pub(crate) method: ApplyMethod,
    pub(crate) operation: RevisionOperation,
    pub(crate) state: Digest,
}

pub(crate) struct RevisionExecution<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) input: &'a RevisionInput<'a>,
}

impl RevisionExecution<'_> {
    pub(crate) async fn run(
        &self,
        decision: Decision,
        history: History,
        lease: &mut Option<ReleaseLease>,
    ) -> Result<ReleaseOutcome> {
        let mut outcome = ReleaseOutcome::new(decision.action, decision.reason, decision.revision);
        let prepare = async {
            let (targets, plan) = self.prepare_cluster(&decision, &history, lease, &mut outcome).await?;
            outcome.warnings.extend(self.engine.departing_crds(self.input, &plan).await);
            Ok::<_, EngineError>((targets, plan))
        };
        let (targets, plan) = tokio::select! {
            ready = prepare => ready?,
            error = self.engine.given_up() => return Err(error),
        };
        if self.input.options.dry_run {
            return Ok(self.predicted_outcome(outcome, &plan, &targets));
        }
        self.execute(&decision, history, &targets, &plan, lease.as_ref(), outcome).await
    }

    /// Everything before the pending record: the plan, the lock, the namespace and CRDs.
    async fn prepare_cluster(
        &self,
        decision: &Decision,
        history: &History,
        lease: &mut Option<ReleaseLease>,
        outcome: &mut ReleaseOutcome,
    ) -> Result<(Vec<DesiredObject>, Plan)> {
        let (engine, input) = (self.engine, self.input);
        let ReleaseOptions { dry_run, create_namespace, revisions, .. } = *input.options;
        let bare = outcome.clone();
        // No holder of the lock changed the release since it was read if the newest record is unchanged.
        let lock = async |due: bool| {
            if !due {
                return Ok::<_, EngineError>((None, Ok(true)));
            }
            let held = engine.lock(input.id, revisions.break_lock, history.records.last()).await?;
            Ok((held, engine.is_current(input.id, history).await))
        };
        let plan = async {
            let (targets, plan) = self.prepare(decision, history, outcome).await?;
            crds::check_templated(&engine.cluster, &targets, &plan).await?;
            Ok::<_, EngineError>((targets, plan))
        };
        // The lock is acquired while objects are read, unless its namespace may not exist yet.
        let early = lease.is_none() && !dry_run && !create_namespace;
        let (planned, locked) = futures::join!(plan, lock(early));
        // Stored first: the caller releases the lock, also without a plan.
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
        // Last before the record: a refused operation leaves no CRD.
        if !dry_run && self.apply_crds(decision, outcome).await? {
            *outcome = ReleaseOutcome { changed: std::mem::take(&mut outcome.changed), ..bare };
            return self.prepare(decision, history, outcome).await;
        }
        Ok(ready)
    }

    /// Applies the CRDs of `crds/` if the policy asks for it; returns whether new kinds are served.
    async fn apply_crds(&self, decision: &Decision, outcome: &mut ReleaseOutcome) -> Result<bool> {
        let (engine, input) = (self.engine, self.input);
        if input.rendered.crds.is_empty() || !input.options.crds.is_due(decision.installing) {
            return Ok(false);
        }
        let before = engine.cluster.kinds().await?;
        outcome
            .changed
            .extend(engine.install_crds(input.id, &input.rendered.crds, input.options.crd_rules()).await?);
        Ok(!Arc::ptr_eq(&before, &engine.cluster.kinds().await?))
    }

    /// From the pending record to the deployed one.
    async fn execute(
        &self,
        decision: &Decision,
        history: History,
        targets: &[DesiredObject],
        plan: &Plan,
        lease: Option<&ReleaseLease>,
        mut outcome: ReleaseOutcome,
    ) -> Result<ReleaseOutcome> {
        let engine = self.engine;
        let History { revisions, records, .. } = history;
        // Of a revision that is tried again, something may be there from before.
        let mut tried = records.iter().filter(|stored| stored.record.version == decision.revision);
        let untouched = tried.all(|stored| stored.record.extension.refused);
        let (mut current, others) = self.begin(decision, &revisions, records).await?;
        let mut expected = BTreeMap::new();
        let result = tokio::select! {
            result = self.apply_all(&mut current, targets, plan, &mut expected, &mut outcome) => result,
            error = engine.given_up() => Err(error),
            () = lost(lease) => Err(EngineError::LockLost),
        };
        if let Err(error) = result {
            let pre = self.input.operation.pre();
            let ran_hooks = self.input.rendered.hooks.iter().any(|hook| hook.events.contains(&pre));
            current.record.extension.refused =
                untouched && expected.is_empty() && !ran_hooks && error.forbids_all_writes();
            let displaced = self.displaced_by(&error, others);
            current.record.extension.displaced.extend(displaced.iter().map(|stored| stored.record.version));
            let recorded = async {
                self.fail(&mut current, &error).await;
                self.displace(displaced).await;
            };
            if tokio::time::timeout(RECORD_FAILURE_TIMEOUT, recorded).await.is_err() {
                tracing::warn!(release = %self.input.id, "cannot record the failure: the server does not answer");
            }
            // Objects that another process owns now are not ours to delete.
            let ours = !matches!(error, EngineError::LockLost);
            if ours
                && self.input.options.failure.cleanup
                && self.input.operation != RevisionOperation::Install
            {
                self.clean_up(targets, plan).await;
            }
            return Err(error);
        }
        self.finish(current, others, decision, expected, outcome).await
    }

    /// Plans: reads, and writes nothing.
    pub(crate) async fn prepare(
        &self,
        decision: &Decision,
        history: &History,
        outcome: &mut ReleaseOutcome,
    ) -> Result<(Vec<DesiredObject>, Plan)> {
        let (engine, input) = (self.engine, self.input);
        let documents = || input.rendered.manifests.iter().map(|m| (m.source.as_str(), &m.object));
        desired_objects::check_metadata(documents().map(|(_, object)| object))
            .map_err(|reason| EngineError::Undecodable { manifest: input.operation.manifest(), reason })?;
        // CRDs that are not created bring no kind.
        let crds = match input.options.crds.is_due(decision.installing) {
            true => &input.rendered.crds[..],
            false => &[],
        };
        let kinds = engine.kinds_for(documents().map(|(_, object)| object), crds).await?;
        let scopes = Scopes::new(&kinds, crds, documents().map(|(_, object)| object));
        let targets = resolve(documents(), input.id, &scopes)?;
        let order = dependency_graph::order(&targets)?;
        let base = self.base(decision, history, &kinds, &scopes, outcome)?;
        if let Some(newest) =
            history.newest().filter(|newest| newest.info.status == ReleaseStatus::Uninstalling)
        {
            let half = lock_policy::half_uninstalled(newest, history.free, jiff::Timestamp::now());
            outcome.warnings.push(format!("{half}: the objects that it deleted are created again"));
        }
        let all = || targets.iter().map(|t| &t.object).chain(base.iter().flatten().map(|o| &o.object));
        engine.watch_kinds(all()).await?;
        let manager = &engine.options.field_manager;
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
            && !engine.acts_for_another;
        let needs_read = |object: &&ObjectRef| {
            let absent = |watches: &Watches| matches!(watches.lookup(object, None), CacheLookup::Absent);
            !blind || crds::is_crd(object) || !engine.watches.as_ref().is_some_and(absent)
        };
        let wanted = wanted.into_values().filter(needs_read);
        let seen = observe::objects(&engine.cluster, engine.watches.as_ref(), manager, wanted).await?;
        plan::check_ownership(&targets, &base, &seen, input.id, ownership, input.operation.continued())?;
        let kept_crds = engine.kept_crds(input);
        let mut plan = plan::plan(&targets, order, &base, &seen, input.id, (input.method, &kept_crds));
        plan.originals = originals(base, input.operation);
        outcome.unchanged = plan.unchanged.len();
        outcome.kept.extend(plan.kept.iter().cloned());
        Ok((targets, plan))
    }

    /// The objects of recorded revisions that may be in the cluster.
    fn base(
        &self,
        decision: &Decision,
        history: &History,
        kinds: &ServedKinds,
        scopes: &Scopes<'_>,
        outcome: &mut ReleaseOutcome,
    ) -> Result<Vec<Vec<BaseObject>>> {
        let mut base = Vec::new();
        for stored in history.records.iter().filter(|r| decision.base.contains(&r.record.version)) {
            let record = &stored.record;
            let mut objects = Vec::new();
            for manifest in self.engine.manifests_of(record) {
                let mut manifest = manifest?;
                let warnings = served_kinds::to_served(std::iter::once(&mut manifest.object), kinds);
                outcome
                    .warnings
                    .extend(warnings.into_iter().map(|t| format!("revision {}: {t}", record.version)));
                match resolve(
                    std::iter::once((manifest.source.as_str(), &manifest.object)),
                    self.input.id,
                    scopes,
                ) {
                    Ok(targets) => objects.extend(targets.into_iter().map(|target| BaseObject {
                        applied: record.extension.applied.get(&target.key.to_string()).copied(),
                        object: target.object,
                        digest: target.digest,
                        body: (self.input.method == ApplyMethod::Client).then_some(target.body),
                    })),
                    // An object of a kind that is no longer served is gone, or not accessible; an object that was
                    // never valid was never applied.
                    Err(error) => {
                        outcome.warnings.push(format!(
                            "revision {} has an object that is skipped: {error}",
                            record.version
                        ));
                    }
                }
            }
            objects.extend(record.extension.retained.iter().map(|retained| BaseObject {
                object: retained.object(),
                digest: Digest::default(),
                applied: None,
                body: None,
            }));
            base.push(objects);
        }
        Ok(base)
    }

    fn predicted_outcome(
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
        let name = &self.input.id.namespace;
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

    async fn apply_all(
        &self,
        current: &mut StoredRecord,
        targets: &[DesiredObject],
        plan: &Plan,
        expected: &mut BTreeMap<ObjectKey, ExpectedObject>,
        outcome: &mut ReleaseOutcome,
    ) -> Result<()> {
        let (engine, input) = (self.engine, self.input);
        self.hooks(input.operation.pre(), current).await?;
        let mut applier = engine.applier(input.id, input.options);
        applier.client =
            (input.method == ApplyMethod::Client).then_some(Originals::Previous(&plan.originals));
        for step in &plan.unchanged {
            let target = &targets[step.target];
            if let Some(seen) = &step.before {
                let written = input.method.written_of(seen);
                let mut as_left =
                    ExpectedObject::remembered(target.object.clone(), &target.body, input.method, written);
                as_left.note(seen);
                expected.insert(target.key.clone(), as_left);
            }
        }
        for (wave, steps) in &plan.waves {
            self.await_needed(targets, plan, steps).await?;
            let (written, result) = applier.phase(targets, steps).await;
            for one in written {
                let target = &targets[one.target];
                if one.left {
                    current.record.extension.left.push(target.key.to_string());
                }
                one.record(target, expected, outcome);
            }
            if let Err(stopped) = result {
                return Err(self.with_conflicts_ahead(stopped, targets, plan, wave).await);
            }
            let applied = steps.iter().map(|step| &targets[step.target]);
            crds::await_applied(&engine.cluster, applied, input.options.timeout).await?;
        }
        let at_once = |d: &&Deletion| !retain::waits(input.options, &d.object);
        let groups: Vec<Vec<Deletion>> =
            plan.prune.iter().map(|group| group.iter().filter(at_once).cloned().collect()).collect();
        let (pruned, result) = applier.prune(&groups, Propagation::Background).await;
        outcome.pruned.extend(pruned);
        result?;
        let progress = engine.progress_of(input.id);
        status_wait::all_ready(&engine.cluster, targets.iter(), input.options, progress).await?;
        // After the wait: a rollout that is complete has no Pods of the old revision.
        // On the heap: a rare step must not enlarge the stack of each operation.
        Box::pin(self.prune_unreferenced(&plan.prune, current, outcome)).await?;
        self.hooks(input.operation.post(), current).await
    }

    /// Waits until the dependencies of these objects are ready.
    async fn await_needed(&self, targets: &[DesiredObject], plan: &Plan, steps: &[PlanStep]) -> Result<()> {
        let needed: BTreeSet<usize> =
            steps.iter().flat_map(|step| plan.awaits[step.target].iter().copied()).collect();
        if needed.is_empty() {
            return Ok(());
        }
        let options = ReleaseOptions { wait: Wait::ReadyAndJobs, ..self.input.options.clone() };
        let needed = needed.into_iter().map(|needed| &targets[needed]);
        status_wait::all_ready(&self.engine.cluster, needed, &options, self.engine.progress_of(self.input.id))
            .await
    }

    fn hook_runner(&self) -> HookRunner<'_> {
        self.engine.hook_runner(self.input.id, self.input.options, self.input.method)
    }

    async fn hooks(&self, event: HookEvent, current: &mut StoredRecord) -> Result<()> {
        if !self.input.options.run_hooks {
            return Ok(());
        }
        let objects: Vec<Value> = self.input.rendered.hooks.iter().map(|h| h.object.clone()).collect();
        self.hook_runner().run(event, current, &objects).await
    }
}

/// The objects of past revisions of which patches are made, as with Helm: those of the deployed revision, and for a rollback those of the
/// newest.
fn originals(base: Vec<Vec<BaseObject>>, operation: RevisionOperation) -> BTreeMap<ObjectKey, Value> {
    let mut base = base;
    if matches!(operation, RevisionOperation::Rollback { .. }) {
        base.reverse();
    }
    let mut originals = BTreeMap::new();
    for old in base.into_iter().flatten() {
        let Some(body) = old.body else { continue };
        originals.entry(old.object.key()).or_insert(body);
    }
    originals
}
