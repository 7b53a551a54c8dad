//! `windlass init operator`: the repository passes its own test, and a real API server takes what is in it.

use std::path::Path;
use std::process::Command;

use super::{control_plane, fails, run, windlass};
use serde_json::Value;

fn fixture(name: &str) -> String {
    format!("{}/fixtures/chart-resources/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Writes the repository for the Liberty application in a directory.
fn write_repository(target: &Path, group: &str) {
    let (chart, overlay, sample) = (fixture("liberty"), fixture("overlay.yaml"), fixture("plants.yaml"));
    let out = run(&[
        "init",
        "operator",
        &chart,
        target.to_str().unwrap(),
        "--kind",
        "LibertyApp",
        "--group",
        group,
        "--overlay",
        &overlay,
        "--sample",
        "plants",
        "--values",
        &sample,
    ]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// Runs the repository's own test, with windlass alone in its path beside the system's tools.
fn own_test(repository: &Path) -> (bool, String) {
    let out = Command::new(repository.join("test.sh"))
        .env("WINDLASS", env!("CARGO_BIN_EXE_windlass"))
        .env("KUBECONFIG", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    (out.status.success(), text)
}

#[test]
fn a_new_repository_passes_its_own_test_until_its_chart_changes() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("operator");
    write_repository(&target, "liberty.example.com");
    let (passed, text) = own_test(&target);
    assert!(passed && text.contains("\nall checks passed\n"), "{text}");
    let error = fails(&["init", "operator", &fixture("liberty"), target.to_str().unwrap()]);
    assert!(error.contains("the directory is not empty"), "{error}");
    let error = fails(&["init", "operator", &fixture("liberty"), "new", "--sample", "Plants"]);
    assert!(error.contains("--sample \"Plants\""), "{error}");
    // A new value of the chart.
    let values = target.join("charts/liberty/values.yaml");
    let text = std::fs::read_to_string(&values).unwrap();
    std::fs::write(&values, text + "\n# -- How many requests at once\nthreads: 10\n").unwrap();
    let (passed, text) = own_test(&target);
    assert!(!passed && text.contains("config/crd.yaml is out of date"), "{text}");
    std::fs::write(
        target.join("charts/liberty/templates/job.yaml"),
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n",
    )
    .unwrap();
    let flags = ["--group", "liberty.example.com", "--kind", "LibertyApp", "--plural", "libertyapps"];
    let (chart, overlay) = (target.join("charts/liberty"), target.join("overlay.yaml"));
    let (chart, overlay) = (chart.to_str().unwrap(), overlay.to_str().unwrap());
    let crd = windlass(&[&["crd", chart, "--overlay", overlay], &flags[..]].concat());
    std::fs::write(target.join("config/crd.yaml"), crd).unwrap();
    let (passed, text) = own_test(&target);
    assert!(!passed && text.contains("config/rbac.yaml is out of date"), "{text}");
}

#[test]
fn an_api_server_takes_what_a_repository_builds() {
    let cp = control_plane();
    let ns = cp.namespace("initop").unwrap();
    let n = ns.name();
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("operator");
    let group = format!("liberty.{n}.example.com");
    write_repository(&target, &group);
    let built = windlass(&["build", target.join("config").to_str().unwrap()]);
    let mut kinds: Vec<String> = Vec::new();
    for document in built.split("---\n") {
        let Some(kind) = document.lines().find_map(|line| line.strip_prefix("kind: ")) else { continue };
        kinds.push(kind.to_owned());
        // The API server has no ChartResources yet. The rest is taken as it is, in a namespace that is there.
        let here = document.replace("namespace: libertyapp-operator\n", &format!("namespace: {n}\n"));
        if kind != "ChartResource" {
            cp.kubectl_with(["apply", "--server-side", "--dry-run=server", "-f", "-"], &here)
                .unwrap_or_else(|error| panic!("{error}\n{document}"));
        }
    }
    kinds.sort();
    assert_eq!(
        kinds,
        [
            "ChartResource",
            "ClusterRole",
            "ClusterRoleBinding",
            "CustomResourceDefinition",
            "CustomResourceDefinition",
            "Deployment",
            "Namespace",
            "Role",
            "RoleBinding",
            "ServiceAccount"
        ]
    );
    assert!(built.contains("image: libertyapp-operator:0.1.0\n"), "{built}");
    let crd = std::fs::read_to_string(target.join("config/crd.yaml")).unwrap();
    cp.kubectl_with(["apply", "--server-side", "-f", "-"], &crd).unwrap();
    let name = format!("libertyapps.{group}");
    super::crd::wait_established(&[&name]);
    let sample = target.join("samples/plants.yaml");
    cp.kubectl(["create", "-n", n, "-f", sample.to_str().unwrap()]).unwrap();
    let live: Value = serde_json::from_str(
        &cp.kubectl(["get", &format!("libertyapps.{group}"), "plants", "-n", n, "-o", "json"]).unwrap(),
    )
    .unwrap();
    assert_eq!(live["spec"]["image"]["pullSecret"], "my-pull-secret");
    assert_eq!(live["spec"]["service"]["targetPort"], 9080);
    cp.kubectl(["delete", "crd", &name]).unwrap();
}
