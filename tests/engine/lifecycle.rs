//! A release's life: installed, left alone, upgraded, pruned, uninstalled; and how many requests that takes.

use crate::support::*;
use serde_json::json;
use std::time::Duration;
use windlass_engine::{
    Disposition, Engine, EngineOptions, Mode, ReleaseAction, ReleaseId, ReleaseOptions, ReleaseRequest, Wait,
};
use windlass_testing::wait_until;

#[tokio::test(flavor = "multi_thread")]
async fn from_install_to_uninstall() {
    let plane = control_plane();
    let namespace = plane.namespace("life").unwrap();
    let ns = namespace.name();
    let engine = engine().await;

    let first =
        request(ns, "web", &[config_map("a", "1"), config_map("b", "1"), deployment("d", "x:1")], vec![]);
    let mark = plane.audit_mark().unwrap();
    let done = engine.reconcile(&first).await.unwrap();
    assert_eq!((done.action, done.revision, done.created.len()), (ReleaseAction::Install, 1, 3), "{done:?}");
    let requests = requests_since(mark, ns);
    assert_eq!(writes(&requests).len(), 7, "three objects, the record twice, the lock twice: {requests:?}");
    assert_eq!(requests.len(), 12, "the past twice, three lookups and seven writes: {requests:?}");
    assert_eq!(history(ns, "web"), ["1:deployed"]);
    let marks = get(ns, "configmap", "a").unwrap()["metadata"].clone();
    assert_eq!(marks["labels"]["app.kubernetes.io/managed-by"], "Helm");
    assert_eq!(marks["annotations"]["meta.helm.sh/release-namespace"], ns);

    let again = engine.reconcile(&first).await.unwrap();
    assert_eq!((again.action, again.revision, again.unchanged), (ReleaseAction::Unchanged, 1, 3));
    assert!(!again.wrote());

    let second =
        request(ns, "web", &[config_map("a", "2"), deployment("d", "x:1"), config_map("c", "1")], vec![]);
    let mark = plane.audit_mark().unwrap();
    let done = engine.reconcile(&second).await.unwrap();
    let names =
        |objects: &[windlass_cluster::ObjectRef]| objects.iter().map(|o| o.name.clone()).collect::<Vec<_>>();
    assert_eq!((done.action, done.revision, done.unchanged), (ReleaseAction::Upgrade, 2, 1));
    assert_eq!(
        (names(&done.created), names(&done.changed), names(&done.pruned)),
        (vec!["c".into()], vec!["a".into()], vec!["b".into()])
    );
    let requests = requests_since(mark, ns);
    assert_eq!(
        writes(&requests).len(),
        8,
        "two applies, one deletion, three records, the lock twice: {requests:?}"
    );
    assert_eq!((value(ns, "a").as_deref(), value(ns, "b")), (Some("2"), None));
    assert_eq!(history(ns, "web"), ["1:superseded", "2:deployed"]);

    let gone = engine.uninstall(&uninstall(ns, "web")).await.unwrap();
    assert_eq!((gone.deleted.len(), gone.kept.len()), (3, 0), "{gone:?}");
    assert_eq!((value(ns, "a"), value(ns, "c"), get(ns, "deployment", "d")), (None, None, None));
    assert!(history(ns, "web").is_empty());
    let error = engine.uninstall(&uninstall(ns, "web")).await.unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.disposition()),
        ("release: not found", Disposition::Ignore)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_do_writes_nothing() {
    let plane = control_plane();
    let namespace = plane.namespace("idle").unwrap();
    let ns = namespace.name();
    let wanted = request(ns, "web", &[config_map("a", "1"), deployment("d", "x:1")], vec![]);
    engine().await.reconcile(&wanted).await.unwrap();

    let cold = engine().await;
    let mark = plane.audit_mark().unwrap();
    assert_eq!(cold.reconcile(&wanted).await.unwrap().action, ReleaseAction::Unchanged);
    let requests = requests_since(mark, ns);
    assert_eq!(writes(&requests), Vec::<&String>::new());
    assert_eq!(requests.len(), 4, "the past twice and two objects: {requests:?}");

    let operator = watching().await;
    assert_eq!(operator.reconcile(&wanted).await.unwrap().action, ReleaseAction::Unchanged);
    let mark = plane.audit_mark().unwrap();
    assert_eq!(operator.reconcile(&wanted).await.unwrap().action, ReleaseAction::Unchanged);
    assert_eq!(requests_since(mark, ns), Vec::<String>::new(), "the caches know");
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_pruned_to_its_bound() {
    let plane = control_plane();
    let namespace = plane.namespace("past").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    for revision in 1..=5 {
        let mut wanted = request(ns, "web", &[config_map("a", &revision.to_string())], vec![]);
        wanted.options.revisions.max = 3;
        engine.reconcile(&wanted).await.unwrap();
    }
    assert_eq!(history(ns, "web"), ["3:superseded", "4:superseded", "5:deployed"]);
    let newest = engine.records().get(&ReleaseId::new(ns, "web"), 0).await.unwrap();
    assert_eq!((newest.version, newest.config["some"].as_str()), (5, Some("value")));
    assert_eq!(engine.records().list(Some(ns)).await.unwrap().len(), 1);
    assert_eq!(engine.records().history(&ReleaseId::new(ns, "web"), 256).await.unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn dry_runs_write_nothing_and_tell() {
    let plane = control_plane();
    let namespace = plane.namespace("dry").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let mut wanted = request(ns, "web", &[config_map("a", "1")], vec![]);
    wanted.options.dry_run = true;
    let mark = plane.audit_mark().unwrap();
    let foretold = engine.reconcile(&wanted).await.unwrap();
    assert_eq!((foretold.action, foretold.created.len()), (ReleaseAction::Install, 1));
    assert_eq!(writes(&requests_since(mark, ns)), Vec::<&String>::new());
    assert!(history(ns, "web").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_tells_what_is_not_ready() {
    let namespace = control_plane().namespace("wait").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let waiting = |mut wanted: ReleaseRequest, seconds| {
        wanted.options.wait = Wait::Ready;
        wanted.options.timeout = std::time::Duration::from_secs(seconds);
        wanted
    };
    let good = waiting(request(ns, "good", &[deployment("d", "x:1")], vec![]), 60);
    engine.reconcile(&good).await.unwrap();
    assert_eq!(get(ns, "deployment", "d").unwrap()["status"]["availableReplicas"], 2);

    let mut stuck = deployment("stuck", "x:1");
    stuck["spec"]["template"]["spec"]["nodeSelector"] = json!({"no": "such-node"});
    let bad = waiting(request(ns, "bad", &[stuck], vec![]), 1);
    let error = engine.reconcile(&bad).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(
        text,
        format!(
            "resource Deployment/{ns}/stuck not ready. status: InProgress, message: Available: 0/2\n\
             context deadline exceeded"
        ),
        "as Helm 4 says it"
    );
    assert_eq!(error.disposition(), Disposition::Retry);
    assert_eq!(history(ns, "bad"), ["1:failed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_before_the_rights_went_is_deleted() {
    let plane = control_plane();
    let namespace = plane.namespace("rights").unwrap();
    let ns = namespace.name();
    let cluster = cluster_as(ns, "weak", &["--verb=create,patch", "--resource=configmaps"]).await;
    for (name, verbs, kinds) in [
        ("records", "get,list,create,update,patch,delete", "secrets,leases.coordination.k8s.io"),
        ("reads", "get,list", "configmaps,services"),
    ] {
        let (verbs, kinds) = (format!("--verb={verbs}"), format!("--resource={kinds}"));
        plane.kubectl(["create", "role", name, "-n", ns, &verbs, &kinds]).unwrap();
        let role = format!("--role={name}");
        plane.kubectl(["create", "rolebinding", name, "-n", ns, &role, "--user=weak"]).unwrap();
    }
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let wanted = request(ns, "web", &[config_map("a", "1"), service], vec![]);
    let weak = Engine::new(cluster, parse, EngineOptions::once("test"));
    let failed = |error: String| assert!(error.contains("forbidden"), "{error}");
    failed(weak.reconcile(&wanted).await.unwrap_err().to_string());
    assert_eq!(value(ns, "a").as_deref(), Some("1"));
    // The same revision again, all of which is forbidden now.
    plane.kubectl(["delete", "rolebinding", "weak", "-n", ns]).unwrap();
    let may = ["auth", "can-i", "patch", "configmaps", "-n", ns, "--as=weak"];
    wait_until("the right is gone", Duration::from_secs(30), || {
        Ok(plane.kubectl(may).is_err().then_some(()))
    })
    .unwrap();
    failed(weak.reconcile(&wanted).await.unwrap_err().to_string());
    assert_eq!(history(ns, "web"), ["1:failed"]);
    engine().await.uninstall(&uninstall(ns, "web")).await.unwrap();
    assert_eq!((value(ns, "a"), history(ns, "web").len()), (None, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_object_outlives_its_release() {
    let namespace = control_plane().namespace("keep").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let mut kept = config_map("kept", "1");
    kept["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    engine.reconcile(&request(ns, "web", &[kept.clone(), config_map("a", "1")], vec![])).await.unwrap();
    let done = engine.reconcile(&request(ns, "web", &[config_map("a", "1")], vec![])).await.unwrap();
    assert_eq!((done.pruned.len(), done.kept.len()), (0, 1), "{done:?}");
    engine.reconcile(&request(ns, "web", &[kept, config_map("a", "1")], vec![])).await.unwrap();
    let gone = engine.uninstall(&uninstall(ns, "web")).await.unwrap();
    assert_eq!((gone.deleted.len(), gone.kept[0].name.as_str()), (1, "kept"));
    assert!(value(ns, "kept").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_upgrade_is_recorded_and_tried_again_under_its_number() {
    let namespace = control_plane().namespace("fail").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    engine.reconcile(&request(ns, "web", &[config_map("a", "1")], vec![])).await.unwrap();
    let broken = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 99999}]}});
    let wrong = request(ns, "web", &[config_map("a", "2"), config_map("new", "1"), broken], vec![]);
    for _ in 0..2 {
        let error = engine.reconcile(&wrong).await.unwrap_err();
        assert!(
            error.to_string().contains("test/templates/s.yaml") && error.to_string().contains("99999"),
            "{error}"
        );
        assert_eq!(error.disposition(), Disposition::Stall);
        assert_eq!(history(ns, "web"), ["1:deployed", "2:failed"]);
    }
    let record = engine.records().get(&ReleaseId::new(ns, "web"), 2).await.unwrap();
    assert!(record.info.description.starts_with("Upgrade \"web\" failed: "), "{}", record.info.description);
    // Back to the deployed state: what the failed one made is pruned.
    let done = engine.reconcile(&request(ns, "web", &[config_map("a", "1")], vec![])).await.unwrap();
    assert_eq!((done.action, done.revision), (ReleaseAction::Upgrade, 3));
    assert_eq!((value(ns, "a").as_deref(), value(ns, "new")), (Some("1"), None));
    assert_eq!(history(ns, "web"), ["1:superseded", "2:failed", "3:deployed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_undone_on_demand() {
    let namespace = control_plane().namespace("undo").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let broken = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 99999}]}});
    let undoing = |objects: &[serde_json::Value]| {
        let mut wanted = request(ns, "web", objects, vec![]);
        wanted.options.failure.on_failure = windlass_engine::OnFailure::Undo;
        wanted
    };
    let error =
        engine.reconcile(&undoing(&[config_map("a", "1"), broken.clone()])).await.unwrap_err().to_string();
    assert!(
        error.starts_with(
            "release web failed, and has been uninstalled due to rollback-on-failure being set: "
        ),
        "{error}"
    );
    assert_eq!((history(ns, "web").len(), value(ns, "a")), (0, None));
    engine.reconcile(&undoing(&[config_map("a", "1")])).await.unwrap();
    let error = engine
        .reconcile(&undoing(&[config_map("a", "2"), config_map("b", "1"), broken]))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(
            "release web failed, and has been rolled back due to rollback-on-failure being set: "
        ),
        "{error}"
    );
    assert_eq!((value(ns, "a").as_deref(), value(ns, "b")), (Some("1"), None));
    assert_eq!(history(ns, "web"), ["1:superseded", "2:failed", "3:deployed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_made_on_demand() {
    let plane = control_plane();
    let outer = plane.namespace("made").unwrap();
    let ns = format!("{}-inner", outer.name());
    let engine = engine().await;
    let mut wanted = request(&ns, "web", &[config_map("a", "1")], vec![]);
    assert!(engine.reconcile(&wanted).await.unwrap_err().to_string().contains("not found"));
    wanted.options = ReleaseOptions { create_namespace: true, mode: Mode::Install, ..wanted.options };
    engine.reconcile(&wanted).await.unwrap();
    assert_eq!(value(&ns, "a").as_deref(), Some("1"));
    assert_eq!(
        engine.reconcile(&wanted).await.unwrap_err().to_string(),
        "cannot reuse a name that is still in use"
    );
    plane.kubectl(["delete", "namespace", &ns, "--wait=false"]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_read_no_more_than_they_show() {
    let namespace = control_plane().namespace("lists").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    for (name, values) in [("one", &["1", "2", "3"][..]), ("two", &["1"])] {
        for value in values {
            engine.reconcile(&request(ns, name, &[config_map(name, value)], vec![])).await.unwrap();
        }
    }
    let mark = control_plane().audit_mark().unwrap();
    let heads = engine.records().heads(Some(ns)).await.unwrap();
    let shown: Vec<String> =
        heads.iter().map(|h| format!("{} {} {}", h.id.name, h.revision, h.status)).collect();
    assert_eq!(shown, ["one 3 deployed", "two 1 deployed"]);
    assert_eq!(requests_since(mark, ns), ["list secrets/"], "metadata alone");
    let mark = control_plane().audit_mark().unwrap();
    let last = engine.records().history(&ReleaseId::new(ns, "one"), 1).await.unwrap();
    assert_eq!(last.iter().map(|r| r.version).collect::<Vec<_>>(), [3]);
    assert_eq!(requests_since(mark, ns), ["list secrets/", "get secrets/sh.helm.release.v1.one.v3"]);
    let superseded = engine.records().superseded(Some(ns)).await.unwrap();
    assert_eq!(superseded.iter().map(|h| h.revision).collect::<Vec<_>>(), [1, 2]);
}
