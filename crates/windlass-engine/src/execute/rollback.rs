//! Rollback: to an old revision on request, and out of a failed operation.

use crate::{
    decide::{self, Decision, ReleaseAction, reason::ActionReason},
    desired_objects::Digest,
    engine::{Engine, refuse_replace},
    error::{EngineError, Result},
    execute::{RevisionExecution, RevisionInput, apply::TRIES},
    lock::release_lease::ReleaseLease,
    operation::RevisionOperation,
    outcome::ReleaseOutcome,
    plan::dry_run::Preview,
    record::{Record, ReleaseStatus, served_kinds},
    record::{
        recorded_manifests::state_of,
        release_history::{self, History},
    },
    request::{
        ApplyMethod, Mode, OnFailure, PruneConfig, ReleaseId, ReleaseOptions, RenderedRelease,
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
        self.bounded(request.options.deadline).rollback_bounded(request).await
    }

    async fn rollback_bounded(&self, request: &RollbackRequest) -> Result<ReleaseOutcome> {
        let id = &request.id;
        let busy = self.begin_operation(id).await?;
        let (mut history, mut lease) = tokio::select! {
            history = self.locked_history(id, &request.options, None, false) => history?,
            error = self.given_up() => return Err(error),
        };
        let mut tries = 0;
        let result = loop {
            tries += 1;
            match self.rollback_locked(request, history, &mut lease).await {
                Err(EngineError::Overtaken) if tries < TRIES => {}
                result => break result,
            }
            history = match self.reread_history(id, &lease).await {
                Ok(history) => history,
                Err(error) => break Err(error),
            };
        };
        self.release_lease(lease, busy).await;
        result
    }

    /// Plans a rollback. Writes nothing.
    pub async fn plan_rollback(&self, request: &RollbackRequest) -> Result<Preview> {
        let history = self.history_without_lock(&request.id).await?;
        let (target, decision) = self.rollback_target(request, &history).await?;
        let mut preview = self.preview(&target.input(request), &decision, &history).await?;
        preview.warnings.extend(target.warnings);
        Ok(preview)
    }

    async fn rollback_locked(
        &self,
        request: &RollbackRequest,
        history: History,
        lease: &mut Option<ReleaseLease>,
    ) -> Result<ReleaseOutcome> {
        let (target, decision) = self.rollback_target(request, &history).await?;
        let input = target.input(request);
        let mut outcome = match decision.action {
            ReleaseAction::Unchanged => self.correct_drift(&input, decision, history, lease).await?,
            _ => RevisionExecution { engine: self, input: &input }.run(decision, history, lease).await?,
        };
        outcome.warnings.extend(target.warnings);
        Ok(outcome)
    }

    /// The revision to repeat, and the decision.
    async fn rollback_target(
        &self,
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
        let store = self.store();
        let old = store.get(id, to).await?.ok_or(EngineError::NoRevision(to))?.record;
        let mut rendered = self.rendered_of(&old)?;
        let state = state_of(&rendered);
        let kinds = self.kinds_for(rendered.manifests.iter().map(|m| &m.object), &[]).await?;
        let warnings = served_kinds::to_applicable(&mut rendered, &kinds);
        let rows = self.rows(history, state, old.owner());
        let mut options = ReleaseOptions { mode: Mode::UpgradeInstall, ..request.options.clone() };
        options.revisions.skip_unchanged = false;
        if old.extension.retains {
            options.objects.prune_config = PruneConfig::Unreferenced;
        }
        let mut decision = decide::decide(&id.name, &options, &rows).map_err(|e| history.explained(e))?;
        if !matches!(decision.action, ReleaseAction::Resume | ReleaseAction::Unchanged) {
            decision.action = ReleaseAction::Rollback;
            decision.reason = ActionReason::RolledBack { to };
        }
        decision.installing = false;
        let method = options.apply.method(Some(&old.apply_method));
        refuse_replace(&options, method)?;
        Ok((RollbackTarget { to, old, rendered, state, options, method, warnings }, decision))
    }

    /// Undoes a failed operation; returns the error to report. An operation that failed before its revision was
    /// created needs no undoing.
    pub(crate) async fn undo(
        &self,
        id: &ReleaseId,
        options: &ReleaseOptions,
        failed: EngineError,
    ) -> EngineError {
        // A cancelled operation is undone as well.
        let mut calm = self.clone();
        (calm.cancel, calm.until) = (None, None);
        match calm.try_undo(id, options).await {
            Ok(None) => failed,
            Ok(Some(undone)) => {
                EngineError::Undone { name: id.name.clone(), undone, source: Box::new(failed) }
            }
            Err(undoing) => EngineError::NotUndone { source: Box::new(failed), undoing: Box::new(undoing) },
        }
    }

    async fn try_undo(&self, id: &ReleaseId, options: &ReleaseOptions) -> Result<Option<&'static str>> {
        let history = release_history::records(self.store(), id).await?;
        let newest = history.records.last().map(|stored| &stored.record);
        // A failure that could not be recorded counts as well.
        let failed = |status: ReleaseStatus| status == ReleaseStatus::Failed || status.is_pending();
        let ours = newest.is_some_and(|r| failed(r.info.status) && r.extension.holder == self.options.holder);
        if !ours {
            return Ok(None);
        }
        let good = |status| matches!(status, ReleaseStatus::Deployed | ReleaseStatus::Superseded);
        match history.revisions.iter().rfind(|r| good(r.status)) {
            Some(last) => {
                let cause = format!("undoes revision {}", newest.map_or(0, |r| r.version));
                let mut options = options.clone();
                options.failure.on_failure = OnFailure::Keep;
                let request = RollbackRequest {
                    id: id.clone(),
                    revision: last.revision,
                    options,
                    description: None,
                    cause,
                };
                self.rollback(&request).await?;
                Ok(Some("rolled back"))
            }
            None => {
                let timeout = options.timeout;
                let run_hooks = options.run_hooks;
                self.uninstall(&UninstallRequest { timeout, run_hooks, ..UninstallRequest::new(id.clone()) })
                    .await?;
                Ok(Some("uninstalled"))
            }
        }
    }
}
