//! Whether a pending record is someone's live work. Pure.
//!
//! Helm takes no lock but its pending record, so such a record of someone else is respected for as long as Helm's own
//! default timeout lets an operation run.

use super::record::Record;
use jiff::{SignedDuration, Timestamp};

const RESPECT: SignedDuration = SignedDuration::from_mins(5);

/// Whose a pending record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Left by us: an earlier try of this process, or of the operator that we are.
    Ours,
    /// Someone may be at work on it.
    Theirs,
    /// Whoever wrote it is gone.
    Abandoned,
}

/// Judges a record that is pending or being uninstalled. `me` names this process, `owner` the operator it is.
pub(crate) fn judge(record: &Record, me: &str, owner: Option<&str>, now: Timestamp) -> Hold {
    if record.memory.holder == me
        || (owner.is_some() && record.owner() == owner && !record.memory.holder.is_empty())
    {
        return Hold::Ours;
    }
    let times = [&record.info.last_deployed, &record.info.deleted];
    let newest = times.into_iter().filter_map(|t| t.parse::<Timestamp>().ok()).max();
    match newest {
        Some(time) if now.duration_since(time) < RESPECT => Hold::Theirs,
        Some(_) | None => Hold::Abandoned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::record::{Info, Memory, OWNER_LABEL};

    #[test]
    fn respects_the_living() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let record = |time: &str, holder: &str, owner: &str| Record {
            info: Info { last_deployed: time.into(), ..Info::default() },
            memory: Memory { holder: holder.into(), ..Memory::default() },
            labels: [(OWNER_LABEL.to_owned(), owner.to_owned())]
                .into_iter()
                .filter(|(_, o)| !o.is_empty())
                .collect(),
            ..Record::default()
        };
        let cases = [
            ("helm, a minute ago", record("2026-01-01T00:09:00Z", "", ""), Hold::Theirs),
            ("helm, in another zone", record("2026-01-01T02:09:00.123456+02:00", "", ""), Hold::Theirs),
            ("helm, long ago", record("2026-01-01T00:04:59Z", "", ""), Hold::Abandoned),
            ("no time at all", record("", "", ""), Hold::Abandoned),
            ("this process", record("2026-01-01T00:09:00Z", "me", ""), Hold::Ours),
            ("another process", record("2026-01-01T00:09:00Z", "you", ""), Hold::Theirs),
            ("our operator before it was restarted", record("2026-01-01T00:09:00Z", "you", "op"), Hold::Ours),
            ("helm on our operator's release", record("2026-01-01T00:09:00Z", "", "op"), Hold::Theirs),
        ];
        for (what, record, expected) in cases {
            assert_eq!(judge(&record, "me", Some("op"), now), expected, "{what}");
        }
    }
}
