//! HelmCharts of k3s on a real control plane: the definitions as k3s has them, from a chart in the object to its deletion.

use std::process::{Command, Output};
use std::sync::{Arc, Once};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_cluster::{Cluster, ClusterError, ConnectOptions};
use windlass_controller::serve::State;
use windlass_controller::{AccountName, ContextOptions, ControllerContext, ControllerOptions};
use windlass_helmcharts::{
    DEFAULT_MANAGER, HelmChartOptions, HelmCharts, ReinstallMode, STABLE_REPOSITORY, crds,
};
use windlass_testing::{ControlPlane, Namespace, shared, wait_until};

use super::chart_server::ChartServer;

const LIMIT: Duration = Duration::from_secs(60);
const FINALIZER: &str = "wrangler.cattle.io/on-helm-chart-remove";

/// The shared control plane, with the kinds as k3s defines them: nothing of ours in the status.
fn control_plane() -> &'static ControlPlane {
    static KINDS: Once = Once::new();
    let cp = shared().expect("a control plane");
    KINDS.call_once(|| {
        for mut crd in crds::all() {
            let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status";
            if let Some(status) = crd.pointer_mut(status) {
                let text = json!({"type": "string"});
                let condition = json!({"type": text, "status": text, "reason": text, "message": text});
                *status = json!({"type": "object", "properties": {
                    "jobName": text,
                    "conditions": {"type": "array", "items": {"type": "object", "properties": condition}},
                }});
            }
            cp.establish(&crd).unwrap();
        }
    });
    cp
}

/// A package of a chart with these files.
fn package(files: &[(&str, &str)]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("web/{path}"), text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// A chart of one ConfigMap that shows its `size`; with the size `bad` the API server rejects it.
pub(crate) fn chart(version: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata:\n{{- if eq (toString .Values.size) \"bad\" }}\n  size: {a: 1}\n{{- else }}\n  size: \"{{ .Values.size }}\"\n  all: {{ .Values | toJson | quote }}\n{{- end }}\n";
    let head = format!("apiVersion: v2\nname: web\nversion: {version}\n");
    let mut files = vec![
        ("Chart.yaml", head.as_str()),
        ("values.yaml", "size: one\n"),
        ("templates/config.yaml", object),
    ];
    files.extend(more);
    package(&files)
}

pub(crate) fn content(package: &[u8]) -> String {
    STANDARD.encode(package)
}

/// A running front end.
type FrontEndTask = tokio::task::JoinHandle<Result<(), ClusterError>>;

/// A namespace with a running front end.
pub(crate) struct Running {
    pub(crate) cp: &'static ControlPlane,
    pub(crate) ns: Namespace<'static>,
    pub(crate) options: HelmChartOptions,
    /// Namespaces that are watched beside the test's own.
    further: Vec<String>,
    /// Passes at a time.
    pub(crate) concurrency: usize,
    /// Metrics of the front end.
    state: Arc<State>,
    /// What it shares with other controllers of the process.
    pub(crate) context: Option<ControllerContext>,
    process: Option<(watch::Sender<bool>, FrontEndTask)>,
}

impl Running {
    pub(crate) async fn prepare() -> Self {
        let cp = tokio::task::spawn_blocking(control_plane).await.unwrap();
        let options = HelmChartOptions {
            managed_by: DEFAULT_MANAGER.to_owned(),
            allow_local_addresses: true,
            stable_repository: STABLE_REPOSITORY.to_owned(),
            ..HelmChartOptions::default()
        };
        Self {
            cp,
            ns: cp.namespace("helmchart").unwrap(),
            options,
            further: Vec::new(),
            concurrency: 4,
            state: Arc::new(State::new("test_")),
            context: None,
            process: None,
        }
    }

    pub(crate) async fn started() -> Self {
        let mut own = Self::prepare().await;
        own.start().await;
        own
    }

    pub(crate) async fn start(&mut self) {
        let kubeconfig = Some(self.cp.kubeconfig().to_owned());
        let cluster =
            Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
        self.state = Arc::new(State::new("test_"));
        let context = ControllerContext::new(cluster, &ContextOptions::default(), Arc::clone(&self.state));
        self.context = Some(context.clone());
        let stop = watch::Sender::new(false);
        let mut stopped = stop.subscribe();
        let namespace = Some(self.ns.name().to_owned());
        let further_namespaces = self.further.clone();
        let options = ControllerOptions {
            namespace,
            further_namespaces,
            concurrency: self.concurrency,
            ..ControllerOptions::default()
        };
        let front_end = HelmCharts::new(self.options.clone());
        let task = tokio::spawn(windlass_controller::run(front_end, context, options, async move {
            drop(stopped.wait_for(|stop| *stop).await);
        }));
        self.process = Some((stop, task));
    }

    pub(crate) async fn stop(&mut self) {
        if let Some((stop, task)) = self.process.take() {
            stop.send_replace(true);
            task.await.unwrap().unwrap();
        }
    }

    pub(crate) fn apply(&self, kind: &str, name: &str, annotations: &Value, spec: &Value) {
        let metadata = json!({"name": name, "namespace": self.ns.name(), "annotations": annotations});
        self.apply_object(kind, &metadata, spec);
    }

    fn apply_object(&self, kind: &str, metadata: &Value, spec: &Value) {
        let object =
            json!({"apiVersion": "helm.cattle.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
        // The annotation of a client-side apply would hold the whole chart.
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        self.cp.kubectl_with(apply, &object.to_string()).unwrap();
    }

    pub(crate) fn chart(&self, name: &str, spec: &Value) {
        self.apply("HelmChart", name, &json!({}), spec);
    }

    pub(crate) fn kubectl(&self, words: &str) -> String {
        let args = words.split(' ').chain(["-n", self.ns.name()]);
        self.cp.kubectl(args).unwrap()
    }

    pub(crate) fn get(&self, kind: &str, name: &str, path: &str) -> String {
        let path = format!("jsonpath={path}");
        self.cp.kubectl(["get", kind, name, "-n", self.ns.name(), "--ignore-not-found", "-o", &path]).unwrap()
    }

    /// `STATUS REASON` of a condition.
    pub(crate) fn condition(&self, name: &str, condition: &str) -> String {
        let one = format!(".status.conditions[?(@.type==\"{condition}\")]");
        self.get("helmchart", name, &format!("{{{one}.status}} {{{one}.reason}}"))
    }

    pub(crate) fn message(&self, name: &str) -> String {
        self.get("helmchart", name, "{.status.conditions[?(@.type==\"Ready\")].message}")
    }

    pub(crate) fn wait(&self, what: &str, holds: impl Fn() -> bool) {
        wait_until(what, LIMIT, || Ok(holds().then_some(()))).unwrap();
    }

    pub(crate) fn wait_ready(&self, name: &str, expected: &str) {
        let found = || (self.condition(name, "Ready") == expected).then_some(());
        if let Err(e) = wait_until(&format!("{name} is {expected}"), LIMIT, || Ok(found())) {
            panic!("{e}: {}", self.get("helmchart", name, "{.status}"));
        }
    }

    /// Waits until the status is of a revision.
    pub(crate) fn wait_revision(&self, name: &str, revision: usize) {
        let part = format!("revision {revision} of ");
        let found = || {
            let is_deployed =
                self.message(name).contains(&part) && self.condition(name, "Ready") == "True Deployed";
            Ok(is_deployed.then_some(()))
        };
        if let Err(e) = wait_until(&format!("{name} has revision {revision}"), LIMIT, found) {
            panic!("{e}: {}\n{}", self.get("helmchart", name, "{}"), self.events(name));
        }
    }

    pub(crate) fn uid(&self, kind: &str, name: &str) -> String {
        self.get(kind, name, "{.metadata.uid}")
    }

    pub(crate) fn size(&self, name: &str) -> String {
        self.get("configmap", name, "{.data.size}")
    }

    pub(crate) fn revisions(&self, name: &str) -> usize {
        let text = self.cp.helm4(["history", name, "-n", self.ns.name(), "-o", "json"]).unwrap();
        serde_json::from_str::<Vec<Value>>(&text).unwrap().len()
    }

    /// Reasons and notes of the Events on an object.
    pub(crate) fn events(&self, name: &str) -> String {
        let selector = format!("--field-selector=involvedObject.name={name}");
        let path = "jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}";
        self.cp.kubectl(["get", "events", "-n", self.ns.name(), &selector, "-o", path]).unwrap()
    }

    pub(crate) fn wait_event(&self, name: &str, text: &str) {
        self.wait(&format!("an Event says {text:?}"), || self.events(name).contains(text));
    }

    /// A command of the binary in the test's namespace.
    pub(crate) fn run(&self, words: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(words.split_whitespace())
            .args(["-n", self.ns.name()])
            .env("KUBECONFIG", self.cp.kubeconfig())
            .output()
            .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helmchart_is_a_release_from_its_creation_to_its_deletion() {
    let mut running = Running::started().await;
    let spec = json!({"chartContent": content(&chart("1.0.0", &[])), "set": {"size": 2}, "jobImage": "x"});
    running.chart("web", &spec);
    running.wait_revision("web", 1);
    assert_eq!(running.size("web"), "2");
    assert_eq!(running.condition("web", "JobCreated"), "True ReleaseStarted");
    assert_eq!(running.condition("web", "Failed"), "False Deployed");
    let manager = "{.metadata.annotations.helmcharts\\.cattle\\.io/managed-by} {.metadata.finalizers[*]}";
    assert_eq!(running.get("helmchart", "web", manager), format!("helm-controller {FINALIZER}"));
    running.wait_event("web", "FieldsIgnored: no effect, since there is no Job: spec.jobImage");
    assert_eq!(running.kubectl("get jobs,pods -o name"), "", "there is no Job");

    // A configuration goes over the chart's values, below its set.
    running.apply("HelmChartConfig", "web", &json!({}), &json!({"valuesContent": "size: 7\nmore: config"}));
    running.wait_revision("web", 2);
    assert_eq!(running.size("web"), "2");
    assert!(running.get("configmap", "web", "{.data.all}").contains(r#""more":"config""#));
    running.kubectl("delete helmchartconfig web");
    running.wait_revision("web", 3);
    assert!(!running.get("configmap", "web", "{.data.all}").contains("config"));

    // Drift is corrected without a revision.
    running.kubectl("delete configmap web");
    running.wait("the deleted object is back", || running.size("web") == "2");
    assert_eq!(running.revisions("web"), 3);

    // A new version of the chart, and a namespace of its own.
    let target = format!("{}-made", running.ns.name());
    let update =
        json!({"chartContent": content(&chart("1.1.0", &[])), "set": {"size": 6}, "timeout": "15m0s"});
    running.chart("web", &update);
    running.wait_revision("web", 4);
    assert!(running.message("web").contains("of web-1.1.0 is deployed"), "{}", running.message("web"));
    let made =
        json!({"chartContent": update["chartContent"], "targetNamespace": target, "createNamespace": true});
    running.chart("made", &made);
    running.wait_revision("made", 1);
    running.cp.kubectl(["get", "configmap", "made", "-n", &target]).unwrap();
    running.kubectl("delete helmchart made");
    running.cp.kubectl(["delete", "namespace", &target, "--wait=false"]).unwrap();

    // A restart with nothing to do writes nothing.
    running.stop().await;
    let mark = running.cp.audit_mark().unwrap();
    running.start().await;
    let reconciled = "windlass_reconciles_total{controller=\"helmcharts\",result=\"ok\"} 1";
    running.wait("it is reconciled again", || running.state.metrics.text().contains(reconciled));
    let writes = running.cp.writes_since(mark).unwrap();
    let ours = |e: &&windlass_testing::AuditEvent| {
        e.namespace == running.ns.name() && e.user_agent.contains("windlass")
    };
    let named: Vec<String> =
        writes.iter().filter(ours).map(|e| format!("{} {}/{}", e.verb, e.resource, e.name)).collect();
    assert_eq!(named, [""; 0]);
    running.kubectl("delete configmap web");
    running.wait("the release is watched again", || running.size("web") == "6");

    running.kubectl("delete helmchart web");
    assert_eq!(running.size("web"), "", "the finalizer held the object until the release was uninstalled");
    assert_eq!(running.cp.helm4(["list", "-n", running.ns.name(), "-q"]).unwrap().trim(), "");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_of_other_managers_are_left_alone() {
    let mut running = Running::started().await;
    let spec = json!({"chartContent": content(&chart("1.0.0", &[]))});
    running.apply("HelmChart", "theirs", &json!({"helmcharts.cattle.io/managed-by": "rke2"}), &spec);
    running.apply("HelmChart", "nobodys", &json!({"helmcharts.helm.cattle.io/unmanaged": "true"}), &spec);
    running.chart("empty", &json!({"valuesContent": "a: 1"}));
    running.chart("ours", &spec);
    running.wait_revision("ours", 1);
    for name in ["theirs", "nobodys", "empty"] {
        assert_eq!(running.get("helmchart", name, "{.status}{.metadata.finalizers}"), "", "{name}");
        assert_eq!(running.size(name), "");
    }
    // An object that nobody manages any more is let go without an uninstall.
    running.kubectl("annotate helmchart ours helmcharts.helm.cattle.io/unmanaged=");
    running.kubectl("delete helmchart ours");
    assert_eq!(running.size("ours"), "one");
    // One of another manager stays until that one has removed the finalizer.
    let finalizer = format!(r#"{{"metadata":{{"finalizers":["{FINALIZER}"]}}}}"#);
    running
        .cp
        .kubectl(["patch", "helmchart", "theirs", "-n", running.ns.name(), "--type=merge", "-p", &finalizer])
        .unwrap();
    running.kubectl("delete helmchart theirs --wait=false");
    running.chart("last", &spec);
    running.wait_revision("last", 1);
    assert_eq!(running.get("helmchart", "theirs", "{.metadata.finalizers[*]}"), FINALIZER);
    running
        .cp
        .kubectl([
            "patch",
            "helmchart",
            "theirs",
            "-n",
            running.ns.name(),
            "--type=json",
            "-p",
            r#"[{"op":"remove","path":"/metadata/finalizers"}]"#,
        ])
        .unwrap();
    // It is ours once the annotation says so.
    running.apply("HelmChart", "nobodys", &json!({}), &spec);
    running.kubectl("annotate helmchart nobodys helmcharts.helm.cattle.io/unmanaged-");
    running.wait_revision("nobodys", 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_secrets_are_layered_and_watched() {
    let mut running = Running::started().await;
    let spec = json!({
        "chartContent": content(&chart("1.0.0", &[])),
        "valuesContent": "size: content\na: content\n",
        "values": {"size": "values", "b": "values"},
        "valuesSecrets": [
            {"name": "missing", "keys": ["x"], "ignoreUpdates": true},
            {"name": "unused"},
            {"name": "sizes", "keys": ["first", "second"]},
        ],
    });
    running.chart("web", &spec);
    running.wait_ready("web", "False ReferenceUnavailable");
    assert_eq!(running.condition("web", "Failed"), "False Retrying");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sizes", "namespace": running.ns.name()},
        "stringData": {"first": "size: first", "second": "c: second"},
    });
    running.cp.kubectl_with(["create", "-f", "-"], &secret.to_string()).unwrap();
    running.wait_revision("web", 1);
    let all = running.get("configmap", "web", "{.data.all}");
    assert_eq!(all, r#"{"a":"content","b":"values","c":"second","size":"first"}"#);
    let patch = format!(r#"{{"data":{{"first":"{}"}}}}"#, STANDARD.encode("size: changed"));
    running.cp.kubectl(["patch", "secret", "sizes", "-n", running.ns.name(), "-p", &patch]).unwrap();
    running.wait("a changed Secret triggers a reconcile", || running.size("web") == "changed");
    // What is not YAML is not quoted.
    let patch = format!(r#"{{"data":{{"first":"{}"}}}}"#, STANDARD.encode("pass: hunter2: x"));
    running.cp.kubectl(["patch", "secret", "sizes", "-n", running.ns.name(), "-p", &patch]).unwrap();
    running.wait_ready("web", "False ValuesInvalid");
    let status = running.get("helmchart", "web", "{.status}") + &running.events("web");
    assert!(status.contains("it is not a YAML map") && !status.contains("hunter2"), "{status}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_helm_is_taken_over_without_a_revision() {
    let mut running = Running::prepare().await;
    let package = chart("1.0.0", &[]);
    let file = tempfile::Builder::new().suffix(".tgz").tempfile().unwrap();
    std::fs::write(file.path(), &package).unwrap();
    let path = file.path().to_str().unwrap();
    let ns = running.ns.name().to_owned();
    running.cp.helm3(["install", "three", path, "-n", &ns, "--set", "size=3"]).unwrap();
    running.cp.helm4(["install", "four", path, "-n", &ns, "--set", "size=4"]).unwrap();
    // As k3s leaves them.
    let status = json!({"status": {"jobName": "helm-install-x", "conditions": [
        {"type": "JobCreated", "status": "True", "reason": "Job created", "message": "Applying HelmChart"},
        {"type": "Failed", "status": "False"},
    ]}});
    for (name, size) in [("three", 3), ("four", 4)] {
        running.chart(name, &json!({"chartContent": content(&package), "set": {"size": size}}));
        running
            .cp
            .kubectl([
                "patch",
                "helmchart",
                name,
                "-n",
                &ns,
                "--subresource=status",
                "--type=merge",
                "-p",
                &status.to_string(),
            ])
            .unwrap();
    }
    let doctor = running.run("doctor helmcharts");
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert_eq!(doctor.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&doctor.stderr));
    assert!(text.contains("2 HelmCharts: 2 unchanged, 0 would get a new revision"), "{text}");
    let uid = running.get("configmap", "three", "{.metadata.uid}");
    running.start().await;
    for name in ["three", "four"] {
        running.wait_revision(name, 1);
        assert_eq!(running.revisions(name), 1);
        assert_eq!(running.get("helmchart", name, "{.status.jobName}"), "");
    }
    // Patches of the client go on as such.
    running.kubectl("delete configmap three");
    running.wait("the deleted object is back", || running.size("three") == "3");
    assert_ne!(running.get("configmap", "three", "{.metadata.uid}"), uid);
    running.chart("three", &json!({"chartContent": content(&package), "set": {"size": 33}}));
    running.wait_revision("three", 2);
    assert_eq!(running.size("three"), "33");
    // What another front end of an operator owns stays its own, also when the object is deleted.
    running.cp.helm4(["install", "owned", path, "-n", &ns]).unwrap();
    running.kubectl("label secret sh.helm.release.v1.owned.v1 windlass.dev/owner=helmreleases");
    running.chart("owned", &json!({"chartContent": content(&package), "set": {"size": 9}}));
    running.wait_ready("owned", "False ConfigInvalid");
    assert!(running.message("owned").contains("belongs to the operator's helmreleases"));
    running.kubectl("delete helmchart owned");
    assert_eq!(running.size("owned"), "one");
    // And back: Helm goes on with the release.
    running.stop().await;
    running.cp.helm3(["upgrade", "three", path, "-n", &ns, "--set", "size=34"]).unwrap();
    assert_eq!(running.size("three"), "34");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_follow_the_policy() {
    let mut running = Running::started().await;
    let package = content(&chart("1.0.0", &[]));
    // An upgrade that is refused is retried, and nothing is uninstalled.
    running.chart("web", &json!({"chartContent": package}));
    running.wait_revision("web", 1);
    let uid = running.get("configmap", "web", "{.metadata.uid}");
    running.chart("web", &json!({"chartContent": package, "set": {"size": "bad"}}));
    running.wait_ready("web", "False ReleaseFailed");
    assert_eq!(running.get("configmap", "web", "{.metadata.uid}"), uid);
    running.chart("web", &json!({"chartContent": package, "set": {"size": "good"}}));
    running.wait("the next change cures it", || running.size("web") == "good");
    assert_eq!(running.get("configmap", "web", "{.metadata.uid}"), uid);
    running.wait_ready("web", "True Deployed");

    // Under abort nothing more is done, and the status says why.
    running
        .chart("stop", &json!({"chartContent": package, "failurePolicy": "abort", "set": {"size": "bad"}}));
    running.wait_ready("stop", "False Aborted");
    assert_eq!(running.condition("stop", "Failed"), "True Aborted");
    assert!(running.message("stop").contains("failurePolicy is abort"), "{}", running.message("stop"));
    running
        .chart("stop", &json!({"chartContent": package, "failurePolicy": "retry", "set": {"size": "good"}}));
    running.wait_ready("stop", "True Deployed");
    assert_eq!(running.condition("stop", "Failed"), "False Deployed");

    // Other Helms are refused.
    running.chart("two", &json!({"chartContent": package, "helmVersion": "v2"}));
    running.wait_ready("two", "False UnsupportedVersion");
    assert_eq!(running.condition("two", "Failed"), "True Unsupported version");
    running.wait_event("two", "UnsupportedVersion: Only Helm v3 charts are supported");
    running.stop().await;
}

/// A chart of a Deployment without Pods whose selector cannot be changed, and a ConfigMap.
fn fixed_selector() -> Vec<u8> {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: fixed, annotations: {helm.sh/resource-policy: \"{{ .Values.policy }}\"}}\nspec:\n  replicas: 0\n  selector: {matchLabels: {a: \"{{ .Values.label }}\"}}\n  template:\n    metadata: {labels: {a: \"{{ .Values.label }}\"}}\n    spec: {containers: [{name: c, image: i}]}\n";
    chart("1.0.0", &[("templates/deployment.yaml", deployment)])
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_cannot_be_changed_are_created_anew_once_a_change() {
    let mut running = Running::started().await;
    let package = content(&fixed_selector());
    let spec = |label: &str, more: Value| {
        let mut spec = json!({"chartContent": package, "set": {"label": label}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    running.chart("web", &spec("one", json!({"failurePolicy": "retry"})));
    running.wait_revision("web", 1);
    let (deployment, config) = (running.uid("deployment", "fixed"), running.uid("configmap", "web"));
    let other = "two";
    running.chart("web", &spec(other, json!({"failurePolicy": "retry"})));
    running.wait_ready("web", "False ReleaseFailed");
    assert_eq!(running.uid("deployment", "fixed"), deployment, "retry deletes nothing");
    running.chart("web", &spec(other, json!({})));
    running.wait_ready("web", "True Deployed");
    assert_ne!(running.uid("deployment", "fixed"), deployment);
    assert_eq!(running.uid("configmap", "web"), config, "the rest of the release stays");
    running.wait_event("web", "Recreating: objects that cannot be changed");
    // What is to be kept is not deleted for that either.
    let keep = json!({"label": "two", "policy": "keep"});
    running.chart("web", &spec("", json!({"set": keep})));
    running.wait("it is to be kept", || {
        running.get("deployment", "fixed", "{.metadata.annotations}").contains("keep")
    });
    running.wait_ready("web", "True Deployed");
    let kept = running.uid("deployment", "fixed");
    running.chart("web", &spec("", json!({"set": {"label": "three", "policy": "keep"}})));
    running.wait_ready("web", "False ReleaseFailed");
    assert_eq!(running.uid("deployment", "fixed"), kept);
    running.chart("web", &spec("", json!({"set": {"label": "two", "policy": "none"}})));
    running.wait_ready("web", "True Deployed");
    running.stop().await;

    // As k3s: the release is uninstalled first.
    running.options.reinstall = ReinstallMode::AsK3s;
    running.start().await;
    running.chart("web", &spec("one", json!({})));
    running.wait("the release is made anew", || {
        running.condition("web", "Ready") == "True Deployed" && running.uid("configmap", "web") != config
    });
    running.wait_event("web", "Reinstalling: revision ");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployed_release_is_ready_when_its_objects_are() {
    let mut running = Running::started().await;
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app}\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      nodeSelector: {windlass.dev/none: \"{{ .Values.none }}\"}\n      containers: [{name: c, image: i}]\n";
    let package = content(&chart("1.0.0", &[("templates/app.yaml", deployment)]));
    running.chart("web", &json!({"chartContent": package, "timeout": "2s", "set": {"none": "x"}}));
    running.wait_ready("web", "False NotReady");
    // The release itself has not failed.
    assert_eq!(running.condition("web", "Failed"), "False Deployed");
    assert_eq!(
        running.cp.helm4(["list", "-n", running.ns.name(), "-q", "--deployed"]).unwrap().trim(),
        "web"
    );
    // What depends on it waits.
    let simple = content(&chart("1.0.0", &[]));
    running.apply(
        "HelmChart",
        "late",
        &json!({"windlass.dev/depends-on": "web"}),
        &json!({"chartContent": simple}),
    );
    running.wait_ready("late", "False DependencyNotReady");
    running.apply(
        "HelmChart",
        "late",
        &json!({"windlass.dev/depends-on": ""}),
        &json!({"chartContent": simple}),
    );
    running.wait_revision("late", 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_where_the_driver_says() {
    let mut running = Running::started().await;
    let package = content(&chart("1.0.0", &[]));
    running.chart("web", &json!({"chartContent": package, "driver": "configmap"}));
    running.wait_revision("web", 1);
    let owned = |kind: &str| running.kubectl(&format!("get {kind} -l owner=helm -o name"));
    assert_eq!(owned("configmap").trim(), "configmap/sh.helm.release.v1.web.v1");
    assert_eq!(owned("secret").trim(), "");
    let args = [
        "patch",
        "helmchart",
        "web",
        "-n",
        running.ns.name(),
        "--type=merge",
        "-p",
        r#"{"spec":{"driver":null}}"#,
    ];
    let error = running.cp.kubectl(args).unwrap_err().to_string();
    assert!(error.contains("driver is immutable"), "{error}");
    running.kubectl("delete helmchart web");
    assert_eq!(owned("configmap").trim(), "");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_takes_its_charts_with_it() {
    let mut running = Running::started().await;
    let target = running.cp.namespace("helmchart-target").unwrap();
    let package = content(&chart("1.0.0", &[]));
    running.chart("web", &json!({"chartContent": package, "targetNamespace": target.name()}));
    running.wait_revision("web", 1);
    let there = || {
        running
            .cp
            .kubectl(["get", "configmap", "web", "-n", target.name(), "--ignore-not-found", "-o", "name"])
            .unwrap()
    };
    assert_eq!(there().trim(), "configmap/web");
    running.cp.kubectl(["delete", "namespace", running.ns.name(), "--wait=false"]).unwrap();
    running.wait("the object is gone", || running.get("helmchart", "web", "{.metadata.name}").is_empty());
    assert_eq!(there().trim(), "configmap/web", "a release in another namespace stays");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_come_from_repositories_with_their_logins() {
    let mut running = Running::prepare().await;
    let package = chart("1.2.0", &[]);
    let other = ChartServer::start(&[("/web-1.2.0.tgz", package.clone())]).await;
    let index = format!(
        "apiVersion: v1\nentries:\n  web:\n  - {{name: web, version: 1.2.0, apiVersion: v2, urls: [web-1.2.0.tgz]}}\n  far:\n  - {{name: web, version: 1.2.0, apiVersion: v2, urls: ['http://{}/web-1.2.0.tgz']}}\n",
        other.address
    );
    let server =
        ChartServer::start(&[("/index.yaml", index.into_bytes()), ("/web-1.2.0.tgz", package)]).await;
    let url = format!("http://{}", server.address);
    running.options.stable_repository = url.clone();
    running.start().await;
    running.kubectl("create secret generic login --from-literal=username=me --from-literal=password=word");
    let auth = json!({"name": "login"});
    running.chart("near", &json!({"chart": "web", "repo": url, "version": "1.x", "authSecret": auth}));
    running.chart("far", &json!({"chart": "far", "repo": url, "authSecret": auth}));
    running.chart("direct", &json!({"chart": format!("{url}/web-1.2.0.tgz")}));
    running.chart("stable", &json!({"chart": "stable/web"}));
    running.chart("none", &json!({"chart": "web"}));
    for name in ["near", "far", "direct", "stable"] {
        running.wait_revision(name, 1);
        assert!(running.message(name).contains("of web-1.2.0 is deployed"), "{}", running.message(name));
    }
    running.wait_ready("none", "False ConfigInvalid");
    let basic = format!("Basic {}", STANDARD.encode("me:word"));
    assert!(server.seen.lock().unwrap().contains(&("/index.yaml".to_owned(), basic.clone())));
    let leaked: Vec<_> = other.seen.lock().unwrap().clone();
    assert_eq!(leaked, [("/web-1.2.0.tgz".to_owned(), String::new())], "a login is for its repository alone");
    running.chart(
        "passed",
        &json!({"chart": "far", "repo": url, "authSecret": auth, "authPassCredentials": true}),
    );
    running.wait_revision("passed", 1);
    assert!(
        other.seen.lock().unwrap().contains(&("/web-1.2.0.tgz".to_owned(), basic)),
        "unless the spec says so"
    );
    running.stop().await;

    // Without the operator's leave this machine is no server of charts.
    running.options.allow_local_addresses = false;
    running.start().await;
    running.chart("local", &json!({"chart": format!("{url}/web-1.2.0.tgz")}));
    running.wait_ready("local", "False ChartUnavailable");
    assert!(running.message("local").contains("--allow-local-sources"), "{}", running.message("local"));
    // The API server is one: it answers, though it has no charts.
    running.chart("api", &json!({"chart": "https://%{KUBERNETES_API}%/static/charts/web.tgz"}));
    running.wait_ready("api", "False ChartUnavailable");
    let message = running.message("api");
    assert!(message.contains("/static/charts/web.tgz") && message.contains("40"), "{message}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_act_with_their_own_rights() {
    let mut running = Running::prepare().await;
    let victim = running.cp.namespace("helmchart-victim").unwrap();
    let (ns, victim) = (running.ns.name().to_owned(), victim.name().to_owned());
    running.kubectl("create serviceaccount tenant");
    let account = format!("--serviceaccount={ns}:tenant");
    running
        .cp
        .kubectl(["create", "rolebinding", "tenant", "--clusterrole=admin", "-n", &ns, &account])
        .unwrap();
    running.options.default_service_account = AccountName::parse("tenant");
    running.start().await;
    let package = content(&chart("1.0.0", &[]));
    running.chart("own", &json!({"chartContent": package}));
    running.wait_revision("own", 1);
    let made = format!("{victim}-made");
    let lookup = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: l}}\ndata: {{w: {{{{ (lookup \"v1\" \"Secret\" \"{victim}\" \"key\").data | toJson | quote }}}}}}\n"
    );
    let looking = content(&chart("1.0.0", &[("templates/l.yaml", &lookup)]));
    let attempts = [
        ("target", json!({"chartContent": package, "targetNamespace": victim})),
        ("created", json!({"chartContent": package, "targetNamespace": made, "createNamespace": true})),
        ("lookup", json!({"chartContent": looking})),
        ("records", json!({"chartContent": package, "targetNamespace": victim, "driver": "configmap"})),
    ];
    for (name, spec) in &attempts {
        running.chart(name, spec);
    }
    for (name, _) in &attempts {
        running.wait(&format!("{name} is refused"), || {
            ["orbidden", "lacks rights"].iter().any(|part| running.message(name).contains(part))
        });
    }
    running.chart("path", &json!({"chartContent": package, "valuesSecrets": [{"name": format!("../{victim}/key"), "keys": ["x"]}]}));
    running.wait("a path is no name", || running.condition("path", "Ready").starts_with("False "));
    let objects = running.cp.kubectl(["get", "configmap,secret", "-n", &victim, "-o", "name"]).unwrap();
    assert!(!objects.contains("target") && !objects.contains("helm.release"), "{objects}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_two_name_stays_with_the_first_through_restarts() {
    let mut running = Running::prepare().await;
    let (first, target) =
        (running.cp.namespace("hc-first").unwrap(), running.cp.namespace("hc-target").unwrap());
    let (own, first, target) =
        (running.ns.name().to_owned(), first.name().to_owned(), target.name().to_owned());
    for ns in [&own, &first] {
        running.cp.kubectl(["create", "serviceaccount", "tenant", "-n", ns]).unwrap();
        let account = format!("--serviceaccount={ns}:tenant");
        for (number, within) in [&own, &first, &target].into_iter().enumerate() {
            let name = format!("{ns}-{number}");
            let binding = ["create", "rolebinding", &name, "--clusterrole=admin", "-n", within, &account];
            running.cp.kubectl(binding).unwrap();
        }
    }
    running.options.default_service_account = AccountName::parse("tenant");
    running.further = vec![first.clone(), target.clone()];
    running.start().await;
    let package = content(&chart("1.0.0", &[]));
    let apply = |ns: &str, size: &str| {
        let spec = json!({"chartContent": package, "targetNamespace": target, "set": {"size": size}});
        running.apply_object("HelmChart", &json!({"name": "web", "namespace": ns}), &spec);
    };
    let get = |ns: &str, kind: &str, path: &str| {
        let path = format!("jsonpath={path}");
        running.cp.kubectl(["get", kind, "web", "-n", ns, "--ignore-not-found", "-o", &path]).unwrap()
    };
    let ready = |ns: &str| get(ns, "helmchart", "{.status.conditions[?(@.type==\"Ready\")].message}");
    let size = || get(&target, "configmap", "{.data.size}");
    apply(&first, "first");
    running.wait("the first is deployed", || ready(&first).contains("revision 1 of") && size() == "first");
    apply(&own, "second");
    running.wait("the second is refused", || ready(&own).contains("belongs to another HelmChart"));
    // One that is at home takes nothing either.
    apply(&target, "home");
    running.wait("the one at home is refused", || ready(&target).contains("belongs to another HelmChart"));
    assert_eq!(size(), "first");
    // Whoever comes first after a restart.
    for number in 0..2 {
        running.stop().await;
        let patch = format!(r#"{{"spec":{{"set":{{"size":"other{number}"}}}}}}"#);
        for ns in [&own, &target] {
            let patch = ["patch", "helmchart", "web", "-n", ns, "--type=merge", "-p", &patch];
            running.cp.kubectl(patch).unwrap();
        }
        running.start().await;
        let done = || {
            let text = running.state.metrics.text();
            let of = |result: &str| {
                let line =
                    format!("windlass_reconciles_total{{controller=\"helmcharts\",result=\"{result}\"}} ");
                text.lines().find_map(|l| l.strip_prefix(&line)?.parse::<f64>().ok()).unwrap_or_default()
            };
            of("ok") >= 1.0 && of("error") >= 2.0
        };
        running.wait("all have had a pass", done);
        assert_eq!(size(), "first");
        running.cp.kubectl(["delete", "configmap", "web", "-n", &target]).unwrap();
        running.wait("drift is the first one's", || size() == "first");
    }
    // Who has not deployed it uninstalls nothing, and the next one gets it from who has.
    running.cp.kubectl(["delete", "helmchart", "web", "-n", &target]).unwrap();
    assert_eq!(size(), "first");
    running.cp.kubectl(["delete", "helmchart", "web", "-n", &first]).unwrap();
    running.wait("the second is deployed", || size() == "other1");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_ends_whatever_the_records_are() {
    let mut running = Running::started().await;
    let package = content(&chart("1.0.0", &[]));
    for name in ["own", "foreign", "marked"] {
        running.chart(name, &json!({"chartContent": package}));
        running.wait_revision(name, 1);
    }
    running.chart("own", &json!({"chartContent": package, "set": {"size": "two"}}));
    running.wait_revision("own", 2);
    running.stop().await;
    let garbage = format!(r#"{{"data":{{"release":"{}"}}}}"#, STANDARD.encode("garbage"));
    for record in ["own.v2", "foreign.v1", "marked.v1"] {
        let name = format!("sh.helm.release.v1.{record}");
        running.cp.kubectl(["patch", "secret", &name, "-n", running.ns.name(), "-p", &garbage]).unwrap();
    }
    running
        .kubectl("label secret sh.helm.release.v1.foreign.v1 windlass.dev/owner- windlass.dev/owner-digest-");
    running.kubectl("label --overwrite secret sh.helm.release.v1.marked.v1 windlass.dev/owner-digest=other");
    running.start().await;
    // One that is not its own is left, and the status says so.
    for name in ["foreign", "marked"] {
        running
            .wait("the record is named", || running.message(name).contains("not marked as this HelmChart's"));
    }
    running.wait_event("own", "DeletingRecords: records that cannot be read");
    running.wait("its own is made again", || {
        let listed = running.cp.helm4(["list", "-n", running.ns.name(), "-q", "--deployed"]).unwrap();
        listed.split_whitespace().any(|name| name == "own")
    });
    running.stop().await;
    let record = ["patch", "secret", "sh.helm.release.v1.own.v2", "-n", running.ns.name(), "-p", &garbage];
    running.cp.kubectl(record).unwrap();
    running.kubectl("delete helmchart own foreign marked --wait=false");
    running.start().await;
    running.wait("all are gone", || running.kubectl("get helmcharts -o name").is_empty());
    running.wait_event("foreign", "NotUninstalled: release");
    let records = running.kubectl("get secret -l owner=helm -o name");
    let names: Vec<&str> = records.split_whitespace().collect();
    assert_eq!(names, ["secret/sh.helm.release.v1.foreign.v1", "secret/sh.helm.release.v1.marked.v1"]);
    assert_eq!([running.size("own"), running.size("foreign"), running.size("marked")], ["", "one", "one"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uninstall_that_leaves_objects_is_tried_again() {
    let mut running = Running::started().await;
    let held =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [test.windlass.dev/held]}\n";
    let package = content(&chart("1.0.0", &[("templates/held.yaml", held)]));
    running.chart("web", &json!({"chartContent": package, "timeout": "1s"}));
    running.wait_revision("web", 1);
    running.kubectl("delete helmchart web --wait=false");
    running.wait_event("web", "UninstallIncomplete: ");
    assert!(running.events("web").contains("it waits for the finalizers test.windlass.dev/held"));
    running.wait_ready("web", "False UninstallIncomplete");
    // A process that begins then goes on.
    running.stop().await;
    running.start().await;
    assert_eq!(running.get("helmchart", "web", "{.metadata.finalizers[*]}"), FINALIZER);
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    running.cp.kubectl(["patch", "configmap", "held", "-n", running.ns.name(), "-p", patch]).unwrap();
    running.wait("the object is gone", || running.get("helmchart", "web", "{.metadata.name}").is_empty());
    assert_eq!(running.kubectl("get secret -l owner=helm -o name"), "");
    assert_eq!(running.size("web"), "");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_charts_fail_alone() {
    let mut running = Running::started().await;
    // A file of 200 MiB of zeros in a package of 200 kB.
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut archive = tar::Builder::new(gzip);
    let mut header = tar::Header::new_gnu();
    header.set_size(200 << 20);
    header.set_mode(0o644);
    archive.append_data(&mut header, "web/bomb", std::io::Read::take(std::io::repeat(0), 200 << 20)).unwrap();
    let bomb = archive.into_inner().unwrap().finish().unwrap();
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    running.chart("bomb", &json!({"chartContent": content(&bomb)}));
    running.chart("text", &json!({"chartContent": "not base64 !"}));
    running.chart("garbage", &json!({"chartContent": content(b"no archive")}));
    running.chart(
        "values",
        &json!({"chartContent": content(&chart("1.0.0", &[])), "valuesContent": "- a list"}),
    );
    running.chart("aliases", &json!({
        "chartContent": content(&chart("1.0.0", &[])),
        "valuesContent": format!("a0: &a0 [x]\n{}", (1..40).map(|n| format!("a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1)).collect::<String>()),
    }));
    let good = content(&chart("1.0.0", &[]));
    running.chart("target", &json!({"chartContent": good, "targetNamespace": "../kube-system"}));
    let long = "x".repeat(60);
    running.chart(&long, &json!({"chartContent": good}));
    running
        .chart("secret", &json!({"chartContent": content(&chart("1.0.0", &[])), "authSecret": {"name": ""}}));
    running.chart("good", &json!({"chartContent": content(&chart("1.0.0", &[]))}));
    running.wait_revision("good", 1);
    for (name, expected) in [
        ("bomb", "False ChartInvalid"),
        ("text", "False ConfigInvalid"),
        ("garbage", "False ChartInvalid"),
        ("values", "False ValuesInvalid"),
        ("aliases", "False ValuesInvalid"),
        ("secret", "False ConfigInvalid"),
    ] {
        running.wait_ready(name, expected);
        assert!(running.condition(name, "Failed").starts_with("True "), "{name}");
    }
    for name in ["target", long.as_str()] {
        running.wait(name, || running.condition(name, "Ready").starts_with("False "));
    }
    // They can all be deleted.
    running.kubectl("delete helmchart --all");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_break_is_made_again() {
    let mut running = Running::started().await;
    let widget = "apiVersion: helmcharts.test.windlass.dev/v1\nkind: Widget\nmetadata: {name: w}\n";
    let package = content(&chart("1.0.0", &[("templates/widget.yaml", widget)]));
    running.chart("late", &json!({"chartContent": package}));
    running.wait_ready("late", "False ReleaseFailed");
    assert_eq!(running.condition("late", "Failed"), "False Retrying");
    // A chart waits for the definition of its kinds.
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.helmcharts.test.windlass.dev"},
        "spec": {
            "group": "helmcharts.test.windlass.dev", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    running.cp.kubectl_with(["apply", "-f", "-"], &crd.to_string()).unwrap();
    running.wait_ready("late", "True Deployed");
    running.kubectl("delete helmchart late");
    running.cp.kubectl(["delete", "crd", "widgets.helmcharts.test.windlass.dev"]).unwrap();

    // A revision of another tool is replaced.
    let package = content(&chart("1.0.0", &[]));
    running.chart("web", &json!({"chartContent": package}));
    running.wait_revision("web", 1);
    running.chart("web", &json!({"chartContent": package, "set": {"size": "two"}}));
    running.wait_revision("web", 2);
    running.cp.helm4(["rollback", "web", "1", "-n", running.ns.name()]).unwrap();
    running.wait("the release is as its object says", || running.size("web") == "two");
    running.wait_revision("web", 4);

    // A record that cannot be read is deleted, and nothing of the release with it.
    let uid = running.uid("configmap", "web");
    let patch = format!(r#"{{"data":{{"release":"{}"}}}}"#, STANDARD.encode("garbage"));
    let record = ["patch", "secret", "sh.helm.release.v1.web.v4", "-n", running.ns.name(), "-p", &patch];
    running.cp.kubectl(record).unwrap();
    running.wait_event("web", "DeletingRecords: records that cannot be read");
    running.wait("the release is listed again", || {
        running.cp.helm4(["list", "-n", running.ns.name(), "-q", "--deployed"]).unwrap().trim() == "web"
    });
    running.wait_ready("web", "True Deployed");
    assert_eq!(running.uid("configmap", "web"), uid);
    running.stop().await;
}

/// The operator's binary on a namespace. `scratch`: where its socket is.
fn operator(running: &Running, scratch: &std::path::Path) -> std::process::Child {
    let socket = format!("--debug-unix-socket={}", scratch.join("debug.socket").display());
    Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["operator", "--controllers=helmcharts", "--watch-all-namespaces=false", "--listen-port=0"])
        .args(["--listen-address=127.0.0.1", &socket, "-n", running.ns.name()])
        .env("KUBECONFIG", running.cp.kubeconfig())
        .env("RUNTIME_NAMESPACE", running.ns.name())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_operator_is_continued_by_the_next() {
    let running = Running::prepare().await;
    // A hook that no node runs: the install does not end.
    let hook = "{{- if .Values.hook }}\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: pre-install}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      nodeSelector: {windlass.dev/none: x}\n      containers: [{name: c, image: i}]\n{{- end }}\n";
    let package = content(&chart("1.0.0", &[("templates/hook.yaml", hook)]));
    running.chart("web", &json!({"chartContent": package, "set": {"hook": "true"}}));
    let observed = running.run("operator --observe --controllers=helmcharts");
    let text = String::from_utf8_lossy(&observed.stdout).into_owned();
    assert_eq!(observed.status.code(), Some(2), "{text}{}", String::from_utf8_lossy(&observed.stderr));
    assert!(text.contains(&format!("HelmChart {}/web: would change:", running.ns.name())), "{text}");
    let scratch = tempfile::tempdir().unwrap();
    let mut first = operator(&running, scratch.path());
    running.wait("the hook runs", || !running.get("job", "hook", "{.metadata.name}").is_empty());
    first.kill().unwrap();
    first.wait().unwrap();
    let status = || {
        let path = "jsonpath={.items[*].metadata.labels.status}";
        running.kubectl(&format!("get secret -l owner=helm,name=web -o {path}"))
    };
    assert_eq!(status(), "pending-install");
    let mut second = operator(&running, scratch.path());
    running.chart("web", &json!({"chartContent": package, "set": {"hook": "false"}}));
    running.wait_ready("web", "True Deployed");
    assert_eq!(running.size("web"), "one");
    assert!(status().ends_with("deployed"), "{}", status());
    running.kubectl("delete helmchart web");
    assert_eq!(status(), "");
    second.kill().unwrap();
    second.wait().unwrap();
}
