//! Drift while hooks run.

use crate::support::{Modules, Operator, control_plane, object, wait_for};

#[test]
fn changes_are_put_right_while_a_hook_runs_and_deletions_when_it_has_run_for_too_long() {
    let cp = control_plane();
    let ns = cp.namespace("quiet").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    let often = "configVersion: v1\nschedule: [{crontab: '* * * * * *', queue: own}]";
    modules.hook("001-alpha/hooks/hangs", often, "note hangs; sleep 600 & wait");
    let arguments = ["--hook-unblock-after", "20s", "--log-level", "debug"];
    let operator = Operator::start_with(cp, ns.name(), modules.path(), &arguments);
    operator.wait_converged();
    operator.wait_note("hangs hangs");
    cp.kubectl(["delete", "service", "alpha", "-n", ns.name()]).unwrap();
    operator.wait_log(&["Service", "the next run of the module decides"]);
    assert!(object(cp, ns.name(), "service", "alpha").is_none());
    wait_for("it is put right once the hook has run for too long", || {
        object(cp, ns.name(), "service", "alpha").is_some()
    });
    // A second operator, whose hook has just begun.
    operator.stop();
    let arguments = ["--hook-unblock-after", "10m"];
    let operator = Operator::start_with(cp, ns.name(), modules.path(), &arguments);
    operator.wait_converged();
    operator.wait_note("hangs hangs");
    let patch = r#"{"data":{"size":"9"}}"#;
    cp.kubectl(["patch", "configmap", "alpha", "-n", ns.name(), "-p", patch]).unwrap();
    wait_for("a change is put right at once", || {
        object(cp, ns.name(), "configmap", "alpha").unwrap()["data"]["size"] == "1"
    });
    operator.stop();
}

#[test]
fn what_a_hook_deletes_is_no_drift_and_the_next_run_decides() {
    let cp = control_plane();
    let ns = cp.namespace("quiet-operations").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    let config = format!(
        "configVersion: v1\nkubernetes: [{{name: maps, kind: ConfigMap, nameSelector: {{matchNames: [trigger]}}, executeHookOnSynchronization: \
         false, namespace: {{nameSelector: {{matchNames: [{}]}}}}}}]",
        ns.name()
    );
    let operation = format!(
        r#"{{"operation":"Delete","apiVersion":"v1","kind":"Service","namespace":"{}","name":"alpha"}}"#,
        ns.name()
    );
    let body = format!("echo '{operation}' > \"$KUBERNETES_PATCH_PATH\"; note deletes");
    modules.hook("001-alpha/hooks/deletes", &config, &body);
    let operator = Operator::start_with(cp, ns.name(), modules.path(), &["--log-level", "debug"]);
    operator.wait_converged();
    let there = || object(cp, ns.name(), "service", "alpha").is_some();
    let counted = || {
        let metrics = operator.get("/metrics").unwrap().1;
        let drift =
            metrics.lines().filter(|l| l.starts_with("windlass_drift_total{") && l.contains("Service"));
        drift.map(str::to_owned).collect::<Vec<String>>()
    };
    // While no hook runs, a deletion is drift, and put right.
    let uid = || object(cp, ns.name(), "service", "alpha").map(|o| o["metadata"]["uid"].clone());
    let before = uid();
    cp.kubectl(["delete", "service", "alpha", "-n", ns.name()]).unwrap();
    wait_for("what somebody deleted is back", || there() && uid() != before);
    wait_for("it is counted", || !counted().is_empty());
    let drift = counted();
    cp.kubectl(["create", "configmap", "trigger", "-n", ns.name()]).unwrap();
    operator.wait_note("deletes deletes");
    operator.wait_log(&["Service", "the next run of the module decides"]);
    assert!(!there(), "{}", operator.log_end());
    assert_eq!(counted(), drift, "what a hook does is not counted");
    // What the module's next run is brought about by makes no difference.
    cp.kubectl(["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=alpha=size: 2"])
        .unwrap();
    wait_for("the next run makes it anew", there);
    assert_eq!(counted(), drift);
    operator.stop();
}
