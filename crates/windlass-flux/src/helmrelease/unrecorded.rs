//! Revisions that the status does not show: the process that made them ended before it wrote the status.
//!
//! Owns how such a revision is recognized by its record, and what the status says of it then: as if that process had gone on. Nothing
//! is released twice because of a crash, and nothing stays behind.

use super::actions::{OWNER, ReleasePass};
use super::object::HelmReleaseObject;
use super::release_conditions::{RELEASED, REMEDIATED, Truth};
use super::release_inputs::{cause_of, has_uid, is_cause_of, is_made_for, is_of_chart};
use super::{digest, snapshot};
use flux_api::helm_release_status::{HelmReleaseStatus, Snapshot};
use windlass_controller::{ReconcileError, ReleaseRunner};
use windlass_engine::ReleaseId;
use windlass_engine::record::{Record, RecordHead, ReleaseStatus};

/// Why a rollback is made, for its record.
pub(super) fn remediation_cause(failed: Option<&Snapshot>) -> String {
    format!("remediates revision {}", failed.map_or(0, |failed| failed.version))
}

/// The revision that a rollback leads to which a process began and did not end, where it remediates the newest revision of the status.
/// It is finished: what it undoes is not tried again before. `two_deployed`: the revision before the newest one is deployed, too.
pub(super) fn unfinished_rollback(
    newest: &Record,
    two_deployed: bool,
    status: &HelmReleaseStatus,
) -> Option<u64> {
    let failed = status.history.first()?;
    let to = newest.info.rollback_revision;
    let ours = newest.owner() == Some(OWNER) && newest.extension.cause == remediation_cause(Some(failed));
    let known = status.history.iter().any(|shot| shot.version == to);
    let unfinished = match newest.info.status {
        ReleaseStatus::PendingRollback => true,
        ReleaseStatus::Deployed => two_deployed,
        _ => false,
    };
    (unfinished && ours && known).then_some(to)
}

/// What the condition Remediated says of a rollback: its status, reason and text. `why`: why it failed, if it did.
pub(super) fn rollback_verdict(
    target: &Snapshot,
    why: Option<&impl std::fmt::Display>,
) -> (Truth, &'static str, String) {
    let (release, chart) = (target.release(), target.chart());
    let text = format!("Helm rollback to previous release {release} with chart {chart}");
    match why {
        None => (Truth::True, "RollbackSucceeded", format!("{text} succeeded")),
        Some(why) => (Truth::False, "RollbackFailed", format!("{text} failed: {why}")),
    }
}

/// Whether an install made a record.
fn is_installed(record: &Record) -> bool {
    record.info.first_deployed == record.info.last_deployed
}

/// Whether a record was made of what is asked for now, its chart aside. What another generation or other values had failed with does
/// not count any more, nor does what an earlier object of this name had.
fn is_current(record: &Record, object: &HelmReleaseObject, config_digest: &str) -> bool {
    let same_values = || digest::config_digest(&digest::record_values(record)) == config_digest;
    record.extension.cause == cause_of(object) && is_made_for(record, object) && same_values()
}

impl ReleasePass<'_> {
    /// Puts the newest revision into the status, if an action on this object made it and the status does not show it.
    ///
    /// # Errors
    /// The revision before it cannot be read.
    pub(super) async fn take_unrecorded(&mut self, newest: &Record) -> Result<(), ReconcileError> {
        let known = self.status.history.first();
        if newest.owner() != Some(OWNER) || known.is_some_and(|known| newest.version <= known.version) {
            return Ok(());
        }
        let cause = &newest.extension.cause;
        let (deployed, failed) = match newest.info.status {
            ReleaseStatus::Deployed => (true, false),
            ReleaseStatus::Failed => (false, true),
            _ => (false, false),
        };
        if (deployed || failed) && known.is_some() && *cause == remediation_cause(known) {
            self.take_rollback(newest, failed);
        } else if (deployed || failed) && is_cause_of(cause, self.object) {
            tracing::info!(object = %self.pass.reference, revision = newest.version, "taking a revision that the status does not show");
            self.take_release(newest, failed).await?;
        }
        Ok(())
    }

    async fn take_release(&mut self, newest: &Record, failed: bool) -> Result<(), ReconcileError> {
        let verb = if is_installed(newest) { "install" } else { "upgrade" };
        verb.clone_into(&mut self.status.last_attempted_release_action);
        // Values and chart may have changed since: the record alone tells what it was made of.
        let chart = &self.metadata;
        let same_chart = is_of_chart(newest, &chart.name, &chart.version);
        let oci_digest = if same_chart { self.oci_digest.clone() } else { String::new() };
        let current = same_chart && is_current(newest, self.object, &self.config_digest);
        self.record_revision(snapshot::observe(newest, &oci_digest, verb, None)).await?;
        self.take_inventory(newest).await?;
        if failed && current {
            let text = self.failure_text(verb, &newest.info.description);
            self.note_failure(verb, &text, true);
        } else if !failed {
            self.note_success(verb, current);
        }
        Ok(())
    }

    fn take_rollback(&mut self, newest: &Record, failed: bool) {
        let to = newest.info.rollback_revision;
        let Some(target) = self.status.history.iter().find(|known| known.version == to) else { return };
        let shot = snapshot::observe(newest, "", "rollback", Some(&target.config_digest));
        let (truth, reason, text) = rollback_verdict(target, failed.then_some(&newest.info.description));
        self.status.history.insert(0, shot);
        self.status.failures += i64::from(failed);
        self.conditions().set(REMEDIATED, truth, reason, &text);
        self.summarize();
    }

    /// The status of a release action that failed. `stored`: it wrote a record.
    pub(super) fn note_failure(&mut self, verb: &str, text: &str, stored: bool) {
        let installs = verb == "install";
        let reason = if installs { "InstallFailed" } else { "UpgradeFailed" };
        self.status.failures += 1;
        self.conditions().set(RELEASED, Truth::False, reason, text);
        self.summarize();
        match installs {
            _ if !stored => {}
            true => self.status.install_failures += 1,
            false => self.status.upgrade_failures += 1,
        }
    }
}

/// Whether an object without a release in its status may have one nevertheless. `only_own`: only one whose newest revision was made for
/// this object: what an earlier object of the same name left on purpose stays.
///
/// # Errors
/// The records cannot be read, for another reason than missing rights: without them nothing was stored there.
pub(super) async fn is_released(
    runner: &ReleaseRunner,
    id: &ReleaseId,
    (object, status): (&HelmReleaseObject, &HelmReleaseStatus),
    only_own: bool,
) -> Result<bool, ReconcileError> {
    match runner.engine().history_of(id).await {
        Ok(history) => {
            let own = |record: &Record| !only_own || is_made_for(record, object);
            Ok(history.newest().is_some_and(own))
        }
        Err(error) if error.is_unreadable_record() => {
            let newest = runner.engine().records().heads_of(id).await?.pop();
            Ok(newest.is_some_and(|newest| is_own_record(&newest, (object, status), only_own)))
        }
        Err(error) => match error.refused_records() {
            Some(refusal) if refusal.is_forbidden() || refusal.is_not_found() => Ok(false),
            _ => Err(error.into()),
        },
    }
}

/// Whether a record that cannot be read is the object's, by its labels. Where its status may speak for it (not `only_own`), it is also if
/// the status shows the revision, as after a restore of the object from a backup, or if it has no owner: helm-controller's have none.
pub(super) fn is_own_record(
    head: &RecordHead,
    (object, status): (&HelmReleaseObject, &HelmReleaseStatus),
    only_own: bool,
) -> bool {
    let shown = || status.history.iter().any(|known| known.version == head.revision);
    match head.owner() {
        Some(owner) => owner == OWNER && (has_uid(&head.labels, object) || !only_own && shown()),
        None => !only_own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_that_cannot_be_read_is_of_its_object_not_of_its_kind() {
        let object =
            HelmReleaseObject::read(&json!({"metadata": {"name": "web", "namespace": "ns", "uid": "u"}}));
        let snapshot = |version| Snapshot { version, ..Snapshot::default() };
        let status = HelmReleaseStatus { history: vec![snapshot(2)], ..HelmReleaseStatus::default() };
        let uid = "windlass.dev/object-uid";
        let owner = windlass_engine::record::OWNER_LABEL;
        // Labels and revision; whether it is the object's, also where only its own labels count.
        for (labels, revision, expected) in [
            (&[(owner, OWNER), (uid, "u")][..], 1, (true, true)),
            (&[(owner, OWNER), (uid, "other")], 1, (false, false)),
            (&[(owner, OWNER), (uid, "other")], 2, (true, false)),
            (&[(owner, OWNER)], 1, (false, false)),
            (&[(owner, "helmcharts"), (uid, "u")], 2, (false, false)),
            (&[], 1, (true, false)),
        ] {
            let head = RecordHead {
                id: ReleaseId::new("ns", "web"),
                revision,
                status: ReleaseStatus::Deployed,
                labels: labels
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
            };
            let of = |only_own| is_own_record(&head, (&object, &status), only_own);
            assert_eq!((of(false), of(true)), expected, "{labels:?} {revision}");
        }
    }

    #[test]
    fn what_another_generation_or_other_values_had_failed_with_does_not_count() {
        let object = |uid: &str, generation: i64| {
            let metadata = json!({"name": "web", "namespace": "ns", "uid": uid, "generation": generation});
            HelmReleaseObject::read(&json!({"metadata": metadata}))
        };
        let mut record: Record = serde_json::from_value(json!({
            "name": "web", "namespace": "ns", "version": 1, "config": {"a": 1}, "info": {"status": "failed"},
            "chart": {"metadata": {"name": "demo", "version": "1.0.0"}},
        }))
        .unwrap();
        record.extension.cause = cause_of(&object("u", 2));
        record.labels.insert("windlass.dev/object-uid".to_owned(), "u".to_owned());
        let made_of = digest::config_digest(&digest::record_values(&record));
        assert!(is_current(&record, &object("u", 2), &made_of));
        for (what, object, digest) in [
            ("another generation", object("u", 3), made_of.as_str()),
            ("another object", object("v", 2), made_of.as_str()),
            ("other values", object("u", 2), "sha256:other"),
        ] {
            assert!(!is_current(&record, &object, digest), "{what}");
        }
        for (name, version, same) in
            [("demo", "1.0.0", true), ("demo", "1.0.1", false), ("other", "1.0.0", false)]
        {
            assert_eq!(is_of_chart(&record, name, version), same, "{name} {version}");
        }
    }

    #[test]
    fn a_remediation_is_finished_and_nothing_else_of_that_kind() {
        let status: HelmReleaseStatus =
            serde_json::from_value(json!({"history": [{"version": 3}, {"version": 2}]})).unwrap();
        let record = |state: &str, cause: &str, to: u64, owner: &str| -> Record {
            let mut record: Record = serde_json::from_value(json!({
                "name": "web", "namespace": "ns", "version": 4, "info": {"status": state, "rollback_revision": to},
            }))
            .unwrap();
            record.extension.cause = cause.to_owned();
            record.labels.insert("windlass.dev/owner".to_owned(), owner.to_owned());
            record
        };
        let own = "remediates revision 3";
        for (what, record, two_deployed, expected) in [
            ("ours", record("pending-rollback", own, 2, OWNER), false, Some(2)),
            ("ended", record("deployed", own, 2, OWNER), false, None),
            ("ended but for the revision before", record("deployed", own, 2, OWNER), true, Some(2)),
            ("failed", record("failed", own, 2, OWNER), true, None),
            ("of an upgrade", record("pending-upgrade", own, 2, OWNER), false, None),
            (
                "of another revision",
                record("pending-rollback", "remediates revision 2", 2, OWNER),
                false,
                None,
            ),
            ("to one that is not known", record("pending-rollback", own, 1, OWNER), false, None),
            ("somebody else's", record("pending-rollback", own, 2, "modules"), false, None),
        ] {
            assert_eq!(unfinished_rollback(&record, two_deployed, &status), expected, "{what}");
        }
        let pending = record("pending-rollback", own, 2, OWNER);
        assert_eq!(unfinished_rollback(&pending, false, &HelmReleaseStatus::default()), None);
    }
}
