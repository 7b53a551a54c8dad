//! Chart hooks: order, waiting, deletion, failure.

use crate::support::*;
use serde_json::json;
use std::sync::Arc;
use windlass::release::{
    Action,
    HookDeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded},
    HookEvent::{PostDelete, PostInstall, PreDelete, PreInstall, PreUpgrade, Test},
    ReleaseId,
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
    let record = engine.get(&ReleaseId::new(ns, "web"), 1).await.unwrap();
    let run = |name: &str| record.hooks.iter().find(|h| h.name == name).unwrap().last_run.clone();
    assert_eq!(
        (run("first").phase.as_str(), run("second").phase.as_str(), run("farewell").phase.as_str()),
        ("Succeeded", "Succeeded", "")
    );
    assert!(run("first").completed_at <= run("second").started_at, "one after the other");

    assert_eq!(
        engine.reconcile(&wanted).await.unwrap().action,
        Action::Unchanged,
        "hooks are no reason for a revision"
    );
    let mut more = Arc::unwrap_or_clone(wanted.rendered.clone());
    more.hooks.pop();
    more.checksum = "other".into();
    let changed = engine
        .reconcile(&windlass::release::ReleaseRequest { rendered: Arc::new(more), ..wanted.clone() })
        .await
        .unwrap();
    assert_eq!(changed.action, Action::Upgrade, "a hook that is no more is one");
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
    let all = windlass::release::TestRequest { id, timeout, ..Default::default() };
    let fast = windlass::release::TestRequest { only: vec!["fast".to_owned()], ..all.clone() };
    let record = engine.test(&fast).await.unwrap().record;
    let phases = |record: &windlass::release::record::Record| {
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
    let record = engine.get(&ReleaseId::new(ns, "web"), 1).await.unwrap();
    assert_eq!(record.hooks[1].last_run.phase, "Failed");
    assert!(
        record.info.description.starts_with("Release \"web\" failed: failed pre-install"),
        "{}",
        record.info.description
    );

    // Put right: the same revision number is not used for another state.
    let done = engine.reconcile(&request(ns, "web", &[config_map("a", "1")], vec![])).await.unwrap();
    assert_eq!((done.action, done.revision), (Action::Upgrade, 2));
    assert_eq!(history(ns, "web"), ["1:failed", "2:deployed"]);
}
