//! Stores the generated values of a release in a Secret of its namespace, which has the readers of its release records.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::GeneratedValues;
use crate::cluster::{ApplyOptions, Cluster, ClusterError, DeleteOptions, Gvk, ObjectRef, Validation};

/// The Secret's type.
const TYPE: &str = "windlass.dev/replay.v1";

/// The key under which the memory stands, as JSON.
const KEY: &str = "replay";

/// The largest memory that is written; the API server takes no larger Secret.
const MAX_BYTES: usize = 1_000_000;

fn place(namespace: &str, release: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new("v1", "Secret"), Some(namespace), &format!("windlass.replay.{release}"))
}

/// Reads the memory of a release; without a Secret it is empty.
///
/// # Errors
/// The API server's answer, or that the Secret holds something else. Its content is never shown.
pub(crate) async fn load(
    cluster: &Cluster,
    namespace: &str,
    release: &str,
) -> Result<GeneratedValues, String> {
    let place = place(namespace, release);
    let found = cluster.get(&place).await.map_err(|e| e.to_string())?;
    let Some(secret) = found else { return Ok(GeneratedValues::default()) };
    let broken = || {
        format!(
            "Secret {namespace}/{}: data key {KEY:?} is not what windlass wrote: restore it, or delete the Secret to have all \
             random values and certificates of the release made anew",
            place.name
        )
    };
    let text = secret["data"][KEY].as_str().ok_or_else(broken)?;
    let bytes = STANDARD.decode(text).map_err(|_| broken())?;
    serde_json::from_slice(&bytes).map_err(|_| broken())
}

/// Keeps the memory of a release.
///
/// # Errors
/// The API server's answer, or that the memory is too large for a Secret.
pub(crate) async fn save(
    cluster: &Cluster,
    namespace: &str,
    release: &str,
    memory: &GeneratedValues,
) -> Result<(), String> {
    let place = place(namespace, release);
    let text = serde_json::to_vec(memory).map_err(|e| e.to_string())?;
    if text.len() > MAX_BYTES {
        return Err(format!(
            "what the templates of {release} make by chance takes {} bytes, more than the {MAX_BYTES} that a Secret holds",
            text.len()
        ));
    }
    let body: Value = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": place.name, "namespace": namespace, "labels": {"windlass.dev/release": release}},
        "type": TYPE,
        "data": {KEY: STANDARD.encode(text)},
    });
    let options = ApplyOptions {
        manager: "windlass-replay",
        force: true,
        validation: Validation::Ignore,
        dry_run: false,
        whole: false,
    };
    cluster.apply(&place, &body, options).await.map(|_| ()).map_err(|e| e.to_string())
}

/// Forgets the memory of a release that is uninstalled.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn forget(cluster: &Cluster, namespace: &str, release: &str) -> Result<(), ClusterError> {
    cluster.delete(&place(namespace, release), DeleteOptions::default()).await.map(|_| ())
}
