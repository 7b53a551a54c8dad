//! The objects of one kubernetes binding, watched: snapshots, and events for what changes.
//!
//! Owns the state of the objects and which changes trigger a run; running hooks is others' work. Events that come
//! before the hook has seen the objects as they were are held back.

mod state;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::Hook;
use super::binding_context::{ContextKind, Item};
use super::config::{Kubernetes, WatchEvent};
pub use state::Changes;
use state::State;
use windlass_base::redact;
use windlass_cluster::Cluster;
use windlass_controller::serve::addon_operator_metrics::Measures;

/// Gets the events of a binding, or a Synchronization that stands for many; called from the watches' tasks, and must be quick.
pub(super) type EventSink = Box<dyn Fn(ContextKind) + Send + Sync>;

/// The watches of a binding; they end when this is dropped.
pub(super) struct Monitor {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

/// Whose binding it is, and where its times are counted.
pub(super) struct Owner {
    pub(super) hook: Arc<Hook>,
    pub(super) measures: Arc<Measures>,
}

struct Shared {
    /// For messages: the hook and the binding.
    name: String,
    owner: Owner,
    binding: Kubernetes,
    state: Mutex<State>,
    listed: Notify,
    sink: EventSink,
}

impl Shared {
    fn state<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts how long an object took to be taken in, and its filter.
    fn measure(&self, took: Duration, filter: Option<Duration>) {
        let Owner { hook, measures } = &self.owner;
        let labels = [
            ("module", hook.module.as_str()),
            ("hook", hook.name.as_str()),
            ("binding", self.binding.common.name.as_str()),
            ("queue", self.binding.common.queue.as_str()),
            ("kind", self.binding.kind.as_str()),
        ];
        measures.observe("kube_event_duration_seconds", &labels, took);
        if let Some(filter) = filter {
            measures.observe("kube_jq_filter_duration_seconds", &labels, filter);
        }
    }

    fn send(&self, events: impl IntoIterator<Item = (WatchEvent, Arc<Item>)>) {
        for (event, item) in events {
            (self.sink)(ContextKind::Event(event, item));
        }
    }
}

impl Monitor {
    pub(super) fn start(cluster: &Cluster, owner: Owner, binding: &Kubernetes, sink: EventSink) -> Self {
        let shared = Arc::new(Shared {
            name: format!("{} {}", owner.hook.name, binding.common.name),
            owner,
            binding: binding.clone(),
            state: Mutex::new(State::new(binding)),
            listed: Notify::new(),
            sink,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(redact::own(watch::all(cluster.clone(), Arc::clone(&shared))));
        Self { shared, _tasks: tasks }
    }

    /// Waits until all objects that exist are known.
    ///
    /// # Errors
    /// The API server refuses that, or it takes longer than `limit`: why, as far as it is known.
    pub(super) async fn listed(&self, limit: Duration) -> Result<(), String> {
        let listed = async {
            loop {
                let notified = self.shared.listed.notified();
                tokio::pin!(notified);
                notified.as_mut().enable();
                let (listed, refused) = self.shared.state(|s| (s.is_listed(), s.refused));
                if listed || refused {
                    return listed;
                }
                notified.await;
            }
        };
        let when = match tokio::time::timeout(limit, listed).await {
            Ok(true) => return Ok(()),
            Ok(false) => String::new(),
            Err(_) => format!(" after {}s", limit.as_secs()),
        };
        let problem = self.shared.state(|s| s.problem.clone());
        let problem = problem.unwrap_or_else(|| "the API server does not answer".to_owned());
        Err(format!("{}: the objects are not listed{when}: {problem}", self.shared.name))
    }

    /// The objects, by namespace and name.
    pub(super) fn snapshot(&self) -> Vec<Arc<Item>> {
        self.shared.state(|s| s.snapshot())
    }

    /// What has happened since the watch began, and since the hook last saw the objects.
    pub(super) fn changes(&self) -> (Changes, Changes) {
        self.shared.state(|s| s.changes)
    }

    /// The hook sees the objects as they are now.
    pub(super) fn seen(&self) {
        self.shared.state(State::seen);
    }

    /// The hook is about to see the objects as they are: events held back tell nothing more, later ones pass.
    pub(super) fn synchronize(&self) {
        self.shared.state(State::synchronize);
    }

    /// The hook gets no synchronization: held and later events pass.
    pub(super) fn open(&self) {
        let held = self.shared.state(State::open);
        if held.contains(&ContextKind::Synchronization) {
            tracing::warn!(
                hook = self.shared.name,
                "too many events have come before its objects were listed: it gets a Synchronization instead"
            );
        }
        held.into_iter().for_each(|what| (self.shared.sink)(what));
    }
}
