//! Causes of failures that end outside of the object: it is reconciled when they end, not at its interval. And records that cannot be
//! read, which end with the object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_testing::wait_until;

use super::support::{LIMIT, Running, chart, condition};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_takes_records_of_the_object_that_cannot_be_read_and_no_others() {
    let mut running = Running::prepare("unread").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    let names = ["own", "below", "theirs", "unmarked"];
    for size in ["one", "two"] {
        for name in names {
            running.release(name, &json!({"values": {"size": size}}));
        }
        for name in names {
            let reason = if size == "one" { "True InstallSucceeded" } else { "True UpgradeSucceeded" };
            running.wait_ready(name, reason);
        }
    }
    running.stop().await;
    let n = running.ns.name().to_owned();
    let garbage = format!(r#"{{"data":{{"release":"{}"}}}}"#, STANDARD.encode("garbage"));
    for name in names {
        let record = format!("sh.helm.release.v1.{name}.v2");
        running.cp.kubectl(["patch", "secret", &record, "-n", &n, "-p", &garbage]).unwrap();
    }
    let label = |record: &str, label: &str| {
        let record = format!("sh.helm.release.v1.{record}");
        running.cp.kubectl(["label", "--overwrite", "secret", &record, "-n", &n, label]).unwrap();
    };
    // Another HelmRelease, whose release has the same name, has made the newest revision, and this one does not show it.
    label("theirs.v2", "windlass.dev/object-uid=another");
    let object = running.get("helmrelease", "theirs");
    let mut history = object["status"]["history"].clone();
    history.as_array_mut().unwrap().retain(|shot| shot["version"] == 1);
    running.set_status("helmrelease", "theirs", &json!({"history": history}));
    // Another front end has made the revision below.
    label("below.v1", "windlass.dev/owner=helmcharts");
    // As helm-controller's.
    label("unmarked.v2", "windlass.dev/owner-");
    for name in names {
        running.cp.kubectl(["delete", "helmrelease", name, "-n", &n, "--wait=false"]).unwrap();
    }
    running.start().await;
    for name in names {
        let gone = || Ok(running.get("helmrelease", name).is_null().then_some(()));
        wait_until(&format!("{name} is gone"), LIMIT, gone).unwrap();
    }
    for (name, stays) in [("own", false), ("below", true), ("theirs", true), ("unmarked", false)] {
        assert_eq!(running.get("configmap", name).is_null(), !stays, "{name}");
    }
    let mut left: Vec<String> = running
        .list("secrets")
        .iter()
        .filter_map(|secret| secret["metadata"]["name"].as_str()?.strip_prefix("sh.helm.release.v1."))
        .map(str::to_owned)
        .collect();
    left.sort();
    assert_eq!(left, ["below.v1", "theirs.v1", "theirs.v2"]);
    let events = running.list("events");
    for (name, reason) in [
        ("own", "DeletingRecords"),
        ("below", "NotUninstalled"),
        ("theirs", "NotUninstalled"),
        ("unmarked", "DeletingRecords"),
    ] {
        let is_it = |event: &&Value| event["involvedObject"]["name"] == name && event["reason"] == reason;
        assert!(events.iter().any(|event| is_it(&event)), "{name} {reason}");
    }
    running.end().await;
}
