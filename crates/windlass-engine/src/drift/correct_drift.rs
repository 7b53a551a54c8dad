//! Corrects drift without creating a revision.

use crate::{
    context::Context,
    deadline::Deadline,
    decide::{Decision, ReleaseAction, reason::ActionReason},
    drift::drift_diff,
    error::{EngineError, Result},
    execute::{
        apply::{Applier, several},
        client_write::Originals,
        crds, retain,
    },
    objects::{
        crd_files,
        desired_objects::{DesiredObject, Scopes, resolve},
        field_conflicts,
    },
    observe::{
        observed_objects::{self, kinds_for},
        release_history::is_newest,
    },
    operation::Operation,
    outcome::{ReleaseOutcome, object_drift::Drift},
    plan::{PlanStep, dependency_graph, revision_input::RevisionInput},
    record::{Record, RecordExtension, ReleaseStatus, StoredRecord},
    request::{ApplyMethod, CrdPolicy, DriftMode, WHOLE_OBJECT},
    state::expected_object::{self, DriftVerdict, ExpectedObject, Tolerated},
};
use futures::{StreamExt as _, stream};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};
use windlass_base::hex::hex;
use windlass_cluster::{CacheLookup, ObjectKey, ObjectRef, ObservedMeta, drift_of};

/// Suspects that are compared at the same time.
const AT_ONCE: usize = 16;

/// The correction of a release's drift, without a new revision.
pub(crate) struct DriftCorrection<'a> {
    pub(crate) context: &'a Context,
    pub(crate) input: &'a RevisionInput<'a>,
}

impl DriftCorrection<'_> {
    pub(crate) async fn run(
        &self,
        operation: &mut Operation<'_>,
        decision: Decision,
    ) -> Result<ReleaseOutcome> {
        let mut outcome = ReleaseOutcome::new(ReleaseAction::Unchanged, decision.reason, decision.revision);
        let mut records = std::mem::take(&mut operation.history).records;
        let Some(place) = records.iter().position(|r| r.record.version == decision.revision) else {
            return Ok(outcome);
        };
        let mut newest = records.swap_remove(place);
        let (context, input) = (self.context, self.input);
        let store = context.store();
        if !input.options.dry_run {
            // Left by a crash between two writes.
            for stored in records.iter_mut().filter(|r| decision.supersede.contains(&r.record.version)) {
                stored.record.info.status = ReleaseStatus::Superseded;
                store.update(stored).await?;
            }
        }
        let mut remember = self.correct_crds(&operation.deadline, &mut newest, &mut outcome).await?;
        let rendered = input.rendered;
        let kinds = kinds_for(&context.cluster, rendered.objects(), &rendered.crds).await?;
        let scopes = Scopes::new(&kinds, &rendered.crds, rendered.objects());
        let mut targets = resolve(rendered.documents(), input.id, &scopes)?;
        context.watch_kinds(targets.iter().map(|t| &t.object)).await?;
        let tolerant = drift_diff::tolerant(input.options);
        let input = &RevisionInput { options: &tolerant, ..*input };
        let tolerant = DriftCorrection { context, input };
        let (mut expected, steps) = tolerant.suspects(&targets, &newest).await?;
        tolerant.leave_ignored_away(&mut targets, &steps).await?;
        let steps = tolerant.inspect(&targets, steps, &mut expected, &mut outcome).await;
        outcome.unchanged = targets.len() - steps.len();
        if input.options.dry_run {
            outcome.changed = steps.iter().map(|s| targets[s.target].object.clone()).collect();
            return Ok(outcome);
        }
        let retains = !newest.record.extension.retained.is_empty();
        if (!steps.is_empty() || retains) && !operation.lock.is_held() {
            operation.acquire_lock(input.options.revisions.break_lock, Some(&newest)).await?;
            if !is_newest(store, input.id, &newest).await? {
                return Err(EngineError::InProgress);
            }
        }
        let result = tokio::select! {
            result = tolerant.apply_corrections(&targets, steps, &mut expected, &mut outcome) => result,
            // Another process may have changed what is stored below.
            () = operation.lock.lost() => return Err(EngineError::LockLost),
        };
        remember |= Box::pin(retain::prune_retained(context, input, &mut newest, &mut outcome)).await?;
        let corrected: HashSet<&ObjectRef> = outcome.created.iter().chain(&outcome.changed).collect();
        for drift in &mut outcome.drift {
            drift.corrected = corrected.contains(&drift.object);
        }
        if !(outcome.created.is_empty() && outcome.changed.is_empty()) {
            outcome.action = ReleaseAction::Restore;
            let objects = outcome.created.len() + outcome.changed.len();
            outcome.reason = ActionReason::Drifted { revision: decision.revision, objects };
        }
        let applied = applied(&expected, &newest.record.extension);
        // So that the next process, which has only the record, recognizes these objects.
        remember |= applied != newest.record.extension.applied;
        if remember {
            newest.record.extension.applied = applied;
            store.update(&mut newest).await?;
            outcome.record = Some(Arc::new(newest.record.clone()));
        }
        context.state.set(&context.key(input.id), input.cached(&newest, expected));
        result.map(|()| outcome)
    }

    /// Corrects CRDs under a policy that updates them: writes those that differ from the recorded digest, and those
    /// that were deleted. Returns whether the record must be updated.
    async fn correct_crds(
        &self,
        deadline: &Deadline,
        newest: &mut StoredRecord,
        outcome: &mut ReleaseOutcome,
    ) -> Result<bool> {
        let (context, input) = (self.context, self.input);
        let policy = input.options.crds;
        let digest = hex(&crd_files::digest(&input.rendered.crds));
        let files = &input.rendered.crds;
        let keeps = matches!(policy, CrdPolicy::Apply | CrdPolicy::CreateMissing) && !files.is_empty();
        if !keeps || input.options.dry_run {
            return Ok(false);
        }
        let rules = input.options.crd_rules();
        if newest.record.extension.crds != digest {
            outcome.changed.extend(crds::install(context, deadline, input.id, files, rules).await?);
            newest.record.extension.crds = digest;
            return Ok(true);
        }
        let missing = context.state.missing_crds(&context.key(input.id));
        if !missing.is_empty() && input.options.drift.mode == DriftMode::Correct {
            let files = crd_files::only(files, &missing);
            outcome.created.extend(crds::install(context, deadline, input.id, &files, rules).await?);
        }
        Ok(false)
    }

    /// Removes ignored fields that are missing in the cluster from suspects: nobody owns them, so that no conflict
    /// reports them.
    async fn leave_ignored_away(&self, targets: &mut [DesiredObject], steps: &[PlanStep]) -> Result<()> {
        let rules = &self.input.options.drift.ignore;
        for step in steps.iter().filter(|step| step.before.is_some()) {
            let target = &mut targets[step.target];
            if field_conflicts::paths_of(rules, &target.object).next().is_none() {
                continue;
            }
            if let Some(live) = self.context.cluster.get(&target.object).await? {
                field_conflicts::leave_away(&mut target.body, &live, rules, &target.object);
            }
        }
        Ok(())
    }

    /// Separates suspects that have not changed from those that have, and drift to correct from drift to leave.
    async fn inspect(
        &self,
        targets: &[DesiredObject],
        steps: Vec<PlanStep>,
        expected: &mut BTreeMap<ObjectKey, ExpectedObject>,
        outcome: &mut ReleaseOutcome,
    ) -> Vec<PlanStep> {
        let input = self.input;
        let looks: Vec<_> = steps
            .into_iter()
            .map(|step| async move {
                let target = &targets[step.target];
                let own = match &step.before {
                    Some(seen) => seen.drift.clone(),
                    None => drift_of(&target.body["metadata"]).map(Into::into),
                };
                let ignored = field_conflicts::paths_of(&input.options.drift.ignore, &target.object)
                    .any(|path| path == WHOLE_OBJECT);
                let mode = match ignored {
                    true => DriftMode::Off,
                    false => expected_object::mode_of(input.options.drift.mode, own.as_deref()),
                };
                let found = match mode {
                    DriftMode::Off => None,
                    DriftMode::Correct | DriftMode::Report => {
                        drift_diff::of(self.context, input, target, &step).await
                    }
                };
                (step, mode, found)
            })
            .collect();
        let looked: Vec<_> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        let mut wrong = Vec::new();
        for (step, mode, found) in looked {
            let known = expected.get_mut(&targets[step.target].key);
            let reported = known.as_ref().is_some_and(|e| e.tolerated == Some(Tolerated::Reported));
            let why = match mode {
                DriftMode::Correct => {
                    let not_ours =
                        |seen: &&ObservedMeta| input.method == ApplyMethod::Client || seen.applied.is_none();
                    match (known, step.before.as_ref().filter(not_ours)) {
                        // Equal to the revision, but written by others: nothing is written only to change field
                        // managers.
                        (Some(known), Some(seen)) if found.is_none() && known.applied.is_none() => {
                            known.inherit(seen);
                        }
                        _ => wrong.push(step),
                    }
                    outcome.drift.extend(found.map(|drift| Drift { known: reported, ..drift }));
                    continue;
                }
                DriftMode::Report => found.as_ref().map(|_| Tolerated::Reported),
                DriftMode::Off => Some(Tolerated::Paused),
            };
            if let Some(known) = known {
                known.tolerate(step.before.as_ref(), why);
            }
            outcome.drift.extend(found.map(|drift| Drift { known: reported, ..drift }));
        }
        wrong
    }

    /// Objects that differ, or may differ, from the recorded manifest.
    async fn suspects(
        &self,
        targets: &[DesiredObject],
        newest: &StoredRecord,
    ) -> Result<(BTreeMap<ObjectKey, ExpectedObject>, Vec<PlanStep>)> {
        let (context, input) = (self.context, self.input);
        let known = context
            .state
            .get(&context.key(input.id))
            .filter(|k| k.revision == newest.record.version && k.state == input.state);
        let mut all: BTreeMap<ObjectKey, ExpectedObject> = remembered(targets, &newest.record, input.method)
            .into_iter()
            .map(|e| (e.object.key(), e))
            .collect();
        for (key, expected) in known.into_iter().flat_map(|k| k.expected) {
            if let Some(slot) = all.get_mut(&key) {
                *slot = expected;
            }
        }
        if input.options.drift.mode == DriftMode::Off {
            return Ok((all, Vec::new()));
        }
        let seen = observed_objects::objects(
            &context.cluster,
            context.watches.as_ref(),
            context.manager(),
            targets.iter().map(|t| &t.object).filter(|object| {
                let written = all.get(&object.key()).and_then(|e| e.written);
                // Objects that the cache is behind on were written just now; objects that it lacks may have lost
                // their label.
                context
                    .watches
                    .as_ref()
                    .is_none_or(|w| !matches!(w.lookup(object, written), CacheLookup::Behind))
            }),
        )
        .await?;
        let mut steps = Vec::new();
        for (index, target) in targets.iter().enumerate() {
            let Some(expected) = all.get_mut(&target.key) else { continue };
            let lookup = match seen.get(&target.key) {
                Some(Some(found)) => CacheLookup::Present(found.clone()),
                Some(None) => CacheLookup::Absent,
                None => CacheLookup::Behind,
            };
            let verdict = match expected_object::judge(expected, &lookup, input.id) {
                // Reported drift is compared again each time: it may be gone, or be corrected now.
                _ if expected.tolerated == Some(Tolerated::Reported) => {
                    DriftVerdict::Suspect("it was reported before")
                }
                verdict => verdict,
            };
            let before = seen.get(&target.key).cloned().flatten();
            // Without a watch no later event comes: wait for the deletion and create the object now.
            let going = verdict == DriftVerdict::Undecided && context.watches.is_none();
            match verdict {
                DriftVerdict::Missing | DriftVerdict::Suspect(_) => {
                    steps.push(PlanStep { target: index, before, known: true });
                }
                DriftVerdict::Undecided if going => {
                    steps.push(PlanStep { target: index, before, known: true });
                }
                DriftVerdict::InSync => {
                    if let Some(before) = &before {
                        expected.note(before);
                    }
                }
                DriftVerdict::ExpectedDeletion(_) | DriftVerdict::Undecided | DriftVerdict::Unknown => {}
            }
        }
        Ok((all, steps))
    }

    async fn apply_corrections(
        &self,
        targets: &[DesiredObject],
        steps: Vec<PlanStep>,
        expected: &mut BTreeMap<ObjectKey, ExpectedObject>,
        outcome: &mut ReleaseOutcome,
    ) -> Result<()> {
        let order = dependency_graph::order(targets)?;
        let mut waves: BTreeMap<dependency_graph::Wave, Vec<PlanStep>> = BTreeMap::new();
        for step in steps {
            waves.entry(order.waves[step.target]).or_default().push(step);
        }
        let (context, input) = (self.context, self.input);
        let mut applier = Applier::new(context, input.id, input.options);
        applier.client = (input.method == ApplyMethod::Client).then_some(Originals::Same);
        let mut errors = Vec::new();
        for steps in waves.values() {
            let (written, result) = applier.phase(targets, steps).await;
            for one in written {
                let target = &targets[one.target];
                one.record(target, expected, outcome);
            }
            errors.extend(result.err());
            let applied = steps.iter().map(|step| &targets[step.target]);
            errors.extend(crds::await_applied(&context.cluster, applied, input.options.timeout).await.err());
        }
        several(errors)
    }
}

/// The hashes of what was applied, for the record. Tolerated drift was not applied by us: the next process must see the difference.
fn applied(
    expected: &BTreeMap<ObjectKey, ExpectedObject>,
    recorded: &RecordExtension,
) -> BTreeMap<String, u64> {
    let hash = |(key, e): (&ObjectKey, &ExpectedObject)| {
        let key = key.to_string();
        let hash = if e.tolerated.is_some() { recorded.applied.get(&key).copied() } else { e.applied };
        Some((key, hash?))
    };
    expected.iter().filter_map(hash).filter(|(key, _)| !recorded.left.contains(key)).collect()
}

/// Expected objects of a release, as its record stores them.
fn remembered(targets: &[DesiredObject], record: &Record, method: ApplyMethod) -> Vec<ExpectedObject> {
    let applied = |target: &DesiredObject| record.extension.applied.get(&target.key.to_string()).copied();
    let expected =
        |t: &DesiredObject| ExpectedObject::remembered(t.object.clone(), &t.body, method, applied(t));
    targets.iter().map(expected).collect()
}
