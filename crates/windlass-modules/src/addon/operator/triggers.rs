//! Triggers of the engine: releases that were changed from outside.
//!
//! A change is corrected at once. A deletion during a hook's run may be the hook's own: the module's next run decides.

use super::Operator;
use super::converge::Phase;
use crate::shell_hooks::HookActivity;
use windlass_controller::Job;
use windlass_engine::ReconcileTrigger;

impl Operator {
    /// A release was changed from outside.
    pub(super) fn on_trigger(&mut self, name: &str, touched: &ReconcileTrigger) {
        let activation = self.activation("AbsentHelmResourcesDetected");
        let Some(wanted) = self.module_states.get_mut(name).filter(|w| w.enabled && !w.maintenance) else {
            return;
        };
        let reason = touched.to_string();
        if matches!(touched, ReconcileTrigger::Deleted(_))
            && self.hooks.activity(name) == HookActivity::Active
        {
            tracing::debug!(
                module = name,
                reason,
                "a hook runs or has just run: the next run of the module decides"
            );
            self.pending_deletions.deletions.insert(name.to_owned(), touched.clone());
            return;
        }
        tracing::info!(module = name, reason, "correcting drift");
        wanted.activation = activation;
        let job =
            if wanted.request.is_some() && !wanted.outdated { Job::CorrectDrift } else { Job::Reconcile };
        self.workers.queue.request(name, self.order(name), job);
    }

    /// Checks deletions that hooks may have made where hooks have been running for too long for that, and forgets them
    /// where the hooks have ended: the module's next run decides.
    pub(super) fn resolve_deletions(&mut self) {
        for (name, touched) in std::mem::take(&mut self.pending_deletions.deletions) {
            match self.hooks.activity(&name) {
                // Hooks that fail before all modules may put that run off forever.
                HookActivity::None if matches!(self.cycle.phase, Phase::Before { .. }) => {
                    self.on_trigger(&name, &touched);
                }
                HookActivity::None => {}
                HookActivity::Active => drop(self.pending_deletions.deletions.insert(name, touched)),
                HookActivity::Hung => self.on_trigger(&name, &touched),
            }
        }
    }
}
