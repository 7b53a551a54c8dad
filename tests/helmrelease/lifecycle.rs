//! Install, upgrade, failure, remediation, tests, drift, deletion.

use serde_json::json;
use windlass_testing::wait_until;

use super::support::{LIMIT, Running, chart, condition};

#[tokio::test(flavor = "multi_thread")]
async fn a_release_lives_from_its_install_to_its_deletion() {
    let mut running = Running::prepare("life").await;
    running.start().await;
    running.release("web", &json!({"values": {"size": "two"}, "driftDetection": {"mode": "enabled"}}));
    running.wait("no source", |o| condition(o, "Ready") == "False SourceNotReady", "web");
    // A source that comes later is enough.
    running.publish("demo", "1.0.0@sha256:00112233445566778899", chart("1.0.0", &[]));
    let object = running.wait_ready("web", "True InstallSucceeded");
    let latest = &object["status"]["history"][0];
    assert_eq!(latest["chartVersion"], "1.0.0+001122334455");
    assert_eq!(
        (&latest["status"], &latest["version"], &latest["action"]),
        (&json!("deployed"), &json!(1), &json!("install"))
    );
    assert_eq!(
        object["status"]["inventory"]["entries"][0]["id"],
        format!("{}_web__ConfigMap", running.ns.name())
    );
    let config = running.get("configmap", "web");
    assert_eq!(config["data"]["size"], "two");
    assert_eq!(config["metadata"]["labels"]["helm.toolkit.fluxcd.io/name"], "web");

    // Drift is corrected at once, and a deleted object is back.
    running
        .cp
        .kubectl([
            "patch",
            "configmap",
            "web",
            "-n",
            running.ns.name(),
            "--type=merge",
            "-p",
            r#"{"data":{"size":"9"}}"#,
        ])
        .unwrap();
    let back = |what: &str| {
        wait_until(what, LIMIT, || {
            Ok((running.get("configmap", "web")["data"]["size"] == "two").then_some(()))
        })
        .unwrap();
    };
    back("the field is back");
    running.cp.kubectl(["delete", "configmap", "web", "-n", running.ns.name()]).unwrap();
    back("the object is back");
    assert_eq!(running.records(), ["deployed"]);

    running.release("web", &json!({"values": {"size": "three"}, "driftDetection": {"mode": "enabled"}}));
    running.wait_ready("web", "True UpgradeSucceeded");
    assert_eq!(running.records(), ["superseded", "deployed"]);
    assert_eq!(running.get("configmap", "web")["data"]["size"], "three");

    running.cp.kubectl(["delete", "helmrelease", "web", "-n", running.ns.name(), "--timeout=30s"]).unwrap();
    assert!(running.records().is_empty());
    assert!(running.get("configmap", "web").is_null());
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_upgrade_is_rolled_back_and_the_next_one_goes_on() {
    let mut running = Running::prepare("fail").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    let upgrade = json!({"remediation": {"retries": 1}});
    running.release("web", &json!({"upgrade": upgrade}));
    running.wait_ready("web", "True InstallSucceeded");
    running.release("web", &json!({"upgrade": upgrade, "values": {"size": "bad"}}));
    let object = running.wait("stalled", |o| condition(o, "Stalled") == "True RetriesExceeded", "web");
    assert_eq!((&object["status"]["upgradeFailures"], &object["status"]["failures"]), (&json!(2), &json!(2)));
    assert_eq!(condition(&object, "Remediated"), "True RollbackSucceeded");
    assert_eq!(condition(&object, "Ready"), "False RollbackSucceeded");
    // An upgrade and a rollback for each try.
    assert_eq!(running.records(), ["superseded", "failed", "superseded", "failed", "deployed"]);
    assert_eq!(running.get("configmap", "web")["data"]["size"], "one");
    running.release("web", &json!({"upgrade": upgrade, "values": {"size": "good"}}));
    let object = running.wait_ready("web", "True UpgradeSucceeded");
    assert_eq!(
        (condition(&object, "Remediated"), condition(&object, "Stalled")),
        (String::new(), String::new())
    );
    assert!(object["status"]["upgradeFailures"].is_null());
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_install_stalls_or_is_uninstalled() {
    let mut running = Running::prepare("install").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    running.release("web", &json!({"values": {"size": "bad"}}));
    let object = running.wait("stalled", |o| condition(o, "Stalled") == "True RetriesExceeded", "web");
    assert_eq!(
        (condition(&object, "Released"), condition(&object, "Ready")),
        ("False InstallFailed".into(), "False InstallFailed".into())
    );
    assert_eq!(running.records(), ["failed"]);
    let install = json!({"remediation": {"retries": 0, "remediateLastFailure": true}});
    running.release("other", &json!({"values": {"size": "bad"}, "install": install}));
    let object = running.wait("remediated", |o| condition(o, "Stalled") == "True RetriesExceeded", "other");
    assert_eq!(condition(&object, "Remediated"), "True UninstallSucceeded");
    assert_eq!(running.records(), ["failed"], "of the first release");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependencies_suspension_and_references() {
    let mut running = Running::prepare("order").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    let from = json!([{"kind": "ConfigMap", "name": "values"}]);
    running.release("db", &json!({"valuesFrom": from}));
    running.release("web", &json!({"dependsOn": [{"name": "db"}]}));
    running.wait("values", |o| condition(o, "Ready") == "False ValuesError", "db");
    running.wait("waits", |o| condition(o, "Ready") == "False DependencyNotReady", "web");
    running.apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values"}, "data": {"values.yaml": "size: five\n"},
    }));
    running.wait_ready("db", "True InstallSucceeded");
    running.wait_ready("web", "True InstallSucceeded");
    assert_eq!(running.get("configmap", "db")["data"]["size"], "five");
    // A change of what values come from is an upgrade.
    running
        .cp
        .kubectl([
            "patch",
            "configmap",
            "values",
            "-n",
            running.ns.name(),
            "--type=merge",
            "-p",
            r#"{"data":{"values.yaml":"size: six\n"}}"#,
        ])
        .unwrap();
    running.wait("upgraded", |o| o["status"]["history"][0]["version"] == 2, "db");
    // A suspended object is left alone, and its release stays when it is deleted.
    running.release("db", &json!({"valuesFrom": from, "suspend": true}));
    running.cp.kubectl(["delete", "helmrelease", "db", "-n", running.ns.name(), "--timeout=30s"]).unwrap();
    assert_eq!(running.get("configmap", "db")["data"]["size"], "six");
    running.end().await;
}

/// A Deployment whose Pods no node accepts, if `slow` is set.
const SLOW: &str = r#"
{{- if .Values.slow }}
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  selector: {matchLabels: {app: slow}}
  template:
    metadata: {labels: {app: slow}}
    spec:
      nodeSelector: {none: such}
      containers: [{name: c, image: none/pause}]
{{- end }}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_needs_no_worker_and_ends_with_a_new_generation() {
    let mut running = Running::prepare("wait").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/deployment.yaml", SLOW)]));
    let own = running.ns.name().to_owned();
    running.start_in(&own, 1).await;
    running.release("slow", &json!({"timeout": "10m", "values": {"slow": true}}));
    let applied = || Ok((!running.get("deployment", "slow").is_null()).then_some(()));
    wait_until("the Deployment", LIMIT, applied).unwrap();
    // The only worker is free meanwhile.
    running.release("quick", &json!({}));
    running.wait_ready("quick", "True InstallSucceeded");
    running.wait("announced", |o| condition(o, "Ready") == "Unknown Progressing", "slow");
    running.release("slow", &json!({"timeout": "10m", "values": {"slow": false}}));
    let object = running.wait_ready("slow", "True UpgradeSucceeded");
    assert!(object["status"]["installFailures"].is_null(), "a cancelled wait is no failure");
    assert!(running.get("deployment", "slow").is_null());
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_belongs_to_the_namespace_of_the_release() {
    let mut running = Running::prepare_alone("squat").await;
    let other = running.cp.namespace("owner").unwrap();
    let home = other.name().to_owned();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start_in_all().await;
    // Somebody in this namespace claims a release of the other one before it exists.
    running.cp.kubectl(["create", "serviceaccount", "tenant", "-n", running.ns.name()]).unwrap();
    let squats = json!({"serviceAccountName": "tenant", "targetNamespace": home, "releaseName": "web"});
    running.release("squatter", &squats);
    running.wait("refused", |o| condition(o, "Ready").starts_with("False"), "squatter");
    running.release_in(
        &home,
        "web",
        &json!({"chartRef": {
            "kind": "OCIRepository", "name": "demo", "namespace": running.ns.name(),
        }}),
    );
    let ready = || {
        let object = running.cp.find(&["helmrelease", "web", "-n", &home])?.unwrap();
        Ok((condition(&object, "Ready") == "True InstallSucceeded").then_some(()))
    };
    wait_until("the owner's release", LIMIT, ready).unwrap();
    // Who has no right to it is refused for that, whoever has it.
    let refused = |o: &serde_json::Value| condition(o, "Ready").starts_with("False");
    running.wait("still refused", refused, "squatter");
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", &home, "--timeout=30s"]).unwrap();
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_undone_by_an_uninstall_is_installed_again() {
    let mut running = Running::prepare("again").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    let upgrade = json!({"remediation": {"strategy": "uninstall", "remediateLastFailure": true}});
    running.release("web", &json!({"upgrade": upgrade}));
    running.wait_ready("web", "True InstallSucceeded");
    running.release("web", &json!({"upgrade": upgrade, "values": {"size": "bad"}}));
    let object = running.wait("stalled", |o| condition(o, "Stalled") == "True RetriesExceeded", "web");
    let status = &object["status"];
    assert_eq!((&status["upgradeFailures"], &status["installFailures"]), (&json!(1), &json!(1)));
    assert_eq!(running.records(), ["failed"], "of the install after the uninstall");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_fields_and_objects_are_no_drift() {
    let mut running = Running::prepare("ignore").await;
    let other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\ndata: {a: \"1\"}\n";
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/other.yaml", other)]));
    running.start().await;
    let detection = json!({"mode": "enabled", "ignore": [
        {"paths": ["/data/size"], "target": {"kind": "ConfigMap", "name": "web"}},
        {"paths": [""], "target": {"kind": "ConfigMap", "name": "other"}},
    ]});
    running.release("web", &json!({"driftDetection": detection}));
    running.wait_ready("web", "True InstallSucceeded");
    let ns = running.ns.name();
    let patch = |name: &str, data: &str| {
        running.cp.kubectl(["patch", "configmap", name, "-n", ns, "--type=merge", "-p", data]).unwrap();
    };
    patch("web", r#"{"data":{"size":"mine"}}"#);
    running.cp.kubectl(["delete", "configmap", "other", "-n", ns]).unwrap();
    running
        .cp
        .kubectl(["annotate", "helmrelease", "web", "-n", ns, "reconcile.fluxcd.io/requestedAt=1"])
        .unwrap();
    running.wait("handled", |o| o["status"]["lastHandledReconcileAt"] == "1", "web");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "mine");
    assert!(running.get("configmap", "other").is_null());
    // What is not ignored is corrected.
    patch("web", r#"{"metadata":{"labels":{"helm.toolkit.fluxcd.io/name":"x"}}}"#);
    let back = || {
        let label = &running.get("configmap", "web")["metadata"]["labels"]["helm.toolkit.fluxcd.io/name"];
        Ok((label == "web").then_some(()))
    };
    wait_until("the label", LIMIT, back).unwrap();
    assert_eq!(running.get("configmap", "web")["data"]["size"], "mine");
    running.end().await;
}
