//! The dry run of a request: what would change, object by object.
//!
//! The steps are those of an install or upgrade, sent as server-side dry runs, so that defaults and webhooks do not
//! count as changes. Needs the rights to read and to patch.

use crate::{
    decide::{Decision, ReleaseAction},
    desired_objects::{self, DesiredObject},
    engine::Engine,
    error::{EngineError, Result},
    execute::{
        RevisionExecution, RevisionInput,
        apply::{is_immutable, settle},
        autoscaler::{self, Autoscalers, Scaled},
        chart_hooks::of_event,
        client_write::{Originals, change, write_options},
        crds::{
            self,
            departure::{self, DeletedObjects},
        },
        recreate,
        sanitize::sanitize,
    },
    operation::RevisionOperation,
    outcome::ReleaseOutcome,
    plan::{
        PlanStep,
        field_conflicts::{self, Conflict},
        field_diff::{self, FieldChange},
        ownership,
    },
    record::RecordedHook,
    record::release_history::History,
    request::{Adoption, ApplyMethod, ChartHook, HookEvent, ReleaseOptions, ReleaseRequest},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};
use windlass_base::redact;
use windlass_cluster::{ApplyOptions, ClusterError, ObjectRef, needs_folding, without_orphans};

const AT_ONCE: usize = 16;
/// A conflict may be left, then forced, then be invalid.
const TRIES: usize = 4;

/// What would happen to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeVerb {
    Create,
    Update,
    /// Deleted and created again.
    Recreate,
    /// It exists, and the release takes it over.
    Adopt,
    Delete,
    /// It leaves the release and is kept, or exists and is not changed.
    Skip,
    Unchanged,
    /// The server would reject it.
    Blocked,
}

/// An option of the request that decides about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidingOption {
    /// [`ReleaseOptions::create_namespace`].
    CreateNamespace,
    /// [`ReleaseOptions::adoption`] as [`Adoption::Any`].
    TakeOwnership,
    /// [`MovedCrds::Keep`](crate::MovedCrds::Keep).
    KeepMovedCrds,
}

/// The planned change of one object, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedChange {
    pub verb: ChangeVerb,
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// Path of its template; empty for objects that are not in the chart.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub path: String,
    pub reason: String,
    /// The option that allows the change, or would allow a blocked one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub option: Option<DecidingOption>,
    /// The objects that are deleted with a CRD.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub objects: Option<DeletedObjects>,
    /// Changed fields; values of Secrets are hidden.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub fields: Vec<FieldChange>,
    /// Field manager of the last write that was not ours.
    #[serde(skip)]
    pub writer: Option<String>,
    /// Fields of other managers, whatever the policy is.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub conflicts: Vec<Conflict>,
}

/// A hook that would run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedHook {
    pub event: HookEvent,
    pub kind: String,
    pub name: String,
}

/// The result of a dry run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    pub release: String,
    pub namespace: String,
    pub action: ReleaseAction,
    pub reason: String,
    /// The revision that would be created.
    pub revision: u64,
    pub changes: Vec<PlannedChange>,
    pub hooks: Vec<PlannedHook>,
    /// Whether the hooks differ from those of the newest revision.
    #[serde(rename = "hooksDiffer", default)]
    pub hooks_differ: bool,
    pub warnings: Vec<String>,
    /// Digest of the whole plan, values of Secrets included, and of the newest record: equal plans have equal
    /// digests.
    pub digest: String,
}

/// API version, kind, namespace, name.
type Identity = (String, String, Option<String>, String);

impl Preview {
    /// The number of objects with a verb.
    pub fn count(&self, verb: ChangeVerb) -> usize {
        self.changes.iter().filter(|c| c.verb == verb).count()
    }

    /// Whether any object would change, or the hooks differ.
    pub fn changes_anything(&self) -> bool {
        self.hooks_differ
            || self.changes.iter().any(|c| !matches!(c.verb, ChangeVerb::Skip | ChangeVerb::Unchanged))
    }

    /// Whether nothing would happen: no revision, no object.
    pub fn keeps(&self) -> bool {
        self.action == ReleaseAction::Unchanged && !self.changes_anything()
    }

    /// The first difference of two plans of the same request, as text.
    pub(crate) fn difference(&self, other: &Self) -> String {
        if (self.action, self.revision) != (other.action, other.revision) {
            return format!(
                "it was {:?} to revision {}, and is {}",
                self.action, self.revision, other.reason
            );
        }
        let name = |c: &PlannedChange| format!("{} {}", c.kind, c.name);
        let index = |preview: &'_ Self| -> BTreeMap<Identity, usize> {
            preview.changes.iter().enumerate().map(|(i, c)| (c.identity(), i)).collect()
        };
        let (planned, now) = (index(self), index(other));
        for a in &self.changes {
            match now.get(&a.identity()).map(|i| &other.changes[*i]) {
                None => return format!("{} is no longer in the plan", name(a)),
                Some(b) if a.verb != b.verb => {
                    return format!("{} was planned as {:?} and is now {:?}", name(a), a.verb, b.verb);
                }
                // A saved plan has no writers.
                Some(b) if *a != (PlannedChange { writer: a.writer.clone(), ..b.clone() }) => {
                    return format!("{} is not as it was", name(a));
                }
                Some(_) => {}
            }
        }
        match other.changes.iter().find(|b| !planned.contains_key(&b.identity())) {
            Some(new) => format!("{} was not in the plan", name(new)),
            None => "an object or the release's record was changed".to_owned(),
        }
    }
}

impl PlannedChange {
    pub fn new(verb: ChangeVerb, object: &ObjectRef, path: &str, reason: &str) -> Self {
        Self {
            verb,
            api_version: object.gvk.api_version(),
            kind: object.gvk.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            path: path.to_owned(),
            reason: reason.to_owned(),
            option: None,
            objects: None,
            fields: Vec::new(),
            writer: None,
            conflicts: Vec::new(),
        }
    }

    fn identity(&self) -> Identity {
        (self.api_version.clone(), self.kind.clone(), self.namespace.clone(), self.name.clone())
    }
}

impl Engine {
    /// Plans a request. Writes nothing.
    pub async fn plan(&self, request: &ReleaseRequest) -> Result<Preview> {
        let history = self.history_without_lock(&request.id).await?;
        let (decision, input) = self.decide(request, &history)?;
        self.preview(&input, &decision, &history).await
    }

    /// Applies a plan, if the request would still do the same.
    pub async fn apply_planned(&self, request: &ReleaseRequest, planned: &Preview) -> Result<ReleaseOutcome> {
        if let Some(blocked) = planned.changes.iter().find(|c| c.verb == ChangeVerb::Blocked) {
            return Err(EngineError::Blocked(format!(
                "{} {}: {}",
                blocked.kind, blocked.name, blocked.reason
            )));
        }
        self.reconcile_as(request, Some(planned), None).await
    }

    /// Refuses a plan that is out of date.
    pub(crate) async fn still_holds(
        &self,
        planned: &Preview,
        input: &RevisionInput<'_>,
        decision: &Decision,
        history: &History,
    ) -> Result<()> {
        let now = self.preview(input, decision, history).await?;
        if now.digest == planned.digest { Ok(()) } else { Err(EngineError::Moved(planned.difference(&now))) }
    }

    pub(crate) async fn preview(
        &self,
        input: &RevisionInput<'_>,
        decision: &Decision,
        history: &History,
    ) -> Result<Preview> {
        let mut outcome = ReleaseOutcome::new(decision.action, decision.reason, decision.revision);
        let operation = RevisionExecution { engine: self, input };
        let (targets, plan) = operation.prepare(decision, history, &mut outcome).await?;
        let mut changes = self.preview_prerequisites(input, decision).await?;
        let steps = plan.waves.values().flatten();
        // Fields that Helm left, and no chart has, are removed with a revision only.
        let revision = decision.action != ReleaseAction::Unchanged;
        let originals = Originals::Previous(&plan.originals);
        let looks: Vec<_> = steps
            .map(|step| self.preview_one(&targets[step.target], step, input, revision, originals))
            .collect();
        let looked: Vec<PlannedChange> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
        changes.extend(looked);
        self.block_without_namespace(input, &mut changes).await;
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
        changes.extend(
            self.preview_deletions(&deletions, &left, departure::names_in_crds_dir(self, input)).await,
        );
        outcome.warnings.extend(self.departing_crds(input, &plan).await);
        for (object, reason) in &plan.kept {
            changes.push(PlannedChange::new(ChangeVerb::Skip, object, "", &format!("{left}; {reason}")));
        }
        let newest = history.records.last().map(|r| r.resource_version.as_str());
        let digest = field_diff::digest(&(&changes, decision.revision, newest, &input.state));
        // After the digest: workloads come and go while a plan is reviewed.
        let warnings = Box::pin(self.preview_retained(input, &plan, &mut changes)).await?;
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
            hooks_differ: input.options.run_hooks && self.hooks_differ(input, history),
            warnings: outcome.warnings,
            digest,
        })
    }

    /// Planned deletions: those of CRDs with the number of objects that are deleted with them. `moved`: names of the CRDs that the chart
    /// has in `crds/`.
    pub(crate) async fn preview_deletions(
        &self,
        objects: &[&ObjectRef],
        reason: &str,
        moved: BTreeSet<String>,
    ) -> Vec<PlannedChange> {
        let mut counted =
            departure::deleted_with_all(&self.cluster, objects.iter().copied()).await.into_iter();
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

    /// Whether a request's hooks differ from those of the newest revision; hooks that cannot be read differ.
    fn hooks_differ(&self, input: &RevisionInput<'_>, history: &History) -> bool {
        let old = history.records.last().map_or(Ok(Vec::new()), |newest| self.hooks_of(&newest.record));
        let state = |hooks: &[ChartHook]| {
            desired_objects::state_digest(std::iter::empty(), hooks.iter().map(|h| &h.object))
        };
        old.map_or(true, |old| state(&old) != state(&input.rendered.hooks))
    }

    pub(crate) async fn preview_one(
        &self,
        target: &DesiredObject,
        step: &PlanStep,
        input: &RevisionInput<'_>,
        orphans: bool,
        originals: Originals<'_>,
    ) -> Result<PlannedChange> {
        let wrap = |source| EngineError::Object {
            action: "planning",
            object: target.object.to_string(),
            path: target.path.clone(),
            source,
        };
        let change = |verb, reason: &str| PlannedChange::new(verb, &target.object, &target.path, reason);
        let live = match self.cluster.get(&target.object).await {
            // The kind is defined by this release.
            Err(ClusterError::NoKind(_)) => None,
            other => other.map_err(wrap)?,
        };
        let Some(live) = live else {
            let mut created =
                change(ChangeVerb::Create, if step.known { "it was deleted" } else { "it is not there" });
            let mut body = Cow::Borrowed(&target.body);
            let wanted = loop {
                let error = match self.dry_run_creation(target, &body, input).await {
                    Ok(wanted) => break wanted,
                    Err(error) if is_not_served_yet(&error) => break target.body.clone(),
                    Err(error) => error,
                };
                let Some(sanitized) = sanitize(input.options.sanitize_rules(), &body, &error) else {
                    return blocked(created, error, wrap);
                };
                created.reason = format!("{}; {}", created.reason, sanitized.warning);
                body = Cow::Owned(sanitized.body);
            };
            created.fields = field_diff::changes(&json!({}), &field_diff::without_runtime_fields(wanted));
            return Ok(created);
        };
        let mut looked = change(ChangeVerb::Update, "it differs");
        if !live["metadata"]["deletionTimestamp"].is_null() {
            looked.verb = ChangeVerb::Recreate;
            looked.reason = "it is being deleted, and is created again after that".to_owned();
            return Ok(looked);
        }
        if crds::is_crd(&target.object)
            && let Err(lost) = crds::check_losses(&self.cluster, &live, &target.body, &target.object).await
        {
            return match lost {
                EngineError::CrdLoss { .. } => Ok(change(ChangeVerb::Blocked, &lost.to_string())),
                other => Err(other),
            };
        }
        let managed = &live["metadata"]["managedFields"];
        let manager = &self.options.field_manager;
        let folded = ownership::folded(step.before.as_ref(), input.id, &input.options.ownership);
        looked.writer = last_writer(managed, manager);
        let (mut body, mut force) = (target.body.clone(), false);
        let (mut tries, mut notes) = (0, Vec::new());
        let client = input.method == ApplyMethod::Client;
        let mut wanted = loop {
            tries += 1;
            let sent = if client {
                self.dry_run_change(target, &live, input, originals, &mut notes).await?
            } else {
                self.dry_run(target, &body, force, input.options).await
            };
            let error = match sent {
                Ok(wanted) => break wanted,
                Err(error) => error,
            };
            if error.is_apply_conflict() && tries < TRIES {
                let conflicts = field_conflicts::of(&error, manager, folded);
                if conflicts.is_empty() {
                    // Entries that are folded into ours first.
                    force = true;
                    continue;
                }
                let scaled = self.scaled(target, input, &conflicts, managed, &mut notes).await?;
                let policy = (force, &scaled);
                let settled = settle(&body, &conflicts, managed, &target.object, input.options, policy);
                looked.conflicts.extend(conflicts);
                if let Some(settled) = settled {
                    (body, force) = (settled.body, settled.force);
                    continue;
                }
            }
            if let Some(sanitized) = sanitize(input.options.sanitize_rules(), &body, &error) {
                tries -= 1;
                body = sanitized.body;
                notes.push(sanitized.warning);
                continue;
            }
            if is_immutable(&error) && input.options.objects.immutable.recreates() {
                looked.verb = ChangeVerb::Recreate;
                let reason = format!("it cannot be changed in place: {error}");
                looked.reason = redact::mask(&reason).into_owned();
                if let Some(reason) =
                    recreate::refusal(&self.cluster, &target.object, &live, &target.body).await?
                {
                    looked.verb = ChangeVerb::Blocked;
                    looked.reason =
                        format!("{}, and it is not deleted and created again: {reason}", looked.reason);
                } else if recreate::holds_data(&target.object) {
                    looked.reason = format!("{}; its data is deleted with it", looked.reason);
                }
                let (before, after) = (field_diff::without_runtime_fields(live.clone()), target.body.clone());
                looked.fields = immutable_fields(&before, &after);
                return Ok(looked);
            }
            return blocked(looked, error, wrap);
        };
        if orphans && !client && needs_folding(managed, manager, folded) {
            // A removed field may return as a default: the server decides.
            let mut bare = wanted.clone();
            without_orphans(&mut bare, managed, &target.body, manager, folded);
            if let Ok(settled) = self.cluster.replace_dry_run(&target.object, &bare, manager).await {
                wanted = settled;
            }
        }
        looked.fields = field_diff::changes(
            &field_diff::without_runtime_fields(live),
            &field_diff::without_runtime_fields(wanted),
        );
        if !step.known {
            looked.verb = ChangeVerb::Adopt;
            let ownership = &input.options.ownership;
            looked.reason = match ownership.adoption_of(&target.object) {
                Adoption::Any => "it exists, and this release takes it over",
                Adoption::Unowned => "it exists and belongs to no other release",
                Adoption::Marked => "it exists and has this release's ownership metadata",
            }
            .to_owned();
            let forced = ownership.adoption == Adoption::Any;
            looked.option = forced.then_some(DecidingOption::TakeOwnership);
        } else if looked.fields.is_empty() {
            looked.verb = ChangeVerb::Unchanged;
            looked.reason = "the server would change nothing".to_owned();
        }
        for note in notes {
            looked.reason = format!("{}; {note}", looked.reason);
        }
        Ok(looked)
    }

    /// Who decides about the replicas of an object that is in conflict; notes it if it is not the manifest.
    async fn scaled(
        &self,
        target: &DesiredObject,
        input: &RevisionInput<'_>,
        conflicts: &[Conflict],
        managed_fields: &Value,
        notes: &mut Vec<String>,
    ) -> Result<Scaled> {
        let forced = input.options.ownership.force_conflicts;
        if !forced || !autoscaler::contested(conflicts, managed_fields) {
            return Ok(Scaled::ByManifest);
        }
        let documents = input.rendered.manifests.iter().map(|manifest| &manifest.object);
        let autoscalers = Autoscalers::new(&self.cluster);
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
    async fn dry_run_creation(
        &self,
        target: &DesiredObject,
        body: &Value,
        input: &RevisionInput<'_>,
    ) -> Result<Value, ClusterError> {
        match input.method {
            ApplyMethod::Server => self.dry_run(target, body, false, input.options).await,
            ApplyMethod::Client => {
                let options = write_options(&self.options.field_manager, true);
                Ok(self.cluster.create_object(&target.object, body, options).await?.object)
            }
        }
    }

    /// The object after the client's change.
    async fn dry_run_change(
        &self,
        target: &DesiredObject,
        live: &Value,
        input: &RevisionInput<'_>,
        originals: Originals<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Result<Value, ClusterError>> {
        let managed = &live["metadata"]["managedFields"];
        let scaled = self.scaled(target, input, &[], managed, notes).await?;
        let change =
            change(target, live, originals, input.options, &scaled).map_err(|source| EngineError::Merge {
                object: target.object.to_string(),
                path: target.path.clone(),
                source: Box::new(source),
            })?;
        let Some(change) = change else { return Ok(Ok(live.clone())) };
        let options = write_options(&self.options.field_manager, true);
        Ok(change.send(&self.cluster, target, options).await.map(|applied| applied.object))
    }

    async fn dry_run(
        &self,
        target: &DesiredObject,
        body: &Value,
        force: bool,
        options: &ReleaseOptions,
    ) -> Result<Value, ClusterError> {
        let manager = &self.options.field_manager;
        let validation = options.objects.validation;
        let options = ApplyOptions { manager, force, validation, dry_run: true, whole: true };
        Ok(self.cluster.apply(&target.object, body, options).await?.object)
    }
}

/// The last writer of an object, other than us and writers of its status.
fn last_writer(managed_fields: &Value, manager: &str) -> Option<String> {
    let entries = managed_fields.as_array().map_or(&[][..], Vec::as_slice);
    let others = entries.iter().filter(|e| e["manager"] != manager && e["subresource"] != "status");
    others.max_by_key(|e| e["time"].as_str())?["manager"].as_str().map(str::to_owned)
}

/// The kind or namespace does not exist yet: the server has no answer.
fn is_not_served_yet(error: &ClusterError) -> bool {
    matches!(error, ClusterError::NoKind(_)) || error.is_not_found()
}

/// Marks an object as blocked that the server rejects; other failures are errors.
fn blocked(
    mut change: PlannedChange,
    error: ClusterError,
    wrap: impl Fn(ClusterError) -> EngineError,
) -> Result<PlannedChange> {
    let refused = error.is_invalid() || error.is_malformed() || error.is_conflict();
    if !(refused || matches!(error.code(), Some(400 | 403))) {
        return Err(wrap(error));
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
