//! Values that an annotation of a HelmRelease sets over its own, as the controller of images writes it.

use serde_json::{Value, json};

use super::support::{Running, chart, condition};

fn size(running: &Running) -> Value {
    running.get("configmap", "web")["data"]["size"].clone()
}

fn annotate(running: &Running, text: &str) {
    let annotation = match text {
        "" => "windlass.dev/image-overrides-".to_owned(),
        text => format!("windlass.dev/image-overrides={text}"),
    };
    let args = ["annotate", "--overwrite", "helmrelease", "web", "-n", running.ns.name(), &annotation];
    running.cp.kubectl(args).unwrap();
}

fn wait_revision(running: &Running, revision: u64, size_then: &str) {
    let holds = |object: &Value| {
        object["status"]["history"][0]["version"] == revision
            && condition(object, "Ready").starts_with("True")
    };
    running.wait(&format!("revision {revision}"), holds, "web");
    assert_eq!(size(running), size_then, "revision {revision}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_makes_a_revision_and_ends_with_its_base() {
    let mut running = Running::prepare("override").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    let values = |size: &str| json!({"values": {"size": size}});
    running.release("web", &values("one"));
    wait_revision(&running, 1, "one");
    annotate(&running, &json!({"size": {"base": "one", "set": {"size": "two"}}}).to_string());
    wait_revision(&running, 2, "two");
    // Neither a restart nor a pass makes a revision.
    running.stop().await;
    running.start().await;
    running.ask("web", "1");
    running.wait("handled", |object| object["status"]["lastHandledReconcileAt"] == "1", "web");
    assert_eq!((running.records().len(), size(&running)), (2, "two".into()));
    // Values that name another image win; the override counts again when they name its base.
    running.release("web", &values("three"));
    wait_revision(&running, 3, "three");
    running.release("web", &values("one"));
    wait_revision(&running, 4, "two");
    annotate(&running, "");
    wait_revision(&running, 5, "one");
    annotate(&running, "{");
    let failed = running.wait("refused", |object| condition(object, "Ready").starts_with("False"), "web");
    let all = failed["status"]["conditions"].to_string();
    assert!(all.contains("annotation windlass.dev/image-overrides: ") && all.contains("remove it"), "{all}");
    annotate(&running, "");
    running.wait("works again", |object| condition(object, "Ready").starts_with("True"), "web");
    assert_eq!(size(&running), "one");
    running.end().await;
}
