//! Hooks and scripts that fail or hang for ever: what they must not hold up, and how one gets rid of them.

use std::time::Duration;

use crate::hooks::{data, shows_size, start};
use crate::support::{Modules, Operator, control_plane, object, status, wait_for};

fn patch(namespace: &str, name: &str, text: &str) {
    let patch = ["patch", "configmap", name, "-n", namespace, "--type=merge", "-p", text];
    control_plane().kubectl(patch).unwrap();
}

fn config(namespace: &str, literal: &str) {
    let create = ["create", "configmap", "addon-operator", "-n", namespace, "--from-literal", literal];
    control_plane().kubectl(create).unwrap();
}

/// A global hook that fails while the file `bad` is there.
fn fails_if_bad(modules: &Modules, name: &str, moment: &str) {
    let body = "if [[ -e $(dirname \"$TMPDIR\")/bad ]]; then note failed; exit 1; fi; note worked";
    modules.hook(&format!("global-hooks/{name}"), &format!("configVersion: v1\n{moment}: 1"), body);
}

#[test]
fn a_failing_hook_after_all_modules_holds_up_no_new_converge() {
    let ns = control_plane().namespace("stuck-after").unwrap();
    let modules = Modules::new();
    shows_size(&modules, "modules/010-alpha");
    shows_size(&modules, "modules/020-gamma");
    modules.write("modules/values.yaml", "alphaEnabled: true\n");
    fails_if_bad(&modules, "after", "afterAll");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    operator.put("bad");
    config(ns.name(), "global=a: 1");
    // Its next try is far away then.
    let failed = || operator.notes().iter().filter(|n| *n == "after failed").count();
    wait_for("the hook has failed often", || failed() >= 4);
    patch(ns.name(), "addon-operator", r#"{"data":{"gammaEnabled":"true"}}"#);
    let took = wait_for("a module is switched on", || data(ns.name(), "gamma", "size").is_some());
    println!("switched on after {took:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
    patch(ns.name(), "addon-operator", r#"{"data":{"alphaEnabled":"false"}}"#);
    wait_for("another one is switched off", || data(ns.name(), "alpha", "size").is_none());
    operator.take("bad");
    patch(ns.name(), "addon-operator", r#"{"data":{"global":"a: 2"}}"#);
    let worked = || operator.notes().iter().filter(|n| *n == "after worked").count();
    wait_for("the mended hook runs", || worked() >= 2);
    operator.stop();
}

#[test]
fn a_failing_hook_before_all_modules_leaves_those_that_run_alone() {
    let cp = control_plane();
    let ns = cp.namespace("stuck-before").unwrap();
    let modules = Modules::new();
    for module in ["010-alpha", "020-beta", "030-gamma", "005-delta"] {
        shows_size(&modules, &format!("modules/{module}"));
    }
    modules.write("modules/values.yaml", "alphaEnabled: true\nbetaEnabled: true\ndeltaEnabled: true\n");
    fails_if_bad(&modules, "before", "beforeAll");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    operator.put("bad");
    config(ns.name(), "global=zone: west");
    let failed = || operator.notes().iter().filter(|n| *n == "before failed").count();
    wait_for("the hook has failed often", || failed() >= 4);
    patch(ns.name(), "alpha", r#"{"data":{"size":"8"}}"#);
    let took = wait_for("a change is put right", || data(ns.name(), "alpha", "size").as_deref() == Some("1"));
    println!("put right after {took:?}");
    cp.kubectl(["delete", "configmap", "alpha", "-n", ns.name()]).unwrap();
    let took = wait_for("what was deleted is back", || data(ns.name(), "alpha", "size").is_some());
    println!("back after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(data(ns.name(), "alpha", "zone").as_deref(), Some("none"), "what the converge asks for waits");
    // A section is an edit of one module; whether modules are on is the converge's to say.
    let edit = r#"{"data":{"beta":"size: 5","gammaEnabled":"true","alphaEnabled":"false"}}"#;
    patch(ns.name(), "addon-operator", edit);
    patch(ns.name(), "addon-operator", r#"{"data":{"beta":"size: 6"}}"#);
    wait_for("the section is in force", || data(ns.name(), "beta", "size").as_deref() == Some("6"));
    assert!(data(ns.name(), "gamma", "size").is_none(), "{}", operator.log_end());
    assert!(data(ns.name(), "alpha", "size").is_some(), "{}", operator.log_end());
    assert_eq!(data(ns.name(), "delta", "zone").as_deref(), Some("none"), "nobody has edited its section");
    operator.take("bad");
    wait_for("the converge goes on", || data(ns.name(), "gamma", "zone").as_deref() == Some("west"));
    wait_for("others follow", || data(ns.name(), "delta", "zone").as_deref() == Some("west"));
    wait_for("the other one is off", || data(ns.name(), "alpha", "size").is_none());
    wait_for("and that is told", || status(ns.name(), "alpha")["phase"] == "Disabled");
    operator.stop();
}

fn script(modules: &Modules, module: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = format!("{module}/enabled");
    modules.write(&path, &format!("#!/bin/bash\n{text}\n"));
    let path = modules.path().join(path);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Whether a process of this number runs.
fn runs(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

/// The numbers of processes that hooks or scripts have noted.
fn pids(operator: &Operator) -> Vec<String> {
    let note = |n: &String| n.rsplit_once("pid ").map(|(_, pid)| pid.to_owned());
    operator.notes().iter().filter_map(note).collect()
}

#[test]
fn a_script_that_hangs_is_killed_after_its_time_limit() {
    let ns = control_plane().namespace("stuck-script").unwrap();
    let modules = Modules::new();
    modules.small("010-alpha").small("020-beta").enable(&["alpha", "beta"]);
    script(
        &modules,
        "010-alpha",
        "sleep 600 & echo \"enabled pid $!\" >> \"$(dirname \"$TMPDIR\")/notes\"; wait",
    );
    let operator =
        Operator::start_with(control_plane(), ns.name(), modules.path(), &["--hook-unblock-after", "2s"]);
    operator.wait_log(&["\"module\":\"alpha\"", "enabled script: killed after 2s", "--hook-unblock-after"]);
    wait_for("the next one is there", || object(control_plane(), ns.name(), "configmap", "beta").is_some());
    operator.wait_converged();
    assert!(!runs(&pids(&operator)[0]), "what it started is killed with it");
    assert!(object(control_plane(), ns.name(), "configmap", "alpha").is_none());
    operator.stop();
}

#[test]
fn a_module_whose_hooks_cannot_be_loaded_can_be_switched_off() {
    let cp = control_plane();
    let ns = cp.namespace("stuck-off").unwrap();
    let modules = Modules::new();
    modules.small("010-alpha").small("020-beta").enable(&["alpha", "beta"]);
    modules.hook("020-beta/hooks/clean", "configVersion: v1\nafterDeleteHelm: 1", "note cleaned");
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    // Hooks that this process knows run as they were.
    modules.hook("020-beta/hooks/clean", "bad: [", "note cleaned");
    operator.wait_log(&["\"module\":\"beta\"", "--config"]);
    config(ns.name(), "betaEnabled=false");
    operator.wait_note("clean cleaned");
    wait_for("it is off", || status(ns.name(), "beta")["phase"] == "Disabled");
    operator.stop();
    // And where it knows none, that is told.
    modules.hook("010-alpha/hooks/clean", "bad: [", "note cleaned");
    patch(ns.name(), "addon-operator", r#"{"data":{"alphaEnabled":"false"}}"#);
    let operator = Operator::start(cp, ns.name(), modules.path());
    wait_for("its release is gone", || object(cp, ns.name(), "deployment", "alpha").is_none());
    operator.wait_log(&["\"level\":\"WARN\"", "\"module\":\"alpha\"", "its hooks cannot be loaded"]);
    wait_for("an Event says so", || {
        let events = cp.kubectl(["get", "events", "-n", ns.name(), "-o", "json"]).unwrap();
        events.contains("\"DeleteHooksLost\"") && events.contains("module alpha")
    });
    wait_for("it is off", || status(ns.name(), "alpha")["phase"] == "Disabled");
    operator.stop();
}

#[test]
fn a_hook_that_hangs_is_left_when_it_is_mended_and_when_its_module_is_switched_off() {
    let cp = control_plane();
    let ns = cp.namespace("stuck-hook").unwrap();
    let modules = Modules::new();
    let hangs = "sleep 600 & note pid $!; wait";
    modules.small("010-alpha").small("020-beta").enable(&["alpha", "beta"]);
    for module in ["010-alpha", "020-beta"] {
        modules.hook(&format!("{module}/hooks/hook"), "configVersion: v1\nbeforeHelm: 1", hangs);
    }
    let operator = Operator::start_with(cp, ns.name(), modules.path(), &["--hook-unblock-after", "1s"]);
    wait_for("both hang", || pids(&operator).len() == 2);
    let hanging = pids(&operator);
    modules.hook("010-alpha/hooks/hook", "configVersion: v1\nbeforeHelm: 1", "note mended");
    operator.wait_note("hook mended");
    wait_for("its release is there", || object(cp, ns.name(), "deployment", "alpha").is_some());
    assert!(!runs(&hanging[0]), "{}", operator.log_end());
    config(ns.name(), "betaEnabled=false");
    wait_for("it is off", || status(ns.name(), "beta")["phase"] == "Disabled");
    assert!(!runs(&hanging[1]), "{}", operator.log_end());
    operator
        .wait_log(&["\"module\":\"beta\"", "killed: its files have changed, or its module is switched off"]);
    operator.stop();
}

#[test]
fn the_next_number_does_not_wait_for_what_has_failed_already() {
    let ns = control_plane().namespace("stuck-early").unwrap();
    let modules = Modules::new();
    modules.small("010-mute").small("020-refused").small("030-failing").small("040-next");
    modules.enable(&["mute", "refused", "failing", "next"]);
    modules.hook("010-mute/hooks/hook", "configVersion: v1", "");
    let path = modules.path().join("010-mute/hooks/hook");
    std::fs::write(path, "#!/bin/sh\nsleep 600\n").unwrap();
    // The API server knows no such field.
    let selector = "fieldSelector: {matchExpressions: [{field: spec.none, operator: Equals, value: x}]}";
    let watch =
        |more: &str| format!("configVersion: v1\nkubernetes: [{{name: maps, kind: ConfigMap, {more}}}]");
    modules.hook("020-refused/hooks/hook", &watch(selector), "");
    modules.hook("030-failing/hooks/hook", &watch("queue: own"), "note failed; exit 1");
    let operator =
        Operator::start_with(control_plane(), ns.name(), modules.path(), &["--hook-timeout", "2s"]);
    let there = || object(control_plane(), ns.name(), "configmap", "next").is_some();
    let took = wait_for("the last one is there", there);
    println!("the last one is there after {took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    operator.wait_log(&["\"module\":\"mute\"", "--config: killed after 2s"]);
    operator.wait_log(&["\"module\":\"refused\"", "the objects are not listed: ", "spec.none"]);
    operator.wait_log(&["\"module\":\"failing\"", "exit status 1; it is tried again in queue own"]);
    operator.stop();
}

#[test]
fn runs_in_the_main_queue_of_the_global_hooks_follow_each_other() {
    let ns = control_plane().namespace("serial").unwrap();
    let modules = Modules::new();
    modules.write("modules/values.yaml", "");
    let config = "configVersion: v1\nbeforeAll: 1\nschedule: [{name: tick, crontab: '* * * * * *'}]";
    let body = "if context beforeAll; then note begins; sleep 3; note ends; else note tick; fi";
    modules.hook("global-hooks/hook", config, body);
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_note("hook tick");
    self::config(ns.name(), "global=a: 1");
    let ends = || operator.notes().iter().filter(|n| *n == "hook ends").count();
    wait_for("the hook has run again", || ends() == 2);
    let notes = operator.notes();
    let begun = notes.iter().rposition(|n| n == "hook begins").unwrap();
    assert_eq!(notes.get(begun + 1).map(String::as_str), Some("hook ends"), "{notes:?}");
    let so_far = notes.len();
    wait_for("ticks go on", || operator.notes().len() > so_far);
    operator.stop();
}
