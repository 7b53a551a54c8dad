//! Hooks of a module around its release.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use chart_compat::chart::Crd;
use chart_compat::render::CompiledChart;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, OnceCell, oneshot, watch};
use tokio::task::JoinSet;

use super::{Change, Hooks};
use crate::addon::events;
use crate::addon::module::Module;
use crate::addon::releases::Releases;
use crate::shell_hooks::config::MAIN_QUEUE;
use crate::shell_hooks::queues::Run;
use crate::shell_hooks::{HookSet, Moment, Scope, run_metrics};
use windlass_cluster::Cluster;
use windlass_controller::{Done, ReconcileError as Error};
use windlass_engine::ReleaseAction;

/// How often a module is rendered again because its own `afterHelm` hooks changed its values.
const MAX_RERUNS: u32 = 5;

/// How long a module's run waits for hooks in other queues before it counts as failed.
const ELSEWHERE: Duration = Duration::from_secs(30);

/// When hooks that could not be loaded at a deletion are loaded once more.
const AGAIN: Duration = Duration::from_secs(1);

/// The hooks of a module and how far they are.
pub(super) struct ModuleHooks {
    pub(super) name: String,
    pub(super) key: String,
    /// As [`ModuleRef::hooks`] when they were loaded.
    pub(super) print: u64,
    pub(super) set: OnceCell<HookSet>,
    /// Held by the module's own run, and by runs of hooks in its main queue.
    pub(super) turn: Mutex<Progress>,
    /// Runs of its hooks are killed: there is something else to do with the module.
    pub(super) left: watch::Sender<bool>,
    /// Who the objects of its release are written by, as its last run knew it.
    actor: std::sync::Mutex<Cluster>,
    /// Probes its readiness since its release was deployed.
    pub(super) probe: std::sync::Mutex<Option<JoinSet<()>>>,
    /// The settings that its programs last had no objection to.
    pub(super) approved: std::sync::Mutex<Option<Value>>,
}

impl ModuleHooks {
    /// Who carries out what its hooks ask for: they may write what the module's ServiceAccount may.
    pub(super) fn actor(&self) -> Cluster {
        self.actor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the probes of its readiness.
    pub(super) fn stop_probe(&self) {
        *self.probe.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Resolves when runs must be killed.
    pub(super) async fn is_left(&self) {
        // The sender is our own.
        drop(self.left.subscribe().wait_for(|left| *left).await);
    }
}

/// Progress since the module was enabled: a failed run resumes where it failed.
#[derive(Default)]
pub(super) struct Progress {
    /// Hooks of the start that have run.
    started: BTreeSet<String>,
    /// Synchronization runs of the main queue that are left.
    synchronizations: Option<Vec<Run>>,
    /// The same in other queues, where they are waited for.
    elsewhere: Vec<(Run, oneshot::Receiver<()>)>,
}

/// A module as its run needs it.
#[derive(Clone)]
pub(in crate::addon) struct ModuleRef {
    pub(in crate::addon) name: String,
    pub(in crate::addon) key: String,
    pub(in crate::addon) path: PathBuf,
    /// `None` for a module of hooks only.
    pub(in crate::addon) chart: Option<Arc<CompiledChart>>,
    /// The files of its CRDs.
    pub(in crate::addon) crds: Vec<Crd>,
    /// Why it is run.
    pub(in crate::addon) cause: String,
    /// A fingerprint of its hooks on disk.
    pub(in crate::addon) hooks: u64,
    pub(in crate::addon) maintenance: Maintenance,
    /// Why it runs, for metrics.
    pub(in crate::addon) activation: &'static str,
}

/// Whether a module's objects are left as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::addon) enum Maintenance {
    #[default]
    Off,
    On,
    /// It was on: the release's record says so still.
    Ending,
}

impl ModuleRef {
    /// A module without its chart.
    pub(in crate::addon) fn of(module: &Module) -> Self {
        let (name, key) = (module.name.name.clone(), module.name.key.clone());
        Self {
            name,
            key,
            path: module.path.clone(),
            chart: None,
            crds: module.crds.clone(),
            cause: String::new(),
            hooks: module.hooks,
            maintenance: Maintenance::Off,
            activation: "",
        }
    }
}

/// What a module's run did.
pub(in crate::addon) struct Ran {
    /// The release's outcome, if the module has a chart.
    pub(in crate::addon) done: Option<Done>,
    /// The values that it was done with.
    pub(in crate::addon) values: Value,
}

impl Hooks {
    /// Loads the module's hooks if they are not loaded or their files changed. The previous ones stay until the new ones are usable;
    /// then they are removed with their watches and patches.
    async fn of(&self, releases: &Releases, module: &ModuleRef) -> Result<Arc<ModuleHooks>, Error> {
        let known = self.module(&module.name);
        let actor = releases.engine().cluster().clone();
        if let Some(known) = &known
            && known.print == module.hooks
            && known.set.get().is_some()
        {
            *known.actor.lock().unwrap_or_else(PoisonError::into_inner) = actor;
            return Ok(Arc::clone(known));
        }
        let directory = module.path.file_name().unwrap_or_default().to_string_lossy();
        let prefix = format!("{directory}/hooks/");
        let directory = module.path.join("hooks");
        let owner = (module.name.as_str(), prefix.as_str());
        let known_files = (&*self.configs, module.hooks);
        let loaded =
            HookSet::load_cached(&directory, owner, (Scope::Module, self.limit()), known_files).await;
        let (set, problems) = loaded.map_err(|e| Error::Hook(e.to_string()))?;
        for problem in problems {
            tracing::warn!(module = module.name, "{problem}");
        }
        self.note(&module.name, &set);
        if let Some(known) = known {
            known.left.send_replace(true);
            let _turn = known.turn.lock().await;
            self.unload(&module.name);
            self.store().values.forget(&module.key);
            tracing::info!(module = module.name, hooks = set.hooks().len(), "hooks reloaded");
        }
        let hooks = Arc::new(ModuleHooks {
            name: module.name.clone(),
            key: module.key.clone(),
            print: module.hooks,
            set: OnceCell::new_with(Some(set)),
            turn: Mutex::default(),
            left: watch::Sender::new(false),
            actor: std::sync::Mutex::new(actor),
            probe: std::sync::Mutex::default(),
            approved: std::sync::Mutex::default(),
        });
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        modules.insert(module.name.clone(), Arc::clone(&hooks));
        Ok(hooks)
    }

    /// Names of the hooks of a module that run at its deletion, if its hooks are loaded.
    pub(in crate::addon) fn delete_hooks(&self, module: &str) -> Vec<String> {
        let known = self.module(module);
        let Some(set) = known.as_ref().and_then(|k| k.set.get()) else { return Vec::new() };
        let mut names: Vec<String> = [Moment::BeforeDeleteHelm, Moment::AfterDeleteHelm]
            .into_iter()
            .flat_map(|moment| set.at(moment))
            .map(|hook| hook.name.clone())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Whether other hooks of a module are loaded than those that its files have this number for.
    pub(in crate::addon) fn is_outdated(&self, module: &str, hooks: u64) -> bool {
        self.module(module).is_some_and(|known| known.print != hooks)
    }

    /// Kills running and later hooks of a module, or stops doing so; runs that the API server waits for are not killed.
    pub(in crate::addon) fn leave(&self, module: &str, leave: bool) {
        if let Some(known) = self.module(module) {
            known.left.send_replace(leave);
        }
    }

    /// Unloads the hooks of a module that have changed, or whose module is gone.
    pub(in crate::addon) fn unload(&self, module: &str) {
        let known = self.modules.lock().unwrap_or_else(PoisonError::into_inner).remove(module);
        if let Some(known) = &known {
            known.stop_probe();
        }
        if let Some(set) = known.as_ref().and_then(|k| k.set.get()) {
            set.stop();
        }
        self.queues.drop_owner(module);
    }

    /// Runs a module: hooks of the start and what exists, if that is still to be done; `beforeHelm`, the release, `afterHelm`.
    pub(in crate::addon) async fn run_module(
        self: &Arc<Self>,
        releases: &Releases,
        module: &ModuleRef,
    ) -> Result<Ran, Error> {
        let hooks = self.of(releases, module).await?;
        self.check_current(&hooks).await.map_err(Error::Config)?;
        let ran = self.run_hooks_and_release(&hooks, releases, module).await?;
        self.start_probe(&hooks);
        Ok(ran)
    }

    async fn run_hooks_and_release(
        &self,
        hooks: &Arc<ModuleHooks>,
        releases: &Releases,
        module: &ModuleRef,
    ) -> Result<Ran, Error> {
        let Some(set) = hooks.set.get() else {
            return Err(Error::Hook("its hooks were unloaded".to_owned()));
        };
        if module.chart.is_none() && !module.crds.is_empty() && module.maintenance != Maintenance::On {
            releases.apply_crds(&module.name, &module.crds).await?;
        }
        let mut progress = hooks.turn.lock().await;
        self.initialize(hooks, set, &mut progress).await?;
        // From here on what the module's own chart says passes its webhooks, too.
        self.webhooks.enter(&module.name, set.hooks()).await.map_err(Error::Hook)?;
        let mut reruns = 0;
        loop {
            self.at(hooks, set, Moment::BeforeHelm).await?;
            let values = self.store().values.seen(&module.key);
            let held = module.chart.is_some() && self.is_held(releases, module).await?;
            let done = match &module.chart {
                None => None,
                // Its hooks run nevertheless, as with addon-operator.
                Some(_) if held => None,
                Some(chart) => {
                    let values = self.store().values.for_chart(&module.key).map_err(Error::Values)?;
                    let cause = if reruns == 0 {
                        module.cause.clone()
                    } else {
                        "an afterHelm hook changed its values".to_owned()
                    };
                    let began = Instant::now();
                    let mut own = releases.clone();
                    own.held |= module.maintenance == Maintenance::On;
                    let done = own
                        .run(&module.name, (Arc::clone(chart), &module.crds), Arc::new(values), cause)
                        .await;
                    let labels = [("module", module.name.as_str()), ("activation", module.activation)];
                    self.state.measures.observe("module_helm_seconds", &labels, began.elapsed());
                    let done = done?;
                    let unchanged = done.outcome.action == ReleaseAction::Unchanged;
                    let second = if unchanged { "check-upgrade" } else { "upgrade" };
                    for (operation, took) in [("template", done.took.0), (second, done.took.1)] {
                        let labels = [labels[0], labels[1], ("operation", operation)];
                        self.state.measures.observe("helm_operation_seconds", &labels, took);
                    }
                    Some(done)
                }
            };
            let changed = self.at(hooks, set, Moment::AfterHelm).await?;
            if !changed {
                return Ok(Ran { done, values });
            }
            reruns += 1;
            if reruns > MAX_RERUNS {
                tracing::warn!(
                    module = module.name,
                    "afterHelm hooks change values in every run; that stays until something else changes"
                );
                let values = self.store().values.seen(&module.key);
                return Ok(Ran { done, values });
            }
        }
    }

    /// Whether the module's release is in maintenance; its record is labelled accordingly, as addon-operator's is.
    async fn is_held(&self, releases: &Releases, module: &ModuleRef) -> Result<bool, Error> {
        match module.maintenance {
            Maintenance::Off => Ok(false),
            Maintenance::On => releases.mark_held(&module.name, true).await,
            Maintenance::Ending => releases.mark_held(&module.name, false).await.map(|_| false),
        }
    }

    async fn initialize(
        &self,
        hooks: &ModuleHooks,
        set: &HookSet,
        progress: &mut MutexGuard<'_, Progress>,
    ) -> Result<(), Error> {
        set.schedule_early(&self.queues);
        for hook in set.at(Moment::OnStartup) {
            if !progress.started.contains(&hook.name) {
                self.execute_allowed(set, Some(hooks), &Run::at(&hook, Moment::OnStartup), false)
                    .await
                    .map_err(Error::Hook)?;
                progress.started.insert(hook.name.clone());
            }
        }
        if progress.synchronizations.is_none() {
            let began = Instant::now();
            set.watch(&self.cluster, &self.queues, &self.state.measures);
            let runs = set.synchronize().await;
            run_metrics::count_watches(&self.state.measures, set, began, runs.is_ok());
            let runs = runs.map_err(Error::Hook)?;
            let (main, others): (Vec<_>, Vec<_>) = runs.into_iter().partition(|s| s.run.queue == MAIN_QUEUE);
            for other in others {
                let done = self.queues.push(other.run.clone());
                if other.waited_for {
                    progress.elsewhere.push((other.run, self.note_synchronization(&hooks.name, done)));
                }
            }
            progress.synchronizations = Some(join_runs(main.into_iter().map(|s| s.run)));
        }
        self.run_synchronizations(hooks, set, progress).await?;
        let waited: Vec<Run> = progress.elsewhere.iter().map(|(run, _)| run.clone()).collect();
        while let Some((_, done)) = progress.elsewhere.last_mut() {
            // It continues in its queue; later modules must not wait for a hook that keeps failing.
            tokio::select! {
                biased;
                // A queue that is dropped has nothing more to wait for.
                _ = done => {}
                (queue, error) = self.queues.failure(&waited) => {
                    return Err(Error::Hook(format!("{error}; it is tried again in queue {queue}")));
                }
                () = tokio::time::sleep(ELSEWHERE) => {
                    let text = "hooks in other queues have not processed existing objects yet";
                    return Err(Error::Hook(text.to_owned()));
                }
            }
            progress.elsewhere.pop();
        }
        set.schedule(&self.queues, &self.open());
        Ok(())
    }

    /// Lets the operator know when a first run in another queue has succeeded: a run of the module that gave up on it is due then.
    fn note_synchronization(&self, module: &str, done: oneshot::Receiver<()>) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let (changes, module) = (self.changes.clone(), module.to_owned());
        tokio::spawn(async move {
            if done.await.is_ok() {
                // Nobody waits for it if the module's run has given up, or the operator stops.
                sender.send(()).unwrap_or_default();
                drop(changes.send(Change { module, synchronized: true, ..Change::default() }));
            }
        });
        receiver
    }

    /// Runs what is left of the first runs in the main queue.
    async fn run_synchronizations(
        &self,
        hooks: &ModuleHooks,
        set: &HookSet,
        progress: &mut MutexGuard<'_, Progress>,
    ) -> Result<(), Error> {
        while let Some(run) = progress.synchronizations.as_ref().and_then(|left| left.first().cloned()) {
            self.execute_allowed(set, Some(hooks), &run, false).await.map_err(Error::Hook)?;
            if let Some(left) = &mut progress.synchronizations {
                left.remove(0);
            }
        }
        Ok(())
    }

    /// Runs the hooks of a moment; returns whether they changed the module's values.
    async fn at(&self, hooks: &ModuleHooks, set: &HookSet, moment: Moment) -> Result<bool, Error> {
        let of_moment = set.at(moment);
        if of_moment.is_empty() {
            return Ok(false);
        }
        let before = self.store().values.seen(&hooks.key);
        for hook in of_moment {
            let run = Run::at(&hook, moment);
            self.execute_allowed(set, Some(hooks), &run, false).await.map_err(Error::Hook)?;
        }
        Ok(self.store().values.seen(&hooks.key) != before)
    }

    /// Uninstalls a module with the hooks around it; `module` is `None` if the module directory no longer exists; returns how many objects
    /// were deleted.
    pub(in crate::addon) async fn uninstall_module(
        &self,
        releases: &Releases,
        name: &str,
        module: Option<&ModuleRef>,
    ) -> Result<usize, Error> {
        self.queues.drop_owner(name);
        // First: the API server must not call hooks that are removed.
        self.webhooks.leave(name).await.map_err(Error::Hook)?;
        let Some(module) = module else { return releases.uninstall(name).await };
        let loaded = match self.of(releases, module).await {
            // What keeps a program from starting may pass.
            Err(_) => {
                tokio::time::sleep(AGAIN).await;
                self.of(releases, module).await
            }
            loaded => loaded,
        };
        let mut broken = None;
        let hooks = match (loaded, self.module(name)) {
            (Ok(hooks), _) => hooks,
            (Err(error), Some(known)) => {
                tracing::warn!(module = name, "its hooks as they were before run at its deletion: {error}");
                broken = Some(error.to_string());
                known
            }
            (Err(error), None) => {
                let deleted = releases.uninstall(name).await?;
                self.report_lost_hooks(name, "its hooks cannot be loaded", &error.to_string());
                self.store().values.forget(&module.key);
                return Ok(deleted);
            }
        };
        let Some(set) = hooks.set.get() else {
            return Err(Error::Hook("its hooks were unloaded".to_owned()));
        };
        hooks.stop_probe();
        let mut progress = hooks.turn.lock().await;
        set.stop_schedules();
        let (before, after) = (set.at(Moment::BeforeDeleteHelm), set.at(Moment::AfterDeleteHelm));
        if !before.is_empty() || !after.is_empty() {
            // They get their snapshots even if the module was never enabled in this process.
            set.watch(&self.cluster, &self.queues, &self.state.measures);
            set.synchronize().await.map_err(Error::Hook)?;
        }
        if !before.is_empty() && releases.exists(name).await? {
            let done = self.at(&hooks, set, Moment::BeforeDeleteHelm).await;
            self.ignore_if_broken(name, &mut broken, done)?;
        }
        let deleted = releases.uninstall(name).await?;
        let done = self.at(&hooks, set, Moment::AfterDeleteHelm).await;
        self.ignore_if_broken(name, &mut broken, done)?;
        set.stop();
        // Events that came meanwhile mean nothing any more.
        self.queues.drop_owner(name);
        self.store().values.forget(&module.key);
        *progress = Progress::default();
        Ok(deleted)
    }

    /// The result of hooks at a deletion; where they are `broken`, a failure is reported and the deletion continues.
    fn ignore_if_broken(
        &self,
        module: &str,
        broken: &mut Option<String>,
        done: Result<bool, Error>,
    ) -> Result<(), Error> {
        match (done, broken.take()) {
            (Err(failure), Some(error)) => {
                self.report_lost_hooks(module, &failure.to_string(), &error);
                *broken = Some(error);
                Ok(())
            }
            (done, before) => {
                *broken = before;
                done.map(drop)
            }
        }
    }

    fn report_lost_hooks(&self, module: &str, what: &str, error: &str) {
        let note = format!(
            "module {module}: {what}, so that what hooks would have cleaned up at its deletion is left: {error}. Fix the hooks, \
             enable the module, and disable it again"
        );
        events::delete_hooks_lost(&self.events, &self.config_map, module, note);
    }
}

/// Runs of one hook that follow each other as one.
fn join_runs(runs: impl Iterator<Item = Run>) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(last) if Arc::ptr_eq(&last.hook, &run.hook) && last.allow_failure == run.allow_failure => {
                last.contexts.extend(run.contexts);
            }
            _ => joined.push(run),
        }
    }
    joined
}
