//! Front ends of custom resources on a real control plane: a sample beside modules in one process, Helmfiles, HelmCharts, and objects of
//! charts' kinds.

// Helpers outside `#[test]` functions fail like the tests that they serve.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod chart_annotations;
mod chart_cycles;
mod chart_histories;
mod chart_objects;
mod chart_operator;
mod chart_origins;
mod chart_pull_secrets;
mod chart_resources;
mod chart_rights;
mod chart_server;
mod chart_takeover;
mod events;
mod flux_image_policies;
mod followed_workloads;
mod helmchart_inputs;
mod helmchart_order;
mod helmchart_records;
mod helmchart_rights;
mod helmcharts;
mod helmfile_tenants;
mod helmfiles;
mod image_builds;
mod image_failures;
mod image_module_policy;
mod image_registry;
mod image_release_policy;
mod image_revisions;
mod image_storm;
mod image_webhooks;
mod images;
mod missing_rights;
mod pull_secrets;
mod registry_mirrors;
mod release_sample;
mod reload;
mod reloader_cases;
mod unread_records;

use std::path::Path;
use std::sync::{Arc, Once};
use std::time::Duration;

use release_sample::{CRD, ReleaseSamples};
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_cluster::{Cluster, ConnectOptions};
use windlass_controller::serve::State;
use windlass_controller::{
    self, ContextOptions, ControllerContext, ControllerOptions, EventNote, EventRecorder, EventType,
};
use windlass_modules::addon;
use windlass_testing::{ControlPlane, shared, wait_until};

const LIMIT: Duration = Duration::from_secs(60);

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A chart of one ConfigMap that shows its `size`.
fn chart(root: &Path, name: &str) {
    write(root, "Chart.yaml", &format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n"));
    write(root, "values.yaml", "size: 1\n");
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {size: \"{{ .Values.size }}\"}\n";
    write(root, "templates/config.yaml", object);
}

/// The same in a scratch directory, and its path.
fn sample_chart() -> (tempfile::TempDir, String) {
    let root = tempfile::tempdir().unwrap();
    chart(root.path(), "one");
    let path = root.path().to_str().unwrap().to_owned();
    (root, path)
}

/// A namespace with a running process: the sample's controller, and modules where a directory is given.
struct Process {
    state: Arc<State>,
    stop: watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<Result<(), windlass_cluster::ClusterError>>>,
}

impl Process {
    async fn start(cp: &ControlPlane, namespace: &str, modules: Option<&Path>) -> Self {
        let kubeconfig = Some(cp.kubeconfig().to_owned());
        let cluster =
            Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
        let state = Arc::new(State::new("test_"));
        let context = ControllerContext::new(cluster, &ContextOptions::default(), Arc::clone(&state));
        let stop = watch::Sender::new(false);
        let stopped = || {
            let mut stop = stop.subscribe();
            async move { drop(stop.wait_for(|stop| *stop).await) }
        };
        let options =
            ControllerOptions { namespace: Some(namespace.to_owned()), concurrency: 4, ..Default::default() };
        let mut tasks =
            vec![tokio::spawn(windlass_controller::run(ReleaseSamples, context.clone(), options, stopped()))];
        if let Some(modules) = modules {
            let options = addon::Options {
                directories: addon::DirectoryOptions {
                    modules: modules.to_str().unwrap().to_owned(),
                    ..addon::DirectoryOptions::default()
                },
                namespace: namespace.to_owned(),
                module_status: addon::ModuleStatus::Off,
                ..addon::Options::default()
            };
            tasks.push(tokio::spawn(addon::run(context, options, stopped())));
        }
        Self { state, stop, tasks }
    }

    async fn end(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            task.await.unwrap().unwrap();
        }
    }
}

/// Where samples of a test live.
struct Samples<'a> {
    cp: &'a ControlPlane,
    namespace: &'a str,
}

impl Samples<'_> {
    fn apply(&self, name: &str, spec: &Value) {
        let object = json!({
            "apiVersion": "test.windlass.dev/v1", "kind": "ReleaseSample",
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
        });
        self.cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
    }

    fn get(&self, kind: &str, name: &str, path: &str) -> String {
        let path = format!("jsonpath={path}");
        let args = ["get", kind, name, "-n", self.namespace, "--ignore-not-found", "-o", &path];
        self.cp.kubectl(args).unwrap()
    }

    /// `True Released` of its condition Ready.
    fn ready(&self, name: &str) -> String {
        let ready = ".status.conditions[?(@.type==\"Ready\")]";
        self.get("releasesample", name, &format!("{{{ready}.status}} {{{ready}.reason}}"))
    }

    fn wait(&self, what: &str, holds: impl Fn() -> bool) {
        wait_until(what, LIMIT, || Ok(holds().then_some(()))).unwrap();
    }

    fn wait_ready(&self, name: &str, expected: &str) {
        let found = || (self.ready(name) == expected).then_some(());
        if let Err(e) = wait_until(&format!("{name} is {expected}"), LIMIT, || Ok(found())) {
            panic!("{e}: {}", self.get("releasesample", name, "{.status}"));
        }
    }

    fn size(&self, name: &str) -> String {
        self.get("configmap", name, "{.data.size}")
    }

    fn revisions(&self, name: &str) -> usize {
        let text = self.cp.helm4(["history", name, "-n", self.namespace, "-o", "json"]).unwrap();
        serde_json::from_str::<Vec<Value>>(&text).unwrap().len()
    }
}

/// The shared control plane, with the sample's kind.
fn control_plane() -> &'static ControlPlane {
    static KIND: Once = Once::new();
    let cp = shared().expect("a control plane");
    KIND.call_once(|| {
        cp.kubectl_with(["apply", "-f", "-"], CRD).unwrap();
        let established = ["wait", "--for=condition=Established", "crd/releasesamples.test.windlass.dev"];
        cp.kubectl(established).unwrap();
    });
    cp
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_resource_is_a_release_from_its_creation_to_its_deletion() {
    let cp = control_plane();
    let ns = cp.namespace("sample").unwrap();
    let s = Samples { cp, namespace: ns.name() };
    let (_chart, path) = sample_chart();
    let process = Process::start(cp, ns.name(), None).await;

    // What depends on another object waits for it.
    s.apply("web", &json!({"chart": path, "dependsOn": ["db"], "values": {"size": 2}}));
    s.wait_ready("web", "False DependencyNotReady");
    assert_eq!(s.size("web"), "");
    s.apply("db", &json!({"chart": path}));
    s.wait_ready("db", "True Released");
    s.wait_ready("web", "True Released");
    assert_eq!((s.size("web"), s.size("db")), ("2".to_owned(), "1".to_owned()));

    // Drift is corrected without a revision.
    cp.kubectl(["delete", "configmap", "web", "-n", ns.name()]).unwrap();
    s.wait("the deleted object is back", || s.size("web") == "2");
    cp.kubectl(["patch", "configmap", "web", "-n", ns.name(), "-p", r#"{"data":{"size":"9"}}"#]).unwrap();
    s.wait("the changed object is corrected", || s.size("web") == "2");
    assert_eq!(s.revisions("web"), 1);

    // A new generation is a new revision, and the status says which generation it is of.
    s.apply("web", &json!({"chart": path, "dependsOn": ["db"], "values": {"size": 3}}));
    s.wait("the new values are released", || s.size("web") == "3");
    s.wait("the status is of that generation", || {
        let fields = s.get(
            "releasesample",
            "web",
            "{.metadata.generation} {.status.observedGeneration} {.status.revision}",
        );
        fields == "2 2 2"
    });

    // A failure is reported with its reason, and ends with its cause.
    s.apply("db", &json!({"chart": format!("{path}/missing")}));
    s.wait_ready("db", "False ChartInvalid");
    s.apply("db", &json!({"chart": path, "values": {"size": 4}}));
    s.wait_ready("db", "True Released");
    assert_eq!(s.size("db"), "4");

    // Nothing happens while it is suspended.
    s.apply("db", &json!({"chart": path, "values": {"size": 5}, "suspend": true}));
    s.wait_ready("db", "Unknown Suspended");
    assert_eq!(s.size("db"), "4");

    // With the object goes its release.
    cp.kubectl(["delete", "releasesample", "web", "-n", ns.name()]).unwrap();
    assert_eq!(s.size("web"), "", "the finalizer held the object until the release was uninstalled");
    assert_eq!(cp.helm4(["list", "-n", ns.name(), "-q"]).unwrap().trim(), "db");
    process.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn references_and_restarts() {
    let cp = control_plane();
    let ns = cp.namespace("sample").unwrap();
    let s = Samples { cp, namespace: ns.name() };
    let (_chart, path) = sample_chart();
    let process = Process::start(cp, ns.name(), None).await;
    s.apply("web", &json!({"chart": path, "valuesFrom": [{"kind": "ConfigMap", "name": "sizes"}]}));
    s.wait_ready("web", "False ConfigInvalid");
    cp.kubectl(["create", "configmap", "sizes", "-n", ns.name(), "--from-literal=values.yaml=size: 7"])
        .unwrap();
    s.wait_ready("web", "True Released");
    assert_eq!(s.size("web"), "7");
    let patch = r#"{"data":{"values.yaml":"size: 8"}}"#;
    cp.kubectl(["patch", "configmap", "sizes", "-n", ns.name(), "-p", patch]).unwrap();
    s.wait("a changed reference triggers a reconcile", || s.size("web") == "8");
    s.wait("its status follows", || s.get("releasesample", "web", "{.status.revision}") == "2");
    process.end().await;

    // A restart with nothing to do writes nothing.
    let mark = cp.audit_mark().unwrap();
    let process = Process::start(cp, ns.name(), None).await;
    let reconciled = "windlass_reconciles_total{controller=\"releasesamples\",result=\"ok\"} 1";
    s.wait("it is reconciled again", || process.state.metrics.text().contains(reconciled));
    let writes = cp.writes_since(mark).unwrap();
    let ours = |e: &&windlass_testing::AuditEvent| {
        e.namespace == ns.name() && !["leases", "events"].contains(&e.resource.as_str())
    };
    let named: Vec<String> =
        writes.iter().filter(ours).map(|e| format!("{} {}/{}", e.verb, e.resource, e.name)).collect();
    assert_eq!(named, [""; 0]);
    cp.kubectl(["delete", "configmap", "web", "-n", ns.name()]).unwrap();
    s.wait("the release is watched again", || s.size("web") == "8");
    process.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dependency_cycle_is_refused_and_ends_with_its_cause() {
    let cp = control_plane();
    let ns = cp.namespace("sample").unwrap();
    let s = Samples { cp, namespace: ns.name() };
    let (_chart, path) = sample_chart();
    let process = Process::start(cp, ns.name(), None).await;
    s.apply("a", &json!({"chart": path, "dependsOn": ["b"]}));
    s.apply("b", &json!({"chart": path, "dependsOn": ["a"]}));
    s.wait_ready("b", "False ConfigInvalid");
    s.apply("b", &json!({"chart": path}));
    s.wait_ready("b", "True Released");
    s.wait_ready("a", "True Released");
    process.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_belongs_to_one_object() {
    let cp = control_plane();
    let ns = cp.namespace("sample").unwrap();
    let s = Samples { cp, namespace: ns.name() };
    let (_chart, path) = sample_chart();
    let process = Process::start(cp, ns.name(), None).await;
    s.apply("first", &json!({"chart": path, "releaseName": "one"}));
    s.wait_ready("first", "True Released");
    // The second has a finalizer by the time that it claims the release of the first.
    s.apply("second", &json!({"chart": path, "releaseName": "two"}));
    s.wait_ready("second", "True Released");
    s.apply("second", &json!({"chart": path, "releaseName": "one", "values": {"size": 9}}));
    s.wait_ready("second", "False ConfigInvalid");
    assert_eq!(s.size("one"), "1");
    cp.kubectl(["delete", "releasesample", "second", "-n", ns.name()]).unwrap();
    assert_eq!(s.size("one"), "1", "the release of another object is not uninstalled");
    cp.kubectl(["delete", "releasesample", "first", "-n", ns.name()]).unwrap();
    assert_eq!(s.size("one"), "");
    process.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_references_are_read_and_watched_with_the_tenants_rights() {
    let cp = control_plane();
    let ns = cp.namespace("sample").unwrap();
    let n = ns.name();
    let s = Samples { cp, namespace: n };
    let (_chart, path) = sample_chart();
    cp.kubectl(["create", "serviceaccount", "tenant", "-n", n]).unwrap();
    let account = format!("--serviceaccount={n}:tenant");
    cp.kubectl(["create", "rolebinding", "tenant", "--clusterrole=admin", "-n", n, &account]).unwrap();
    cp.kubectl(["create", "configmap", "sizes", "-n", n, "--from-literal=values.yaml=size: 7"]).unwrap();
    let mark = cp.audit_mark().unwrap();
    let process = Process::start(cp, n, None).await;
    let spec = json!({
        "chart": path, "serviceAccountName": "tenant", "valuesFrom": [{"kind": "ConfigMap", "name": "sizes"}],
    });
    s.apply("web", &spec);
    s.wait_ready("web", "True Released");
    cp.kubectl(["patch", "configmap", "sizes", "-n", n, "-p", r#"{"data":{"values.yaml":"size: 8"}}"#])
        .unwrap();
    s.wait("a changed reference triggers a reconcile", || s.size("web") == "8");
    process.end().await;
    let tenant = format!("system:serviceaccount:{n}:tenant");
    let reads = cp.audit_since(mark).unwrap();
    let of_sizes = |e: &&windlass_testing::AuditEvent| {
        e.namespace == n
            && e.resource == "configmaps"
            && ["get", "list", "watch"].contains(&e.verb.as_str())
            && e.user_agent.contains("windlass")
            && (e.name == "sizes" || e.uri.contains("sizes"))
    };
    let users: Vec<&str> = reads.iter().filter(of_sizes).map(|e| e.user.as_str()).collect();
    assert!(users.len() > 1 && users.iter().all(|user| *user == tenant), "{users:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_front_ends_share_one_engine() {
    let cp = control_plane();
    let ns = cp.namespace("sample").unwrap();
    let s = Samples { cp, namespace: ns.name() };
    let charts = tempfile::tempdir().unwrap();
    chart(&charts.path().join("one"), "one");
    chart(&charts.path().join("modules/001-alpha"), "alpha");
    write(charts.path(), "modules/values.yaml", "alphaEnabled: true\n");
    let modules = charts.path().join("modules");
    let process = Process::start(cp, ns.name(), Some(&modules)).await;
    s.apply("one", &json!({"chart": charts.path().join("one").to_str().unwrap()}));
    s.wait_ready("one", "True Released");
    s.wait("the module is released", || s.size("alpha") == "1");
    // Each front end gets the triggers of its own releases.
    for name in ["alpha", "one"] {
        cp.kubectl(["delete", "configmap", name, "-n", ns.name()]).unwrap();
        s.wait("the deleted object is back", || s.size(name) == "1");
        assert_eq!(s.revisions(name), 1);
    }
    process.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_event_counts_up() {
    let cp = control_plane();
    let ns = cp.namespace("sample").unwrap();
    cp.kubectl(["create", "configmap", "one", "-n", ns.name()]).unwrap();
    let kubeconfig = Some(cp.kubeconfig().to_owned());
    let cluster =
        Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
    let recorder = EventRecorder::new(cluster);
    let text = cp.kubectl(["get", "configmap", "one", "-n", ns.name(), "-o", "json"]).unwrap();
    let object: Value = serde_json::from_str(&text).unwrap();
    let note = |text: &str| EventNote {
        event_type: EventType::Warning,
        reason: "Tested",
        action: "Test",
        note: text.to_owned(),
        annotations: [("test/about".to_owned(), text.to_uppercase())].into(),
    };
    for text in ["again", "again", "other", "again"] {
        recorder.record(&object, note(text)).await;
    }
    let path = "jsonpath={range .items[*]}{.message} {.count} {.metadata.annotations.test/about} {.involvedObject.uid}{\"\\n\"}{end}";
    let found = cp.kubectl(["get", "events", "-n", ns.name(), "-o", path]).unwrap();
    let mut lines: Vec<&str> = found.lines().collect();
    lines.sort_unstable();
    let uid = object["metadata"]["uid"].as_str().unwrap();
    assert_eq!(lines, [format!("again 3 AGAIN {uid}"), format!("other 1 OTHER {uid}")]);
}
