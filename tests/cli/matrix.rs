//! Helm 3, Helm 4 and ours take turns on one release, in every order: what is in the cluster after each step is what it
//! is when Helm 4 takes our turns.

use super::{control_plane, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whose turn it is: Helm 3, Helm 4, ours.
pub(super) const TOOLS: [char; 3] = ['3', '4', 'w'];
pub(super) const STEPS: usize = 5;
/// Objects of each state.
const OBJECTS: usize = 8;
/// Those that a test run takes: each tool takes each turn at least once, and each hands over to each.
const NINE: [&str; 9] = ["wwwww", "3wwww", "4wwww", "w3w4w", "w4w3w", "43w43", "3w4w3", "44w3w", "w34w4"];
const KINDS: &str = "configmap,secret,service,deployment,serviceaccount,role,rolebinding";

const FIRST: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: m-config, labels: {tier: a, gone: x}}
data: {same: "1", changed: "1", gone: "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m-first}
data: {a: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: m-secret}
stringData: {user: root}
data: {pw: b2xk}
---
apiVersion: v1
kind: Service
metadata: {name: m}
spec: {selector: {app: m}, ports: [{name: web, port: 80}, {name: gone, port: 81}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: m}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: m}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: m}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: m}
subjects: [{kind: ServiceAccount, name: m}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: m}
spec:
  replicas: 1
  selector: {matchLabels: {app: m}}
  template:
    metadata: {labels: {app: m}}
    spec:
      containers:
      - {name: main, image: "x:1", env: [{name: A, value: "1"}, {name: B, value: "2"}], args: [a, b]}
      - {name: side, image: "s:1"}
"#;

/// The second and third state: things come, change and go in maps, keyed lists and plain lists.
fn states() -> [String; 3] {
    let second = FIRST
        .replace("{tier: a, gone: x}", "{tier: b, new: z}")
        .replace(r#"changed: "1", gone: "1""#, r#"changed: "2", new: "1""#)
        .replace("name: m-first", "name: m-second")
        .replace("pw: b2xk", "pw: bmV3")
        .replace(", {name: gone, port: 81}", ", {name: new, port: 82}")
        .replace("verbs: [get]", "verbs: [get, list]")
        .replace("x:1", "x:2")
        .replace(r#"{name: A, value: "1"}, "#, "")
        .replace("args: [a, b]", r#"args: [b, c, d], ports: [{containerPort: 80}]"#)
        .replace("      - {name: side, image: \"s:1\"}\n", "      - {name: other, image: \"o:1\"}\n");
    let third = FIRST.replace("replicas: 1", "replicas: 2").replace(r#"gone: "1""#, r#"third: "3""#);
    [FIRST.to_owned(), second, third]
}

fn charts(dir: &Path) {
    for (i, state) in states().iter().enumerate() {
        let chart = dir.join(format!("v{}", i + 1));
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        let meta = format!("apiVersion: v2\nname: matrix\nversion: 1.0.{i}\n");
        std::fs::write(chart.join("Chart.yaml"), meta).unwrap();
        std::fs::write(chart.join("templates/all.yaml"), state).unwrap();
    }
}

/// What a sequence left after each step, and what the three tools say of its history before the last.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trace {
    pub(super) objects: Vec<BTreeMap<String, Value>>,
    pub(super) history: Vec<String>,
}

/// An object without what the server sets, with the namespace by another name.
pub(super) fn wished(object: &Value, ns: &str) -> Value {
    let text = object.to_string().replace(ns, "NS");
    let mut object: Value = serde_json::from_str(&text).unwrap();
    let remove = |value: &mut Value, names: &[&str]| {
        if let Some(map) = value.as_object_mut() {
            map.retain(|name, _| !names.contains(&name.as_str()));
        }
    };
    remove(&mut object, &["status"]);
    let server = ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"];
    remove(&mut object["metadata"], &server);
    remove(&mut object["metadata"]["annotations"], &["deployment.kubernetes.io/revision"]);
    if object["kind"] == "Service" {
        remove(&mut object["spec"], &["clusterIP", "clusterIPs"]);
    }
    object
}

fn live(ns: &str) -> BTreeMap<String, Value> {
    let live = control_plane().list(&[KINDS, "-n", ns]).unwrap();
    let name =
        |o: &Value| format!("{}/{}", o["kind"].as_str().unwrap(), o["metadata"]["name"].as_str().unwrap());
    let own = |name: &str| {
        let ours = name.split_once('/').unwrap().1;
        ours == "m" || ours.starts_with("m-")
    };
    live.iter().map(|o| (name(o), wished(o, ns))).filter(|(name, _)| own(name)).collect()
}

pub(super) fn tool(tool: char, args: &[&str]) -> String {
    let cp = control_plane();
    match tool {
        '3' => cp.helm3(args).unwrap(),
        '4' => cp.helm4(args).unwrap(),
        _ => {
            let out = run(args);
            assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
            String::from_utf8(out.stdout).unwrap()
        }
    }
}

/// Revisions as a tool tells them, without their times.
pub(super) fn history(of: char, ns: &str) -> String {
    let rows: Vec<Value> =
        serde_json::from_str(&tool(of, &["history", "m", "-n", ns, "-o", "json"])).unwrap();
    let row = |r: &Value| format!("{} {} {}", r["revision"], r["status"], r["description"]);
    rows.iter().map(row).collect::<Vec<_>>().join("; ")
}

fn trace(sequence: &str, charts: &Path) -> Trace {
    let namespace = control_plane().namespace("matrix").unwrap();
    let ns = namespace.name();
    let chart = |n: usize| charts.join(format!("v{n}")).to_str().unwrap().to_owned();
    let steps: [Vec<String>; STEPS] = [
        vec!["install".into(), "m".into(), chart(1)],
        vec!["upgrade".into(), "m".into(), chart(2)],
        vec!["rollback".into(), "m".into(), "1".into()],
        vec!["upgrade".into(), "m".into(), chart(3)],
        vec!["uninstall".into(), "m".into()],
    ];
    let mut trace = Trace { objects: Vec::new(), history: Vec::new() };
    for (i, (by, step)) in sequence.chars().zip(&steps).enumerate() {
        if i + 1 == STEPS {
            trace.history = TOOLS.iter().map(|by| history(*by, ns)).collect();
        }
        let args: Vec<&str> = step.iter().map(String::as_str).chain(["-n", ns]).collect();
        tool(by, &args);
        let objects = live(ns);
        assert_eq!(objects.len(), if i + 1 == STEPS { 0 } else { OBJECTS }, "{sequence}: {objects:?}");
        trace.objects.push(objects);
    }
    let left = control_plane().kubectl(["get", "secrets,leases", "-n", ns, "-o", "name"]).unwrap();
    assert!(left.trim().is_empty(), "{sequence}: {left}");
    trace
}

/// How a trace differs from its reference.
pub(super) fn differences(sequence: &str, mine: &Trace, reference: &Trace) -> Vec<String> {
    let mut found = Vec::new();
    for (step, (mine, theirs)) in mine.objects.iter().zip(&reference.objects).enumerate() {
        for name in mine.keys().chain(theirs.keys().filter(|name| !mine.contains_key(*name))) {
            let (a, b) = (mine.get(name), theirs.get(name));
            if a != b {
                found.push(format!("{sequence} step {}: {name}\n  ours {a:?}\n  Helm {b:?}", step + 1));
            }
        }
    }
    for (tool, text) in TOOLS.iter().zip(&mine.history) {
        if *text != reference.history[0] {
            found.push(format!("{sequence}: history by {tool}: {text}\n  Helm {}", reference.history[0]));
        }
    }
    found
}

/// Runs sequences, two at a time, and compares each with what Helm 4 makes of it in our place.
fn compare(sequences: &[String]) -> (usize, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    charts(dir.path());
    let reference = |sequence: &String| sequence.replace('w', "4");
    let mut wanted: Vec<String> = sequences.iter().flat_map(|s| [s.clone(), reference(s)]).collect();
    wanted.sort();
    wanted.dedup();
    let traces: Mutex<BTreeMap<String, Trace>> = Mutex::default();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(sequence) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let done = trace(sequence, dir.path());
                    traces.lock().unwrap().insert(sequence.clone(), done);
                }
            });
        }
    });
    let traces = traces.into_inner().unwrap();
    let compared = sequences.iter().filter(|s| s.contains('w'));
    let found = compared.flat_map(|s| differences(s, &traces[s], &traces[&reference(s)])).collect();
    (traces.len(), found)
}

#[test]
fn nine_sequences_are_as_with_helm_4() {
    let (ran, found) = compare(&NINE.map(str::to_owned));
    println!("{ran} sequences ran, {} differences", found.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
#[ignore = "takes a quarter of an hour: make matrix"]
fn all_243_sequences_are_as_with_helm_4() {
    let mut all = vec![String::new()];
    for _ in 0..STEPS {
        all = all.iter().flat_map(|s| TOOLS.map(|tool| format!("{s}{tool}"))).collect();
    }
    let (ran, found) = compare(&all);
    let ours = all.iter().filter(|s| s.contains('w')).count();
    println!("{ran} sequences ran, {ours} of them with ours; {} differences", found.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}
