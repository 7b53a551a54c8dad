//! ChartResources on a real control plane: kinds that are registered, follow their charts, and are dropped.

use std::sync::{Arc, Once};

use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_chartresource::chart_resource_definition::crd;
use windlass_chartresource::{ChartResourceOptions, ChartSources, chart_resources};
use windlass_cluster::{Cluster, ClusterError, ConnectOptions};
use windlass_controller::serve::State;
use windlass_controller::{ContextOptions, ControllerContext, ControllerOptions};
use windlass_testing::{ControlPlane, Namespace, shared, wait_until};

use super::{LIMIT, write};

const RESOURCES: &str = "chartresources.windlass.dev";

/// The shared control plane, with the kind.
fn control_plane() -> &'static ControlPlane {
    static KIND: Once = Once::new();
    let cp = shared().expect("a control plane");
    KIND.call_once(|| {
        cp.kubectl_with(["apply", "-f", "-"], &crd().to_string()).unwrap();
        cp.kubectl(["wait", "--for=condition=Established", &format!("crd/{RESOURCES}")]).unwrap();
    });
    cp
}

/// A running front end, whose objects are those with a label of the test's own.
pub(crate) struct Running {
    pub(crate) cp: &'static ControlPlane,
    pub(crate) ns: Namespace<'static>,
    charts: tempfile::TempDir,
    stop: watch::Sender<bool>,
    task: Option<tokio::task::JoinHandle<Result<(), ClusterError>>>,
}

impl Running {
    pub(crate) async fn start() -> Self {
        let cp = control_plane();
        let ns = cp.namespace("kinds").unwrap();
        let charts = tempfile::tempdir().unwrap();
        let mut own = Self { cp, ns, charts, stop: watch::Sender::new(false), task: None };
        own.chart("0.1.0", "size: {type: integer}", "");
        own.resume().await;
        own
    }

    /// A chart of one ConfigMap, and further text in its template.
    pub(crate) fn chart(&self, version: &str, properties: &str, more: &str) {
        let root = self.charts.path().join("web");
        write(&root, "Chart.yaml", &format!("apiVersion: v2\nname: web\nversion: {version}\n"));
        write(&root, "values.yaml", "size: 1\n");
        let schema = format!("{{type: object, properties: {{{properties}, fixed: {{type: string}}}}}}");
        let schema = windlass_render::parse_manifest(&schema).unwrap();
        write(&root, "values.schema.json", &schema.to_string());
        let object = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{{{{ .Release.Name }}}}\"}}\nimmutable: {{{{ eq .Values.fixed \"yes\" }}}}\ndata: {{size: \"{{{{ .Values.size }}}}\", version: \"{version}\"}}\n{more}"
        );
        write(
            &root,
            "templates/config.yaml",
            &object.replace(".Values.fixed", "(.Values.fixed | default \"no\")"),
        );
    }

    pub(crate) async fn resume(&mut self) {
        let kubeconfig = Some(self.cp.kubeconfig().to_owned());
        let cluster =
            Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
        let state = Arc::new(State::new("test_"));
        let context = ControllerContext::new(cluster, &ContextOptions::default(), state);
        self.stop = watch::Sender::new(false);
        let mut stopped = self.stop.subscribe();
        let options = ChartResourceOptions {
            sources: ChartSources {
                charts_dir: Some(self.charts.path().canonicalize().unwrap()),
                allow_local_addresses: true,
            },
            controller: ControllerOptions {
                selector: format!("test={}", self.ns.name()),
                concurrency: 4,
                ..ControllerOptions::default()
            },
            ..ChartResourceOptions::default()
        };
        let stopped = async move { drop(stopped.wait_for(|stop| *stop).await) };
        self.task = Some(tokio::spawn(chart_resources::run(context, options, stopped)));
    }

    pub(crate) async fn end(&mut self) {
        self.stop.send_replace(true);
        self.task.take().unwrap().await.unwrap().unwrap();
    }

    pub(crate) fn group(&self) -> String {
        format!("{}.test.windlass.dev", self.ns.name())
    }

    pub(crate) fn apply(&self, object: &Value) {
        let mut object = object.clone();
        object["metadata"]["labels"]["test"] = self.ns.name().into();
        self.cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
    }

    /// Applies a ChartResource of the kind `Web` with the test's group.
    pub(crate) fn resource(&self, name: &str, spec: &Value) {
        let mut all = json!({
            "chart": {"name": "web", "interval": "1s"},
            "kind": {"group": self.group(), "kind": "Web", "plural": "webs"},
            "reconcilePeriod": "1s",
        });
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        let name = format!("{}-{name}", self.ns.name());
        self.apply(&json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "ChartResource", "metadata": {"name": name}, "spec": all}));
    }

    pub(crate) fn web(&self, name: &str, spec: &Value) {
        self.apply(&json!({
            "apiVersion": format!("{}/v1alpha1", self.group()), "kind": "Web",
            "metadata": {"name": name, "namespace": self.ns.name()}, "spec": spec,
        }));
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        let name = format!("{}-{name}", self.ns.name());
        let text = self.cp.kubectl(["get", RESOURCES, &name, "--ignore-not-found", "-o", "json"]).unwrap();
        let object: Value = serde_json::from_str(&text).unwrap_or_default();
        let observed = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        if observed { object["status"].clone() } else { Value::Null }
    }

    /// Waits for `STATUS REASON` of the condition Ready, and returns its message.
    pub(crate) fn ready(&self, name: &str, expected: &str) -> String {
        let found = || {
            let status = self.status(name);
            let ready = status["conditions"].as_array()?.iter().find(|one| one["type"] == "Ready")?.clone();
            let now = format!("{} {}", ready["status"].as_str()?, ready["reason"].as_str()?);
            (now == expected).then(|| ready["message"].as_str().unwrap_or_default().to_owned())
        };
        match wait_until(&format!("{name} is {expected}"), LIMIT, || Ok(found())) {
            Ok(message) => message,
            Err(error) => panic!("{error}: {}", self.status(name)),
        }
    }

    pub(crate) fn wait(&self, what: &str, holds: impl Fn() -> bool) {
        if let Err(error) = wait_until(what, LIMIT, || Ok(holds().then_some(()))) {
            let kind = format!("webs.{}", self.group());
            let shown =
                self.cp.kubectl(["get", &kind, "-n", self.ns.name(), "-o", "json"]).unwrap_or_default();
            panic!("{error}: {} {shown}", self.status("web"));
        }
    }

    pub(crate) fn get(&self, kind: &str, name: &str, path: &str) -> String {
        let path = format!("jsonpath={path}");
        let args = ["get", kind, name, "-n", self.ns.name(), "--ignore-not-found", "-o", &path];
        self.cp.kubectl(args).unwrap_or_default()
    }

    pub(crate) fn data(&self, name: &str) -> String {
        self.get("configmap", name, "{.data.size} {.data.version}")
    }

    pub(crate) fn delete(&self, kind: &str, name: &str, waits: bool) {
        let wait = format!("--wait={waits}");
        self.cp.kubectl(["delete", kind, name, "-n", self.ns.name(), &wait]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_comes_with_its_chart_resource_and_goes_with_it() {
    let mut own = Running::start().await;
    let (kind, crd) = (format!("webs.{}", own.group()), format!("webs.{}", own.group()));
    own.resource("web", &json!({"overrideValues": {"size": 5}, "kind": {"group": own.group(), "kind": "Web", "plural": "webs", "shortNames": ["wb"]}}));
    own.ready("web", "True Registered");
    own.web("one", &json!({"size": 2}));
    own.wait("the object is a release", || own.data("one") == "5 0.1.0");
    own.wait("it is counted", || {
        own.status("web")["objects"] == json!({"total": 1, "ready": 1, "failed": 0, "updated": 1})
    });
    let status = own.status("web");
    assert_eq!(
        (&status["chart"], &status["version"], &status["kind"]["kind"]),
        (&json!("web"), &json!("0.1.0"), &json!("Web"))
    );
    // The definition checks the values of objects, and is put back.
    let wrong = json!({
        "apiVersion": format!("{}/v1alpha1", own.group()), "kind": "Web",
        "metadata": {"name": "wrong", "namespace": own.ns.name()}, "spec": {"size": "many"},
    });
    let error = own.cp.kubectl_with(["apply", "-f", "-"], &wrong.to_string()).unwrap_err().to_string();
    assert!(error.contains("spec.size"), "{error}");

    // A kind whose objects exist stays.
    let resource = format!("{}-web", own.ns.name());
    own.cp.kubectl(["delete", RESOURCES, &resource, "--wait=false"]).unwrap();
    let message = own.ready("web", "False KindInUse");
    assert!(message.contains("Web has 1 objects"), "{message}");
    assert_eq!(own.data("one"), "5 0.1.0");
    // Also for a process that begins then.
    own.end().await;
    own.delete(&kind, "one", false);
    own.resume().await;
    own.wait("the object is uninstalled", || own.data("one").is_empty());
    own.wait("the ChartResource is gone", || {
        own.cp.kubectl(["get", RESOURCES, &resource, "--ignore-not-found", "-o", "name"]).unwrap().is_empty()
    });
    assert_eq!(own.cp.kubectl(["get", "crd", &crd, "--ignore-not-found", "-o", "name"]).unwrap(), "");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_kind_without_its_chart_say_so_and_can_be_deleted() {
    let mut own = Running::start().await;
    let kind = format!("webs.{}", own.group());
    own.resource("web", &json!({}));
    own.ready("web", "True Registered");
    for name in ["one", "two"] {
        own.web(name, &json!({"size": 2}));
        own.wait("it is deployed", || own.data(name) == "2 0.1.0");
    }
    own.wait("both are ready", || own.status("web")["objects"]["ready"] == 2);
    own.end().await;
    let (there, away) = (own.charts.path().join("web"), own.charts.path().join("away"));
    std::fs::rename(&there, &away).unwrap();
    own.resume().await;
    own.ready("web", "False ChartUnavailable");
    let condition = |name: &str, of: &str| {
        let one = format!(".status.conditions[?(@.type==\"{of}\")]");
        own.get(&kind, name, &format!("{{{one}.status}} {{{one}.reason}} {{{one}.message}}"))
    };
    own.wait("the condition names the error", || {
        let text = condition("one", "Irreconcilable");
        text.starts_with("True ChartUnavailable spec.chart: ") && text.contains("No such file")
            || text.starts_with("True ChartUnavailable spec.chart: ") && text.contains("no such file")
    });
    // What is deployed stays, and so does its readiness; a change waits for the chart.
    assert!(condition("one", "Ready").starts_with("True Ready"), "{}", condition("one", "Ready"));
    own.cp.kubectl(["delete", "configmap", "one", "-n", own.ns.name()]).unwrap();
    own.wait("drift is corrected", || own.data("one") == "2 0.1.0");
    own.web("one", &json!({"size": 3}));
    own.web("new", &json!({"size": 3}));
    for name in ["one", "new"] {
        own.wait("it waits for the chart", || condition(name, "Ready").starts_with("False ChartUnavailable"));
    }
    assert_eq!([own.data("one"), own.data("new")], ["2 0.1.0", ""]);
    own.delete(&kind, "two", true);
    assert_eq!(own.data("two"), "", "uninstalled without the chart");
    // The chart is back: nothing of it is left.
    std::fs::rename(&away, &there).unwrap();
    for name in ["one", "new"] {
        own.wait("it is deployed", || own.data(name) == "3 0.1.0");
        own.wait("it is ready", || condition(name, "Ready").starts_with("True Ready"));
        assert_eq!(condition(name, "Irreconcilable").trim(), "");
    }
    own.ready("web", "True Registered");
    // A ChartResource that is deleted meanwhile waits for its objects alone.
    own.end().await;
    std::fs::rename(&there, &away).unwrap();
    let resource = format!("{}-web", own.ns.name());
    own.cp.kubectl(["delete", RESOURCES, &resource, "--wait=false"]).unwrap();
    own.cp.kubectl(["delete", &kind, "one", "new", "-n", own.ns.name(), "--wait=false"]).unwrap();
    own.resume().await;
    own.wait("the ChartResource is gone", || {
        own.cp.kubectl(["get", RESOURCES, &resource, "--ignore-not-found", "-o", "name"]).unwrap().is_empty()
    });
    assert_eq!([own.data("one"), own.data("new")], ["", ""]);
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_chart_reaches_all_objects_one_after_the_other() {
    let mut own = Running::start().await;
    own.resource("web", &json!({}));
    own.ready("web", "True Registered");
    for name in ["a", "b", "c"] {
        own.web(name, &json!({"size": 2}));
    }
    own.wait("all are ready", || own.status("web")["objects"]["ready"] == 3);
    own.chart("0.2.0", "size: {type: integer}, more: {type: string}", "");
    own.wait("all have the other chart", || ["a", "b", "c"].iter().all(|name| own.data(name) == "2 0.2.0"));
    own.wait("they are counted", || {
        own.status("web")["objects"] == json!({"total": 3, "ready": 3, "failed": 0, "updated": 3})
    });
    own.ready("web", "True Registered");
    assert_eq!(own.status("web")["version"], "0.2.0");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_stops_at_the_first_object_that_fails_and_says_which() {
    let mut own = Running::start().await;
    let kind = format!("webs.{}", own.group());
    own.resource("web", &json!({}));
    own.ready("web", "True Registered");
    // The ConfigMap of the second is immutable: it cannot have another version.
    for (name, fixed) in [("a", "no"), ("b", "yes"), ("c", "yes")] {
        own.web(name, &json!({"fixed": fixed}));
    }
    own.wait("all are ready", || own.status("web")["objects"]["ready"] == 3);
    own.chart("0.2.0", "size: {type: integer}", "");
    let message = own.ready("web", "False RolloutStopped");
    let stopped = own.status("web")["stopped"]["object"].as_str().unwrap().to_owned();
    let fails = stopped.rsplit('/').next().unwrap().to_owned();
    assert!(
        ["b", "c"].contains(&fails.as_str()) && message.contains(&stopped) && message.contains("immutable"),
        "{message}"
    );
    let other = if fails == "b" { "c" } else { "b" };
    // Others keep their chart, across a restart too, and their drift is corrected.
    let revision = |name: &str| own.get(&kind, name, "{.status.revision}");
    assert_eq!(revision(other), "1");
    own.end().await;
    own.resume().await;
    own.ready("web", "False RolloutStopped");
    own.delete("configmap", other, true);
    own.wait("the deleted object is back", || own.data(other) == "1 0.1.0");
    assert_eq!(own.get(&kind, other, "{.status.version}"), "0.1.0");
    // The next chart is another try, for all.
    own.chart("0.3.0", "size: {type: integer}", "");
    let message = own.ready("web", "False RolloutStopped");
    assert!(message.contains("immutable"), "{message}");
    own.end().await;
}

/// The ChartResource is everybody's to read, and its own passes do not know the secrets of the objects.
#[tokio::test(flavor = "multi_thread")]
async fn why_a_rollout_stopped_shows_no_secret_of_the_object() {
    let mut own = Running::start().await;
    let password = "password: {type: string, writeOnly: true}";
    own.chart("0.1.0", password, "");
    own.resource("web", &json!({}));
    own.ready("web", "True Registered");
    own.web("a", &json!({"password": "victims-pass-1234"}));
    own.wait("it is ready", || own.status("web")["objects"]["ready"] == 1);
    let fails = "{{ fail (printf \"cannot use the password %s\" .Values.password) }}";
    own.chart("0.2.0", password, fails);
    let message = own.ready("web", "False RolloutStopped");
    assert!(message.contains("cannot use the password ***"), "{message}");
    let status = own.status("web").to_string();
    assert!(!status.contains("victims-pass-1234"), "{status}");
    let name = format!("{}-web", own.ns.name());
    own.wait("there is an Event", || {
        let selector = format!("--field-selector=involvedObject.name={name},reason=RolloutStopped");
        let path = "jsonpath={.items[*].message}";
        let events = own.cp.kubectl(["get", "events", "-n", "default", &selector, "-o", path]).unwrap();
        assert!(!events.contains("victims-pass-1234"), "{events}");
        events.contains("cannot use the password ***")
    });
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_of_others_and_bad_specs_are_refused() {
    let mut own = Running::start().await;
    own.resource("web", &json!({}));
    own.ready("web", "True Registered");
    own.resource("other", &json!({}));
    let message = own.ready("other", "False ConfigInvalid");
    assert!(message.contains(&format!("belongs to the ChartResource {}-web", own.ns.name())), "{message}");
    let group = own.group();
    for (spec, reason, part) in [
        (json!({"chart": {"name": "absent"}}), "ChartUnavailable", "spec.chart: name: "),
        (json!({"chart": {"name": "../web"}}), "ChartUnavailable", "spec.chart: name: "),
        (json!({"chart": {"name": "http://127.0.0.1:1/web.tgz"}}), "ChartUnavailable", "spec.chart: "),
        (json!({"chart": {"name": "."}}), "ChartUnavailable", "spec.chart: "),
        (json!({"chart": {"name": "x".repeat(2000)}}), "ChartUnavailable", "spec.chart: "),
        (
            json!({"chart": {"name": "web", "secretRef": {"namespace": "../x", "name": "../y"}}}),
            "ConfigInvalid",
            "spec.chart.secretRef: Secret",
        ),
        (json!({"kind": {"group": group, "kind": ""}}), "ConfigInvalid", "spec.kind.kind: \"\""),
        (
            json!({"kind": {"group": "windlass.dev", "kind": "ChartResource", "plural": "chartresources"}}),
            "ConfigInvalid",
            "chartresources.windlass.dev",
        ),
        (
            json!({"serviceAccountName": "../x", "kind": {"group": group, "kind": "Fourth"}}),
            "ConfigInvalid",
            "spec.serviceAccountName: ",
        ),
        (
            json!({"pullSecrets": {"valuesPath": "a..b"}, "kind": {"group": group, "kind": "Fourth"}}),
            "ConfigInvalid",
            "spec.pullSecrets.valuesPath: ",
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}, "kind": {"group": group, "kind": "Fourth"}}),
            "ConfigInvalid",
            "spec.selector.matchExpressions[0].operator",
        ),
        (json!({"kind": {"group": "apps.k8s.io"}}), "ConfigInvalid", "spec.kind.group: \"apps.k8s.io\""),
        (json!({"kind": {"group": group, "kind": "web_x"}}), "ConfigInvalid", "spec.kind.kind: \"web_x\""),
        (
            json!({"schema": {"overlay": {"type": "nothing"}}, "kind": {"group": group, "kind": "Third"}}),
            "ConfigInvalid",
            "spec.schema.overlay",
        ),
        (
            json!({"chart": {"name": "web", "secretRef": {"namespace": own.ns.name(), "name": "absent"}}}),
            "ConfigInvalid",
            "spec.chart.secretRef: Secret",
        ),
    ] {
        own.resource("other", &spec);
        own.wait(&format!("{spec} is refused"), || {
            let status = own.status("other");
            let all = status["conditions"].as_array().cloned().unwrap_or_default();
            all.iter().any(|one| {
                one["type"] == "Ready"
                    && one["reason"] == reason
                    && one["message"].as_str().unwrap().contains(part)
            })
        });
    }
    // It never registered anything, and goes at once.
    let definitions = own.cp.kubectl(["get", "crds", "-o", "name"]).unwrap();
    let ours: Vec<&str> = definitions.lines().filter(|name| name.ends_with(&format!(".{group}"))).collect();
    assert_eq!(ours, [format!("customresourcedefinition.apiextensions.k8s.io/webs.{group}")]);
    let resource = format!("{}-other", own.ns.name());
    own.cp.kubectl(["delete", RESOURCES, &resource]).unwrap();
    own.ready("web", "True Registered");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_acts_with_the_account_of_the_kind() {
    let mut own = Running::start().await;
    let n = own.ns.name().to_owned();
    own.resource("web", &json!({"serviceAccountName": "tenant"}));
    own.ready("web", "True Registered");
    own.web("one", &json!({}));
    let kind = format!("webs.{}", own.group());
    let message = |name: &str| own.get(&kind, name, "{.status.conditions[?(@.type==\"Ready\")].message}");
    own.wait("it is refused", || message("one").contains("lacks rights"));
    assert_eq!(own.data("one"), "");
    own.cp.kubectl(["create", "serviceaccount", "tenant", "-n", &n]).unwrap();
    let account = format!("--serviceaccount={n}:tenant");
    own.cp.kubectl(["create", "rolebinding", "tenant", "--clusterrole=admin", "-n", &n, &account]).unwrap();
    own.wait("it has the rights", || own.data("one") == "1 0.1.0");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_whose_names_the_server_does_not_accept_says_so_and_can_be_deleted() {
    let mut own = Running::start().await;
    let group = own.group();
    // Another definition of the group has the kind's name.
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let theirs = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("others.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Web", "plural": "others", "singular": "other"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any}}],
        },
    });
    own.cp.kubectl_with(["create", "-f", "-"], &theirs.to_string()).unwrap();
    own.cp.kubectl(["wait", "--for=condition=Established", &format!("crd/others.{group}")]).unwrap();
    let definition = format!("webs.{group}");
    let accepted = || {
        let path = "jsonpath={.status.conditions[?(@.type==\"NamesAccepted\")].status}";
        own.cp.kubectl(["get", "crd", &definition, "--ignore-not-found", "-o", path]).unwrap_or_default()
    };
    own.resource("web", &json!({}));
    own.wait("the server does not accept the names", || accepted() == "False");
    let refused = |own: &Running| {
        let message = own.ready("web", "False NamesNotAccepted");
        assert!(message.contains(&definition) && message.contains("already in use"), "{message}");
    };
    refused(&own);
    // It goes, and takes nothing of the other one along.
    let resource = format!("{}-web", own.ns.name());
    own.cp.kubectl(["delete", RESOURCES, &resource, "--timeout=50s"]).unwrap();
    assert_eq!(own.cp.kubectl(["get", "crd", &definition, "--ignore-not-found", "-o", "name"]).unwrap(), "");
    // Once the name is free, the kind is registered.
    own.resource("web", &json!({}));
    refused(&own);
    own.cp.kubectl(["delete", "crd", &format!("others.{group}")]).unwrap();
    own.ready("web", "True Registered");
    own.cp.kubectl(["delete", RESOURCES, &resource, "--timeout=50s"]).unwrap();
    own.end().await;
}
