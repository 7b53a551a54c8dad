//! Releases that were changed from outside.
//!
//! What was changed is put right at once; what was deleted while a hook runs may be the hook's own doing, and the module's next
//! run decides on it.

use super::{Operator, Phase};
use crate::addon::hooks::Doing;
use crate::addon::queue::Job;
use crate::release::ReconcileTrigger;

impl Operator {
    /// A release of ours was changed from outside.
    pub(super) fn look_again(&mut self, name: &str, trigger: &ReconcileTrigger) {
        let activation = self.activation("AbsentHelmResourcesDetected");
        let Some(wanted) = self.wanted.get_mut(name).filter(|w| w.enabled && !w.maintenance) else { return };
        let reason = trigger.to_string();
        if matches!(trigger, ReconcileTrigger::Deleted(_)) && self.hooks.doing(name) == Doing::Hook {
            tracing::debug!(
                module = name,
                reason,
                "a hook runs or has just run: the next run of the module decides"
            );
            self.deletions.insert(name.to_owned(), trigger.clone());
            return;
        }
        tracing::info!(module = name, reason, "putting the release right");
        wanted.activation = activation;
        let job = if wanted.request.is_some() && !wanted.outdated { Job::Restore } else { Job::Run };
        self.queue.want(name, self.order(name), job);
    }

    /// Looks at deletions that hooks may have made where hooks have been running for too long for that, and forgets them
    /// where the hooks have come to their end: the next run is the module's to decide.
    pub(super) fn look_at_deletions(&mut self) {
        for (name, trigger) in std::mem::take(&mut self.deletions) {
            match self.hooks.doing(&name) {
                // Hooks that fail before all modules may put that run off for ever.
                Doing::Nobody if matches!(self.phase, Phase::Before { .. }) => {
                    self.look_again(&name, &trigger);
                }
                Doing::Nobody => {}
                Doing::Hook => drop(self.deletions.insert(name, trigger)),
                Doing::Endless => self.look_again(&name, &trigger),
            }
        }
    }
}
