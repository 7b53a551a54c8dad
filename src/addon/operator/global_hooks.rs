//! Taking in global hooks that have changed on disk.
//!
//! What happens then is what happens at a start: the hooks of the start, schedules, watches and what exists, then a converge.
//! Modules wait for it, so that none is released with values that the hooks have yet to set.

use super::{Operator, Phase};
use crate::addon::hooks::{self, Hooks};

impl Operator {
    /// Takes in the global hooks as they are now; what cannot be used leaves those before at work.
    pub(super) async fn take_global_hooks(&mut self) {
        let limit = hooks::limit(self.options.hook_timeout, self.options.hook_patience);
        let set = match Hooks::read_global(self.options.global_hooks_dir.as_deref(), limit).await {
            Ok(set) => set,
            Err(text) => {
                tracing::error!(
                    "global hooks cannot be used as they are now, those before stay in use: {text}"
                );
                self.state.measures.add("modules_discover_errors_total", &[], 1.0);
                return;
            }
        };
        tracing::info!("global hooks have changed: they begin anew");
        // A hook that fails for ever must not keep the one that mends it out; its processes end with the step.
        self.steps.abort_all();
        while self.steps.join_next().await.is_some() {}
        self.hooks.set_global(set);
        if !self.hooks.has_global() {
            self.hooks.leave_global().await;
        }
        self.repeats = 0;
        self.prepared = false;
        self.activation = "GlobalHooksChanged";
        self.phase = Phase::Starting;
        self.start_hooks();
    }
}
