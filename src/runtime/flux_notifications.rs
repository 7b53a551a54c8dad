//! Flux's notifications of one process: sent by itself, or posted to a notification-controller.
//!
//! Owns who sends events and answers webhooks: never two. The Lease of notification-controller is held while this process does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc::Receiver;

use super::flux::{ControllerMode, FluxProcess, hold_lease, owns, register_flux_kinds};
use super::stop_signal::{Stop, StopSignal};
use windlass_cluster::{Cluster, ClusterError};
use windlass_controller::ControllerContext;
use windlass_controller::serve::listen::{self, Limits};
use windlass_fetch::location::Location;
use windlass_flux::notifications::{
    EventQueue, NotifyOptions, QueuedEvent, Receivers, WebhookPaths, Webhooks, dispatch, forward,
};

/// How long events that wait may take after a stop.
const GRACE: Duration = Duration::from_secs(5);
/// The kinds of this process, if notifications are its own.
const KINDS: [&str; 3] = ["Alert", "Provider", "Receiver"];

/// How a process sends notifications.
#[derive(Clone, Debug)]
pub struct NotifyProcess {
    /// Who sends events and answers webhooks.
    pub mode: ControllerMode,
    /// Where events are posted, if a notification-controller sends them.
    pub events_address: Option<Location>,
    /// Where webhooks of Receivers are served.
    pub receiver_address: SocketAddr,
    /// Options of Alerts, Providers and Receivers.
    pub options: NotifyOptions,
}

/// Who gets the events of a process.
pub(super) enum Notifications {
    /// This process sends them.
    Own(Receiver<Arc<QueuedEvent>>, TcpListener),
    /// A notification-controller.
    Posted(Receiver<Arc<QueuedEvent>>, Location),
    /// Nobody.
    Nobody,
}

/// Decides who sends notifications. Returns as well the context of the front ends whose Events are sent.
pub(super) async fn prepare(
    cluster: &Cluster,
    context: &ControllerContext,
    process: &FluxProcess,
) -> Result<(ControllerContext, Notifications), ClusterError> {
    let notify = &process.notifications;
    let mode = match (&notify.events_address, notify.mode) {
        (Some(_), ControllerMode::Auto) => ControllerMode::Flux,
        (_, mode) => mode,
    };
    let (queue, events) = EventQueue::new(&process.election.identity);
    if owns(cluster, mode, &process.election.namespace, "notification-controller", "--notifications").await? {
        register_flux_kinds(cluster, &KINDS, "set --notifications=flux").await?;
        let address = notify.receiver_address;
        let failed = |e| ClusterError::Other(format!("webhooks cannot be served at {address}: {e}"));
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(webhooks = %address, "notifications are sent by this process");
        return Ok((context.with_event_sink(queue), Notifications::Own(events, listener)));
    }
    let Some(address) = notify.events_address.clone() else {
        tracing::info!("events are sent to nobody: --events-addr names no notification-controller");
        return Ok((context.clone(), Notifications::Nobody));
    };
    tracing::info!(%address, "events are posted to notification-controller");
    Ok((context.with_event_sink(queue), Notifications::Posted(events, address)))
}

impl Notifications {
    /// Sends events until `stop` resolves, and then those that wait.
    pub(super) async fn run(
        self,
        cluster: &Cluster,
        context: &ControllerContext,
        process: &FluxProcess,
        stop: Stop,
    ) -> Result<(), ClusterError> {
        match self {
            Self::Nobody => {
                stop.await;
                Ok(())
            }
            Self::Posted(events, address) => {
                post(address, events, stop).await;
                Ok(())
            }
            Self::Own(events, listener) => {
                let election = process.election_of("notification-controller");
                hold_lease(cluster, &election, stop, |stop| {
                    run_own(cluster, context, process, (events, listener), stop)
                })
                .await
            }
        }
    }
}

async fn post(address: Location, events: Receiver<Arc<QueuedEvent>>, stop: Stop) {
    let stopping = StopSignal::new();
    let expired = async {
        stop.await;
        stopping.stop();
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        () = forward(address, events, stopping.stopped()) => {}
        () = expired => tracing::warn!("some events are not sent"),
    }
}

/// Sends events, reconciles Receivers and serves their webhooks.
async fn run_own(
    cluster: &Cluster,
    context: &ControllerContext,
    process: &FluxProcess,
    (events, listener): (Receiver<Arc<QueuedEvent>>, TcpListener),
    stop: Stop,
) -> Result<(), ClusterError> {
    let options = &process.notifications.options;
    let paths = Arc::<WebhookPaths>::default();
    let webhooks = Webhooks {
        cluster: cluster.clone(),
        paths: Arc::clone(&paths),
        pushed_images: context.pushed_images.clone(),
        bodies: Arc::clone(&context.state.bodies),
        no_cross_namespace_refs: options.no_cross_namespace_refs,
    };
    let stopping = StopSignal::new();
    let serving =
        tokio::spawn(listen::serve(listener, None, webhooks.routes(), Limits::default(), stopping.stopped()));
    let controller = process.controller_options();
    let receivers = async {
        let result =
            windlass_controller::run(Receivers::new(paths), context.clone(), controller, stopping.stopped())
                .await;
        stopping.stop();
        result
    };
    let sending = dispatch(context.clone(), options.clone(), events, stopping.stopped());
    let all = futures::future::join(receivers, sending);
    let (result, ()) = stopping.run(stop, all).await;
    drop(serving.await);
    result
}
