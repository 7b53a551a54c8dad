//! The harness against itself: a cluster that works, and nothing left of it.

#![allow(clippy::unwrap_used, reason = "clippy takes helpers of integration tests for shipped code")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use windlass_testing::{ControlPlane, Error, Options, Tool, wait_until};

const DEPLOYMENT: &str = r#"{
  "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
  "spec": {
    "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
    "template": {
      "metadata": {"labels": {"app": "web"}},
      "spec": {"containers": [{"name": "web", "image": "example.test/web:1"}]}
    }
  }
}"#;

/// Goes before the stage that makes a Pod ready, for it has a weight.
const FAILING_STAGE: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-fails}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {fate: fail}
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Pending]}
  weight: 1
  next:
    statusTemplate: "phase: Failed"
"#;

/// What `windlass_testing::shared` gives, but ours even where the developer has a KUBECONFIG.
fn cluster() -> &'static ControlPlane {
    static CLUSTER: OnceLock<ControlPlane> = OnceLock::new();
    CLUSTER.get_or_init(|| ControlPlane::start().unwrap())
}

#[test]
fn a_pod_of_a_deployment_gets_ready() {
    let cluster = cluster();
    let namespace = cluster.namespace("ready").unwrap();
    let n = format!("--namespace={}", namespace.name());
    cluster.kubectl_with(["apply", &n, "-f", "-"], DEPLOYMENT).unwrap();
    cluster.kubectl(["rollout", "status", &n, "deployment/web", "--timeout=60s"]).unwrap();
    let path = format!("/api/v1/namespaces/{}/pods", namespace.name());
    let pods = cluster.get(&path).unwrap();
    assert_eq!(pods["items"][0]["status"]["phase"], "Running");
    assert_eq!(pods["items"][0]["spec"]["nodeName"], "fake");
}

#[test]
fn a_job_completes() {
    let cluster = cluster();
    let namespace = cluster.namespace("job").unwrap();
    let n = format!("--namespace={}", namespace.name());
    cluster.kubectl(["create", "job", &n, "once", "--image=example.test/once:1"]).unwrap();
    cluster.kubectl(["wait", &n, "job/once", "--for=condition=Complete", "--timeout=60s"]).unwrap();
}

#[test]
fn both_helms_tell_their_version() {
    let cluster = cluster();
    for (said, group) in [
        (cluster.helm4(["version", "--template={{.Version}}"]).unwrap(), "helm4"),
        (cluster.helm3(["version", "--template={{.Version}}"]).unwrap(), "helm3"),
    ] {
        let pinned =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tools").join(group).join("go.mod");
        let pinned = fs::read_to_string(pinned).unwrap();
        let line = format!("helm.sh/helm/v{} {said} ", group.trim_start_matches("helm"));
        assert!(pinned.contains(&line), "{group} says it is {said}");
    }
}

#[test]
fn the_audit_log_tells_who_wrote_what() {
    let cluster = cluster();
    let namespace = cluster.namespace("audit").unwrap();
    let n = format!("--namespace={}", namespace.name());
    let ours = |mark| {
        let mut events = cluster.writes_since(mark).unwrap();
        events.retain(|event| event.namespace == namespace.name());
        events
    };

    let mark = cluster.audit_mark().unwrap();
    cluster.kubectl(["create", "configmap", &n, "one"]).unwrap();
    let [event] = ours(mark).try_into().unwrap();
    assert_eq!((event.verb.as_str(), event.user.as_str(), event.code), ("create", "admin", 201));
    assert_eq!((event.resource.as_str(), event.name.as_str()), ("configmaps", "one"));
    assert!(event.user_agent.starts_with("kubectl/"), "{event:?}");

    let mark = cluster.audit_mark().unwrap();
    cluster.kubectl(["get", "configmap", &n, "one"]).unwrap();
    cluster.kubectl(["delete", "configmap", &n, "one", "--dry-run=server"]).unwrap();
    cluster.kubectl(["label", "configmap", &n, "one", "a=b", "--dry-run=server"]).unwrap();
    assert_eq!(ours(mark), []);
    cluster.kubectl(["delete", "configmap", &n, "one"]).unwrap();
    assert_eq!(ours(mark).len(), 1);
}

#[test]
fn another_user_has_the_rights_of_their_groups_alone() {
    let cluster = cluster();
    let stranger = cluster.kubeconfig_as("jane", &["nobody"]).unwrap();
    let root = cluster.kubeconfig_as("joe", &["nobody", "system:masters"]).unwrap();
    let list = |kubeconfig: &PathBuf| {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        cluster.kubectl([kubeconfig.as_str(), "get", "secrets", "--all-namespaces"])
    };
    list(&root).unwrap();
    let refusal = list(&stranger).unwrap_err();
    assert!(
        matches!(&refusal, Error::Command { stderr, .. } if stderr.contains(r#"User "jane" cannot list"#))
    );
}

#[test]
fn a_stage_of_our_own_makes_a_pod_fail() {
    let stages = tempfile::tempdir().unwrap();
    let stage = stages.path().join("pod-fails.yaml");
    fs::write(&stage, FAILING_STAGE).unwrap();
    let options = Options { kwok_stages: vec![stage], ..Options::default() };
    let cluster = ControlPlane::start_with(&options).unwrap();
    for (name, fate, phase) in [("bad", "fail", "Failed"), ("good", "run", "Running")] {
        let label = format!("--labels=fate={fate}");
        cluster.kubectl(["run", name, "--image=example.test/x:1", &label]).unwrap();
        let phase = format!("--for=jsonpath={{.status.phase}}={phase}");
        cluster.kubectl(["wait", &format!("pod/{name}"), &phase, "--timeout=30s"]).unwrap();
    }
}

#[test]
fn a_cluster_of_the_user_is_left_as_it_was() {
    let guest = ControlPlane::existing(cluster().kubeconfig().to_owned()).unwrap();
    let namespace = guest.namespace("guest").unwrap();
    let path = format!("/api/v1/namespaces/{}", namespace.name());
    assert_eq!(cluster().get(&path).unwrap()["status"]["phase"], "Active");
    assert!(matches!(guest.audit_mark(), Err(Error::NoAudit)));

    drop(namespace);
    wait_until("the namespace is gone", Duration::from_secs(30), || match cluster().get(&path) {
        Err(Error::Command { stderr, .. }) if stderr.contains("NotFound") => Ok(Some(())),
        answer => answer.map(|_| None),
    })
    .unwrap();
    drop(guest);
    cluster().kubectl(["get", "--raw", "/readyz"]).unwrap();
}

#[test]
fn the_servers_say_their_pinned_version() {
    let version = cluster().get("/version").unwrap();
    let mut kubectl = cluster().command(Tool::Kubectl).unwrap();
    let output = kubectl.args(["version", "--client", "-o", "json"]).output().unwrap();
    let client: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = version["gitVersion"].as_str().unwrap();
    assert_eq!(client["clientVersion"]["gitVersion"], said);
    assert!(said.starts_with("v1.") && version["minor"] == said.split('.').nth(1).unwrap(), "{version}");
}

#[test]
fn a_component_that_cannot_start_shows_its_log() {
    let options = Options {
        apiserver_args: vec!["--no-such-flag".to_owned()],
        controllers: false,
        nodes: false,
        ..Options::default()
    };
    let error = ControlPlane::start_with(&options).unwrap_err();
    assert!(matches!(error, Error::Component { component: "kube-apiserver", .. }), "{error}");
    assert!(error.to_string().contains("unknown flag: --no-such-flag"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_parent_leaves_nothing() {
    for signal in [Signal::KILL, Signal::TERM] {
        let (mut control_plane, kubeconfig, output) = start_binary();
        let directory = kubeconfig.parent().unwrap();
        assert!(processes_that_name(directory) >= 6, "etcd, API server, two controllers, kwok, guard");

        kill_process(Pid::from_child(&control_plane), signal).unwrap();
        let status = control_plane.wait().unwrap();
        assert_eq!(status.success(), signal == Signal::TERM, "{status}");
        wait_until("all is gone", Duration::from_secs(30), || {
            Ok((processes_that_name(directory) == 0 && !directory.exists()).then_some(()))
        })
        .unwrap();
        drop(output);
    }
}

#[test]
fn a_command_gets_the_cluster_and_gives_its_status() {
    let script = "helm version --short && helm3 version --short && kubectl get node fake -o name; exit 7";
    let output = Command::new(env!("CARGO_BIN_EXE_control-plane"))
        .args(["run", "--", "sh", "-c", script])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        matches!(lines[..], [four, three, "node/fake"] if four.starts_with("v4.") && three.starts_with("v3."))
    );
    assert_eq!(output.status.code(), Some(7));
}

/// The binary, once its cluster is ready, and the kubeconfig that it printed.
#[cfg(target_os = "linux")]
fn start_binary() -> (Child, PathBuf, BufReader<ChildStdout>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_control-plane")).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let kubeconfig = line.trim().strip_prefix("KUBECONFIG=").unwrap().into();
    (child, kubeconfig, output)
}

/// How many processes have the directory in their command line. One that has ended has no command line, even if
/// nobody has taken note of its end yet.
#[cfg(target_os = "linux")]
fn processes_that_name(directory: &Path) -> usize {
    let name = directory.to_str().unwrap();
    let command_lines = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        // Most entries are no processes, and those that are may end meanwhile.
        fs::read(entry.path().join("cmdline")).ok()
    });
    command_lines.filter(|line| String::from_utf8_lossy(line).contains(name)).count()
}
