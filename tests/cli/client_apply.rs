//! Client-side apply beside Helm 4: what is in the cluster after each step, its managed fields, and what the records say.

use super::matrix::{tool, wished};
use super::{control_plane, fails, run};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const KINDS: &str = "configmap,service,deployment,applythings.windlass.test";

const DEFINITION: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
"metadata": {"name": "applythings.windlass.test"}, "spec": {"group": "windlass.test", "scope": "Namespaced",
"names": {"kind": "ApplyThing", "plural": "applythings"}, "versions": [{"name": "v1", "served": true, "storage": true,
"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}}"#;

const FIRST: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: m, labels: {tier: a, gone: x}, finalizers: [windlass.test/b, windlass.test/a]}
data: {same: "1", changed: "1", gone: "1"}
---
apiVersion: v1
kind: Service
metadata: {name: m}
spec: {selector: {app: m}, ports: [{name: web, port: 80}, {name: gone, port: 81}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: m}
spec:
  replicas: 1
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 2}}
  selector: {matchLabels: {app: m}}
  template:
    metadata: {labels: {app: m}}
    spec:
      containers:
      - {name: main, image: "x:1", env: [{name: A, value: "1"}, {name: B, value: "2"}], args: [a, b]}
      - {name: side, image: "s:1"}
      volumes: [{name: v, emptyDir: {}}]
---
apiVersion: windlass.test/v1
kind: ApplyThing
metadata: {name: m}
spec: {size: 1, gone: true, list: [{name: a}, {name: b}]}
"#;

fn second() -> String {
    FIRST
        .replace("{tier: a, gone: x}", "{tier: b, new: z}")
        .replace("[windlass.test/b, windlass.test/a]", "[windlass.test/c, windlass.test/a]")
        .replace(r#"changed: "1", gone: "1""#, r#"changed: "2", new: "1""#)
        .replace("{name: gone, port: 81}", "{name: new, port: 82}")
        .replace("{type: RollingUpdate, rollingUpdate: {maxSurge: 2}}", "{type: Recreate}")
        .replace("x:1", "x:2")
        .replace(r#"{name: A, value: "1"}, "#, "")
        .replace("args: [a, b]", "args: [b, c, d]")
        .replace("      - {name: side, image: \"s:1\"}\n", "      - {name: other, image: \"o:1\"}\n")
        .replace("emptyDir: {}", "secret: {secretName: s}")
        .replace("{size: 1, gone: true, list: [{name: a}, {name: b}]}", "{size: 2, list: [{name: b}]}")
}

fn charts(dir: &Path) {
    for (name, text) in [("v1", FIRST.to_owned()), ("v2", second())] {
        let chart = dir.join(name);
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: apply\nversion: 1.0.0\n").unwrap();
        std::fs::write(chart.join("templates/all.yaml"), text).unwrap();
    }
}

/// Each object, with the manager and operation of each entry of its managed fields, and the fields of each.
fn live(ns: &str) -> BTreeMap<String, Value> {
    let args = ["get", KINDS, "-n", ns, "-o", "json", "--show-managed-fields"];
    let list: Value = serde_json::from_str(&control_plane().kubectl(args).unwrap()).unwrap();
    let objects = list["items"].as_array().unwrap().iter();
    let own = objects.filter(|object| object["metadata"]["name"] == "m");
    own.map(|object| {
        let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
        let ours = entries.filter(|entry| entry["subresource"].is_null());
        let mut managers: Vec<Value> =
            ours.map(|entry| json!([entry["manager"], entry["operation"], entry["fieldsV1"]])).collect();
        // The server orders entries by their times, which are seconds.
        managers.sort_by_key(Value::to_string);
        let object = json!({"object": wished(object, ns), "managers": managers});
        (object["object"]["kind"].as_str().unwrap().to_owned(), object)
    })
    .collect()
}

/// What each step left: the objects, and how the record says that they were written.
type Trace = Vec<(BTreeMap<String, Value>, String)>;

/// Install, upgrade and roll back by the methods of a sequence, with changes of others in between where that is asked for.
fn trace(by: char, modes: [&str; 3], charts: &Path, changes: &[&[&str]]) -> Trace {
    let namespace = control_plane().namespace("apply").unwrap();
    let ns = namespace.name();
    let chart = |name: &str| charts.join(name).to_str().unwrap().to_owned();
    let (first, second) = (chart("v1"), chart("v2"));
    let steps = [["install", "m", &first], ["upgrade", "m", &second], ["rollback", "m", "1"]];
    let mut trace = Trace::new();
    for (i, (step, mode)) in steps.iter().zip(modes).enumerate() {
        let mode = format!("--server-side={mode}");
        let args: Vec<&str> = step.iter().copied().chain(["-n", ns, &mode]).collect();
        tool(by, &args);
        let revision = (i + 1).to_string();
        let read = ["get", "metadata", "m", "--revision", &revision, "-n", ns, "-o", "json"];
        let record: Value = serde_json::from_str(&tool('4', &read)).unwrap();
        trace.push((live(ns), record["applyMethod"].to_string()));
        for change in changes {
            let args: Vec<&str> = change.iter().copied().chain(["-n", ns]).collect();
            control_plane().kubectl(args).unwrap();
        }
    }
    // So that the namespace can go.
    let bare =
        ["patch", "configmap", "m", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#, "-n", ns];
    control_plane().kubectl(bare).unwrap();
    trace
}

/// Runs sequences with both tools, and returns how they differ.
fn compare(sequences: &[[&'static str; 3]], changes: &[&[&str]]) -> Vec<String> {
    control_plane().kubectl_with(["apply", "--server-side", "-f", "-"], DEFINITION).unwrap();
    let established =
        ["wait", "crd/applythings.windlass.test", "--for=condition=Established", "--timeout=60s"];
    control_plane().kubectl(established).unwrap();
    let dir = tempfile::tempdir().unwrap();
    charts(dir.path());
    let (found, next) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(modes) = sequences.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let [ours, theirs] = ['w', '4'].map(|by| trace(by, *modes, dir.path(), changes));
                    for (step, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                        assert_eq!(theirs.0.len(), 4, "{modes:?}: {:?}", theirs.0.keys());
                        let differs =
                            |what: &str, ours: &dyn std::fmt::Display, theirs: &dyn std::fmt::Display| {
                                let line = format!(
                                    "{modes:?} step {}: {what}\n  ours {ours}\n  Helm {theirs}",
                                    step + 1
                                );
                                found.lock().unwrap().push(line);
                            };
                        if ours.1 != theirs.1 {
                            differs("record", &ours.1, &theirs.1);
                        }
                        for (name, object) in &theirs.0 {
                            let own = ours.0.get(name).unwrap_or(&Value::Null);
                            for part in ["object", "managers"] {
                                if own[part] != object[part] {
                                    differs(&format!("{name} {part}"), &own[part], &object[part]);
                                }
                            }
                        }
                    }
                }
            });
        }
    });
    found.into_inner().unwrap()
}

#[test]
fn methods_follow_each_other_as_with_helm_4() {
    let mut sequences = Vec::new();
    for install in ["true", "false"] {
        for upgrade in ["true", "false", "auto"] {
            sequences.extend(["true", "false", "auto"].map(|rollback| [install, upgrade, rollback]));
        }
    }
    let found = compare(&sequences, &[]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn changes_of_others_are_overwritten_or_left_as_with_helm_4() {
    let changes: [&[&str]; 4] = [
        &["patch", "configmap", "m", "--type=merge", "-p", r#"{"data":{"same":"hand","hand":"1"}}"#],
        &[
            "patch",
            "service",
            "m",
            "-p",
            r#"{"spec":{"ports":[{"port":90,"name":"hand"},{"port":80,"targetPort":8}]}}"#,
        ],
        &["set", "image", "deployment/m", "main=hand:1"],
        &["patch", "applything", "m", "--type=merge", "-p", r#"{"spec":{"size":9,"hand":1}}"#],
    ];
    let found = compare(&[["false", "false", "false"], ["false", "auto", "auto"]], &changes);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_excludes_each_other_is_refused() {
    let said = fails(&["upgrade", "m", "nowhere", "--server-side=false", "--force-conflicts"]);
    assert!(said.contains("forceConflicts enabled when serverSideApply disabled; leave it out"), "{said}");
}

#[test]
fn a_plan_of_the_client_shows_what_it_changes() {
    let namespace = control_plane().namespace("apply-plan").unwrap();
    let ns = namespace.name();
    let dir = tempfile::tempdir().unwrap();
    let chart = dir.path().join("chart");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: apply\nversion: 1.0.0\n").unwrap();
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {size: {{ .Values.size | quote }}}\n";
    std::fs::write(chart.join("templates/all.yaml"), template).unwrap();
    let chart = chart.to_str().unwrap();
    tool('w', &["install", "m", chart, "-n", ns, "--set", "size=1", "--server-side=false"]);
    let patch =
        ["patch", "configmap", "m", "-n", ns, "--type=merge", "-p", r#"{"data":{"size":"9","hand":"1"}}"#];
    control_plane().kubectl(patch).unwrap();
    let out = run(&["plan", "m", chart, "-n", ns, "--set", "size=2", "-o", "json"]);
    let plan: Value = serde_json::from_slice(&out.stdout).unwrap();
    let fields = &plan["changes"][0]["fields"];
    assert_eq!(*fields, json!([{"path": "data.size", "before": "9", "after": "2"}]), "{plan}");
}
