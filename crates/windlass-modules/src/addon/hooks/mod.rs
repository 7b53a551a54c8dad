//! Hooks of modules: when they run, which values they see, and how their results are applied.
//!
//! Owns the hook sets, their queues, and the values while hooks may change them. The operator's loop says when modules run,
//! and hears of changes by [`Change`].

mod activity;
mod debug_view;
mod enabled;
mod execute;
mod global;
mod module_hooks;
mod readiness_probe;
mod settings_approval;
mod write_back;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::mpsc::UnboundedSender;

use super::values::Values;
use crate::shell_hooks::queues::Queues;
use crate::shell_hooks::webhooks::{self, Webhooks};
use crate::shell_hooks::{ConfigCache, DeletionGrace, HookEnvironment, HookSet};
use windlass_cluster::{Cluster, ObjectRef};
use windlass_controller::EventRecorder;
use windlass_controller::serve::State;

pub use enabled::has_script;
pub(super) use enabled::{Candidate, Verdicts};
pub(super) use module_hooks::{Maintenance, ModuleRef, Ran};
pub(super) use readiness_probe::Readiness;

/// Values, and the lists that hooks see beside them.
pub(crate) struct Store {
    pub(super) values: Values,
    /// Modules that are on, in their order.
    pub(super) enabled: Vec<String>,
    /// Flags of the ConfigMap, by module key.
    pub(super) flags: BTreeMap<String, bool>,
}

/// Something that a hook changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// The module's name; empty for global values.
    pub(super) module: String,
    /// Flags of modules have changed.
    pub(super) flags: bool,
    /// Values have changed and the loop must apply them.
    pub(super) reload: bool,
    /// A hook that the module's run waits for has succeeded.
    pub(super) synchronized: bool,
    /// What the module's readiness probe says now.
    pub(super) readiness: Option<Readiness>,
}

/// How hooks run, beside the environment of each run.
pub(crate) struct RunOptions {
    pub(super) webhooks: webhooks::Options,
    /// How long other modules wait for a running hook.
    pub(super) unblock_after: Duration,
    /// The operator keeps objects of deckhouse.io's kind, which readiness probes read.
    pub(super) keeps_deckhouse_modules: bool,
}

/// All hooks of an operator.
pub(crate) struct Hooks {
    cluster: Cluster,
    around: HookEnvironment,
    state: Arc<State>,
    store: Mutex<Store>,
    events: EventRecorder,
    config_map: ObjectRef,
    global: Mutex<Option<Arc<HookSet>>>,
    modules: Mutex<BTreeMap<String, Arc<module_hooks::ModuleHooks>>>,
    queues: Arc<Queues>,
    webhooks: Arc<Webhooks>,
    changes: UnboundedSender<Change>,
    /// Held while the ConfigMap is written: the version that was written last.
    writing: tokio::sync::Mutex<u64>,
    /// Which hooks run.
    deletion_grace: Mutex<DeletionGrace>,
    /// How long other modules wait for a running hook.
    unblock_after: Duration,
    /// Held by runs in the main queue of the global hooks, those of moments among them.
    global_turn: tokio::sync::Mutex<()>,
    /// What hook files have answered.
    configs: Arc<ConfigCache>,
    /// How often the global hooks were read.
    global_reads: AtomicU64,
    /// Notes and warnings that were reported.
    noted: Mutex<BTreeSet<String>>,
    keeps_deckhouse_modules: bool,
}

impl Hooks {
    pub(crate) fn new(
        cluster: Cluster,
        around: HookEnvironment,
        state: Arc<State>,
        values: Values,
        config_map: ObjectRef,
        options: RunOptions,
        changes: UnboundedSender<Change>,
    ) -> Arc<Self> {
        let RunOptions { webhooks, unblock_after, keeps_deckhouse_modules } = options;
        Arc::new_cyclic(|hooks: &Weak<Self>| {
            let namespace = config_map.namespace.clone().unwrap_or_default();
            let asked = Weak::clone(hooks);
            let answer = move |run| {
                let hooks = asked.upgrade();
                async move {
                    let Some(hooks) = hooks else { return Err("the operator stops".to_owned()) };
                    hooks.run_asked(run).await
                }
                .boxed()
            };
            let webhooks =
                Webhooks::new(cluster.clone(), &namespace, webhooks, Arc::clone(&state), Arc::new(answer));
            let hooks = Weak::clone(hooks);
            let runner = move |run| {
                let hooks = hooks.upgrade();
                async move {
                    // The operator has stopped.
                    let Some(hooks) = hooks else { return Ok(()) };
                    hooks.run_queued(run).await
                }
                .boxed()
            };
            let store = Store { values, enabled: Vec::new(), flags: BTreeMap::new() };
            Self {
                events: EventRecorder::new(cluster.clone()),
                cluster,
                around,
                state,
                store: Mutex::new(store),
                config_map,
                global: Mutex::default(),
                modules: Mutex::default(),
                queues: Arc::new(Queues::new(Arc::new(runner))),
                webhooks,
                changes,
                writing: tokio::sync::Mutex::default(),
                deletion_grace: Mutex::default(),
                unblock_after,
                global_turn: tokio::sync::Mutex::default(),
                configs: Arc::default(),
                global_reads: AtomicU64::default(),
                noted: Mutex::default(),
                keeps_deckhouse_modules,
            }
        })
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn module(&self, name: &str) -> Option<Arc<module_hooks::ModuleHooks>> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All modules have had an outcome: webhooks of modules that are off go, also those of an earlier process.
    pub(crate) fn settle_webhooks(&self) {
        let mut owners: BTreeSet<String> = self.store().enabled.iter().cloned().collect();
        if self.has_global() {
            owners.insert(String::new());
        }
        self.webhooks.settle(owners);
    }

    /// The time limit of a program that blocks others.
    fn limit(&self) -> Duration {
        limit(self.around.timeout, self.unblock_after)
    }

    /// Logs what batch programs of an owner said that is ignored or odd: each text once.
    fn note(&self, module: &str, set: &HookSet) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        for text in set.notes() {
            if noted.insert(text.clone()) {
                tracing::warn!(module, "{text}");
            }
        }
    }

    fn tell(&self, change: Change) {
        // No receiver is left when the operator stops.
        drop(self.changes.send(change));
    }
}

/// The smaller of a timeout and `--hook-unblock-after`.
pub fn limit(timeout: Option<Duration>, unblock_after: Duration) -> Duration {
    timeout.map_or(unblock_after, |timeout| timeout.min(unblock_after))
}

/// Where the hooks of a directory of global hooks are: in its `hooks`, if it has one.
pub fn global_directory(directory: &std::path::Path) -> PathBuf {
    let below = directory.join("hooks");
    if below.is_dir() { below } else { directory.to_owned() }
}
