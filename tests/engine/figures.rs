//! How long a release of 102 objects takes and how many requests, ours and Helm's. Run with `--ignored --nocapture`.

use crate::{helm::write_chart, support::*};
use serde_json::{Value, json};
use std::time::Instant;
use windlass_engine::{Engine, ReleaseRequest};
use windlass_testing::{AuditMark, ControlPlane};

fn objects(value: &str) -> Vec<Value> {
    let of_one = |i: usize| {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{i}")},
            "spec": {"selector": {"app": format!("d{i}")}, "ports": [{"port": 80}]}});
        let mut idle = deployment(&format!("d{i}"), "x:1");
        idle["spec"]["replicas"] = json!(0);
        [config_map(&format!("c{i}"), value), service, idle]
    };
    (0..34).flat_map(of_one).collect()
}

/// Requests of a user agent since a mark, discovery included.
fn count(plane: &ControlPlane, mark: AuditMark, agent: &str) -> usize {
    plane.audit_since(mark).unwrap().iter().filter(|e| e.user_agent.starts_with(agent)).count()
}

async fn ours(what: &str, plane: &ControlPlane, engine: &Engine, wanted: &ReleaseRequest) {
    let mark = plane.audit_mark().unwrap();
    let start = Instant::now();
    let done = engine.reconcile(wanted).await.unwrap();
    let took = start.elapsed();
    println!("windlass {what}: {took:.2?}, {} requests, {:?}", count(plane, mark, "windlass/"), done.action);
}

fn helms(what: &str, plane: &ControlPlane, args: &[&str]) {
    let mark = plane.audit_mark().unwrap();
    let start = Instant::now();
    plane.helm4(args).unwrap();
    let took = start.elapsed();
    println!("helm 4 {what}: {took:.2?}, {} requests", count(plane, mark, "Helm/"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn of_102_objects() {
    let plane = control_plane();
    let namespace = plane.namespace("figures").unwrap();
    let ns = namespace.name();
    let (one, two) = (request(ns, "web", &objects("1"), vec![]), request(ns, "web", &objects("2"), vec![]));
    let mut forced = two.clone();
    forced.options.revisions.skip_unchanged = false;
    ours("install", plane, &engine().await, &one).await;
    ours("unchanged", plane, &engine().await, &one).await;
    ours("upgrade of 34", plane, &engine().await, &two).await;
    ours("upgrade to the same", plane, &engine().await, &forced).await;
    let operator = watching().await;
    ours("operator, cold", plane, &operator, &two).await;
    ours("operator, warm", plane, &operator, &two).await;
    let mark = plane.audit_mark().unwrap();
    let start = Instant::now();
    engine().await.uninstall(&uninstall(ns, "web")).await.unwrap();
    println!("windlass uninstall: {:.2?}, {} requests", start.elapsed(), count(plane, mark, "windlass/"));

    let other = plane.namespace("figures").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let chart = directory.path().to_str().unwrap();
    write_chart(directory.path(), &objects("1"));
    helms("install", plane, &["install", "web", chart, "-n", other.name()]);
    helms("upgrade to the same", plane, &["upgrade", "web", chart, "-n", other.name()]);
    write_chart(directory.path(), &objects("2"));
    helms("upgrade of 34", plane, &["upgrade", "web", chart, "-n", other.name()]);
    helms("uninstall", plane, &["uninstall", "web", "-n", other.name()]);
}
