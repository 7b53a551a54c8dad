//! An object as the last apply left it, and the judgement on its live state. Pure, but for the time of a write.
//!
//! A suspicion is cheap and may be wrong: applying a suspect again changes nothing if nothing is wrong with it. Owns also what is not
//! drift, such as finished Jobs and objects that were garbage-collected.

use crate::{
    objects::ownership,
    request::{ApplyMethod, DriftMode, ReleaseId},
};
use serde_json::Value;
use std::time::Instant;
use windlass_cluster::{CacheLookup, ObjectRef, ObservedMeta};

/// An object as the last apply left it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExpectedObject {
    pub(crate) object: ObjectRef,
    /// How the release writes its objects.
    pub(crate) method: ApplyMethod,
    /// Hash of what we wrote; `None` if it is unknown.
    pub(crate) applied: Option<u64>,
    /// UID, once observed.
    pub(crate) uid: Option<String>,
    /// Time and resource version of our last write: the watch may be behind it.
    pub(crate) written: Option<(Option<u64>, Instant)>,
    /// Another client keeps writing as Helm's manager: its entries were folded and returned.
    pub(crate) helm_writes: bool,
    /// It equals the revision, but others wrote it: hash of their entries.
    pub(crate) inherited: Option<u64>,
    /// It is deleted by itself: a Job with a time to live.
    pub(crate) fleeting: bool,
    /// It was last observed finished: a completed Job.
    pub(crate) finished: bool,
    /// It was last observed with an owner reference.
    pub(crate) owned: bool,
    /// The release itself sets its owner references: a deletion is no garbage collection by an owner that others gave it.
    pub(crate) declares_owner: bool,
    /// Resource version that was observed last.
    pub(crate) version: Option<u64>,
    /// It differs, and is left as it is.
    pub(crate) tolerated: Option<Tolerated>,
    /// Resource version at which it was last seen ready, by its status. Saves a quarter of the requests of an install (`make bench-charts`:
    /// 15.0 for an object of a chart's kind instead of 20.6).
    pub(crate) ready_at: Option<u64>,
}

/// Why an object may differ from the revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tolerated {
    /// Its annotation says so.
    Paused,
    /// The drift was reported, and the release's mode is to report only.
    Reported,
}

/// The judgement on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriftVerdict {
    InSync,
    /// It was deleted and is to be re-created.
    Missing,
    /// Its fields may have been changed.
    Suspect(&'static str),
    /// Its deletion was expected.
    ExpectedDeletion(&'static str),
    /// Undecided: an event will come.
    Undecided,
    /// Unknown: read it from the server.
    Unknown,
}

impl ExpectedObject {
    /// An object as recorded, before it was observed.
    pub(crate) fn remembered(
        object: ObjectRef,
        body: &Value,
        method: ApplyMethod,
        applied: Option<u64>,
    ) -> Self {
        let fleeting = object.gvk.kind == "Job" && !body["spec"]["ttlSecondsAfterFinished"].is_null();
        let declares_owner =
            body["metadata"]["ownerReferences"].as_array().is_some_and(|all| !all.is_empty());
        Self {
            object,
            method,
            applied,
            uid: None,
            written: None,
            helm_writes: false,
            inherited: None,
            fleeting,
            finished: false,
            owned: false,
            declares_owner,
            version: None,
            tolerated: None,
            ready_at: None,
        }
    }

    /// An object as our write left it.
    pub(crate) fn written(
        object: ObjectRef,
        body: &Value,
        method: ApplyMethod,
        after: &ObservedMeta,
    ) -> Self {
        let mut expected = Self::remembered(object, body, method, method.written_of(after));
        expected.written = Some((after.version_number(), Instant::now()));
        expected.helm_writes = after.helm_updates;
        expected.note(after);
        expected
    }

    /// Takes the metadata of an object without drift.
    pub(crate) fn note(&mut self, seen: &ObservedMeta) {
        self.uid = Some(seen.uid.clone());
        self.finished = self.object.gvk.kind == "Job" && seen.finished;
        self.owned = seen.owned;
        self.version = seen.version_number();
    }

    /// Whether the object is a workload that was written since it was observed last. Without drift that was its status.
    pub(crate) fn has_new_status(&self, seen: &ObservedMeta) -> bool {
        let version = seen.version_number();
        self.is_workload() && version > self.version && version != self.ready_at
    }

    /// Whether changes of its status may be triggers.
    pub(crate) fn is_workload(&self) -> bool {
        self.object.gvk.group == "apps"
    }

    /// Whether the object is as it was when it was last seen ready: nobody has written it since.
    pub(crate) fn is_seen_ready(&self, lookup: &CacheLookup) -> bool {
        let newest = match lookup {
            CacheLookup::Present(seen) if !seen.deleting => seen.version_number(),
            // Nothing that is newer than our own write is known.
            CacheLookup::Behind => self.written.and_then(|(version, _)| version),
            CacheLookup::Present(_) | CacheLookup::Absent | CacheLookup::Unwatched => None,
        };
        newest.is_some() && newest == self.ready_at
    }
}

impl ExpectedObject {
    /// Takes the object's current state as expected, until it changes again.
    pub(crate) fn tolerate(&mut self, seen: Option<&ObservedMeta>, why: Option<Tolerated>) {
        self.tolerated = why;
        if let Some(seen) = seen {
            self.applied = self.method.written_of(seen);
            self.helm_writes = seen.helm_updates;
            self.note(seen);
        }
    }

    /// Takes an object as expected that equals the revision but was written by others, as Helm does by updates: the
    /// next revision makes it ours.
    pub(crate) fn inherit(&mut self, seen: &ObservedMeta) {
        self.inherited = Some(seen.others);
        self.note(seen);
    }
}

/// The drift mode of an object: its annotation overrides the release's mode. An invalid annotation means "off": its
/// author wanted to stop something.
pub(crate) fn mode_of(release: DriftMode, annotation: Option<&str>) -> DriftMode {
    match annotation {
        Some(text) if release != DriftMode::Off => text.parse().unwrap_or(DriftMode::Off),
        _ => release,
    }
}

pub(crate) fn judge(expected: &ExpectedObject, lookup: &CacheLookup, id: &ReleaseId) -> DriftVerdict {
    match lookup {
        CacheLookup::Unwatched => DriftVerdict::Unknown,
        CacheLookup::Behind => DriftVerdict::Undecided,
        CacheLookup::Absent if expected.fleeting => {
            DriftVerdict::ExpectedDeletion("a Job with ttlSecondsAfterFinished")
        }
        CacheLookup::Absent if expected.finished => DriftVerdict::ExpectedDeletion("a finished Job"),
        CacheLookup::Absent if expected.owned && !expected.declares_owner => {
            DriftVerdict::ExpectedDeletion("it belonged to another object")
        }
        CacheLookup::Absent if expected.tolerated.is_some() => {
            DriftVerdict::ExpectedDeletion("its absence was reported")
        }
        CacheLookup::Absent => DriftVerdict::Missing,
        CacheLookup::Present(seen) => judge_present(expected, seen, id),
    }
}

fn judge_present(expected: &ExpectedObject, seen: &ObservedMeta, id: &ReleaseId) -> DriftVerdict {
    if seen.deleting {
        // Applying to an object that is being deleted has no effect; its deletion will trigger a reconcile.
        return DriftVerdict::Undecided;
    }
    if expected.tolerated == Some(Tolerated::Paused) {
        return match seen.drift {
            Some(_) => DriftVerdict::InSync,
            None => DriftVerdict::Suspect("its annotation was removed"),
        };
    }
    if ownership::check(seen, id).is_err() {
        return DriftVerdict::Suspect("its ownership metadata was changed");
    }
    let patches = expected.method == ApplyMethod::Client;
    if expected.inherited.is_some() && (patches || seen.applied.is_none()) {
        let same = Some(seen.others) == expected.inherited && expected.uid.as_ref() == Some(&seen.uid);
        return if same { DriftVerdict::InSync } else { DriftVerdict::Suspect("others wrote it") };
    }
    if seen.helm_updates && !expected.helm_writes && !patches {
        return DriftVerdict::Suspect("Helm wrote it");
    }
    match expected.applied {
        None => return DriftVerdict::Suspect("it is not known what was applied"),
        Some(hash) if expected.method.written_of(seen) != Some(hash) => {
            return DriftVerdict::Suspect("fields of ours were taken over");
        }
        Some(_) => {}
    }
    // The generation proves nothing: it also changes when others write their own fields, as the Deployment controller
    // does at every rollout, while a change of our fields changes our entry.
    match &expected.uid {
        Some(uid) if *uid != seen.uid => DriftVerdict::Suspect("it was re-created"),
        Some(_) | None => DriftVerdict::InSync,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_cluster::Gvk;

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
    fn a_workload_that_was_written_since_has_a_new_status() {
        let seen =
            |version: &str| ObservedMeta { resource_version: version.into(), ..ObservedMeta::default() };
        for (api_version, kind, version, expected) in [
            ("apps/v1", "Deployment", "7", false),
            ("apps/v1", "Deployment", "6", false),
            ("apps/v1", "Deployment", "8", true),
            ("apps/v1", "StatefulSet", "8", true),
            ("v1", "ConfigMap", "8", false),
            ("apps/v1", "Deployment", "no number", false),
        ] {
            let object = ObjectRef::new(Gvk::new(api_version, kind), Some("ns"), "web");
            let mut written = ExpectedObject::written(object, &Value::Null, ApplyMethod::Server, &seen("7"));
            assert_eq!(written.has_new_status(&seen(version)), expected, "{kind} {version}");
            written.ready_at = Some(8);
            assert!(!written.has_new_status(&seen(version)), "{kind} {version} was seen ready");
        }
    }

    #[test]
    fn an_object_is_ready_as_long_as_nobody_writes_it() {
        let seen = |version: &str, deleting| {
            let resource_version = version.to_owned();
            ObservedMeta { resource_version, deleting, ..ObservedMeta::default() }
        };
        let object = ObjectRef::new(Gvk::new("v1", "Service"), Some("ns"), "web");
        let after = seen("7", false);
        let mut written = ExpectedObject::written(object, &Value::Null, ApplyMethod::Server, &after);
        let found = |version, deleting| CacheLookup::Present(seen(version, deleting));
        assert!(!written.is_seen_ready(&found("7", false)), "it was not looked at");
        for (ready_at, lookup, expected) in [
            (7, found("7", false), true),
            (7, CacheLookup::Behind, true),
            (7, found("8", false), false),
            (7, found("7", true), false),
            (7, CacheLookup::Absent, false),
            (7, CacheLookup::Unwatched, false),
            (8, found("8", false), true),
            // The cache is about to show what was seen ready, or something else.
            (8, found("7", false), false),
            (8, CacheLookup::Behind, false),
            // A cluster that was restored starts over.
            (8, found("3", false), false),
            (7, found("no number", false), false),
        ] {
            written.ready_at = Some(ready_at);
            assert_eq!(written.is_seen_ready(&lookup), expected, "{ready_at} {lookup:?}");
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
        let expected = ExpectedObject::written(job.clone(), &Value::Null, ApplyMethod::Server, &seen);
        let cold = ExpectedObject::remembered(job.clone(), &Value::Null, ApplyMethod::Server, Some(7));
        let unknown = ExpectedObject::remembered(job.clone(), &Value::Null, ApplyMethod::Server, None);
        let fleeting = ExpectedObject::remembered(
            job,
            &json!({"spec": {"ttlSecondsAfterFinished": 0}}),
            ApplyMethod::Server,
            Some(7),
        );
        let mut over = expected.clone();
        over.note(&ObservedMeta { finished: true, ..seen.clone() });
        let mut owned = expected.clone();
        owned.note(&ObservedMeta { owned: true, ..seen.clone() });
        let mut paused = expected.clone();
        paused.tolerate(None, Some(Tolerated::Paused));
        let mut reported = expected.clone();
        reported.tolerate(None, Some(Tolerated::Reported));
        let mut stubborn = expected.clone();
        stubborn.helm_writes = true;
        let mut inherited =
            ExpectedObject::remembered(expected.object.clone(), &json!({}), ApplyMethod::Server, None);
        inherited.inherit(&ObservedMeta { others: 1, ..seen.clone() });
        let patched = ObservedMeta { applied: None, written: Some(3), helm_updates: true, ..seen.clone() };
        let client =
            ExpectedObject::written(expected.object.clone(), &Value::Null, ApplyMethod::Client, &patched);
        let present = |change: &dyn Fn(&mut ObservedMeta)| {
            let mut changed = seen.clone();
            change(&mut changed);
            CacheLookup::Present(changed)
        };
        let cases = [
            ("untouched", &expected, present(&|_| ()), DriftVerdict::InSync),
            ("after a restart", &cold, present(&|_| ()), DriftVerdict::InSync),
            ("status churn", &expected, present(&|s| s.resource_version = "99".into()), DriftVerdict::InSync),
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
                DriftVerdict::Suspect("it was re-created"),
            ),
            (
                "after Helm",
                &expected,
                present(&|s| s.helm_updates = true),
                DriftVerdict::Suspect("Helm wrote it"),
            ),
            ("folding does not last", &stubborn, present(&|s| s.helm_updates = true), DriftVerdict::InSync),
            ("inherited", &inherited, present(&|s| (s.applied, s.others) = (None, 1)), DriftVerdict::InSync),
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
                DriftVerdict::Suspect("its ownership metadata was changed"),
            ),
            ("going", &expected, present(&|s| s.deleting = true), DriftVerdict::Undecided),
            ("deleted", &expected, CacheLookup::Absent, DriftVerdict::Missing),
            (
                "ttl",
                &fleeting,
                CacheLookup::Absent,
                DriftVerdict::ExpectedDeletion("a Job with ttlSecondsAfterFinished"),
            ),
            ("over", &over, CacheLookup::Absent, DriftVerdict::ExpectedDeletion("a finished Job")),
            (
                "garbage",
                &owned,
                CacheLookup::Absent,
                DriftVerdict::ExpectedDeletion("it belonged to another object"),
            ),
            (
                "paused",
                &paused,
                present(&|s| (s.applied, s.drift) = (None, Some("off".into()))),
                DriftVerdict::InSync,
            ),
            ("pause over", &paused, present(&|_| ()), DriftVerdict::Suspect("its annotation was removed")),
            (
                "told to be gone",
                &reported,
                CacheLookup::Absent,
                DriftVerdict::ExpectedDeletion("its absence was reported"),
            ),
            (
                "told, then changed again",
                &reported,
                present(&|s| s.applied = Some(9)),
                DriftVerdict::Suspect("fields of ours were taken over"),
            ),
            ("patched by the client", &client, CacheLookup::Present(patched.clone()), DriftVerdict::InSync),
            (
                "patched, then changed",
                &client,
                CacheLookup::Present(ObservedMeta { written: Some(4), ..patched }),
                DriftVerdict::Suspect("fields of ours were taken over"),
            ),
            ("watch behind", &expected, CacheLookup::Behind, DriftVerdict::Undecided),
            ("no watch", &expected, CacheLookup::Unwatched, DriftVerdict::Unknown),
        ];
        for (what, expected, lookup, verdict) in cases {
            assert_eq!(judge(expected, &lookup, &id), verdict, "{what}");
        }
    }
}
