//! When deletions of a module's objects may be a hook's own doing: while one runs, and a moment after. Pure but for the guard.
//!
//! Such deletions are no drift: the next run of the module decides on them. But a hook that hangs, or hooks that run without
//! a break, must not switch correction off for ever: after the patience with hooks that counts no more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Hooks, PoisonError};

/// How long after a run of a hook deletions of its module's objects may be its own doing.
const ECHO: Duration = Duration::from_secs(2);

/// Runs of hooks by module; the global hooks are under the empty name.
#[derive(Default)]
pub(super) struct DeletionGrace(BTreeMap<String, Owner>);

#[derive(Default)]
struct Owner {
    /// When each run that goes on has begun.
    running: Vec<Instant>,
    /// Until when the last run that ended may echo.
    until: Option<Instant>,
    /// When it became quiet, if it is still so.
    since: Option<Instant>,
}

/// Whether a deletion is to be taken for a hook's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::addon) enum HookActivity {
    /// No hook runs, or has just run.
    Nobody,
    /// A hook.
    Hook,
    /// Hooks have been running for so long that it counts no more.
    Endless,
}

impl Owner {
    fn is_active(&self, now: Instant) -> bool {
        !self.running.is_empty() || self.until.is_some_and(|at| at > now)
    }

    fn begins(&mut self, now: Instant, patience: Duration) {
        // Beside a run that hangs others have their own time.
        let lost = self.running.iter().all(|at| now.duration_since(*at) >= patience);
        if !self.is_active(now) || lost && self.until.is_none_or(|at| at <= now) {
            self.since = Some(now);
        }
        self.running.push(now);
    }

    fn ends(&mut self, began: Instant, now: Instant) {
        if let Some(at) = self.running.iter().position(|at| *at == began) {
            self.running.remove(at);
        }
        self.until = Some(now + ECHO);
    }

    fn doing(&self, now: Instant, patience: Duration) -> HookActivity {
        let young = self.running.iter().any(|at| now.duration_since(*at) < patience)
            || self.until.is_some_and(|at| at > now);
        match self.since {
            Some(since) if young && now.duration_since(since) < patience => HookActivity::Hook,
            _ if self.is_active(now) => HookActivity::Endless,
            _ => HookActivity::Nobody,
        }
    }
}

impl DeletionGrace {
    fn doing(&self, module: &str, now: Instant, patience: Duration) -> HookActivity {
        let of = |name: &str| self.0.get(name).map_or(HookActivity::Nobody, |o| o.doing(now, patience));
        match (of(""), of(module)) {
            (HookActivity::Hook, _) | (_, HookActivity::Hook) => HookActivity::Hook,
            (HookActivity::Endless, _) | (_, HookActivity::Endless) => HookActivity::Endless,
            (HookActivity::Nobody, HookActivity::Nobody) => HookActivity::Nobody,
        }
    }
}

impl Hooks {
    /// Whose doing a deletion of a module's objects may be now.
    pub(in crate::addon) fn doing(&self, module: &str) -> HookActivity {
        let quiet = self.deletion_grace.lock().unwrap_or_else(PoisonError::into_inner);
        quiet.doing(module, Instant::now(), self.patience)
    }

    /// Since when a hook of a module has been running, the one that began first.
    pub(in crate::addon) fn running_since(&self, module: &str) -> Option<Instant> {
        let quiet = self.deletion_grace.lock().unwrap_or_else(PoisonError::into_inner);
        quiet.0.get(module)?.running.iter().min().copied()
    }

    /// Notes that a hook runs, until what is given goes.
    pub(super) fn running(&self, module: &str) -> impl Drop + '_ {
        struct Running<'h>(&'h Hooks, String, Instant);
        impl Drop for Running<'_> {
            fn drop(&mut self) {
                let mut quiet = self.0.deletion_grace.lock().unwrap_or_else(PoisonError::into_inner);
                quiet.0.entry(std::mem::take(&mut self.1)).or_default().ends(self.2, Instant::now());
            }
        }
        let mut quiet = self.deletion_grace.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        quiet.0.entry(module.to_owned()).or_default().begins(now, self.patience);
        Running(self, module.to_owned(), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(100);

    /// Seconds in, whose doing a deletion of `a`'s objects may be, after runs of owners from one second to another.
    fn doing(runs: &[(&str, u64, Option<u64>)], at: u64) -> HookActivity {
        let start = Instant::now();
        let second = |s: u64| start + Duration::from_secs(s);
        let mut events: Vec<(u64, bool, &str, u64)> = Vec::new();
        for (owner, from, to) in runs {
            events.push((*from, true, owner, *from));
            events.extend(to.map(|to| (to, false, *owner, *from)));
        }
        events.sort_by_key(|e| e.0);
        let mut quiet = DeletionGrace::default();
        for (when, begins, owner, from) in events.into_iter().filter(|e| e.0 <= at) {
            let entry = quiet.0.entry(owner.to_owned()).or_default();
            if begins {
                entry.begins(second(when), PATIENCE);
            } else {
                entry.ends(second(from), second(when));
            }
        }
        quiet.doing("a", second(at), PATIENCE)
    }

    #[test]
    fn a_deletion_is_a_hooks_doing_while_it_runs_and_a_moment_after() {
        for (owner, at, expected) in [
            ("a", 4, HookActivity::Nobody),
            ("a", 5, HookActivity::Hook),
            ("a", 9, HookActivity::Hook),
            ("a", 11, HookActivity::Hook),
            ("a", 12, HookActivity::Nobody),
            ("", 11, HookActivity::Hook),
            ("b", 7, HookActivity::Nobody),
        ] {
            assert_eq!(doing(&[(owner, 5, Some(10))], at), expected, "{owner:?} at {at}");
        }
    }

    #[test]
    fn a_hook_that_hangs_counts_for_the_patience_and_others_for_themselves() {
        let hangs = ("a", 0, None);
        assert_eq!(doing(&[hangs], 99), HookActivity::Hook);
        assert_eq!(doing(&[hangs], 100), HookActivity::Endless);
        let other = ("a", 150, Some(155));
        assert_eq!(doing(&[hangs, other], 140), HookActivity::Endless);
        assert_eq!(doing(&[hangs, other], 152), HookActivity::Hook);
        assert_eq!(doing(&[hangs, other], 156), HookActivity::Hook);
        assert_eq!(doing(&[hangs, other], 157), HookActivity::Endless);
        assert_eq!(doing(&[hangs, ("", 150, Some(151))], 152), HookActivity::Hook, "a global hook");
    }

    #[test]
    fn hooks_without_a_break_count_for_the_patience() {
        // One a second, each of half of it; the break of 10 s begins anew.
        let mut runs: Vec<(&str, u64, Option<u64>)> = (0..150).map(|s| ("a", s, Some(s + 1))).collect();
        runs.push(("a", 160, Some(161)));
        assert_eq!(doing(&runs, 98), HookActivity::Hook);
        assert_eq!(doing(&runs, 120), HookActivity::Endless);
        assert_eq!(doing(&runs, 155), HookActivity::Nobody);
        assert_eq!(doing(&runs, 161), HookActivity::Hook);
    }
}
