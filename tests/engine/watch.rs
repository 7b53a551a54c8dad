//! Watching: what is touched is noticed and put right, what is not drift is left alone.

use crate::support::*;
use std::time::Duration;
use windlass_engine::{
    Engine, ReleaseAction, ReleaseId,
    record::{Horizon, RecordStore, Storage},
};

pub(crate) async fn next_trigger(engine: &Engine) -> (ReleaseId, String) {
    let (id, trigger) =
        tokio::time::timeout(Duration::from_secs(20), engine.next_trigger()).await.expect("a trigger");
    (id, trigger.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_touched_is_put_right() {
    let plane = control_plane();
    let namespace = plane.namespace("watch").unwrap();
    let ns = namespace.name();
    let engine = watching().await;
    let wanted =
        request(ns, "web", &[config_map("a", "1"), config_map("b", "1"), deployment("d", "x:1")], vec![]);
    engine.reconcile(&wanted).await.unwrap();
    let id = ReleaseId::new(ns, "web");

    plane.kubectl(["delete", "configmap", "a", "-n", ns]).unwrap();
    let (which, why) = next_trigger(&engine).await;
    assert_eq!((which, why), (id.clone(), format!("ConfigMap {ns}/a was deleted")));
    let done = engine.reconcile(&wanted).await.unwrap();
    assert_eq!((done.action, done.revision, done.created.len()), (ReleaseAction::Restore, 1, 1), "{done:?}");
    assert_eq!(value(ns, "a").as_deref(), Some("1"));

    plane.kubectl(["patch", "configmap", "b", "-n", ns, "-p", r#"{"data":{"value":"9"}}"#]).unwrap();
    let (which, why) = next_trigger(&engine).await;
    assert_eq!((which, why), (id.clone(), format!("ConfigMap {ns}/b: fields of ours were taken over")));
    let done = engine.restore(&id, &wanted.options, None).await.unwrap();
    assert_eq!((done.action, done.changed.len(), done.unchanged), (ReleaseAction::Restore, 1, 2), "{done:?}");
    assert_eq!(value(ns, "b").as_deref(), Some("1"));

    plane.kubectl(["label", "configmap", "b", "-n", ns, "app.kubernetes.io/managed-by-"]).unwrap();
    let (_, why) = next_trigger(&engine).await;
    assert_eq!(why, format!("ConfigMap {ns}/b was deleted"), "a lost label looks so to a watch by label");
    let done = engine.reconcile(&wanted).await.unwrap();
    assert_eq!((done.created.len(), done.changed.len()), (0, 1), "it was only relabelled: {done:?}");

    // All quiet again, also for one that starts anew.
    let mark = plane.audit_mark().unwrap();
    assert_eq!(engine.reconcile(&wanted).await.unwrap().action, ReleaseAction::Unchanged);
    assert_eq!(requests_since(mark, ns), Vec::<String>::new());
    let fresh = watching().await;
    let mark = plane.audit_mark().unwrap();
    assert_eq!(fresh.reconcile(&wanted).await.unwrap().action, ReleaseAction::Unchanged);
    assert_eq!(writes(&requests_since(mark, ns)), Vec::<&String>::new());
    assert_eq!(history(ns, "web"), ["1:deployed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_helm_changed_wants_a_look() {
    let plane = control_plane();
    let namespace = plane.namespace("turns").unwrap();
    let ns = namespace.name();
    let engine = watching().await;
    engine.reconcile(&request(ns, "web", &[config_map("a", "1")], vec![])).await.unwrap();
    let wanted = request(ns, "web", &[config_map("a", "2")], vec![]);
    engine.reconcile(&wanted).await.unwrap();
    plane.helm4(["rollback", "web", "1", "-n", ns]).unwrap();
    next_trigger(&engine).await;
    let done = engine.reconcile(&wanted).await.unwrap();
    assert_eq!(
        (done.action, done.revision, value(ns, "a").as_deref()),
        (ReleaseAction::Upgrade, 4, Some("2")),
        "{done:?}"
    );
}

/// A list as of now waits for the server's cache, up to a tenth of a second after any write: once for each release that an
/// operator comes to.
#[tokio::test(flavor = "multi_thread")]
async fn who_watches_reads_records_as_far_as_it_has_seen_them() {
    let plane = control_plane();
    let namespace = plane.namespace("horizon").unwrap();
    let ns = namespace.name();
    let engine = watching().await;
    engine.reconcile(&request(ns, "one", &[config_map("a", "1")], vec![])).await.unwrap();
    let mark = plane.audit_mark().unwrap();
    engine.reconcile(&request(ns, "two", &[config_map("b", "1")], vec![])).await.unwrap();
    engine.reconcile(&request(ns, "one", &[config_map("a", "2")], vec![])).await.unwrap();
    let events = plane.audit_since(mark).unwrap();
    let (seen, now): (Vec<&str>, Vec<&str>) = events
        .iter()
        .filter(|e| e.verb == "list" && e.namespace == ns && e.uri.contains("owner%3Dhelm%2Cname%3D"))
        .map(|e| e.uri.as_str())
        .partition(|uri| uri.contains("resourceVersionMatch=NotOlderThan"));
    assert_eq!((seen.len(), now), (2, vec![]), "heads and whole records of the one that has any");
    assert_eq!(history(ns, "one"), ["1:superseded", "2:deployed"]);
    assert_eq!(history(ns, "two"), ["1:deployed"]);

    // Who does not watch is told by nobody.
    let once = crate::support::engine().await;
    once.reconcile(&request(ns, "one", &[config_map("a", "3")], vec![])).await.unwrap();
    let mark = plane.audit_mark().unwrap();
    once.reconcile(&request(ns, "one", &[config_map("a", "4")], vec![])).await.unwrap();
    let events = plane.audit_since(mark).unwrap();
    assert!(
        !events.iter().any(|e| e.namespace == ns && e.uri.contains("resourceVersionMatch")),
        "{events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_the_server_has_not_come_to_is_waited_for_once() {
    let plane = control_plane();
    let namespace = plane.namespace("future").unwrap();
    let ns = namespace.name();
    engine().await.reconcile(&request(ns, "web", &[config_map("a", "1")], vec![])).await.unwrap();
    // As after etcd was restored from a backup.
    let horizon = Horizon::default();
    horizon.note(&(1u64 << 60).to_string());
    let (cluster, storage) = (cluster().await, Storage::default());
    let store = RecordStore::new(&cluster, &storage, &horizon).as_seen();
    let mark = plane.audit_mark().unwrap();
    for _ in 0..2 {
        let revisions = store.history(&ReleaseId::new(ns, "web")).await.unwrap();
        assert_eq!(revisions.iter().map(|r| r.revision).collect::<Vec<_>>(), [1]);
        assert_eq!(store.list(Some(ns), "name=web").await.unwrap().len(), 1);
    }
    let events = plane.audit_since(mark).unwrap();
    let lists = events.iter().filter(|e| e.namespace == ns && e.verb == "list");
    let waited: Vec<bool> = lists.map(|e| e.uri.contains("resourceVersionMatch")).collect();
    assert_eq!(waited, [true, false, false, false, false], "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn churn_is_not_drift() {
    let plane = control_plane();
    let namespace = plane.namespace("churn").unwrap();
    let ns = namespace.name();
    let engine = watching().await;
    let wanted = request(ns, "web", &[deployment("d", "x:1"), job("once"), config_map("last", "1")], vec![]);
    engine.reconcile(&wanted).await.unwrap();
    plane.kubectl(["wait", "deployment/d", "-n", ns, "--for=condition=Available", "--timeout=60s"]).unwrap();
    plane.kubectl(["wait", "job/once", "-n", ns, "--for=condition=Complete", "--timeout=60s"]).unwrap();
    plane.kubectl(["annotate", "deployment/d", "-n", ns, "someone=else"]).unwrap();
    plane.kubectl(["delete", "job/once", "-n", ns]).unwrap();
    // The next thing that wants a look is the first that is drift.
    plane.kubectl(["delete", "configmap", "last", "-n", ns]).unwrap();
    let (_, why) = next_trigger(&engine).await;
    assert_eq!(why, format!("ConfigMap {ns}/last was deleted"));
    let mark = plane.audit_mark().unwrap();
    let done = engine.reconcile(&wanted).await.unwrap();
    assert_eq!(
        (done.action, done.created.len(), done.changed.len()),
        (ReleaseAction::Restore, 1, 0),
        "{done:?}"
    );
    let requests = requests_since(mark, ns);
    assert_eq!(writes(&requests).len(), 4, "the lock, the object, its new mark in the record: {requests:?}");
    assert!(get(ns, "job", "once").is_none(), "a Job that is over is not run again");
}
