//! Registration of the kinds of front ends.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::STATUS_MANAGER;
use windlass_cluster::{ApplyOptions, Cluster, ClusterError, Gvk, ObjectMeta, ObjectRef, Validation};

/// Annotation of a definition: a higher revision replaces a lower one, never the other way round.
const REVISION: &str = "windlass.dev/crd-revision";
/// How long a new kind may take to be served.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

/// Applies a CRD of a kind of our own unless the cluster has the same revision or a later one, and waits until the kind is served.
///
/// # Errors
/// The kind is not served and may not be registered, or is not served in time.
pub async fn register_kind(cluster: &Cluster, kind: &Gvk, crd: &Value) -> Result<(), ClusterError> {
    let object = reference(crd);
    let revision =
        |o: &Value| ObjectMeta::of(o).annotation(REVISION).and_then(|t| t.parse::<u64>().ok()).unwrap_or(0);
    let served = cluster.kinds().await?.get(kind).is_some();
    match cluster.get(&object).await {
        // It was installed by somebody with the rights.
        Err(e) if e.is_forbidden() && served => return Ok(()),
        Err(e) => return Err(e),
        Ok(Some(live)) if revision(&live) >= revision(crd) && served => return Ok(()),
        Ok(_) => {}
    }
    let options = ApplyOptions {
        manager: STATUS_MANAGER,
        force: true,
        validation: Validation::Strict,
        dry_run: false,
        whole: false,
    };
    match cluster.apply(&object, crd, options).await {
        Ok(_) => {}
        // The one that is served will do.
        Err(e) if served && e.is_forbidden() => return Ok(()),
        Err(e) => return Err(e),
    }
    wait_until_served(cluster, kind, &object.name).await
}

/// Creates a CRD of a kind that others define too, unless the kind is served, and waits until it is. A CRD that exists is never
/// written.
///
/// # Errors
/// The kind is not served and may not be registered, or is not served in time.
pub async fn register_absent_kind(cluster: &Cluster, kind: &Gvk, crd: &Value) -> Result<(), ClusterError> {
    // Others may have registered it since the kinds were read.
    if cluster.refresh_kinds(Instant::now()).await?.get(kind).is_some() {
        return Ok(());
    }
    let object = reference(crd);
    match cluster.create(&object, crd, STATUS_MANAGER).await {
        Ok(_) => tracing::info!(crd = object.name, "created"),
        // It was created at this moment, or it has other versions.
        Err(e) if e.is_already_exists() => {}
        Err(e) => return Err(e),
    }
    wait_until_served(cluster, kind, &object.name).await
}

fn reference(crd: &Value) -> ObjectRef {
    let kind = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    ObjectMeta::of(crd).reference(kind)
}

async fn wait_until_served(cluster: &Cluster, kind: &Gvk, crd: &str) -> Result<(), ClusterError> {
    let began = Instant::now();
    while cluster.refresh_kinds(Instant::now()).await?.get(kind).is_none() {
        if began.elapsed() > SERVED_WITHIN {
            let (version, seconds) = (kind.api_version(), SERVED_WITHIN.as_secs());
            return Err(ClusterError::Other(format!(
                "{crd} exists, but {version} {} is not served after {seconds}s",
                kind.kind
            )));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
