//! When a deletion of an object may be a shell hook's own doing: while one runs, and a moment after. Pure.
//!
//! Such deletions are not drift: the owner's next run decides on them. A hook that hangs, or hooks that run without a break,
//! must not disable drift correction forever: after `--hook-unblock-after` they no longer count.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long after a run of a hook deletions may be its own doing.
const GRACE: Duration = Duration::from_secs(2);

/// Runs of hooks by owner; the global hooks are under the empty name.
#[derive(Default)]
pub struct DeletionGrace(BTreeMap<String, Owner>);

#[derive(Default)]
struct Owner {
    /// When each running run has begun.
    running: Vec<Instant>,
    /// Until when deletions may be of the last run that ended.
    until: Option<Instant>,
    /// Since when hooks have been active without a break.
    since: Option<Instant>,
}

/// Whether a deletion may be a hook's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookActivity {
    /// No hook runs or has just run.
    None,
    /// A hook runs or has just run.
    Active,
    /// Hooks have been running for longer than `--hook-unblock-after`.
    Hung,
}

impl Owner {
    fn is_active(&self, now: Instant) -> bool {
        !self.running.is_empty() || self.until.is_some_and(|at| at > now)
    }

    fn begins(&mut self, now: Instant, unblock_after: Duration) {
        // Beside a run that hangs others have their own time.
        let lost = self.running.iter().all(|at| now.duration_since(*at) >= unblock_after);
        if !self.is_active(now) || lost && self.until.is_none_or(|at| at <= now) {
            self.since = Some(now);
        }
        self.running.push(now);
    }

    fn ends(&mut self, began: Instant, now: Instant) {
        if let Some(at) = self.running.iter().position(|at| *at == began) {
            self.running.remove(at);
        }
        self.until = Some(now + GRACE);
    }

    fn activity(&self, now: Instant, unblock_after: Duration) -> HookActivity {
        let young = self.running.iter().any(|at| now.duration_since(*at) < unblock_after)
            || self.until.is_some_and(|at| at > now);
        match self.since {
            Some(since) if young && now.duration_since(since) < unblock_after => HookActivity::Active,
            _ if self.is_active(now) => HookActivity::Hung,
            _ => HookActivity::None,
        }
    }
}

impl DeletionGrace {
    /// A run of a hook begins.
    pub fn begins(&mut self, owner: &str, now: Instant, unblock_after: Duration) {
        self.0.entry(owner.to_owned()).or_default().begins(now, unblock_after);
    }

    /// The run that began at a moment has ended.
    pub fn ends(&mut self, owner: &str, began: Instant, now: Instant) {
        self.0.entry(owner.to_owned()).or_default().ends(began, now);
    }

    /// Since when a hook of an owner has been running, the one that began first.
    #[must_use]
    pub fn running_since(&self, owner: &str) -> Option<Instant> {
        self.0.get(owner)?.running.iter().min().copied()
    }

    /// What hooks of an owner, and the global ones, are doing.
    #[must_use]
    pub fn activity(&self, owner: &str, now: Instant, unblock_after: Duration) -> HookActivity {
        let of = |name: &str| self.0.get(name).map_or(HookActivity::None, |o| o.activity(now, unblock_after));
        match (of(""), of(owner)) {
            (HookActivity::Active, _) | (_, HookActivity::Active) => HookActivity::Active,
            (HookActivity::Hung, _) | (_, HookActivity::Hung) => HookActivity::Hung,
            (HookActivity::None, HookActivity::None) => HookActivity::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(100);

    /// Seconds in, whose doing a deletion of `a`'s objects may be, after runs of owners from one second to another.
    fn activity(runs: &[(&str, u64, Option<u64>)], at: u64) -> HookActivity {
        let start = Instant::now();
        let second = |s: u64| start + Duration::from_secs(s);
        let mut events: Vec<(u64, bool, &str, u64)> = Vec::new();
        for (owner, from, to) in runs {
            events.push((*from, true, owner, *from));
            events.extend(to.map(|to| (to, false, *owner, *from)));
        }
        events.sort_by_key(|e| e.0);
        let mut grace = DeletionGrace::default();
        for (when, begins, owner, from) in events.into_iter().filter(|e| e.0 <= at) {
            if begins {
                grace.begins(owner, second(when), PATIENCE);
            } else {
                grace.ends(owner, second(from), second(when));
            }
        }
        grace.activity("a", second(at), PATIENCE)
    }

    #[test]
    fn a_deletion_is_a_hooks_doing_while_it_runs_and_a_moment_after() {
        for (owner, at, expected) in [
            ("a", 4, HookActivity::None),
            ("a", 5, HookActivity::Active),
            ("a", 9, HookActivity::Active),
            ("a", 11, HookActivity::Active),
            ("a", 12, HookActivity::None),
            ("", 11, HookActivity::Active),
            ("b", 7, HookActivity::None),
        ] {
            assert_eq!(activity(&[(owner, 5, Some(10))], at), expected, "{owner:?} at {at}");
        }
    }

    #[test]
    fn a_hook_that_hangs_counts_until_it_unblocks_others() {
        let hangs = ("a", 0, None);
        assert_eq!(activity(&[hangs], 99), HookActivity::Active);
        assert_eq!(activity(&[hangs], 100), HookActivity::Hung);
        let other = ("a", 150, Some(155));
        assert_eq!(activity(&[hangs, other], 140), HookActivity::Hung);
        assert_eq!(activity(&[hangs, other], 152), HookActivity::Active);
        assert_eq!(activity(&[hangs, other], 156), HookActivity::Active);
        assert_eq!(activity(&[hangs, other], 157), HookActivity::Hung);
        assert_eq!(activity(&[hangs, ("", 150, Some(151))], 152), HookActivity::Active, "a global hook");
    }

    #[test]
    fn hooks_without_a_break_count_until_they_unblock_others() {
        // One a second, each of half of it; after the break of 10 s the time starts again.
        let mut runs: Vec<(&str, u64, Option<u64>)> = (0..150).map(|s| ("a", s, Some(s + 1))).collect();
        runs.push(("a", 160, Some(161)));
        assert_eq!(activity(&runs, 98), HookActivity::Active);
        assert_eq!(activity(&runs, 120), HookActivity::Hung);
        assert_eq!(activity(&runs, 155), HookActivity::None);
        assert_eq!(activity(&runs, 161), HookActivity::Active);
    }
}
