//! Objects that are nested more deeply than JSON is read: they concern nobody else.

use serde_json::json;

use super::support::{LIMIT, Running, chart};
use windlass_testing::wait_until;

/// A HelmRelease whose values are so many maps deep.
fn deep(name: &str, levels: usize) -> String {
    let values = r#"{"a":"#.repeat(levels) + "1" + &"}".repeat(levels);
    format!(
        r#"{{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease","metadata":{{"name":"{name}"}},
        "spec":{{"chartRef":{{"kind":"OCIRepository","name":"demo"}},"interval":"1h","values":{values}}}}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deeply_nested_object_leaves_the_others_of_its_kind_alone() {
    let mut running = Running::prepare("nesting").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    let namespace = running.ns.name().to_owned();
    let create = |name: &str, levels: usize| {
        running.cp.kubectl_with(["create", "-n", &namespace, "-f", "-"], &deep(name, levels)).unwrap();
    };
    create("deep", 2_000);
    create("near", 100);
    running.release("web", &json!({}));
    // The list at the start has all three.
    running.start().await;
    running.wait_ready("web", "True InstallSucceeded");
    running.wait_ready("near", "True InstallSucceeded");
    let ready = || {
        let path = "jsonpath={.status.conditions[?(@.type=='Ready')].message}";
        running.cp.kubectl(["get", "helmrelease", "deep", "-n", &namespace, "-o", path])
    };
    wait_until("its condition says why", LIMIT, || {
        Ok(ready()?.contains("values that are nested deeper than").then_some(()))
    })
    .unwrap();
    // An event of the watch has another one.
    create("later", 5_000);
    running.release("web", &json!({"values": {"a": 1}}));
    running.wait_ready("web", "True UpgradeSucceeded");
    let names = ["deep", "later"];
    for name in names {
        running.cp.kubectl(["delete", "helmrelease", name, "-n", &namespace, "--timeout=30s"]).unwrap();
    }
    running.end().await;
}
