//! HelmReleases whose chart has a HelmRelease: the very one that it is deployed for, and two that have each other.

use serde_json::json;

use super::support::{Running, chart, condition};

/// A HelmRelease that the values name, and which names the release in turn.
const PEER: &str = r#"{{- with .Values.peer }}
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: "{{ . }}"}
spec:
  chartRef: {kind: OCIRepository, name: demo}
  interval: 1h
  timeout: 50s
  install: {disableWait: true}
  upgrade: {disableWait: true}
  values: {peer: "{{ $.Release.Name }}"}
{{- end }}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_helmrelease_that_its_own_chart_has_is_refused() {
    let mut running = Running::prepare("itself").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/peer.yaml", PEER)]));
    running.start().await;
    running.release("web", &json!({"values": {"peer": "web"}}));
    let refused = "templates/peer.yaml has the object that the release is deployed for";
    let object = running.wait("refused", |o| condition(o, "Ready") == "False InstallFailed", "web");
    assert!(object["status"].to_string().contains(refused), "{}", object["status"]);
    assert!(running.records().is_empty());
    running.release("web", &json!({"values": {"peer": ""}}));
    running.wait_ready("web", "True InstallSucceeded");
    // A release that exists stays as it is.
    running.release("web", &json!({"values": {"peer": "web"}}));
    let object = running.wait("refused", |o| condition(o, "Ready") == "False UpgradeFailed", "web");
    assert!(object["status"].to_string().contains(refused), "{}", object["status"]);
    assert_eq!(running.records(), ["deployed"]);
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", running.ns.name(), "--timeout=30s"]).unwrap();
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_helmreleases_that_have_each_other_are_deleted() {
    let mut running = Running::prepare("mutual").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/peer.yaml", PEER)]));
    running.start().await;
    let without_wait = json!({"disableWait": true});
    running.release(
        "a",
        &json!({
            "timeout": "50s", "install": without_wait, "upgrade": without_wait, "values": {"peer": "b"},
        }),
    );
    for (name, release) in [("a", "b"), ("b", "a")] {
        running.wait(
            "it is an object of the other's release",
            |o| o["metadata"]["annotations"]["meta.helm.sh/release-name"] == release,
            name,
        );
        running.wait_ready(name, "True InstallSucceeded");
    }
    // Well before the wait of an uninstall ends without success.
    running.cp.kubectl(["delete", "helmrelease", "a", "-n", running.ns.name(), "--timeout=30s"]).unwrap();
    assert!(running.get("helmrelease", "b").is_null(), "it is gone before the other one");
    assert!(running.records().is_empty());
    assert!(running.get("configmap", "a").is_null() && running.get("configmap", "b").is_null());
    running.end().await;
}
