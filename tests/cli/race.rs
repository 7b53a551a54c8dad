//! Three parties on one release at the same time: two of ours and a Helm. One wins, the others wait or say why not.

use super::{chart, control_plane};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use windlass_testing::Tool;

const ROUNDS: usize = 4;

fn spawn(mut command: Command, args: &[&str]) -> Child {
    command.args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn one_wins_and_the_others_say_why_not() {
    let cp = control_plane();
    let namespace = cp.namespace("race").unwrap();
    let ns = namespace.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let ours = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.env("KUBECONFIG", cp.kubeconfig());
        command
    };
    for round in 0..ROUNDS {
        let sizes: Vec<String> = (0..3).map(|i| format!("size={}", 10 * round + i)).collect();
        let args = |i: usize| ["upgrade", "--install", "r", path, "-n", ns, "--set", sizes[i].as_str()];
        let children = [
            spawn(ours(), &args(0)),
            spawn(ours(), &args(1)),
            spawn(cp.command(Tool::Helm4).unwrap(), &args(2)),
        ];
        let ended = children.map(|child| child.wait_with_output().unwrap());
        let mut winners = 0;
        for (i, out) in ended.iter().enumerate() {
            let text = String::from_utf8_lossy(&out.stderr);
            winners += usize::from(out.status.success());
            let told = [
                "another operation (install/upgrade/rollback) is in progress",
                "already exists",
                "cannot reuse a name that is still in use",
                "has no deployed releases",
                "was changed by someone else",
            ];
            assert!(
                out.status.success() || told.iter().any(|t| text.contains(t)),
                "round {round}, {i}: {text}"
            );
        }
        assert!(winners >= 1, "round {round}: nobody won: {ended:?}");
        let rows: Vec<Value> =
            serde_json::from_str(&cp.helm4(["history", "r", "-n", ns, "-o", "json"]).unwrap()).unwrap();
        let count = |status: &str| rows.iter().filter(|r| r["status"] == status).count();
        assert_eq!(count("deployed"), 1, "round {round}: {rows:?}");
        assert!(rows.iter().all(|r| !r["status"].as_str().unwrap().starts_with("pending")), "{rows:?}");
        // What is in the cluster is what the record says.
        let manifest = cp.helm4(["get", "manifest", "r", "-n", ns]).unwrap();
        let live = cp.kubectl(["get", "configmap", "r", "-n", ns, "-o", "jsonpath={.data.size}"]).unwrap();
        assert!(manifest.contains(&format!("size: \"{live}\"")), "round {round}: {live}\n{manifest}");
    }
    assert_eq!(cp.kubectl(["get", "leases", "-n", ns, "-o", "name"]).unwrap(), "");
}
