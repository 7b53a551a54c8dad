//! The front end of ImageBuilds in one process: the kind where it is absent, and the controller.

use windlass_cluster::{Cluster, ClusterError, Gvk};
use windlass_controller::{ControllerContext, ControllerOptions, register_kind};
use windlass_images::image_build_definition::{KIND, crd};
use windlass_images::{ImageBuildOptions, ImageBuilds};

/// How a process reconciles ImageBuilds.
#[derive(Clone, Debug)]
pub struct ImageBuildProcess {
    /// Options of all ImageBuilds.
    pub options: ImageBuildOptions,
    /// Which objects, and how many at a time.
    pub controller: ControllerOptions,
}

/// Registers the kind, unless the cluster has it.
///
/// # Errors
/// It is not served, and may not be registered or is not served in time. The text names the command that registers it.
async fn register_image_builds(cluster: &Cluster) -> Result<(), ClusterError> {
    match register_kind(cluster, &Gvk::new(KIND.0, KIND.1), &crd()).await {
        Err(error) if error.is_forbidden() => Err(ClusterError::Other(format!(
            "ImageBuild is not served, and the operator may not register it ({error}): run `windlass crds imagebuilds | kubectl apply -f \
             -`, or leave imagebuilds out of --controllers"
        ))),
        result => result,
    }
}

/// Reconciles ImageBuilds.
///
/// # Errors
/// The kind cannot be registered, or the controller ends with an error.
pub(super) async fn run(
    context: ControllerContext,
    process: ImageBuildProcess,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    register_image_builds(context.runner.engine().operator_client()).await?;
    let ImageBuildProcess { options, controller } = process;
    windlass_controller::run(ImageBuilds::new(options), context, controller, stop).await
}
