//! Going back: to an old revision on demand, and out of one that failed.

use crate::release::{
    decide::{self, Decision, ReleaseAction, reason::ActionReason},
    desired_objects::Digest,
    engine::{Engine, state_of},
    error::{EngineError, Result},
    execute::{RevisionExecution, RevisionInput, apply::TRIES},
    lock::release_lease::ReleaseLease,
    observe::{self, History},
    operation::RevisionOperation,
    outcome::ReleaseOutcome,
    plan::dry_run::Preview,
    record::{Record, ReleaseStatus, served_kinds},
    request::{
        Mode, OnFailure, ReleaseId, ReleaseOptions, RenderedRelease, RollbackRequest, UninstallRequest,
    },
};

/// An old revision that is to be repeated.
struct WayBack {
    to: u64,
    old: Record,
    /// What it had, as this server knows its kinds.
    rendered: RenderedRelease,
    state: Digest,
    options: ReleaseOptions,
    /// What became of its kinds.
    told: Vec<String>,
}

impl WayBack {
    fn work<'a>(&'a self, request: &'a RollbackRequest) -> RevisionInput<'a> {
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
            operation: RevisionOperation::Rollback { to: self.to },
            state: self.state,
        }
    }
}

impl Engine {
    /// Makes a new revision that repeats an old one.
    pub async fn rollback(&self, request: &RollbackRequest) -> Result<ReleaseOutcome> {
        self.bounded(request.options.deadline).rollback_bounded(request).await
    }

    async fn rollback_bounded(&self, request: &RollbackRequest) -> Result<ReleaseOutcome> {
        let id = &request.id;
        let busy = self.state.begin_operation(id).await;
        let (mut past, mut lease) = tokio::select! {
            past = self.locked_history(id, &request.options, None) => past?,
            error = self.given_up() => return Err(error),
        };
        let mut tries = 0;
        let result = loop {
            tries += 1;
            match self.rollback_locked(request, past, &mut lease).await {
                Err(EngineError::Overtaken) if tries < TRIES => {}
                result => break result,
            }
            past = match self.reread_history(id, &lease).await {
                Ok(past) => past,
                Err(error) => break Err(error),
            };
        };
        self.release_lease(lease, busy).await;
        result
    }

    /// What a rollback would do. Writes nothing.
    pub async fn plan_rollback(&self, request: &RollbackRequest) -> Result<Preview> {
        let past = self.history_without_lock(&request.id).await?;
        let (back, decision) = self.way_back(request, &past).await?;
        let mut preview = self.preview(&back.work(request), &decision, &past).await?;
        preview.warnings.extend(back.told);
        Ok(preview)
    }

    async fn rollback_locked(
        &self,
        request: &RollbackRequest,
        past: History,
        lease: &mut Option<ReleaseLease>,
    ) -> Result<ReleaseOutcome> {
        let (back, decision) = self.way_back(request, &past).await?;
        let work = back.work(request);
        let mut outcome = match decision.action {
            ReleaseAction::Unchanged => self.correct_drift(&work, decision, past, lease).await?,
            _ => RevisionExecution { engine: self, work: &work }.run(decision, past, lease).await?,
        };
        outcome.warnings.extend(back.told);
        Ok(outcome)
    }

    /// Which revision is to be repeated, and as what.
    async fn way_back(&self, request: &RollbackRequest, past: &History) -> Result<(WayBack, Decision)> {
        let id = &request.id;
        let newest = past.history.last().ok_or(EngineError::NotFound)?;
        let unsettled = past.is_unsettled();
        let unfinished = past
            .records
            .last()
            .filter(|r| unsettled || r.record.info.status == ReleaseStatus::PendingRollback);
        let to = match (request.revision, unfinished.map(|r| r.record.info.rollback_revision)) {
            // Asked again for what died under way: the one before that, not the one that it rolled back.
            (0, Some(to)) if to > 0 => to,
            (0, _) => newest.revision - 1,
            (revision, _) => revision,
        };
        let store = self.store();
        let old = store.get(id, to).await?.ok_or(EngineError::NoRevision(to))?.record;
        let mut rendered = self.rendered_of(&old)?;
        let state = state_of(&rendered);
        let told = served_kinds::to_last(&mut rendered, &*self.cluster.kinds().await?);
        let rows = self.rows(past, state, old.owner());
        let options =
            ReleaseOptions { mode: Mode::UpgradeInstall, skip_unchanged: false, ..request.options.clone() };
        let mut decision = decide::decide(&id.name, &options, &rows).map_err(|e| past.explained(e))?;
        if !matches!(decision.action, ReleaseAction::Resume | ReleaseAction::Unchanged) {
            decision.action = ReleaseAction::Rollback;
            decision.reason = ActionReason::RolledBack { to };
        }
        decision.installing = false;
        Ok((WayBack { to, old, rendered, state, options, told }, decision))
    }

    /// Undoes what a failed operation did; answers with the error to report. An operation that failed before it made a
    /// revision left nothing to undo.
    pub(crate) async fn undo(
        &self,
        id: &ReleaseId,
        options: &ReleaseOptions,
        failed: EngineError,
    ) -> EngineError {
        // What was given up is undone all the same.
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
        let past = observe::records(self.store(), id).await?;
        let newest = past.records.last().map(|stored| &stored.record);
        // A failure that could not be recorded is one as well.
        let failed = |status: ReleaseStatus| status == ReleaseStatus::Failed || status.is_pending();
        let ours = newest.is_some_and(|r| failed(r.info.status) && r.extension.holder == self.options.holder);
        if !ours {
            return Ok(None);
        }
        let good = |status| matches!(status, ReleaseStatus::Deployed | ReleaseStatus::Superseded);
        match past.history.iter().rfind(|r| good(r.status)) {
            Some(last) => {
                let cause = format!("undoes revision {}", newest.map_or(0, |r| r.version));
                let options = ReleaseOptions { on_failure: OnFailure::Keep, ..options.clone() };
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
