//! Kinds that are registered and dropped while the process runs.
//!
//! Owns the controller of each: it is started with the kind, and stopped before the kind goes. What a kind is made of is `ChartResource`'s.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use super::chart_objects::{ChartObjects, ObjectOptions};
use super::chart_rollout::{ChartRollout, RolloutFailures};
use super::kind_chart::KindChart;
use super::kind_settings::KindSettings;
use super::served_kind::ServedKind;
use windlass_controller::{ControllerContext, ControllerOptions};

/// A kind with its running controller.
struct RunningKind {
    kind: Arc<ServedKind>,
    stop: watch::Sender<bool>,
    /// Its controller. It ends with this object, whatever becomes of the process.
    controller: JoinSet<()>,
    /// Tells whoever registered the kind of changes.
    _forwarder: JoinSet<()>,
}

/// What a kind is to be.
pub(crate) struct WantedKind {
    pub(crate) settings: KindSettings,
    pub(crate) chart: KindChart,
    pub(crate) max_unavailable: usize,
    /// The failures of the rollout of this chart that a process before this one has noted.
    pub(crate) failures: RolloutFailures,
}

/// The kinds of a process, by the names of their ChartResources.
pub(crate) struct RegisteredKinds {
    context: ControllerContext,
    controller: ControllerOptions,
    options: ObjectOptions,
    running: Mutex<BTreeMap<String, RunningKind>>,
    changed: UnboundedSender<String>,
    changes: Mutex<UnboundedReceiver<String>>,
}

impl RegisteredKinds {
    pub(crate) fn new(
        context: ControllerContext,
        controller: ControllerOptions,
        options: ObjectOptions,
    ) -> Self {
        let (changed, changes) = unbounded_channel();
        Self {
            context,
            controller,
            options,
            running: Mutex::default(),
            changed,
            changes: Mutex::new(changes),
        }
    }

    /// The name of a ChartResource whose kind has changed: counts, or the rollout.
    pub(crate) async fn next_change(&self) -> String {
        match self.changes.lock().await.recv().await {
            Some(name) => name,
            // The sender is this object's own.
            None => std::future::pending().await,
        }
    }

    /// Makes a kind what it is to be: starts its controller, starts it anew with other settings, or begins the rollout of a chart.
    pub(crate) async fn ensure(&self, name: &str, wanted: WantedKind) -> Arc<ServedKind> {
        let WantedKind { settings, chart, max_unavailable, failures } = wanted;
        let mut running = self.running.lock().await;
        if let Some(known) = running.get_mut(name)
            && known.kind.settings == settings
            && known.controller.try_join_next().is_none()
        {
            known.kind.set_chart(chart, max_unavailable);
            return Arc::clone(&known.kind);
        }
        if let Some(old) = running.remove(name) {
            old.end().await;
        }
        let rollout = ChartRollout::new(chart, max_unavailable).with_failures(failures);
        let kind = ServedKind::new(settings, rollout);
        running.insert(name.to_owned(), self.start(name, Arc::clone(&kind)));
        kind
    }

    fn start(&self, name: &str, kind: Arc<ServedKind>) -> RunningKind {
        let stop = watch::Sender::new(false);
        let mut stopped = stop.subscribe();
        let options = kind.settings.controller(&self.controller);
        let front_end = ChartObjects::of_kind(Arc::clone(&kind), self.options.clone());
        let (context, owner) = (self.context.clone(), kind.settings.name.clone());
        let mut controller = JoinSet::new();
        controller.spawn(async move {
            let stop = async move { drop(stopped.wait_for(|stop| *stop).await) };
            if let Err(error) = windlass_controller::run(front_end, context, options, stop).await {
                tracing::error!(controller = owner, "the controller of the kind ended: {error}");
            }
        });
        let (changed, name) = (self.changed.clone(), name.to_owned());
        let mut changes = kind.changes();
        let mut forwarder = JoinSet::new();
        forwarder.spawn(async move {
            while changes.changed().await.is_ok() {
                if changed.send(name.clone()).is_err() {
                    return;
                }
            }
        });
        RunningKind { kind, stop, controller, _forwarder: forwarder }
    }

    /// The kind of a ChartResource, if its controller runs.
    pub(crate) async fn get(&self, name: &str) -> Option<Arc<ServedKind>> {
        self.running.lock().await.get(name).map(|running| Arc::clone(&running.kind))
    }

    /// Stops the controller of a kind, and waits for its running passes.
    pub(crate) async fn stop(&self, name: &str) {
        let running = self.running.lock().await.remove(name);
        if let Some(running) = running {
            running.end().await;
        }
    }

    /// Stops all controllers.
    pub(crate) async fn stop_all(&self) {
        let all = std::mem::take(&mut *self.running.lock().await);
        for running in all.values() {
            running.stop.send_replace(true);
        }
        for running in all.into_values() {
            running.end().await;
        }
    }
}

impl RunningKind {
    async fn end(mut self) {
        self.stop.send_replace(true);
        // A controller that panicked has ended, too.
        while self.controller.join_next().await.is_some() {}
    }
}
