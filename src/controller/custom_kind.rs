//! Registration of a front end's own kind.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::STATUS_MANAGER;
use crate::cluster::{ApplyOptions, Cluster, ClusterError, Gvk, ObjectRef, Validation};

/// Annotation of a definition: a higher revision replaces a lower one, never the other way round.
const REVISION: &str = "windlass.dev/crd-revision";
/// How long a new kind may take to be served.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

/// Applies a CRD unless the cluster has the same revision or a later one, and waits until the kind is served.
///
/// # Errors
/// The kind is not served and may not be registered, or is not served in time.
pub async fn register_kind(cluster: &Cluster, kind: &Gvk, crd: &Value) -> Result<(), ClusterError> {
    let name = crd["metadata"]["name"].as_str().unwrap_or_default();
    let object = ObjectRef::new(Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition"), None, name);
    let revision = |o: &Value| {
        o["metadata"]["annotations"][REVISION].as_str().and_then(|t| t.parse::<u64>().ok()).unwrap_or(0)
    };
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
    let began = Instant::now();
    while cluster.refresh_kinds(Instant::now()).await?.get(kind).is_none() {
        if began.elapsed() > SERVED_WITHIN {
            let seconds = SERVED_WITHIN.as_secs();
            return Err(ClusterError::Other(format!("{name} is not served {seconds}s after it was created")));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
