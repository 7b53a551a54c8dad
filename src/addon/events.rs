//! Warnings that users see with `kubectl describe`: on the operator's ConfigMap, and on objects of releases.

use serde_json::{Value, json};

use super::config::Problem;
use crate::cluster::{Cluster, Gvk, ObjectRef};
use crate::redact;

/// Longest note of an Event that an API server takes.
const MAX_NOTE: usize = 1024;
/// Longest name that an Event takes from its object: a suffix follows.
const MAX_NAME: usize = 220;

/// Puts a Warning Event on the ConfigMap for a key that is wrong. A failure is logged: nothing depends on it.
pub(super) async fn warn(cluster: &Cluster, config_map: &Value, problem: &Problem) {
    let meta = &config_map["metadata"];
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "namespace": meta["namespace"],
        "name": meta["name"], "uid": meta["uid"], "resourceVersion": meta["resourceVersion"],
    });
    post(cluster, &object, "InvalidConfigKey", "Read", &problem.text).await;
}

/// Puts a Warning Event on an object of a release.
pub(super) async fn about(cluster: &Cluster, object: &ObjectRef, reason: &str, note: &str) {
    let mut involved = json!({
        "apiVersion": object.gvk.api_version(), "kind": object.gvk.kind, "name": object.name,
    });
    if let Some(namespace) = &object.namespace {
        involved["namespace"] = namespace.as_str().into();
    }
    post(cluster, &involved, reason, "Watch", note).await;
}

/// Tells that hooks which were to run at a module's deletion did not.
pub(super) fn delete_hooks_lost(cluster: &Cluster, config_map: &ObjectRef, module: &str, note: String) {
    tracing::warn!(module, "{note}");
    let (cluster, object) = (cluster.clone(), config_map.clone());
    tokio::spawn(async move { about(&cluster, &object, "DeleteHooksLost", &note).await });
}

/// Puts a Warning Event on the status object of a module; `metadata` is the object's, as it was answered.
pub(super) async fn of_module(
    cluster: &Cluster,
    object: &ObjectRef,
    metadata: &Value,
    reason: &str,
    note: &str,
) {
    let involved = json!({
        "apiVersion": object.gvk.api_version(), "kind": object.gvk.kind, "namespace": object.namespace,
        "name": object.name, "uid": metadata["metadata"]["uid"],
    });
    post(cluster, &involved, reason, "Reconcile", note).await;
}

async fn post(cluster: &Cluster, involved: &Value, reason: &str, action: &str, note: &str) {
    // Events of objects without a namespace are kept in this one.
    let namespace = involved["namespace"].as_str().unwrap_or("default");
    let now = jiff::Timestamp::now();
    let about: String = involved["name"].as_str().unwrap_or_default().chars().take(MAX_NAME).collect();
    let name = format!("{about}.{:x}", now.as_nanosecond());
    let note: String = redact::process().mask(note).chars().take(MAX_NOTE).collect();
    let at = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let seconds = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": involved,
        "type": "Warning",
        "reason": reason,
        "message": note,
        "firstTimestamp": seconds,
        "lastTimestamp": seconds,
        "eventTime": at,
        "count": 1,
        "action": action,
        "reportingComponent": "windlass.dev/operator",
        "reportingInstance": "windlass",
        "source": {"component": "windlass"},
    });
    let event = ObjectRef::new(Gvk::new("v1", "Event"), Some(namespace), &name);
    if let Err(error) = cluster.create(&event, &body, "windlass-status").await {
        tracing::warn!(%error, "cannot write an Event");
    }
}
