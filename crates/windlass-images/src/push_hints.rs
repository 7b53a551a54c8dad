//! Repositories that somebody says were pushed to: when their registries are asked for that. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use windlass_controller::PushedRepository;

/// How long the same hint waits before it is followed again.
const PAUSE: Duration = Duration::from_secs(10);
/// The most hints that wait, and the most whose last time is remembered.
const MAX_HINTS: usize = 1000;

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
        let left = MAX_HINTS.saturating_sub(self.waiting.len());
        self.waiting.extend(hints.into_iter().take(left));
    }

    /// When the next one is due.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        self.waiting.iter().map(|hint| self.due(hint, now)).min()
    }

    fn due(&self, hint: &PushedRepository, now: Instant) -> Instant {
        let is_full = self.followed.len() >= MAX_HINTS;
        let place = || self.followed.values().min().filter(|_| is_full);
        let last = self.followed.get(hint).or_else(place);
        last.map_or(now, |last| *last + PAUSE)
    }

    /// Those that are due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<PushedRepository> {
        self.followed.retain(|_, last| *last + PAUSE > now);
        let left = MAX_HINTS.saturating_sub(self.followed.len());
        let is_due = |hint: &&PushedRepository| !self.followed.contains_key(*hint);
        let due: Vec<_> = self.waiting.iter().filter(is_due).take(left).cloned().collect();
        for hint in &due {
            self.waiting.remove(hint);
            self.followed.insert(hint.clone(), now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(path: &str, namespace: Option<&str>) -> PushedRepository {
        PushedRepository { path: path.to_owned(), namespace: namespace.map(str::to_owned) }
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
}
