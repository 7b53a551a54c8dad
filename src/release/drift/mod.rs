//! Drift: whether a live object still is as the last apply left it, what differs, and its correction. The judgement is pure.
//!
//! A suspicion is cheap and may be wrong: applying a suspect again changes nothing if nothing is wrong with it. Owns also what is not
//! drift, such as finished Jobs and objects that were garbage-collected. Creates no revision, and knows nothing of values or charts.

pub(crate) mod correct_drift;
pub(crate) mod crd_tracker;
pub(crate) mod drift_diff;

use crate::cluster::{CacheLookup, ObjectRef, ObservedMeta};
use crate::release::{
    plan::ownership,
    request::{DriftMode, ReleaseId},
};
use serde_json::Value;
use std::time::Instant;

/// An object as we left it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExpectedObject {
    pub(crate) object: ObjectRef,
    /// Hash of our apply entry; `None` if it is not known.
    pub(crate) applied: Option<u64>,
    /// Incarnation, once seen.
    pub(crate) uid: Option<String>,
    /// When we last wrote it, and the version that we got: the watch may be behind that.
    pub(crate) written: Option<(Option<u64>, Instant)>,
    /// Someone keeps writing under Helm's name: folding that into ours was tried and did not last.
    pub(crate) helm_writes: bool,
    /// It is as the revision has it, and others made it so: hash of their entries.
    pub(crate) inherited: Option<u64>,
    /// It goes by itself: a Job with a time to live.
    pub(crate) fleeting: bool,
    /// It was last seen finished: a Job that is over.
    pub(crate) finished: bool,
    /// It was last seen belonging to another object.
    pub(crate) owned: bool,
    /// It differs, and is left so.
    pub(crate) tolerated: Option<Tolerated>,
}

/// Why an object may be other than the revision has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tolerated {
    /// Its annotation asks for it.
    Paused,
    /// It was told, and the release's mode is to tell only.
    Reported,
}

/// What to make of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriftVerdict {
    Fine,
    /// It is gone and should be there.
    Missing,
    /// Someone may have changed what is ours.
    Suspect(&'static str),
    /// It is gone and that is right.
    GoneRightly(&'static str),
    /// Not to be judged yet: an event will come.
    Later,
    /// Nothing is known: the server has to be asked.
    Unknown,
}

impl ExpectedObject {
    /// An object as the record remembers it, before it was seen.
    pub(crate) fn remembered(object: ObjectRef, body: &Value, applied: Option<u64>) -> Self {
        let fleeting = object.gvk.kind == "Job" && !body["spec"]["ttlSecondsAfterFinished"].is_null();
        Self {
            object,
            applied,
            uid: None,
            written: None,
            helm_writes: false,
            inherited: None,
            fleeting,
            finished: false,
            owned: false,
            tolerated: None,
        }
    }

    /// An object as our write left it.
    pub(crate) fn written(object: ObjectRef, body: &Value, after: &ObservedMeta) -> Self {
        let mut expected = Self::remembered(object, body, after.applied);
        expected.written = Some((after.version_number(), Instant::now()));
        expected.helm_writes = after.helm_updates;
        expected.note(after);
        expected
    }

    /// Takes in how the object looks while nothing is wrong with it.
    pub(crate) fn note(&mut self, seen: &ObservedMeta) {
        self.uid = Some(seen.uid.clone());
        self.finished = self.object.gvk.kind == "Job" && seen.finished;
        self.owned = seen.owned;
    }
}

impl ExpectedObject {
    /// Takes an object as it is for what it should be, until it changes again.
    pub(crate) fn tolerate(&mut self, seen: Option<&ObservedMeta>, why: Option<Tolerated>) {
        self.tolerated = why;
        if let Some(seen) = seen {
            self.applied = seen.applied;
            self.helm_writes = seen.helm_updates;
            self.note(seen);
        }
    }

    /// Takes an object that is as it should be for what it is, though others wrote it, as Helm does by updates: it
    /// becomes ours with the next revision.
    pub(crate) fn inherit(&mut self, seen: &ObservedMeta) {
        self.inherited = Some(seen.others);
        self.note(seen);
    }
}

/// What is done about an object's drift: its own annotation speaks before the release's mode. One that cannot be read is
/// taken for "off": whoever wrote it wanted something to stop.
pub(crate) fn mode_of(release: DriftMode, annotation: Option<&str>) -> DriftMode {
    match annotation {
        Some(text) if release != DriftMode::Off => text.parse().unwrap_or(DriftMode::Off),
        _ => release,
    }
}

pub(crate) fn judge(expected: &ExpectedObject, lookup: &CacheLookup, id: &ReleaseId) -> DriftVerdict {
    match lookup {
        CacheLookup::Unwatched => DriftVerdict::Unknown,
        CacheLookup::Behind => DriftVerdict::Later,
        CacheLookup::Absent if expected.fleeting => {
            DriftVerdict::GoneRightly("a Job with ttlSecondsAfterFinished")
        }
        CacheLookup::Absent if expected.finished => DriftVerdict::GoneRightly("a Job that was over"),
        CacheLookup::Absent if expected.owned => DriftVerdict::GoneRightly("it belonged to another object"),
        CacheLookup::Absent if expected.tolerated.is_some() => {
            DriftVerdict::GoneRightly("its absence was told")
        }
        CacheLookup::Absent => DriftVerdict::Missing,
        CacheLookup::Present(seen) => judge_present(expected, seen, id),
    }
}

fn judge_present(expected: &ExpectedObject, seen: &ObservedMeta, id: &ReleaseId) -> DriftVerdict {
    if seen.deleting {
        // Applying to an object that is going away keeps nothing; its end will be told.
        return DriftVerdict::Later;
    }
    if expected.tolerated == Some(Tolerated::Paused) {
        return match seen.drift {
            Some(_) => DriftVerdict::Fine,
            None => DriftVerdict::Suspect("its annotation went"),
        };
    }
    if ownership::check(seen, id).is_err() {
        return DriftVerdict::Suspect("the release's marks were changed");
    }
    if expected.inherited.is_some() && seen.applied.is_none() {
        let same = Some(seen.others) == expected.inherited && expected.uid.as_ref() == Some(&seen.uid);
        return if same { DriftVerdict::Fine } else { DriftVerdict::Suspect("others wrote it") };
    }
    if seen.helm_updates && !expected.helm_writes {
        return DriftVerdict::Suspect("Helm wrote it");
    }
    match expected.applied {
        None => return DriftVerdict::Suspect("it is not known what was applied"),
        Some(hash) if seen.applied != Some(hash) => {
            return DriftVerdict::Suspect("fields of ours were taken over");
        }
        Some(_) => {}
    }
    // Its generation says no more: it moves when others write fields of their own, as the Deployment controller does at
    // every rollout, while a change of a field of ours takes it out of our entry.
    match &expected.uid {
        Some(uid) if *uid != seen.uid => DriftVerdict::Suspect("it was made anew"),
        Some(_) | None => DriftVerdict::Fine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Gvk;
    use serde_json::json;

    #[test]
    fn annotations_speak_first() {
        let cases = [
            (DriftMode::Correct, None, DriftMode::Correct),
            (DriftMode::Correct, Some("off"), DriftMode::Off),
            (DriftMode::Off, Some("correct"), DriftMode::Off),
            (DriftMode::Correct, Some("report"), DriftMode::Report),
            (DriftMode::Correct, Some("please stop"), DriftMode::Off),
        ];
        for (release, annotation, expected) in cases {
            assert_eq!(mode_of(release, annotation), expected, "{release:?} {annotation:?}");
        }
    }

    #[test]
    fn judges() {
        let id = ReleaseId::new("ns", "rel");
        let job = ObjectRef::new(Gvk::new("batch/v1", "Job"), Some("ns"), "j");
        let seen = ObservedMeta {
            uid: "u".into(),
            managed_by: Some("Helm".into()),
            release_name: Some("rel".into()),
            release_namespace: Some("ns".into()),
            applied: Some(7),
            ..ObservedMeta::default()
        };
        let expected = ExpectedObject::written(job.clone(), &Value::Null, &seen);
        let cold = ExpectedObject::remembered(job.clone(), &Value::Null, Some(7));
        let unknown = ExpectedObject::remembered(job.clone(), &Value::Null, None);
        let fleeting =
            ExpectedObject::remembered(job, &json!({"spec": {"ttlSecondsAfterFinished": 0}}), Some(7));
        let mut over = expected.clone();
        over.note(&ObservedMeta { finished: true, ..seen.clone() });
        let mut owned = expected.clone();
        owned.note(&ObservedMeta { owned: true, ..seen.clone() });
        let mut paused = expected.clone();
        paused.tolerate(None, Some(Tolerated::Paused));
        let mut told = expected.clone();
        told.tolerate(None, Some(Tolerated::Reported));
        let mut stubborn = expected.clone();
        stubborn.helm_writes = true;
        let mut inherited = ExpectedObject::remembered(expected.object.clone(), &json!({}), None);
        inherited.inherit(&ObservedMeta { others: 1, ..seen.clone() });
        let present = |change: &dyn Fn(&mut ObservedMeta)| {
            let mut changed = seen.clone();
            change(&mut changed);
            CacheLookup::Present(changed)
        };
        let cases = [
            ("untouched", &expected, present(&|_| ()), DriftVerdict::Fine),
            ("after a restart", &cold, present(&|_| ()), DriftVerdict::Fine),
            ("status churn", &expected, present(&|s| s.resource_version = "99".into()), DriftVerdict::Fine),
            (
                "unknown past",
                &unknown,
                present(&|_| ()),
                DriftVerdict::Suspect("it is not known what was applied"),
            ),
            (
                "taken over",
                &expected,
                present(&|s| s.applied = Some(8)),
                DriftVerdict::Suspect("fields of ours were taken over"),
            ),
            (
                "our entry gone",
                &expected,
                present(&|s| s.applied = None),
                DriftVerdict::Suspect("fields of ours were taken over"),
            ),
            (
                "made anew",
                &expected,
                present(&|s| s.uid = "v".into()),
                DriftVerdict::Suspect("it was made anew"),
            ),
            (
                "after Helm",
                &expected,
                present(&|s| s.helm_updates = true),
                DriftVerdict::Suspect("Helm wrote it"),
            ),
            ("folding does not last", &stubborn, present(&|s| s.helm_updates = true), DriftVerdict::Fine),
            ("inherited", &inherited, present(&|s| (s.applied, s.others) = (None, 1)), DriftVerdict::Fine),
            (
                "inherited and changed",
                &inherited,
                present(&|s| (s.applied, s.others) = (None, 2)),
                DriftVerdict::Suspect("others wrote it"),
            ),
            (
                "relabelled",
                &expected,
                present(&|s| s.managed_by = None),
                DriftVerdict::Suspect("the release's marks were changed"),
            ),
            ("going", &expected, present(&|s| s.deleting = true), DriftVerdict::Later),
            ("deleted", &expected, CacheLookup::Absent, DriftVerdict::Missing),
            (
                "ttl",
                &fleeting,
                CacheLookup::Absent,
                DriftVerdict::GoneRightly("a Job with ttlSecondsAfterFinished"),
            ),
            ("over", &over, CacheLookup::Absent, DriftVerdict::GoneRightly("a Job that was over")),
            (
                "garbage",
                &owned,
                CacheLookup::Absent,
                DriftVerdict::GoneRightly("it belonged to another object"),
            ),
            (
                "paused",
                &paused,
                present(&|s| (s.applied, s.drift) = (None, Some("off".into()))),
                DriftVerdict::Fine,
            ),
            ("pause over", &paused, present(&|_| ()), DriftVerdict::Suspect("its annotation went")),
            (
                "told to be gone",
                &told,
                CacheLookup::Absent,
                DriftVerdict::GoneRightly("its absence was told"),
            ),
            (
                "told, then changed again",
                &told,
                present(&|s| s.applied = Some(9)),
                DriftVerdict::Suspect("fields of ours were taken over"),
            ),
            ("watch behind", &expected, CacheLookup::Behind, DriftVerdict::Later),
            ("no watch", &expected, CacheLookup::Unwatched, DriftVerdict::Unknown),
        ];
        for (what, expected, lookup, verdict) in cases {
            assert_eq!(judge(expected, &lookup, &id), verdict, "{what}");
        }
    }
}
