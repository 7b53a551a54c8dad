//! Several processes, each with a part of the HelmReleases.

use serde_json::{Value, json};

use super::support::{Running, chart, condition};

/// A HelmRelease of a shard.
fn sharded(running: &Running, name: &str, shard: &str, spec: &Value) {
    running.release(name, spec);
    let label = format!("sharding.fluxcd.io/key={shard}");
    running
        .cp
        .kubectl(["label", "--overwrite", "helmrelease", name, "-n", running.ns.name(), &label])
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_has_its_own_objects_and_sees_what_they_depend_on() {
    let mut running = Running::prepare("shards").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    let others = running.cp.namespace("elsewhere").unwrap();
    running.start_shard("sharding.fluxcd.io/key=one").await;
    sharded(&running, "db", "two", &json!({}));
    sharded(&running, "web", "one", &json!({"dependsOn": [{"name": "db"}]}));
    let far = json!({"name": "far", "namespace": others.name()});
    sharded(&running, "app", "one", &json!({"dependsOn": [far]}));
    sharded(&running, "alone", "one", &json!({}));
    running.wait_ready("alone", "True InstallSucceeded");
    for name in ["web", "app"] {
        running.wait("waits", |o| condition(o, "Ready") == "False DependencyNotReady", name);
    }
    assert!(running.get("helmrelease", "db")["status"]["conditions"].is_null(), "nobody has this shard");

    // The other shard is another process; this one reads the dependency by its name.
    running.start_shard("sharding.fluxcd.io/key=two").await;
    running.wait_ready("db", "True InstallSucceeded");
    let ask = |name: &str| {
        let token = "reconcile.fluxcd.io/requestedAt=1";
        running.cp.kubectl(["annotate", "helmrelease", name, "-n", running.ns.name(), token]).unwrap();
    };
    ask("web");
    running.wait_ready("web", "True InstallSucceeded");

    // So it is with namespaces that the process does not watch.
    running.release_in(others.name(), "far", &json!({"suspend": true}));
    let status = json!({"status": {
        "observedGeneration": 1, "conditions": [{
            "type": "Ready", "status": "True", "reason": "InstallSucceeded", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }});
    let patch = status.to_string();
    let args = [
        "patch",
        "helmrelease",
        "far",
        "-n",
        others.name(),
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    running.cp.kubectl(args).unwrap();
    ask("app");
    running.wait_ready("app", "True InstallSucceeded");

    // An object without its label is nobody's, and its release stays.
    running
        .cp
        .kubectl(["label", "helmrelease", "alone", "-n", running.ns.name(), "sharding.fluxcd.io/key-"])
        .unwrap();
    sharded(&running, "late", "one", &json!({}));
    running.wait_ready("late", "True InstallSucceeded");
    assert_eq!(running.get("configmap", "alone")["data"]["size"], "one");
    running.end().await;
}
