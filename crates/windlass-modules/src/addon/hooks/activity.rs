//! Which hooks of modules run now: the guard that says so, and what follows for deletions.

use std::time::Instant;

use super::{Hooks, PoisonError};
use crate::shell_hooks::HookActivity;

impl Hooks {
    /// What hooks of a module, and the global ones, are doing.
    pub(in crate::addon) fn activity(&self, module: &str) -> HookActivity {
        let grace = self.deletion_grace.lock().unwrap_or_else(PoisonError::into_inner);
        grace.activity(module, Instant::now(), self.unblock_after)
    }

    /// Since when a hook of a module has been running, the one that began first.
    pub(in crate::addon) fn running_since(&self, module: &str) -> Option<Instant> {
        self.deletion_grace.lock().unwrap_or_else(PoisonError::into_inner).running_since(module)
    }

    /// Records that a hook runs, until the returned guard is dropped.
    pub(super) fn running(&self, module: &str) -> impl Drop + '_ {
        struct Running<'h>(&'h Hooks, String, Instant);
        impl Drop for Running<'_> {
            fn drop(&mut self) {
                let mut grace = self.0.deletion_grace.lock().unwrap_or_else(PoisonError::into_inner);
                grace.ends(&self.1, self.2, Instant::now());
            }
        }
        let now = Instant::now();
        let mut grace = self.deletion_grace.lock().unwrap_or_else(PoisonError::into_inner);
        grace.begins(module, now, self.unblock_after);
        Running(self, module.to_owned(), now)
    }
}
