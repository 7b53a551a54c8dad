//! The front ends of Helmfiles in one process: the kind itself, and kinds of users.

use super::stop_signal::StopSignal;
use windlass_cluster::{Cluster, ClusterError, Gvk};
use windlass_controller::{ControllerContext, ControllerOptions, register_kind};
use windlass_helmfile::resource::definition::{KIND, crd};
use windlass_helmfile::resource::{CustomKind, HelmfileOptions, Helmfiles};

/// How a process reconciles Helmfiles.
#[derive(Clone, Debug)]
pub struct HelmfileProcess {
    /// Options of all Helmfiles.
    pub options: HelmfileOptions,
    /// Kinds of users that stand for Helmfiles.
    pub kinds: Vec<CustomKind>,
    /// Which objects, and how many at a time.
    pub controller: ControllerOptions,
}

/// Registers the kind, unless the cluster has it.
///
/// # Errors
/// It is not served, and may not be registered or is not served in time. The text names the command that registers it.
pub async fn register_helmfiles(cluster: &Cluster) -> Result<(), ClusterError> {
    match register_kind(cluster, &Gvk::new(KIND.0, KIND.1), &crd()).await {
        Err(error) if error.is_forbidden() => Err(ClusterError::Other(format!(
            "Helmfile is not served, and the operator may not register it ({error}): run `windlass crds helmfile | kubectl apply \
             -f -`, or leave helmfiles out of --controllers"
        ))),
        result => result,
    }
}

/// Reconciles Helmfiles and the kinds that stand for them.
///
/// # Errors
/// The kind cannot be registered, or a controller ends with an error.
pub(super) async fn run(
    context: ControllerContext,
    process: HelmfileProcess,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    register_helmfiles(context.runner.engine().operator_client()).await?;
    let HelmfileProcess { options, kinds, controller } = process;
    let of_kind =
        |kind: CustomKind| Helmfiles::of_kind(options.clone(), kind, context.runner.render_bounds());
    let mut front_ends = vec![Helmfiles::new(options.clone())];
    front_ends.extend(kinds.into_iter().map(of_kind));
    let stopping = StopSignal::new();
    let one = async |front_end: Helmfiles| {
        let result =
            windlass_controller::run(front_end, context.clone(), controller.clone(), stopping.stopped())
                .await;
        // One that ends in its own time does not stop the others.
        if !controller.once {
            stopping.stop();
        }
        result
    };
    let all = futures::future::join_all(front_ends.into_iter().map(one));
    let results = stopping.run(stop, all).await;
    results.into_iter().collect()
}
