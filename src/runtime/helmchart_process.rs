//! The front end of k3s' HelmCharts in one process: the kinds where they are absent, and the controller.

use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectRef};
use windlass_controller::{ControllerContext, ControllerOptions, register_absent_kind};
use windlass_helmcharts::crds;
use windlass_helmcharts::k3s_api::{API_VERSION, CHART_KIND, CONFIG_KIND};
use windlass_helmcharts::{HelmChartOptions, HelmCharts};

/// How a process reconciles HelmCharts.
#[derive(Clone, Debug)]
pub struct HelmChartProcess {
    /// Options of all HelmCharts.
    pub options: HelmChartOptions,
    /// Which objects, and how many at a time.
    pub controller: ControllerOptions,
}

/// Registers both kinds where they are absent. Those of k3s are never written.
///
/// # Errors
/// One is not served, and may not be registered or is not served in time. The text names the command that registers it.
pub async fn register_helmcharts(cluster: &Cluster) -> Result<(), ClusterError> {
    for (kind, crd) in [CHART_KIND, CONFIG_KIND].into_iter().zip(crds::all()) {
        let registered = register_absent_kind(cluster, &Gvk::new(API_VERSION, kind), &crd).await;
        registered.map_err(|error| match error.is_forbidden() {
            true => ClusterError::Other(format!(
                "{kind} is not served, and the operator may not register it ({error}): run `windlass crds helmcharts | kubectl apply \
                 -f -`, or leave helmcharts out of --controllers"
            )),
            false => error,
        })?;
    }
    Ok(())
}

/// Whether the cluster's definition of HelmCharts has our fields of the status. One that may not be read counts as k3s' own.
async fn keeps_own_status(cluster: &Cluster) -> Result<bool, ClusterError> {
    let kind = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    match cluster.get(&ObjectRef::new(kind, None, crds::NAMES[0])).await {
        Ok(found) => Ok(found.is_some_and(|found| crds::keeps_own_status(&found))),
        Err(error) if error.is_forbidden() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reconciles HelmCharts.
///
/// # Errors
/// A kind cannot be registered, or the controller ends with an error.
pub(super) async fn run(
    context: ControllerContext,
    process: HelmChartProcess,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    let cluster = context.runner.engine().operator_client();
    register_helmcharts(cluster).await?;
    let keeps_own_status = keeps_own_status(cluster).await?;
    let HelmChartProcess { options, controller } = process;
    let front_end = HelmCharts::new(HelmChartOptions { keeps_own_status, ..options });
    windlass_controller::run(front_end, context, controller, stop).await
}
