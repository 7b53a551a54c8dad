//! Causes of failures that end outside of the object: it is reconciled when they end, not at its interval.

use serde_json::{Value, json};

use super::support::{Running, chart, condition};

/// A definition of the kind Thing in a group.
fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_served_later_is_released_at_once_and_again_after_its_definition_was_gone() {
    let mut running = Running::prepare("later-kind").await;
    let group = format!("{}.example.com", running.ns.name());
    let thing = format!("apiVersion: {group}/v1\nkind: Thing\nmetadata: {{name: thing}}\n");
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/thing.yaml", &thing)]));
    running.start().await;
    // Without the event it would be tried again after an hour.
    let hourly = json!({"strategy": {"name": "RetryOnFailure", "retryInterval": "1h"}});
    running.release("web", &json!({"install": hourly, "driftDetection": {"mode": "enabled"}}));
    let failed = |o: &Value| condition(o, "Ready") == "False InstallFailed";
    let object = running.wait("its kind is not served", failed, "web");
    let text = object["status"]["conditions"].to_string();
    assert!(
        text.contains(&format!("no matches for kind \\\"Thing\\\" in version \\\"{group}/v1\\\"")),
        "{text}"
    );
    assert_eq!((running.records().len(), object["status"]["failures"].clone()), (0, json!(1)));

    running.apply(&definition(&group));
    running.wait_ready("web", "True InstallSucceeded");
    let things = format!("things.{group}");
    assert_eq!(running.get(&things, "thing")["metadata"]["name"], "thing");

    // Its definition is deleted, and with it the object; a new definition brings the object back, without a revision.
    running.cp.kubectl(["delete", "crd", &things, "--timeout=30s"]).unwrap();
    running.wait("its kind is gone", |o| condition(o, "Ready").starts_with("False"), "web");
    running.apply(&definition(&group));
    running.wait("ready again", |o| condition(o, "Ready").starts_with("True"), "web");
    assert_eq!(running.get(&things, "thing")["metadata"]["name"], "thing");
    assert_eq!(running.records(), ["deployed"]);
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", running.ns.name(), "--timeout=30s"]).unwrap();
    assert!(running.get(&things, "thing").is_null());
    running.cp.kubectl(["delete", "crd", &things, "--wait=false"]).unwrap();
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_render_that_failed_is_repeated_when_what_it_looked_up_changes() {
    let mut running = Running::prepare("looked-up").await;
    let template = "{{ if not (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"wanted\") }}{{ fail \"wanted is missing\" }}{{ end }}";
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/check.yaml", template)]));
    running.start().await;
    running.release("web", &json!({"interval": "1h", "install": {"remediation": {"retries": -1}}}));
    let failed = |o: &Value| condition(o, "Ready") == "False InstallFailed";
    running.wait("the render fails", failed, "web");
    running.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wanted"}}));
    running.wait_ready("web", "True InstallSucceeded");
    running.end().await;
}
