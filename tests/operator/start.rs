//! What cannot be read when the operator starts: nothing is concluded from it.

use std::path::Path;
use std::process::Command;

use crate::support::{Modules, Operator, control_plane, history, object, status, wait_for};

fn create(namespace: &str, data: &[&str]) {
    let literals: Vec<String> = data.iter().map(|d| format!("--from-literal={d}")).collect();
    let create = ["create", "configmap", "addon-operator", "-n", namespace];
    control_plane().kubectl(create.into_iter().chain(literals.iter().map(String::as_str))).unwrap();
}

fn patch(namespace: &str, data: &str) {
    let patch = ["patch", "configmap", "addon-operator", "-n", namespace, "--type=merge", "-p"];
    control_plane().kubectl(patch.iter().chain([&format!("{{\"data\":{data}}}").as_str()])).unwrap();
}

#[test]
fn a_root_that_cannot_be_read_ends_the_start_and_no_module_is_taken_for_off() {
    let cp = control_plane();
    let ns = cp.namespace("unread").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    let both = format!("{}:{}", modules.path().display(), modules.path().join("nowhere").display());
    for (values, roots, part) in [
        ("alphaEnabled: [\n", modules.path(), "values.yaml:"),
        ("alphaEnabled: true\n", Path::new(&both), "nowhere: No such file or directory"),
    ] {
        modules.write("values.yaml", values);
        let mut operator = Operator::start(cp, ns.name(), roots);
        operator.wait_log(&["Error: ", part, "nothing is done"]);
        operator.wait_failed();
        let observe = ["operator", "--observe", "-n", ns.name(), "--modules-dir", roots.to_str().unwrap()];
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let out = command.args(observe).env("KUBECONFIG", cp.kubeconfig()).output().unwrap();
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(1) && told.contains(part), "{told}");
        assert!(object(cp, ns.name(), "deployment", "alpha").is_some());
        assert_eq!(history(cp, ns.name(), "alpha"), [(1, "deployed".to_owned())]);
    }
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    assert_eq!(history(cp, ns.name(), "alpha"), [(1, "deployed".to_owned())]);
}

#[test]
fn flags_that_cannot_be_read_leave_modules_as_they_are() {
    let cp = control_plane();
    let ns = cp.namespace("unread-flags").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").small("003-gamma").enable(&["beta", "gamma"]);
    create(ns.name(), &["alphaEnabled=true", "betaMaintenance=NoResourceReconciliation"]);
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    for module in ["beta", "gamma"] {
        cp.kubectl(["delete", "service", module, "-n", ns.name()]).unwrap();
    }
    patch(ns.name(), r#"{"alphaEnabled":"maybe","betaMaintenance":"sometimes"}"#);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    let service = |name: &str| object(cp, ns.name(), "service", name).is_some();
    wait_for("the others converge", || service("gamma"));
    let undecided = |status: &serde_json::Value| status["reason"] == "Undecided";
    wait_for("it is told", || {
        let status = status(ns.name(), "alpha");
        undecided(&status) && status["lastError"].as_str().is_some_and(|e| e.contains("\"maybe\""))
    });
    assert!(service("alpha"), "what is not known to be off is not uninstalled");
    assert!(!service("beta"), "its record says that it is left alone");
    let (observed, told) = observe(ns.name(), modules.path());
    assert!(observed != Some(0) && told.contains("maybe") && !told.contains("ninstall"), "{told}");
    patch(ns.name(), r#"{"alphaEnabled":"false","betaMaintenance":""}"#);
    wait_for("the mended flags count", || !service("alpha") && service("beta"));
    operator.stop();
}

fn observe(namespace: &str, modules: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["operator", "--observe", "-n", namespace, "--modules-dir"]).arg(modules);
    let out = command.env("KUBECONFIG", control_plane().kubeconfig()).output().unwrap();
    (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
}

#[test]
fn modules_wait_for_global_values_that_cannot_be_used() {
    let cp = control_plane();
    let ns = cp.namespace("unread-global").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    create(ns.name(), &["global=a: ["]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    operator.wait_log(&["\"module\":\"alpha\"", "ConfigMap: key global line "]);
    assert!(object(cp, ns.name(), "configmap", "alpha").is_none(), "it is not released without them");
    let errors = || {
        let text = operator.get("/metrics").unwrap().1;
        let series = text.lines().find_map(|l| l.strip_prefix("addon_operator_config_values_errors_total "));
        series.map_or(0.0, |n| n.parse::<f64>().unwrap())
    };
    wait_for("it is counted until it is mended", || errors() >= 3.0);
    // Mended by values that change nothing.
    patch(ns.name(), r#"{"global":"{}"}"#);
    wait_for("the module runs", || object(cp, ns.name(), "configmap", "alpha").is_some());
    // From here on the last good ones stay in force.
    patch(ns.name(), r#"{"global":"a: [","alpha":"size: 4"}"#);
    wait_for("its own section applies", || {
        object(cp, ns.name(), "configmap", "alpha").unwrap()["data"]["size"] == "4"
    });
    operator.stop();
}

#[test]
fn a_flag_comes_before_the_newer_name_of_a_variable_that_before_the_older_one() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).display().to_string();
    let (flag, newer, older) = (place("flag"), place("newer"), place("older"));
    let told = |arguments: &[&str], newer: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["operator", "--observe"]).args(arguments);
        let variables = [
            ("ADDON_OPERATOR_MODULES_DIR", newer),
            ("MODULES_DIR", &older),
            ("ADDON_OPERATOR_STRICT_CHECK_VALUES_MODE_ENABLED", "True"),
            ("HELM_HISTORY_MAX", ""),
            ("ADDON_OPERATOR_LISTEN_ADDRESS", ""),
            ("HELM_NAMESPACE", ""),
            ("TILLER_NAMESPACE", "x"),
        ];
        command.envs(variables).env("KUBECONFIG", control_plane().kubeconfig());
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let names = |text: &str, path: &str| text.contains(&format!("modules directory {path}: No such file"));
    let text = told(&["--modules-dir", &flag], &newer);
    assert!(names(&text, &flag), "{text}");
    assert!(!text.contains("unreachable"), "it is not the cluster's doing: {text}");
    assert!(text.contains("TILLER_NAMESPACE has no effect"), "{text}");
    let text = told(&[], &newer);
    assert!(names(&text, &newer), "{text}");
    let text = told(&[], "");
    assert!(names(&text, &older), "{text}");
}
