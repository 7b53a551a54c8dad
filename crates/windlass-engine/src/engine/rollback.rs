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

/// An old revision that is repeated.
struct RollbackTarget {
    to: u64,
    old: Record,
    /// Its manifest, in versions that the server serves.
    rendered: RenderedRelease,
    state: Digest,
    options: ReleaseOptions,
    method: ApplyMethod,
    /// Warnings about kinds that are no longer served.
    warnings: Vec<String>,
}

impl RollbackTarget {
    fn input<'a>(&'a self, request: &'a RollbackRequest) -> RevisionInput<'a> {
        RevisionInput {
            id: &request.id,
            rendered: &self.rendered,
            chart: &self.old.chart,
            config: &self.old.config,
            owner: self.old.owner(),
            description: request.description.as_deref(),
            labels: &self.old.labels,
            old_hooks: &self.old.hooks,
            cause: &request.cause,
            options: &self.options,
            method: self.method,
            operation: RevisionOperation::Rollback { to: self.to },
            state: self.state,
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
                outcome.warnings.extend(target.warnings);
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
        preview.warnings.extend(target.warnings);
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
    let mut rendered = context.parser.rendered_of(&old)?;
    let state = state_of(&rendered);
    let kinds = kinds_for(&context.cluster, rendered.objects(), &[]).await?;
    let warnings = served_kinds::to_applicable(&mut rendered, &kinds);
    let observer = reconcile::observer(context, history, old.owner());
    let states =
        decide::revision_states(history, observer, |record| reconcile::equals(context, record, state));
    let mut options = ReleaseOptions { mode: Mode::UpgradeInstall, ..request.options.clone() };
    options.revisions.skip_unchanged = false;
    if old.extension.retains {
        options.objects.prune_config = PruneConfig::Unreferenced;
    }
    let mut decision = decide::decide(&id.name, &options, &states)
        .map_err(|error| history.explained(error, observer.now))?;
    if !matches!(decision.action, ReleaseAction::Resume | ReleaseAction::Unchanged) {
        decision.action = ReleaseAction::Rollback;
        decision.reason = ActionReason::RolledBack { to };
    }
    decision.installing = false;
    let method = options.apply.method(Some(&old.apply_method));
    decide::refuse_replace(&options, method)?;
    Ok((RollbackTarget { to, old, rendered, state, options, method, warnings }, decision))
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
            if options.failure.recreate_on_rollback {
                options.objects.immutable = Immutable::Recreate;
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
