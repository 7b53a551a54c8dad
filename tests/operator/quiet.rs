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
    let arguments = ["--hook-patience", "20s", "--log-level", "debug"];
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
    let arguments = ["--hook-patience", "10m"];
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
