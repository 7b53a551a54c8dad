//! The last lines of a container that failed, as those who wait see them. No kubelet runs here: the node's address is that of
//! a server of the test, which the API server asks as it asks kubelets.

use crate::support::*;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use windlass::release::{Progress, Wait};
use windlass_test_cluster::wait_until;

const LIMIT: Duration = Duration::from_secs(30);

/// Answers every request with a log, over TLS; the port, and what was asked for.
fn kubelet() -> (u16, Arc<Mutex<Vec<String>>>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let (config, asked) = (Arc::new(config), Arc::new(Mutex::new(Vec::new())));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let notes = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, notes) = (Arc::clone(&config), Arc::clone(&notes));
            thread::spawn(move || {
                let connection = rustls::ServerConnection::new(config).unwrap();
                let mut stream = BufReader::new(rustls::StreamOwned::new(connection, stream));
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|n| n > 2) {
                    if let Some(target) = line.strip_prefix("GET ") {
                        notes.lock().unwrap().push(target.split(' ').next().unwrap_or_default().to_owned());
                    }
                    line.clear();
                }
                let text = "connecting\ncannot reach the database\n";
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", text.len());
                // A client that is gone needs no log.
                drop(stream.get_mut().write_all(format!("{head}{text}").as_bytes()));
                drop(stream.get_mut().flush());
            });
        }
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
    let listener = Arc::new(move |_: &_, step: &Progress<'_>| {
        if let Progress::Diagnosis { lines, .. } = step {
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
