//! The lock of a release taken away in the middle: nothing more is done to what is someone else's by then.

use crate::support::*;
use serde_json::{Value, json};
use std::time::Duration;
use windlass_engine::{EngineError, HookEvent, ReleaseId};
use windlass_testing::wait_until;

/// Waits for a moment of an operation, and takes its lock.
fn take_lock(ns: &str, moment: impl Fn() -> bool) {
    let patience = Duration::from_secs(20);
    wait_until("the operation is under way", patience, || Ok(moment().then_some(()))).unwrap();
    let patch = json!({"spec": {"holderIdentity": "someone-else"}}).to_string();
    let taken = ["patch", "lease", "windlass-web", "-n", ns, "--type=merge", "-p", &patch];
    control_plane().kubectl(taken).unwrap();
}

/// An object that stays as long as someone wants it to.
fn held(name: &str) -> Value {
    let mut object = config_map(name, "1");
    object["metadata"]["finalizers"] = json!(["example.com/stays"]);
    object
}

fn is_going(ns: &str, name: &str) -> bool {
    get(ns, "configmap", name).is_some_and(|object| object["metadata"]["deletionTimestamp"].is_string())
}

fn set_free(ns: &str, name: &str) {
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    control_plane().kubectl(["patch", "configmap", name, "-n", ns, "--type=merge", "-p", patch]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_cleaned_up() {
    let namespace = control_plane().namespace("lost").unwrap();
    let ns = namespace.name().to_owned();
    let engine = engine().await;
    engine.reconcile(&request(&ns, "web", &[config_map("a", "1")], vec![])).await.unwrap();
    let mut stuck = job("stuck");
    stuck["spec"]["template"]["spec"]["nodeSelector"] = json!({"no": "such-node"});
    let hooks = vec![hook(&stuck, &[HookEvent::PostUpgrade], 0, &[])];
    let mut wanted = request(&ns, "web", &[config_map("a", "2"), config_map("new", "1")], hooks);
    wanted.options.failure.cleanup = true;
    let upgrade = tokio::spawn(async move { engine.reconcile(&wanted).await });
    take_lock(&ns, || get(&ns, "job", "stuck").is_some());
    let error = upgrade.await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::LockLost), "{error}");
    assert_eq!(value(&ns, "new").as_deref(), Some("1"), "it may be theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uninstall_ends() {
    let namespace = control_plane().namespace("lost").unwrap();
    let ns = namespace.name().to_owned();
    let engine = engine().await;
    engine.reconcile(&request(&ns, "web", &[held("a")], vec![])).await.unwrap();
    let mut gone = uninstall(&ns, "web");
    gone.wait = true;
    let uninstall = tokio::spawn(async move { engine.uninstall(&gone).await });
    take_lock(&ns, || is_going(&ns, "a"));
    // Otherwise it would wait for minutes.
    let error = uninstall.await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::LockLost), "{error}");
    assert_eq!(history(&ns, "web"), ["1:uninstalling"]);
    set_free(&ns, "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_left_to_them() {
    let namespace = control_plane().namespace("lost").unwrap();
    let ns = namespace.name().to_owned();
    let engine = engine().await;
    let wanted = request(&ns, "web", &[held("a")], vec![]);
    engine.reconcile(&wanted).await.unwrap();
    control_plane().kubectl(["delete", "configmap", "a", "-n", &ns, "--wait=false"]).unwrap();
    let (id, options) = (ReleaseId::new(&ns, "web"), wanted.options.clone());
    let restore = tokio::spawn(async move { engine.restore(&id, &options, None).await });
    take_lock(&ns, || get(&ns, "lease", "windlass-web").is_some());
    let error = restore.await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::LockLost), "{error}");
    assert!(is_going(&ns, "a"));
    set_free(&ns, "a");
}
