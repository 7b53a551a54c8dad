//! Repositories that somebody says were pushed to: when their registries are asked for that. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use windlass_controller::PushedRepository;

/// How long the same hint waits before it is followed again.
const PAUSE: Duration = Duration::from_secs(10);
/// The most hints that wait, and the most whose last time is remembered; and those of one namespace.
const MAX_HINTS: usize = 1000;
const MAX_OF_NAMESPACE: usize = 50;

/// Hints that wait for their time.
#[derive(Default)]
pub(crate) struct PushHints {
    waiting: BTreeSet<PushedRepository>,
    /// When each was followed last. Those of one namespace delay no other.
    followed: BTreeMap<PushedRepository, Instant>,
}

impl PushHints {
    /// Takes hints; those that are one too many are dropped.
    pub(crate) fn add(&mut self, hints: BTreeSet<PushedRepository>) {
        for hint in hints {
            if self.waiting.len() < MAX_HINTS && of(&hint.origin, self.waiting.iter()) < MAX_OF_NAMESPACE {
                self.waiting.insert(hint);
            }
        }
    }

    /// When the next one is due.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        self.waiting.iter().map(|hint| self.due(hint, now)).min()
    }

    fn due(&self, hint: &PushedRepository, now: Instant) -> Instant {
        let (all, own) = (self.followed.len(), of(&hint.origin, self.followed.keys()));
        let is_full = all >= MAX_HINTS || own >= MAX_OF_NAMESPACE;
        let place = || {
            let others =
                self.followed.iter().filter(|(other, _)| all >= MAX_HINTS || other.origin == hint.origin);
            others.map(|(_, last)| last).min().filter(|_| is_full)
        };
        let last = self.followed.get(hint).or_else(place);
        last.map_or(now, |last| *last + PAUSE)
    }

    /// Those that are due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<PushedRepository> {
        self.followed.retain(|_, last| *last + PAUSE > now);
        let left = MAX_HINTS.saturating_sub(self.followed.len());
        let may = |hint: &&PushedRepository| {
            !self.followed.contains_key(*hint) && of(&hint.origin, self.followed.keys()) < MAX_OF_NAMESPACE
        };
        let due: Vec<_> = self.waiting.iter().filter(may).take(left).cloned().collect();
        for hint in &due {
            self.waiting.remove(hint);
            self.followed.insert(hint.clone(), now);
        }
        due
    }
}

/// How many hints are of a namespace.
fn of<'h>(origin: &str, hints: impl Iterator<Item = &'h PushedRepository>) -> usize {
    hints.filter(|hint| hint.origin == origin).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(path: &str, namespace: Option<&str>) -> PushedRepository {
        // Each of another namespace.
        let (origin, path) = (path.to_owned(), path.to_owned());
        PushedRepository { origin, path, namespace: namespace.map(str::to_owned) }
    }

    #[test]
    fn a_repository_is_asked_for_once_in_a_while() {
        let (mut hints, now) = (PushHints::default(), Instant::now());
        assert_eq!((hints.next_due(now), hints.take_due(now)), (None, Vec::new()));
        hints.add([hint("a", None), hint("a", Some("n")), hint("b", None)].into());
        assert_eq!(hints.next_due(now), Some(now));
        assert_eq!(hints.take_due(now).len(), 3);
        for _ in 0..100 {
            hints.add([hint("a", None)].into());
            assert_eq!(hints.take_due(now + PAUSE / 2), []);
        }
        assert_eq!(hints.next_due(now), Some(now + PAUSE));
        assert_eq!(hints.take_due(now + PAUSE), [hint("a", None)]);
        assert_eq!(hints.next_due(now + PAUSE), None);
    }

    #[test]
    fn hints_are_bounded() {
        let (mut hints, now) = (PushHints::default(), Instant::now());
        for round in 0..3 {
            hints.add((0..MAX_HINTS).map(|number| hint(&format!("{round}/{number}"), None)).collect());
        }
        assert_eq!(hints.waiting.len(), MAX_HINTS);
        assert_eq!(hints.take_due(now).len(), MAX_HINTS);
        hints.add([hint("later", None)].into());
        assert_eq!((hints.take_due(now), hints.next_due(now)), (Vec::new(), Some(now + PAUSE)));
        assert_eq!(hints.take_due(now + PAUSE), [hint("later", None)]);
        assert_eq!(hints.followed.len(), 1);
    }

    #[test]
    fn hints_of_a_namespace_leave_room_for_others() {
        let (mut hints, now) = (PushHints::default(), Instant::now());
        let of = |origin: &str, number: usize| PushedRepository {
            origin: origin.to_owned(),
            ..hint(&format!("{number:03}"), None)
        };
        for round in 0..3 {
            hints.add((0..100).map(|number| of("a", 100 * round + number)).collect());
            assert_eq!(hints.waiting.len(), MAX_OF_NAMESPACE);
        }
        hints.add([of("z", 999)].into());
        assert_eq!(hints.take_due(now).len(), MAX_OF_NAMESPACE + 1);
        hints.add([of("a", 500), of("z", 500)].into());
        assert_eq!(hints.next_due(now), Some(now));
        assert_eq!(hints.take_due(now), [of("z", 500)]);
        assert_eq!(
            (hints.next_due(now), hints.take_due(now + PAUSE)),
            (Some(now + PAUSE), vec![of("a", 500)])
        );
    }
}
