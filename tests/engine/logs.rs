//! The last lines of a container that failed, as those who wait see them. No kubelet runs here: the node's address is that of
//! a server of the test, which the API server asks as it asks kubelets.

use crate::{support::*, tls::serve};
use serde_json::json;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use windlass_engine::{OperationProgress, Wait};
use windlass_testing::wait_until;

const LIMIT: Duration = Duration::from_secs(30);

/// Answers every request with a log; the port, and what was asked for.
fn kubelet() -> (u16, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&asked);
    let (port, _) = serve(move |path, _| {
        notes.lock().unwrap().push(path.to_owned());
        "connecting\ncannot reach the database\n".to_owned()
    });
    (port, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_failed_containers_log_is_shown() {
    let cp = control_plane();
    let namespace = cp.namespace("logs").unwrap();
    let ns = namespace.name().to_owned();
    let (port, asked) = kubelet();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("node.json");
    let node = format!("{ns}-node");
    // A taint keeps the Pods of other tests away.
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node},
        "spec": {"taints": [{"key": "only", "value": "logs", "effect": "NoSchedule"}]}});
    std::fs::write(&path, object.to_string()).unwrap();
    cp.kubectl(["apply", "-f", path.to_str().unwrap()]).unwrap();
    let ready = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    wait_until("the node is ready", LIMIT, || {
        Ok((cp.kubectl(["get", "node", &node, "-o", ready])? == "True").then_some(()))
    })
    .unwrap();
    let patch = |kind: &str, name: &str, more: &[&str], status: serde_json::Value| {
        let status = json!({"status": status}).to_string();
        let args = ["patch", kind, name, "--subresource=status", "--type=merge", "-p", &status];
        cp.kubectl(args.iter().chain(more).copied()).unwrap();
    };
    let status = json!({"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}});
    patch("node", &node, &[], status);
    let mut wanted = deployment("web", "x:1");
    wanted["metadata"]["annotations"] =
        json!({"windlass.dev/ready-when": "jsonpath={.metadata.annotations.never}"});
    wanted["spec"]["replicas"] = json!(1);
    wanted["spec"]["template"]["spec"]["nodeName"] = json!(node);
    wanted["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let mut request = request(&ns, "web", &[wanted], vec![]);
    request.options.wait = Wait::Ready;
    request.options.timeout = Duration::from_secs(8);
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let listener = Arc::new(move |_: &_, step: &OperationProgress<'_>| {
        if let OperationProgress::Diagnosis { lines, .. } = step {
            sink.lock().unwrap().extend(lines.iter().cloned());
        }
    });
    let engine = engine().await.with_progress(listener, true);
    let work = tokio::spawn(async move { engine.reconcile(&request).await });
    let pod = wait_until("the Pod runs", LIMIT, || {
        let name = cp.kubectl([
            "get",
            "pods",
            "-n",
            &ns,
            "-o",
            "jsonpath={.items[?(@.status.podIP)].metadata.name}",
        ])?;
        Ok((!name.is_empty()).then_some(name))
    })
    .unwrap();
    let live = get(&ns, "pod", &pod).unwrap();
    let container = live["spec"]["containers"][0]["name"].as_str().unwrap().to_owned();
    let ended = json!({"containerStatuses": [{"name": container, "image": "x:1", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}],
        "conditions": [{"type": "Ready", "status": "False"}]});
    patch("pod", &pod, &["-n", &ns], ended);
    work.await.unwrap().unwrap_err();
    cp.kubectl(["delete", "node", &node, "--wait=false"]).unwrap();
    let told = told.lock().unwrap().join("\n");
    assert!(told.contains(&format!("Pod {pod}: {container} ended: Error (exit status 3)")), "{told}");
    assert!(told.contains(&format!("Pod {pod}: {container} | cannot reach the database")), "{told}");
    let asked = asked.lock().unwrap().join("\n");
    assert!(
        asked.contains(&format!("/containerLogs/{ns}/{pod}/{container}")) && asked.contains("tailLines=5"),
        "{asked}"
    );
}
