//! Global hooks: the start of the operator, what runs before and after all modules, and others in their place.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::{Hooks, global_directory};
use crate::addon::DirectoryOptions;
use crate::addon::values::Patched;
use tokio::sync::{MutexGuard, watch};

use crate::shell_hooks::config::MAIN_QUEUE;
use crate::shell_hooks::queues::Run;
use crate::shell_hooks::{HookError, HookSet, Moment, Scope, run_metrics};
use windlass_base::backoff;

impl Hooks {
    /// Discovers the global hooks and reads their configuration, each within `limit`.
    ///
    /// # Errors
    /// A hook has none that can be used, or the directory is not there.
    pub(in crate::addon) async fn read_global(
        &self,
        directories: &DirectoryOptions,
        limit: Duration,
    ) -> Result<Option<HookSet>, String> {
        let Some(directory) = directories.global_hooks.as_deref() else { return Ok(None) };
        if !directory.is_dir() {
            return Err(format!("{}: no such directory of global hooks", directory.display()));
        }
        let directory = match directories.hooks_only {
            true => directory.to_owned(),
            false => global_directory(directory),
        };
        // Scripts are asked again: they may read files that have changed.
        let known = (&*self.configs, self.global_reads.fetch_add(1, Ordering::Relaxed));
        let (set, problems) = HookSet::load_cached(&directory, ("", ""), (Scope::Global, limit), known)
            .await
            .map_err(|e: HookError| e.to_string())?;
        for problem in problems {
            tracing::warn!("{problem}");
        }
        self.note("", &set);
        Ok(Some(set))
    }

    /// Replaces the global hooks. The previous ones are stopped: their watches, queues and patches are removed.
    pub(in crate::addon) fn set_global(&self, set: Option<HookSet>) {
        let count = set.as_ref().map_or(0, |set| set.hooks().len());
        if count > 0 {
            tracing::info!(hooks = count, "global hooks are loaded");
        }
        let mut global = self.global.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *global, set.map(Arc::new));
        drop(global);
        if let Some(before) = before {
            before.stop();
            self.queues.drop_owner("");
            self.store().values.forget_global();
        }
    }

    /// The global hooks as they are now.
    pub(crate) fn global_set(&self) -> Option<Arc<HookSet>> {
        self.global.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there are global hooks at all.
    pub(in crate::addon) fn has_global(&self) -> bool {
        self.global_set().is_some_and(|set| !set.hooks().is_empty())
    }

    /// Whether there are hooks of a moment.
    pub(in crate::addon) fn has_global_at(&self, moment: Moment) -> bool {
        self.global_set().is_some_and(|set| !set.at(moment).is_empty())
    }

    /// Removes the webhooks of global hooks. A failure is logged; the next change tries again.
    pub(in crate::addon) async fn leave_global(&self) {
        if let Err(text) = self.webhooks.leave("").await {
            tracing::error!("{text}");
        }
    }

    /// Whether ticks of schedules count: as with addon-operator those before the first converge is done do not.
    pub(crate) fn open(&self) -> Arc<dyn Fn() -> bool + Send + Sync> {
        let state = Arc::clone(&self.state);
        Arc::new(move || state.converged.load(Ordering::Acquire))
    }

    /// Brings the global hooks up: those of the start, watches, what exists, and schedules. It goes on until all of that has
    /// worked: modules rely on it.
    pub(in crate::addon) async fn start_global(self: Arc<Self>) {
        let Some(set) = self.global_set() else { return };
        set.schedule_early(&self.queues);
        self.run_global(Moment::OnStartup, None).await;
        let began = Instant::now();
        set.watch(&self.cluster, &self.queues, &self.state.measures);
        let mut failures = 0;
        let synchronizations = loop {
            match set.synchronize().await {
                Ok(runs) => break runs,
                Err(text) => {
                    failures += 1;
                    run_metrics::count_watches(&self.state.measures, &set, began, false);
                    tracing::error!("{text}");
                    tokio::time::sleep(backoff::delay(failures)).await;
                }
            }
        };
        run_metrics::count_watches(&self.state.measures, &set, began, true);
        let mut waits = Vec::new();
        for synchronization in synchronizations {
            let waited_for = synchronization.waited_for || synchronization.run.queue == MAIN_QUEUE;
            let done = self.queues.push(synchronization.run);
            if waited_for {
                waits.push(done);
            }
        }
        // A queue of the global hooks is dropped at the end, and when they are reloaded.
        drop(futures::future::join_all(waits).await);
        // Not before: a tick would see snapshots that are not whole.
        set.schedule(&self.queues, &self.open());
        failures = 0;
        while let Err(text) = self.webhooks.enter("", set.hooks()).await {
            failures += 1;
            let pause = backoff::delay(failures);
            tracing::error!(retry_in_s = pause.as_secs_f32(), "{text}");
            tokio::time::sleep(pause).await;
        }
    }

    /// A run in the main queue of the global hooks: one at a time.
    async fn in_turn(&self, set: &HookSet, run: &Run) -> Result<Patched, String> {
        let _turn = self.global_turn().await;
        self.execute_allowed(set, None, run, false).await
    }

    /// The turn of a run in the main queue of the global hooks; waits at most `unblock_after` for a hung run.
    pub(crate) async fn global_turn(&self) -> Option<MutexGuard<'_, ()>> {
        tokio::time::timeout(self.unblock_after, self.global_turn.lock()).await.ok()
    }

    /// Runs the global hooks of a moment, each until it works; returns whether values of all modules are others than before. After
    /// a failed try the rest is left when `leave` says so.
    pub(in crate::addon) async fn run_global(
        &self,
        moment: Moment,
        mut leave: Option<watch::Receiver<bool>>,
    ) -> bool {
        let Some(set) = self.global_set() else { return false };
        let before = self.store().values.section(super::super::values::GLOBAL).cloned();
        'hooks: for hook in set.at(moment) {
            let run = Run::at(&hook, moment);
            let mut failures = 0;
            while let Err(error) = self.in_turn(&set, &run).await {
                failures += 1;
                let pause = backoff::delay(failures);
                tracing::error!(
                    hook = hook.name,
                    binding = moment.name(),
                    retry_in_s = pause.as_secs_f32(),
                    "{error}"
                );
                let asked = async {
                    match &mut leave {
                        // The sender is gone: stop.
                        Some(leave) => drop(leave.wait_for(|leave| *leave).await),
                        None => std::future::pending().await,
                    }
                };
                if tokio::time::timeout(pause, asked).await.is_ok() {
                    tracing::info!(
                        hook = hook.name,
                        binding = moment.name(),
                        "values have changed: starting a new converge; the hook runs at its end"
                    );
                    break 'hooks;
                }
            }
        }
        self.store().values.section(super::super::values::GLOBAL) != before.as_ref()
    }
}
