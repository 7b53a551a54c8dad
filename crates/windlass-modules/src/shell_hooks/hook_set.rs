//! The hooks of one owner: a module's, or the global ones, with what they watch and when they run.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use tokio::task::JoinSet;

use super::binding_context::{Context, ContextKind, Include, Item, Snapshots};
use super::config::{Common, Kubernetes, WatchEvent};
use super::monitor::{Changes, Monitor, Owner};
use super::queues::{Queues, Run, next_event};
use super::{Hook, HookError, Moment, Scope, discover};
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
    watched: Mutex<Vec<Watched>>,
    schedules: Mutex<Option<JoinSet<()>>>,
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
    /// Finds the hooks below a directory and asks each for its configuration, which may take as long as `limit`. `prefix` stands
    /// in front of their names. Gives what is odd, too.
    ///
    /// # Errors
    /// A hook has no configuration that can be used.
    pub async fn load(
        directory: &Path,
        module: &str,
        prefix: &str,
        scope: Scope,
        limit: Duration,
    ) -> Result<(Self, Vec<String>), HookError> {
        let found = discover::discover(directory, scope);
        let mut loads = Vec::new();
        for path in found.hooks {
            let name = format!("{prefix}{}", path.strip_prefix(directory).unwrap_or(&path).display());
            let module = module.to_owned();
            loads.push(async move { Hook::load(&path, &name, &module, scope, limit).await.map(Arc::new) });
        }
        let hooks: Vec<Arc<Hook>> =
            futures::stream::iter(loads).buffered(LOADED_AT_ONCE).try_collect().await?;
        let set = Self { hooks, watched: Mutex::default(), schedules: Mutex::default() };
        Ok((set, found.problems))
    }

    /// All hooks, by name.
    #[must_use]
    pub fn hooks(&self) -> &[Arc<Hook>] {
        &self.hooks
    }

    /// The hooks of a moment, by number, then name.
    #[must_use]
    pub fn at(&self, moment: Moment) -> Vec<Arc<Hook>> {
        let place = |hook: &Arc<Hook>| hook.config.moments.get(&moment).copied();
        let mut found: Vec<_> = self.hooks.iter().filter(|h| place(h).is_some()).cloned().collect();
        found.sort_by_key(|hook| (place(hook), hook.name.clone()));
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
                let sink = move |event: WatchEvent, item: Arc<Item>| {
                    // Nobody waits for events.
                    drop(to.push(Run::of(&of, "kubernetes", &common, ContextKind::Event(event, item))));
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

    /// Starts the schedules of all hooks, unless they run already; their ticks go to the queues, and are dropped while `open`
    /// says no.
    pub fn schedule(&self, queues: &Arc<Queues>, open: &Arc<dyn Fn() -> bool + Send + Sync>) {
        let mut schedules = self.schedules.lock().unwrap_or_else(PoisonError::into_inner);
        if schedules.is_some() {
            return;
        }
        let mut tasks = JoinSet::new();
        for hook in &self.hooks {
            for (index, schedule) in hook.config.schedules.iter().enumerate() {
                let (to, of, cron) = (Arc::clone(queues), Arc::clone(hook), schedule.cron.clone());
                let open = Arc::clone(open);
                tasks.spawn(async move {
                    let mut last = Timestamp::now();
                    while let Some(next) = cron.next(last) {
                        while let Ok(left) = Duration::try_from(next.duration_since(Timestamp::now()))
                            && !left.is_zero()
                        {
                            tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
                        }
                        last = next.max(Timestamp::now());
                        if open() {
                            let common = &of.config.schedules[index].common;
                            drop(to.push(Run::of(&of, "schedule", common, ContextKind::Schedule)));
                        }
                    }
                });
            }
        }
        *schedules = Some(tasks);
    }

    /// Ends schedules and watches; snapshots are empty from here on.
    pub fn stop(&self) {
        *self.schedules.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Ends schedules, and leaves the watches with their snapshots.
    pub fn stop_schedules(&self) {
        *self.schedules.lock().unwrap_or_else(PoisonError::into_inner) = None;
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
            allow_failure: false,
            since: Instant::now(),
            event: next_event(),
            failures: 0,
        }
    }
}
