//! Whether an object is ready, by its status. Pure, but for the current time.
//!
//! The rules and texts are kstatus's, which Helm 4 uses; Helm's own rules apply where they differ (a paused
//! Deployment is ready, Jobs and Pods of hooks run to completion). An APIService must be available, too: until then
//! no object of its kinds can be created.

use crate::execute::readiness::ready_when;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windlass_cluster::ObjectMeta;

/// The readiness of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    Waiting(String),
    /// It will not become ready without a change.
    Failed(String),
}

use Readiness::{Failed, Ready, Waiting};

/// Time that a Pod may be unscheduled: making room takes a while.
const SCHEDULED_WITHIN: SignedDuration = SignedDuration::from_secs(15);
/// The message of an unscheduled Pod within this time: its next event may never come.
pub(crate) const UNSCHEDULED: &str = "Pod has not been scheduled";

fn waiting(reason: impl Into<String>) -> Readiness {
    Waiting(reason.into())
}

/// Progress as kstatus words it: a count of a wanted count.
fn part(what: &str, is: i64, wanted: i64) -> Readiness {
    waiting(format!("{what}: {is}/{wanted}"))
}

fn conditions(object: &Value) -> &[Value] {
    object["status"]["conditions"].as_array().map_or(&[], Vec::as_slice)
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions(object).iter().find(|c| c["type"] == kind)
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|c| c["status"] == "True")
}

/// A condition's message, else its reason.
fn message(condition: &Value) -> String {
    let texts = ["message", "reason", "type"].map(|name| condition[name].as_str().unwrap_or_default());
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
}

/// Judges a live object.
pub(crate) fn judge(object: &Value) -> Readiness {
    judge_at(object, Timestamp::now())
}

/// Whether an object is ready once it is written as in its manifest: a Service that no load balancer has to reach. The answer to an apply
/// has metadata only.
pub(crate) fn is_ready_once_written(manifest: &Value) -> bool {
    manifest["apiVersion"] == "v1" && manifest["kind"] == "Service" && judge(manifest) == Ready
}

/// Judges an object that runs to completion: a Job, or the Pod of a hook.
pub(crate) fn judge_run(object: &Value) -> Readiness {
    let at_work = |what: &str| generic(object).unwrap_or_else(|| waiting(format!("{what} in progress")));
    let name = ObjectMeta::of(object).name();
    match (object["kind"].as_str(), object["status"]["phase"].as_str()) {
        (Some("Pod"), Some("Succeeded")) => Ready,
        (Some("Pod"), Some("Failed")) => Failed(format!("pod {name} failed")),
        (Some("Pod"), _) => at_work("Pod"),
        (Some("Job"), _) => job_ended(object).unwrap_or_else(|| at_work("Job")),
        _ => judge(object),
    }
}

/// The rules for all kinds.
fn generic(object: &Value) -> Option<Readiness> {
    let metadata = &object["metadata"];
    if !metadata["deletionTimestamp"].is_null() {
        return Some(waiting("Resource scheduled for deletion"));
    }
    if let (Some(is), Some(seen)) =
        (metadata["generation"].as_i64(), object["status"]["observedGeneration"].as_i64())
        && is != seen
    {
        let kind = object["kind"].as_str().unwrap_or_default();
        return Some(waiting(format!("{kind} generation is {is}, but latest observed generation is {seen}")));
    }
    if let Some(own) = ready_when::judge(object) {
        return Some(own);
    }
    conditions(object).iter().filter(|c| c["status"] == "True").find_map(|c| match c["type"].as_str() {
        Some("Reconciling") => Some(Waiting(message(c))),
        Some("Stalled") => Some(Failed(message(c))),
        _ => None,
    })
}

fn judge_at(object: &Value, now: Timestamp) -> Readiness {
    if let Some(known) = generic(object) {
        return known;
    }
    let group = object["apiVersion"].as_str().and_then(|v| v.split_once('/')).map_or("", |(group, _)| group);
    match (group, object["kind"].as_str().unwrap_or_default()) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") => replica_set(object),
        ("", "Pod") => pod(object, now),
        ("batch", "Job") => job(object),
        ("", "PersistentVolumeClaim") => match object["status"]["phase"].as_str() {
            Some("Bound") => Ready,
            phase => waiting(format!("PVC is not Bound. phase: {}", phase.unwrap_or("unknown"))),
        },
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd(object),
        ("apiregistration.k8s.io", "APIService") if !is_true(object, "Available") => {
            waiting(condition(object, "Available").map_or_else(|| "not available".to_owned(), message))
        }
        ("", "ConfigMap" | "Secret") | ("batch", "CronJob") | ("policy", "PodDisruptionBudget") => Ready,
        _ => by_ready_condition(object),
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn wanted(object: &Value) -> i64 {
    object["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// The numbers of a status by name; missing ones are zero.
fn numbers<const N: usize>(object: &Value, names: [&str; N]) -> [i64; N] {
    names.map(|name| number(&object["status"][name]))
}

fn deployment(object: &Value) -> Readiness {
    if object["spec"]["paused"] == true {
        return Ready;
    }
    if condition(object, "Progressing").is_some_and(|c| c["reason"] == "ProgressDeadlineExceeded") {
        return Failed("Progress deadline exceeded".to_owned());
    }
    let [all, updated, ready, available] =
        numbers(object, ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]);
    let wanted = wanted(object);
    // Without a deadline the controller does not report progress.
    let deadline = object["spec"]["progressDeadlineSeconds"].as_i64().filter(|s| *s != i64::from(i32::MAX));
    let rolled_out = deadline.is_none()
        || condition(object, "Progressing")
            .is_some_and(|c| c["status"] == "True" && c["reason"] == "NewReplicaSetAvailable");
    if all < wanted {
        part("Replicas", all, wanted)
    } else if updated < wanted {
        part("Updated", updated, wanted)
    } else if all > wanted {
        waiting(format!("Pending termination: {}", all - wanted))
    } else if available < updated {
        part("Available", available, updated)
    } else if ready < wanted {
        part("Ready", ready, wanted)
    } else if !rolled_out {
        waiting("ReplicaSet not Available")
    } else if !is_true(object, "Available") {
        waiting("Deployment not Available")
    } else {
        Ready
    }
}

fn stateful_set(object: &Value) -> Readiness {
    let (strategy, status) = (&object["spec"]["updateStrategy"], &object["status"]);
    if strategy["type"] == "OnDelete" {
        return Ready;
    }
    let [all, ready, current, updated] =
        numbers(object, ["replicas", "readyReplicas", "currentReplicas", "updatedReplicas"]);
    let wanted = wanted(object);
    let partition = strategy["rollingUpdate"]["partition"].as_i64();
    if all < wanted {
        part("Replicas", all, wanted)
    } else if ready < wanted {
        part("Ready", ready, wanted)
    } else if all > wanted {
        waiting(format!("Pending termination: {}", all - wanted))
    } else if let Some(partition) = partition {
        if updated < wanted - partition { part("updated", updated, wanted - partition) } else { Ready }
    } else if current < wanted {
        part("current", current, wanted)
    } else if status["currentRevision"] != status["updateRevision"] {
        waiting("Waiting for updated revision to match current")
    } else {
        Ready
    }
}

fn daemon_set(object: &Value) -> Readiness {
    let missing = |what: &str| waiting(format!("DaemonSet {what} not found"));
    if object["metadata"]["generation"].is_null() {
        return missing("metadata.generation");
    }
    if object["status"]["observedGeneration"].is_null() {
        return missing("status.observedGeneration");
    }
    let Some(wanted) = object["status"]["desiredNumberScheduled"].as_i64() else {
        return waiting("Missing .status.desiredNumberScheduled");
    };
    let names = ["currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady"];
    let parts = ["Current", "Updated", "Available", "Ready"].into_iter().zip(numbers(object, names));
    let short = parts.into_iter().find(|(_, is)| *is < wanted);
    short.map_or(Ready, |(what, is)| part(what, is, wanted))
}

fn replica_set(object: &Value) -> Readiness {
    if is_true(object, "ReplicaFailure") {
        return waiting("Replica Failure condition. Check Pods");
    }
    let names = ["fullyLabeledReplicas", "availableReplicas", "readyReplicas"];
    let wanted = wanted(object);
    let parts = ["Labelled", "Available", "Ready"].into_iter().zip(numbers(object, names));
    if let Some((what, is)) = parts.into_iter().find(|(_, is)| *is < wanted) {
        return part(what, is, wanted);
    }
    let more = number(&object["status"]["replicas"]) - wanted;
    if more > 0 { waiting(format!("Pending termination: {more}")) } else { Ready }
}

fn pod(object: &Value, now: Timestamp) -> Readiness {
    match object["status"]["phase"].as_str().unwrap_or_default() {
        // It completed without success: whether that is a failure is not the Pod's to decide.
        "Succeeded" | "Failed" => Ready,
        "Running" if is_true(object, "Ready") => Ready,
        "Running" => match crash_looping(object) {
            looping if looping.is_empty() => waiting("Pod is running but is not Ready"),
            looping => Failed(format!("Containers in CrashLoop state: {}", looping.join(","))),
        },
        "Pending" => {
            let nowhere = condition(object, "PodScheduled")
                .is_some_and(|c| c["status"] == "False" && c["reason"] == "Unschedulable");
            let made = ObjectMeta::of(object).created_at().parse().ok();
            let young = made.is_some_and(|made: Timestamp| now.duration_since(made) < SCHEDULED_WITHIN);
            match (nowhere, young) {
                (false, _) => waiting("Pod is in the Pending phase"),
                (true, true) => waiting(UNSCHEDULED),
                (true, false) => Failed("Pod could not be scheduled".to_owned()),
            }
        }
        "" => waiting("Pod phase not available"),
        other => waiting(format!("unknown phase {other}")),
    }
}

fn crash_looping(pod: &Value) -> Vec<&str> {
    let containers = pod["status"]["containerStatuses"].as_array().map_or(&[][..], Vec::as_slice);
    let looping = |c: &&Value| c["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    containers.iter().filter(looping).filter_map(|c| c["name"].as_str()).collect()
}

/// A completed Job, successful or not.
fn job_ended(object: &Value) -> Option<Readiness> {
    let ends = conditions(object).iter().filter(|c| c["status"] == "True");
    ends.into_iter().find_map(|c| match c["type"].as_str() {
        Some("Complete") => Some(Ready),
        Some("Failed") => {
            let spec = &object["spec"];
            let wanted = spec["completions"].as_i64().or(spec["parallelism"].as_i64()).unwrap_or(1);
            let failed = number(&object["status"]["failed"]);
            Some(Failed(format!("Job Failed. failed: {failed}/{wanted}")))
        }
        _ => None,
    })
}

/// A Job is ready when it has started.
fn job(object: &Value) -> Readiness {
    let started = !object["status"]["startTime"].is_null();
    job_ended(object).unwrap_or_else(|| if started { Ready } else { waiting("Job not started") })
}

fn service(object: &Value) -> Readiness {
    let spec = &object["spec"];
    let unreached =
        spec["type"] == "LoadBalancer" && spec["clusterIP"].as_str().unwrap_or_default().is_empty();
    if unreached { waiting("ClusterIP not set. Service type: LoadBalancer") } else { Ready }
}

fn crd(object: &Value) -> Readiness {
    let decided = conditions(object).iter().find_map(|c| match (c["type"].as_str(), c["status"].as_str()) {
        (Some("NamesAccepted"), Some("False")) => Some(Failed(message(c))),
        (Some("Established"), Some("False")) if c["reason"] != "Installing" => Some(Failed(message(c))),
        (Some("Established"), Some("True")) => Some(Ready),
        _ => None,
    });
    decided.unwrap_or_else(|| waiting("Install in progress"))
}

/// All other kinds.
fn by_ready_condition(object: &Value) -> Readiness {
    match condition(object, "Ready") {
        Some(ready) if ready["status"] == "False" || ready["status"] == "Unknown" => Waiting(message(ready)),
        Some(_) | None => Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Rows where our result differs, and why.
    const OWN: [(&str, &str); 1] =
        [("Pod: its node is lost", "kstatus gives up with an error where the kubelet may come back")];

    #[test]
    fn as_kstatus_has_it() {
        let rows: Vec<Value> =
            serde_json::from_str(include_str!("../../../../../fixtures/readiness/answers.json")).unwrap();
        let asked: Vec<Value> =
            serde_json::from_str(include_str!("../../../../../fixtures/readiness/objects.json")).unwrap();
        assert_eq!(rows.len(), asked.len(), "objects.json has changed: make fixtures");
        let now = Timestamp::now();
        let mut wrong = Vec::new();
        for (row, asked) in rows.iter().zip(&asked) {
            let about = row["about"].as_str().unwrap();
            assert_eq!((&row["object"], &row["about"]), (&asked["object"], &asked["about"]), "make fixtures");
            let mut object = row["object"].clone();
            if let Some(age) = row["age"].as_i64() {
                let made = now - SignedDuration::from_secs(age);
                object["metadata"]["creationTimestamp"] = made.to_string().into();
            }
            let said = row["message"].as_str().unwrap_or_default();
            let (status, reason) = match judge_at(&object, now) {
                Ready => ("Current", said.to_owned()),
                Waiting(reason) if reason == "Resource scheduled for deletion" => ("Terminating", reason),
                Waiting(reason) => ("InProgress", reason),
                Failed(reason) => ("Failed", reason),
            };
            assert!(status == "Current" || !reason.is_empty(), "{about}");
            // A condition may have a reason and no message.
            let same = row["status"] == status && (reason == said || said.is_empty());
            let own = OWN.iter().any(|(row, _)| *row == about);
            if same == own {
                wrong.push(format!("{about}: {status}, {reason}; kstatus: {}, {said}", row["status"]));
            }
        }
        assert!(rows.len() > 100 && wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn what_runs_is_awaited_to_its_end() {
        let pod = |phase: &str| json!({"kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": phase}});
        let job = |kind: &str| {
            json!({"kind": "Job", "spec": {"completions": 2}, "status": {"startTime": "t", "failed": 1,
                "conditions": [{"type": kind, "status": "True"}]}})
        };
        let waits = |reason: &str| waiting(reason);
        for (object, expected) in [
            (pod("Pending"), waits("Pod in progress")),
            (pod("Running"), waits("Pod in progress")),
            (pod("Succeeded"), Ready),
            (pod("Failed"), Failed("pod p failed".to_owned())),
            (job("Suspended"), waits("Job in progress")),
            (job("Complete"), Ready),
            (job("Failed"), Failed("Job Failed. failed: 1/2".to_owned())),
            (json!({"kind": "ConfigMap"}), Ready),
        ] {
            assert_eq!(judge_run(&object), expected, "{object}");
        }
    }

    #[test]
    fn an_api_is_awaited() {
        let service = |status: &str| {
            json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "status": {"conditions": [{"type": "Available", "status": status, "reason": "MissingEndpoints"}]}})
        };
        assert_eq!(judge(&service("True")), Ready);
        assert_eq!(judge(&service("False")), waiting("MissingEndpoints"));
    }

    #[test]
    fn a_service_is_ready_once_it_is_written() {
        let service = |spec: Value| json!({"apiVersion": "v1", "kind": "Service", "spec": spec});
        let of = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind});
        for (manifest, ready) in [
            (service(json!({})), true),
            (service(json!({"type": "ClusterIP"})), true),
            (service(json!({"type": "LoadBalancer"})), false),
            (of("serving.knative.dev/v1", "Service"), false),
            // What follows from their status.
            (of("v1", "PersistentVolumeClaim"), false),
            (of("apps/v1", "StatefulSet"), false),
            (json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": 0}}), false),
            (of("batch/v1", "Job"), false),
        ] {
            assert_eq!(is_ready_once_written(&manifest), ready, "{manifest}");
        }
    }

    #[test]
    fn a_paused_deployment_is_ready() {
        let paused = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"paused": true}});
        assert_eq!(judge(&paused), Ready);
    }
}
