//! Unblocks later modules when a hook hangs.
//!
//! A hook without a timeout may run forever, as with addon-operator. Its module then counts as tried, so that modules of higher
//! numbers run and the converge ends; the hook continues, and its module ends when the hook does. Only time in hooks counts:
//! `--helm-timeout` limits a release.

use std::time::{Duration, Instant};

use super::Operator;

/// How often hung hooks are looked for.
const LOOK: Duration = Duration::from_secs(1);

impl Operator {
    /// When to check next; `None` if no module waits.
    pub(super) fn next_unblock_check(&self) -> Option<Instant> {
        (!self.workers.queue.awaited().is_empty() || !self.pending_deletions.deletions.is_empty())
            .then(|| self.pending_deletions.checked + LOOK.min(self.options.hooks.unblock_after))
    }

    /// Lets others go on where a hook has been running for too long.
    pub(super) fn unblock_hung_modules(&mut self) {
        self.pending_deletions.checked = Instant::now();
        self.resolve_deletions();
        let unblock_after = self.options.hooks.unblock_after;
        let too_long =
            |name: &str| self.hooks.running_since(name).is_some_and(|at| at.elapsed() >= unblock_after);
        let names: Vec<String> =
            self.workers.queue.awaited().into_iter().filter(|n| too_long(n)).map(str::to_owned).collect();
        for name in names {
            tracing::warn!(
                module = name,
                unblock_after_s = unblock_after.as_secs_f32(),
                "a hook still runs: later modules no longer wait for it; --hook-timeout or the hook's settings.timeout \
                 would end it"
            );
            self.workers.queue.pass_over(&name);
        }
        self.check_convergence();
    }
}
