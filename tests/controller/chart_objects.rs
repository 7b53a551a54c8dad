//! Objects of charts' kinds on a real control plane: what operator-sdk's Helm operator documents, and where ours is to be better.

use std::path::Path;
use std::sync::{Arc, Once};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_chartresource::{ChartObjects, LoadedChart, ObjectOptions, WatchesFile};
use windlass_cluster::{Cluster, ClusterError, ConnectOptions};
use windlass_controller::serve::State;
use windlass_controller::{AccountName, ContextOptions, ControllerContext, ControllerOptions};
use windlass_testing::{ControlPlane, Namespace, shared, wait_until};

use super::{LIMIT, write};

pub(crate) const GROUP: &str = "charts.test.windlass.dev";
const FINALIZER: &str = "helm.sdk.operatorframework.io/uninstall-release";

fn definition(kind: &str) -> Value {
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": open}}},
            }],
        },
    })
}

/// The shared control plane, with two kinds.
pub(crate) fn control_plane() -> &'static ControlPlane {
    static KINDS: Once = Once::new();
    let cp = shared().expect("a control plane");
    KINDS.call_once(|| {
        for kind in ["Cache", "Store"] {
            cp.kubectl_with(["apply", "-f", "-"], &definition(kind).to_string()).unwrap();
            let name = format!("crd/{}s.{GROUP}", kind.to_lowercase());
            cp.kubectl(["wait", "--for=condition=Established", &name]).unwrap();
        }
    });
    cp
}

/// A chart whose ConfigMap shows its values, with a random one, and a ClusterRole.
pub(crate) fn chart(root: &Path) {
    write(root, "Chart.yaml", "apiVersion: v2\nname: cache\nversion: 0.1.0\n");
    write(root, "values.yaml", "size: 1\nimage: {name: web}\nport: 1000000\n");
    write(
        root,
        "values.schema.json",
        r#"{"type": "object", "additionalProperties": false, "properties": {
            "size": {"type": "integer"}, "image": {"type": "object"}, "port": {"type": "integer"},
            "fixed": {"type": "string"}, "broken": {"type": "boolean"}, "runs": {"type": "boolean"}, "large": {"type": "boolean"},
            "hooks": {"type": "boolean"}, "keep": {"type": "boolean"}}}"#,
    );
    let objects = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data:
  size: "{{ .Values.size }}"
  image: "{{ .Values.image.name }}"
  port: "{{ .Values.port }}"
  token: "{{ randAlphaNum 16 }}"
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ .Release.Namespace }}-{{ .Release.Name }}"}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
{{ with .Values.fixed }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ $.Release.Name }}-fixed"}
immutable: true
data: {fixed: "{{ . }}"}
{{ end }}
{{ if .Values.broken }}
---
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}"}
spec: {ports: [{port: 70000}]}
{{ end }}
{{ if .Values.runs }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
{{ end }}
{{ if .Values.large }}
{{ range $n := until 3 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ $.Release.Name }}-large{{ $n }}"}
data: {text: "{{ range until 14000 }}{{ sha256sum (print $n "-" .) }}{{ end }}"}
{{ end }}
{{ end }}
{{ if .Values.hooks }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: "{{ .Release.Name }}-hook"
  annotations: {helm.sh/hook: "pre-install,pre-upgrade,pre-delete"}
data: {revision: "{{ .Release.Revision }}"}
{{ end }}
{{ if .Values.keep }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-kept", annotations: {helm.sh/resource-policy: keep}}
{{ end }}
"#;
    write(root, "templates/all.yaml", objects);
    write(root, "templates/NOTES.txt", "size {{ .Values.size }}\n");
}

/// A namespace with running front ends.
pub(crate) struct Running {
    pub(crate) cp: &'static ControlPlane,
    pub(crate) ns: Namespace<'static>,
    pub(crate) root: tempfile::TempDir,
    state: Arc<State>,
    stop: watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<Result<(), ClusterError>>>,
}

/// What tests set of a process.
#[derive(Default)]
pub(crate) struct Setup {
    /// Further fields of each entry of the file.
    pub(crate) fields: &'static str,
    pub(crate) account: Option<&'static str>,
    pub(crate) further: Vec<String>,
    /// As whom the process acts; an administrator by default.
    pub(crate) kubeconfig: Option<std::path::PathBuf>,
}

impl Running {
    pub(crate) async fn start(kinds: &[&str]) -> Self {
        Self::start_with(kinds, Setup::default()).await
    }

    pub(crate) async fn start_with(kinds: &[&str], setup: Setup) -> Self {
        let cp = control_plane();
        let ns = cp.namespace("charts").unwrap();
        let root = tempfile::tempdir().unwrap();
        chart(root.path());
        let stop = watch::Sender::new(false);
        let mut own = Self { cp, ns, root, state: Arc::new(State::new("test_")), stop, tasks: Vec::new() };
        own.resume(kinds, &setup).await;
        own
    }

    pub(crate) async fn resume(&mut self, kinds: &[&str], setup: &Setup) {
        let kubeconfig = setup.kubeconfig.clone().or_else(|| Some(self.cp.kubeconfig().to_owned()));
        let cluster =
            Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
        self.state = Arc::new(State::new("test_"));
        self.stop = watch::Sender::new(false);
        let context = ControllerContext::new(cluster, &ContextOptions::default(), Arc::clone(&self.state));
        let entry = |kind: &&str| {
            format!("- {{group: {GROUP}, version: v1, kind: {kind}, chart: chart{}}}\n", setup.fields)
        };
        let text: String = kinds.iter().map(entry).collect();
        let file = WatchesFile::parse(&text, Duration::from_secs(1), |_| None).unwrap();
        let options = ObjectOptions {
            default_service_account: setup.account.and_then(AccountName::parse),
            ..ObjectOptions::default()
        };
        for kind in file.kinds {
            let chart = LoadedChart::of_path(self.root.path()).unwrap();
            let controller = kind.settings.controller(&ControllerOptions {
                namespace: Some(self.ns.name().to_owned()),
                further_namespaces: setup.further.clone(),
                concurrency: 4,
                ..ControllerOptions::default()
            });
            let front_end = ChartObjects::new(kind.settings, chart, options.clone());
            let mut stopped = self.stop.subscribe();
            let stopped = async move { drop(stopped.wait_for(|stop| *stop).await) };
            self.tasks.push(tokio::spawn(windlass_controller::run(
                front_end,
                context.clone(),
                controller,
                stopped,
            )));
        }
    }

    pub(crate) async fn end(&mut self) {
        self.stop.send_replace(true);
        for task in self.tasks.drain(..) {
            task.await.unwrap().unwrap();
        }
    }

    pub(crate) fn apply(&self, kind: &str, name: &str, spec: &Value) {
        self.apply_in(self.ns.name(), kind, &json!({"name": name}), spec);
    }

    pub(crate) fn apply_in(&self, namespace: &str, kind: &str, metadata: &Value, spec: &Value) {
        let mut metadata = metadata.clone();
        metadata["namespace"] = namespace.into();
        let mut object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata});
        if !spec.is_null() {
            object["spec"] = spec.clone();
        }
        self.cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
    }

    pub(crate) fn annotate(&self, kind: &str, name: &str, annotation: &str) {
        let kind = format!("{}s.{GROUP}", kind.to_lowercase());
        self.cp.kubectl(["annotate", "--overwrite", &kind, name, "-n", self.ns.name(), annotation]).unwrap();
    }

    pub(crate) fn object(&self, kind: &str, name: &str) -> Option<Value> {
        let kind = if kind == "Cache" || kind == "Store" {
            format!("{}s.{GROUP}", kind.to_lowercase())
        } else {
            kind.to_owned()
        };
        let args = ["get", &kind, name, "-n", self.ns.name(), "--ignore-not-found", "-o", "json"];
        serde_json::from_str(&self.cp.kubectl(args).unwrap()).ok()
    }

    pub(crate) fn data(&self, name: &str, key: &str) -> String {
        let found = self.object("configmap", name).unwrap_or_default();
        found["data"][key].as_str().unwrap_or_default().to_owned()
    }

    /// A condition of this generation: `STATUS REASON`, and its message.
    pub(crate) fn condition(&self, kind: &str, name: &str, condition: &str) -> (String, String) {
        let object = self.object(kind, name).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let Some(found) = all.iter().find(|one| one["type"] == condition) else { return Default::default() };
        if found["observedGeneration"] != object["metadata"]["generation"] {
            return Default::default();
        }
        (format!("{} {}", text(&found["status"]), text(&found["reason"])), text(&found["message"]))
    }

    pub(crate) fn wait(&self, what: &str, holds: impl Fn() -> bool) {
        if let Err(error) = wait_until(what, LIMIT, || Ok(holds().then_some(()))) {
            let args = ["get", &format!("caches.{GROUP},stores.{GROUP}"), "-n", self.ns.name(), "-o", "json"];
            panic!("{error}: {}", self.cp.kubectl(args).unwrap());
        }
    }

    /// Waits for a condition of the object's generation, and returns its message.
    pub(crate) fn wait_condition(&self, kind: &str, name: &str, condition: &str, expected: &str) -> String {
        let what = format!("{kind} {name}: {condition} is {expected}");
        self.wait(&what, || self.condition(kind, name, condition).0 == expected);
        self.condition(kind, name, condition).1
    }

    pub(crate) fn ready(&self, kind: &str, name: &str) {
        self.wait_condition(kind, name, "Ready", "True Ready");
    }

    pub(crate) fn history(&self, release: &str) -> Vec<String> {
        let text =
            self.cp.helm4(["history", release, "-n", self.ns.name(), "-o", "json"]).unwrap_or_default();
        let all: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
        all.iter().map(|one| one["status"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until so many passes more have ended.
    pub(crate) fn passes(&self, more: usize) {
        let count = || {
            let text = self.state.metrics.text();
            let lines = text.lines().filter(|line| line.starts_with("windlass_reconciles_total"));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as usize
        };
        let before = count();
        self.wait("further passes", || count() >= before + more);
    }

    pub(crate) fn events(&self, reason: &str) -> String {
        let path = format!("jsonpath={{.items[?(@.reason==\"{reason}\")].message}}");
        self.cp.kubectl(["get", "events", "-n", self.ns.name(), "-o", &path]).unwrap()
    }

    pub(crate) fn delete(&self, kind: &str, name: &str) {
        self.cp
            .kubectl(["delete", &format!("{}s.{GROUP}", kind.to_lowercase()), name, "-n", self.ns.name()])
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_a_release_from_its_creation_to_its_deletion() {
    let mut own = Running::start_with(
        &["Cache"],
        Setup { fields: ", overrideValues: {image.name: forced}", ..Setup::default() },
    )
    .await;
    let n = own.ns.name().to_owned();
    own.apply("Cache", "web", &json!({"size": 2, "port": 1_000_000, "image": {"name": "mine"}}));
    own.ready("Cache", "web");
    assert_eq!(
        [own.data("web", "size"), own.data("web", "image")],
        ["2", "forced"],
        "overrides beat the spec"
    );
    assert_eq!(own.data("web", "port"), "1000000", "whole numbers stay whole");
    assert_eq!(own.condition("Cache", "web", "Initialized").0, "True Initialized");
    let deployed = own.condition("Cache", "web", "Deployed");
    assert_eq!((deployed.0.as_str(), deployed.1.trim()), ("True InstallSuccessful", "size 2"), "the notes");
    own.wait("an Event of the override", || own.events("OverrideValuesInUse").contains("image.name"));
    let object = own.object("Cache", "web").unwrap();
    assert_eq!(object["metadata"]["finalizers"], json!([FINALIZER]));
    let status = &object["status"];
    assert_eq!(status["deployedRelease"], json!({"name": "web"}), "without the manifest");
    assert_eq!(
        (&status["revision"], &status["chart"], &status["version"]),
        (&json!(1), &json!("cache"), &json!("0.1.0"))
    );
    assert!(status["digest"].as_str().unwrap().starts_with("sha256:"));
    assert!(status.to_string().len() < 2500, "{status}");

    // The owner: a reference, or annotations where none may be.
    let config = own.object("configmap", "web").unwrap();
    let reference = &config["metadata"]["ownerReferences"][0];
    assert_eq!((&reference["kind"], &reference["uid"]), (&json!("Cache"), &object["metadata"]["uid"]));
    let role_name = format!("{n}-web");
    let role = own.object("clusterrole", &role_name).unwrap();
    assert_eq!(role["metadata"]["annotations"]["operator-sdk/primary-resource"], format!("{n}/web"));
    assert_eq!(
        role["metadata"]["annotations"]["operator-sdk/primary-resource-type"],
        format!("Cache.{GROUP}")
    );
    assert_eq!(config["metadata"]["labels"], json!({"app.kubernetes.io/managed-by": "Helm"}));

    // Drift is corrected without a revision, that of cluster-scoped objects too.
    own.cp.kubectl(["delete", "configmap", "web", "-n", &n]).unwrap();
    own.wait("the deleted object is back", || own.data("web", "size") == "2");
    own.cp.kubectl(["patch", "configmap", "web", "-n", &n, "-p", r#"{"data":{"size":"9"}}"#]).unwrap();
    own.wait("the changed object is corrected", || own.data("web", "size") == "2");
    own.cp.kubectl(["delete", "clusterrole", &role_name]).unwrap();
    own.wait("the cluster-scoped object is back", || own.object("clusterrole", &role_name).is_some());
    assert_eq!(own.history("web"), ["deployed"]);

    // Another spec is an upgrade.
    own.apply("Cache", "web", &json!({"size": 3}));
    own.ready("Cache", "web");
    assert_eq!(own.data("web", "size"), "3");
    assert_eq!(own.wait_condition("Cache", "web", "Deployed", "True UpgradeSuccessful").trim(), "size 3");
    assert_eq!(own.history("web"), ["superseded", "deployed"]);

    // A restart deploys nothing.
    own.end().await;
    let before = own.object("Cache", "web").unwrap();
    own.resume(&["Cache"], &Setup { fields: ", overrideValues: {image.name: forced}", ..Setup::default() })
        .await;
    own.passes(3);
    assert_eq!(own.object("Cache", "web").unwrap()["status"], before["status"]);
    own.cp.kubectl(["delete", "configmap", "web", "-n", &n]).unwrap();
    own.wait("the release is watched again", || own.data("web", "size") == "3");

    // With the object goes its release.
    own.delete("Cache", "web");
    assert!(own.object("configmap", "web").is_none() && own.object("clusterrole", &role_name).is_none());
    assert_eq!(own.history("web"), [""; 0]);
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_random_value_makes_one_revision() {
    let mut own = Running::start(&["Cache"]).await;
    own.apply("Cache", "web", &json!({}));
    own.ready("Cache", "web");
    let token = own.data("web", "token");
    own.passes(5);
    own.apply("Cache", "web", &json!({"size": 2}));
    own.ready("Cache", "web");
    own.passes(3);
    assert_eq!(own.data("web", "token"), token);
    assert_eq!(own.history("web").len(), 2);
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_without_a_spec_has_the_values_of_the_chart() {
    let mut own = Running::start(&["Cache"]).await;
    own.apply("Cache", "web", &Value::Null);
    own.ready("Cache", "web");
    assert_eq!(own.data("web", "size"), "1");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_the_server_refuses_ends_and_leaves_the_last_good_revision() {
    let mut own = Running::start(&["Cache"]).await;
    own.apply("Cache", "web", &json!({"fixed": "a", "size": 1}));
    own.ready("Cache", "web");
    // The field is immutable, whatever is tried.
    own.apply("Cache", "web", &json!({"fixed": "b", "size": 2}));
    let message = own.wait_condition("Cache", "web", "Stalled", "True UpgradeError");
    assert!(
        message.contains("web-fixed") && message.contains("immutable") && message.contains("change the spec"),
        "{message}"
    );
    assert_eq!(own.condition("Cache", "web", "ReleaseFailed").0, "True UpgradeError");
    own.wait("it is rolled back", || own.data("web", "size") == "1");
    let revisions = own.history("web").len();
    assert!(revisions <= 3, "{revisions}");
    own.passes(5);
    assert_eq!(own.history("web").len(), revisions, "no further try");
    // What is deployed is still kept.
    own.cp.kubectl(["delete", "configmap", "web", "-n", own.ns.name()]).unwrap();
    own.wait("the deleted object is back", || own.data("web", "size") == "1");
    // The annotation forces it.
    own.annotate("Cache", "web", "helm.sdk.operatorframework.io/upgrade-force=true");
    own.annotate("Cache", "web", "windlass.dev/requested-at=now");
    own.ready("Cache", "web");
    assert_eq!((own.data("web", "size"), own.data("web-fixed", "fixed")), ("2".to_owned(), "b".to_owned()));
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_install_is_uninstalled_and_ends() {
    let mut own = Running::start(&["Cache"]).await;
    own.apply("Cache", "web", &json!({"broken": true}));
    let message = own.wait_condition("Cache", "web", "Stalled", "True InstallError");
    assert!(message.contains("spec.ports"), "{message}");
    own.passes(3);
    assert_eq!((own.history("web"), own.data("web", "size")), (vec![], String::new()));
    own.apply("Cache", "web", &json!({}));
    own.ready("Cache", "web");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_values_are_named_and_change_nothing() {
    let mut own = Running::start(&["Cache"]).await;
    own.apply("Cache", "web", &json!({"size": 1}));
    own.ready("Cache", "web");
    for (spec, parts) in [
        (json!({"size": "many"}), &["size", "string", "integer"][..]),
        (json!({"sizes": 1}), &["sizes"]),
        (json!("text"), &["spec: it is not a map"]),
    ] {
        own.apply("Cache", "web", &spec);
        own.wait("the values are refused", || own.condition("Cache", "web", "Ready").0.starts_with("False "));
        let message = own.condition("Cache", "web", "Ready").1;
        assert!(parts.iter().all(|part| message.contains(part)), "{spec}: {message}");
        assert_eq!(own.condition("Cache", "web", "Stalled").0.split(' ').next(), Some("True"), "{spec}");
        assert_eq!(
            (own.history("web"), own.data("web", "size")),
            (vec!["deployed".to_owned()], "1".to_owned())
        );
        own.cp.kubectl(["delete", "configmap", "web", "-n", own.ns.name()]).unwrap();
        own.wait("drift is corrected meanwhile", || own.data("web", "size") == "1");
    }
    own.apply("Cache", "web", &json!({"size": 5}));
    own.ready("Cache", "web");
    assert_eq!(own.condition("Cache", "web", "Stalled"), Default::default());
    own.annotate("Cache", "web", "helm.sdk.operatorframework.io/reconcile-period=soon");
    own.wait("the annotation is refused", || {
        own.condition("Cache", "web", "Ready").1.contains("reconcile-period: \"soon\"")
    });
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_kinds_never_share_a_release() {
    let mut own = Running::start(&["Cache", "Store"]).await;
    own.apply("Cache", "web", &json!({"size": 1}));
    own.apply("Store", "web", &json!({"size": 2}));
    own.ready("Cache", "web");
    own.ready("Store", "web");
    let name = |kind: &str| {
        own.object(kind, "web").unwrap()["status"]["deployedRelease"]["name"].as_str().unwrap().to_owned()
    };
    let (cache, store) = (name("Cache"), name("Store"));
    assert_ne!(cache, store);
    assert!(cache == "web" || store == "web", "{cache} {store}");
    own.passes(4);
    assert_eq!((own.history(&cache).len(), own.history(&store).len()), (1, 1));
    assert_eq!((own.data(&cache, "size"), own.data(&store, "size")), ("1".to_owned(), "2".to_owned()));
    // The names stay, and one goes without the other.
    let (first, second) = if cache == "web" { ("Cache", "Store") } else { ("Store", "Cache") };
    let kept = name(second);
    own.delete(first, "web");
    own.passes(2);
    assert_eq!((name(second), own.history("web").len(), own.history(&kept).len()), (kept.clone(), 0, 1));
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_helm_made_of_the_chart_is_taken_over_and_another_is_left() {
    let mut own = Running::start(&["Cache"]).await;
    let (n, root) = (own.ns.name().to_owned(), own.root.path().to_str().unwrap().to_owned());
    own.cp.helm4(["install", "web", &root, "-n", &n, "--set", "size=7"]).unwrap();
    own.apply("Cache", "web", &json!({"size": 7}));
    own.ready("Cache", "web");
    assert_eq!(own.history("web").len(), 2);
    let other = tempfile::tempdir().unwrap();
    super::chart(other.path(), "other");
    own.cp.helm4(["install", "db", other.path().to_str().unwrap(), "-n", &n]).unwrap();
    own.apply("Cache", "db", &json!({"size": 8}));
    own.ready("Cache", "db");
    let name = own.object("Cache", "db").unwrap()["status"]["deployedRelease"]["name"].clone();
    assert!(name.as_str().unwrap().starts_with("db-"), "{name}");
    own.delete("Cache", "db");
    assert_eq!(own.history("db"), ["deployed"]);
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_suspend_wait_and_keep() {
    let mut own = Running::start(&["Cache"]).await;
    own.apply("Cache", "web", &json!({"keep": true}));
    own.ready("Cache", "web");
    let kept = own.object("configmap", "web-kept").unwrap();
    assert!(kept["metadata"]["ownerReferences"].is_null(), "{kept}");
    own.annotate("Cache", "web", "windlass.dev/suspend=true");
    own.wait("it is paused", || own.condition("Cache", "web", "Paused").0 == "True Suspended");
    own.apply("Cache", "web", &json!({"keep": true, "size": 2}));
    own.wait("it is paused", || own.condition("Cache", "web", "Paused").0 == "True Suspended");
    assert_eq!(own.data("web", "size"), "1");
    own.annotate("Cache", "web", "windlass.dev/suspend-");
    own.wait("it goes on", || own.data("web", "size") == "2");
    // The finalizer stays until the objects are gone.
    own.annotate("Cache", "web", "helm.sdk.operatorframework.io/uninstall-wait=true");
    own.cp
        .kubectl([
            "patch",
            "configmap",
            "web",
            "-n",
            own.ns.name(),
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":["test.windlass.dev/hold"]}}"#,
        ])
        .unwrap();
    own.cp
        .kubectl(["delete", &format!("caches.{GROUP}"), "web", "-n", own.ns.name(), "--wait=false"])
        .unwrap();
    own.wait("it says so", || own.condition("Cache", "web", "Deployed").0 == "False UninstallSuccessful");
    assert_eq!(own.object("Cache", "web").unwrap()["metadata"]["finalizers"], json!([FINALIZER]));
    own.cp
        .kubectl([
            "patch",
            "configmap",
            "web",
            "-n",
            own.ns.name(),
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":null}}"#,
        ])
        .unwrap();
    own.wait("the object is gone", || own.object("Cache", "web").is_none());
    assert!(own.object("configmap", "web-kept").is_some(), "the resource policy keeps it");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_finalizers_uninstall_and_go() {
    let mut own = Running::start(&["Cache"]).await;
    let metadata = json!({"name": "web", "finalizers": ["uninstall-helm-release"]});
    own.apply_in(own.ns.name(), "Cache", &metadata, &json!({}));
    own.ready("Cache", "web");
    own.delete("Cache", "web");
    assert!(own.object("configmap", "web").is_none());
    // An object that an earlier operator left, of which this one never saw anything but its deletion.
    own.end().await;
    own.apply_in(
        own.ns.name(),
        "Cache",
        &json!({"name": "old", "finalizers": ["uninstall-helm-release"]}),
        &json!({}),
    );
    own.cp
        .kubectl(["delete", &format!("caches.{GROUP}"), "old", "-n", own.ns.name(), "--wait=false"])
        .unwrap();
    own.resume(&["Cache"], &Setup::default()).await;
    own.wait("the object is gone", || own.object("Cache", "old").is_none());
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_and_namespaces_choose_objects() {
    let cp = control_plane();
    let other = cp.namespace("charts").unwrap();
    let mut own = Running::start_with(
        &["Cache"],
        Setup {
            fields: ", selector: {matchLabels: {watched: \"yes\"}}",
            further: vec![other.name().to_owned()],
            ..Setup::default()
        },
    )
    .await;
    let labelled = json!({"name": "web", "labels": {"watched": "yes"}});
    own.apply("Cache", "ignored", &json!({}));
    own.apply_in(own.ns.name(), "Cache", &labelled, &json!({}));
    own.apply_in(other.name(), "Cache", &labelled, &json!({}));
    own.ready("Cache", "web");
    let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    let kind = format!("caches.{GROUP}");
    own.wait("the object in the other namespace is ready", || {
        cp.kubectl(["get", &kind, "web", "-n", other.name(), "-o", path]).unwrap() == "True"
    });
    assert!(own.object("Cache", "ignored").unwrap()["status"].is_null());
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_applied_with_the_rights_of_the_account() {
    let mut own =
        Running::start_with(&["Cache"], Setup { account: Some("tenant"), ..Setup::default() }).await;
    let n = own.ns.name().to_owned();
    own.cp.kubectl(["create", "serviceaccount", "tenant", "-n", &n]).unwrap();
    own.apply("Cache", "web", &json!({}));
    own.wait("it is refused", || own.condition("Cache", "web", "Ready").0.starts_with("False "));
    let message = own.condition("Cache", "web", "Ready").1;
    assert!(message.starts_with(&format!("ServiceAccount {n}/tenant lacks rights: ")), "{message}");
    assert!(own.object("configmap", "web").is_none());
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_refused_for_now_is_tried_a_few_times() {
    let mut own = Running::start(&["Cache"]).await;
    own.apply("Cache", "web", &json!({"size": 1}));
    own.ready("Cache", "web");
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": own.ns.name()},
        "spec": {"hard": {"count/configmaps": "1"}},
    });
    own.cp.kubectl_with(["apply", "-f", "-"], &quota.to_string()).unwrap();
    own.apply("Cache", "web", &json!({"size": 2, "fixed": "a"}));
    let message = own.wait_condition("Cache", "web", "Stalled", "True UpgradeError");
    assert!(message.contains("quota") && message.contains("windlass.dev/requested-at"), "{message}");
    let revisions = own.history("web").len();
    assert!(revisions <= 7, "{revisions}");
    own.passes(4);
    assert_eq!((own.history("web").len(), own.data("web", "size")), (revisions, "1".to_owned()));
    // A restart tries no more either; the user may ask.
    own.end().await;
    own.resume(&["Cache"], &Setup::default()).await;
    own.passes(4);
    assert_eq!(own.history("web").len(), revisions);
    own.cp.kubectl(["delete", "resourcequota", "few", "-n", own.ns.name()]).unwrap();
    own.annotate("Cache", "web", "windlass.dev/requested-at=now");
    own.ready("Cache", "web");
    assert_eq!(own.data("web", "size"), "2");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_names_another_release_leads_nowhere() {
    let mut own = Running::start(&["Cache"]).await;
    let (n, root) = (own.ns.name().to_owned(), own.root.path().to_str().unwrap().to_owned());
    own.apply("Cache", "other", &json!({"size": 3}));
    own.ready("Cache", "other");
    own.cp.helm4(["install", "victim", &root, "-n", &n, "--set", "size=7"]).unwrap();
    own.end().await;
    for victim in ["victim", "other", "", "../x", "UPPER"] {
        own.apply("Cache", "web", &json!({}));
        let patch = json!({"status": {"deployedRelease": {"name": victim}, "chart": "cache"}}).to_string();
        let kind = format!("caches.{GROUP}");
        own.cp
            .kubectl(["patch", &kind, "web", "-n", &n, "--subresource=status", "--type=merge", "-p", &patch])
            .unwrap();
        own.resume(&["Cache"], &Setup::default()).await;
        own.ready("Cache", "web");
        let object = own.object("Cache", "web").unwrap();
        assert_eq!(object["status"]["deployedRelease"]["name"], "web", "{victim:?}");
        own.end().await;
        // Deleted before any pass has seen it.
        own.cp
            .kubectl(["patch", &kind, "web", "-n", &n, "--subresource=status", "--type=merge", "-p", &patch])
            .unwrap();
        own.cp.kubectl(["delete", &kind, "web", "-n", &n, "--wait=false"]).unwrap();
        own.resume(&["Cache"], &Setup::default()).await;
        own.wait("it is gone", || own.object("Cache", "web").is_none());
        own.end().await;
        assert_eq!(
            (own.data("victim", "size"), own.data("other", "size")),
            ("7".to_owned(), "3".to_owned()),
            "{victim:?}"
        );
        assert_eq!((own.history("web"), own.data("web", "size")), (vec![], String::new()), "{victim:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_deep_or_huge_stops_no_other() {
    let mut own = Running::start(&["Store"]).await;
    // As deep as a parser of JSON goes by default, and not deeper.
    let text = format!(
        r#"{{"apiVersion":"{GROUP}/v1","kind":"Store","metadata":{{"name":"deep","namespace":"{}"}},"spec":{}}}"#,
        own.ns.name(),
        format_args!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100)),
    );
    let path = format!("/apis/{GROUP}/v1/namespaces/{}/stores", own.ns.name());
    own.cp.kubectl_with(["create", "--raw", &path, "-f", "-"], &text).unwrap();
    own.apply("Store", "huge", &json!({"image": {"name": "x".repeat(200_000)}}));
    own.apply("Store", "good", &json!({"size": 4}));
    own.ready("Store", "good");
    assert_eq!(own.data("good", "size"), "4");
    own.wait("the huge one has an outcome", || !own.condition("Store", "huge", "Ready").0.is_empty());
    own.end().await;
    own.resume(&["Store"], &Setup::default()).await;
    own.passes(1);
    own.apply("Store", "good", &json!({"size": 5}));
    own.ready("Store", "good");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_over_an_object_that_did_not_change_make_no_request() {
    let mut own = Running::start(&["Cache"]).await;
    own.apply("Cache", "web", &json!({}));
    own.ready("Cache", "web");
    own.passes(2);
    let mark = own.cp.audit_mark().unwrap();
    own.passes(4);
    let ours = |e: &&windlass_testing::AuditEvent| {
        e.namespace == own.ns.name() && e.user_agent.contains("windlass") && e.verb != "watch"
    };
    let all = own.cp.audit_since(mark).unwrap();
    let named: Vec<String> =
        all.iter().filter(ours).map(|e| format!("{} {}/{}", e.verb, e.resource, e.name)).collect();
    assert_eq!(named, [""; 0]);
    own.end().await;
}

/// What the process asks for from the creation of an object until its release is ready and nothing is due.
#[tokio::test(flavor = "multi_thread")]
async fn an_install_asks_for_each_thing_once() {
    let mut own =
        Running::start_with(&["Cache"], Setup { fields: ", reconcilePeriod: 1h", ..Setup::default() }).await;
    let n = own.ns.name().to_owned();
    // Kinds are discovered and watched with the first one.
    own.apply("Cache", "first", &json!({"runs": true}));
    let settled = |name: &str| {
        own.ready("Cache", name);
        own.wait("its lock is released, and its Event is there", || {
            let event = own.events("InstallSuccessful");
            let lease = own.object("lease", &format!("windlass-{name}"));
            lease.is_none() && event.contains(&format!("release {n}/{name} "))
        });
    };
    settled("first");
    let mark = own.cp.audit_mark().unwrap();
    own.apply("Cache", "web", &json!({"runs": true}));
    settled("web");
    let role = format!("{n}-web");
    let ours = |e: &&windlass_testing::AuditEvent| {
        let of_release = (e.namespace == n && !e.name.contains("first")) || e.name == role;
        of_release && e.user_agent.contains("windlass") && e.verb != "watch"
    };
    let events = own.cp.audit_since(mark).unwrap();
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for one in events.iter().filter(ours) {
        let resource = [one.resource.as_str(), one.subresource.as_str()].join("/");
        *counts.entry(format!("{} {}", one.verb, resource.trim_end_matches('/'))).or_default() += 1;
    }
    println!("{} requests: {counts:#?}", counts.values().sum::<usize>());
    // A workload that takes longer than a second is looked for again, and the status says what is awaited.
    let waited = counts.remove("list deployments").unwrap_or_default();
    let statuses = counts.remove("patch caches/status").unwrap_or_default();
    assert!((1..=3).contains(&waited) && (1..=3).contains(&statuses), "{waited} {statuses}");
    let expected = [
        ("create events", 1),
        ("create leases", 1),
        ("create secrets", 1),
        ("delete leases", 1),
        ("get clusterroles", 1),
        ("get configmaps", 1),
        ("get deployments", 1),
        // Its random value.
        ("get secrets", 1),
        ("patch caches", 1),
        ("patch clusterroles", 1),
        ("patch configmaps", 1),
        ("patch deployments", 1),
        ("patch secrets", 1),
        ("update secrets", 1),
    ];
    let expected = expected.map(|(what, number)| (what.to_owned(), number));
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected);
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_that_breaks_later_is_not_ready_until_it_is_again() {
    // Nothing is reconciled by its period.
    let setup = || Setup { fields: ", reconcilePeriod: 1h", ..Setup::default() };
    let mut own = Running::start_with(&["Cache"], setup()).await;
    let n = own.ns.name().to_owned();
    let break_it = |own: &Running| {
        own.cp.kubectl(["create", "quota", "none", "--hard=pods=0", "-n", &n]).unwrap();
        own.wait("the quota counts", || {
            own.object("quota", "none").is_some_and(|quota| quota["status"]["hard"].is_object())
        });
        own.cp.kubectl(["delete", "pods", "--all", "--force", "-n", &n]).unwrap();
    };
    let mend_it = |own: &Running| own.cp.kubectl(["delete", "quota", "none", "-n", &n]).unwrap();
    own.apply("Cache", "web", &json!({"runs": true}));
    own.ready("Cache", "web");
    for _ in 0..2 {
        break_it(&own);
        let message = own.wait_condition("Cache", "web", "Ready", "False NotReady");
        assert!(message.contains("Deployment"), "{message}");
        mend_it(&own);
        own.ready("Cache", "web");
    }
    assert_eq!(own.history("web"), ["deployed"]);
    // What breaks while no process runs is seen by the next one.
    own.end().await;
    break_it(&own);
    own.resume(&["Cache"], &setup()).await;
    own.wait_condition("Cache", "web", "Ready", "False NotReady");
    mend_it(&own);
    own.ready("Cache", "web");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_goes_with_its_namespace_when_its_account_is_gone() {
    let account = || Setup { account: Some("deployer"), ..Setup::default() };
    let mut own = Running::start_with(&["Cache"], account()).await;
    let n = own.ns.name().to_owned();
    own.cp.kubectl(["create", "serviceaccount", "deployer", "-n", &n]).unwrap();
    let subject = format!("--serviceaccount={n}:deployer");
    let binding = format!("{n}-deployer");
    own.cp
        .kubectl(["create", "clusterrolebinding", &binding, "--clusterrole=cluster-admin", &subject])
        .unwrap();
    for name in ["web", "last"] {
        own.apply("Cache", name, &json!({}));
        own.ready("Cache", name);
    }
    let without_rights = || {
        own.cp.kubectl(["delete", "clusterrolebinding", &binding, "--ignore-not-found"]).unwrap();
        own.cp.kubectl(["delete", "serviceaccount", "deployer", "-n", &n, "--ignore-not-found"]).unwrap();
    };
    without_rights();
    // In a namespace that stays, the object does, too: its release would be forgotten.
    own.cp.kubectl(["delete", &format!("caches.{GROUP}"), "web", "-n", &n, "--wait=false"]).unwrap();
    own.wait_condition("Cache", "web", "ReleaseFailed", "True UninstallError");
    assert!(own.object("Cache", "web").is_some());
    own.cp.kubectl(["delete", "namespace", &n, "--wait=false"]).unwrap();
    own.wait("the objects are gone", || {
        own.object("Cache", "web").is_none() && own.object("Cache", "last").is_none()
    });
    own.cp.kubectl(["delete", "clusterrole", &format!("{n}-web"), &format!("{n}-last")]).unwrap();
    own.end().await;
}
