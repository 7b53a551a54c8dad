//! Drift of what users scale, drift of releases that the client patches, and charts of which an account may not read each kind.

use serde_json::{Value, json};
use windlass_testing::wait_until;

use super::support::{LIMIT, Running, chart, condition};

const WORKLOAD: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec:\n  replicas: {{ .Values.replicas }}\n  \
                        selector: {matchLabels: {app: x}}\n  template:\n    metadata: {labels: {app: x}}\n    spec: {containers: [{name: c, image: \"c:1\"}]}\n";

impl Running {
    fn kubectl(&self, args: &[&str]) {
        self.cp.kubectl(args.iter().copied().chain(["-n", self.ns.name()])).unwrap();
    }

    fn wait_field(&self, what: &str, (kind, name, pointer): (&str, &str, &str), expected: &Value) {
        let is = || Ok((self.get(kind, name).pointer(pointer) == Some(expected)).then_some(()));
        wait_until(what, LIMIT, is).unwrap_or_else(|e| {
            panic!("{e}: {} {:#}", self.get(kind, name), self.get("helmrelease", name)["status"])
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_the_charts_unless_an_autoscaler_has_them() {
    let mut running = Running::prepare("replicas").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/web.yaml", WORKLOAD)]));
    running.start().await;
    let spec = |replicas: u32| {
        json!({
            "values": {"replicas": replicas}, "driftDetection": {"mode": "enabled"},
            "install": {"disableWait": true}, "upgrade": {"disableWait": true},
        })
    };
    running.release("web", &spec(2));
    running.wait_ready("web", "True InstallSucceeded");
    let place = ("deployment", "web", "/spec/replicas");
    running.kubectl(&["scale", "deployment", "web", "--replicas=5"]);
    running.wait_field("the chart's again", place, &json!(2));
    running.kubectl(&["patch", "deployment", "web", "--type=merge", "-p", r#"{"spec":{"replicas":4}}"#]);
    running.wait_field("the chart's again, of a patch", place, &json!(2));
    running.release("web", &spec(3));
    running.wait_ready("web", "True UpgradeSucceeded");
    running.wait_field("the new number", place, &json!(3));
    // An autoscaler that targets it keeps its number.
    running.kubectl(&["autoscale", "deployment", "web", "--max=9"]);
    running.kubectl(&["scale", "deployment", "web", "--replicas=6"]);
    let mut with_label = spec(3);
    with_label["values"]["size"] = "two".into();
    running.release("web", &with_label);
    running.wait_field("upgraded", ("configmap", "web", "/data/size"), &json!("two"));
    running.wait_ready("web", "True UpgradeSucceeded");
    assert_eq!(running.get("deployment", "web")["spec"]["replicas"], 6);
    // Without it they are the chart's with the next change.
    running.kubectl(&["delete", "hpa", "web"]);
    running.release("web", &spec(1));
    running.wait_field("the chart's without an autoscaler", place, &json!(1));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_of_patched_releases_is_patched() {
    let mut running = Running::prepare("patched").await;
    let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\ndata: {a: b}\n";
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/hook.yaml", hook)]));
    running.start().await;
    running.release(
        "web",
        &json!({"install": {"serverSideApply": false}, "driftDetection": {"mode": "enabled"}}),
    );
    running.wait_ready("web", "True InstallSucceeded");
    assert_eq!(running.stored_record("web", 1)["apply_method"], "csa");
    assert_eq!(running.operation("hook"), ["windlass-hook Update"]);
    let patch = r#"{"data":{"size":"9","hand":"1"}}"#;
    running.kubectl(&["patch", "configmap", "web", "--type=merge", "--field-manager=hand", "-p", patch]);
    running.wait_field("corrected", ("configmap", "web", "/data/size"), &json!("one"));
    assert_eq!(running.get("configmap", "web")["data"]["hand"], "1", "others may add fields");
    assert_eq!(running.operation("web"), ["hand Update", "helm Update"].map(str::to_owned));
    running.kubectl(&["delete", "configmap", "web"]);
    running.wait_field("created again", ("configmap", "web", "/data/size"), &json!("one"));
    assert_eq!(running.operation("web"), ["helm Update"]);
    assert_eq!(running.records(), ["deployed"]);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_of_which_a_kind_may_not_be_read_writes_nothing() {
    let mut running = Running::prepare("unreadable").await;
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n";
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/service.yaml", service)]));
    let n = running.ns.name().to_owned();
    running.kubectl(&["create", "serviceaccount", "some"]);
    running.kubectl(&["create", "role", "some", "--verb=*", "--resource=configmaps,secrets"]);
    let account = format!("--serviceaccount={n}:some");
    running.kubectl(&["create", "rolebinding", "some", "--role=some", &account]);
    running.start().await;
    running
        .release("web", &json!({"serviceAccountName": "some", "install": {"remediation": {"retries": 0}}}));
    let failed = |object: &Value| {
        condition(object, "Ready").starts_with("False ") && object["status"].to_string().contains("services")
    };
    let object = running.wait("it fails", failed, "web");
    assert_eq!(running.records(), [""; 0]);
    assert!(running.get("configmap", "web").is_null(), "nothing is written");
    assert!(object["status"]["installFailures"].is_null(), "{object}");
    assert!(!condition(&object, "Stalled").starts_with("True"), "{object}");
    // It is tried again.
    running.kubectl(&["create", "role", "more", "--verb=*", "--resource=services"]);
    running.kubectl(&["create", "rolebinding", "more", "--role=more", &account]);
    running.wait_ready("web", "True InstallSucceeded");
    running.end().await;
}
