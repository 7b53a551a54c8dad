//! Chart hooks: order, waiting, deletion, failure.

use crate::support::*;
use serde_json::json;
use std::sync::Arc;
use windlass_engine::{
    HookDeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded},
    HookEvent::{
        PostDelete, PostInstall, PostRollback, PostUpgrade, PreDelete, PreInstall, PreRollback, PreUpgrade,
        Test,
    },
    ReleaseAction, ReleaseId,
};

#[tokio::test(flavor = "multi_thread")]
async fn run_in_order_around_the_release() {
    let namespace = control_plane().namespace("hooks").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let hooks = vec![
        hook(&job("second"), &[PreInstall], 5, &[]),
        hook(&job("first"), &[PreInstall, PreUpgrade], -5, &[HookSucceeded, BeforeHookCreation]),
        hook(&config_map("after", "1"), &[PostInstall], 0, &[]),
        hook(&job("farewell"), &[PreDelete], 0, &[HookSucceeded]),
        hook(&config_map("left", "1"), &[PostDelete], 0, &[]),
    ];
    let wanted = request(ns, "web", &[config_map("a", "1")], hooks);
    engine.reconcile(&wanted).await.unwrap();
    let second = get(ns, "job", "second").unwrap();
    assert_eq!(second["status"]["succeeded"], 1, "awaited");
    assert!(second["metadata"]["labels"]["app.kubernetes.io/managed-by"].is_null(), "no part of the release");
    assert!(get(ns, "job", "first").is_none(), "deleted after its success");
    assert!(value(ns, "after").is_some());
    let record = engine.records().get(&ReleaseId::new(ns, "web"), 1).await.unwrap();
    let run = |name: &str| record.hooks.iter().find(|h| h.name == name).unwrap().last_run.clone();
    assert_eq!(
        (run("first").phase.as_str(), run("second").phase.as_str(), run("farewell").phase.as_str()),
        ("Succeeded", "Succeeded", "")
    );
    assert!(run("first").completed_at <= run("second").started_at, "one after the other");

    assert_eq!(
        engine.reconcile(&wanted).await.unwrap().action,
        ReleaseAction::Unchanged,
        "hooks are no reason for a revision"
    );
    let mut more = Arc::unwrap_or_clone(wanted.rendered.clone());
    more.hooks.pop();
    more.checksum = "other".into();
    let changed = engine
        .reconcile(&windlass_engine::ReleaseRequest { rendered: Arc::new(more), ..wanted.clone() })
        .await
        .unwrap();
    assert_eq!(changed.action, ReleaseAction::Upgrade, "a hook that is no more is one");
    engine.reconcile(&wanted).await.unwrap();

    let gone = engine.uninstall(&uninstall(ns, "web")).await.unwrap();
    assert!(gone.errors.is_empty(), "{gone:?}");
    assert!(get(ns, "job", "farewell").is_none() && value(ns, "left").is_some() && value(ns, "a").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn tests_run_on_demand() {
    let plane = control_plane();
    let namespace = plane.namespace("tests").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let hooks = vec![hook(&job("fast"), &[Test], 0, &[]), hook(&job("other"), &[Test], 0, &[])];
    engine.reconcile(&request(ns, "web", &[config_map("a", "1")], hooks)).await.unwrap();
    assert!(get(ns, "job", "fast").is_none(), "tests are no part of an install");
    let id = ReleaseId::new(ns, "web");
    let timeout = std::time::Duration::from_secs(60);
    let all = windlass_engine::TestRequest { id, timeout, ..Default::default() };
    let fast = windlass_engine::TestRequest { only: vec!["fast".to_owned()], ..all.clone() };
    let record = engine.test(&fast).await.unwrap().record;
    let phases = |record: &windlass_engine::record::Record| {
        record.hooks.iter().map(|h| h.last_run.phase.clone()).collect::<Vec<_>>()
    };
    // Those that are passed over come first, as Helm stores them.
    assert_eq!(phases(&record), ["", "Succeeded"]);
    assert!(get(ns, "job", "other").is_none());
    let record = engine.test(&all).await.unwrap().record;
    assert_eq!(phases(&record), ["Succeeded", "Succeeded"]);
    let status = plane.helm4(["status", "web", "-n", ns]).unwrap();
    assert!(
        status.contains("TEST SUITE:     other") && status.contains("Phase:          Succeeded"),
        "{status}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_deletes_no_object_of_another_release() {
    let namespace = control_plane().namespace("taken").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    engine.reconcile(&request(ns, "one", &[config_map("a", "1")], vec![])).await.unwrap();
    // Its policies would delete what has its name, before it and after it.
    let hooks =
        vec![hook(&config_map("a", "2"), &[PreInstall], 0, &[BeforeHookCreation, HookFailed, HookSucceeded])];
    let error = engine.reconcile(&request(ns, "two", &[], hooks)).await.unwrap_err().to_string();
    assert!(
        error.contains(&format!("ConfigMap {ns}/a (test/templates/a.yaml): it belongs to release {ns}/one")),
        "{error}"
    );
    assert_eq!(value(ns, "a").as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_deletes_what_it_created_and_not_what_took_its_place() {
    let namespace = control_plane().namespace("place").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let hooks = vec![
        hook(&config_map("a", "first"), &[PreInstall], 0, &[HookSucceeded]),
        hook(&config_map("a", "second"), &[PreInstall], 1, &[BeforeHookCreation]),
    ];
    engine.reconcile(&request(ns, "web", &[], hooks)).await.unwrap();
    assert_eq!(value(ns, "a").as_deref(), Some("second"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_hook_fails_the_release() {
    let namespace = control_plane().namespace("hookfail").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let doomed = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "doomed"}, "spec": {
        "activeDeadlineSeconds": 1, "backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never",
            "nodeSelector": {"no": "such-node"}, "containers": [{"name": "main", "image": "job"}]}}}});
    let hooks = |policies: &[_]| {
        vec![
            hook(&job("fine"), &[PreInstall], -1, &[HookSucceeded]),
            hook(&doomed, &[PreInstall], 0, policies),
        ]
    };
    let wanted = request(ns, "web", &[config_map("a", "1")], hooks(&[HookFailed]));
    let error = engine.reconcile(&wanted).await.unwrap_err().to_string();
    let wanted = format!(
        "failed pre-install: resource Job/{ns}/doomed not ready. status: Failed, message: Job Failed. failed: 1/1"
    );
    assert_eq!(error, wanted, "as Helm 4 says it");
    assert_eq!(history(ns, "web"), ["1:failed"]);
    assert!(value(ns, "a").is_none(), "nothing was applied");
    assert!(
        get(ns, "job", "doomed").is_none() && get(ns, "job", "fine").is_none(),
        "deleted by their policies"
    );
    let record = engine.records().get(&ReleaseId::new(ns, "web"), 1).await.unwrap();
    assert_eq!(record.hooks[1].last_run.phase, "Failed");
    assert!(
        record.info.description.starts_with("Release \"web\" failed: failed pre-install"),
        "{}",
        record.info.description
    );

    // Put right: the same revision number is not used for another state.
    let done = engine.reconcile(&request(ns, "web", &[config_map("a", "1")], vec![])).await.unwrap();
    assert_eq!((done.action, done.revision), (ReleaseAction::Upgrade, 2));
    assert_eq!(history(ns, "web"), ["1:superseded", "2:deployed"], "as Helm 4 has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_runs_its_own_and_a_plan_names_them() {
    let namespace = control_plane().namespace("events").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let events =
        [PreInstall, PostInstall, PreUpgrade, PostUpgrade, PreRollback, PostRollback, PreDelete, PostDelete];
    let hooks: Vec<_> =
        events.iter().map(|e| hook(&config_map(&e.to_string(), "1"), &[*e], 0, &[])).collect();
    let asked = |value: &str| {
        let mut wanted = request(ns, "web", &[config_map("a", value)], hooks.clone());
        wanted.options.revisions.skip_unchanged = false;
        wanted
    };
    let ran = || {
        let mut ran: Vec<String> =
            events.iter().map(ToString::to_string).filter(|name| value(ns, name).is_some()).collect();
        for name in &ran {
            control_plane().kubectl(["delete", "configmap", name, "-n", ns]).unwrap();
        }
        ran.sort();
        ran
    };
    let planned = async |value: &str| {
        let hooks = engine.plan(&asked(value)).await.unwrap().hooks;
        hooks.iter().map(|h| format!("{} {} {}", h.event, h.kind, h.name)).collect::<Vec<_>>()
    };
    let named = |event: &str| format!("{event} ConfigMap {event}");
    assert_eq!(planned("1").await, [named("pre-install"), named("post-install")]);
    engine.reconcile(&asked("1")).await.unwrap();
    assert_eq!(ran(), ["post-install", "pre-install"]);
    assert_eq!(planned("2").await, [named("pre-upgrade"), named("post-upgrade")]);
    engine.reconcile(&asked("2")).await.unwrap();
    assert_eq!(ran(), ["post-upgrade", "pre-upgrade"]);
    let back = windlass_engine::RollbackRequest {
        id: ReleaseId::new(ns, "web"),
        revision: 1,
        options: windlass_engine::ReleaseOptions::default(),
        description: None,
        cause: "a test".to_owned(),
    };
    engine.rollback(&back).await.unwrap();
    assert_eq!(ran(), ["post-rollback", "pre-rollback"]);
    engine.uninstall(&uninstall(ns, "web")).await.unwrap();
    assert_eq!(ran(), ["post-delete", "pre-delete"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_makes_room_for_itself_and_is_waited_for_no_longer_than_asked() {
    let namespace = control_plane().namespace("anew").unwrap();
    let ns = namespace.name();
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let listener = Arc::new(move |_: &_, step: &windlass_engine::OperationProgress<'_>| match step {
        windlass_engine::OperationProgress::Hook { event, name, .. } => {
            sink.lock().unwrap().push(format!("{event} {name}"));
        }
        windlass_engine::OperationProgress::Waiting { object, reason } => {
            sink.lock().unwrap().push(format!("{object}: {reason}"));
        }
        _ => {}
    });
    let engine = engine().await.with_progress(listener, false);
    let asked = |value: &str, run: &serde_json::Value| {
        let mut wanted =
            request(ns, "web", &[config_map("a", value)], vec![hook(run, &[PreInstall, PreUpgrade], 0, &[])]);
        wanted.options.timeout = std::time::Duration::from_secs(20);
        wanted
    };
    let uid = || get(ns, "job", "run").unwrap()["metadata"]["uid"].clone();
    engine.reconcile(&asked("1", &job("run"))).await.unwrap();
    let before = uid();
    engine.reconcile(&asked("2", &job("run"))).await.unwrap();
    assert_ne!(uid(), before);
    assert!(told.lock().unwrap().contains(&"pre-upgrade run".to_owned()));
    let mut stuck = job("run");
    stuck["spec"]["template"]["spec"]["nodeSelector"] = json!({"no": "such-node"});
    let mut late = asked("3", &stuck);
    late.options.timeout = std::time::Duration::from_secs(2);
    let error = engine.reconcile(&late).await.unwrap_err().to_string();
    assert!(
        error.contains("pre-upgrade hooks failed") && error.contains("context deadline exceeded"),
        "{error}"
    );
    assert_eq!(history(ns, "web").last().unwrap(), "3:failed");
    assert_eq!(value(ns, "a").as_deref(), Some("2"), "nothing was applied");
    let waits = told.lock().unwrap().iter().any(|line| line.starts_with(&format!("Job {ns}/run: Job ")));
    assert!(waits, "{:?}", told.lock().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_all_revisions_go_where_that_is_asked_for() {
    let namespace = control_plane().namespace("left").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    for (name, value) in [("first", "1"), ("second", "2"), ("third", "3")] {
        let hooks = vec![hook(&config_map(name, value), &[PreInstall, PreUpgrade], 0, &[])];
        engine.reconcile(&request(ns, "web", &[config_map("a", value)], hooks)).await.unwrap();
    }
    let all = ["first", "second", "third"];
    assert!(all.iter().all(|name| value(ns, name).is_some()));
    let gone = windlass_engine::UninstallRequest { delete_hooks: true, ..uninstall(ns, "web") };
    assert_eq!(engine.uninstall(&gone).await.unwrap().errors, Vec::<String>::new());
    assert!(all.iter().all(|name| value(ns, name).is_none()));
}
