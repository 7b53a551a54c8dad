//! Logs of hooks that ask for it by `helm.sh/hook-output-log-policy`, beside Helm 4's. No kubelet runs here: the node's
//! address is that of a server of the test.

use super::{chart, control_plane, run};
use crate::tls::serve;
use serde_json::json;
use std::time::Duration;
use windlass_testing::{Tool, wait_until};

const LIMIT: Duration = Duration::from_secs(60);

/// POLICY and NODE stand for those of the test.
const HOOK: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: job
  annotations: {helm.sh/hook: pre-install, helm.sh/hook-output-log-policy: "POLICY", helm.sh/hook-delete-policy: hook-succeeded}
spec:
  template:
    spec:
      restartPolicy: Never
      nodeName: NODE
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: x}, {name: side, image: x}]
"#;

/// A node whose Pods' logs come from a server of ours.
fn node(name: &str) -> String {
    let cp = control_plane();
    let (port, _) = serve(|path, _| {
        let parts: Vec<&str> = path.split(['/', '?']).collect();
        let container = parts[4];
        format!("{container} begins\n{container} ends\n")
    });
    let node = format!("{name}-node");
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node},
        "spec": {"taints": [{"key": "only", "value": "logs", "effect": "NoSchedule"}]}});
    cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
    let ready = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    wait_until("the node is ready", LIMIT, || {
        Ok((cp.kubectl(["get", "node", &node, "-o", ready])? == "True").then_some(()))
    })
    .unwrap();
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
    cp.kubectl(["patch", "node", &node, "--subresource=status", "--type=merge", "-p", &status.to_string()])
        .unwrap();
    node
}

/// Helm makes one line of its own log of what a container wrote; ours are the container's own lines.
fn lines(said: &str) -> Vec<String> {
    said.lines()
        .flat_map(|line| {
            let text = match line.strip_prefix("level=INFO msg=") {
                Some(quoted) => serde_json::from_str::<String>(quoted).unwrap_or(quoted.to_owned()),
                None => line.to_owned(),
            };
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn are_shown_as_helm_shows_them() {
    let cp = control_plane();
    let namespaces = [cp.namespace("logs").unwrap(), cp.namespace("logs").unwrap()];
    let node = node(namespaces[0].name());
    let dir = chart();
    for policy in ["hook-succeeded", "hook-failed", "hook-succeeded,hook-failed", "never"] {
        let text = HOOK.replace("POLICY", policy).replace("NODE", &node);
        std::fs::write(dir.path().join("templates/hooks.yaml"), text).unwrap();
        let [mine, theirs] = [0, 1].map(|tool| {
            let ns = namespaces[tool].name();
            let args = ["install", "r", dir.path().to_str().unwrap(), "-n", ns];
            let out = match tool {
                0 => run(&args),
                _ => cp.command(Tool::Helm4).unwrap().args(args).output().unwrap(),
            };
            let said = String::from_utf8(out.stderr).unwrap();
            assert!(out.status.success(), "{said}");
            cp.helm4(["uninstall", "r", "-n", ns]).unwrap();
            lines(&said)
        });
        assert_eq!(mine, theirs, "{policy}");
        assert_eq!(mine.is_empty(), !policy.contains("succeeded"), "{policy}: {mine:?}");
    }
    cp.kubectl(["delete", "node", &node, "--wait=false"]).unwrap();
}

/// The Job of such a hook is held back, so that it fails when the test says so; its Pod is the test's.
#[test]
fn of_a_failing_hook_are_shown_as_helm_shows_them() {
    let cp = control_plane();
    let namespaces = [cp.namespace("fails").unwrap(), cp.namespace("fails").unwrap()];
    let node = node(namespaces[0].name());
    let dir = chart();
    for policy in ["hook-failed", "hook-succeeded", "hook-succeeded,hook-failed"] {
        let text = HOOK
            .replace("POLICY", policy)
            .replace("NODE", &node)
            .replace("\nspec:\n", "\nspec:\n  suspend: true\n");
        std::fs::write(dir.path().join("templates/hooks.yaml"), text).unwrap();
        let [mine, theirs] = [0, 1].map(|tool| {
            let ns = namespaces[tool].name();
            let args = ["install", "r", dir.path().to_str().unwrap(), "-n", ns, "--timeout", "60s"];
            let out = std::thread::scope(|scope| {
                let failing = scope.spawn(|| fail(ns, &node));
                let out = match tool {
                    0 => run(&args),
                    _ => cp.command(Tool::Helm4).unwrap().args(args).output().unwrap(),
                };
                failing.join().unwrap();
                out
            });
            assert_eq!(out.status.code(), Some(1));
            cp.helm4(["uninstall", "r", "-n", ns, "--no-hooks"]).unwrap();
            cp.kubectl(["delete", "job,pod", "--all", "-n", ns, "--force", "--grace-period=0"]).unwrap();
            lines(&String::from_utf8(out.stderr).unwrap().replace(ns, "NAMESPACE"))
        });
        assert_eq!(mine, theirs, "{policy}");
        assert_eq!(mine.iter().any(|l| l == "side ends"), policy.contains("failed"), "{policy}: {mine:?}");
    }
    cp.kubectl(["delete", "node", &node, "--wait=false"]).unwrap();
}

/// Gives the Job of the hook a Pod and says of it that it failed.
fn fail(namespace: &str, node: &str) {
    let cp = control_plane();
    wait_until("the hook's Job is there", LIMIT, || {
        Ok((!cp
            .kubectl(["get", "job", "job", "-n", namespace, "--ignore-not-found", "-o", "name"])?
            .is_empty())
        .then_some(()))
    })
    .unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "job-x", "namespace": namespace, "labels": {"job-name": "job"}},
        "spec": {"nodeName": node, "restartPolicy": "Never", "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "x"}, {"name": "side", "image": "x"}]}});
    cp.kubectl_with(["create", "-f", "-"], &pod.to_string()).unwrap();
    let conditions: Vec<_> = ["FailureTarget", "Failed"]
        .map(|kind| {
            json!({"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "it failed",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .to_vec();
    let status =
        json!({"status": {"startTime": "2026-01-01T00:00:00Z", "conditions": conditions}}).to_string();
    cp.kubectl([
        "patch",
        "job",
        "job",
        "-n",
        namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ])
    .unwrap();
}
