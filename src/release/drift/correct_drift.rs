//! A release that is as the request wants it: what was changed or deleted is put right, without a revision.

use crate::cluster::{CacheLookup, ObjectKey, ObjectRef, ObservedMeta, drift_of};
use crate::release::{
    decide::{Decision, ReleaseAction, reason::ActionReason},
    desired_objects::{DesiredObject, Scopes, resolve},
    drift::{
        self, DriftVerdict, ExpectedObject, Tolerated, crd_tracker,
        drift_diff::{self, Drift},
    },
    engine::{Engine, remembered},
    engine_state::CachedRelease,
    error::{EngineError, Result},
    execute::{RevisionInput, apply::several, crds},
    lock::release_lease::{ReleaseLease, lost},
    observe::{self, History},
    outcome::ReleaseOutcome,
    plan::{PlanStep, dependency_graph, field_conflicts},
    record::{ReleaseStatus, StoredRecord},
    request::{CrdPolicy, DriftMode},
};
use futures::{StreamExt as _, stream};
use std::{collections::BTreeMap, sync::Arc};

/// Suspects that are looked into at the same time.
const AT_ONCE: usize = 16;

impl Engine {
    pub(crate) async fn correct_drift(
        &self,
        work: &RevisionInput<'_>,
        decision: Decision,
        past: History,
        lease: &mut Option<ReleaseLease>,
    ) -> Result<ReleaseOutcome> {
        let mut outcome = ReleaseOutcome::new(ReleaseAction::Unchanged, decision.reason, decision.revision);
        let mut records = past.records;
        let Some(place) = records.iter().position(|r| r.record.version == decision.revision) else {
            return Ok(outcome);
        };
        let mut newest = records.swap_remove(place);
        let store = self.store();
        if !work.options.dry_run {
            // Left by a crash between two writes.
            for stored in records.iter_mut().filter(|r| decision.supersede.contains(&r.record.version)) {
                stored.record.info.status = ReleaseStatus::Superseded;
                store.update(stored).await?;
            }
        }
        let mut remember = self.correct_crds(work, &mut newest, &mut outcome).await?;
        let kinds = self.cluster.kinds().await?;
        let documents = || work.rendered.manifests.iter().map(|m| (m.source.as_str(), &m.object));
        let scopes = Scopes::new(&kinds, &work.rendered.crds, documents().map(|(_, o)| o));
        let mut targets = resolve(documents(), work.id, &scopes)?;
        self.watch_kinds(targets.iter().map(|t| &t.object)).await?;
        let tolerant = drift_diff::tolerant(work.options);
        let work = &RevisionInput { options: &tolerant, ..*work };
        let (mut expected, steps) = self.suspects(work, &targets, &newest).await?;
        self.leave_ignored_away(work, &mut targets, &steps).await?;
        let steps = self.inspect(work, &targets, steps, &mut expected, &mut outcome).await;
        outcome.unchanged = targets.len() - steps.len();
        if work.options.dry_run {
            outcome.changed = steps.iter().map(|s| targets[s.target].object.clone()).collect();
            return Ok(outcome);
        }
        if !steps.is_empty() && lease.is_none() {
            *lease = self.lock(work.id, work.options.break_lock, Some(&newest)).await?;
            if !self.is_newest(work.id, &newest).await? {
                return Err(EngineError::InProgress);
            }
        }
        let result = tokio::select! {
            result = self.apply_corrections(work, &targets, steps, &mut expected, &mut outcome) => result,
            // What is remembered below is someone else's to say.
            () = lost(lease.as_ref()) => return Err(EngineError::LockLost),
        };
        for drift in &mut outcome.drift {
            let done = |object: &ObjectRef| *object == drift.object;
            drift.corrected = outcome.created.iter().chain(&outcome.changed).any(done);
        }
        if !(outcome.created.is_empty() && outcome.changed.is_empty()) {
            outcome.action = ReleaseAction::Restore;
            let objects = outcome.created.len() + outcome.changed.len();
            outcome.reason = ActionReason::Drifted { revision: decision.revision, objects };
        }
        // What is merely tolerated is not what was applied: the next process is to see the difference.
        let old = &newest.record.extension.applied;
        let applied = expected.iter().filter_map(|(key, e)| {
            let key = key.to_string();
            let hash = if e.tolerated.is_some() { old.get(&key).copied() } else { e.applied };
            Some((key, hash?))
        });
        let left = &newest.record.extension.left;
        let applied: BTreeMap<String, u64> = applied.filter(|(key, _)| !left.contains(key)).collect();
        // So that the next process, which has only the record, knows these objects when it sees them.
        remember |= applied != newest.record.extension.applied;
        if remember {
            newest.record.extension.applied = applied;
            store.update(&mut newest).await?;
            outcome.record = Some(Arc::new(newest.record.clone()));
        }
        self.state.set(
            work.id,
            CachedRelease {
                revision: decision.revision,
                record_version: newest.resource_version,
                state: work.state,
                crds: crds::kept_digest(work.options.crds, &work.rendered.crds),
                checksum: work.rendered.checksum.clone(),
                drift: work.options.drift,
                expected,
            },
        );
        result.map(|()| outcome)
    }

    /// CRDs under a policy that keeps them: written when the chart's differ from those that the record remembers, and those
    /// that were deleted. Whether there are others to remember.
    async fn correct_crds(
        &self,
        work: &RevisionInput<'_>,
        newest: &mut StoredRecord,
        outcome: &mut ReleaseOutcome,
    ) -> Result<bool> {
        let policy = work.options.crds;
        let digest = hex(&crds::digest(&work.rendered.crds));
        let files = &work.rendered.crds;
        let keeps = matches!(policy, CrdPolicy::Apply | CrdPolicy::CreateMissing) && !files.is_empty();
        if !keeps || work.options.dry_run {
            return Ok(false);
        }
        if newest.record.extension.crds != digest {
            outcome.changed.extend(self.install_crds(work.id, files, work.options.crd_rules()).await?);
            newest.record.extension.crds = digest;
            return Ok(true);
        }
        let missing = self.missing_crds(work.id);
        if !missing.is_empty() && work.options.drift == DriftMode::Correct {
            outcome.created.extend(
                self.install_crds(work.id, &crd_tracker::only(files, &missing), work.options.crd_rules())
                    .await?,
            );
        }
        Ok(false)
    }

    /// Takes out of suspects what may differ and is not there: nobody owns it, so that no conflict would tell.
    async fn leave_ignored_away(
        &self,
        work: &RevisionInput<'_>,
        targets: &mut [DesiredObject],
        steps: &[PlanStep],
    ) -> Result<()> {
        let rules = &work.options.drift_ignore;
        for step in steps.iter().filter(|step| step.before.is_some()) {
            let target = &mut targets[step.target];
            if field_conflicts::paths_of(rules, &target.object).next().is_none() {
                continue;
            }
            if let Some(live) = self.cluster.get(&target.object).await? {
                field_conflicts::leave_away(&mut target.body, &live, rules, &target.object);
            }
        }
        Ok(())
    }

    /// Tells suspects from the changed, and what is to be put right from what is left as it is.
    async fn inspect(
        &self,
        work: &RevisionInput<'_>,
        targets: &[DesiredObject],
        steps: Vec<PlanStep>,
        expected: &mut BTreeMap<ObjectKey, ExpectedObject>,
        outcome: &mut ReleaseOutcome,
    ) -> Vec<PlanStep> {
        let looks: Vec<_> = steps
            .into_iter()
            .map(|step| async move {
                let target = &targets[step.target];
                let own = match &step.before {
                    Some(seen) => seen.drift.clone(),
                    None => drift_of(&target.body["metadata"]).map(Into::into),
                };
                let mode = drift::mode_of(work.options.drift, own.as_deref());
                let found = match mode {
                    DriftMode::Off => None,
                    DriftMode::Correct | DriftMode::Report => self.drift_diff(work, target, &step).await,
                };
                (step, mode, found)
            })
            .collect();
        let looked: Vec<_> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        let mut wrong = Vec::new();
        for (step, mode, found) in looked {
            let known = expected.get_mut(&targets[step.target].key);
            let told = known.as_ref().is_some_and(|e| e.tolerated == Some(Tolerated::Reported));
            let why = match mode {
                DriftMode::Correct => {
                    let not_ours = |seen: &&ObservedMeta| seen.applied.is_none();
                    match (known, step.before.as_ref().filter(not_ours)) {
                        // As the revision has it, and not by us: nothing is written for the names of managers alone.
                        (Some(known), Some(seen)) if found.is_none() && known.applied.is_none() => {
                            known.inherit(seen);
                        }
                        _ => wrong.push(step),
                    }
                    outcome.drift.extend(found.map(|drift| Drift { known: told, ..drift }));
                    continue;
                }
                DriftMode::Report => found.as_ref().map(|_| Tolerated::Reported),
                DriftMode::Off => Some(Tolerated::Paused),
            };
            if let Some(known) = known {
                known.tolerate(step.before.as_ref(), why);
            }
            outcome.drift.extend(found.map(|drift| Drift { known: told, ..drift }));
        }
        wrong
    }

    /// Which objects are not, or may not be, as they should be.
    async fn suspects(
        &self,
        work: &RevisionInput<'_>,
        targets: &[DesiredObject],
        newest: &StoredRecord,
    ) -> Result<(BTreeMap<ObjectKey, ExpectedObject>, Vec<PlanStep>)> {
        let known =
            self.state.get(work.id).filter(|k| k.revision == newest.record.version && k.state == work.state);
        let mut all: BTreeMap<ObjectKey, ExpectedObject> =
            remembered(targets, &newest.record).into_iter().map(|e| (e.object.key(), e)).collect();
        for (key, expected) in known.into_iter().flat_map(|k| k.expected) {
            if let Some(slot) = all.get_mut(&key) {
                *slot = expected;
            }
        }
        if work.options.drift == DriftMode::Off {
            return Ok((all, Vec::new()));
        }
        let seen = observe::objects(
            &self.cluster,
            self.watches.as_ref(),
            &self.options.field_manager,
            targets.iter().map(|t| &t.object).filter(|object| {
                let written = all.get(&object.key()).and_then(|e| e.written);
                // What the cache is behind on was just written; what it does not have may have lost its label.
                self.watches
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
            let verdict = match drift::judge(expected, &lookup, work.id) {
                // What was told is looked at again each time: perhaps it is right by now, or to be put right.
                _ if expected.tolerated == Some(Tolerated::Reported) => {
                    DriftVerdict::Suspect("it was told before")
                }
                verdict => verdict,
            };
            let before = seen.get(&target.key).cloned().flatten();
            // Without a watch no later event will tell: an object that is going away is awaited and made again now.
            let going = verdict == DriftVerdict::Later && self.watches.is_none();
            match verdict {
                DriftVerdict::Missing | DriftVerdict::Suspect(_) => {
                    steps.push(PlanStep { target: index, before, known: true });
                }
                DriftVerdict::Later if going => steps.push(PlanStep { target: index, before, known: true }),
                DriftVerdict::Fine => {
                    if let Some(before) = &before {
                        expected.note(before);
                    }
                }
                DriftVerdict::GoneRightly(_) | DriftVerdict::Later | DriftVerdict::Unknown => {}
            }
        }
        Ok((all, steps))
    }

    async fn apply_corrections(
        &self,
        work: &RevisionInput<'_>,
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
        let applier = self.applier(work.id, work.options);
        let mut errors = Vec::new();
        for steps in waves.values() {
            let (written, result) = applier.phase(targets, steps).await;
            for one in written {
                let target = &targets[one.target];
                expected.insert(
                    target.key.clone(),
                    ExpectedObject::written(target.object.clone(), &target.body, &one.after),
                );
                if one.created {
                    outcome.created.push(target.object.clone());
                } else if one.changed {
                    outcome.changed.push(target.object.clone());
                } else {
                    outcome.unchanged += 1;
                }
                outcome.warnings.extend(one.warnings);
            }
            errors.extend(result.err());
            let applied = steps.iter().map(|step| &targets[step.target]);
            errors.extend(crds::await_applied(&self.cluster, applied, work.options.timeout).await.err());
        }
        several(errors)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
