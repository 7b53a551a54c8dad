//! Whether an object does what it is there for, by its status. Pure.
//!
//! The rules, and the words for what is missing, are kstatus's; where Helm differs (a paused Deployment counts as ready) its own
//! hold.

use super::ready_when;
use serde_json::Value;

/// How far an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    Waiting(String),
    /// It will not get ready by itself.
    Failed(String),
}

use Readiness::{Failed, Ready, Waiting};

fn waiting(reason: impl Into<String>) -> Readiness {
    Waiting(reason.into())
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|c| c["status"] == "True")
}

fn message(condition: &Value) -> String {
    let part = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    match (part("reason"), part("message")) {
        (reason, message) if message.is_empty() => reason,
        (reason, message) if reason.is_empty() => message,
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// Judges a live object.
pub(crate) fn judge(object: &Value) -> Readiness {
    let metadata = &object["metadata"];
    if !metadata["deletionTimestamp"].is_null() {
        return waiting("it is being deleted");
    }
    let group = object["apiVersion"].as_str().and_then(|v| v.split_once('/')).map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap_or_default();
    let observed = object["status"]["observedGeneration"].as_i64();
    if observed.is_some_and(|o| o < metadata["generation"].as_i64().unwrap_or_default()) {
        let generation = metadata["generation"].as_i64().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        return waiting(format!(
            "{kind} generation is {generation}, but latest observed generation is {}",
            observed.unwrap_or_default()
        ));
    }
    if let Some(own) = ready_when::judge(object) {
        return own;
    }
    match (group, kind) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replicas(object),
        ("", "Pod") => pod(object),
        ("batch", "Job") => job(object),
        ("", "PersistentVolumeClaim") => match object["status"]["phase"].as_str() {
            Some("Bound") => Ready,
            phase => waiting(format!("PVC is not Bound. phase: {}", phase.unwrap_or("unknown"))),
        },
        ("", "Service") => service(object),
        ("", "Namespace") => Ready,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd(object),
        ("apiregistration.k8s.io", "APIService") if !is_true(object, "Available") => {
            waiting(condition(object, "Available").map_or_else(|| "not available".to_owned(), message))
        }
        _ => by_conditions(object),
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn wanted(object: &Value) -> i64 {
    object["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// No status yet: the controller has not looked at it.
fn unobserved(object: &Value) -> bool {
    object["status"]["observedGeneration"].is_null()
}

fn deployment(object: &Value) -> Readiness {
    if object["spec"]["paused"] == true {
        return Ready;
    }
    if unobserved(object) {
        return waiting("Deployment status.observedGeneration not found");
    }
    if let Some(progressing) = condition(object, "Progressing")
        && progressing["reason"] == "ProgressDeadlineExceeded"
    {
        return Failed("Progress deadline exceeded".to_owned());
    }
    let (status, wanted) = (&object["status"], wanted(object));
    let updated = number(&status["updatedReplicas"]);
    if updated < wanted {
        let all = number(&status["replicas"]);
        let text = if all < wanted {
            format!("Replicas: {all}/{wanted}")
        } else {
            format!("Updated: {updated}/{wanted}")
        };
        return waiting(text);
    }
    let old = number(&status["replicas"]) - updated;
    if old > 0 {
        return waiting(format!("Pending termination: {old}"));
    }
    let available = number(&status["availableReplicas"]);
    if available < updated { waiting(format!("Available: {available}/{updated}")) } else { Ready }
}

fn stateful_set(object: &Value) -> Readiness {
    if object["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return Ready;
    }
    if unobserved(object) {
        return waiting("StatefulSet status.observedGeneration not found");
    }
    let (status, wanted) = (&object["status"], wanted(object));
    let ready = number(&status["readyReplicas"]);
    if ready < wanted {
        let all = number(&status["replicas"]);
        let text = if all < wanted {
            format!("Replicas: {all}/{wanted}")
        } else {
            format!("Ready: {ready}/{wanted}")
        };
        return waiting(text);
    }
    let partition = number(&object["spec"]["updateStrategy"]["rollingUpdate"]["partition"]);
    let updated = number(&status["updatedReplicas"]);
    if updated < wanted - partition {
        return waiting(format!("updated: {updated}/{}", wanted - partition));
    }
    if partition == 0 && status["currentRevision"] != status["updateRevision"] {
        return waiting("Waiting for updated revision to match current");
    }
    Ready
}

fn daemon_set(object: &Value) -> Readiness {
    if object["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return Ready;
    }
    if unobserved(object) {
        return waiting("DaemonSet status.observedGeneration not found");
    }
    let status = &object["status"];
    let wanted = number(&status["desiredNumberScheduled"]);
    let (updated, available) =
        (number(&status["updatedNumberScheduled"]), number(&status["numberAvailable"]));
    if updated < wanted {
        waiting(format!("Updated: {updated}/{wanted}"))
    } else if available < wanted {
        waiting(format!("Available: {available}/{wanted}"))
    } else {
        Ready
    }
}

fn replicas(object: &Value) -> Readiness {
    let (ready, wanted) = (number(&object["status"]["readyReplicas"]), wanted(object));
    if unobserved(object) || ready < wanted { waiting(format!("Ready: {ready}/{wanted}")) } else { Ready }
}

fn pod(object: &Value) -> Readiness {
    match object["status"]["phase"].as_str() {
        Some("Succeeded") => Ready,
        Some("Failed") => Failed(message(&object["status"])),
        _ if is_true(object, "Ready") => Ready,
        Some("Running") => match crash_looping(object) {
            looping if looping.is_empty() => waiting("Pod is running but is not Ready"),
            looping => Failed(format!("Containers in CrashLoop state: {}", looping.join(","))),
        },
        Some("Pending") if condition(object, "PodScheduled").is_some_and(|c| c["status"] == "False") => {
            waiting("Pod could not be scheduled")
        }
        Some(phase) => waiting(format!("Pod is in the {phase} phase")),
        None => waiting("Pod phase not available"),
    }
}

fn crash_looping(pod: &Value) -> Vec<&str> {
    let containers = pod["status"]["containerStatuses"].as_array().map_or(&[][..], Vec::as_slice);
    let looping = |c: &&Value| c["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    containers.iter().filter(looping).filter_map(|c| c["name"].as_str()).collect()
}

fn job(object: &Value) -> Readiness {
    if is_true(object, "Failed") {
        let spec = &object["spec"];
        let wanted = spec["completions"].as_i64().or(spec["parallelism"].as_i64()).unwrap_or(1);
        return Failed(format!("Job Failed. failed: {}/{wanted}", number(&object["status"]["failed"])));
    }
    if is_true(object, "Complete") {
        return Ready;
    }
    waiting(if object["status"]["startTime"].is_null() { "Job not started" } else { "Job in progress" })
}

fn service(object: &Value) -> Readiness {
    let spec = &object["spec"];
    if spec["type"] != "LoadBalancer" || spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty()) {
        return Ready;
    }
    let given = object["status"]["loadBalancer"]["ingress"].as_array().is_some_and(|i| !i.is_empty());
    if given { Ready } else { waiting("ClusterIP not set. Service type: LoadBalancer") }
}

fn crd(object: &Value) -> Readiness {
    if let Some(refused) = condition(object, "NamesAccepted").filter(|c| c["status"] == "False") {
        return Failed(message(refused));
    }
    if is_true(object, "Established") { Ready } else { waiting("Install in progress") }
}

/// Custom resources, as kstatus reads them.
fn by_conditions(object: &Value) -> Readiness {
    if let Some(stalled) = condition(object, "Stalled").filter(|c| c["status"] == "True") {
        return Failed(message(stalled));
    }
    if let Some(busy) = condition(object, "Reconciling").filter(|c| c["status"] == "True") {
        return waiting(message(busy));
    }
    match condition(object, "Ready") {
        Some(ready) if ready["status"] != "True" => waiting(message(ready)),
        Some(_) | None => Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(api_version: &str, kind: &str, generation: i64, spec: &Value, status: &Value) -> &'static str {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"generation": generation}, "spec": spec, "status": status});
        match judge(&object) {
            Ready => "ready",
            Waiting(reason) => {
                assert!(!reason.is_empty(), "{object}");
                "waiting"
            }
            Failed(reason) => {
                assert!(!reason.is_empty(), "{object}");
                "failed"
            }
        }
    }

    #[test]
    fn by_kind() {
        let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status, "reason": "Because"}]});
        let rolled =
            json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
        let deadline = json!({"observedGeneration": 2, "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
        let crashing = |phase: &str| {
            json!({"phase": phase, "containerStatuses": [{"name": "main",
                "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]})
        };
        let two = json!({"replicas": 2});
        let cases = [
            ("apps/v1", "Deployment", two.clone(), rolled, "ready"),
            ("apps/v1", "Deployment", two.clone(), json!({}), "waiting"),
            (
                "apps/v1",
                "Deployment",
                two.clone(),
                json!({"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2}),
                "waiting",
            ),
            (
                "apps/v1",
                "Deployment",
                two.clone(),
                json!({"observedGeneration": 2, "updatedReplicas": 1}),
                "waiting",
            ),
            (
                "apps/v1",
                "Deployment",
                two.clone(),
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 3}),
                "waiting",
            ),
            ("apps/v1", "Deployment", two.clone(), deadline, "failed"),
            ("apps/v1", "Deployment", json!({"paused": true}), json!({}), "ready"),
            ("apps/v1", "Deployment", json!({"replicas": 0}), json!({"observedGeneration": 2}), "ready"),
            (
                "apps/v1",
                "StatefulSet",
                two.clone(),
                json!({"observedGeneration": 2, "readyReplicas": 2, "updatedReplicas": 2, "currentRevision": "a", "updateRevision": "a"}),
                "ready",
            ),
            (
                "apps/v1",
                "StatefulSet",
                two.clone(),
                json!({"observedGeneration": 2, "readyReplicas": 2, "updatedReplicas": 2, "currentRevision": "a", "updateRevision": "b"}),
                "waiting",
            ),
            (
                "apps/v1",
                "StatefulSet",
                json!({"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}}),
                json!({"observedGeneration": 2, "readyReplicas": 2, "updatedReplicas": 1}),
                "ready",
            ),
            (
                "apps/v1",
                "DaemonSet",
                json!({}),
                json!({"observedGeneration": 2, "desiredNumberScheduled": 1, "updatedNumberScheduled": 1}),
                "waiting",
            ),
            ("apps/v1", "DaemonSet", json!({}), json!({"observedGeneration": 2}), "ready"),
            ("apps/v1", "ReplicaSet", two, json!({"observedGeneration": 2, "readyReplicas": 2}), "ready"),
            ("v1", "Pod", json!({}), condition("Ready", "True"), "ready"),
            ("v1", "Pod", json!({}), json!({"phase": "Pending"}), "waiting"),
            ("v1", "Pod", json!({}), json!({"phase": "Failed", "reason": "Evicted"}), "failed"),
            ("v1", "Pod", json!({}), crashing("Running"), "failed"),
            ("v1", "Pod", json!({}), crashing("Pending"), "waiting"),
            ("batch/v1", "Job", json!({}), condition("Complete", "True"), "ready"),
            ("batch/v1", "Job", json!({}), json!({}), "waiting"),
            ("batch/v1", "Job", json!({}), condition("Failed", "True"), "failed"),
            ("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Bound"}), "ready"),
            ("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Pending"}), "waiting"),
            ("v1", "Service", json!({"type": "ClusterIP"}), json!({}), "ready"),
            ("v1", "Service", json!({"type": "LoadBalancer"}), json!({"loadBalancer": {}}), "waiting"),
            (
                "v1",
                "Service",
                json!({"type": "LoadBalancer"}),
                json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}),
                "ready",
            ),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                json!({}),
                condition("Established", "True"),
                "ready",
            ),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", json!({}), json!({}), "waiting"),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                json!({}),
                condition("NamesAccepted", "False"),
                "failed",
            ),
            (
                "apiregistration.k8s.io/v1",
                "APIService",
                json!({}),
                condition("Available", "False"),
                "waiting",
            ),
            ("v1", "ConfigMap", json!({}), Value::Null, "ready"),
            ("e.x/v1", "Thing", json!({}), condition("Ready", "False"), "waiting"),
            ("e.x/v1", "Thing", json!({}), condition("Stalled", "True"), "failed"),
            ("e.x/v1", "Thing", json!({}), json!({"observedGeneration": 1}), "waiting"),
            ("e.x/v1", "Thing", json!({}), condition("Ready", "True"), "ready"),
        ];
        for (api_version, kind, spec, status, expected) in cases {
            assert_eq!(check(api_version, kind, 2, &spec, &status), expected, "{kind} {spec} {status}");
        }
    }
}
