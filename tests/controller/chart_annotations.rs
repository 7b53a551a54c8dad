//! operator-sdk's annotations and fields that choose what a revision runs, says and watches, what a rollback may do, how many objects are
//! reconciled at a time, and the condition of an operator that may not act for an object.

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

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_makes_objects_anew_unless_an_annotation_forbids_it() {
    let mut own = Running::start(&["Cache"]).await;
    for (name, force) in [("web", None), ("other", Some("false"))] {
        let mut metadata = json!({"name": name, "annotations": {format!("{SDK}/upgrade-force"): "true"}});
        if let Some(force) = force {
            metadata["annotations"][format!("{SDK}/rollback-force")] = force.into();
        }
        let apply = |spec: Value| own.apply_in(own.ns.name(), "Cache", &metadata, &spec);
        let fixed = || own.data(&format!("{name}-fixed"), "fixed");
        apply(json!({"fixed": "a"}));
        own.ready("Cache", name);
        // The immutable ConfigMap is made anew, and then the Service is refused.
        apply(json!({"fixed": "b", "broken": true}));
        own.wait_condition("Cache", name, "Stalled", "True UpgradeError");
        assert_eq!(fixed(), if force.is_some() { "b" } else { "a" }, "{name}");
        apply(json!({"fixed": "b"}));
        own.ready("Cache", name);
        assert_eq!(fixed(), "b");
    }
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_reconciled_as_many_at_a_time_as_the_file_says() {
    let setup = || Setup { fields: ", maxConcurrentReconciles: 1", ..Setup::default() };
    let mut own = Running::start_with(&["Cache"], setup()).await;
    own.end().await;
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        own.apply("Cache", name, &json!({}));
    }
    let mark = own.cp.audit_mark().unwrap();
    own.resume(&["Cache"], &setup()).await;
    for name in names {
        own.ready("Cache", name);
    }
    // The record of one is written to its end before another one's is begun.
    let writes = own.cp.writes_since(mark).unwrap();
    let records = writes.iter().filter(|e| e.namespace == own.ns.name() && e.resource == "secrets");
    let mut order: Vec<&str> = records.filter_map(|e| e.name.strip_prefix("sh.helm.release.v1.")).collect();
    assert!(order.len() >= 2 * names.len(), "{order:?}");
    order.dedup();
    assert_eq!(order.len(), names.len(), "{order:?}");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_may_not_act_for_an_account_says_so() {
    let cp = super::chart_objects::control_plane();
    let home = cp.namespace("sdk").unwrap();
    let n = home.name();
    // All rights but those that are no verbs of objects.
    let verbs = "--verb=get,list,watch,create,update,patch,delete";
    cp.kubectl(["create", "clusterrole", n, verbs, "--resource=*.*"]).unwrap();
    cp.kubectl(["create", "serviceaccount", "operator", "-n", n]).unwrap();
    let account = format!("--serviceaccount={n}:operator");
    cp.kubectl(["create", "clusterrolebinding", n, &format!("--clusterrole={n}"), &account]).unwrap();
    let token = cp.kubectl(["create", "token", "operator", "-n", n]).unwrap();
    let view = cp.kubectl(["config", "view", "--raw", "--minify", "--flatten", "-o", "json"]).unwrap();
    let mut config: Value = serde_json::from_str(&view).unwrap();
    config["users"][0]["user"] = json!({"token": token.trim()});
    let scratch = tempfile::tempdir().unwrap();
    let kubeconfig = scratch.path().join("kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let setup = Setup { account: Some("tenant"), kubeconfig: Some(kubeconfig), ..Setup::default() };
    let mut own = Running::start_with(&["Cache"], setup).await;
    own.apply("Cache", "web", &json!({}));
    let message = own.wait_condition("Cache", "web", "Irreconcilable", "True ErrorGettingClient");
    assert!(message.contains("cannot impersonate"), "{message}");
    assert_eq!(own.condition("Cache", "web", "Stalled"), Default::default(), "it is tried again");
    own.end().await;
    cp.kubectl(["delete", "clusterrolebinding,clusterrole", n]).unwrap();
}
