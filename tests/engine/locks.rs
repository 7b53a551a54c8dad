//! Leases: one operation on a release at a time, and nothing that stays stuck.

use crate::support::*;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use windlass_engine::{EngineError, Mode, ReleaseAction, ReleaseRequest, record};

/// The token of a holder on another machine, of which nobody here knows whether it lives.
const ELSEWHERE: &str = "windlass-7/elsewhere.boot.1/7/7/cd";

fn lease(ns: &str) -> Option<Value> {
    get(ns, "lease", "windlass-web")
}

/// A Lease of someone, renewed so many seconds ago by the holder's clock, that holds for so many seconds.
fn put_lease(ns: &str, holder: &str, ago: i64, holds: u64) {
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(ago);
    let at = at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "windlass-web", "namespace": ns},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": holds, "acquireTime": at, "renewTime": at}});
    control_plane().kubectl_with(["apply", "-f", "-"], &lease.to_string()).unwrap();
}

/// The newest record as if a process had died over it; an empty holder is Helm's.
fn put_pending(ns: &str, revision: u64, holder: &str) {
    let secret = get(ns, "secret", &format!("sh.helm.release.v1.web.v{revision}")).unwrap();
    let mut record = record::decode_secret(&secret).unwrap();
    record.version += 1;
    record.info.status = record::ReleaseStatus::PendingUpgrade;
    record.info.last_deployed = jiff::Timestamp::now().to_string();
    record.extension =
        record::RecordExtension { holder: holder.to_owned(), ..record::RecordExtension::default() };
    let pending = record::encode_secret(&record, "createdAt").unwrap();
    control_plane().kubectl_with(["create", "-f", "-"], &pending.to_string()).unwrap();
}

fn asked(ns: &str, value: &str) -> ReleaseRequest {
    let mut request = request(ns, "web", &[config_map("a", value)], vec![]);
    request.options.revisions.skip_unchanged = false;
    request
}

/// The words by which a process of this machine is told from others, and the token of one that has died.
fn dead_holder() -> String {
    let text = |path: &str| std::fs::read_to_string(path).unwrap().trim().to_owned();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
    let namespace: String = namespace.chars().filter(char::is_ascii_digit).collect();
    let mut child = Command::new("true").stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let (host, boot) = (text("/proc/sys/kernel/hostname"), text("/proc/sys/kernel/random/boot_id"));
    format!("windlass-dead/{host}.{boot}.{namespace}/{pid}/1/ab")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_holder_is_named_and_a_dead_one_is_not_waited_for() {
    let plane = control_plane();
    let namespace = plane.namespace("lease").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    engine.reconcile(&asked(ns, "1")).await.unwrap();
    assert!(lease(ns).is_none(), "let go");

    put_lease(ns, ELSEWHERE, 1, 15);
    put_pending(ns, 1, "someone");
    let mark = plane.audit_mark().unwrap();
    for result in [
        engine.reconcile(&asked(ns, "2")).await.map(drop),
        engine.uninstall(&uninstall(ns, "web")).await.map(drop),
    ] {
        let held = result.unwrap_err();
        assert!(matches!(&held, EngineError::Held { by, .. } if by == "windlass-7"), "{held}");
        assert!(
            held.to_string().starts_with("another operation (install/upgrade/rollback) is in progress"),
            "{held}"
        );
        assert_eq!(held.disposition(), windlass_engine::Disposition::Wait);
    }
    let told = writes(&requests_since(mark, ns)).into_iter().filter(|r| !r.contains("leases/")).count();
    assert_eq!(told, 0, "nothing but the try for the lock");
    let mut breaking = asked(ns, "2");
    breaking.options.revisions.break_lock = true;
    assert_eq!(engine.reconcile(&breaking).await.unwrap().revision, 3);
    assert_eq!(
        (history(ns, "web"), lease(ns)),
        (vec!["1:superseded".into(), "2:failed".into(), "3:deployed".into()], None)
    );

    // Provably gone: its process was of this machine. Expired: nobody was seen to renew it.
    for (holder, ago, holds) in [(dead_holder(), 1, 15), (ELSEWHERE.to_owned(), 120, 1)] {
        let newest = history(ns, "web").len() as u64;
        put_lease(ns, &holder, ago, holds);
        put_pending(ns, newest, "someone");
        let start = std::time::Instant::now();
        // Its own state is finished, under its number.
        let done = engine.reconcile(&asked(ns, "2")).await.unwrap();
        assert_eq!((done.action, done.revision), (ReleaseAction::Resume, newest + 1), "{holder}");
        assert!(start.elapsed().as_secs() < 5, "{holder}: at once");
        assert!(lease(ns).is_none());
    }
}

/// Clocks that differ by ten minutes: a holder that renews keeps its lock, one that does not loses it after the Lease's duration
/// on our own clock, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_differ_neither_break_a_lock_nor_keep_it() {
    let plane = control_plane();
    let namespace = plane.namespace("skew").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    engine.reconcile(&asked(ns, "1")).await.unwrap();
    for (round, ago) in [600, -600].into_iter().enumerate() {
        let newest = round as u64 + 1;
        put_pending(ns, newest, "someone");
        let holds = Duration::from_secs(4);
        put_lease(ns, ELSEWHERE, ago, holds.as_secs());
        let stop = Arc::new(AtomicBool::new(false));
        let renewing = std::thread::spawn({
            let (ns, stop) = (ns.to_owned(), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    put_lease(&ns, ELSEWHERE, ago, holds.as_secs());
                }
            }
        });
        let held = engine.reconcile(&asked(ns, "1")).await.unwrap_err();
        stop.store(true, Ordering::Relaxed);
        renewing.join().unwrap();
        assert!(matches!(&held, EngineError::Held { by, .. } if by == "windlass-7"), "{ago}: {held}");

        let start = Instant::now();
        let done = engine.reconcile(&asked(ns, "1")).await.unwrap();
        assert_eq!((done.action, done.revision), (ReleaseAction::Resume, newest + 1), "{ago}");
        assert!(start.elapsed() >= holds, "{ago}: taken after {:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn helms_pending_record_is_respected_until_told_otherwise() {
    let plane = control_plane();
    let namespace = plane.namespace("helms").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    engine.reconcile(&asked(ns, "1")).await.unwrap();
    put_pending(ns, 1, "");
    let error = engine.reconcile(&asked(ns, "2")).await.unwrap_err();
    assert!(matches!(error, EngineError::Pending { revision: 2, .. }), "{error}");
    let told = error.to_string();
    assert!(
        told.starts_with(
            "another operation (install/upgrade/rollback) is in progress: revision 2 is pending-"
        )
    );
    assert!(told.contains("by Helm") && told.ends_with("5m after that"), "{told}");
    let back = windlass_engine::RollbackRequest {
        id: asked(ns, "").id,
        revision: 1,
        options: windlass_engine::ReleaseOptions {
            revisions: windlass_engine::RevisionOptions { break_lock: true, ..Default::default() },
            ..windlass_engine::ReleaseOptions::default()
        },
        description: None,
        cause: "a test".to_owned(),
    };
    let done = engine.rollback(&back).await.unwrap();
    // The state that Helm was making is the one that is asked for: it is finished.
    assert_eq!((done.action, done.revision), (ReleaseAction::Resume, 2));
    let why = engine.records().explain(&back.id, Some(2)).await.unwrap();
    assert_eq!((why.len(), why[0].cause.as_str(), why[0].rollback_to), (1, "a test", Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_uninstalled_to_the_end_is_told_of() {
    let plane = control_plane();
    let namespace = plane.namespace("half").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    engine.reconcile(&asked(ns, "1")).await.unwrap();
    let secret = get(ns, "secret", "sh.helm.release.v1.web.v1").unwrap();
    let mut record = record::decode_secret(&secret).unwrap();
    record.info.status = record::ReleaseStatus::Uninstalling;
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(3);
    (record.info.last_deployed, record.info.deleted) = (at.to_string(), at.to_string());
    record.extension.holder = "windlass-7-ab".to_owned();
    let half = record::encode_secret(&record, "modifiedAt").unwrap();
    plane.kubectl_with(["replace", "-f", "-"], &half.to_string()).unwrap();
    plane.kubectl(["delete", "configmap", "a", "-n", ns]).unwrap();
    let told = format!("revision 1 is uninstalling since {at:.0} (3m");

    let mut install = asked(ns, "1");
    install.options.mode = Mode::Install;
    let refused = engine.reconcile(&install).await.unwrap_err();
    let text = refused.to_string();
    assert!(text.starts_with(&format!("cannot reuse a name that is still in use: {told}")), "{text}");
    assert!(text.ends_with("by windlass-7-ab, which crashed or failed"), "{text}");
    assert_eq!(refused.disposition(), windlass_engine::Disposition::Stall);

    let warned = |warnings: &[String]| {
        assert!(
            warnings[0].starts_with(&told)
                && warnings[0].ends_with("the objects that it deleted are created again"),
            "{warnings:?}"
        );
    };
    warned(&engine.plan(&asked(ns, "1")).await.unwrap().warnings);
    let done = engine.reconcile(&asked(ns, "1")).await.unwrap();
    warned(&done.warnings);
    assert_eq!((done.warnings.len(), value(ns, "a").as_deref()), (1, Some("1")));
    assert_eq!(history(ns, "web"), ["1:failed", "2:deployed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_right_to_leases_the_pending_record_has_to_do() {
    let plane = control_plane();
    let namespace = plane.namespace("norights").unwrap();
    let ns = namespace.name();
    let role = ["create", "role", "some", "-n", ns, "--verb=*", "--resource=secrets,configmaps"];
    plane.kubectl(role).unwrap();
    let user = format!("user-{ns}");
    plane
        .kubectl(["create", "rolebinding", "some", "-n", ns, "--role=some", &format!("--user={user}")])
        .unwrap();
    let options = windlass_cluster::ConnectOptions {
        kubeconfig: Some(control_plane().kubeconfig().to_owned()),
        as_user: Some(user),
        ..windlass_cluster::ConnectOptions::default()
    };
    let cluster = windlass_cluster::Cluster::connect(&options).await.unwrap();
    let options = windlass_engine::EngineOptions::once("limited");
    let engine = windlass_engine::Engine::new(cluster, parse, options);
    engine.reconcile(&asked(ns, "1")).await.unwrap();
    assert_eq!(history(ns, "web"), ["1:deployed"]);
    engine.uninstall(&uninstall(ns, "web")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_looks_at_the_lock_and_takes_none() {
    let plane = control_plane();
    let namespace = plane.namespace("looks").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    engine.reconcile(&asked(ns, "1")).await.unwrap();
    put_pending(ns, 1, "someone");
    let mut dry = asked(ns, "2");
    dry.options.dry_run = true;
    for (holder, ago, holds, free) in [
        (ELSEWHERE.to_owned(), 1, 15, false),
        (dead_holder(), 1, 15, true),
        (ELSEWHERE.to_owned(), 120, 1, true),
    ] {
        put_lease(ns, &holder, ago, holds);
        let mark = plane.audit_mark().unwrap();
        let (planned, foretold) =
            (engine.plan(&asked(ns, "2")).await, engine.reconcile(&dry).await.map(|o| o.revision));
        assert_eq!(writes(&requests_since(mark, ns)).len(), 0, "nothing is written");
        if free {
            assert_eq!((planned.unwrap().revision, foretold.unwrap()), (3, 3), "{holder}");
        } else {
            assert!(matches!(planned, Err(EngineError::Held { .. })), "{planned:?}");
            assert!(matches!(foretold, Err(EngineError::Held { .. })), "{foretold:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_before_the_lock_is_read_again_where_someone_was_faster() {
    let plane = control_plane();
    let namespace = plane.namespace("faster").unwrap();
    let ns = namespace.name();
    let mut wanted = asked(ns, "1");
    wanted.rendered = request(ns, "web", &[config_map("a", "1"), config_map("b", "1")], vec![]).rendered;
    let mut overtaken = false;
    for round in 0..10 {
        engine().await.reconcile(&asked(ns, "1")).await.unwrap();
        // A lock that may be dead: the upgrade has read the release, and watches it.
        put_lease(ns, ELSEWHERE, 9, 15);
        let mark = plane.audit_mark().unwrap();
        let (one, wanted) = (engine().await, wanted.clone());
        let upgrade = tokio::spawn(async move { one.reconcile(&wanted).await });
        windlass_testing::wait_until("the lock is asked for", std::time::Duration::from_secs(20), || {
            let asked = |r: &String| r.starts_with("create leases/");
            Ok(requests_since(mark, ns).iter().any(asked).then_some(()))
        })
        .unwrap();
        let gone = windlass_engine::UninstallRequest { break_lock: true, ..uninstall(ns, "web") };
        engine().await.uninstall(&gone).await.unwrap();
        match upgrade.await.unwrap() {
            Ok(done) => {
                overtaken = true;
                assert_eq!(
                    (done.action, done.revision),
                    (ReleaseAction::Install, 1),
                    "round {round}: {done:?}"
                );
                assert_eq!(history(ns, "web"), ["1:deployed"]);
                assert!(value(ns, "a").is_some() && value(ns, "b").is_some(), "round {round}: {done:?}");
                break;
            }
            // It looked at the lock just when the uninstall had it.
            Err(error) => assert!(matches!(error, EngineError::Held { .. }), "round {round}: {error}"),
        }
    }
    assert!(overtaken, "the upgrade came through in no round");
}
