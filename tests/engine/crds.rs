//! Kinds before the objects of those kinds.

use crate::support::*;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_engine::{
    Adoption, ChangeVerb, CrdFile, CrdPolicy, EngineError, KeptReason, MovedCrds, ReleaseAction,
    ReleaseRequest, RollbackRequest,
};

fn crd(group: &str, scope: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": scope, "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn thing(group: &str, name: &str) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": name}, "spec": {"a": 1}})
}

fn wait_gone(crd: &str) {
    let gone = || Ok(get("default", "crd", crd).is_none().then_some(()));
    windlass_testing::wait_until("the kind is gone", std::time::Duration::from_secs(30), gone).unwrap();
}

/// A release of objects whose chart brings a CRD.
fn bringing(ns: &str, objects: &[Value], crd: Value, policy: CrdPolicy) -> ReleaseRequest {
    let mut wanted = request(ns, "web", objects, vec![]);
    Arc::make_mut(&mut wanted.rendered).crds =
        vec![CrdFile { name: "crds/things.yaml".into(), text: crd.to_string(), objects: vec![crd] }];
    wanted.options.crds = policy;
    wanted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_may_bring_its_kind() {
    let namespace = control_plane().namespace("crd").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    for engine in [engine().await, watching().await] {
        let wanted = request(ns, "web", &[thing(&group, "one"), crd(&group, "Namespaced")], vec![]);
        let done = engine.reconcile(&wanted).await.unwrap();
        assert_eq!((done.action, done.created.len()), (ReleaseAction::Install, 2));
        assert!(get(ns, &format!("things.{group}"), "one").is_some());
        assert_eq!(engine.reconcile(&wanted).await.unwrap().action, ReleaseAction::Unchanged);
        let gone = engine.uninstall(&uninstall(ns, "web")).await.unwrap();
        assert_eq!(gone.deleted.len(), 2, "{gone:?}");
        wait_gone(&format!("things.{group}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_of_the_chart_come_first_and_stay() {
    let namespace = control_plane().namespace("crds").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let engine = engine().await;
    let with = |policy, crd: Value| bringing(ns, &[thing(&group, "one")], crd, policy);
    let error =
        engine.reconcile(&request(ns, "web", &[thing(&group, "one")], vec![])).await.unwrap_err().to_string();
    assert!(
        error.contains("no matches for kind \"Thing\"") && error.ends_with("ensure CRDs are installed first"),
        "{error}"
    );

    engine.reconcile(&with(CrdPolicy::Create, crd(&group, "Namespaced"))).await.unwrap();
    let name = format!("things.{group}");
    let live = get(ns, "crd", &name).unwrap();
    assert!(live["metadata"]["labels"].is_null(), "not the release's");

    let mut newer = crd(&group, "Namespaced");
    newer["metadata"]["labels"] = json!({"newer": "yes"});
    let kept = engine.reconcile(&with(CrdPolicy::Create, newer.clone())).await.unwrap();
    assert_eq!(kept.action, ReleaseAction::Unchanged);
    assert!(get(ns, "crd", &name).unwrap()["metadata"]["labels"].is_null(), "Helm never updates them");
    let kept = engine.reconcile(&with(CrdPolicy::Apply, newer.clone())).await.unwrap();
    assert_eq!(get(ns, "crd", &name).unwrap()["metadata"]["labels"]["newer"], "yes", "{kept:?}");
    assert_eq!(history(ns, "web"), ["1:deployed"]);
    let mark = control_plane().audit_mark().unwrap();
    engine.reconcile(&with(CrdPolicy::Apply, newer)).await.unwrap();
    assert_eq!(control_plane().writes_since(mark).unwrap().iter().filter(|e| e.name == name).count(), 0);

    engine.uninstall(&uninstall(ns, "web")).await.unwrap();
    assert!(get(ns, "crd", &name).is_some(), "never deleted");
    control_plane().kubectl(["delete", "crd", &name]).unwrap();
}

/// A CRD that moves between the templates and `crds/`, by an upgrade or a rollback, is kept with its objects where that is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_crd_that_moves_to_crds_is_kept() {
    let namespace = control_plane().namespace("moves").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let (engine, name) = (engine().await, format!("things.{group}"));
    let object = config_map("a", "1");
    // As a front end of an operator asks; whether it applies `crds/` makes no difference.
    let keeping = |policy, moved_crds| {
        let mut wanted = bringing(ns, std::slice::from_ref(&object), crd(&group, "Namespaced"), policy);
        let file =
            json!({"name": "crds/things.yaml", "data": base64(&crd(&group, "Namespaced").to_string())});
        Arc::make_mut(&mut wanted.chart).0["files"] = json!([file]);
        wanted.options.objects.moved_crds = moved_crds;
        wanted
    };
    let mut templated = request(ns, "web", &[object.clone(), crd(&group, "Namespaced")], vec![]);
    templated.options.objects.moved_crds = MovedCrds::Keep;
    engine.reconcile(&templated).await.unwrap();
    control_plane()
        .kubectl_with(["create", "-n", ns, "-f", "-"], &thing(&group, "precious").to_string())
        .unwrap();
    let is_there = || get(ns, &name, "precious").is_some();

    let moved = keeping(CrdPolicy::Skip, MovedCrds::Keep);
    let plan = engine.plan(&moved).await.unwrap();
    assert_eq!((plan.count(ChangeVerb::Skip), plan.count(ChangeVerb::Delete)), (1, 0), "{plan:?}");
    let done = engine.reconcile(&moved).await.unwrap();
    assert_eq!((done.pruned.len(), done.kept.len()), (0, 1), "{done:?}");
    assert_eq!(done.kept[0].1, KeptReason::InCrdsDir);
    assert!(done.warnings.iter().any(|text| text.contains("it is kept with its objects")), "{done:?}");
    assert!(is_there());
    let again = engine.reconcile(&moved).await.unwrap();
    assert_eq!((again.action, again.warnings), (ReleaseAction::Unchanged, vec![]));

    // Back to the templates, and out of them by a rollback: the record of the revision has the file.
    engine.reconcile(&templated).await.unwrap();
    let back = RollbackRequest {
        id: moved.id.clone(),
        revision: 2,
        options: moved.options.clone(),
        description: None,
        cause: String::new(),
    };
    let plan = engine.plan_rollback(&back).await.unwrap();
    assert_eq!((plan.count(ChangeVerb::Skip), plan.count(ChangeVerb::Delete)), (1, 0), "{plan:?}");
    let done = engine.rollback(&back).await.unwrap();
    assert!(done.pruned.is_empty() && is_there(), "{done:?}");

    // As Helm.
    engine.reconcile(&templated).await.unwrap();
    let deleting = keeping(CrdPolicy::Skip, MovedCrds::Delete);
    let plan = engine.plan(&deleting).await.unwrap();
    let deleted = plan.changes.iter().find(|change| change.verb == ChangeVerb::Delete).unwrap();
    let counted = deleted.objects.as_ref().map(|objects| (objects.kind.as_str(), objects.count));
    assert_eq!(counted, Some(("Thing", Some(1))));
    let done = engine.reconcile(&deleting).await.unwrap();
    assert_eq!(done.pruned.len(), 1);
    let warning = "crds/ of the chart has it: 1 object of kind Thing is deleted with it";
    assert!(done.warnings.iter().any(|text| text.ends_with(warning)), "{done:?}");
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_holds_nothing_but_crds() {
    let namespace = control_plane().namespace("stray").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    for policy in [CrdPolicy::Create, CrdPolicy::CreateMissing, CrdPolicy::Apply] {
        let stray = bringing(ns, &[config_map("a", "1")], config_map("stray", "1"), policy);
        for error in [engine.plan(&stray).await.map(drop), engine.reconcile(&stray).await.map(drop)] {
            let error = error.unwrap_err();
            assert_eq!(
                error.to_string(),
                "crds/things.yaml: ConfigMap \"stray\" is not a CustomResourceDefinition; crds/ may hold nothing else: move it to \
                 templates/"
            );
            assert_eq!(error.disposition(), windlass_engine::Disposition::Stall);
        }
        assert!(value(ns, "stray").is_none() && value(ns, "a").is_none() && history(ns, "web").is_empty());
    }
    let skipped = bringing(ns, &[config_map("a", "1")], config_map("stray", "1"), CrdPolicy::Skip);
    engine.reconcile(&skipped).await.unwrap();
    assert!(value(ns, "stray").is_none() && value(ns, "a").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_are_applied_as_the_releases_actor() {
    let namespace = control_plane().namespace("actor").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let role = ["--verb=*", "--resource=configmaps"];
    let tenant = cluster_as(ns, &format!("tenant-{ns}"), &role).await;
    let wanted = bringing(ns, &[config_map("a", "1")], crd(&group, "Namespaced"), CrdPolicy::Apply);
    let acting = engine().await.acting_as(tenant);
    let error = acting.reconcile(&wanted).await.unwrap_err().to_string();
    assert!(
        error.starts_with("failed to install CRD crds/things.yaml") && error.contains("forbidden"),
        "{error}"
    );
    assert!(get(ns, "crd", &format!("things.{group}")).is_none(), "not with the rights of the engine");
    acting.with_crds_as_operator().reconcile(&wanted).await.unwrap();
    assert!(get(ns, "crd", &format!("things.{group}")).is_some(), "with them where that is asked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_of_another_releases_templates_is_not_overwritten() {
    let namespace = control_plane().namespace("theirs").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let engine = engine().await;
    engine.reconcile(&request(ns, "one", &[crd(&group, "Namespaced")], vec![])).await.unwrap();
    let mut two = bringing(ns, &[config_map("a", "1")], crd(&group, "Namespaced"), CrdPolicy::Apply);
    two.id.name = "two".to_owned();
    let error = engine.reconcile(&two).await.unwrap_err().to_string();
    assert!(error.contains(&format!("it belongs to release {ns}/one")), "{error}");
    two.options.ownership.adoption = Adoption::Any;
    engine.reconcile(&two).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_among_the_templates_takes_nothing_either() {
    let namespace = control_plane().namespace("tloss").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let with = |fields: Value, allow: bool| {
        let mut crd = crd(&group, "Namespaced");
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
        if allow {
            crd["metadata"]["annotations"] = json!({"windlass.dev/allow-data-loss": "true"});
        }
        request(ns, "web", &[crd, config_map("c", "1"), thing(&group, "one")], vec![])
    };
    let number = json!({"type": "integer"});
    for engine in [engine().await, watching().await] {
        engine.reconcile(&with(json!({"a": number}), true)).await.unwrap();
        let worse = with(json!({"b": number}), false);
        // The live CRD still says that it may be changed: first that word goes.
        engine.reconcile(&with(json!({"a": number}), false)).await.unwrap();
        let error = engine.reconcile(&worse).await.unwrap_err();
        let want = format!("things.{group} would drop data of its 1 objects: v1: spec.a is gone");
        assert!(error.to_string().contains(&want), "{error}");
        assert_eq!(error.disposition(), windlass_engine::Disposition::Stall);
        let planned = engine.plan(&worse).await.unwrap();
        let blocked: Vec<&str> = planned
            .changes
            .iter()
            .filter(|c| c.verb == windlass_engine::ChangeVerb::Blocked)
            .map(|c| c.reason.as_str())
            .collect();
        assert!(matches!(blocked[..], [reason] if reason.contains(&want)), "{blocked:?}");
        // Refused before anything was written: no revision tells of it.
        assert!(history(ns, "web").iter().all(|r| !r.contains("failed")), "{:?}", history(ns, "web"));
        assert_eq!(get(ns, &format!("things.{group}"), "one").unwrap()["spec"], json!({"a": 1}));
        engine.reconcile(&with(json!({"b": number}), true)).await.unwrap();
        assert_eq!(get(ns, &format!("things.{group}"), "one").unwrap()["spec"], json!({}));
        engine.uninstall(&uninstall(ns, "web")).await.unwrap();
        wait_gone(&format!("things.{group}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_crd_takes_nothing_from_objects() {
    let namespace = control_plane().namespace("loss").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let engine = engine().await;
    let with = |fields: Value, allow: bool, thing: Option<Value>| {
        let mut crd = crd(&group, "Namespaced");
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
        if allow {
            crd["metadata"]["annotations"] = json!({"windlass.dev/allow-data-loss": "true"});
        }
        let objects: Vec<Value> = thing.into_iter().chain([config_map("c", "1")]).collect();
        bringing(ns, &objects, crd, CrdPolicy::Apply)
    };
    let number = json!({"type": "integer"});
    let one = Some(thing(&group, "one"));
    engine.reconcile(&with(json!({"a": number, "b": number}), false, one.clone())).await.unwrap();
    // No object would lose a field that is merely new.
    engine
        .reconcile(&with(json!({"a": number, "b": number, "c": number}), false, one.clone()))
        .await
        .unwrap();
    let error = engine.reconcile(&with(json!({"b": number}), false, one.clone())).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&format!("things.{group} would drop data of its 1 objects: v1: spec.a is gone")),
        "{text}"
    );
    assert_eq!(error.disposition(), windlass_engine::Disposition::Stall);
    let live = || get(ns, &format!("things.{group}"), "one").unwrap()["spec"].clone();
    assert_eq!(live(), json!({"a": 1}));
    engine.reconcile(&with(json!({"b": number}), true, one)).await.unwrap();
    assert_eq!(live(), json!({}), "what was allowed was done");
    // Without objects nothing can be lost.
    engine.reconcile(&with(json!({"a": number}), false, None)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_nobody_can_read_are_not_lost_either() {
    let namespace = control_plane().namespace("unseen").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let name = format!("things.{group}");
    let with = |schema: Value| {
        let mut crd = crd(&group, "Namespaced");
        crd["spec"]["versions"][0]["served"] = false.into();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        bringing(ns, &[config_map("c", "1")], crd, CrdPolicy::Apply)
    };
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    engine().await.reconcile(&with(open)).await.unwrap();
    let error = engine().await.reconcile(&with(json!({"type": "object"}))).await.unwrap_err().to_string();
    assert!(
        error.contains(&format!("{name} would drop data of its unseen objects: v1 keeps only")),
        "{error}"
    );
    assert!(error.contains("none of its versions is served: serve one to see its objects"), "{error}");
    control_plane().kubectl(["delete", "crd", &name]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_brings_no_crd() {
    let namespace = control_plane().namespace("nocrd").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let name = format!("things.{group}");
    let crd = crd(&group, "Namespaced");
    let wanted = bringing(ns, &[config_map("c", "1"), thing(&group, "one")], crd, CrdPolicy::Apply);
    // Nobody's, and then somebody else at work.
    control_plane().kubectl(["create", "configmap", "c", "-n", ns, "--from-literal=theirs=x"]).unwrap();
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "windlass-web"},
        "spec": {"holderIdentity": "windlass-7/a.b.1/7/7/cd", "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now}});
    for engine in [engine().await, watching().await] {
        let refused = async |words: &str| {
            let error = engine.reconcile(&wanted).await.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert!(get(ns, "crd", &name).is_none(), "{words}");
        };
        refused("exists and cannot be imported").await;
        control_plane().kubectl_with(["create", "-n", ns, "-f", "-"], &lease.to_string()).unwrap();
        let mut adopted = wanted.clone();
        adopted.options.ownership.adoption = Adoption::Any;
        let error = engine.reconcile(&adopted).await.unwrap_err();
        assert!(matches!(error, EngineError::Held { .. }), "{error}");
        assert!(get(ns, "crd", &name).is_none());
        control_plane().kubectl(["delete", "lease", "windlass-web", "-n", ns]).unwrap();
        // The kind that it brings is known to the rest.
        let done = engine.reconcile(&adopted).await.unwrap();
        assert_eq!((done.created.len(), done.changed.len()), (1, 2), "{done:?}");
        assert!(get(ns, &name, "one").is_some());
        engine.uninstall(&uninstall(ns, "web")).await.unwrap();
        control_plane().kubectl(["delete", "crd", &name]).unwrap();
        control_plane().kubectl(["create", "configmap", "c", "-n", ns, "--from-literal=theirs=x"]).unwrap();
    }
}

/// Fields that a schema kept without naming them are no less the objects' than others: what the server would drop decides.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_crd_takes_nothing_that_the_old_one_merely_kept() {
    let namespace = control_plane().namespace("kept").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let name = format!("things.{group}");
    let engine = engine().await;
    let with = |spec: Value| {
        let mut crd = crd(&group, "Namespaced");
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "properties": {"spec": spec}});
        bringing(ns, &[config_map("c", "1")], crd, CrdPolicy::Apply)
    };
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let map = |of: Value| json!({"type": "object", "additionalProperties": of});
    let names = |fields: Value| json!({"type": "object", "properties": fields});
    let text = json!({"type": "string"});
    let table = [
        // What it is, what objects have, what it becomes, and what the server leaves of it.
        (open.clone(), json!({"a": "x", "b": "y"}), names(json!({"b": text})), json!({"b": "y"})),
        (open.clone(), json!({"b": "y"}), names(json!({"b": text})), json!({"b": "y"})),
        (map(text.clone()), json!({"a": "x"}), names(json!({"b": text})), json!({})),
        (map(text.clone()), json!({"b": "y"}), names(json!({"a": text, "b": text})), json!({"b": "y"})),
        (open.clone(), json!({"a": {"x": "1"}, "b": "y"}), map(json!(true)), json!({"a": {}, "b": "y"})),
        (open, json!({"a": "x"}), map(text.clone()), json!({"a": "x"})),
        (
            names(json!({"a": text, "b": text})),
            json!({"b": "y"}),
            names(json!({"b": text})),
            json!({"b": "y"}),
        ),
    ];
    for (was, has, is, left) in table {
        let case = format!("{was} {has} {is}");
        engine.reconcile(&with(was)).await.unwrap();
        let one = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "one"}, "spec": has});
        control_plane().kubectl_with(["create", "-n", ns, "-f", "-"], &one.to_string()).unwrap();
        let live = || get(ns, &name, "one").unwrap()["spec"].clone();
        let mut newer = with(is);
        let planned = engine.plan(&newer).await.unwrap();
        let change = planned.changes.iter().find(|c| c.name == name).unwrap();
        if has == left {
            assert_eq!(format!("{:?}", change.verb), "Update", "{case}: {change:?}");
        } else {
            assert_eq!(format!("{:?}", change.verb), "Blocked", "{case}: {change:?}");
            let error = engine.reconcile(&newer).await.unwrap_err().to_string();
            assert!(error.contains("would drop data of its 1 objects"), "{case}: {error}");
            assert_eq!(live(), has, "{case}");
            let crds = &mut Arc::make_mut(&mut newer.rendered).crds;
            crds[0].objects[0]["metadata"]["annotations"] = json!({"windlass.dev/allow-data-loss": "true"});
        }
        engine.reconcile(&newer).await.unwrap();
        // The server hears of the new schema a moment later.
        windlass_testing::wait_until(&case, std::time::Duration::from_secs(10), || {
            Ok((live() == left).then_some(()))
        })
        .unwrap();
        control_plane().kubectl(["delete", "crd", &name]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_comes_late_is_awaited_too() {
    let namespace = control_plane().namespace("late").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"ports": [{"port": 443}]}});
    // As cert-manager has it: the CRD names the Service of its webhook, and comes after it.
    let mut converted = crd(&group, "Namespaced");
    converted["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "hook", "namespace": ns, "path": "/convert"}}}});
    // As an annotation has it: after a custom resource of another kind.
    let other_group = format!("other.{group}");
    let mut asked = crd(&other_group, "Namespaced");
    asked["metadata"]["annotations"] = json!({"windlass.dev/depends-on": format!("Thing/{ns}/one")});
    let objects =
        [thing(&other_group, "two"), thing(&group, "one"), asked, converted, service, config_map("c", "1")];
    for engine in [engine().await, watching().await] {
        let wanted = request(ns, "web", &objects, vec![]);
        assert_eq!(engine.reconcile(&wanted).await.unwrap().created.len(), 6);
        // The same where objects are put right: the kind went, and its objects with it.
        control_plane().kubectl(["delete", "crd", &format!("things.{other_group}")]).unwrap();
        let id = windlass_engine::ReleaseId::new(ns, "web");
        let again = engine.restore(&id, &wanted.options, None).await.unwrap();
        assert_eq!(again.created.len(), 2, "{again:?}");
        engine.uninstall(&uninstall(ns, "web")).await.unwrap();
        for group in [&group, &other_group] {
            wait_gone(&format!("things.{group}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_that_are_kept_are_planned_by_what_changes() {
    let namespace = control_plane().namespace("plancrd").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let name = format!("things.{group}");
    let engine = engine().await;
    let with = |fields: Value| {
        let mut crd = crd(&group, "Namespaced");
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object",
            // As generators of documentation leave them.
            "x-doc-required": true, "properties": {"spec": {"type": "object", "properties": fields}}});
        bringing(ns, &[config_map("c", "1")], crd, CrdPolicy::Apply)
    };
    let planned = async |fields: Value| {
        let preview = engine.plan(&with(fields)).await.unwrap();
        let change = preview.changes.into_iter().find(|c| c.name == name).unwrap();
        let fields: Vec<String> = change.fields.iter().map(|f| f.path.clone()).collect();
        (format!("{:?}", change.verb), fields.join(" "), change.reason)
    };
    let (old, new) = (json!({"a": {"type": "integer"}}), json!({"b": {"type": "integer"}}));
    assert_eq!(planned(old.clone()).await.0, "Create");
    engine.reconcile(&with(old.clone())).await.unwrap();
    assert_eq!(planned(old.clone()).await.0, "Unchanged", "also what the server has of it is no change");
    let both = json!({"a": {"type": "integer"}, "b": {"type": "integer"}});
    let (verb, fields, _) = planned(both).await;
    assert!(verb == "Update" && fields.contains("properties.b"), "{verb} {fields}");
    let one = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "one"},
        "spec": {"a": 1}});
    control_plane().kubectl_with(["create", "-n", ns, "-f", "-"], &one.to_string()).unwrap();
    let (verb, _, reason) = planned(new).await;
    assert!(verb == "Blocked" && reason.contains("v1: spec.a is gone"), "{verb} {reason}");
    control_plane().kubectl(["delete", "crd", &name]).unwrap();
}
