//! Windlass beside Flux's source-controller: its sources, our HelmReleases.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use windlass_testing::Tool;

use super::sources::{Files, chart_spec, source};
use super::support::{Running, condition, digest};

/// The real source-controller, for one namespace.
struct SourceController {
    child: Child,
    storage: tempfile::TempDir,
}

impl SourceController {
    fn start(running: &Running) -> Self {
        let program = Tool::SourceController.built().unwrap();
        let program = program.expect("no source-controller in the cache: make beside-flux");
        let storage = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let log = std::fs::File::create(storage.path().join("log")).unwrap();
        let child = Command::new(program)
            .args([
                "--watch-all-namespaces=false",
                "--events-addr=",
                "--metrics-addr=0",
                "--health-addr=127.0.0.1:0",
            ])
            .args(["--storage-addr", &address, "--storage-adv-addr", &address, "--storage-path"])
            .arg(storage.path().join("artifacts"))
            .env("RUNTIME_NAMESPACE", running.ns.name())
            .env("KUBECONFIG", running.cp.kubeconfig())
            .env("TUF_ROOT", storage.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        std::fs::create_dir_all(storage.path().join("artifacts")).unwrap();
        Self { child, storage }
    }
}

impl Drop for SourceController {
    #[allow(clippy::print_stdout, reason = "the log of a failed test")]
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.storage.path().join("log")).unwrap_or_default();
            let end = log.len().saturating_sub(8000);
            println!("{}", log.get(end..).unwrap_or(&log));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Flux's source-controller: make beside-flux"]
async fn releases_follow_the_sources_of_the_real_source_controller() {
    let mut running = Running::prepare("flux").await;
    let controller = SourceController::start(&running);
    let files = Files::default();
    let address = files.serve().await;
    let first = files.chart("1.0.0", &[("ci/values.yaml", "size: seven\n")]);
    files.index(&[(first.0, &first.1, first.2.clone())]);
    running.start().await;
    let spec = json!({"url": format!("http://{address}"), "interval": "1h"});
    running.apply(&source("HelmRepository", "demo", &spec));
    running.release("web", &chart_spec("HelmRepository", &json!({"version": "1.x"})));
    let object = running.wait_ready("web", "True InstallSucceeded");
    assert_eq!(object["status"]["history"][0]["chartVersion"], "1.0.0");
    let repository = running.ready_source("helmrepository", "demo");
    let index = digest(&files.file("/index.yaml"));
    assert_eq!(repository["status"]["artifact"]["revision"], index, "as ours has it");
    let chart_name = format!("{}-web", running.ns.name());
    let chart = running.ready_source("helmchart", &chart_name);
    assert_eq!(chart["metadata"]["finalizers"], json!(["finalizers.fluxcd.io"]));

    // A new version in the index is an upgrade, and so are other files of values.
    let second = files.chart("1.1.0", &[("ci/values.yaml", "size: seven\n")]);
    files.index(&[(first.0, &first.1, first.2.clone()), (second.0, &second.1, second.2.clone())]);
    running.reconcile_source("helmrepository", "demo", "1");
    running.wait("upgraded", |o| o["status"]["history"][0]["chartVersion"] == "1.1.0", "web");
    let more = json!({"version": "1.x", "valuesFiles": ["values.yaml", "ci/values.yaml"]});
    running.release("web", &chart_spec("HelmRepository", &more));
    running.wait("other values", |o| o["status"]["history"][0]["version"] == 3, "web");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "seven");

    // Without it the release stays as it is.
    drop(controller);
    running.ask("web", "without");
    let handled = |o: &Value| o["status"]["lastHandledReconcileAt"] == "without";
    let object = running.wait("handled without it", handled, "web");
    assert_eq!(object["status"]["history"][0]["version"], 3, "{object}");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "seven");

    // Ours take over where it stopped: the same revision, no new release.
    let storage = tempfile::tempdir().unwrap();
    running.restart_with_sources(storage.path()).await;
    let ours = running.ready_source("helmrepository", "demo");
    assert_eq!(ours["status"]["artifact"]["revision"], digest(&files.file("/index.yaml")));
    assert!(
        ours["status"]["artifact"]["url"].as_str().unwrap().starts_with("http://artifacts.test/"),
        "{ours}"
    );
    running.ready_source("helmchart", &chart_name);
    running.ask("web", "ours");
    let ready = |o: &Value| {
        o["status"]["lastHandledReconcileAt"] == "ours" && condition(o, "Ready") == "True UpgradeSucceeded"
    };
    let object = running.wait("reconciled with ours", ready, "web");
    assert_eq!(object["status"]["history"][0]["version"], 3, "{object}");
    running.end().await;
}
