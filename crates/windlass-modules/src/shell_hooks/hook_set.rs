//! The hooks of one owner: a module's, or the global ones, with what they watch and when they run.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use tokio::task::JoinSet;

use super::binding_context::{Context, ContextKind, Include, Item, Snapshots};
use super::config::{Common, Kubernetes};
use super::discover::{self, FileProblem};
use super::hook_file::{ConfigCache, FileParts, HookSource};
use super::monitor::{Changes, Monitor, Owner};
use super::queues::{Queues, Run, next_event};
use super::{Hook, HookError, Moment, Scope, SettingsCheck};
use windlass_base::cron::Cron;
use windlass_cluster::Cluster;
use windlass_controller::serve::addon_operator_metrics::Measures;

/// How many hooks run with `--config` at a time.
const LOADED_AT_ONCE: usize = 8;
/// How long the first lists of all watches may take.
const LISTED_WITHIN: Duration = Duration::from_secs(60);
/// A clock that is set back must not make a schedule sleep forever.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// All hooks of an owner.
pub struct HookSet {
    hooks: Vec<Arc<Hook>>,
    readiness: Option<ReadinessProbe>,
    checks: Vec<SettingsCheck>,
    notes: Vec<String>,
    watched: Mutex<Vec<Watched>>,
    schedules: Mutex<Schedules>,
}

/// The probe of a module's readiness.
#[derive(Clone, Debug)]
pub struct ReadinessProbe {
    pub hook: Arc<Hook>,
    pub cron: Cron,
}

/// Tasks of schedules; `None`: they do not run.
#[derive(Default)]
struct Schedules {
    /// Of hooks whose ticks count from the start on.
    early: Option<JoinSet<()>>,
    others: Option<JoinSet<()>>,
}

struct Watched {
    hook: String,
    binding: String,
    monitor: Arc<Monitor>,
}

/// The first run of a binding, for what exists.
pub struct Synchronization {
    pub run: Run,
    /// Whether its owner waits for it.
    pub waited_for: bool,
}

impl HookSet {
    /// Finds the hooks below a directory and asks each file for its configuration, which may take as long as `limit`. `prefix` stands
    /// in front of their names. Gives what is odd, too.
    ///
    /// # Errors
    /// A file has no configuration that can be used, or several have a readiness probe.
    pub async fn load(
        directory: &Path,
        module: &str,
        prefix: &str,
        scope: Scope,
        limit: Duration,
    ) -> Result<(Self, Vec<FileProblem>), HookError> {
        let configs = ConfigCache::default();
        Self::load_cached(directory, (module, prefix), (scope, limit), (&configs, 0)).await
    }

    /// The same; what a cache knows is not asked again. The number is a fingerprint of the files in the directory.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub async fn load_cached(
        directory: &Path,
        (module, prefix): (&str, &str),
        (scope, limit): (Scope, Duration),
        (configs, files): (&ConfigCache, u64),
    ) -> Result<(Self, Vec<FileProblem>), HookError> {
        let found = discover::discover(directory, scope);
        configs.retain(directory, &found.hooks);
        let loads = found.hooks.iter().map(|path| async move {
            let name = format!("{prefix}{}", path.strip_prefix(directory).unwrap_or(path).display());
            let source = HookSource { path, name: &name, module, scope, limit };
            let file = configs.get(&source, files).await?;
            Ok::<_, HookError>((name.clone(), source.parts(&file)))
        });
        let loads: Vec<_> = loads.collect();
        let files: Vec<(String, FileParts)> =
            futures::stream::iter(loads).buffered(LOADED_AT_ONCE).try_collect().await?;
        Ok((Self::of(files)?, found.problems))
    }

    /// The hooks of these files.
    fn of(files: Vec<(String, FileParts)>) -> Result<Self, HookError> {
        let mut set = Self {
            hooks: Vec::new(),
            readiness: None,
            checks: Vec::new(),
            notes: Vec::new(),
            watched: Mutex::default(),
            schedules: Mutex::default(),
        };
        for (name, parts) in files {
            set.hooks.extend(parts.hooks.into_iter().map(Arc::new));
            set.checks.extend(parts.check);
            set.notes.extend(parts.notes);
            match (&set.readiness, parts.readiness) {
                (Some(first), Some(_)) => {
                    let (hook, first) = (name, first.hook.place.0.clone());
                    return Err(HookError::SeveralProbes { hook, first });
                }
                (None, Some(probe)) => {
                    set.hooks.push(Arc::clone(&probe.hook));
                    set.readiness = Some(probe);
                }
                (_, None) => {}
            }
        }
        Ok(set)
    }

    /// The probe of the module's readiness, if it has one; its hook is among [`Self::hooks`].
    #[must_use]
    pub fn readiness(&self) -> Option<&ReadinessProbe> {
        self.readiness.as_ref()
    }

    /// The programs that check settings.
    #[must_use]
    pub fn checks(&self) -> &[SettingsCheck] {
        &self.checks
    }

    /// What batch programs said that is ignored or odd.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// All hooks, by name.
    #[must_use]
    pub fn hooks(&self) -> &[Arc<Hook>] {
        &self.hooks
    }

    /// The hooks of a moment, by number, then file, then their place in it.
    #[must_use]
    pub fn at(&self, moment: Moment) -> Vec<Arc<Hook>> {
        let order = |hook: &Arc<Hook>| hook.config.moments.get(&moment).copied();
        let mut found: Vec<_> = self.hooks.iter().filter(|h| order(h).is_some()).cloned().collect();
        found.sort_by_key(|hook| (order(hook), hook.place.clone()));
        found
    }

    /// Starts the watches of all kubernetes bindings, unless they run already; their events go to the queues.
    pub fn watch(&self, cluster: &Cluster, queues: &Arc<Queues>, measures: &Arc<Measures>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if !watched.is_empty() {
            return;
        }
        for hook in &self.hooks {
            for binding in &hook.config.kubernetes {
                let owner = Owner { hook: Arc::clone(hook), measures: Arc::clone(measures) };
                let (to, of, common) = (Arc::clone(queues), Arc::clone(hook), binding.common.clone());
                let sink = move |what: ContextKind| {
                    // Nobody waits for events.
                    drop(to.push(Run::of(&of, "kubernetes", &common, what)));
                };
                let monitor = Arc::new(Monitor::start(cluster, owner, binding, Box::new(sink)));
                watched.push(Watched {
                    hook: hook.name.clone(),
                    binding: binding.common.name.clone(),
                    monitor,
                });
            }
        }
    }

    fn monitors(&self, hook: &str, binding: &str) -> Vec<Arc<Monitor>> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let those = watched.iter().filter(|w| w.hook == hook && w.binding == binding);
        those.map(|w| Arc::clone(&w.monitor)).collect()
    }

    /// Waits for the initial lists, then returns the Synchronization runs. Hooks without them get events from here on.
    ///
    /// # Errors
    /// A list does not come in time.
    pub async fn synchronize(&self) -> Result<Vec<Synchronization>, String> {
        let monitors: Vec<Arc<Monitor>> = {
            let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.iter().map(|w| Arc::clone(&w.monitor)).collect()
        };
        futures::future::try_join_all(monitors.iter().map(|m| m.listed(LISTED_WITHIN))).await?;
        let mut runs = Vec::new();
        for hook in &self.hooks {
            for binding in &hook.config.kubernetes {
                if binding.on_synchronization {
                    runs.push(Synchronization {
                        run: Run::of(hook, "kubernetes", &binding.common, ContextKind::Synchronization),
                        waited_for: binding.wait_for_synchronization,
                    });
                } else {
                    self.monitors(&hook.name, &binding.common.name).iter().for_each(|m| m.open());
                }
            }
        }
        Ok(runs)
    }

    /// The snapshots of bindings of a hook, as they are now. Bindings that are being told what exists get events from here on.
    #[must_use]
    pub fn snapshots(&self, hook: &Hook, needed: &[String], contexts: &[Context]) -> Snapshots {
        for context in contexts.iter().filter(|c| c.what == ContextKind::Synchronization) {
            self.monitors(&hook.name, &context.binding).iter().for_each(|m| m.synchronize());
        }
        let objects = |name: &String| {
            let monitors = self.monitors(&hook.name, name);
            monitors.iter().for_each(|m| m.seen());
            let items: Vec<Arc<Item>> = monitors.iter().flat_map(|m| m.snapshot()).collect();
            (name.clone(), items)
        };
        needed.iter().map(objects).collect()
    }

    /// Starts the schedules of hooks whose ticks count from the start on, unless they run already.
    pub fn schedule_early(&self, queues: &Arc<Queues>) {
        let mut schedules = self.schedules.lock().unwrap_or_else(PoisonError::into_inner);
        if schedules.early.is_none() {
            let open: Arc<dyn Fn() -> bool + Send + Sync> = Arc::new(|| true);
            schedules.early = Some(self.ticks(queues, &open, true));
        }
    }

    /// Starts the schedules of all other hooks, unless they run already; their ticks go to the queues, and are dropped while `open`
    /// says no.
    pub fn schedule(&self, queues: &Arc<Queues>, open: &Arc<dyn Fn() -> bool + Send + Sync>) {
        let mut schedules = self.schedules.lock().unwrap_or_else(PoisonError::into_inner);
        if schedules.others.is_none() {
            schedules.others = Some(self.ticks(queues, open, false));
        }
    }

    fn ticks(
        &self,
        queues: &Arc<Queues>,
        open: &Arc<dyn Fn() -> bool + Send + Sync>,
        early: bool,
    ) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for hook in self.hooks.iter().filter(|hook| hook.config.settings.schedules_on_startup == early) {
            for (index, schedule) in hook.config.schedules.iter().enumerate() {
                let (to, of, cron) = (Arc::clone(queues), Arc::clone(hook), schedule.cron.clone());
                let open = Arc::clone(open);
                tasks.spawn(async move {
                    let mut last = Timestamp::now();
                    while let Some(next) = next_tick(&cron, last).await {
                        last = next;
                        if open() {
                            let common = &of.config.schedules[index].common;
                            drop(to.push(Run::of(&of, "schedule", common, ContextKind::Schedule)));
                        }
                    }
                });
            }
        }
        tasks
    }

    /// Ends schedules and watches; snapshots are empty from here on.
    pub fn stop(&self) {
        *self.schedules.lock().unwrap_or_else(PoisonError::into_inner) = Schedules::default();
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Ends schedules, and leaves the watches with their snapshots.
    pub fn stop_schedules(&self) {
        *self.schedules.lock().unwrap_or_else(PoisonError::into_inner) = Schedules::default();
    }

    /// The objects of each binding now: for metrics and the debug endpoint.
    #[must_use]
    pub fn watched(&self) -> Vec<WatchedView> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let view = |w: &Watched| {
            let hook = self.hooks.iter().find(|h| h.name == w.hook)?;
            let binding: &Kubernetes = hook.config.binding(&w.binding)?;
            let (queue, kind) = (binding.common.queue.clone(), binding.kind.clone());
            let (objects, changes) = (w.monitor.snapshot(), w.monitor.changes());
            Some(WatchedView {
                hook: w.hook.clone(),
                binding: w.binding.clone(),
                queue,
                kind,
                objects,
                changes,
            })
        };
        watched.iter().filter_map(view).collect()
    }
}

/// Waits for the first tick after a moment; `None`: there is none. Gives the moment to go on from.
pub async fn next_tick(cron: &Cron, last: Timestamp) -> Option<Timestamp> {
    let next = cron.next(last)?;
    while let Ok(left) = Duration::try_from(next.duration_since(Timestamp::now()))
        && !left.is_zero()
    {
        tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
    }
    Some(next.max(Timestamp::now()))
}

/// A kubernetes binding as it is now.
#[derive(Clone, Debug)]
pub struct WatchedView {
    pub hook: String,
    pub binding: String,
    pub queue: String,
    /// As the hook writes it.
    pub kind: String,
    pub objects: Vec<Arc<Item>>,
    /// What has happened since the watch began, and since the hook last saw the objects.
    pub changes: (Changes, Changes),
}

impl Run {
    /// The run of a binding of a kind, for what happened.
    #[must_use]
    pub fn of(hook: &Arc<Hook>, kind: &'static str, common: &Common, what: ContextKind) -> Self {
        let include = match common.snapshots.as_slice() {
            [] => Include::Nothing,
            names => Include::These(names.to_vec()),
        };
        let context = Context { binding: common.name.clone(), group: common.group.clone(), include, what };
        Self {
            hook: Arc::clone(hook),
            contexts: vec![context],
            kind,
            queue: common.queue.clone(),
            allow_failure: common.allow_failure,
            since: Instant::now(),
            event: next_event(),
            failures: 0,
        }
    }

    /// The run of a hook at a moment.
    #[must_use]
    pub fn at(hook: &Arc<Hook>, moment: Moment) -> Self {
        Self {
            hook: Arc::clone(hook),
            contexts: vec![Context::moment(moment)],
            kind: moment.name(),
            queue: super::config::MAIN_QUEUE.to_owned(),
            allow_failure: hook.config.allow_failure,
            since: Instant::now(),
            event: next_event(),
            failures: 0,
        }
    }
}
