//! What `doctor charts` and `operator --observe` tell before the switch from operator-sdk's Helm operator, without a write.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use windlass_testing::ControlPlane;

use super::chart_objects::{GROUP, chart, control_plane};
use super::write;

/// What a command prints. It must write nothing in the namespace.
fn told(cp: &ControlPlane, namespace: &str, directory: &Path, args: &[&str]) -> String {
    let mark = cp.audit_mark().unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(args)
        .args(["-n", namespace])
        .current_dir(directory)
        .env("KUBECONFIG", cp.kubeconfig())
        .env("WATCH_NAMESPACE", namespace)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    let writes = cp.writes_since(mark).unwrap();
    let own: Vec<String> = writes
        .iter()
        .filter(|event| event.namespace == namespace && event.user_agent.contains("windlass"))
        .map(|event| format!("{} {}/{}", event.verb, event.resource, event.name))
        .collect();
    assert_eq!(own, [""; 0], "{text}");
    text
}

#[test]
fn releases_of_operator_sdk_are_told_before_they_are_taken_over() {
    let cp = control_plane();
    let ns = cp.namespace("takeover").unwrap();
    let n = ns.name();
    let root = tempfile::tempdir().unwrap();
    chart(&root.path().join("cache"));
    let entry = |kind: &str| {
        format!("- {{group: {GROUP}, version: v1, kind: {kind}, chart: cache, dryRunOption: server}}\n")
    };
    write(root.path(), "watches.yaml", &(entry("Cache") + &entry("Store")));
    // As operator-sdk has made it: a release with the object's name, without a mark.
    let path = root.path().join("cache");
    let install = ["install", "web", path.to_str().unwrap(), "-n", n, "--set", "size=2"];
    cp.helm4(install).unwrap();
    let apply = |kind: &str, name: &str, spec: &serde_json::Value| {
        let object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name, "namespace": n}, "spec": spec});
        cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
    };
    apply("Cache", "web", &json!({"size": 2}));
    apply("Cache", "new", &json!({"size": 3}));
    apply("Cache", "wrong", &json!({"size": "many"}));
    let other = cp.namespace("takeover").unwrap();
    let elsewhere = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Cache", "metadata": {"name": "far", "namespace": other.name()}});
    cp.kubectl_with(["apply", "-f", "-"], &elsewhere.to_string()).unwrap();
    let text = told(cp, n, root.path(), &["doctor", "charts"]);
    assert!(!text.contains(&format!("{}/far", other.name())), "{text}");
    let web = format!("Cache.{GROUP} {n}/web");
    for expected in [
        "watches.yaml: entry 1 (Cache of charts.test.windlass.dev): dryRunOption".to_owned(),
        format!("would change: {web}: "),
        format!("would change: Cache.{GROUP} {n}/new: "),
        format!("cannot tell: Cache.{GROUP} {n}/wrong: render: values don't meet"),
        format!("differs: {web}: release {n}/web is taken over"),
        "objects of charts' kinds: 0 unchanged, 2 would get a new revision, 0 not managed, ".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected}: {text}");
    }
    // Another kind's object of that name gets a release of its own.
    apply("Store", "web", &json!({}));
    let record = cp.kubectl(["get", "secret", "sh.helm.release.v1.web.v1", "-n", n, "-o", "name"]).unwrap();
    let marks = [format!("windlass.dev/owner=cache.{GROUP}"), "windlass.dev/owner-name=web".to_owned()];
    cp.kubectl(["label", record.trim(), "-n", n, &marks[0], &marks[1]]).unwrap();
    let observe = ["operator", "--observe", "--controllers=charts", "--watches-file", "watches.yaml"];
    let text = told(cp, n, root.path(), &observe);
    let store = format!("Store.{GROUP} {n}/web");
    for expected in [
        format!("{store}: its release is called web-"),
        format!("{store}: would change:\n"),
        format!("{web}: would change:\n"),
        "objects of charts' kinds would change\n".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected}: {text}");
    }
}
