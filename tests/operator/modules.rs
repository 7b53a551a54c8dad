//! What a user does with modules: converge, edit the ConfigMap, delete a piece, switch off, remove, restart.

use std::process::Command;

use crate::support::{Modules, Operator, control_plane, history, is_bookkeeping, object, status, wait_for};

#[test]
fn converges_and_real_helm_reads_it() {
    let cp = control_plane();
    let ns = cp.namespace("converge").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").small("002-gamma").enable(&["alpha", "beta"]);
    let (operator, took) = Operator::converged(cp, ns.name(), modules.path());
    println!("two modules converged in {took:?}");
    for name in ["alpha", "beta"] {
        for kind in ["configmap", "service", "deployment"] {
            assert!(object(cp, ns.name(), kind, name).is_some(), "{kind} {name}");
        }
    }
    assert!(object(cp, ns.name(), "service", "gamma").is_none(), "a module is off unless it is turned on");
    for helm in [cp.helm4(["list", "-n", ns.name(), "-q"]), cp.helm3(["list", "-n", ns.name(), "-q"])] {
        assert_eq!(helm.unwrap(), "alpha\nbeta\n");
    }
    let manifest = cp.helm3(["get", "manifest", "alpha", "-n", ns.name()]).unwrap();
    assert_eq!(manifest.matches("# Source: alpha/templates/").count(), 3, "{manifest}");
    let values = cp.helm4(["get", "values", "alpha", "-n", ns.name(), "-o", "json"]).unwrap();
    assert_eq!(values.trim(), r#"{"alpha":{"size":1},"global":{}}"#);
    assert_eq!(operator.get("/healthz").unwrap().0, 200);
    let metrics = operator.get("/metrics").unwrap().1;
    assert!(metrics.contains("windlass_module_enabled{module=\"gamma\"} 0"), "{metrics}");
    operator.stop();
}

#[test]
fn a_restart_with_nothing_to_do_writes_nothing() {
    let cp = control_plane();
    let ns = cp.namespace("restart").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    let mark = cp.audit_mark().unwrap();
    let (operator, took) = Operator::converged(cp, ns.name(), modules.path());
    println!("restart with nothing to do: {took:?}");
    operator.stop();
    let ours = |e: &&windlass_testing::AuditEvent| e.user_agent.starts_with("windlass/");
    let events = cp.audit_since(mark).unwrap();
    let writes: Vec<_> =
        events.iter().filter(ours).filter(|e| e.namespace == ns.name() && e.is_write()).collect();
    assert!(writes.iter().all(is_bookkeeping), "{writes:?}");
    assert!(events.iter().filter(ours).count() > 0, "the audit log shows the operator's reads");
}

#[test]
fn what_someone_deletes_comes_back() {
    let cp = control_plane();
    let ns = cp.namespace("deleted").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    for kind in ["deployment", "service", "configmap"] {
        let uid = object(cp, ns.name(), kind, "alpha").unwrap()["metadata"]["uid"].clone();
        cp.kubectl(["delete", kind, "alpha", "-n", ns.name(), "--wait=false"]).unwrap();
        let took = wait_for(&format!("{kind} alpha comes back"), || {
            object(cp, ns.name(), kind, "alpha").is_some_and(|o| o["metadata"]["uid"] != uid)
        });
        println!("{kind} back after {took:?}, the looking included");
    }
    assert_eq!(history(cp, ns.name(), "alpha"), [(1, "deployed".to_owned())], "no revision for that");
    operator.stop();
}

#[test]
fn an_edit_of_the_configmap_makes_one_revision() {
    let cp = control_plane();
    let ns = cp.namespace("edit").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    let create = ["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=alpha=size: 2"];
    cp.kubectl(create).unwrap();
    let size = || object(cp, ns.name(), "configmap", "alpha").unwrap()["data"]["size"].clone();
    let took = wait_for("the new size arrives", || size() == "2");
    println!("ConfigMap edit to applied: {took:?}, the looking included");
    wait_for("the second revision is recorded", || {
        history(cp, ns.name(), "alpha") == [(1, "superseded".to_owned()), (2, "deployed".to_owned())]
    });
    assert_eq!(history(cp, ns.name(), "beta"), [(1, "deployed".to_owned())]);
    // The ConfigMap goes: the module is as its own values say again.
    cp.kubectl(["delete", "configmap", "addon-operator", "-n", ns.name()]).unwrap();
    wait_for("the old size is back", || size() == "1");
    operator.stop();
}

#[test]
fn a_module_that_is_switched_off_goes_and_no_other() {
    let cp = control_plane();
    let ns = cp.namespace("off").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    let uid = object(cp, ns.name(), "deployment", "beta").unwrap()["metadata"]["uid"].clone();
    let create =
        ["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=alphaEnabled=false"];
    cp.kubectl(create).unwrap();
    wait_for("the release is gone", || cp.helm4(["list", "-n", ns.name(), "-q"]).unwrap() == "beta\n");
    wait_for("its objects are gone", || {
        ["deployment", "service", "configmap"]
            .iter()
            .all(|kind| object(cp, ns.name(), kind, "alpha").is_none())
    });
    assert_eq!(object(cp, ns.name(), "deployment", "beta").unwrap()["metadata"]["uid"], uid);
    let patch = ["patch", "configmap", "addon-operator", "-n", ns.name(), "--type=merge", "-p"];
    cp.kubectl(patch.iter().chain([&r#"{"data":{"alphaEnabled":"true"}}"#])).unwrap();
    wait_for("it is back", || object(cp, ns.name(), "deployment", "alpha").is_some());
    operator.stop();
}

#[test]
fn removed_modules_go_and_strangers_stay() {
    let cp = control_plane();
    let ns = cp.namespace("removed").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    // A stranger's release in the same namespace.
    let chart = Modules::new();
    chart.small("001-foreign");
    let path = chart.path().join("001-foreign");
    cp.helm4(["install", "foreign", path.to_str().unwrap(), "-n", ns.name(), "--set", "foreign.size=1"])
        .unwrap();
    std::fs::remove_dir_all(modules.path().join("002-beta")).unwrap();
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    assert_eq!(cp.helm4(["list", "-n", ns.name(), "-q"]).unwrap(), "alpha\nforeign\n");
    wait_for("its objects are gone", || object(cp, ns.name(), "deployment", "beta").is_none());
    assert!(object(cp, ns.name(), "deployment", "foreign").is_some());
    operator.stop();
}

#[test]
fn modules_wait_for_those_that_they_name_and_with_the_peers_gate_for_all_lower_ones() {
    let cp = control_plane();
    let there = |ns: &str, name: &str| object(cp, ns, "configmap", name).is_some();
    let tree = |needs: &str| {
        let modules = Modules::new();
        modules.small("001-first").small("002-next").small("003-last").enable(&["first", "next", "last"]);
        modules.write("001-first/templates/bad.yaml", "{{ fail \"not yet\" }}").write(
            "002-next/Chart.yaml",
            &format!("apiVersion: v2\nname: next\nversion: 0.1.0\nannotations: {{windlass.dev/depends-on-modules: '{needs}'}}\n"),
        );
        modules
    };
    let mend = |modules: &Modules| {
        modules.write("001-first/templates/bad.yaml", "");
    };
    let ns = cp.namespace("needs").unwrap();
    let modules = tree("first, nobody");
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    operator.wait_log(&["\"level\":\"ERROR\"", "module next", "there is no module \\\"nobody\\\""]);
    assert!(there(ns.name(), "last") && !there(ns.name(), "next"), "{}", operator.log_end());
    mend(&modules);
    wait_for("who waited gets its turn", || there(ns.name(), "next"));
    operator.stop();

    let ns = cp.namespace("gate").unwrap();
    let modules = tree("");
    let operator = Operator::start_with(cp, ns.name(), modules.path(), &["--strict-order"]);
    operator.wait_log(&["\"module\":\"first\"", "not yet"]);
    assert_eq!(operator.get("/readyz").map(|a| a.0), Some(500));
    assert!(!there(ns.name(), "next") && !there(ns.name(), "last"));
    mend(&modules);
    operator.wait_converged();
    assert!(there(ns.name(), "next") && there(ns.name(), "last"));
    operator.stop();
}

#[test]
fn a_module_is_off_with_what_it_depends_on() {
    let cp = control_plane();
    let ns = cp.namespace("needs-off").unwrap();
    let modules = Modules::new();
    modules.small("001-base").small("002-next").small("003-last").enable(&["base", "next", "last"]);
    for (directory, needs) in [("002-next", "base"), ("003-last", "next")] {
        let name = &directory[4..];
        modules.write(
            &format!("{directory}/Chart.yaml"),
            &format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\nannotations: {{windlass.dev/depends-on-modules: {needs}}}\n"),
        );
    }
    let there = |name: &str| object(cp, ns.name(), "configmap", name).is_some();
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    assert!(there("base") && there("next") && there("last"), "{}", operator.log_end());
    let create =
        ["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=baseEnabled=false"];
    cp.kubectl(create).unwrap();
    wait_for("all of them go", || !there("base") && !there("next") && !there("last"));
    wait_for("it is told why", || {
        let status = status(ns.name(), "last");
        status["reason"] == "DependencyOff"
            && status["message"].as_str().unwrap().starts_with("module next is off")
    });
    // One that looks on says so, too.
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["operator", "--observe", "-n", ns.name(), "--modules-dir"]).arg(modules.path());
    let out = command.env("KUBECONFIG", cp.kubeconfig()).output().unwrap();
    let told = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && told.contains("module base is off, and it depends on"), "{told}");
    let patch = ["patch", "configmap", "addon-operator", "-n", ns.name(), "--type=merge", "-p"];
    cp.kubectl(patch.iter().chain([&r#"{"data":{"baseEnabled":"true"}}"#])).unwrap();
    wait_for("all of them are back", || there("base") && there("next") && there("last"));
    operator.stop();
}

#[test]
fn values_are_checked_strictly_and_a_release_is_left_alone_where_that_is_asked_for() {
    let cp = control_plane();
    let ns = cp.namespace("asked").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    operator.stop();
    // Both are off: the one that is named stays, under either owner's flag.
    modules.write("values.yaml", "{}\n");
    let kubeconfig = cp.kubeconfig().to_string_lossy();
    let variables = [("HELM_IGNORE_RELEASE", "alpha")];
    let operator = Operator::spawn_in(&kubeconfig, ns.name(), modules.path(), &[], &variables);
    wait_for("the other one goes", || object(cp, ns.name(), "deployment", "beta").is_none());
    operator.wait_converged();
    operator.stop();
    assert!(object(cp, ns.name(), "deployment", "alpha").is_some());
    assert_eq!(history(cp, ns.name(), "alpha"), [(1, "deployed".to_owned())]);
    // Without a values.yaml nothing starts, if that is asked for.
    std::fs::remove_file(modules.path().join("002-beta/values.yaml")).unwrap();
    let variables = [("STRICT_CHECK_VALUES_MODE_ENABLED", "true")];
    let strict = Operator::spawn_in(&kubeconfig, ns.name(), modules.path(), &[], &variables);
    strict.wait_log(&["002-beta/values.yaml is missing, and values are checked strictly"]);
}
