//! Why an object is not ready, for people: states of containers, warnings, the last lines of logs.
//!
//! A few requests at most, and no errors: what cannot be read is left out.

use serde_json::Value;
use windlass_cluster::{Cluster, Gvk, ObjectMeta, ObjectRef};

/// Most Pods, and most warnings of each object, in a report.
const MOST: usize = 3;
/// Most lines of a log.
const LINES: usize = 5;

/// The report, a line each.
pub(crate) async fn reasons(cluster: &Cluster, object: &ObjectRef) -> Vec<String> {
    let mut lines = warnings(cluster, object).await;
    let Ok(Some(live)) = cluster.get(object).await else { return lines };
    for pod in pods(cluster, object, live).await.iter().filter(|pod| !is_fine(pod)).take(MOST) {
        let name = ObjectMeta::of(pod).name();
        let reference = ObjectRef::new(Gvk::new("v1", "Pod"), object.namespace.as_deref(), name);
        let states = pod_states(pod);
        lines.extend(states.iter().map(|state| format!("Pod {name}: {state}")));
        if *object != reference {
            let warnings = warnings(cluster, &reference).await;
            let new = warnings.iter().filter(|warning| !states.iter().any(|state| says_same(state, warning)));
            lines.extend(new.map(|warning| format!("Pod {name}: {warning}")));
        }
        let Some((container, previous)) = failing(pod) else { continue };
        let namespace = object.namespace.as_deref().unwrap_or_default();
        if let Ok(text) = cluster.pod_log_tail(namespace, name, container, LINES, previous).await {
            lines.extend(text.lines().map(|line| format!("Pod {name}: {container} | {line}")));
        }
    }
    lines
}

async fn warnings(cluster: &Cluster, object: &ObjectRef) -> Vec<String> {
    cluster.warnings_about(object, MOST).await.unwrap_or_default()
}

/// The Pods of an object, or the Pod itself.
async fn pods(cluster: &Cluster, object: &ObjectRef, live: Value) -> Vec<Value> {
    if object.gvk.kind == "Pod" {
        return vec![live];
    }
    let Some(labels) = live["spec"]["selector"]["matchLabels"].as_object() else { return Vec::new() };
    let labels: Vec<String> =
        labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    let gvk = Gvk::new("v1", "Pod");
    match cluster.list_object(&gvk, object.namespace.as_deref(), &labels.join(",")).await {
        Ok(mut list) => match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        },
        Err(_) => Vec::new(),
    }
}

/// Whether two reports have the same message under different reasons, as a Pod's condition and the Event that goes with it.
fn says_same(one: &str, other: &str) -> bool {
    let message = |text: &str| text.split_once(": ").map(|(_, message)| message.to_owned());
    message(one).is_some_and(|one| Some(one) == message(other))
}

fn is_fine(pod: &Value) -> bool {
    let ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
    pod["status"]["phase"] == "Succeeded"
        || pod["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(ready))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let of = |name: &str| pod["status"][name].as_array().map_or(&[][..], Vec::as_slice);
    of("initContainerStatuses").iter().chain(of("containerStatuses"))
}

/// What a Pod and its containers wait for, or why they ended.
fn pod_states(pod: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    let unscheduled = |c: &&Value| c["type"] == "PodScheduled" && c["status"] == "False";
    if let Some(condition) = pod["status"]["conditions"].as_array().into_iter().flatten().find(unscheduled) {
        found.push(format!("{}: {}", text(&condition["reason"]), text(&condition["message"])));
    }
    for container in containers(pod) {
        let name = text(&container["name"]);
        let (state, last) = (&container["state"], &container["lastState"]["terminated"]);
        let ended = |t: &Value| format!("{} (exit status {})", text(&t["reason"]), t["exitCode"]);
        if state["waiting"].is_object() {
            let waiting = &state["waiting"];
            let message = text(&waiting["message"]);
            let before = if last.is_object() { format!("; before: {}", ended(last)) } else { String::new() };
            let message = if message.is_empty() { message } else { format!(": {message}") };
            found.push(format!("{name} waits: {}{message}{before}", text(&waiting["reason"])));
        } else if state["terminated"].is_object() && state["terminated"]["exitCode"] != 0 {
            found.push(format!("{name} ended: {}", ended(&state["terminated"])));
        } else if state["running"].is_object() && container["ready"] == false {
            found.push(format!("{name} runs and is not ready"));
        }
    }
    if found.is_empty() {
        found.push(format!("phase {}", text(&pod["status"]["phase"])));
    }
    found
}

/// A container that failed, and whether its previous log is the one to show.
fn failing(pod: &Value) -> Option<(&str, bool)> {
    let bad = |terminated: &Value| terminated.is_object() && terminated["exitCode"] != 0;
    containers(pod).find_map(|container| {
        let name = container["name"].as_str()?;
        let (now, last) = (&container["state"]["terminated"], &container["lastState"]["terminated"]);
        if bad(now) {
            Some((name, false))
        } else if bad(last) && !container["state"]["running"].is_object() {
            Some((name, true))
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn states_in_words() {
        let pod = |containers: Value, conditions: Value| json!({"status": {"phase": "Pending", "containerStatuses": containers, "conditions": conditions}});
        let crashed = json!([{"name": "main", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"reason": "Error", "exitCode": 3}}}]);
        let pulled = json!([{"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]);
        let ended =
            json!([{"name": "main", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]);
        let unready = json!([{"name": "main", "ready": false, "state": {"running": {}}}]);
        let nowhere = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]);
        let cases = [
            (
                pod(crashed, json!([])),
                "main waits: CrashLoopBackOff; before: Error (exit status 3)",
                Some(("main", true)),
            ),
            (pod(pulled, json!([])), "main waits: ImagePullBackOff: no such image", None),
            (pod(ended, json!([])), "main ended: OOMKilled (exit status 137)", Some(("main", false))),
            (pod(unready, json!([])), "main runs and is not ready", None),
            (pod(json!([]), nowhere), "Unschedulable: 0/1 nodes", None),
            (pod(json!([]), json!([])), "phase Pending", None),
        ];
        for (pod, state, log) in cases {
            assert_eq!(pod_states(&pod), [state]);
            assert_eq!(failing(&pod), log, "{state}");
            assert!(!is_fine(&pod));
        }
        assert!(is_fine(&json!({"status": {"phase": "Succeeded"}})));
    }
}
