//! Hooks written for shell-operator alone: without modules and a ConfigMap, and with the rights that its examples have.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Modules, Operator, as_service_account, control_plane, wait_for};

#[test]
fn hooks_alone_run_with_the_rights_of_their_bindings() {
    let cp = control_plane();
    let ns = cp.namespace("shell-operator").unwrap();
    let modules = Modules::new();
    let pods = format!(
        "configVersion: v1\nkubernetes: [{{name: pods, apiVersion: v1, kind: Pod, namespace: {{nameSelector: {{matchNames: [{}]}}}}}}]",
        ns.name()
    );
    modules
        .hook("hooks/001-start/start.sh", "configVersion: v1\nonStartup: 1", "note \"in $(pwd)\"")
        .hook("hooks/hooks/pods.sh", &pods, "if context Added; then note added; else note listed; fi")
        .hook(
            "hooks/tick",
            "configVersion: v1\nschedule: [{name: often, crontab: '@every 1s'}]",
            "echo '{\"name\":\"ticks_total\",\"action\":\"add\",\"value\":1}' > \"$METRICS_PATH\"; note tick",
        );
    // As of the examples: what hooks watch, and nothing else.
    cp.kubectl(["create", "serviceaccount", "windlass", "-n", ns.name()]).unwrap();
    let role = ["create", "role", "pods", "-n", ns.name(), "--verb=get,list,watch", "--resource=pods"];
    cp.kubectl(role).unwrap();
    let account = format!("--serviceaccount={}:windlass", ns.name());
    cp.kubectl(["create", "rolebinding", "pods", "-n", ns.name(), "--role=pods", &account]).unwrap();
    let kubeconfig = as_service_account(ns.name(), &modules);
    // A link of that name is enough; the example's flags come on top.
    let link = modules.path().join("shell-operator");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_windlass"), &link).unwrap();
    let hooks = modules.path().join("hooks");
    let nowhere = modules.path().join("no-modules");
    let search = std::env::var("PATH").unwrap();
    let operator = Operator::spawn_by(
        Command::new(&link),
        kubeconfig.to_str().unwrap(),
        ns.name(),
        &nowhere,
        &["--hooks-dir", hooks.to_str().unwrap()],
        &[("PATH", &search)],
    );
    operator.wait_converged();
    let directory = hooks.join("001-start").canonicalize().unwrap();
    assert_eq!(operator.notes()[0], format!("start.sh in {}", directory.display()), "{}", operator.log_end());
    operator.wait_note("pods.sh listed");
    operator.wait_note("tick tick");
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"lone"},"spec":{"containers":[{"name":"a","image":"b"}]}}"#;
    cp.kubectl_with(["apply", "-n", ns.name(), "-f", "-"], pod).unwrap();
    operator.wait_note("pods.sh added");
    let own = operator.get("/metrics").unwrap().1;
    for part in [
        "shell_operator_hook_run_success_total{hook=\"tick\",binding=\"often\",queue=\"main\"}",
        "shell_operator_hook_run_seconds_count{hook=\"hooks/pods.sh\",binding=\"pods\",queue=\"main\"}",
        "shell_operator_hook_enable_kubernetes_bindings_success{hook=\"hooks/pods.sh\"} 1",
        "shell_operator_tasks_queue_length{queue=\"main\"}",
    ] {
        assert!(own.contains(part), "{part}\n{own}");
    }
    let of_hooks = operator.get("/metrics/hooks").unwrap().1;
    assert!(of_hooks.contains("ticks_total{hook=\"tick\"}"), "{of_hooks}");
    let refused = |line: &str| line.contains("forbidden") && !line.contains("\"level\":\"INFO\"");
    assert!(
        !operator.log().lines().any(refused),
        "it needs nothing that it may not have\n{}",
        operator.log()
    );
    operator.stop();
}

#[test]
fn its_commands_and_variables_are_known() {
    let cp = control_plane();
    let ns = cp.namespace("shell-operator-env").unwrap();
    let modules = Modules::new();
    let maps = format!(
        "configVersion: v1\nkubernetes: [{{name: maps, kind: ConfigMap, nameSelector: {{matchNames: [one]}}, namespace: {{nameSelector: \
         {{matchNames: [{}]}}}}}}]",
        ns.name()
    );
    modules.hook("hooks/maps.sh", &maps, "note seen");
    cp.kubectl(["create", "configmap", "one", "-n", ns.name()]).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("debug.socket");
    let hooks = modules.path().join("hooks");
    let mut command = Command::new("env");
    // No directory of modules is named, and there is none here.
    command.current_dir(scratch.path()).arg(env!("CARGO_BIN_EXE_windlass")).args([
        "start",
        "--prometheus-listen-address",
        "127.0.0.1",
        "--prometheus-listen-port",
        "0",
        "--log-type",
        "json",
        "--log-level",
        "debug",
        "--kube-client-qps=20",
        "--jq-library-path=/x",
    ]);
    let log = std::fs::File::create(scratch.path().join("log")).unwrap();
    let temporary = scratch.path().join("tmp");
    let variables = [
        ("SHELL_OPERATOR_HOOKS_DIR", hooks.to_str().unwrap()),
        ("SHELL_OPERATOR_NAMESPACE", ns.name()),
        ("SHELL_OPERATOR_TMP_DIR", temporary.to_str().unwrap()),
        ("DEBUG_UNIX_SOCKET", socket.to_str().unwrap()),
        ("KUBECONFIG", cp.kubeconfig().to_str().unwrap()),
        ("TMPDIR", temporary.to_str().unwrap()),
    ];
    let mut child = command.envs(variables).stderr(log).spawn().unwrap();
    let ask = |arguments: &[&str]| -> Option<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let done =
            command.args(arguments).args(["-o", "json"]).env("DEBUG_UNIX_SOCKET", &socket).output().ok()?;
        serde_json::from_slice(&done.stdout).ok()
    };
    let listed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_for("its hooks are listed", || {
            ask(&["hook", "list"]).is_some_and(|hooks| hooks == serde_json::json!(["maps.sh"]))
        });
        wait_for("a snapshot is shown", || {
            ask(&["hook", "snapshot", "maps.sh"])
                .is_some_and(|s| s["maps"]["snapshot"][0]["object"]["metadata"]["name"] == "one")
        });
        wait_for("queues are shown", || {
            ask(&["queue", "main"]).is_some_and(|queue| queue["tasksCount"] == 0)
        });
    }));
    child.kill().unwrap();
    child.wait().unwrap();
    let text = std::fs::read_to_string(Path::new(scratch.path()).join("log")).unwrap();
    assert!(listed.is_ok(), "{text}");
    for part in ["--kube-client-qps has no effect", "--jq-library-path has no effect"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}
