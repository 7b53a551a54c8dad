//! The dry run of a request: what would change, object by object.
//!
//! The steps are those of an install or upgrade, sent as server-side dry runs, so that defaults and webhooks do not
//! count as changes. Needs the rights to read and to patch.

pub(crate) mod dry_run_prerequisites;

use crate::{
    context::Context,
    decide::{Decision, ReleaseAction, reason::KeptReason},
    error::{EngineError, Result},
    execute::{
        autoscaler::{self, Autoscalers, Scaled},
        chart_hooks::of_event,
        client_write::{Originals, change, write_options},
        crds::{self, departure},
        recreate,
        rejection::{Attempt, Rejection},
        retain::{self, References},
    },
    objects::{
        desired_objects::{self, DesiredObject, is_crd},
        field_conflicts::{self, Conflict},
        field_diff::{self, FieldChange},
        ownership,
    },
    observe::release_history::History,
    outcome::ReleaseOutcome,
    plan::{
        Plan, PlanStep,
        preview::{ChangeVerb, DecidingOption, PlannedChange, PlannedHook, Preview},
        revision_input::{RevisionInput, RevisionOperation},
    },
    prepared_plan::prepare,
    record::RecordedHook,
    request::{Adoption, ApplyMethod, ChartHook, HookEvent},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use windlass_base::redact;
use windlass_cluster::{
    ApplyOptions, Cluster, ClusterError, Folded, Gvk, ObjectMeta, ObjectRef, needs_folding, without_orphans,
};

const AT_ONCE: usize = 16;

/// The server's answer to an object, and to what an apply would send after it.
enum Answer {
    /// The object as it would be.
    Accepted(Value),
    /// It has to be deleted and created again.
    Immutable(ClusterError),
    Rejected(ClusterError),
}

/// The dry run of a revision.
#[derive(Clone, Copy)]
pub(crate) struct DryRun<'a> {
    pub(crate) context: &'a Context,
    pub(crate) input: &'a RevisionInput<'a>,
}

impl DryRun<'_> {
    /// Refuses a plan that is out of date.
    pub(crate) async fn require_same(
        &self,
        planned: &Preview,
        decision: &Decision,
        history: &History,
    ) -> Result<()> {
        let now = self.preview(decision, history).await?;
        if now.digest == planned.digest { Ok(()) } else { Err(EngineError::Moved(planned.difference(&now))) }
    }

    pub(crate) async fn preview(&self, decision: &Decision, history: &History) -> Result<Preview> {
        let mut outcome = ReleaseOutcome::new(decision.action, decision.reason, decision.revision);
        let (context, input) = (self.context, self.input);
        let (targets, plan) = prepare(context, input, decision, history, &mut outcome).await?;
        let mut changes = self.prerequisites(decision).await?;
        let steps = plan.waves.values().flatten();
        // Fields that Helm left, and no chart has, are removed with a revision only.
        let revision = decision.action != ReleaseAction::Unchanged;
        let originals = Originals::Previous(&plan.originals);
        let looks: Vec<_> =
            steps.map(|step| self.object(&targets[step.target], step, revision, originals)).collect();
        let looked: Vec<PlannedChange> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
        changes.extend(looked);
        self.block_without_namespace(&mut changes).await;
        for step in &plan.unchanged {
            let target = &targets[step.target];
            let reason = "it is unchanged since our last apply";
            changes.push(PlannedChange::new(ChangeVerb::Unchanged, &target.object, &target.path, reason));
        }
        let left = match input.operation {
            RevisionOperation::Rollback { to } => format!("revision {to} does not have it"),
            RevisionOperation::Install | RevisionOperation::Upgrade => {
                "it is no longer in the manifest".to_owned()
            }
        };
        let deletions: Vec<&ObjectRef> =
            plan.prune.iter().flatten().map(|deletion| &deletion.object).collect();
        let moved = input.crds_dir(context.parser);
        changes.extend(deletions_of(&context.cluster, &deletions, &left, &moved).await);
        outcome.warnings.extend(departure::warnings(&context.cluster, context.parser, input, &plan).await);
        for (object, reason) in &plan.kept {
            changes.push(PlannedChange::new(ChangeVerb::Skip, object, "", &format!("{left}; {reason}")));
        }
        let newest = history.records.last().map(|r| r.resource_version.as_str());
        let digest = field_diff::digest(&(&changes, decision.revision, newest, &input.state));
        // After the digest: workloads come and go while a plan is reviewed.
        let warnings = Box::pin(self.retained(&plan, &mut changes)).await?;
        outcome.warnings.extend(warnings);
        for change in &mut changes {
            field_diff::mask(&change.kind, &mut change.fields);
        }
        Ok(Preview {
            release: input.id.name.clone(),
            namespace: input.id.namespace.clone(),
            action: decision.action,
            reason: decision.reason.to_string(),
            revision: decision.revision,
            changes,
            hooks: planned_hooks(input),
            hooks_differ: input.options.run_hooks && self.hooks_differ(history),
            warnings: outcome.warnings,
            digest,
        })
    }

    /// Marks the planned deletions that wait for their references as skipped; returns warnings.
    async fn retained(&self, plan: &Plan, changes: &mut [PlannedChange]) -> Result<Vec<String>> {
        let input = self.input;
        let waiting = plan
            .prune
            .iter()
            .flatten()
            .map(|d| &d.object)
            .filter(|object| retain::waits(input.options, object));
        let References { referenced, warnings } = retain::references(&self.context.cluster, waiting).await?;
        for change in changes.iter_mut().filter(|change| change.verb == ChangeVerb::Delete) {
            let gvk = Gvk::new(&change.api_version, &change.kind);
            let object = ObjectRef::new(gvk, change.namespace.as_deref(), &change.name);
            if referenced.contains(&object.key()) {
                change.verb = ChangeVerb::Skip;
                change.reason = format!(
                    "{}; {}, and it is deleted when none does",
                    change.reason,
                    KeptReason::Referenced
                );
            }
        }
        Ok(warnings)
    }

    /// Whether a request's hooks differ from those of the newest revision; hooks that cannot be read differ.
    fn hooks_differ(&self, history: &History) -> bool {
        let parser = self.context.parser;
        let old = history.records.last().map_or(Ok(Vec::new()), |newest| parser.hooks_of(&newest.record));
        let state = |hooks: &[ChartHook]| {
            desired_objects::state_digest(std::iter::empty(), hooks.iter().map(|h| &h.object))
        };
        old.map_or(true, |old| state(&old) != state(&self.input.rendered.hooks))
    }

    /// The change of one object. `orphans`: fields that Helm left, and no chart has, are removed.
    pub(crate) async fn object(
        &self,
        target: &DesiredObject,
        step: &PlanStep,
        orphans: bool,
        originals: Originals<'_>,
    ) -> Result<PlannedChange> {
        let cluster = &self.context.cluster;
        let change = |verb, reason: &str| PlannedChange::new(verb, &target.object, &target.path, reason);
        let live = match cluster.get(&target.object).await {
            // The kind is defined by this release.
            Err(ClusterError::NoKind(_)) => None,
            other => other.map_err(|source| planning(target, source))?,
        };
        let Some(live) = live else {
            let reason = if step.known { "it was deleted" } else { "it is not there" };
            return self.created(target, change(ChangeVerb::Create, reason)).await;
        };
        if ObjectMeta::of(&live).is_deleting() {
            let reason = "it is being deleted, and is created again after that";
            return Ok(change(ChangeVerb::Recreate, reason));
        }
        if is_crd(&target.object)
            && let Err(lost) = crds::check_losses(cluster, &live, &target.body, &target.object).await
        {
            return match lost {
                EngineError::CrdLoss { .. } => Ok(change(ChangeVerb::Blocked, &lost.to_string())),
                other => Err(other),
            };
        }
        self.updated(target, step, live, orphans, originals).await
    }

    /// The creation of an object.
    async fn created(&self, target: &DesiredObject, mut created: PlannedChange) -> Result<PlannedChange> {
        let mut attempt = Attempt::new(&target.body);
        let wanted = loop {
            let error = match self.dry_run_creation(target, &attempt.body).await {
                Ok(wanted) => break wanted,
                Err(error) if is_not_served_yet(&error) => break target.body.clone(),
                Err(error) => error,
            };
            let rules = self.input.options.sanitize_rules();
            let Rejection::Sanitized(warning) = attempt.rejected(&error, rules) else {
                return blocked(created, target, error);
            };
            created.reason = format!("{}; {warning}", created.reason);
        };
        created.fields = field_diff::changes(&json!({}), &field_diff::without_runtime_fields(wanted));
        Ok(created)
    }

    /// The change of an object that exists.
    async fn updated(
        &self,
        target: &DesiredObject,
        step: &PlanStep,
        live: Value,
        orphans: bool,
        originals: Originals<'_>,
    ) -> Result<PlannedChange> {
        let (input, manager) = (self.input, self.context.manager());
        let mut updated = PlannedChange::new(ChangeVerb::Update, &target.object, &target.path, "it differs");
        let managed = ObjectMeta::of(&live).managed_fields();
        let folded = ownership::folded(step.before.as_ref(), input.id, &input.options.ownership);
        updated.writer = last_writer(managed, manager);
        let mut notes = Vec::new();
        let mut wanted = match self.answer(target, &live, folded, originals, &mut updated, &mut notes).await?
        {
            Answer::Accepted(wanted) => wanted,
            Answer::Immutable(error) => return self.recreated(target, live, updated, &error).await,
            Answer::Rejected(error) => return blocked(updated, target, error),
        };
        if orphans && input.method == ApplyMethod::Server && needs_folding(managed, manager, folded) {
            // A removed field may return as a default: the server decides.
            let mut bare = wanted.clone();
            without_orphans(&mut bare, managed, &target.body, manager, folded);
            if let Ok(settled) = self.context.cluster.replace_dry_run(&target.object, &bare, manager).await {
                wanted = settled;
            }
        }
        updated.fields = field_diff::changes(
            &field_diff::without_runtime_fields(live),
            &field_diff::without_runtime_fields(wanted),
        );
        self.explain_update(&mut updated, target, step);
        for note in notes {
            updated.reason = format!("{}; {note}", updated.reason);
        }
        Ok(updated)
    }

    /// Sends the object as often as an apply would, and returns the server's last answer. Its conflicts are those of the change.
    async fn answer(
        &self,
        target: &DesiredObject,
        live: &Value,
        folded: Folded,
        originals: Originals<'_>,
        updated: &mut PlannedChange,
        notes: &mut Vec<String>,
    ) -> Result<Answer> {
        let options = self.input.options;
        let managed = ObjectMeta::of(live).managed_fields();
        let mut attempt = Attempt::new(&target.body);
        loop {
            let sent = match self.input.method {
                ApplyMethod::Client => self.dry_run_change(target, live, originals, notes).await?,
                ApplyMethod::Server => self.dry_run(target, &attempt.body, attempt.force).await,
            };
            let error = match sent {
                Ok(wanted) => return Ok(Answer::Accepted(wanted)),
                Err(error) => error,
            };
            match attempt.rejected(&error, options.sanitize_rules()) {
                Rejection::Conflict => {
                    let conflicts = field_conflicts::of(&error, self.context.manager(), folded);
                    if conflicts.is_empty() {
                        // Entries that are folded into ours first.
                        attempt.force = true;
                        continue;
                    }
                    let scaled = self.scaled(target, &conflicts, managed, notes).await?;
                    let settled = attempt.settle(&conflicts, live, &target.object, options, &scaled);
                    updated.conflicts.extend(conflicts);
                    if !settled {
                        return Ok(Answer::Rejected(error));
                    }
                }
                Rejection::Sanitized(warning) => notes.push(warning),
                Rejection::Immutable if options.objects.immutable.recreates() => {
                    return Ok(Answer::Immutable(error));
                }
                Rejection::Settling(_) | Rejection::Immutable | Rejection::Final => {
                    return Ok(Answer::Rejected(error));
                }
            }
        }
    }

    /// Whether an update takes an object over, or changes nothing.
    fn explain_update(&self, updated: &mut PlannedChange, target: &DesiredObject, step: &PlanStep) {
        let ownership = &self.input.options.ownership;
        if !step.known {
            updated.verb = ChangeVerb::Adopt;
            updated.reason = match ownership.adoption_of(&target.object) {
                Adoption::Any => "it exists, and this release takes it over",
                Adoption::Unowned => "it exists and belongs to no other release",
                Adoption::Marked => "it exists and has this release's ownership metadata",
            }
            .to_owned();
            let forced = ownership.adoption == Adoption::Any;
            updated.option = forced.then_some(DecidingOption::TakeOwnership);
        } else if updated.fields.is_empty() {
            updated.verb = ChangeVerb::Unchanged;
            updated.reason = "the server would change nothing".to_owned();
        }
    }

    /// The deletion of an object with an immutable field, and its creation.
    async fn recreated(
        &self,
        target: &DesiredObject,
        live: Value,
        mut recreated: PlannedChange,
        error: &ClusterError,
    ) -> Result<PlannedChange> {
        let object = &target.object;
        recreated.verb = ChangeVerb::Recreate;
        recreated.reason = redact::mask(&format!("it cannot be changed in place: {error}")).into_owned();
        let refusal = recreate::refusal(&self.context.cluster, object, &live, &target.body).await?;
        if let Some(reason) = refusal {
            recreated.verb = ChangeVerb::Blocked;
            recreated.reason =
                format!("{}, and it is not deleted and created again: {reason}", recreated.reason);
        } else if recreate::holds_data(object) {
            recreated.reason = format!("{}; its data is deleted with it", recreated.reason);
        }
        recreated.fields = immutable_fields(&field_diff::without_runtime_fields(live), &target.body);
        Ok(recreated)
    }

    /// Who decides about the replicas of an object that is in conflict; notes it if it is not the manifest.
    async fn scaled(
        &self,
        target: &DesiredObject,
        conflicts: &[Conflict],
        managed_fields: &[Value],
        notes: &mut Vec<String>,
    ) -> Result<Scaled> {
        let input = self.input;
        let forced = input.options.ownership.force_conflicts;
        if !forced || !autoscaler::contested(conflicts, managed_fields) {
            return Ok(Scaled::ByManifest);
        }
        let documents = input.rendered.objects();
        let autoscalers = Autoscalers::new(&self.context.cluster);
        let scaled = autoscalers.scaled(&target.object, documents, &input.id.namespace).await?;
        match &scaled {
            Scaled::ByManifest => {}
            Scaled::By(name) => notes.push(format!("its replicas are left to {name}")),
            Scaled::Unseen(kinds) => {
                let namespace = target.object.namespace.as_deref().unwrap_or_default();
                notes.push(autoscaler::unseen(kinds, namespace));
            }
        }
        Ok(scaled)
    }

    /// The object after its creation.
    async fn dry_run_creation(&self, target: &DesiredObject, body: &Value) -> Result<Value, ClusterError> {
        match self.input.method {
            ApplyMethod::Server => self.dry_run(target, body, false).await,
            ApplyMethod::Client => {
                let options = write_options(self.context.manager(), true);
                Ok(self.context.cluster.create_object(&target.object, body, options).await?.object)
            }
        }
    }

    /// The object after the client's change.
    async fn dry_run_change(
        &self,
        target: &DesiredObject,
        live: &Value,
        originals: Originals<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Result<Value, ClusterError>> {
        let managed = ObjectMeta::of(live).managed_fields();
        let scaled = self.scaled(target, &[], managed, notes).await?;
        let change = change(target, live, originals, self.input.options, &scaled)?;
        let Some(change) = change else { return Ok(Ok(live.clone())) };
        let options = write_options(self.context.manager(), true);
        Ok(change.send(&self.context.cluster, target, options).await.map(|applied| applied.object))
    }

    async fn dry_run(
        &self,
        target: &DesiredObject,
        body: &Value,
        force: bool,
    ) -> Result<Value, ClusterError> {
        let manager = self.context.manager();
        let validation = self.input.options.objects.validation;
        let options = ApplyOptions { manager, force, validation, dry_run: true, whole: true };
        Ok(self.context.cluster.apply(&target.object, body, options).await?.object)
    }
}

/// Planned deletions: those of CRDs with the number of objects that are deleted with them. `moved`: names of the CRDs that the chart
/// has in `crds/`.
pub(crate) async fn deletions_of(
    cluster: &Cluster,
    objects: &[&ObjectRef],
    reason: &str,
    moved: &BTreeSet<String>,
) -> Vec<PlannedChange> {
    let mut counted = departure::deleted_with_all(cluster, objects.iter().copied()).await.into_iter();
    let mut next = counted.next();
    let mut changes = Vec::new();
    for object in objects {
        let mut change = PlannedChange::new(ChangeVerb::Delete, object, "", reason);
        if let Some((_, deleted)) = next.take_if(|(crd, _)| crd == object) {
            next = counted.next();
            change.option = moved.contains(&object.name).then_some(DecidingOption::KeepMovedCrds);
            change.reason = format!("{reason}; {deleted}");
            change.objects = Some(deleted);
        }
        changes.push(change);
    }
    changes
}

/// The last writer of an object, other than us and writers of its status.
fn last_writer(managed_fields: &[Value], manager: &str) -> Option<String> {
    let others = managed_fields.iter().filter(|e| e["manager"] != manager && e["subresource"] != "status");
    others.max_by_key(|e| e["time"].as_str())?["manager"].as_str().map(str::to_owned)
}

/// The kind or namespace does not exist yet: the server has no answer.
fn is_not_served_yet(error: &ClusterError) -> bool {
    matches!(error, ClusterError::NoKind(_)) || error.is_not_found()
}

fn planning(target: &DesiredObject, source: ClusterError) -> EngineError {
    EngineError::object("planning", &target.object, &target.path, source)
}

/// Marks an object as blocked that the server rejects; other failures are errors.
fn blocked(mut change: PlannedChange, target: &DesiredObject, error: ClusterError) -> Result<PlannedChange> {
    let refused = error.is_invalid() || error.is_malformed() || error.is_conflict();
    if !(refused || matches!(error.code(), Some(400 | 403))) {
        return Err(planning(target, error));
    }
    change.verb = ChangeVerb::Blocked;
    change.reason = redact::mask(&error.to_string()).into_owned();
    Ok(change)
}

/// Fields that both sides have and that differ: a body has no defaults to compare.
fn immutable_fields(before: &Value, after: &Value) -> Vec<FieldChange> {
    let both = |c: &FieldChange| c.before.is_some() && c.after.is_some();
    field_diff::changes(before, after).into_iter().filter(both).collect()
}

fn planned_hooks(input: &RevisionInput<'_>) -> Vec<PlannedHook> {
    if !input.options.run_hooks {
        return Vec::new();
    }
    let hooks: Vec<RecordedHook> = input.rendered.hooks.iter().map(RecordedHook::from).collect();
    hooks_of_events(&hooks, [input.operation.pre(), input.operation.post()])
}

/// The hooks of events, in the order in which they run.
pub(crate) fn hooks_of_events(hooks: &[RecordedHook], events: [HookEvent; 2]) -> Vec<PlannedHook> {
    let of = |event| of_event(hooks, event).into_iter().map(move |i| (event, &hooks[i]));
    let named = |(event, hook): (_, &RecordedHook)| PlannedHook {
        event,
        kind: hook.kind.clone(),
        name: hook.name.clone(),
    };
    events.into_iter().flat_map(of).map(named).collect()
}
