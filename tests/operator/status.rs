//! The status of modules as `kubectl` shows it.

use serde_json::Value;

use crate::support::{
    MODULES as KIND, Modules, Operator, as_service_account, control_plane, object, status, wait_for,
};

fn condition(status: &Value, kind: &str) -> Value {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|c| c["type"] == kind).unwrap_or_default()
}

#[test]
fn kubectl_shows_what_modules_are_like() {
    let cp = control_plane();
    let ns = cp.namespace("status").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").small("003-gamma").enable(&["alpha", "beta"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    wait_for("the status of the last module", || status(ns.name(), "gamma")["phase"] == "Disabled");
    wait_for("the status of the first module", || status(ns.name(), "alpha")["phase"] == "Ready");
    let table = cp.kubectl(["get", KIND, "-n", ns.name()]).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "ENABLED", "PHASE", "REVISION", "REASON", "LAST", "ERROR", "AGE"]);
    assert_eq!(rows[1][..5], ["alpha", "true", "Ready", "1", "Released"], "{table}");
    assert_eq!(rows[3][..4], ["gamma", "false", "Disabled", "SwitchedOff"], "{table}");
    cp.kubectl(["wait", &format!("{KIND}/alpha"), "-n", ns.name(), "--for=condition=Ready", "--timeout=60s"])
        .unwrap();
    let since = condition(&status(ns.name(), "alpha"), "Managed")["lastTransitionTime"].clone();

    // A failure is told with its reason, as a condition and an Event; the release stays.
    let create = ["create", "configmap", "addon-operator", "-n", ns.name()];
    cp.kubectl(create.iter().chain(&["--from-literal=alpha=size: 2\nbroken: true"])).unwrap();
    wait_for("revision 2 is told", || status(ns.name(), "alpha")["revision"] == 2);
    modules.write(
        "001-alpha/templates/bad.yaml",
        "{{ if .Values.alpha.broken }}{{ fail \"broken on purpose\" }}{{ end }}",
    );
    wait_for("the failure is told", || status(ns.name(), "alpha")["phase"] == "Failed");
    let failed = status(ns.name(), "alpha");
    assert!(failed["lastError"].as_str().unwrap().contains("broken on purpose"), "{failed}");
    assert_eq!((&failed["reason"], &failed["revision"]), (&"RenderFailed".into(), &2.into()), "{failed}");
    let ready = condition(&failed, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&"False".into(), &"RenderFailed".into()));
    assert_eq!(
        condition(&failed, "Managed")["lastTransitionTime"],
        since,
        "only what changes gets a new time"
    );
    let mut described = String::new();
    wait_for("the Event", || {
        described = cp.kubectl(["describe", KIND, "alpha", "-n", ns.name()]).unwrap();
        described.lines().any(|l| l.contains("Warning") && l.contains("broken on purpose"))
    });
    let patch = ["patch", "configmap", "addon-operator", "-n", ns.name(), "--type=merge", "-p"];
    cp.kubectl(patch.iter().chain([&r#"{"data":{"alpha":"size: 3"}}"#])).unwrap();
    wait_for("it is ready again", || {
        let status = status(ns.name(), "alpha");
        status["phase"] == "Ready" && status["revision"] == 3 && status.get("lastError").is_none()
    });
    assert_eq!(condition(&status(ns.name(), "alpha"), "Ready")["status"], "True");

    // Switched off, and gone.
    cp.kubectl(patch.iter().chain([&r#"{"data":{"betaEnabled":"false"}}"#])).unwrap();
    wait_for("beta is off", || {
        let status = status(ns.name(), "beta");
        status["phase"] == "Disabled" && status["enabled"] == false && status.get("revision").is_none()
    });
    std::fs::remove_dir_all(modules.path().join("003-gamma")).unwrap();
    wait_for("gamma goes with its module", || status(ns.name(), "gamma").is_null());

    // A restart with nothing to do leaves the objects as they are.
    let version = || object(cp, ns.name(), KIND, "alpha").unwrap()["metadata"]["resourceVersion"].clone();
    let before = version();
    operator.stop();
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    cp.kubectl(patch.iter().chain([&r#"{"data":{"beta":"size: 9","betaEnabled":"true"}}"#])).unwrap();
    wait_for("the new process writes", || status(ns.name(), "beta")["phase"] == "Ready");
    assert_eq!(version(), before);
    operator.stop();
}

#[test]
fn without_the_rights_it_is_told_and_no_more() {
    let cp = control_plane();
    let ns = cp.namespace("status-rights").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    // Rights as they were before there were statuses.
    let directory = modules.path().to_str().unwrap();
    let rights = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["rbac", directory, "-n", ns.name()])
        .env("KUBECONFIG", cp.kubeconfig())
        .output()
        .unwrap();
    let text = String::from_utf8(rights.stdout).unwrap();
    assert!(text.contains("windlass.dev"), "{text}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text.replace("windlass.dev", "nothing.test")).unwrap();
    cp.kubectl(["apply", "-n", ns.name(), "-f", file.path().to_str().unwrap()]).unwrap();
    cp.kubectl(["create", "serviceaccount", "windlass", "-n", ns.name()]).unwrap();
    let kubeconfig = as_service_account(ns.name(), &modules);
    let operator =
        Operator::spawn(kubeconfig.to_str().unwrap(), ns.name(), modules.path(), &[], "/nonexistent");
    operator.wait_converged();
    operator.wait_log(&["\"level\":\"WARN\"", "cannot write the status of modules", "--module-status=false"]);
    assert!(object(cp, ns.name(), "deployment", "alpha").is_some(), "the modules do not care");
    operator.stop();
}
