//! Registration of the kind HelmRelease.

use super::KIND;
use crate::cluster::{Cluster, ClusterError, Gvk};
use crate::controller::register_absent_kind;
use crate::flux_api;

/// Creates the CustomResourceDefinition of HelmReleases if there is none. One that exists, Flux's for instance, stays as it is.
///
/// # Errors
/// The kind is not served, and may not be registered or is not served in time. The text names the command that registers it.
pub async fn register(cluster: &Cluster) -> Result<(), ClusterError> {
    let kind = Gvk::new(KIND.0, KIND.1);
    match register_absent_kind(cluster, &kind, &flux_api::crds::helm_release()).await {
        Err(e) if e.is_forbidden() => Err(ClusterError::Other(format!(
            "{} {} is not served, and the operator may not register it ({e}): run `windlass crds flux {} | kubectl apply -f -`, or \
             leave helmreleases out of --controllers",
            KIND.0, KIND.1, KIND.1
        ))),
        result => result,
    }
}
