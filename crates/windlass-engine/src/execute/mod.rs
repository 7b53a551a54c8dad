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
pub(crate) mod rejection;
pub(crate) mod retain;
mod sanitize;

use crate::{
    context::Context,
    deadline::Deadline,
    decide::Decision,
    error::{EngineError, Result},
    execute::{
        apply::Applier, chart_hooks::HookRunner, client_write::Originals, crds::departure,
        readiness::status_wait,
    },
    objects::desired_objects::DesiredObject,
    operation::Operation,
    outcome::ReleaseOutcome,
    plan::{
        Deletion, Plan, PlanStep,
        revision_input::{RevisionInput, RevisionOperation},
    },
    prepared_plan::prepare,
    record::StoredRecord,
    request::{ApplyMethod, HookEvent, ReleaseOptions, Wait},
    state::expected_object::ExpectedObject,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use windlass_cluster::{ApplyOptions, Gvk, ObjectKey, ObjectRef, Propagation, Validation};

/// Time limit of recording a failure: the caller is waiting for the error.
const RECORD_FAILURE_TIMEOUT: Duration = Duration::from_secs(60);

/// The execution of one revision.
pub(crate) struct RevisionExecution<'a> {
    pub(crate) context: &'a Context,
    pub(crate) input: &'a RevisionInput<'a>,
}

impl RevisionExecution<'_> {
    /// Plans, executes and records a decision.
    pub(crate) async fn run(
        &self,
        operation: &mut Operation<'_>,
        decision: Decision,
    ) -> Result<ReleaseOutcome> {
        let mut outcome = ReleaseOutcome::new(decision.action, decision.reason, decision.revision);
        let deadline = operation.deadline.clone();
        let prepared = async {
            let (targets, plan) = self.prepare_cluster(operation, &decision, &mut outcome).await?;
            let context = self.context;
            let departing = departure::warnings(&context.cluster, context.parser, self.input, &plan).await;
            outcome.warnings.extend(departing);
            Ok::<_, EngineError>((targets, plan))
        };
        let (targets, plan) = tokio::select! {
            prepared = prepared => prepared?,
            error = deadline.given_up() => return Err(error),
        };
        if self.input.options.dry_run {
            return Ok(self.predicted_outcome(outcome, &plan, &targets));
        }
        self.execute(operation, &decision, &targets, &plan, outcome).await
    }

    /// Everything before the pending record: the plan, the lock, the namespace and CRDs.
    async fn prepare_cluster(
        &self,
        operation: &mut Operation<'_>,
        decision: &Decision,
        outcome: &mut ReleaseOutcome,
    ) -> Result<(Vec<DesiredObject>, Plan)> {
        let (context, input) = (self.context, self.input);
        let ReleaseOptions { dry_run, create_namespace, revisions, .. } = *input.options;
        let bare = outcome.clone();
        let plan = async {
            let (targets, plan) = prepare(context, input, decision, &operation.history, outcome).await?;
            crds::check_templated(&context.cluster, &targets, &plan).await?;
            Ok::<_, EngineError>((targets, plan))
        };
        // The lock is acquired while objects are read, unless its namespace may not exist yet.
        let early = !operation.lock.is_held() && !dry_run && !create_namespace;
        let lock = async {
            match early {
                true => operation.lock_as_read(revisions.break_lock).await,
                false => Ok((None, Ok(true))),
            }
        };
        let (planned, locked) = futures::join!(plan, lock);
        let as_read = operation.take_lock(locked);
        if matches!(as_read, Ok(false)) {
            return Err(EngineError::Overtaken);
        }
        let ready = planned?;
        as_read?;
        if !dry_run && create_namespace {
            self.create_namespace().await?;
            if !operation.lock.is_held() {
                let locked = operation.lock_as_read(revisions.break_lock).await;
                if !operation.take_lock(locked)? {
                    return Err(EngineError::Overtaken);
                }
            }
        }
        // Last before the record: a refused operation leaves no CRD.
        if !dry_run && self.apply_crds(&operation.deadline, decision, outcome).await? {
            *outcome = ReleaseOutcome { changed: std::mem::take(&mut outcome.changed), ..bare };
            return prepare(context, input, decision, &operation.history, outcome).await;
        }
        Ok(ready)
    }

    /// Applies the CRDs of `crds/` if the policy asks for it; returns whether new kinds are served.
    async fn apply_crds(
        &self,
        deadline: &Deadline,
        decision: &Decision,
        outcome: &mut ReleaseOutcome,
    ) -> Result<bool> {
        let (context, input) = (self.context, self.input);
        let files = &input.rendered.crds;
        if files.is_empty() || !input.options.crds.is_due(decision.installing) {
            return Ok(false);
        }
        let before = context.cluster.kinds().await?;
        let rules = input.options.crd_rules();
        outcome.changed.extend(crds::install(context, deadline, input.id, files, rules).await?);
        Ok(!Arc::ptr_eq(&before, &context.cluster.kinds().await?))
    }

    /// From the pending record to the deployed one.
    async fn execute(
        &self,
        operation: &mut Operation<'_>,
        decision: &Decision,
        targets: &[DesiredObject],
        plan: &Plan,
        mut outcome: ReleaseOutcome,
    ) -> Result<ReleaseOutcome> {
        // Of a revision that is tried again, something may be there from before.
        let records = &operation.history.records;
        let mut tried = records.iter().filter(|stored| stored.record.version == decision.revision);
        let untouched = tried.all(|stored| stored.record.extension.refused);
        let history = std::mem::take(&mut operation.history);
        self.context.state.with(&self.context.key(self.input.id), |known| known.has_successor = true);
        let (mut current, others) = self.begin(decision, &history.revisions, history.records).await?;
        let mut expected = BTreeMap::new();
        let applied = self.apply_all(&mut current, targets, plan, &mut expected, &mut outcome);
        let Err(error) = operation.bounded(applied).await else {
            return self.finish(current, others, decision, expected, outcome).await;
        };
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
        if ours && self.input.options.failure.cleanup && self.input.operation != RevisionOperation::Install {
            self.clean_up(targets, plan).await;
        }
        Err(error)
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
        if self.context.cluster.get_metadata(&object).await?.is_some() {
            return Ok(());
        }
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"name": name}}});
        let manager = self.context.manager();
        let options = ApplyOptions {
            manager,
            force: false,
            validation: Validation::Warn,
            dry_run: false,
            whole: false,
        };
        self.context.cluster.apply(&object, &body, options).await?;
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
        let (context, input) = (self.context, self.input);
        self.hooks(input.operation.pre(), current).await?;
        let mut applier = Applier::new(context, input.id, input.options);
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
            crds::await_applied(&context.cluster, applied, input.options.timeout).await?;
        }
        let at_once = |d: &&Deletion| !retain::waits(input.options, &d.object);
        let groups: Vec<Vec<Deletion>> =
            plan.prune.iter().map(|group| group.iter().filter(at_once).cloned().collect()).collect();
        let (pruned, result) = applier.prune(&groups, Propagation::Background).await;
        outcome.pruned.extend(pruned);
        result?;
        let progress = context.progress_of(input.id);
        let ready = &mut Vec::new();
        status_wait::all_ready(&context.cluster, targets.iter(), input.options, progress, ready).await?;
        // After the wait: a rollout that is complete has no Pods of the old revision.
        // On the heap: a rare step must not enlarge the stack of each operation.
        Box::pin(retain::prune_unreferenced(context, input, &plan.prune, current, outcome)).await?;
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
        status_wait::all_ready(
            &self.context.cluster,
            needed,
            &options,
            self.context.progress_of(self.input.id),
            &mut Vec::new(),
        )
        .await
    }

    fn hook_runner(&self) -> HookRunner<'_> {
        HookRunner::new(self.context, self.input.id, self.input.options, self.input.method)
    }

    async fn hooks(&self, event: HookEvent, current: &mut StoredRecord) -> Result<()> {
        if !self.input.options.run_hooks {
            return Ok(());
        }
        let objects: Vec<Value> = self.input.rendered.hooks.iter().map(|h| h.object.clone()).collect();
        self.hook_runner().run(event, current, &objects).await
    }
}
