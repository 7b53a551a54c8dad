//! operator-sdk's annotations and fields that choose what a revision runs, says and watches.

use serde_json::{Value, json};

use super::chart_objects::{Running, Setup};

const SDK: &str = "helm.sdk.operatorframework.io";

fn descriptions(own: &Running) -> Vec<String> {
    let text = own.cp.helm4(["history", "web", "-n", own.ns.name(), "-o", "json"]).unwrap();
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    all.iter().map(|one| one["description"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_leave_hooks_out_and_describe_revisions() {
    let mut own = Running::start(&["Cache"]).await;
    let spec = |size: u32| json!({"hooks": true, "size": size});
    let all = ["install", "upgrade", "uninstall"];
    let mut annotations = serde_json::Map::new();
    for verb in all {
        annotations.insert(format!("{SDK}/{verb}-disable-hooks"), "true".into());
        annotations.insert(format!("{SDK}/{verb}-description"), format!("our {verb}").into());
    }
    let metadata = json!({"name": "web", "annotations": annotations});
    own.apply_in(own.ns.name(), "Cache", &metadata, &spec(1));
    own.ready("Cache", "web");
    own.apply_in(own.ns.name(), "Cache", &metadata, &spec(2));
    own.ready("Cache", "web");
    own.wait("the upgrade is deployed", || own.data("web", "size") == "2");
    assert_eq!(descriptions(&own), ["our install", "our upgrade"]);
    assert!(own.object("configmap", "web-hook").is_none(), "no hook has run");
    // Without the annotation they run.
    own.annotate("Cache", "web", &format!("{SDK}/upgrade-disable-hooks-"));
    own.apply("Cache", "web", &spec(3));
    own.wait("the hook has run", || own.data("web-hook", "revision") == "3");
    own.ready("Cache", "web");
    own.cp.kubectl(["delete", "configmap", "web-hook", "-n", own.ns.name()]).unwrap();
    own.annotate("Cache", "web", &format!("{SDK}/uninstall-disable-hooks=true"));
    own.delete("Cache", "web");
    assert!(own.object("configmap", "web").is_none() && own.object("configmap", "web-hook").is_none());
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_that_are_not_watched_come_back_with_the_next_pass() {
    let fields = ", watchDependentResources: false, reconcilePeriod: 1h";
    let mut own = Running::start_with(&["Cache"], Setup { fields, ..Setup::default() }).await;
    own.apply("Cache", "web", &json!({}));
    own.ready("Cache", "web");
    own.cp.kubectl(["delete", "configmap", "web", "-n", own.ns.name()]).unwrap();
    own.apply("Cache", "other", &json!({}));
    own.ready("Cache", "other");
    assert!(own.object("configmap", "web").is_none(), "nobody watches it");
    own.annotate("Cache", "web", "windlass.dev/requested-at=now");
    own.wait("the next pass puts it back", || own.data("web", "size") == "1");
    own.cp.kubectl(["delete", "configmap", "web", "-n", own.ns.name()]).unwrap();
    // The annotation beats the period of the file.
    own.annotate("Cache", "web", &format!("{SDK}/reconcile-period=1s"));
    own.wait("the next pass comes soon", || own.data("web", "size") == "1");
    own.end().await;
}
