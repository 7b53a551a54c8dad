//! `windlass rbac CHART`: an account with the printed rights installs the chart with any values, and one with less does not.

use std::path::Path;
use std::process::{Command, Output};

use super::{control_plane, run, windlass};

fn liberty() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/chart-resources/liberty");
    path.to_owned()
}

/// Runs a command as the user of a kubeconfig.
fn run_as(kubeconfig: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windlass")).args(args).env("KUBECONFIG", kubeconfig).output().unwrap()
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn an_account_with_the_printed_rights_installs_a_chart_with_any_values() {
    let cp = control_plane();
    let ns = cp.namespace("chartrbac").unwrap();
    let n = ns.name();
    let chart = liberty();
    let printed = run(&["rbac", &chart, "-n", n, "--service-account", "deployer", "--impersonated"]);
    let said = stderr(&printed);
    assert!(printed.status.success() && said.contains("of which 0 failed"), "{said}");
    let roles = String::from_utf8(printed.stdout).unwrap();
    // What the chart makes with no cluster-wide object takes no right in the cluster.
    assert!(!roles.contains("ClusterRole\n"), "{roles}");
    cp.kubectl(["create", "serviceaccount", "deployer", "-n", n]).unwrap();
    cp.kubectl_with(["apply", "-f", "-"], &roles).unwrap();
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let user = cp.kubeconfig_as(&format!("system:serviceaccount:{n}:deployer"), &groups).unwrap();
    let succeeds = |args: &[&str]| {
        let out = run_as(&user, &[args, &["-n", n]].concat());
        let said = stderr(&out);
        assert!(out.status.success() && !said.contains("cannot "), "{args:?}: {said}");
    };
    succeeds(&["install", "plants", &chart, "--wait"]);
    succeeds(&["upgrade", "plants", &chart, "--set", "ingress.enabled=true,autoscaling.enabled=true"]);
    succeeds(&["upgrade", "plants", &chart, "--set", "persistence.enabled=true,rbac.create=false"]);
    let live = cp.kubectl(["get", "statefulset,deployment,hpa,ingress", "-n", n, "-o", "name"]).unwrap();
    assert_eq!(live, "statefulset.apps/plants\n");
    succeeds(&["uninstall", "plants"]);
    // Without the rights to one kind it is refused.
    let mut role = cp.find(&["role", "deployer-liberty", "-n", n]).unwrap().unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    let all = rules.len();
    rules.retain(|rule| rule["apiGroups"][0] != "networking.k8s.io");
    assert_eq!(rules.len(), all - 1);
    cp.kubectl_with(["replace", "-f", "-"], &role.to_string()).unwrap();
    let refused = run_as(&user, &["install", "plants", &chart, "-n", n, "--set", "ingress.enabled=true"]);
    let said = stderr(&refused);
    assert!(!refused.status.success() && said.contains("ingresses.networking.k8s.io"), "{said}");
}

#[test]
fn rights_name_what_values_and_api_versions_turn_on() {
    let chart = liberty();
    let roles =
        windlass(&["rbac", &chart, "-n", "apps", "--kind", "LibertyApp", "--group", "liberty.example.com"]);
    for expected in [
        "- deployments\n  - statefulsets\n",
        "- horizontalpodautoscalers\n",
        "- ingresses\n",
        "- servicemonitors\n",
        "- libertyapps/status\n",
        "- endpointslices\n",
        "name: windlass-liberty\n",
    ] {
        assert!(roles.contains(expected), "{expected}: {roles}");
    }
    // The role that the chart makes may be granted because its rights are there, not by escalation.
    assert!(!roles.contains("escalate") && !roles.contains("- bind"), "{roles}");
    let fixed = windlass(&["rbac", &chart, "-n", "apps", "--impersonated", "--release-namespace", "shop"]);
    assert!(fixed.contains("namespace: shop\n") && !fixed.contains("chartresources"), "{fixed}");
    let error = super::fails(&["rbac", "./no/such/chart"]);
    assert!(error.contains("./no/such/chart"), "{error}");
    // Twice the same.
    assert_eq!(
        fixed,
        windlass(&["rbac", &chart, "-n", "apps", "--impersonated", "--release-namespace", "shop"])
    );
}
