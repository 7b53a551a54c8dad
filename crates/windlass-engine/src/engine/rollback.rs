//! Rollback: to an old revision on request, and out of a failed operation.

use crate::{
    context::Context,
    deadline::Deadline,
    decide::{self, Decision, ReleaseAction, reason::ActionReason},
    dry_run::DryRun,
    engine::{Engine, reconcile},
    error::{EngineError, Result},
    objects::{desired_objects::Digest, served_kinds},
    observe::{
        observed_objects::kinds_for,
        release_history::{self, History},
    },
    operation,
    outcome::ReleaseOutcome,
    plan::{
        preview::Preview,
        revision_input::{RevisionInput, RevisionOperation},
    },
    record::{Record, ReleaseStatus, recorded_manifests::state_of},
    request::{
        ApplyMethod, Immutable, Mode, OnFailure, PruneConfig, ReleaseId, ReleaseOptions, RenderedRelease,
        RollbackRequest, UninstallRequest,
    },
};

/// A recorded revision as what is to be, in versions of kinds that the server serves: for a rollback, and to restore its objects.
pub(super) struct RepeatedRevision {
    pub(super) record: Record,
    /// Its manifest.
    rendered: RenderedRelease,
    pub(super) state: Digest,
    /// Warnings about kinds that are no longer served.
    pub(super) warnings: Vec<String>,
}

impl RepeatedRevision {
    pub(super) async fn of(context: &Context, record: Record) -> Result<Self> {
        let mut rendered = context.parser.rendered_of(&record)?;
        let state = state_of(&rendered);
        let kinds = kinds_for(&context.cluster, rendered.objects(), &[]).await?;
        let warnings = served_kinds::to_applicable(&mut rendered, &kinds);
        Ok(Self { record, rendered, state, warnings })
    }

    /// The input of an operation that repeats it, without a description, a cause and runs of hooks.
    pub(super) fn input<'a>(
        &'a self,
        id: &'a ReleaseId,
        (options, method): (&'a ReleaseOptions, ApplyMethod),
        operation: RevisionOperation,
    ) -> RevisionInput<'a> {
        RevisionInput {
            id,
            rendered: &self.rendered,
            chart: &self.record.chart,
            config: &self.record.config,
            owner: self.record.owner(),
            description: None,
            labels: &self.record.labels,
            old_hooks: &[],
            cause: "",
            options,
            method,
            operation,
            state: self.state,
        }
    }
}

/// The revision to roll back to.
struct RollbackTarget {
    to: u64,
    old: RepeatedRevision,
    options: ReleaseOptions,
    method: ApplyMethod,
}

impl RollbackTarget {
    fn input<'a>(&'a self, request: &'a RollbackRequest) -> RevisionInput<'a> {
        let operation = RevisionOperation::Rollback { to: self.to };
        RevisionInput {
            description: request.description.as_deref(),
            old_hooks: &self.old.record.hooks,
            cause: &request.cause,
            ..self.old.input(&request.id, (&self.options, self.method), operation)
        }
    }
}

impl Engine {
    /// Creates a new revision that repeats an old one.
    pub async fn rollback(&self, request: &RollbackRequest) -> Result<ReleaseOutcome> {
        let context = &self.context;
        operation::run(context, &request.id, request.options.deadline, |operation| {
            Box::pin(async move {
                operation.observe(&request.options, None).await?;
                let (target, decision) = decide(context, request, &operation.history).await?;
                let mut outcome =
                    reconcile::plan_and_execute(operation, &target.input(request), decision).await?;
                outcome.warnings.extend(target.old.warnings);
                Ok(outcome)
            })
        })
        .await
    }

    /// Plans a rollback. Writes nothing.
    pub async fn plan_rollback(&self, request: &RollbackRequest) -> Result<Preview> {
        let context = &self.context;
        let history = release_history::without_lock(context, &request.id).await?;
        let (target, decision) = decide(context, request, &history).await?;
        let dry_run = DryRun { context, input: &target.input(request) };
        let mut preview = dry_run.preview(&decision, &history).await?;
        preview.warnings.extend(target.old.warnings);
        Ok(preview)
    }
}

/// The revision to repeat, and the decision.
async fn decide(
    context: &Context,
    request: &RollbackRequest,
    history: &History,
) -> Result<(RollbackTarget, Decision)> {
    let id = &request.id;
    let newest = history.revisions.last().ok_or(EngineError::NotFound)?;
    let unsettled = history.is_unsettled();
    let unfinished = history
        .records
        .last()
        .filter(|r| unsettled || r.record.info.status == ReleaseStatus::PendingRollback);
    let to = match (request.revision, unfinished.map(|r| r.record.info.rollback_revision)) {
        // After a crash the same request means the revision before the crashed one, not the one before that.
        (0, Some(to)) if to > 0 => to,
        (0, _) => newest.revision - 1,
        (revision, _) => revision,
    };
    let old = context.store().get(id, to).await?.ok_or(EngineError::NoRevision(to))?.record;
    let old = RepeatedRevision::of(context, old).await?;
    let observer = reconcile::observer(context, history, old.record.owner());
    let states =
        decide::revision_states(history, observer, |record| reconcile::equals(context, record, old.state));
    let mut options = ReleaseOptions { mode: Mode::UpgradeInstall, ..request.options.clone() };
    options.revisions.skip_unchanged = false;
    if old.record.extension.retains {
        options.objects.prune_config = PruneConfig::Unreferenced;
    }
    let mut decision = decide::decide(&id.name, &options, &states)
        .map_err(|error| history.explained(error, observer.now))?;
    if !matches!(decision.action, ReleaseAction::Resume | ReleaseAction::Unchanged) {
        decision.action = ReleaseAction::Rollback;
        decision.reason = ActionReason::RolledBack { to };
    }
    decision.installing = false;
    let method = options.apply.method(Some(&old.record.apply_method));
    decide::refuse_replace(&options, method)?;
    Ok((RollbackTarget { to, old, options, method }, decision))
}

/// Undoes a failed operation; returns the error to report. An operation that failed before its revision was
/// created needs no undoing.
pub(crate) async fn undo(
    context: &Context,
    id: &ReleaseId,
    options: &ReleaseOptions,
    failed: EngineError,
) -> EngineError {
    // A cancelled operation is undone as well.
    let calm = Engine { context: Context { deadline: Deadline::default(), ..context.clone() } };
    match try_undo(&calm, id, options).await {
        Ok(None) => failed,
        Ok(Some(undone)) => EngineError::Undone { name: id.name.clone(), undone, source: Box::new(failed) },
        Err(undoing) => EngineError::NotUndone { source: Box::new(failed), undoing: Box::new(undoing) },
    }
}

async fn try_undo(engine: &Engine, id: &ReleaseId, options: &ReleaseOptions) -> Result<Option<&'static str>> {
    let context = &engine.context;
    let history = release_history::records(context.store(), id).await?;
    let newest = history.newest();
    // A failure that could not be recorded counts as well.
    let failed = |status: ReleaseStatus| status == ReleaseStatus::Failed || status.is_pending();
    let ours = newest.is_some_and(|r| failed(r.info.status) && r.extension.holder == context.options.holder);
    if !ours {
        return Ok(None);
    }
    let good = |status| matches!(status, ReleaseStatus::Deployed | ReleaseStatus::Superseded);
    match history.revisions.iter().rfind(|r| good(r.status)) {
        Some(last) => {
            let cause = format!("undoes revision {}", newest.map_or(0, |r| r.version));
            let mut options = options.clone();
            options.failure.on_failure = OnFailure::Keep;
            match options.failure.recreate_on_rollback {
                Some(true) => options.objects.immutable = Immutable::Recreate,
                Some(false) => options.objects.immutable = Immutable::Fail,
                None => {}
            }
            let (id, revision) = (id.clone(), last.revision);
            engine.rollback(&RollbackRequest { id, revision, options, description: None, cause }).await?;
            Ok(Some("rolled back"))
        }
        None => {
            let (timeout, run_hooks) = (options.timeout, options.run_hooks);
            let request = UninstallRequest { timeout, run_hooks, ..UninstallRequest::new(id.clone()) };
            engine.uninstall(&request).await?;
            Ok(Some("uninstalled"))
        }
    }
}
