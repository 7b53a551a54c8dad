//! Requests and time of many HelmReleases. `cargo test --test helmrelease hundred -- --ignored --nocapture` prints them.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use windlass_testing::wait_until;

use super::support::{LIMIT, Running, chart, condition};

/// Installs `count` releases, then asks each one for a reconcile with nothing to do. Returns the requests of both.
#[allow(clippy::print_stdout, reason = "the figures are for people")]
async fn measure(name: &str, count: usize, package: Vec<u8>) -> (usize, usize) {
    let mut running = Running::prepare(name).await;
    running.publish("demo", "0.1.0", package);
    let objects: Vec<Value> = (0..count)
        .map(|number| {
            json!({
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
                "metadata": {"name": format!("r{number}")},
                "spec": {
                    "chartRef": {"kind": "OCIRepository", "name": "demo"}, "interval": "1h",
                    "install": {"disableWait": true}, "upgrade": {"disableWait": true},
                },
            })
        })
        .collect();
    running.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}));
    let began = Instant::now();
    running.start().await;
    let all = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        wait_until(what, LIMIT, || {
            let list = running.list("helmreleases");
            Ok((list.len() == count && list.iter().all(holds)).then_some(()))
        })
        .unwrap();
    };
    all("ready", &|object| condition(object, "Ready") == "True InstallSucceeded");
    let installed = running.requests();
    println!("{count} releases ready in {:?}: {installed} requests", began.elapsed());
    let began = Instant::now();
    running
        .cp
        .kubectl([
            "annotate",
            "helmrelease",
            "--all",
            "-n",
            running.ns.name(),
            "reconcile.fluxcd.io/requestedAt=x",
        ])
        .unwrap();
    all("handled", &|object| object["status"]["lastHandledReconcileAt"] == "x");
    let idle = running.requests() - installed;
    println!("{count} releases reconciled with nothing to do in {:?}: {idle} requests", began.elapsed());
    running.end().await;
    (installed, idle)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_costs_few_requests() {
    let (installed, idle) = measure("few", 10, chart("0.1.0", &[])).await;
    // Watches and discovery included; a machine under load may have announced some in the status.
    assert!(installed <= 10 * 11 + 25, "{installed}");
    // The status says that the request was handled; a watch that is behind costs some lists.
    assert!(idle <= 10 * 3, "{idle}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn a_hundred_releases() {
    // The chart of three objects that helm-controller was measured with.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/records/helm-controller/demo-0.1.0.tgz");
    let package = std::fs::read(path).unwrap_or_else(|_| chart("0.1.0", &[]));
    measure("hundred", 100, package).await;
}
