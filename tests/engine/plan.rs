//! Plans: what each object would become, and that exactly this is done.

use crate::{helm::write_chart, support::*};
use serde_json::{Value, json};
use windlass_engine::{EngineError, HookEvent, Immutable, Mode, Preview, ReleaseRequest};

/// A plan in lines: verb, name, and the fields that change.
fn lines(preview: &Preview) -> Vec<String> {
    let line = |c: &windlass_engine::PlannedChange| {
        let fields: Vec<&str> = c.fields.iter().map(|f| f.path.as_str()).collect();
        let fields = if format!("{:?}", c.verb) == "Create" { String::new() } else { fields.join(" ") };
        format!("{:?} {} {fields}", c.verb, c.name).trim_end().to_owned()
    };
    preview.changes.iter().map(line).collect()
}

fn secret(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"pw": value}})
}

fn kept(name: &str) -> Value {
    let mut object = config_map(name, "1");
    object["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn tells_what_becomes_of_each_object() {
    let plane = control_plane();
    let namespace = plane.namespace("plan").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let first = [
        config_map("changed", "1"),
        config_map("same", "1"),
        config_map("lost", "1"),
        config_map("gone", "1"),
        kept("kept"),
        secret("pw", "old-password"),
        deployment("d", "x:1"),
    ];
    let wanted = |objects: &[Value]| -> ReleaseRequest {
        let mut request = request(ns, "web", objects, vec![]);
        request.options.revisions.skip_unchanged = false;
        request.options.ownership.force_conflicts = false;
        request
    };
    let fresh = engine.plan(&wanted(&first)).await.unwrap();
    assert!(fresh.changes.iter().all(|c| format!("{:?}", c.verb) == "Create"), "{:?}", lines(&fresh));
    engine.reconcile(&wanted(&first)).await.unwrap();
    let same = engine.plan(&wanted(&first)).await.unwrap();
    assert!(!same.changes_anything(), "defaults are no changes: {:?}", lines(&same));

    // A bystander's object that bears our marks, a deleted one, a field of someone else.
    plane.kubectl(["delete", "configmap", "lost", "-n", ns]).unwrap();
    let mut marked = config_map("marked", "x");
    marked["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    marked["metadata"]["annotations"] =
        json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": ns});
    plane.kubectl_with(["create", "-n", ns, "-f", "-"], &marked.to_string()).unwrap();
    plane.kubectl(["scale", "deployment/d", "--replicas=5", "-n", ns]).unwrap();
    let mut selector = deployment("d", "x:1");
    selector["spec"]["replicas"] = json!(3);
    let second = [
        config_map("changed", "2"),
        config_map("same", "1"),
        config_map("lost", "1"),
        config_map("marked", "x"),
        config_map("new", "1"),
        secret("pw", "new-secret"),
        selector,
    ];
    let mark = plane.audit_mark().unwrap();
    let preview = engine.plan(&wanted(&second)).await.unwrap();
    assert!(plane.writes_since(mark).unwrap().iter().all(|e| e.namespace != ns), "nothing was written");
    let mut told = lines(&preview);
    told.sort();
    assert_eq!(
        told,
        [
            "Adopt marked",
            "Blocked d",
            "Create lost",
            "Create new",
            "Delete gone",
            "Skip kept",
            "Unchanged same",
            "Update changed data.value",
            "Update pw data.pw",
        ]
    );
    let text = serde_json::to_string(&preview).unwrap();
    for hidden in ["old-password", "new-secret", "bmV3LXNlY3JldA", "b2xkLXBhc3N3b3Jk"] {
        assert!(!text.contains(hidden), "{hidden}");
    }
    let blocked = preview.changes.iter().find(|c| c.name == "d").unwrap();
    let conflict = &blocked.conflicts[0];
    assert_eq!((conflict.field.as_str(), conflict.manager.as_str()), ("spec.replicas", "kubectl"));
    let refused = engine.apply_planned(&wanted(&second), &preview).await.unwrap_err();
    assert!(matches!(refused, EngineError::Blocked(_)), "{refused}");

    // The policies, and then the deed: it is what was planned.
    let mut leaving = wanted(&second);
    leaving.options.ownership.leave_to_owner = vec!["Deployment:spec.replicas".into()];
    let preview = engine.plan(&leaving).await.unwrap();
    let told = lines(&preview);
    assert!(told.contains(&"Unchanged d".to_owned()), "{told:?}");
    let done = engine.apply_planned(&leaving, &preview).await.unwrap();
    assert_eq!(done.revision, preview.revision);
    assert_eq!(get(ns, "deployment", "d").unwrap()["spec"]["replicas"], 5);
    assert!(value(ns, "gone").is_none() && value(ns, "kept").is_some() && value(ns, "new").is_some());
    assert!(!engine.plan(&leaving).await.unwrap().changes_anything());
    let error = engine.apply_planned(&leaving, &preview).await.unwrap_err();
    assert!(matches!(error, EngineError::Moved(_)), "{error}");

    let error = engine.reconcile(&wanted(&second)).await.unwrap_err();
    assert!(error.to_string().contains("spec.replicas is owned by \"kubectl\""), "{error}");
    let mut forced = wanted(&second);
    forced.options.ownership.force_conflicts = true;
    let preview = engine.plan(&forced).await.unwrap();
    assert!(preview.changes.iter().any(|c| c.name == "d" && !c.conflicts.is_empty()), "{preview:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_change_is_recreated_by_plan() {
    let plane = control_plane();
    let namespace = plane.namespace("recreate").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let with = |app: &str| {
        let mut object = deployment("d", "x:1");
        for path in ["/spec/selector/matchLabels/app", "/spec/template/metadata/labels/app"] {
            *object.pointer_mut(path).unwrap() = app.into();
        }
        request(ns, "web", &[object], vec![])
    };
    engine.reconcile(&with("one")).await.unwrap();
    let mut wanted = with("two");
    let preview = engine.plan(&wanted).await.unwrap();
    assert!(lines(&preview)[0].starts_with("Blocked d"), "{:?}", lines(&preview));
    wanted.options.objects.immutable = Immutable::Recreate;
    let preview = engine.plan(&wanted).await.unwrap();
    let told = &lines(&preview)[0];
    assert!(told.starts_with("Recreate d") && told.contains("spec.selector.matchLabels.app"), "{told}");
    let before = get(ns, "deployment", "d").unwrap()["metadata"]["uid"].clone();
    engine.apply_planned(&wanted, &preview).await.unwrap();
    assert_ne!(get(ns, "deployment", "d").unwrap()["metadata"]["uid"], before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_holds_only_in_the_world_that_it_was_made_in() {
    let plane = control_plane();
    let namespace = plane.namespace("moved").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    engine.reconcile(&request(ns, "web", &[config_map("a", "1")], vec![])).await.unwrap();
    let wanted = request(ns, "web", &[config_map("a", "2")], vec![]);
    let preview = engine.plan(&wanted).await.unwrap();
    // A status, a label that is not ours: nothing that the plan speaks of.
    plane.kubectl(["patch", "configmap", "a", "-n", ns, "-p", r#"{"data":{"value":"9"}}"#]).unwrap();
    let error = engine.apply_planned(&wanted, &preview).await.unwrap_err();
    assert!(error.to_string().contains("the plan no longer holds: ConfigMap a"), "{error}");
    assert_eq!(history(ns, "web"), ["1:deployed"], "nothing was written");

    // What moved is named by its name, wherever it stands in the plan.
    let two = request(ns, "web", &[config_map("a", "2"), config_map("b", "2")], vec![]);
    let planned = engine.plan(&two).await.unwrap();
    let mut made = config_map("b", "2");
    made["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    made["metadata"]["annotations"] =
        json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": ns});
    plane.kubectl_with(["create", "-n", ns, "-f", "-"], &made.to_string()).unwrap();
    let error = engine.apply_planned(&two, &planned).await.unwrap_err();
    assert!(error.to_string().contains("ConfigMap b was planned as Create and is now Adopt"), "{error}");

    let preview = engine.plan(&wanted).await.unwrap();
    let mut other = wanted.clone();
    other.rendered = request(ns, "web", &[config_map("a", "3")], vec![]).rendered;
    let error = engine.apply_planned(&other, &preview).await.unwrap_err();
    assert!(matches!(error, EngineError::Moved(_)), "another request: {error}");
    let mut install = wanted.clone();
    install.options.mode = Mode::Install;
    assert!(engine.plan(&install).await.is_err(), "what install refuses, its plan refuses");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_tells_of_hooks_and_of_namespaces_that_are_missing() {
    let plane = control_plane();
    let namespace = plane.namespace("whole").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let with = |value: &str| {
        let hook = hook(&config_map("before", value), &[HookEvent::PreUpgrade], 0, &[]);
        let mut request = request(ns, "web", &[config_map("a", "1")], vec![hook]);
        request.options.revisions.skip_unchanged = false;
        request
    };
    engine.reconcile(&with("1")).await.unwrap();
    assert!(!engine.plan(&with("1")).await.unwrap().changes_anything());
    let other = engine.plan(&with("2")).await.unwrap();
    assert!(other.hooks_differ && other.changes_anything(), "{other:?}");

    let absent = format!("{ns}-absent");
    let mut wanted = request(&absent, "web", &[config_map("a", "1")], vec![]);
    wanted.options.create_namespace = false;
    let told = engine.plan(&wanted).await.unwrap();
    assert!(told.changes[0].reason.contains(&format!("namespaces \"{absent}\" not found")), "{told:?}");
    assert!(lines(&told)[0].starts_with("Blocked a"), "{told:?}");
    wanted.options.create_namespace = true;
    let told = engine.plan(&wanted).await.unwrap();
    assert_eq!(lines(&told), [format!("Create {absent}"), "Create a".to_owned()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_of_helm_3_are_planned_as_they_will_be_taken_over() {
    let plane = control_plane();
    let namespace = plane.namespace("taken").unwrap();
    let ns = namespace.name();
    let directory = tempfile::tempdir().unwrap();
    let mut full = config_map("a", "1");
    full["data"]["leaves"] = "x".into();
    write_chart(directory.path(), &[full.clone(), deployment("d", "x:1")]);
    plane.helm3(["install", "web", directory.path().to_str().unwrap(), "-n", ns]).unwrap();
    let engine = engine().await;
    let same = engine.plan(&request(ns, "web", &[full, deployment("d", "x:1")], vec![])).await.unwrap();
    assert!(!same.changes_anything(), "{:?}", lines(&same));
    let lean = request(ns, "web", &[config_map("a", "1"), deployment("d", "x:1")], vec![]);
    let preview = engine.plan(&lean).await.unwrap();
    assert!(lines(&preview).contains(&"Update a data.leaves".to_owned()), "{:?}", lines(&preview));
    engine.apply_planned(&lean, &preview).await.unwrap();
    assert_eq!(get(ns, "configmap", "a").unwrap()["data"], json!({"value": "1"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_invalid_is_not_deleted_to_be_made_again() {
    let namespace = control_plane().namespace("invalid").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let with = |port: u64| {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"ports": [{"port": port}]}});
        let mut wanted = request(ns, "web", &[service], vec![]);
        wanted.options.objects.immutable = Immutable::Recreate;
        wanted
    };
    engine.reconcile(&with(80)).await.unwrap();
    let uid = || get(ns, "service", "s").unwrap()["metadata"]["uid"].clone();
    let before = uid();
    let preview = engine.plan(&with(70000)).await.unwrap();
    assert!(lines(&preview)[0].starts_with("Blocked s"), "{:?}", lines(&preview));
    let error = engine.reconcile(&with(70000)).await.unwrap_err();
    assert!(error.to_string().contains("must be between 1 and 65535"), "{error}");
    assert_eq!(uid(), before);
    // What may not change is found by its words, here others than those of Deployments.
    let mut moved = with(80);
    let manifests = &mut std::sync::Arc::make_mut(&mut moved.rendered).manifests;
    manifests[0].object["spec"]["clusterIP"] = json!("None");
    let preview = engine.plan(&moved).await.unwrap();
    assert!(
        lines(&preview)[0].starts_with("Recreate s"),
        "{:?} {}",
        lines(&preview),
        preview.changes[0].reason
    );
    engine.reconcile(&moved).await.unwrap();
    assert_ne!(uid(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_as_strict_as_the_deed() {
    let namespace = control_plane().namespace("strict").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let mut object = config_map("a", "1");
    object["dta"] = json!({"typo": "1"});
    let mut wanted = request(ns, "web", &[object], vec![]);
    wanted.options.objects.validation = windlass_cluster::Validation::Strict;
    for there in [false, true] {
        let preview = engine.plan(&wanted).await.unwrap();
        assert!(lines(&preview)[0].starts_with("Blocked a"), "{there}: {:?}", lines(&preview));
        assert!(preview.changes[0].reason.contains("dta"), "{:?}", preview.changes[0]);
        let error = engine.reconcile(&wanted).await.unwrap_err().to_string();
        assert!(error.contains("field not declared in schema"), "{error}");
        engine.reconcile(&request(ns, "web", &[config_map("a", "0")], vec![])).await.unwrap();
    }
}
