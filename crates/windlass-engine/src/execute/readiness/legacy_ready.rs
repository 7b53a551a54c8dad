//! Readiness by the rules of Helm 3, for `--wait=legacy`. Pure.
//!
//! They know built-in kinds only, count Pods that may be unavailable during a rollout as ready, and detect only
//! failed Jobs. Where Helm reads Pods or a new ReplicaSet, the status of their owner is equivalent.

use crate::execute::readiness::{
    kstatus::Readiness::{self, Failed, Ready, Waiting},
    ready_when,
};
use serde_json::Value;
use windlass_cluster::ObjectMeta;

/// Judges a live object.
pub(crate) fn judge(object: &Value) -> Readiness {
    if let Some(own) = ready_when::judge(object) {
        return own;
    }
    let group = object["apiVersion"].as_str().and_then(|v| v.split_once('/')).map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap_or_default();
    let missing = match (group, kind) {
        ("", "Pod") => (!is_true(object, "Ready")).then(|| "Pod is not ready".to_owned()),
        ("batch", "Job") => return job(object),
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => unobserved(object).or_else(|| {
            let (ready, all) =
                (number(&object["status"]["readyReplicas"]), number(&object["status"]["replicas"]));
            (ready < all).then(|| format!("Ready: {ready}/{all}"))
        }),
        ("", "PersistentVolumeClaim") => {
            (object["status"]["phase"] != "Bound").then(|| "PVC is not bound".to_owned())
        }
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            // Name conflicts with another kind are not this wait's concern.
            let done = is_true(object, "Established") || status_of(object, "NamesAccepted") == Some("False");
            (!done).then(|| "CRD is not established".to_owned())
        }
        _ => None,
    };
    missing.map_or(Ready, Waiting)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn status_of<'v>(object: &'v Value, condition: &str) -> Option<&'v str> {
    let all = object["status"]["conditions"].as_array()?;
    all.iter().find(|c| c["type"] == condition)?["status"].as_str()
}

fn is_true(object: &Value, condition: &str) -> bool {
    status_of(object, condition) == Some("True")
}

/// The controller has not observed the current generation.
fn unobserved(object: &Value) -> Option<String> {
    let (seen, is) = (number(&object["status"]["observedGeneration"]), ObjectMeta::of(object).generation());
    (seen != is).then(|| format!("generation {is} is not observed yet"))
}

/// A number, or a percentage of one.
fn scaled(value: &Value, of: i64, up: bool) -> Option<i64> {
    if value.is_i64() {
        return value.as_i64();
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let hundredths = percent.checked_mul(of)?;
    Some(if up { hundredths.checked_add(99)?.div_euclid(100) } else { hundredths.div_euclid(100) })
}

/// The Pods of a Deployment that may be unavailable during a rollout.
fn max_unavailable(object: &Value, replicas: i64) -> i64 {
    let strategy = &object["spec"]["strategy"];
    if strategy["type"] != "RollingUpdate" || replicas == 0 {
        return 0;
    }
    let part = |name: &str, up| scaled(&strategy["rollingUpdate"][name], replicas, up).unwrap_or(0);
    match (part("maxSurge", true), part("maxUnavailable", false)) {
        // Otherwise no rollout could progress.
        (0, 0) => 1,
        (_, missing) => missing.min(replicas),
    }
}

fn deployment(object: &Value) -> Option<String> {
    if object["spec"]["paused"] == true {
        return None;
    }
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let status = &object["status"];
    // At least this many of the ready Pods are new.
    let old = (number(&status["replicas"]) - number(&status["updatedReplicas"])).max(0);
    let ready = number(&status["readyReplicas"]) - old;
    let wanted = replicas - max_unavailable(object, replicas);
    unobserved(object).or_else(|| (ready < wanted).then(|| format!("Ready: {}/{wanted}", ready.max(0))))
}

fn stateful_set(object: &Value) -> Option<String> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let rolls = spec["updateStrategy"]["type"] == "RollingUpdate";
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    let partition = number(&spec["updateStrategy"]["rollingUpdate"]["partition"]);
    let (updated, ready) = (number(&status["updatedReplicas"]), number(&status["readyReplicas"]));
    unobserved(object).or_else(|| {
        if !rolls {
            None
        } else if updated < replicas - partition {
            Some(format!("Updated: {updated}/{}", replicas - partition))
        } else if ready != replicas {
            Some(format!("Ready: {ready}/{replicas}"))
        } else if partition == 0 && status["currentRevision"] != status["updateRevision"] {
            Some("Waiting for updated revision to match current".to_owned())
        } else {
            None
        }
    })
}

fn daemon_set(object: &Value) -> Option<String> {
    let (strategy, status) = (&object["spec"]["updateStrategy"], &object["status"]);
    let wanted = number(&status["desiredNumberScheduled"]);
    let (updated, ready) = (number(&status["updatedNumberScheduled"]), number(&status["numberReady"]));
    let missing = scaled(&strategy["rollingUpdate"]["maxUnavailable"], wanted, true).unwrap_or(wanted);
    unobserved(object).or_else(|| {
        if strategy["type"] != "RollingUpdate" {
            None
        } else if updated != wanted {
            Some(format!("Updated: {updated}/{wanted}"))
        } else {
            (ready < wanted - missing).then(|| format!("Ready: {ready}/{}", wanted - missing))
        }
    })
}

fn service(object: &Value) -> Option<String> {
    let spec = &object["spec"];
    if spec["type"] == "ExternalName" {
        return None;
    }
    if spec["clusterIP"].as_str().unwrap_or_default().is_empty() {
        return Some("Service has no cluster IP".to_owned());
    }
    let given = |list: &Value| list.as_array().is_some_and(|all| !all.is_empty());
    let reached = given(&spec["externalIPs"]) || object["status"]["loadBalancer"]["ingress"].is_array();
    (spec["type"] == "LoadBalancer" && !reached).then(|| "Service has no load balancer ingress".to_owned())
}

fn job(object: &Value) -> Readiness {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (failed, succeeded) = (number(&status["failed"]), number(&status["succeeded"]));
    if failed > spec["backoffLimit"].as_i64().unwrap_or(6) {
        return Failed("job is failed".to_owned());
    }
    match spec["completions"].as_i64() {
        Some(wanted) if succeeded < wanted => Waiting(format!("Succeeded: {succeeded}/{wanted}")),
        Some(_) | None => Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn by_helm_3s_rules() {
        let rolling = |unavailable: Value| {
            json!({"replicas": 4, "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": unavailable}}})
        };
        let rolled = |all: i64, updated: i64, ready: i64| json!({"observedGeneration": 2, "replicas": all, "updatedReplicas": updated, "readyReplicas": ready});
        let sets = |partition: i64| json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
        let set = |updated: i64, ready: i64, revision: &str| {
            json!({"observedGeneration": 2, "updatedReplicas": updated, "readyReplicas": ready,
                "currentRevision": "a", "updateRevision": revision})
        };
        let daemons = |unavailable: Value| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}}});
        let daemon = |updated: i64, ready: i64| {
            json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": updated,
                "numberReady": ready})
        };
        let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
        let surge_only = json!({"replicas": 2, "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}});
        let failing = json!({"observedGeneration": 2, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 1,
            "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
        const D: &str = "apps/v1 Deployment";
        const S: &str = "apps/v1 StatefulSet";
        const N: &str = "apps/v1 DaemonSet";
        const CRD: &str = "apiextensions.k8s.io/v1 CustomResourceDefinition";
        let cases = [
            (D, rolling(json!("25%")), rolled(4, 4, 3), "ready"),
            (D, rolling(json!("25%")), rolled(4, 4, 2), "waiting"),
            (D, rolling(json!(0)), rolled(4, 4, 3), "waiting"),
            (D, rolling(json!(9)), rolled(4, 4, 0), "ready"),
            // One of the ready Pods is old.
            (D, rolling(json!(1)), rolled(5, 4, 3), "waiting"),
            (D, rolling(json!(1)), rolled(5, 4, 4), "ready"),
            (D, surge_only, rolled(2, 2, 1), "ready"),
            (D, json!({"replicas": 2, "strategy": {"type": "Recreate"}}), rolled(2, 2, 1), "waiting"),
            (D, json!({"replicas": 2}), json!({}), "waiting"),
            (D, json!({"paused": true, "replicas": 2}), json!({}), "ready"),
            (D, rolling(json!(1)), failing, "waiting"),
            (S, sets(0), set(3, 3, "a"), "ready"),
            (S, sets(0), set(3, 3, "b"), "waiting"),
            (S, sets(0), set(3, 2, "a"), "waiting"),
            (S, sets(2), set(1, 3, "b"), "ready"),
            (S, sets(2), set(0, 3, "b"), "waiting"),
            (S, json!({"updateStrategy": {"type": "OnDelete"}}), json!({}), "waiting"),
            (S, json!({"updateStrategy": {"type": "OnDelete"}}), json!({"observedGeneration": 2}), "ready"),
            (N, daemons(json!(1)), daemon(3, 2), "ready"),
            (N, daemons(json!(1)), daemon(3, 1), "waiting"),
            (N, daemons(json!("34%")), daemon(3, 1), "ready"),
            (N, daemons(json!(1)), daemon(2, 3), "waiting"),
            (N, json!({"updateStrategy": {"type": "OnDelete"}}), daemon(0, 0), "ready"),
            ("apps/v1 ReplicaSet", json!({"replicas": 2}), rolled(2, 0, 2), "ready"),
            ("apps/v1 ReplicaSet", json!({"replicas": 2}), rolled(2, 0, 1), "waiting"),
            ("v1 Pod", json!({}), condition("Ready", "True"), "ready"),
            ("v1 Pod", json!({}), json!({"phase": "Succeeded"}), "waiting"),
            ("v1 PersistentVolumeClaim", json!({}), json!({"phase": "Bound"}), "ready"),
            ("v1 PersistentVolumeClaim", json!({}), json!({"phase": "Pending"}), "waiting"),
            ("v1 Service", json!({"type": "ExternalName"}), json!({}), "ready"),
            ("v1 Service", json!({"type": "ClusterIP"}), json!({}), "waiting"),
            ("v1 Service", json!({"type": "ClusterIP", "clusterIP": "None"}), json!({}), "ready"),
            ("v1 Service", json!({"type": "LoadBalancer", "clusterIP": "1.2.3.4"}), json!({}), "waiting"),
            (
                "v1 Service",
                json!({"type": "LoadBalancer", "clusterIP": "1.2.3.4", "externalIPs": ["5.6.7.8"]}),
                json!({}),
                "ready",
            ),
            (CRD, json!({}), condition("Established", "True"), "ready"),
            (CRD, json!({}), condition("NamesAccepted", "False"), "ready"),
            (CRD, json!({}), json!({}), "waiting"),
            ("batch/v1 Job", json!({"completions": 2}), json!({"succeeded": 2}), "ready"),
            ("batch/v1 Job", json!({"completions": 2}), json!({"succeeded": 1}), "waiting"),
            ("batch/v1 Job", json!({"completions": 1, "backoffLimit": 0}), json!({"failed": 1}), "failed"),
            ("e.x/v1 Thing", json!({}), condition("Ready", "False"), "ready"),
        ];
        for (what, spec, status, expected) in cases {
            let (api_version, kind) = what.split_once(' ').unwrap();
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"generation": 2},
                "spec": spec, "status": status});
            let found = match judge(&object) {
                Ready => "ready",
                Waiting(_) => "waiting",
                Failed(_) => "failed",
            };
            assert_eq!(found, expected, "{object}");
        }
    }

    /// Rows where our result differs, and why.
    const OWN: [(&str, &str); 1] = [(
        "Deployment: old ones are left",
        "a Deployment does not tell which of its ready Pods are new: none that may be old is counted",
    )];

    #[test]
    fn as_helm_itself_has_it() {
        let rows: Vec<Value> =
            serde_json::from_str(include_str!("../../../../../fixtures/readiness/answers.json")).unwrap();
        let mut wrong = Vec::new();
        for row in rows.iter().filter(|row| row["legacy"] != "none") {
            let found = match judge(&row["object"]) {
                Ready => "ready",
                Waiting(_) => "waiting",
                Failed(_) => "failed",
            };
            let own = OWN.iter().any(|(about, _)| row["about"] == *about);
            if (row["legacy"] == found) == own {
                wrong.push(format!("{}: {found}; Helm: {}", row["about"], row["legacy"]));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
