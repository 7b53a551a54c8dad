//! What the examples in the peers' documentation do: `fixtures/hooks/examples`, all in one operator.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{ON_LOOPBACK, Operator, control_plane, object, wait_for};

/// Copies a directory with its links, and puts names in where the fixtures leave room for them.
fn copy(from: &Path, to: &Path, names: &[(&str, &str)]) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&path).unwrap(), &target).unwrap();
        } else if kind.is_dir() {
            copy(&path, &target, names);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let text = names.iter().fold(text, |text, (name, value)| text.replace(name, value));
            fs::write(&target, text).unwrap();
            fs::set_permissions(&target, fs::metadata(&path).unwrap().permissions()).unwrap();
        }
    }
}

/// Programs that the image has and a test machine may not: ours, and Python with our helper.
fn programs(directory: &Path) -> String {
    fs::create_dir_all(directory).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_windlass"), directory.join("windlass")).unwrap();
    let found = Command::new("sh").args(["-c", "command -v python3"]).output().unwrap();
    let python = String::from_utf8(found.stdout).unwrap();
    let helper = Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks/python");
    let text = format!(
        "#!/bin/sh\nPYTHONDONTWRITEBYTECODE=1 PYTHONPATH={} exec {} \"$@\"\n",
        helper.display(),
        python.trim()
    );
    fs::write(directory.join("python3"), text).unwrap();
    fs::set_permissions(directory.join("python3"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", directory.display(), std::env::var("PATH").unwrap())
}

/// What hooks of an example have printed.
fn said(operator: &Operator, hook: &str) -> Vec<String> {
    let lines = operator.log();
    let lines = lines.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
    let of_hook =
        lines.filter(|l| l["hook"].as_str().is_some_and(|h| h.contains(hook)) && l["output"] == "stdout");
    of_hook.map(|l| l["message"].as_str().unwrap_or_default().to_owned()).collect()
}

fn wait_said(operator: &Operator, hook: &str, line: &str) {
    wait_for(&format!("{hook} says {line:?}\n{}", operator.log_end()), || {
        said(operator, hook).iter().any(|l| l == line)
    });
}

fn apply(namespace: &str, object: &Value) -> Result<String, String> {
    let text = object.to_string();
    control_plane().kubectl_with(["apply", "-n", namespace, "-f", "-"], &text).map_err(|e| e.to_string())
}

#[test]
fn of_the_documentation() {
    let cp = control_plane();
    let namespace = cp.namespace("examples").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path().join("examples");
    let frameworks = root.join("frameworks");
    let names =
        [("@NAMESPACE@", ns), ("@GROUP@", group.as_str()), ("@FRAMEWORKS@", frameworks.to_str().unwrap())];
    copy(&root.join("fixtures/hooks/examples"), &here, &names);
    let modules = format!("{}:{}", here.join("modules-a").display(), here.join("modules-b").display());
    let global = here.join("global-hooks");
    let arguments = [&["--global-hooks-dir", global.to_str().unwrap()][..], &ON_LOOPBACK].concat();
    let search = programs(&scratch.path().join("bin"));
    let kubeconfig = cp.kubeconfig().to_string_lossy();
    let operator = Operator::spawn(&kubeconfig, ns, Path::new(&modules), &arguments, &search);
    operator.wait_converged();

    // Startup order, in a shell, in Python, and with a library.
    let starts: Vec<String> =
        said(&operator, "").into_iter().filter(|l| l.contains(" up") || l.contains("library")).collect();
    assert_eq!(starts, ["Python is up: onStartup", "called through the library", "the shell is up"]);
    let made = object(cp, ns, "configmap", "config-map-for-proj").expect("a ConfigMap made in Python");
    assert_eq!(made["data"]["ver"], "1.0.1");
    // Modules: two roots, one with a link; values of files.
    assert_eq!(said(&operator, "002-backend/hooks/startup"), ["backend is switched on"]);
    assert_eq!(said(&operator, "003-frontend/hooks/startup"), ["frontend is switched on"]);
    assert!(
        object(cp, ns, "deployment", "frontend").is_some()
            && object(cp, ns, "deployment", "backend").is_some()
    );
    assert_eq!(said(&operator, "001-sysctl-tuner"), ["moment: beforeHelm", "moment: afterHelm"]);
    let script = || {
        let live = object(cp, ns, "daemonset", "sysctl-tuner").unwrap_or_default();
        live["spec"]["template"]["spec"]["containers"][0]["command"][2]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(script().contains("vm.swappiness=0\n") && script().contains("sleep 600\n"), "{}", script());

    advanced(&operator, ns);
    pods_namespaces_and_events(&operator, ns);
    secrets(ns);
    custom_resources(&operator, ns, &group);

    // Schedules are told apart by their names, and the one that comes rarely has not come.
    wait_said(&operator, "103-schedule/six", "tick of each second");
    wait_said(&operator, "103-schedule/six", "tick of each other second");
    assert!(!said(&operator, "103-schedule").iter().any(|l| l.contains("rarely")));
    wait_said(&operator, "103-schedule/five", "a minute has begun");
    // Six changes in no time: the hook runs for the first, and once for what came while it had to wait.
    for i in 0..6 {
        let metadata = json!({"name": format!("counted-{i}"), "labels": {"counted": "yes"}});
        apply(ns, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
    }
    let counts = || -> Vec<usize> {
        let counts = said(&operator, "220-rate");
        counts.iter().filter_map(|l| l.strip_prefix("contexts: ")?.parse().ok()).collect()
    };
    wait_for("all are told of", || counts().iter().sum::<usize>() == 6);
    assert!(counts().len() <= 3, "{:?}", counts());

    // Values of the ConfigMap come over those of files; switching off runs the hook after the deletion.
    let config = |data: Value| {
        apply(ns, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "addon-operator"}, "data": data}))
            .unwrap();
    };
    config(
        json!({"sysctlTuner": "params:\n  vm.swappiness: \"10\"\n  net.core.rmem_max: \"16777216\"\nsleep: \"300\"\n"}),
    );
    wait_for("values of the ConfigMap arrive", || {
        ["vm.swappiness=10\n", "net.core.rmem_max=16777216\n", "net.core.somaxconn=1000\n", "sleep 300\n"]
            .iter()
            .all(|part| script().contains(part))
    });
    config(json!({"sysctlTunerEnabled": "false"}));
    wait_said(&operator, "001-sysctl-tuner", "moment: afterDeleteHelm");
    assert!(object(cp, ns, "daemonset", "sysctl-tuner").is_none());
    operator.stop();
    for kind in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
        cp.kubectl(["delete", kind, &format!("windlass-{ns}-hooks")]).unwrap();
    }
    cp.kubectl(["delete", "crd", &format!("crontabs.{group}"), "--wait=false"]).unwrap();
}

/// The same hooks where they are all that there is, as in an image of shell-operator.
#[test]
fn of_shell_operator_without_modules() {
    let cp = control_plane();
    let namespace = cp.namespace("examples-hooks").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path().join("hooks");
    let frameworks = root.join("frameworks");
    let names =
        [("@NAMESPACE@", ns), ("@GROUP@", group.as_str()), ("@FRAMEWORKS@", frameworks.to_str().unwrap())];
    copy(&root.join("fixtures/hooks/examples/global-hooks"), &here, &names);
    let arguments = [&["--hooks-dir", here.to_str().unwrap()][..], &ON_LOOPBACK].concat();
    let search = programs(&scratch.path().join("bin"));
    let kubeconfig = cp.kubeconfig().to_string_lossy();
    let operator = Operator::spawn(&kubeconfig, ns, Path::new("/nonexistent"), &arguments, &search);
    operator.wait_converged();
    let starts: Vec<String> =
        said(&operator, "").into_iter().filter(|l| l.contains(" up") || l.contains("library")).collect();
    assert_eq!(starts, ["Python is up: onStartup", "called through the library", "the shell is up"]);
    assert!(object(cp, ns, "configmap", "config-map-for-proj").is_some(), "{}", operator.log_end());
    advanced(&operator, ns);
    pods_namespaces_and_events(&operator, ns);
    secrets(ns);
    custom_resources(&operator, ns, &group);
    wait_said(&operator, "103-schedule/six", "tick of each second");
    operator.stop();
    for kind in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
        cp.kubectl(["delete", kind, "shell-operator-hooks-hooks"]).unwrap();
    }
    cp.kubectl(["delete", "crd", &format!("crontabs.{group}"), "--wait=false"]).unwrap();
}

/// Several hooks together: numbers count, not directories; a schedule; one hook with a moment and two bindings.
fn advanced(operator: &Operator, ns: &str) {
    let cp = control_plane();
    let starts: Vec<String> = said(operator, "200-advanced")
        .into_iter()
        .filter(|l| ["advanced: two", "advanced: five", "advanced: ten"].contains(&l.as_str()))
        .collect();
    assert_eq!(starts, ["advanced: two", "advanced: five", "advanced: ten"]);
    wait_said(operator, "200-advanced/003-schedule", "advanced: a tick");
    wait_for("it is told what exists", || {
        said(operator, "200-advanced/namespaces").iter().any(|l| l.ends_with("is told what exists"))
    });
    let other = format!("{ns}-advanced");
    cp.kubectl(["create", "namespace", &other]).unwrap();
    wait_said(operator, "200-advanced/namespaces", &format!("advanced: LifeOfNamespace Added {other}"));
    cp.kubectl(["label", "namespace", &other, "team=red"]).unwrap();
    wait_said(operator, "200-advanced/namespaces", &format!("advanced: LabelsOfNamespace Modified {other}"));
    cp.kubectl(["delete", "namespace", &other, "--wait=false"]).unwrap();
    wait_said(operator, "200-advanced/namespaces", &format!("advanced: LifeOfNamespace Deleted {other}"));
}

#[test]
fn of_high_availability() {
    let cp = control_plane();
    let namespace = cp.namespace("examples-ha").unwrap();
    let ns = namespace.name();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hooks/examples-ha");
    // A section that is an empty text says nothing, as in the example.
    cp.kubectl(["create", "configmap", "addon-operator", "-n", ns, "--from-literal=global="]).unwrap();
    let global = here.join("global-hooks").display().to_string();
    let start = |pod: &str| {
        let variables = [
            ("ADDON_OPERATOR_HA", "true"),
            ("ADDON_OPERATOR_POD", pod),
            ("ADDON_OPERATOR_NAMESPACE", ns),
            ("GLOBAL_HOOKS_DIR", &global),
        ];
        Operator::spawn_in(&cp.kubeconfig().to_string_lossy(), ns, &here.join("modules"), &[], &variables)
    };
    let first = start("pod-1");
    first.wait_converged();
    assert_eq!(said(&first, "startup"), ["the leader starts"], "{}", first.log_end());
    let second = start("pod-2");
    second.wait_log(&["another process leads", "\"leader\":\"pod-1\""]);
    wait_for("a follower is ready", || second.get("/readyz").is_some_and(|(status, _)| status == 200));
    assert!(said(&second, "startup").is_empty());
    first.stop();
    wait_said(&second, "startup", "the leader starts");
    second.stop();
}

fn pods_namespaces_and_events(operator: &Operator, ns: &str) {
    let cp = control_plane();
    assert_eq!(said(operator, "101-pods").first().map(|l| l.starts_with("pods there: ")), Some(true));
    let spec = json!({"containers": [{"name": "a", "image": "b"}]});
    apply(ns, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone"}, "spec": spec}))
        .unwrap();
    wait_said(operator, "101-pods", "pod lone came");
    let other = format!("{ns}-watched");
    cp.kubectl(["create", "namespace", &other]).unwrap();
    wait_said(operator, "102-namespaces", &format!("namespace {other} came"));
    cp.kubectl(["annotate", "namespace", &other, "no=label"]).unwrap();
    cp.kubectl(["label", "namespace", &other, "team=blue"]).unwrap();
    wait_said(operator, "102-namespaces", &format!("namespace {other} has team blue"));
    cp.kubectl(["delete", "namespace", &other, "--wait=false"]).unwrap();
    wait_said(operator, "102-namespaces", &format!("namespace {other} went"));
    let label = format!("namespace {other} has team blue");
    assert!(
        !said(operator, "102-namespaces").contains(&format!("namespace {other} has team null")),
        "{label}"
    );
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e1"}, "type": "Normal", "reason": "Told",
        "action": "Telling", "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "test/x",
        "reportingInstance": "x", "regarding": {"apiVersion": "v1", "kind": "Namespace", "name": ns, "namespace": ns},
    });
    apply(ns, &event).unwrap();
    wait_said(operator, "106-events", "event: Told");
}

fn secrets(ns: &str) {
    let cp = control_plane();
    let target = format!("{ns}-target");
    let secret = |value: &str| {
        let metadata = json!({"name": "shared", "labels": {"secret-copier": "yes"}});
        let body =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"key": value}});
        apply(ns, &body).unwrap();
    };
    let copied = || Some(object(cp, &target, "secret", "shared")?["data"]["key"].as_str()?.to_owned());
    secret("one");
    cp.kubectl(["create", "namespace", &target]).unwrap();
    cp.kubectl(["label", "namespace", &target, &format!("copies-from={ns}")]).unwrap();
    wait_for("a new namespace gets a copy", || copied().as_deref() == Some("b25l"));
    secret("two");
    wait_for("a change arrives", || copied().as_deref() == Some("dHdv"));
    cp.kubectl(["delete", "secret", "shared", "-n", &target]).unwrap();
    wait_for("the schedule makes it anew", || copied().is_some());
    cp.kubectl(["delete", "secret", "shared", "-n", ns]).unwrap();
    wait_for("the copy goes", || copied().is_none());
    cp.kubectl(["delete", "namespace", &target, "--wait=false"]).unwrap();
}

/// The kind comes after the hooks that watch, check, change and convert its objects.
fn custom_resources(operator: &Operator, ns: &str, group: &str) {
    let cp = control_plane();
    let version = |name: &str, storage: bool, cron: Value| {
        let properties = json!({"cron": cron, "image": {"type": "string"}, "replicas": {"type": "integer"}});
        let spec = json!({"type": "object", "properties": properties});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    let list = json!({"type": "array", "items": {"type": "string"}});
    let crd = format!("crontabs.{group}");
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": crd},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "CronTab", "plural": "crontabs", "singular": "crontab"},
            "versions": [version("v1alpha1", false, list), version("v1", true, json!({"type": "string"}))],
        },
    });
    apply(ns, &body).unwrap();
    cp.kubectl(["wait", "--for=condition=Established", &format!("crd/{crd}")]).unwrap();
    wait_for("its objects are converted", || {
        object(cp, ns, "crd", &crd).is_some_and(|c| c["spec"]["conversion"]["strategy"] == "Webhook")
    });
    let tab = |version: &str, name: &str, cron: Value, image: &str| {
        json!({"apiVersion": format!("{group}/{version}"), "kind": "CronTab", "metadata": {"name": name},
            "spec": {"cron": cron, "image": image}})
    };
    let live = |version: &str, name: &str| {
        cp.get(&format!("/apis/{group}/{version}/namespaces/{ns}/crontabs/{name}"))
    };
    let good = "good.example.com/tool";
    // The API server learns of a new kind and its webhooks in its own time.
    let mut tries = 0;
    let mut first = String::new();
    wait_for("the first is changed", || {
        tries += 1;
        first = format!("first-{tries}");
        let applied = apply(ns, &tab("v1", &first, json!("* * 5"), good)).is_ok();
        applied && live("v1", &first).is_ok_and(|o| o["spec"]["replicas"] == 333)
    });
    wait_said(operator, "105-crd", &format!("CronTab/{first} came"));
    let error = apply(ns, &tab("v1", "bad", json!("* * 5"), "elsewhere.example.com/tool")).unwrap_err();
    assert!(error.contains("denied the request: only images of good.example.com are let in"), "{error}");
    wait_for("the old version is converted", || {
        tries += 1;
        let name = format!("old-{tries}");
        apply(ns, &tab("v1alpha1", &name, json!(["*", "*", "6"]), good)).is_ok()
            && live("v1", &name).is_ok_and(|o| o["spec"]["cron"] == "* * 6")
    });
    assert_eq!(live("v1alpha1", &first).unwrap()["spec"]["cron"], json!(["*", "*", "5"]));
}
