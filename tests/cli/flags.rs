//! Flags that Helm does not have, or that change what becomes of others' objects: each with and without.

use super::{chart, control_plane, fails, windlass};
use std::path::Path;

fn template(chart: &Path, name: &str, text: &str) {
    std::fs::write(chart.join("templates").join(name), text).unwrap();
}

const STUCK: &str = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: stuck}\nspec: {template: {spec: {restartPolicy: Never, nodeSelector: \
    {no: such-node}, containers: [{name: main, image: x}]}}}\n";
const WORKLOAD: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  selector: {matchLabels: {app: d}}\n  template: \
    {metadata: {labels: {app: d}}, spec: {containers: [{name: main, image: x}]}}\n";

#[test]
fn fields_and_objects_of_others() {
    let cp = control_plane();
    let ns = cp.namespace("owners").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    cp.kubectl(["create", "configmap", "one", "-n", n]).unwrap();
    let told = fails(&["install", "one", path, "-n", n]);
    assert!(told.contains("ConfigMap \"one\"") && told.contains("cannot be imported"), "{told}");
    windlass(&["install", "one", path, "-n", n, "--take-ownership"]);
    let size = || cp.kubectl(["get", "configmap", "one", "-n", n, "-o", "jsonpath={.data.size}"]).unwrap();
    let patch =
        || cp.kubectl(["patch", "configmap", "one", "-n", n, "-p", r#"{"data":{"size":"9"}}"#]).unwrap();
    patch();
    let told = fails(&["upgrade", "one", path, "-n", n, "--set", "size=2"]);
    assert!(told.contains("data.size is owned by \"kubectl-patch\""), "{told}");
    assert!(told.contains("--force-conflicts") && told.contains("--leave-to-owner"), "{told}");
    windlass(&[
        "upgrade",
        "one",
        path,
        "-n",
        n,
        "--set",
        "size=2",
        "--leave-to-owner",
        "ConfigMap/one:data.size",
    ]);
    assert_eq!(size(), "9");
    windlass(&["upgrade", "one", path, "-n", n, "--set", "size=2", "--force-conflicts"]);
    assert_eq!(size(), "2");
}

#[test]
fn locks_and_deadlines() {
    let cp = control_plane();
    let ns = cp.namespace("bounds").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    windlass(&["install", "one", path, "-n", n]);
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let lease = format!(
        "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {{name: windlass-one, namespace: {n}}}\nspec: {{holderIdentity: \
         someone/elsewhere.1.1/1/1/a, leaseDurationSeconds: 15, renewTime: \"{now}\"}}\n"
    );
    cp.kubectl_with(["apply", "-f", "-"], &lease).unwrap();
    let told = fails(&["upgrade", "one", path, "-n", n]);
    assert!(told.contains("someone holds Lease windlass-one") && told.contains("--break-lock"), "{told}");
    windlass(&["upgrade", "one", path, "-n", n, "--break-lock"]);
    cp.kubectl_with(["apply", "-f", "-"], &lease).unwrap();
    let told = fails(&["test", "one", "-n", n]);
    assert!(told.contains("someone holds Lease windlass-one"), "{told}");
    windlass(&["test", "one", "-n", n, "--break-lock"]);

    template(dir.path(), "stuck.yaml", STUCK);
    // Readiness is asked for of Jobs only where that is said.
    windlass(&["upgrade", "one", path, "-n", n, "--wait", "--timeout", "30s"]);
    let jobs = ["upgrade", "one", path, "-n", n, "--wait", "--wait-for-jobs"];
    let told = fails(&[&jobs[..], &["--timeout", "1s"]].concat());
    assert!(told.contains("Job/") && told.contains("context deadline exceeded"), "{told}");
    let told = fails(&[&jobs[..], &["--deadline", "2s"]].concat());
    assert!(told.contains("not done within its deadline of 2s"), "{told}");
    let told =
        fails(&["upgrade", "one", path, "-n", n, "--wait=legacy", "--wait-for-jobs", "--timeout", "1s"]);
    assert!(
        told.contains("context deadline exceeded") && !told.contains("Job/"),
        "as Helm 3 says it: {told}"
    );

    // An uninstall ends as well, and the next one goes on with it.
    let held = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [example.com/hold]}\n";
    template(dir.path(), "stuck.yaml", held);
    windlass(&["upgrade", "one", path, "-n", n]);
    let told = fails(&["uninstall", "one", "-n", n, "--wait", "--deadline", "2s"]);
    assert!(told.contains("not done within its deadline of 2s"), "{told}");
    let free = r#"{"metadata": {"finalizers": null}}"#;
    cp.kubectl(["patch", "configmap", "held", "-n", n, "--type", "merge", "-p", free]).unwrap();
    windlass(&["uninstall", "one", "-n", n, "--wait"]);
}

#[test]
fn what_an_object_made_may_stay() {
    let cp = control_plane();
    let ns = cp.namespace("orphans").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    template(dir.path(), "d.yaml", WORKLOAD);
    let sets = || cp.kubectl(["get", "replicaset", "-n", n, "-l", "app=d", "-o", "name"]).unwrap();
    windlass(&["install", "one", path, "-n", n, "--wait"]);
    let made = sets();
    assert!(made.starts_with("replicaset.apps/d-"), "{made}");
    windlass(&["uninstall", "one", "-n", n, "--cascade", "orphan", "--wait"]);
    assert_eq!(sets(), made);
    assert_eq!(cp.kubectl(["get", "deployment", "-n", n, "-o", "name"]).unwrap(), "");
}
