//! The reconcile of a release: observe, decide, plan, execute, record.
//!
//! Owns the order of the steps, and what a request is refused for before them. Each step is a folder of its own.

use crate::{
    context::Context,
    decide::{self, Decision, Observer, ReleaseAction, reason::ActionReason},
    drift::{correct_drift::DriftCorrection, unchanged},
    dry_run::DryRun,
    engine::{
        Engine,
        rollback::{self, RepeatedRevision},
    },
    error::{EngineError, Result},
    execute::{RevisionExecution, crds::require_crds},
    lock::release_lease::LockPlace,
    objects::desired_objects::Digest,
    observe::release_history::{self, History},
    operation::{self, Operation},
    outcome::ReleaseOutcome,
    plan::{
        preview::{ChangeVerb, Preview},
        revision_input::{RevisionInput, RevisionOperation},
    },
    record::{Record, ReleaseStatus, SYSTEM_LABELS, recorded_manifests::state_of},
    request::{CrdPolicy, OnFailure, ReleaseId, ReleaseOptions, ReleaseRequest, RenderedRelease},
};
use jiff::Timestamp;
use windlass_base::redact;

impl Engine {
    /// Reconciles a release with a request.
    pub async fn reconcile(&self, request: &ReleaseRequest) -> Result<ReleaseOutcome> {
        reconcile(&self.context, request, None, None).await
    }

    /// As [`Engine::reconcile`], with a history that was read before. A history that is out of date is read again.
    ///
    /// # Errors
    /// As [`Engine::reconcile`].
    pub async fn reconcile_with_history(
        &self,
        request: &ReleaseRequest,
        history: History,
    ) -> Result<ReleaseOutcome> {
        reconcile(&self.context, request, None, Some(history)).await
    }

    /// Plans a request. Writes nothing.
    pub async fn plan(&self, request: &ReleaseRequest) -> Result<Preview> {
        let context = &self.context;
        let history = release_history::without_lock(context, &request.id).await?;
        let (decision, input) = decide(context, request, &history)?;
        DryRun { context, input: &input }.preview(&decision, &history).await
    }

    /// Applies a plan, if the request would still do the same.
    pub async fn apply_planned(&self, request: &ReleaseRequest, planned: &Preview) -> Result<ReleaseOutcome> {
        if let Some(blocked) = planned.changes.iter().find(|c| c.verb == ChangeVerb::Blocked) {
            return Err(EngineError::Blocked(format!(
                "{} {}: {}",
                blocked.kind, blocked.name, blocked.reason
            )));
        }
        reconcile(&self.context, request, Some(planned), None).await
    }

    /// Refuses what would be refused for any render of a chart: for callers that write something before rendering.
    /// Reads the lock, and writes nothing.
    ///
    /// # Errors
    /// As [`Engine::reconcile`].
    pub async fn check_history(
        &self,
        id: &ReleaseId,
        options: &ReleaseOptions,
        history: &History,
    ) -> Result<()> {
        let context = &self.context;
        if !options.revisions.break_lock
            && let Some(holder) = LockPlace::new(context, id).holder().await?
        {
            return Err(holder.into());
        }
        // An unfinished revision of one of our processes is resumed once its lock is ours.
        let free = history.free || history.is_unfinished();
        let observer = Observer { free, ..observer(context, history, None) };
        let as_if =
            |same| decide::decide(&id.name, options, &decide::revision_states(history, observer, |_| same));
        // What is refused for an equal and for a different state is refused for any.
        match as_if(true) {
            Ok(_) => Ok(()),
            Err(error) => as_if(false).map(drop).map_err(|_| history.explained(error, observer.now)),
        }
    }

    /// Whether a revision has the objects and hooks of a render; a revision whose manifests cannot be read has not.
    pub fn has_same_state(&self, record: &Record, rendered: &RenderedRelease) -> bool {
        self.context.parser.has_state(record, state_of(rendered))
    }

    /// Re-creates and corrects objects by the deployed revision. Creates no revision. `owner` gets the triggers of the
    /// release from here on.
    pub async fn restore(
        &self,
        id: &ReleaseId,
        options: &ReleaseOptions,
        owner: Option<&str>,
    ) -> Result<ReleaseOutcome> {
        let context = &self.context;
        operation::run(context, id, None, |operation| {
            Box::pin(async move {
                if let Some(owner) = owner {
                    context.state.set_owner(&context.key(id), owner);
                }
                operation.history = release_history::of(context, id).await?;
                let history = &operation.history;
                let newest = history.records.last().ok_or(EngineError::NotFound)?;
                if newest.record.info.status != ReleaseStatus::Deployed {
                    return Err(EngineError::NoDeployed(id.name.clone()));
                }
                let recorded = RepeatedRevision::of(context, newest.record.clone()).await?;
                for warning in &recorded.warnings {
                    tracing::info!(release = %id, "{warning}");
                }
                let revision = recorded.record.version;
                let decision = Decision {
                    action: ReleaseAction::Unchanged,
                    reason: ActionReason::Deployed { revision },
                    revision,
                    installing: false,
                    base: vec![revision],
                    abandon: Vec::new(),
                    supersede: Vec::new(),
                };
                let method = decide::method(options, &decision, history);
                let input = recorded.input(id, (options, method), RevisionOperation::Upgrade);
                plan_and_execute(operation, &input, decision).await
            })
        })
        .await
    }
}

/// Reconciles a release with a request. `planned`: refuses anything that differs from this plan. `read`: the history, if it was read
/// before.
async fn reconcile(
    context: &Context,
    request: &ReleaseRequest,
    planned: Option<&Preview>,
    mut read: Option<History>,
) -> Result<ReleaseOutcome> {
    let (id, options) = (&request.id, &request.options);
    let work = operation::run(context, id, options.deadline, |operation| {
        let given = read.take();
        Box::pin(async move {
            if operation.is_new()
                && let Some(outcome) = unchanged_by_caches(context, request).await
            {
                return Ok(outcome);
            }
            let given = given.or_else(|| operation.empty_history());
            operation.observe(options, given).await?;
            let (decision, input) = decide(context, request, &operation.history)?;
            if let Some(planned) = planned {
                let dry_run = DryRun { context, input: &input };
                dry_run.require_same(planned, &decision, &operation.history).await?;
            }
            plan_and_execute(operation, &input, decision).await
        })
    });
    let done = async {
        validate(request)?;
        work.await
    };
    match done.await {
        Err(error) if options.failure.on_failure == OnFailure::Undo => {
            Err(rollback::undo(context, id, options, error).await)
        }
        done => done,
    }
}

/// Plans, executes and records a decision.
pub(crate) async fn plan_and_execute(
    operation: &mut Operation<'_>,
    input: &RevisionInput<'_>,
    decision: Decision,
) -> Result<ReleaseOutcome> {
    let context = operation.context;
    match decision.action {
        ReleaseAction::Unchanged => DriftCorrection { context, input }.run(operation, decision).await,
        _ => RevisionExecution { context, input }.run(operation, decision).await,
    }
}

/// The outcome without a request to the server, if an engine that watches saw no change. Watches what the release has from here on.
async fn unchanged_by_caches(context: &Context, request: &ReleaseRequest) -> Option<ReleaseOutcome> {
    if let Some(owner) = &request.owner {
        context.state.set_owner(&context.key(&request.id), owner);
    }
    context.watch_records(&request.id).await;
    context.records.as_ref()?;
    if matches!(request.options.crds, CrdPolicy::CreateMissing | CrdPolicy::Apply) {
        context.watch_crds(&request.id, &request.rendered.crds).await;
    }
    unchanged::outcome(context, request)
}

/// Chooses the action for a request, by the recorded revisions.
fn decide<'a>(
    context: &Context,
    request: &'a ReleaseRequest,
    history: &History,
) -> Result<(Decision, RevisionInput<'a>)> {
    // An API server may quote the object that it rejects.
    let rendered = &request.rendered;
    for object in rendered.objects().chain(rendered.hooks.iter().map(|h| &h.object)) {
        redact::add_secret(object);
    }
    let state = state_of(rendered);
    let observer = observer(context, history, request.owner.as_deref());
    let states = decide::revision_states(history, observer, |record| equals(context, record, state));
    let decision = decide::decide(&request.id.name, &request.options, &states)
        .map_err(|error| history.explained(error, observer.now))?;
    tracing::debug!(release = %request.id, action = ?decision.action, reason = %decision.reason, "decided");
    if request.options.crds.is_due(decision.installing) {
        require_crds(&rendered.crds)?;
    }
    let input = RevisionInput {
        id: &request.id,
        rendered,
        chart: &request.chart.0,
        config: &request.config,
        owner: request.owner.as_deref(),
        description: request.description.as_deref(),
        labels: &request.labels,
        old_hooks: &[],
        cause: &request.cause,
        options: &request.options,
        method: decide::method(&request.options, &decision, history),
        operation: match decision.installing {
            true => RevisionOperation::Install,
            false => RevisionOperation::Upgrade,
        },
        state,
    };
    if !decision.installing {
        decide::refuse_replace(&request.options, input.method)?;
    }
    Ok((decision, input))
}

/// This process, as it judges a history now.
pub(crate) fn observer<'a>(context: &'a Context, history: &History, owner: Option<&'a str>) -> Observer<'a> {
    Observer { holder: &context.options.holder, owner, free: history.free, now: Timestamp::now() }
}

/// Whether a revision that may still be in the cluster has a state. A stored manifest that cannot be read equals nothing.
pub(crate) fn equals(context: &Context, record: &Record, state: Digest) -> bool {
    let gone = matches!(record.info.status, ReleaseStatus::Superseded | ReleaseStatus::Uninstalled);
    !gone && context.parser.has_state(record, state)
}

fn validate(request: &ReleaseRequest) -> Result<()> {
    let name = &request.id.name;
    let part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    if name.len() > 53 || !name.split('.').all(part) {
        return Err(EngineError::Name(name.clone()));
    }
    if request.labels.keys().any(|label| SYSTEM_LABELS.contains(&label.as_str())) {
        return Err(EngineError::SystemLabel);
    }
    Ok(())
}
