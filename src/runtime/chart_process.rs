//! The front ends of kinds whose objects are releases of a chart, in one process: those of a file, and those of ChartResources.

use windlass_chartresource::chart_resource_definition::{KIND, crd};
use windlass_chartresource::chart_resources;
use windlass_chartresource::{ChartObjects, ChartResourceOptions, KindSettings, LoadedChart};
use windlass_cluster::{Cluster, ClusterError, Gvk};
use windlass_controller::{ControllerContext, register_kind};

use super::stop_signal::{Stop, StopSignal};

/// How often a kind that is not served is looked for, if no definition changes.
const LOOK: std::time::Duration = std::time::Duration::from_secs(30);

/// How a process reconciles objects of charts' kinds.
#[derive(Clone, Debug)]
pub struct ChartProcess {
    /// The kinds of operator-sdk's file, each with its chart.
    pub kinds: Vec<(KindSettings, LoadedChart)>,
    /// Options of ChartResources and of all objects.
    pub options: ChartResourceOptions,
}

/// Registers the kind ChartResource, unless the cluster has it. Returns whether it is served.
///
/// # Errors
/// It may not be registered, and the process has no other kinds; or it is not served in time. The text names the command that registers
/// it.
async fn register_chart_resources(cluster: &Cluster, has_others: bool) -> Result<bool, ClusterError> {
    match register_kind(cluster, &Gvk::new(KIND.0, KIND.1), &crd()).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_forbidden() && has_others => {
            tracing::warn!(
                "ChartResource is not served, and the operator may not register it: only the kinds of --watches-file are \
                 reconciled ({error}); run `windlass crds charts | kubectl apply -f -` for others"
            );
            Ok(false)
        }
        Err(error) if error.is_forbidden() => Err(ClusterError::Other(format!(
            "ChartResource is not served, and the operator may not register it ({error}): run `windlass crds charts | kubectl apply -f \
             -`, or name a --watches-file"
        ))),
        Err(error) => Err(error),
    }
}

/// Reconciles the objects of all kinds, and ChartResources.
///
/// # Errors
/// A controller ends with an error.
pub(super) async fn run(
    context: ControllerContext,
    process: ChartProcess,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    let ChartProcess { kinds, mut options } = process;
    let labels = [("commit", ""), ("version", env!("CARGO_PKG_VERSION"))];
    context.state.metrics.set("helm_operator_build_info", "The version of this program.", &labels, 1.0);
    let client = context.runner.engine().operator_client();
    let resources = register_chart_resources(client, !kinds.is_empty()).await?;
    options.reserved = kinds.iter().map(|(settings, _)| settings.gvk.clone()).collect();
    let stopping = StopSignal::new();
    let of_kind = async |(settings, chart): (KindSettings, LoadedChart)| {
        let result = run_kind(&context, (settings, chart), &options, || stopping.stopped()).await;
        stopping.stop();
        result
    };
    let of_resources = async {
        if !resources {
            return Ok(());
        }
        let result = chart_resources::run(context.clone(), options.clone(), stopping.stopped()).await;
        stopping.stop();
        result
    };
    let all = async {
        let kinds = futures::future::join_all(kinds.into_iter().map(of_kind));
        let (own, kinds) = futures::join!(of_resources, kinds);
        std::iter::once(own).chain(kinds).collect::<Result<(), _>>()
    };
    stopping.run(stop, all).await
}

/// Reconciles the objects of a kind of the file.
async fn run_kind(
    context: &ControllerContext,
    (settings, chart): (KindSettings, LoadedChart),
    options: &ChartResourceOptions,
    stopped: impl Fn() -> Stop,
) -> Result<(), ClusterError> {
    let client = context.runner.engine().operator_client();
    tokio::select! {
        served = wait_served(client, &settings.gvk) => served?,
        () = stopped() => return Ok(()),
    }
    let controller = settings.controller(&options.controller);
    let front_end = ChartObjects::new(settings, chart, options.objects.clone());
    windlass_controller::run(front_end, context.clone(), controller, stopped()).await
}

/// Waits until the server serves a kind: its definition may come later.
async fn wait_served(client: &Cluster, kind: &Gvk) -> Result<(), ClusterError> {
    let mut changes = client.kind_changes();
    let mut waits = false;
    while client.current_kinds().await?.get(kind).is_none() {
        if !std::mem::replace(&mut waits, true) {
            tracing::warn!(
                kind = kind.kind,
                group = kind.group,
                "the kind is not served: its objects wait until it is defined"
            );
        }
        drop(tokio::time::timeout(LOOK, changes.changed()).await);
    }
    Ok(())
}
