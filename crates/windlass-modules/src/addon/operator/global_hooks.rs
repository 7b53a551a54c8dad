//! Taking in global hooks that have changed on disk.
//!
//! What happens then is what happens at a start: the hooks of the start, schedules, watches and what exists, then a converge.
//! Modules wait for it, so that none is released with values that the hooks have yet to set.

use super::Operator;
use super::converge::Phase;
use crate::addon::hooks;

impl Operator {
    /// Takes in the global hooks as they are now; what cannot be used leaves those before at work.
    pub(super) async fn reload_global_hooks(&mut self) {
        let limit = hooks::limit(self.options.hooks.timeout, self.options.hooks.unblock_after);
        let set = match self.hooks.read_global(&self.options.directories, limit).await {
            Ok(set) => set,
            Err(text) => {
                tracing::error!("global hooks are invalid, the previous ones stay in use: {text}");
                self.state.measures.add("modules_discover_errors_total", &[], 1.0);
                return;
            }
        };
        tracing::info!("global hooks have changed: restarting them");
        // A hook that keeps failing must not block its own replacement; its processes end with the step.
        self.cycle.steps.abort_all();
        while self.cycle.steps.join_next().await.is_some() {}
        self.hooks.set_global(set);
        if !self.hooks.has_global() {
            self.hooks.leave_global().await;
        }
        self.cycle.repeats = 0;
        self.cycle.prepared = false;
        self.cycle.activation = "GlobalHooksChanged";
        self.cycle.phase = Phase::Starting;
        self.start_hooks();
    }
}
