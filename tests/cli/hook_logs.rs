//! Logs of hooks that ask for it by `helm.sh/hook-output-log-policy`, beside Helm 4's. No kubelet runs here: the node's
//! address is that of a server of the test.

use super::{chart, control_plane, run};
use crate::tls::serve;
use serde_json::json;
use std::time::Duration;
use windlass_test_cluster::{Tool, wait_until};

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

#[test]
fn are_shown_as_helm_shows_them() {
    let cp = control_plane();
    let (port, _) = serve(|path, _| {
        let parts: Vec<&str> = path.split(['/', '?']).collect();
        let container = parts[4];
        format!("{container} begins\n{container} ends\n")
    });
    let namespaces = [cp.namespace("logs").unwrap(), cp.namespace("logs").unwrap()];
    let node = format!("{}-node", namespaces[0].name());
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
            // Helm makes one line of its own log of what a container wrote; ours are the container's own lines.
            let lines = said.lines().flat_map(|line| {
                match line.strip_prefix("level=INFO msg=") {
                    Some(quoted) => serde_json::from_str::<String>(quoted).unwrap_or(quoted.to_owned()),
                    None => line.to_owned(),
                }
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
            });
            lines.collect::<Vec<_>>()
        });
        assert_eq!(mine, theirs, "{policy}");
        assert_eq!(mine.is_empty(), !policy.contains("succeeded"), "{policy}: {mine:?}");
    }
    cp.kubectl(["delete", "node", &node, "--wait=false"]).unwrap();
}
