//! A process that dies at any point leaves what the next one finishes.

use crate::support::*;
use serde_json::{Value, json};
use std::{collections::BTreeSet, future::Future, pin::pin, task::Poll};
use windlass_engine::{
    Engine, EngineError, EngineOptions, HookDeletePolicy, HookEvent, Mode, OnFailure, ReleaseRequest,
    UninstallRequest,
};

/// Runs a future until it was polled `polls` times, then drops it where it stands: a crash. `None` if it came to its
/// end before.
async fn crash_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

async fn operator(holder: &str) -> Engine {
    Engine::new(cluster().await, parse, EngineOptions::once(holder))
}

fn owned(mut request: ReleaseRequest) -> ReleaseRequest {
    request.owner = Some("operator".into());
    request
}

fn names(ns: &str) -> Vec<String> {
    let list = control_plane().get(&format!("/api/v1/namespaces/{ns}/configmaps")).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    let mut names: Vec<String> = items
        .map(|item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned())
        .filter(|name| name != "kube-root-ca.crt")
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn at_any_point_and_back() {
    let plane = control_plane();
    let hooks = || {
        vec![hook(
            &config_map("hook", "1"),
            &[HookEvent::PreInstall, HookEvent::PreUpgrade],
            0,
            &[HookDeletePolicy::HookSucceeded],
        )]
    };
    let first = |ns: &str| owned(request(ns, "web", &[config_map("a", "1"), config_map("b", "1")], hooks()));
    let second = |ns: &str| owned(request(ns, "web", &[config_map("a", "2"), config_map("c", "1")], hooks()));
    let mut crashes = 0;
    for polls in 1.. {
        let namespace = plane.namespace("crash").unwrap();
        let ns = namespace.name();
        let installed = crash_after(polls, operator("one").await.reconcile(&first(ns))).await;
        // The same state is asked for again: one revision.
        let done = operator("two").await.reconcile(&first(ns)).await.unwrap();
        assert_eq!(
            (history(ns, "web"), names(ns)),
            (vec!["1:deployed".to_owned()], vec!["a".into(), "b".into()]),
            "install, {polls} polls: {done:?}"
        );

        let upgraded = crash_after(polls, operator("three").await.reconcile(&second(ns))).await;
        // Another state is asked for: nothing of the unfinished one is left over.
        let done = operator("four")
            .await
            .reconcile(&owned(request(ns, "web", &[config_map("d", "1")], vec![])))
            .await
            .unwrap();
        let past = history(ns, "web");
        assert_eq!(names(ns), ["d"], "upgrade, {polls} polls: {done:?} {past:?}");
        assert!(past.len() <= 3 && past.last().unwrap().ends_with(":deployed"), "{polls} polls: {past:?}");
        assert_eq!(past.iter().filter(|r| r.ends_with(":deployed")).count(), 1, "{polls} polls: {past:?}");
        assert!(!past.iter().any(|r| r.contains("pending")), "{polls} polls: {past:?}");
        let gone = crash_after(polls, operator("five").await.uninstall(&uninstall(ns, "web"))).await;
        let again = UninstallRequest { ignore_not_found: true, ..uninstall(ns, "web") };
        operator("six").await.uninstall(&again).await.unwrap();
        assert_eq!((history(ns, "web"), names(ns)), (vec![], vec![]), "uninstall, {polls} polls");
        crashes += [installed.is_none(), upgraded.is_none(), gone.is_none()]
            .iter()
            .filter(|crashed| **crashed)
            .count();
        if installed.is_some() && upgraded.is_some() && gone.is_some() {
            break;
        }
    }
    assert!(crashes > 10, "only {crashes} crashes were tried");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_undoing_of_an_install_that_failed() {
    let plane = control_plane();
    let asked = |ns: &str, value: &Value| {
        let mut broken = config_map("b", "1");
        broken["data"]["value"] = value.clone();
        let hooks = vec![hook(&config_map("hook", "1"), &[HookEvent::PreDelete], 0, &[])];
        let mut wanted = request(ns, "web", &[config_map("a", "1"), broken], hooks);
        wanted.options.mode = Mode::Install;
        wanted.options.revisions.skip_unchanged = false;
        wanted.options.failure.on_failure = OnFailure::Undo;
        wanted
    };
    let mut left = BTreeSet::new();
    for polls in 1.. {
        let namespace = plane.namespace("undo").unwrap();
        let ns = namespace.name();
        // No ConfigMap holds a list.
        let failed = crash_after(polls, operator("one").await.reconcile(&asked(ns, &json!([])))).await;
        left.extend(history(ns, "web"));
        let done = operator("two").await.reconcile(&asked(ns, &json!("1"))).await;
        assert!(done.is_ok(), "{polls} polls: {done:?}");
        let past = history(ns, "web");
        let ended = |row: &String| row.ends_with(":failed") || row.ends_with(":superseded");
        let (last, others) = past.split_last().unwrap();
        assert!(last.ends_with(":deployed") && others.iter().all(ended), "{polls} polls: {past:?}");
        if let Some(failed) = failed {
            let error = failed.unwrap_err();
            assert!(matches!(error, EngineError::Undone { .. }), "{error}");
            break;
        }
    }
    assert!(
        ["1:pending-install", "1:failed", "1:uninstalling"].iter().all(|row| left.contains(*row)),
        "{left:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn in_an_uninstall_that_keeps_the_history() {
    let plane = control_plane();
    let mut broken = config_map("b", "1");
    broken["data"]["value"] = json!([]);
    for polls in 1.. {
        let namespace = plane.namespace("keeps").unwrap();
        let ns = namespace.name();
        let one = operator("one").await;
        one.reconcile(&request(ns, "web", &[config_map("a", "1")], vec![])).await.unwrap();
        // The newest revision failed, and an older one is deployed.
        one.reconcile(&request(ns, "web", std::slice::from_ref(&broken), vec![])).await.unwrap_err();
        let gone = UninstallRequest { keep_history: true, ..uninstall(ns, "web") };
        let mark = plane.audit_mark().unwrap();
        let done = crash_after(polls, operator("two").await.uninstall(&gone)).await;
        match operator("three").await.uninstall(&gone).await {
            Ok(_) | Err(EngineError::AlreadyDeleted(_)) => {}
            Err(error) => panic!("{polls} polls: {error}"),
        }
        assert_eq!(history(ns, "web"), ["1:superseded", "2:uninstalled"], "{polls} polls");
        if done.is_some() {
            // A crash between the last two writes is rarely hit: their order says that it would be finished.
            let written = plane.writes_since(mark).unwrap();
            let records: Vec<&str> = written
                .iter()
                .filter(|e| e.namespace == ns && e.resource == "secrets" && e.code == 200)
                .map(|e| e.name.rsplit('.').next().unwrap_or_default())
                .collect();
            assert_eq!(records, ["v2", "v1", "v2"], "{written:?}");
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once() {
    let namespace = control_plane().namespace("race").unwrap();
    let ns = namespace.name();
    let (one, two) = (operator("one").await, operator("two").await);
    let (left, right) = (
        request(ns, "web", &[config_map("a", "1")], vec![]),
        request(ns, "web", &[config_map("a", "2")], vec![]),
    );
    let (a, b) = tokio::join!(one.reconcile(&left), two.reconcile(&right));
    let won = [&a, &b].iter().filter(|r| r.is_ok()).count();
    assert!(won >= 1, "{a:?} {b:?}");
    let past = history(ns, "web");
    assert_eq!(past.iter().filter(|r| r.ends_with(":deployed")).count(), 1, "{past:?}");
    assert_eq!(past.len(), won, "{past:?} {a:?} {b:?}");
    one.reconcile(&left).await.unwrap();
    let past = history(ns, "web");
    assert_eq!(
        (value(ns, "a").as_deref(), past.last().map(|r| r.ends_with(":deployed"))),
        (Some("1"), Some(true))
    );
}
