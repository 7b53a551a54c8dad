//! Releases in another cluster, by a kubeconfig in a Secret.

use serde_json::json;
use windlass_test_cluster::{ControlPlane, wait_until};

use super::support::{LIMIT, Running, chart, condition};

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_leads_to_another_cluster() {
    let remote = tokio::task::spawn_blocking(ControlPlane::start).await.unwrap().unwrap();
    let mut running = Running::prepare("remote").await;
    let ns = running.ns.name().to_owned();
    remote.kubectl(["create", "namespace", &ns]).unwrap();
    let kubeconfig = remote.kubectl(["config", "view", "--raw", "--flatten"]).unwrap();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    let secret = |name: &str, text: &str| {
        running.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"value": text},
        }));
    };
    secret("plain", &kubeconfig.replace("https://", "http://"));
    let reference = |name: &str| json!({"secretRef": {"name": name}});
    let spec = json!({
        "kubeConfig": reference("far"), "interval": "1s", "driftDetection": {"mode": "enabled"},
    });
    running.release("web", &spec);
    let object = running.wait("no Secret", |o| condition(o, "Ready") == "False RESTClientError", "web");
    assert!(object["status"].to_string().contains("the Secret does not exist"), "{object}");
    // A Secret that comes later is enough.
    secret("far", &kubeconfig);
    running.wait_ready("web", "True InstallSucceeded");
    assert!(running.get("configmap", "web").is_null() && running.records().is_empty(), "nothing is here");
    let size = ["get", "configmap", "web", "-n", &ns, "--ignore-not-found", "-o", "jsonpath={.data.size}"];
    assert_eq!(remote.kubectl(size).unwrap(), "one");
    let records = ["get", "secrets", "-n", &ns, "-l", "owner=helm", "-o", "name"];
    assert_eq!(remote.kubectl(records).unwrap().lines().count(), 1);

    // Drift there is found at the interval.
    remote.kubectl(["delete", "configmap", "web", "-n", &ns]).unwrap();
    let back = || Ok((remote.kubectl(size)? == "one").then_some(()));
    wait_until("the object is back", LIMIT, back).unwrap();

    // The same name here is another release.
    running.release("here", &json!({"releaseName": "web"}));
    running.wait_ready("here", "True InstallSucceeded");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "one");

    running.release("plain", &json!({"kubeConfig": reference("plain")}));
    let object = running.wait("files", |o| condition(o, "Ready") == "False RESTClientError", "plain");
    assert!(object["status"].to_string().contains("server is not an https URL"), "{object}");
    running.release("cloud", &json!({"kubeConfig": {"configMapRef": {"name": "x"}}}));
    let object = running.wait("clouds", |o| condition(o, "Ready").starts_with("False"), "cloud");
    assert!(object["status"].to_string().contains("kubeConfig.configMapRef is not supported"), "{object}");

    running.cp.kubectl(["delete", "helmrelease", "web", "-n", &ns, "--timeout=30s"]).unwrap();
    assert_eq!(remote.kubectl(size).unwrap(), "");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "one", "the release here stays");
    running.end().await;
}
