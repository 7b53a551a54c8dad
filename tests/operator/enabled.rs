//! `enabled` scripts of modules: what they are told, what they say, and what becomes of one that fails.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Modules, Operator, control_plane, object, status, wait_for};

fn script(modules: &Modules, module: &str, text: &str) {
    let path = format!("{module}/enabled");
    modules.write(&path, &format!("#!/bin/sh\n{text}\n"));
    let path = modules.path().join(path);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn scripts_have_the_last_word_and_a_failed_one_changes_nothing() {
    let cp = control_plane();
    let ns = cp.namespace("enabled").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").small("003-gamma").enable(&["alpha", "beta", "gamma"]);
    // On while its size is below 3; off with a reason otherwise.
    script(
        &modules,
        "001-alpha",
        r#"case "$(/usr/bin/tr -d ' \n' <"$VALUES_PATH")" in *'"alpha":{"size":'[12]'}'*) echo true >"$MODULE_ENABLED_RESULT";; *) echo false >"$MODULE_ENABLED_RESULT"; echo too large >"$MODULE_ENABLED_REASON";; esac"#,
    );
    // On only if the module before it is.
    script(
        &modules,
        "002-beta",
        r#"case "$(/usr/bin/tr -d ' \n' <"$VALUES_PATH")" in *'"enabledModules":["alpha"]'*) echo " true " >"$MODULE_ENABLED_RESULT";; *) echo false >"$MODULE_ENABLED_RESULT";; esac"#,
    );
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    let there = |name: &str| object(cp, ns.name(), "deployment", name).is_some();
    for name in ["alpha", "beta", "gamma"] {
        wait_for("the module is on", || there(name));
    }
    // Global values make the scripts run again.
    let map = [
        "create",
        "configmap",
        "addon-operator",
        "-n",
        ns.name(),
        "--from-literal=alpha=size: 3",
        "--from-literal=global=a: 1",
    ];
    cp.kubectl(map).unwrap();
    wait_for("the scripts turn both off", || !there("alpha") && !there("beta"));
    operator.wait_log(&["\"module\":\"alpha\"", "\"reason\":\"too large\"", "is off"]);
    wait_for("users see why", || {
        let status = status(ns.name(), "alpha");
        status["reason"] == "ScriptDisabled"
            && status["message"].as_str().unwrap().ends_with("off: too large")
    });
    assert!(there("gamma"), "a module without a script is left alone");
    let patch = |text: &str| {
        let patch = ["patch", "configmap", "addon-operator", "-n", ns.name(), "--type=merge", "-p"];
        cp.kubectl(patch.iter().chain([&text])).unwrap();
    };
    patch(r#"{"data":{"alpha":"size: 2","global":"a: 2"}}"#);
    wait_for("they are on again", || there("alpha") && there("beta"));
    // A script that fails leaves its module as it is, and the others go on.
    script(&modules, "001-alpha", "echo went wrong >&2; exit 3");
    script(&modules, "003-gamma", "echo false >$MODULE_ENABLED_RESULT");
    patch(r#"{"data":{"global":"a: 3"}}"#);
    operator.wait_log(&["\"module\":\"alpha\"", "enabled script: ", "went wrong", "stays as it is"]);
    wait_for("the other script is heard", || !there("gamma"));
    assert!(there("alpha") && there("beta"));
    operator.stop();
    // Nor does it at the start, when nothing is known of the module but its release.
    let operator = Operator::start(cp, ns.name(), modules.path());
    operator.wait_log(&["\"module\":\"alpha\"", "went wrong"]);
    operator.wait_converged();
    assert!(there("alpha"), "its release is not taken for one of a module that is off");
    script(&modules, "001-alpha", "echo false >$MODULE_ENABLED_RESULT");
    wait_for("the script is asked again until it answers", || !there("alpha"));
    operator.stop();
}
