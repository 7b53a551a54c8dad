//! Whether a pending record is someone's live work, and whether a Lease is held. Pure.
//!
//! Helm takes no lock but its pending record, so such a record of someone else is respected for as long as Helm's own
//! default timeout lets an operation run. Ours come with a Lease: whoever has it knows that nobody works on them.

use crate::release::{
    error::EngineError,
    record::{Record, ReleaseStatus},
};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

const RESPECT: SignedDuration = SignedDuration::from_mins(5);
/// How long a Lease of ours holds without a renewal.
pub(crate) const LEASE: Duration = Duration::from_secs(15);
/// A Lease that is younger than this by its holder's clock is refused without watching it. Refusing is always safe; taking over
/// needs proof on our own clock.
const FRESH: Duration = Duration::from_secs(7);

/// What is known of a Lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseView {
    /// Someone is named as its holder.
    pub(crate) held: bool,
    /// Its holder is provably gone: a process of this machine that has ended.
    pub(crate) gone: bool,
    /// When it was renewed, by the clock of its holder.
    pub(crate) renewed: Option<Timestamp>,
    /// How long it holds without a renewal, as its holder wrote it.
    pub(crate) duration: Duration,
    /// How long it has been seen unchanged, by our monotonic clock.
    pub(crate) observed: Duration,
    /// It changed while it was watched.
    pub(crate) renewing: bool,
}

/// What to make of a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It may be taken.
    Free,
    /// Its holder lives.
    Held,
    /// Its holder may be gone: keep watching.
    Doubtful,
}

/// Judges a Lease by client-go's rule: it is free once it was seen unchanged for its duration on our own clock, whatever the
/// times in it say. Those only allow an early refusal.
pub(crate) fn claim(lease: &LeaseView, now: Timestamp) -> Claim {
    if !lease.held || lease.gone || lease.observed >= lease.duration {
        return Claim::Free;
    }
    let age = lease.renewed.map(|renewed| now.duration_since(renewed));
    let age = age.and_then(|age| Duration::try_from(age).ok());
    if lease.renewing || age.is_some_and(|age| age < FRESH) { Claim::Held } else { Claim::Doubtful }
}

/// Whose a pending record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordHold {
    /// Left by us: an earlier try of this process, or of the operator that we are.
    Ours,
    /// Someone may be at work on it.
    Theirs,
    /// Whoever wrote it is gone.
    Abandoned,
}

/// The refusal to touch a record that someone may be at work on: whose it is, since when, and how it ends.
pub(crate) fn pending(record: &Record) -> EngineError {
    let since = last_written(record).map_or_else(String::new, |at| format!("{at:.0}"));
    let (revision, status) = (record.version, record.info.status);
    EngineError::Pending { revision, status, since, by: worker(record), minutes: RESPECT.as_mins() }
}

/// What is to be said of an uninstall that did not come to its end: of what, since when and for how long, and whose it was.
/// `gone`: nobody is at it any more.
pub(crate) fn half_uninstalled(record: &Record, gone: bool, now: Timestamp) -> String {
    let since = last_written(record).map_or_else(String::new, |at| {
        let age = SignedDuration::from_secs(now.duration_since(at).as_secs().max(0));
        format!(" since {at:.0} ({age:#})")
    });
    let end = if gone { ", who died or failed over it" } else { "" };
    format!(
        "revision {} is {}{since}, by {}{end}",
        record.version,
        ReleaseStatus::Uninstalling,
        worker(record)
    )
}

/// Who is, or was, at work on a record.
fn worker(record: &Record) -> String {
    match record.extension.holder.as_str() {
        "" => "Helm or another tool without a lock".to_owned(),
        holder => holder.to_owned(),
    }
}

/// When whoever works on a record last began to.
fn last_written(record: &Record) -> Option<Timestamp> {
    let times = [&record.info.last_deployed, &record.info.deleted];
    times.into_iter().filter_map(|time| time.parse().ok()).max()
}

/// Judges a record that is pending or being uninstalled. `me` names this process, `owner` the operator it is; `locked`:
/// the release's Lease is ours.
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
        Some(time) if now.duration_since(time) < RESPECT => RecordHold::Theirs,
        Some(_) | None => RecordHold::Abandoned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::record::{Info, OWNER_LABEL, RecordExtension};

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
            "revision 3 is uninstalling since 2026-01-01T00:05:48Z (4m 11s), by windlass-7-ab, who died or failed over it"
        );
        let helms = record("", "2026-01-01T02:09:00+02:00");
        assert_eq!(
            half_uninstalled(&helms, false, now),
            "revision 3 is uninstalling since 2026-01-01T00:09:00Z (1m), by Helm or another tool without a lock"
        );
        // Since it is being uninstalled, not since it was deployed.
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
            duration: LEASE,
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
