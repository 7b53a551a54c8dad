//! What all of these tests need: an engine, requests made of objects, and a look at the cluster.

use serde_json::{Value, json};
use std::sync::Arc;
use windlass_cluster::{Cluster, ConnectOptions};
use windlass_engine::{
    ChartHook, ChartRecord, Engine, EngineOptions, HookDeletePolicy, HookEvent, Manifest, OwnershipOptions,
    ReleaseId, ReleaseOptions, ReleaseRequest, RenderedRelease, RevisionOptions, UninstallRequest,
};
pub(crate) use windlass_testing::control_plane;
use windlass_testing::{AuditEvent, AuditMark};

pub(crate) async fn cluster() -> Cluster {
    let kubeconfig = Some(control_plane().kubeconfig().to_owned());
    Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.expect("a cluster")
}

/// JSON with comment lines.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let text = lines.join("\n");
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

pub(crate) async fn engine() -> Engine {
    Engine::new(cluster().await, parse, EngineOptions::once("test"))
}

pub(crate) async fn watching() -> Engine {
    Engine::new(cluster().await, parse, EngineOptions::watching("test"))
}

/// The cluster as a user with `role` in a namespace and nothing else; `role`: arguments of `kubectl create role`.
pub(crate) async fn cluster_as(ns: &str, user: &str, role: &[&str]) -> Cluster {
    let plane = control_plane();
    let create = ["create", "role", user, "-n", ns];
    plane.kubectl(create.iter().chain(role)).expect("a role");
    let (role, user_flag) = (format!("--role={user}"), format!("--user={user}"));
    plane.kubectl(["create", "rolebinding", user, "-n", ns, &role, &user_flag]).expect("a binding");
    let options = ConnectOptions {
        kubeconfig: Some(plane.kubeconfig().to_owned()),
        as_user: Some(user.to_owned()),
        ..ConnectOptions::default()
    };
    Cluster::connect(&options).await.expect("a cluster")
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

pub(crate) fn deployment(name: &str, image: &str) -> Value {
    let labels = json!({"app": name});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": image}]}}}})
}

pub(crate) fn job(name: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"backoffLimit": 0,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job"}]}}}})
}

pub(crate) fn hook(
    object: &Value,
    events: &[HookEvent],
    weight: i64,
    policies: &[HookDeletePolicy],
) -> ChartHook {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    ChartHook {
        name: text("/metadata/name"),
        kind: text("/kind"),
        path: format!("test/templates/{}.yaml", text("/metadata/name")),
        text: object.to_string(),
        object: object.clone(),
        events: events.to_vec(),
        weight,
        delete_policies: policies.to_vec(),
        output_log_policies: Vec::new(),
    }
}

pub(crate) fn rendered(objects: &[Value], hooks: Vec<ChartHook>) -> RenderedRelease {
    let manifests: Vec<Manifest> = objects
        .iter()
        .map(|object| Manifest {
            source: format!(
                "test/templates/{}.yaml",
                object["metadata"]["name"].as_str().unwrap_or_default()
            ),
            text: object.to_string(),
            object: object.clone(),
        })
        .collect();
    let text = |m: &Manifest| format!("---\n# Source: {}\n{}\n", m.source, m.text);
    RenderedRelease {
        manifest_text: manifests.iter().map(text).collect(),
        checksum: format!("{objects:?}{:?}", hooks.iter().map(|h| &h.text).collect::<Vec<_>>()),
        manifests,
        hooks,
        ..RenderedRelease::default()
    }
}

pub(crate) fn chart() -> Arc<ChartRecord> {
    Arc::new(ChartRecord(json!({
        "metadata": {"name": "test", "version": "1.0.0", "apiVersion": "v2", "appVersion": "7"},
        "lock": null, "templates": [], "values": {}, "schema": null, "files": [],
    })))
}

/// A request of an operator: repeated until it holds.
pub(crate) fn request(
    namespace: &str,
    name: &str,
    objects: &[Value],
    hooks: Vec<ChartHook>,
) -> ReleaseRequest {
    ReleaseRequest {
        id: ReleaseId::new(namespace, name),
        rendered: Arc::new(rendered(objects, hooks)),
        chart: chart(),
        config: json!({"some": "value"}),
        options: ReleaseOptions {
            revisions: RevisionOptions { skip_unchanged: true, ..RevisionOptions::default() },
            ownership: OwnershipOptions { force_conflicts: true, ..OwnershipOptions::default() },
            ..ReleaseOptions::default()
        },
        ..ReleaseRequest::default()
    }
}

pub(crate) fn uninstall(namespace: &str, name: &str) -> UninstallRequest {
    UninstallRequest::new(ReleaseId::new(namespace, name))
}

/// An object's JSON, or `None`.
pub(crate) fn get(namespace: &str, resource: &str, name: &str) -> Option<Value> {
    control_plane().find(&[resource, name, "-n", namespace, "--show-managed-fields"]).expect("kubectl get")
}

/// `.data.value` of a ConfigMap.
pub(crate) fn value(namespace: &str, name: &str) -> Option<String> {
    get(namespace, "configmap", name).and_then(|o| o["data"]["value"].as_str().map(str::to_owned))
}

/// `revision:status` of all records of a release, oldest first, by the labels of their Secrets.
pub(crate) fn history(namespace: &str, name: &str) -> Vec<String> {
    let rows = control_plane().revisions(namespace, &format!("owner=helm,name={name}")).expect("secrets");
    rows.into_iter().map(|(revision, status)| format!("{revision}:{status}")).collect()
}

/// Our own requests of a namespace since a mark, as `verb resource/name`, without those of watches that run on.
pub(crate) fn requests_since(mark: AuditMark, namespace: &str) -> Vec<String> {
    let ours = |event: &AuditEvent| {
        event.user_agent.starts_with("windlass/") && event.namespace == namespace && event.verb != "watch"
    };
    let events = control_plane().audit_since(mark).expect("the audit log");
    events.into_iter().filter(ours).map(|e| shown(&e)).collect()
}

fn shown(event: &AuditEvent) -> String {
    let trial = if event.dry_run { "try " } else { "" };
    format!("{trial}{} {}/{}", event.verb, event.resource, event.name)
}

pub(crate) fn writes(requests: &[String]) -> Vec<&String> {
    let writes = |request: &&String| !["get", "list", "try"].iter().any(|verb| request.starts_with(verb));
    requests.iter().filter(writes).collect()
}
