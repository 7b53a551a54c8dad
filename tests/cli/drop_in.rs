//! What scripts notice when `helm` is Windlass: records after failures, the time of a record, which flags go together, kubeconfigs.

use super::{chart, control_plane, run, windlass};
use serde_json::Value;
use std::process::Command;
use windlass_testing::{Namespace, write_file};

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: \"{{ .Release.Name }}-s\"}\n\
    spec: {ports: [{port: {{ .Values.port | default 80 }}}]}\n";
const UNKNOWN: &str = "apiVersion: none.example/v1\nkind: None\nmetadata: {name: none}\n";
const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: nones.none.example}\nspec:\n  \
    group: none.example\n  scope: Namespaced\n  names: {kind: None, plural: nones, singular: none}\n  versions:\n  - name: v1\n    \
    served: true\n    storage: true\n    schema: {openAPIV3Schema: {type: object}}\n";

/// Revisions with their status, as Helm reads them.
fn statuses(namespace: &Namespace<'_>, release: &str) -> Vec<String> {
    let args = ["history", release, "-n", namespace.name(), "-o", "json"];
    let Ok(text) = control_plane().helm4(args) else { return Vec::new() };
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    all.iter().map(|r| format!("{} {}", r["revision"], r["status"].as_str().unwrap())).collect()
}

/// Runs both with the same arguments, each in a namespace of its own; whether they succeed.
fn both(spaces: &[Namespace<'static>; 2], args: &[&str]) -> bool {
    let [mine, theirs] = [0, 1].map(|i| [args, &["-n", spaces[i].name()]].concat());
    let (mine, theirs) = (run(&mine), control_plane().helm4(theirs));
    assert_eq!(mine.status.success(), theirs.is_ok(), "{args:?} {mine:?} {theirs:?}");
    mine.status.success()
}

fn spaces(name: &str) -> [Namespace<'static>; 2] {
    ["mine", "theirs"].map(|whose| control_plane().namespace(&format!("{name}-{whose}")).unwrap())
}

#[test]
fn records_after_failures_have_helms_statuses() {
    let spaces = spaces("failures");
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    write_file(dir.path().join("templates/service.yaml"), SERVICE);
    let steps: [(&[&str], bool, &[&str]); 6] = [
        (&["install", "r", path, "--set", "port=700000"], false, &["1 failed"]),
        (&["upgrade", "r", path, "--reset-values"], true, &["1 superseded", "2 deployed"]),
        (&["rollback", "r", "1"], false, &["1 superseded", "2 superseded", "3 failed"]),
        (&["rollback", "r", "1"], false, &["1 superseded", "2 superseded", "3 superseded", "4 failed"]),
        (
            &["upgrade", "r", path, "--reset-values"],
            true,
            &["1 superseded", "2 superseded", "3 superseded", "4 superseded", "5 deployed"],
        ),
        (
            &["upgrade", "r", path, "--set", "port=700000"],
            false,
            &["1 superseded", "2 superseded", "3 superseded", "4 superseded", "5 deployed", "6 failed"],
        ),
    ];
    for (step, succeeds, wanted) in steps {
        assert_eq!(both(&spaces, step), succeeds, "{step:?}");
        let [mine, theirs] = [0, 1].map(|i| statuses(&spaces[i], "r"));
        assert_eq!(mine, theirs, "after {step:?}");
        assert_eq!(mine, wanted, "after {step:?}");
    }
}

#[test]
fn objects_of_a_displaced_revision_are_pruned_later() {
    let cp = control_plane();
    let ns = cp.namespace("displaced").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    write_file(dir.path().join("templates/service.yaml"), SERVICE);
    assert!(!run(&["install", "r", path, "-n", n, "--set", "port=700000"]).status.success());
    write_file(
        dir.path().join("templates/more.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n",
    );
    windlass(&["upgrade", "r", path, "-n", n, "--reset-values"]);
    assert!(!run(&["rollback", "r", "1", "-n", n]).status.success());
    std::fs::remove_file(dir.path().join("templates/more.yaml")).unwrap();
    // The object is only in revision 2, which is no longer deployed.
    let maps = || cp.kubectl(["get", "configmap", "-n", n, "-o", "name"]).unwrap();
    assert!(maps().contains("configmap/more"));
    assert!(!run(&["upgrade", "r", path, "-n", n, "--set", "port=700000"]).status.success());
    windlass(&["upgrade", "r", path, "-n", n, "--reset-values"]);
    assert!(!maps().contains("configmap/more"), "{}", maps());
}

#[test]
fn a_kind_that_is_not_served_leaves_no_record() {
    let spaces = spaces("kinds");
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    write_file(dir.path().join("templates/unknown.yaml"), UNKNOWN);
    write_file(dir.path().join("crds/none.yaml"), CRD);
    assert!(!both(&spaces, &["install", "r", path, "--skip-crds"]));
    let label = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: labelled, labels: {version: 1}}\n";
    write_file(dir.path().join("templates/unknown.yaml"), label);
    let args = ["install", "r", path, "-n", spaces[0].name(), "--skip-crds"];
    let told = String::from_utf8(run(&args).stderr).unwrap();
    assert_eq!(
        told,
        "Error: INSTALLATION FAILED: unable to build kubernetes objects from release manifest: unable to decode \"\": json: cannot unmarshal \
         number into Go struct field ObjectMeta.metadata.labels of type string\n"
    );
    assert!(!both(&spaces, &["install", "r", path, "--skip-crds"]));
    assert_eq!([0, 1].map(|i| statuses(&spaces[i], "r")), [Vec::<String>::new(), Vec::new()]);
}

#[test]
fn objects_are_replaced_by_client_side_apply_alone() {
    let spaces = spaces("replace");
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    assert!(both(&spaces, &["install", "r", path, "--force-replace"]));
    assert!(!both(&spaces, &["upgrade", "r", path, "--set", "size=2", "--force-replace"]));
    assert!(both(
        &spaces,
        &["upgrade", "r", path, "--set", "size=3", "--force-replace", "--server-side=false"]
    ));
    assert!(both(&spaces, &["upgrade", "r", path, "--set", "size=4", "--force-replace"]));
    assert!(!both(&spaces, &["upgrade", "r", path, "--set", "size=5", "--force-replace", "--server-side"]));
    for ns in &spaces {
        let args = ["get", "configmap", "r", "-n", ns.name(), "-o", "jsonpath={.data.size}"];
        assert_eq!(control_plane().kubectl(args).unwrap(), "4");
    }
}

#[test]
fn a_record_has_the_time_of_its_writer() {
    let cp = control_plane();
    let ns = cp.namespace("zone").unwrap();
    let dir = chart();
    let out = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["install", "r", dir.path().to_str().unwrap(), "-n", ns.name()])
        .env("KUBECONFIG", cp.kubeconfig())
        .env("TZ", "Asia/Kolkata")
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let metadata = cp.helm4(["get", "metadata", "r", "-n", ns.name(), "-o", "json"]).unwrap();
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let at = metadata["deployedAt"].as_str().unwrap();
    assert!(at.ends_with("+05:30"), "{at}");
    // Read elsewhere, it is the same for both.
    let args = ["list", "-n", ns.name()];
    assert_eq!(windlass(&args), cp.helm4(args).unwrap());
}

#[test]
fn what_was_just_made_is_told_with_its_values() {
    let spaces = spaces("told");
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    for verb in [&["install"][..], &["upgrade"], &["upgrade", "--set", "size=2"]] {
        let args = [verb, &["r", path, "--debug", "--color", "always"]].concat();
        let [mine, theirs] = [0, 1].map(|i| {
            let args = [&args[..], &["-n", spaces[i].name()]].concat();
            let text = if i == 0 { windlass(&args) } else { control_plane().helm4(args).unwrap() };
            let lines = text.lines().filter(|line| !line.starts_with("LAST DEPLOYED"));
            lines.map(|line| line.replace(spaces[i].name(), "NS")).collect::<Vec<_>>()
        });
        assert_eq!(mine, theirs, "{verb:?}");
    }
}

#[test]
fn kubeconfigs_are_read_from_a_list() {
    let cp = control_plane();
    let ns = cp.namespace("configs").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    std::fs::write(&other, "apiVersion: v1\nkind: Config\nclusters: []\n").unwrap();
    let list = format!(":{}/none:{}:{}", dir.path().display(), other.display(), cp.kubeconfig().display());
    let out = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["list", "-n", ns.name(), "-q"])
        .env("KUBECONFIG", list)
        .env("HELM_KUBEASGROUPS", "")
        .env("HELM_COLOR", "")
        .output()
        .unwrap();
    assert!(out.status.success() && out.stdout.is_empty(), "{out:?}");
}
