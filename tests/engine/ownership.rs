//! Fields and objects that others own.

use crate::support::*;
use serde_json::json;
use windlass_engine::{Adoption, Disposition, EngineError, Immutable, ReleaseAction, ReleaseRequest};

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_others() {
    let plane = control_plane();
    let namespace = plane.namespace("fields").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let with = |image: &str, force: bool| -> ReleaseRequest {
        let mut wanted = request(ns, "web", &[deployment("d", image)], vec![]);
        wanted.options.ownership.force_conflicts = force;
        wanted
    };
    engine.reconcile(&with("x:1", false)).await.unwrap();
    plane.kubectl(["set", "image", "deployment/d", "main=y:1", "-n", ns]).unwrap();
    plane.kubectl(["scale", "deployment/d", "--replicas=3", "-n", ns]).unwrap();

    let error = engine.reconcile(&with("x:2", false)).await.unwrap_err();
    assert!(error.to_string().contains("conflict"), "{error}");
    assert_eq!(error.disposition(), Disposition::Retry);

    engine.reconcile(&with("x:2", true)).await.unwrap();
    let live = get(ns, "deployment", "d").unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "x:2");
    assert_eq!(live["spec"]["replicas"], 2, "no autoscaler targets it: the manifest wins");
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_of_later_waves_are_told_with_the_first() {
    let plane = control_plane();
    let namespace = plane.namespace("waves").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let after = |mut object: serde_json::Value, needs: &str| {
        object["metadata"]["annotations"] = json!({"windlass.dev/depends-on": needs});
        object
    };
    let with = |value: &str, left: &[&str]| -> ReleaseRequest {
        let objects = [
            config_map("a", value),
            after(config_map("b", value), "ConfigMap/a"),
            after(config_map("c", value), "ConfigMap/b"),
            after(config_map("d", value), "ConfigMap/b"),
            after(config_map(&format!("new-{value}"), value), "ConfigMap/b"),
        ];
        let mut wanted = request(ns, "web", &objects, vec![]);
        wanted.options.ownership.force_conflicts = false;
        wanted.options.ownership.leave_to_owner = left.iter().map(|rule| (*rule).to_owned()).collect();
        wanted
    };
    engine.reconcile(&with("1", &[])).await.unwrap();
    for name in ["a", "c", "d"] {
        let patch = r#"{"data":{"value":"theirs"}}"#;
        plane.kubectl(["patch", "configmap", name, "-n", ns, "--field-manager=them", "-p", patch]).unwrap();
    }
    let mark = plane.audit_mark().unwrap();
    // What is left to its owner is no conflict.
    let error = engine.reconcile(&with("2", &["ConfigMap/d:data.value"])).await.unwrap_err();
    assert!(matches!(error, EngineError::Conflicts { .. }), "{error:?}");
    let told = error.to_string();
    let (stopped, further) = told.split_once("\nnot applied, and also in conflict:\n").unwrap();
    assert!(stopped.starts_with(&format!("applying ConfigMap {ns}/a ")), "{told}");
    assert!(further.starts_with(&format!("applying ConfigMap {ns}/c ")), "{told}");
    assert_eq!(told.matches("\n  data.value is owned by \"them\"").count(), 2, "{told}");
    assert_eq!(error.disposition(), Disposition::Retry);
    let mut tries: Vec<String> =
        requests_since(mark, ns).into_iter().filter(|r| r.starts_with("try ")).collect();
    tries.sort();
    assert_eq!(tries, ["b", "c", "d"].map(|name| format!("try patch configmaps/{name}")));
    assert_eq!(value(ns, "b").as_deref(), Some("1"), "only tried");
    let record = engine.records().get(&with("2", &[]).id, 0).await.unwrap();
    let description = record.info.description;
    assert!(description.contains("/a ") && description.contains("/c "), "{description}");

    let mark = plane.audit_mark().unwrap();
    engine.reconcile(&with("2", &["ConfigMap:data.value"])).await.unwrap();
    let requests = requests_since(mark, ns);
    assert!(!requests.iter().any(|r| r.starts_with("try ")), "nothing is tried that goes well: {requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_others_are_taken_only_on_demand() {
    let plane = control_plane();
    let namespace = plane.namespace("take").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    engine.reconcile(&request(ns, "one", &[config_map("a", "1")], vec![])).await.unwrap();
    let mut other = request(ns, "two", &[config_map("a", "2")], vec![]);
    let error = engine.reconcile(&other).await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Stall);
    assert!(history(ns, "two").is_empty(), "nothing was recorded");
    other.options.ownership.adoption = Adoption::Any;
    engine.reconcile(&other).await.unwrap();
    assert_eq!(value(ns, "a").as_deref(), Some("2"));

    // The first release lost it and must not fight for it, nor delete it.
    let error = engine.reconcile(&request(ns, "one", &[config_map("a", "3")], vec![])).await.unwrap_err();
    assert!(error.to_string().contains("current value is \"two\""), "{error}");
    let gone = engine.uninstall(&uninstall(ns, "one")).await.unwrap();
    assert_eq!((gone.deleted.len(), gone.foreign.len()), (0, 1));
    assert!(value(ns, "a").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_releases_objects_are_adopted_only_where_they_agree() {
    let plane = control_plane();
    let namespace = plane.namespace("agree").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    engine.reconcile(&request(ns, "one", &[config_map("a", "1")], vec![])).await.unwrap();
    plane.kubectl(["create", "configmap", "free", "-n", ns]).unwrap();
    let mut other = request(ns, "two", &[config_map("a", "2"), config_map("free", "2")], vec![]);
    other.options.ownership.adoption = Adoption::Unowned;
    let error = engine.reconcile(&other).await.unwrap_err();
    let told = error.to_string();
    assert!(told.contains(&format!("ConfigMap \"a\" in namespace \"{ns}\"")), "{told}");
    assert!(
        told.contains(&format!(
            "it belongs to release {ns}/one; annotate it with windlass.dev/adopted-by={ns}/two"
        )),
        "{told}"
    );
    assert!(!told.contains("\"free\""), "nobody's object may be taken: {told}");
    assert_eq!((error.disposition(), value(ns, "a").as_deref()), (Disposition::Stall, Some("1")));
    assert!(history(ns, "two").is_empty(), "nothing was recorded");

    plane
        .kubectl(["annotate", "configmap", "a", "-n", ns, &format!("windlass.dev/adopted-by={ns}/two")])
        .unwrap();
    engine.reconcile(&other).await.unwrap();
    assert_eq!((value(ns, "a").as_deref(), value(ns, "free").as_deref()), (Some("2"), Some("2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_object_of_kubectl_apply_is_read_again_before_it_is_taken_over() {
    let plane = control_plane();
    let namespace = plane.namespace("fold").unwrap();
    let ns = namespace.name();
    plane.kubectl(["create", "configmap", "created", "-n", ns]).unwrap();
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"old": "1"}});
    plane.kubectl_with(["apply", "-n", ns, "-f", "-"], &applied.to_string()).unwrap();
    let mut wanted = request(ns, "web", &[config_map("created", "1"), config_map("applied", "1")], vec![]);
    wanted.options.ownership.adoption = Adoption::Any;
    wanted.options.ownership.adopt_kubectl_fields = true;
    let mark = plane.audit_mark().unwrap();
    engine().await.reconcile(&wanted).await.unwrap();
    let asked = requests_since(mark, ns);
    let reads = |name: &str| asked.iter().filter(|one| **one == format!("get configmaps/{name}")).count();
    assert_eq!(reads("applied"), reads("created") + 1, "{asked:?}");
    assert_eq!(
        get(ns, "configmap", "applied").unwrap()["data"],
        json!({"value": "1"}),
        "what kubectl set is gone"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_named_twice() {
    let namespace = control_plane().namespace("twice").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let mut double = deployment("d", "x:1");
    double["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "1"}, {"name": "A", "value": "2"}]);
    let mut wanted = request(ns, "web", &[double], vec![]);
    let error = engine.reconcile(&wanted).await.unwrap_err().to_string();
    assert!(error.contains("duplicate entries for key [name=\"A\"]"), "{error}");
    wanted.options.objects.duplicates = windlass_engine::Duplicates::KeepLast;
    let done = engine.reconcile(&wanted).await.unwrap();
    assert_eq!(done.warnings.len(), 1, "{done:?}");
    let live = get(ns, "deployment", "d").unwrap();
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"][0]["env"],
        json!([{"name": "B", "value": "1"}, {"name": "A", "value": "2"}])
    );
    assert_eq!(engine.reconcile(&wanted).await.unwrap().action, ReleaseAction::Unchanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn immutable_fields() {
    let namespace = control_plane().namespace("immutable").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let with = |completions: u64, immutable| {
        let mut run = job("run");
        run["spec"]["completions"] = json!(completions);
        let mut wanted = request(ns, "web", &[run], vec![]);
        wanted.options.objects.immutable = immutable;
        wanted
    };
    engine.reconcile(&with(1, Immutable::Fail)).await.unwrap();
    let error = engine.reconcile(&with(2, Immutable::Fail)).await.unwrap_err();
    assert!(error.to_string().contains("field is immutable"), "{error}");
    let done = engine.reconcile(&with(2, Immutable::Recreate)).await.unwrap();
    assert_eq!((done.action, done.revision, done.created.len()), (ReleaseAction::Resume, 2, 1), "{done:?}");
    assert_eq!(get(ns, "job", "run").unwrap()["spec"]["completions"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_the_kind_does_not_have() {
    let namespace = control_plane().namespace("unknown").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let mut odd = deployment("d", "x:1");
    odd["spec"]["template"]["spec"]["containers"][0]["imag"] = json!("typo");
    odd["spec"]["x.y"] = json!({"a": 1});
    let mut run = job("run");
    run["spec"]["backofLimit"] = json!(3);
    run["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let before = vec![hook(&run, &[windlass_engine::HookEvent::PreInstall], 0, &[])];
    let mut wanted = request(ns, "web", &[odd], before);
    wanted.options.objects.duplicates = windlass_engine::Duplicates::KeepLast;
    let preview = engine.plan(&wanted).await.unwrap();
    let reason = &preview.changes[0].reason;
    assert!(
        reason.contains("left out:") && reason.contains("].imag") && reason.contains("spec.x.y"),
        "{reason}"
    );
    let done = engine.reconcile(&wanted).await.unwrap();
    assert!(done.warnings.iter().any(|w| w.contains(".imag")), "{done:?}");
    assert_eq!(get(ns, "job", "run").unwrap()["status"]["succeeded"], 1);
    let live = get(ns, "deployment", "d").unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "x:1");
    assert_eq!(engine.reconcile(&wanted).await.unwrap().action, ReleaseAction::Unchanged);

    // As Helm 4 has it: objects and hooks with such fields are refused.
    let strict = |name: &str, objects: &[serde_json::Value], hooks| {
        let mut wanted = request(ns, name, objects, hooks);
        wanted.options.objects.validation = windlass_cluster::Validation::Strict;
        wanted
    };
    let mut odd = config_map("odd", "1");
    odd["dta"] = json!({});
    run["metadata"]["name"] = json!("odd");
    let before = vec![hook(&run, &[windlass_engine::HookEvent::PreInstall], 0, &[])];
    for wanted in [strict("one", &[odd], vec![]), strict("two", &[config_map("even", "1")], before)] {
        let error = engine.reconcile(&wanted).await.unwrap_err();
        assert!(error.to_string().contains("field not declared in schema"), "{error}");
        assert_eq!(error.disposition(), Disposition::Stall, "nothing will get better by itself");
    }
}
