//! Stores the generated values of a release in a Secret of its namespace, which has the same readers as its release records.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_base::bounded_json;

use super::GeneratedValues;
use windlass_cluster::{ApplyOptions, Cluster, ClusterError, DeleteOptions, Gvk, ObjectRef, Validation};

/// The Secret's type.
const TYPE: &str = "windlass.dev/replay.v1";

/// The data key of the values, encoded as JSON.
const KEY: &str = "replay";

/// The maximal size of the values, in bytes; the API server refuses larger Secrets.
const MAX_BYTES: usize = 1_000_000;

fn place(namespace: &str, release: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new("v1", "Secret"), Some(namespace), &format!("windlass.replay.{release}"))
}

/// Loads the generated values of a release; without a Secret they are empty.
///
/// # Errors
/// The error of the API server, or invalid content of the Secret, which is never shown.
pub async fn load(cluster: &Cluster, namespace: &str, release: &str) -> Result<GeneratedValues, String> {
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
    bounded_json::from_slice(&bytes).map_err(|_| broken())
}

/// Saves the generated values of a release.
///
/// # Errors
/// The error of the API server, or values that are too large for a Secret.
pub async fn save(
    cluster: &Cluster,
    namespace: &str,
    release: &str,
    memory: &GeneratedValues,
) -> Result<(), String> {
    let place = place(namespace, release);
    let text = serde_json::to_vec(memory).map_err(|e| e.to_string())?;
    if text.len() > MAX_BYTES {
        return Err(format!(
            "the generated values of {release} take {} bytes, more than the {MAX_BYTES} that a Secret holds",
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

/// Deletes the generated values of an uninstalled release.
///
/// # Errors
/// The error of the API server.
pub async fn forget(cluster: &Cluster, namespace: &str, release: &str) -> Result<(), ClusterError> {
    cluster.delete(&place(namespace, release), DeleteOptions::default()).await.map(|_| ())
}
