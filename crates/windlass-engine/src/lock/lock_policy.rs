//! Whether a pending record's operation may still run, and whether a Lease is held. Pure.
//!
//! Helm's only lock is its pending record, so such a record of another process is respected for Helm's default
//! timeout. Ours come with a Lease: its holder knows that no other operation runs.

use crate::{
    error::EngineError,
    record::{Record, ReleaseStatus},
};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

const PENDING_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
/// Duration of our Leases without a renewal.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A Lease renewed within this time, by its holder's clock, is refused without observing it. Refusing is always safe;
/// taking over needs proof by our own clock.
const FRESH_LEASE: Duration = Duration::from_secs(7);

/// The state of a Lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseView {
    /// It names a holder.
    pub(crate) held: bool,
    /// Its holder has provably exited: a process of this machine.
    pub(crate) gone: bool,
    /// Its renew time, by the holder's clock.
    pub(crate) renewed: Option<Timestamp>,
    /// Its duration without a renewal, as its holder wrote it.
    pub(crate) duration: Duration,
    /// How long it was observed unchanged, by our monotonic clock.
    pub(crate) observed: Duration,
    /// It changed while it was observed.
    pub(crate) renewing: bool,
}

/// The state of a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It may be taken over.
    Free,
    /// Its holder is alive.
    Held,
    /// Its holder may have crashed: observe it further.
    Doubtful,
}

/// Applies client-go's rule: a Lease is free once it was observed unchanged for its duration by our own clock. The
/// times in it only allow an early refusal.
pub(crate) fn claim(lease: &LeaseView, now: Timestamp) -> Claim {
    if !lease.held || lease.gone || lease.observed >= lease.duration {
        return Claim::Free;
    }
    let age = lease.renewed.map(|renewed| now.duration_since(renewed));
    let age = age.and_then(|age| Duration::try_from(age).ok());
    if lease.renewing || age.is_some_and(|age| age < FRESH_LEASE) { Claim::Held } else { Claim::Doubtful }
}

/// The owner of a pending record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordHold {
    /// Written by this process before, or by an earlier process of the same operator.
    Ours,
    /// Another operation may be running.
    Theirs,
    /// Its writer is gone.
    Abandoned,
}

/// The error for a record whose operation may still run: its writer, since when, and when it counts as abandoned.
pub(crate) fn pending(record: &Record) -> EngineError {
    let since = last_written(record).map_or_else(String::new, |at| format!("{at:.0}"));
    let (revision, status) = (record.version, record.info.status);
    EngineError::Pending { revision, status, since, by: worker(record), minutes: PENDING_TIMEOUT.as_mins() }
}

/// Describes an unfinished uninstall: revision, since when, and by whom. `gone`: no operation is running.
pub(crate) fn half_uninstalled(record: &Record, gone: bool, now: Timestamp) -> String {
    let since = last_written(record).map_or_else(String::new, |at| {
        let age = SignedDuration::from_secs(now.duration_since(at).as_secs().max(0));
        format!(" since {at:.0} ({age:#})")
    });
    let end = if gone { ", which crashed or failed" } else { "" };
    format!(
        "revision {} is {}{since}, by {}{end}",
        record.version,
        ReleaseStatus::Uninstalling,
        worker(record)
    )
}

/// The writer of a record.
fn worker(record: &Record) -> String {
    match record.extension.holder.as_str() {
        "" => "Helm or another tool without a lock".to_owned(),
        holder => holder.to_owned(),
    }
}

/// When the last operation on a record began.
fn last_written(record: &Record) -> Option<Timestamp> {
    let times = [&record.info.last_deployed, &record.info.deleted];
    times.into_iter().filter_map(|time| time.parse().ok()).max()
}

/// Judges a pending or uninstalling record. `me` identifies this process, `owner` its operator; `locked`: we hold the
/// release's Lease.
pub(crate) fn judge(
    record: &Record,
    me: &str,
    owner: Option<&str>,
    locked: bool,
    now: Timestamp,
) -> RecordHold {
    if record.extension.holder == me
        || (owner.is_some() && record.owner() == owner && !record.extension.holder.is_empty())
    {
        return RecordHold::Ours;
    }
    if locked && !record.extension.holder.is_empty() {
        return RecordHold::Abandoned;
    }
    match last_written(record) {
        Some(time) if now.duration_since(time) < PENDING_TIMEOUT => RecordHold::Theirs,
        Some(_) | None => RecordHold::Abandoned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Info, OWNER_LABEL, RecordExtension};

    #[test]
    fn respects_the_living() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let record = |time: &str, holder: &str, owner: &str| Record {
            info: Info { last_deployed: time.into(), ..Info::default() },
            extension: RecordExtension { holder: holder.into(), ..RecordExtension::default() },
            labels: [(OWNER_LABEL.to_owned(), owner.to_owned())]
                .into_iter()
                .filter(|(_, o)| !o.is_empty())
                .collect(),
            ..Record::default()
        };
        let cases = [
            ("helm, a minute ago", record("2026-01-01T00:09:00Z", "", ""), RecordHold::Theirs),
            ("helm, in another zone", record("2026-01-01T02:09:00.123456+02:00", "", ""), RecordHold::Theirs),
            ("helm, long ago", record("2026-01-01T00:04:59Z", "", ""), RecordHold::Abandoned),
            ("no time at all", record("", "", ""), RecordHold::Abandoned),
            ("this process", record("2026-01-01T00:09:00Z", "me", ""), RecordHold::Ours),
            ("another process", record("2026-01-01T00:09:00Z", "you", ""), RecordHold::Theirs),
            (
                "our operator before it was restarted",
                record("2026-01-01T00:09:00Z", "you", "op"),
                RecordHold::Ours,
            ),
            ("helm on our operator's release", record("2026-01-01T00:09:00Z", "", "op"), RecordHold::Theirs),
        ];
        for (what, record, expected) in cases {
            assert_eq!(judge(&record, "me", Some("op"), false, now), expected, "{what}");
            let locked = judge(&record, "me", Some("op"), true, now);
            let free = if record.extension.holder.is_empty() || expected != RecordHold::Theirs {
                expected
            } else {
                RecordHold::Abandoned
            };
            assert_eq!(locked, free, "{what}, with the Lease");
        }
    }

    #[test]
    fn a_half_uninstalled_release_is_told_of() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let record = |holder: &str, deleted: &str| Record {
            version: 3,
            info: Info {
                last_deployed: "2025-12-31T00:00:00Z".into(),
                deleted: deleted.into(),
                status: ReleaseStatus::Uninstalling,
                ..Info::default()
            },
            extension: RecordExtension { holder: holder.into(), ..RecordExtension::default() },
            ..Record::default()
        };
        let ours = record("windlass-7-ab", "2026-01-01T00:05:48.1Z");
        assert_eq!(
            half_uninstalled(&ours, true, now),
            "revision 3 is uninstalling since 2026-01-01T00:05:48Z (4m 11s), by windlass-7-ab, which crashed or failed"
        );
        let helms = record("", "2026-01-01T02:09:00+02:00");
        assert_eq!(
            half_uninstalled(&helms, false, now),
            "revision 3 is uninstalling since 2026-01-01T00:09:00Z (1m), by Helm or another tool without a lock"
        );
        // Since the uninstall began, not since the deployment.
        assert!(
            pending(&ours).to_string().contains("uninstalling since 2026-01-01T00:05:48Z, by windlass-7-ab;")
        );
    }

    #[test]
    fn leases_end_when_their_holders_do() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let lease = |ago: i64, observed: u64| LeaseView {
            held: true,
            gone: false,
            renewed: Some(now - SignedDuration::from_secs(ago)),
            duration: LEASE_DURATION,
            observed: Duration::from_secs(observed),
            renewing: false,
        };
        let cases = [
            ("renewed just now", lease(3, 0), Claim::Held),
            ("not renewed when it was due", lease(8, 0), Claim::Doubtful),
            ("expired by the clock alone", lease(16, 0), Claim::Doubtful),
            (
                "expired by the clock, seen unchanged for less than its duration",
                lease(16, 14),
                Claim::Doubtful,
            ),
            ("a holder whose clock is 10 minutes behind", lease(600, 0), Claim::Doubtful),
            ("the same, seen renewing", LeaseView { renewing: true, ..lease(600, 1) }, Claim::Held),
            ("a holder whose clock is 10 minutes ahead", lease(-600, 5), Claim::Doubtful),
            ("the same, seen renewing", LeaseView { renewing: true, ..lease(-600, 1) }, Claim::Held),
            ("ahead, and seen unchanged for its duration", lease(-600, 15), Claim::Free),
            ("behind, and seen unchanged for its duration", lease(600, 15), Claim::Free),
            (
                "seen renewing, then unchanged for its duration",
                LeaseView { renewing: true, ..lease(3, 15) },
                Claim::Free,
            ),
            (
                "a duration of its own",
                LeaseView { duration: Duration::from_secs(60), ..lease(30, 15) },
                Claim::Doubtful,
            ),
            ("never renewed", LeaseView { renewed: None, ..lease(0, 0) }, Claim::Doubtful),
            ("a holder that is gone", LeaseView { gone: true, ..lease(0, 0) }, Claim::Free),
            ("let go", LeaseView { held: false, ..lease(0, 0) }, Claim::Free),
        ];
        for (what, lease, expected) in cases {
            assert_eq!(claim(&lease, now), expected, "{what}");
        }
    }
}
