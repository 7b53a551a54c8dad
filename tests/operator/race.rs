//! Two operators without an election and a Helm on one release at the same time.

use std::process::Stdio;

use serde_json::Value;
use windlass_testing::{Tool, wait_until};

use crate::support::{LIMIT, Modules, Operator, control_plane, history, object, wait_for};

const ROUNDS: usize = 3;

#[test]
fn two_operators_and_a_helm_leave_one_clean_release() {
    let cp = control_plane();
    let namespace = cp.namespace("race").unwrap();
    let ns = namespace.name();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    let config = |size: usize| {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: addon-operator}}\ndata: {{alpha: 'size: {size}'}}\n"
        );
        modules.write("config-map", &text);
        let path = modules.path().join("config-map");
        cp.kubectl(["apply", "-n", ns, "-f", path.to_str().unwrap()]).unwrap();
    };
    config(100);
    let operators = [Operator::start(cp, ns, modules.path()), Operator::start(cp, ns, modules.path())];
    operators.iter().for_each(Operator::wait_converged);
    assert_eq!(history(cp, ns, "alpha"), [(1, "deployed".to_owned())], "one of both installed it");
    let size = || object(cp, ns, "configmap", "alpha").map_or(Value::Null, |o| o["data"]["size"].clone());
    let chart = modules.path().join("001-alpha");
    for round in 0..ROUNDS {
        let wanted = 101 + round;
        let other = format!("alpha.size={}", 900 + round);
        let mut helm = cp.command(Tool::Helm4).unwrap();
        helm.args(["upgrade", "alpha", chart.to_str().unwrap(), "-n", ns, "--set", &other]);
        let helm = helm.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        config(wanted);
        let said = helm.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr);
        // Who loses is told that someone else is at work, and changes nothing.
        let told = [
            "another operation (install/upgrade/rollback) is in progress",
            "already exists",
            "has no deployed releases",
        ];
        assert!(said.status.success() || told.iter().any(|t| text.contains(t)), "round {round}: {text}");
        let settled = |status: &str| history(cp, ns, "alpha").iter().filter(|r| r.1 == status).count();
        let holds = || {
            let done = size() == wanted.to_string().as_str()
                && settled("deployed") == 1
                && settled("pending-upgrade") == 0;
            Ok(done.then_some(()))
        };
        if let Err(e) = wait_until(&format!("round {round}: the operators' word holds"), LIMIT, holds) {
            let logs = operators.each_ref().map(Operator::log_end).join("\n\n");
            panic!("{e}: {:?} {:?}, helm: {text}\n{logs}", size(), history(cp, ns, "alpha"));
        }
    }
    let rows = history(cp, ns, "alpha");
    assert!(rows.iter().all(|r| !r.1.starts_with("pending")), "{rows:?}");
    for operator in operators {
        assert!(!operator.log().contains("panicked"), "{}", operator.log_end());
        operator.stop();
    }
    wait_for("nobody holds the release", || {
        cp.kubectl(["get", "leases", "-n", ns, "-o", "name"]).unwrap().is_empty()
    });
}
