//! Warnings on the operator's ConfigMap that users see with `kubectl describe`.

use serde_json::{Value, json};

use super::config::Problem;
use crate::cluster::{Cluster, Gvk, ObjectRef};

/// Longest note of an Event that an API server takes.
const MAX_NOTE: usize = 1024;

/// Puts a Warning Event on the ConfigMap for a key that is wrong. A failure is logged: nothing depends on it.
pub(super) async fn warn(cluster: &Cluster, config_map: &Value, problem: &Problem) {
    let meta = &config_map["metadata"];
    let namespace = meta["namespace"].as_str().unwrap_or_default();
    let now = jiff::Timestamp::now();
    let name = format!("{}.{:x}", meta["name"].as_str().unwrap_or_default(), now.as_nanosecond());
    let note: String = problem.text.chars().take(MAX_NOTE).collect();
    let at = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let seconds = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace,
            "name": meta["name"], "uid": meta["uid"], "resourceVersion": meta["resourceVersion"],
        },
        "type": "Warning",
        "reason": "InvalidConfigKey",
        "message": note,
        "firstTimestamp": seconds,
        "lastTimestamp": seconds,
        "eventTime": at,
        "count": 1,
        "action": "Read",
        "reportingComponent": "windlass.dev/operator",
        "reportingInstance": "windlass",
        "source": {"component": "windlass"},
    });
    let event = ObjectRef::new(Gvk::new("v1", "Event"), Some(namespace), &name);
    if let Err(error) = cluster.create(&event, &body, "windlass-status").await {
        tracing::warn!(%error, "cannot write an Event");
    }
}
