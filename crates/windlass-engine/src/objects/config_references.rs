//! Which ConfigMaps and Secrets a live workload refers to. Pure.

use serde_json::Value;
use std::collections::BTreeSet;
use windlass_cluster::ObjectMeta;

/// Kinds whose Pods may start with a ConfigMap or Secret, with their API versions.
pub(crate) const WORKLOADS: [(&str, &str); 7] = [
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
];

/// ConfigMaps and Secrets by kind and name.
pub(crate) type ConfigNames = BTreeSet<(&'static str, String)>;

/// Adds what a workload refers to, if Pods of it run or may start.
pub(crate) fn add(kind: &str, workload: &Value, names: &mut ConfigNames) {
    if !is_live(kind, workload) {
        return;
    }
    let template = match kind {
        "Pod" => Some(&workload["spec"]),
        "CronJob" => workload.pointer("/spec/jobTemplate/spec/template/spec"),
        _ => workload.pointer("/spec/template/spec"),
    };
    if let Some(template) = template {
        add_below(template, names);
    }
}

/// Whether Pods of the workload run or may start.
fn is_live(kind: &str, workload: &Value) -> bool {
    match kind {
        "Pod" => {
            let ended = matches!(workload["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            !ended && !ObjectMeta::of(workload).is_deleting()
        }
        // Those of earlier revisions are scaled down and stay.
        "ReplicaSet" => workload["spec"]["replicas"].as_i64() != Some(0),
        "Job" => {
            let conditions = workload["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
            !conditions
                .iter()
                .any(|c| matches!(c["type"].as_str(), Some("Complete" | "Failed")) && c["status"] == "True")
        }
        _ => true,
    }
}

/// Volumes of all kinds, environment and pull secrets name them by a few keys.
fn add_below(value: &Value, names: &mut ConfigNames) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| add_below(item, names)),
        Value::Object(fields) => {
            for (key, field) in fields {
                let mut add = |kind, name: &Value| {
                    if let Some(name) = name.as_str() {
                        names.insert((kind, name.to_owned()));
                    }
                };
                match key.as_str() {
                    "configMap" | "configMapRef" | "configMapKeyRef" => add("ConfigMap", &field["name"]),
                    "secret" | "secretRef" | "secretKeyRef" | "nodePublishSecretRef" => {
                        add("Secret", &field["name"]);
                    }
                    "secretName" => add("Secret", field),
                    "imagePullSecrets" => {
                        field.as_array().into_iter().flatten().for_each(|one| add("Secret", &one["name"]));
                    }
                    _ => {}
                }
                add_below(field, names);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(kind: &str, workload: &Value) -> Vec<String> {
        let mut names = ConfigNames::new();
        add(kind, workload, &mut names);
        names.into_iter().map(|(kind, name)| format!("{kind}/{name}")).collect()
    }

    #[test]
    fn pods_refer_by_volumes_environment_and_pull_secrets() {
        let pod = json!({"spec": {
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [
                {"name": "a", "configMap": {"name": "mounted"}},
                {"name": "b", "secret": {"secretName": "key"}},
                {"name": "c", "projected": {"sources": [{"configMap": {"name": "part"}}, {"secret": {"name": "token"}}]}},
                {"name": "d", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "csi"}}},
                {"name": "e", "persistentVolumeClaim": {"claimName": "claim"}},
            ],
            "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "env"}}, {"configMapRef": {"name": "all"}}]}],
            "containers": [{"name": "x", "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "k"}}},
                {"name": "B", "value": "plain"},
            ]}],
        }});
        let expected = [
            "ConfigMap/all",
            "ConfigMap/mounted",
            "ConfigMap/one",
            "ConfigMap/part",
            "Secret/csi",
            "Secret/env",
            "Secret/key",
            "Secret/pull",
            "Secret/token",
        ];
        assert_eq!(names("Pod", &pod), expected);
        let template = json!({"spec": {"template": pod}});
        assert_eq!(names("StatefulSet", &template), expected);
        let cron = json!({"spec": {"jobTemplate": template}});
        assert_eq!(names("CronJob", &cron), expected);
    }

    #[test]
    fn what_has_ended_refers_to_nothing() {
        let spec = json!({"volumes": [{"name": "a", "configMap": {"name": "c"}}]});
        let template = json!({"spec": spec});
        let done = |kind: &str, status: &str| json!({"spec": {"template": template}, "status": {"conditions": [{"type": kind, "status": status}]}});
        let table = [
            ("Pod", json!({"spec": spec, "status": {"phase": "Running"}}), true),
            ("Pod", json!({"spec": spec, "status": {"phase": "Succeeded"}}), false),
            ("Pod", json!({"spec": spec, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), false),
            ("ReplicaSet", json!({"spec": {"replicas": 0, "template": template}}), false),
            ("ReplicaSet", json!({"spec": {"replicas": 2, "template": template}}), true),
            ("Deployment", json!({"spec": {"replicas": 0, "template": template}}), true),
            ("Job", done("Complete", "True"), false),
            ("Job", done("Failed", "True"), false),
            ("Job", done("Suspended", "True"), true),
            ("Job", done("Complete", "False"), true),
        ];
        for (kind, workload, live) in table {
            assert_eq!(!names(kind, &workload).is_empty(), live, "{kind} {workload}");
        }
    }
}
