//! The documented behaviours of helm-controller, one by one: conditions, reasons, counters and revisions after each.

use serde_json::{Value, json};
use windlass_testing::wait_until;

use super::support::{LIMIT, Running, chart, condition};

/// A test hook that the API server rejects with `testFails`.
const TEST_HOOK: (&str, &str) = (
    "templates/tests/test.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: \"{{ .Release.Name }}-test\"\n  annotations: {helm.sh/hook: test}\ndata:\n  a: {{ if .Values.testFails }}{b: c}{{ else }}x{{ end }}\n",
);

/// What a HelmRelease ends with.
struct Expected {
    ready: &'static str,
    /// Other conditions; an empty text: absent.
    conditions: &'static [(&'static str, &'static str)],
    /// Counters of the status.
    counters: &'static [(&'static str, i64)],
    /// Statuses of the records by revision.
    records: &'static [&'static str],
}

impl Running {
    fn ends_with(&self, name: &str, expected: &Expected) {
        let holds = |object: &Value| {
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
                && condition(object, "Ready") == expected.ready
                && expected.conditions.iter().all(|(kind, state)| condition(object, kind) == *state)
        };
        let object = self.wait(expected.ready, holds, name);
        for (counter, count) in expected.counters {
            assert_eq!(object["status"][counter].as_i64().unwrap_or(0), *count, "{name}: {counter}");
        }
        assert_eq!(self.records_of(name), expected.records, "{name}");
    }

    fn records_of(&self, release: &str) -> Vec<String> {
        let labels = format!("owner=helm,name={release}");
        let rows = self.cp.revisions(self.ns.name(), &labels).unwrap();
        rows.into_iter().map(|(_, status)| status).collect()
    }

    fn annotate(&self, name: &str, annotations: &[&str]) {
        let args = ["annotate", "--overwrite", "helmrelease", name, "-n", self.ns.name()];
        self.cp.kubectl(args.iter().chain(annotations)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn installs_end_as_with_helm_controller() {
    let mut running = Running::prepare("installs").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[TEST_HOOK]));
    running.start().await;
    let fails = json!({"size": "bad"});
    let tests_fail = json!({"testFails": true});
    let rows = [
        (
            "fail",
            json!({"values": fails}),
            Expected {
                ready: "False InstallFailed",
                conditions: &[
                    ("Released", "False InstallFailed"),
                    ("Stalled", "True RetriesExceeded"),
                    ("Remediated", ""),
                ],
                counters: &[("installFailures", 1), ("failures", 1)],
                records: &["failed"],
            },
        ),
        (
            "test-fail",
            json!({"values": tests_fail, "test": {"enable": true}}),
            Expected {
                ready: "False TestFailed",
                conditions: &[("Released", "True InstallSucceeded"), ("TestSuccess", "False TestFailed")],
                counters: &[("installFailures", 1)],
                records: &["deployed"],
            },
        ),
        (
            "test-fail-ignore",
            json!({"values": tests_fail, "test": {"enable": true, "ignoreFailures": true}}),
            Expected {
                ready: "True InstallSucceeded",
                conditions: &[
                    ("Released", "True InstallSucceeded"),
                    ("TestSuccess", "False TestFailed"),
                    ("Stalled", ""),
                ],
                counters: &[("installFailures", 0)],
                records: &["deployed"],
            },
        ),
        (
            "test",
            json!({"test": {"enable": true}}),
            Expected {
                ready: "True TestSucceeded",
                conditions: &[("TestSuccess", "True TestSucceeded")],
                counters: &[("failures", 0)],
                records: &["deployed"],
            },
        ),
        (
            "fail-retry",
            json!({"values": fails, "install": {"remediation": {"retries": 1}}}),
            Expected {
                ready: "False InstallFailed",
                conditions: &[("Released", "False InstallFailed"), ("Stalled", "True RetriesExceeded")],
                counters: &[("installFailures", 2), ("failures", 2)],
                records: &["failed"],
            },
        ),
        (
            "fail-remediate",
            json!({"values": fails, "install": {"remediation": {"remediateLastFailure": true}}}),
            Expected {
                ready: "False InstallFailed",
                conditions: &[("Released", "False InstallFailed"), ("Remediated", "True UninstallSucceeded")],
                counters: &[("installFailures", 1)],
                records: &[],
            },
        ),
    ];
    for (name, spec, _) in &rows {
        running.release(name, spec);
    }
    for (name, _, expected) in &rows {
        running.ends_with(name, expected);
    }
    // A forced request tries again although the retries are exhausted.
    running.annotate("fail", &["reconcile.fluxcd.io/requestedAt=1", "reconcile.fluxcd.io/forceAt=1"]);
    running.wait("handled", |o| o["status"]["lastHandledReconcileAt"] == "1", "fail");
    let again = |o: &Value| {
        o["status"]["history"][0]["version"] == 2 && condition(o, "Ready") != "Unknown Progressing"
    };
    let object = running.wait("another attempt", again, "fail");
    assert_eq!(object["status"]["lastHandledForceAt"], "1");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrades_end_as_with_helm_controller() {
    let mut running = Running::prepare("upgrades").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[TEST_HOOK]));
    running.start().await;
    let rows = [
        (
            "fail",
            json!({}),
            json!({"size": "bad"}),
            Expected {
                ready: "False UpgradeFailed",
                conditions: &[("Released", "False UpgradeFailed"), ("Stalled", "True RetriesExceeded")],
                counters: &[("upgradeFailures", 1)],
                records: &["deployed", "failed"],
            },
        ),
        (
            "test-fail",
            json!({"test": {"enable": true}}),
            json!({"testFails": true}),
            Expected {
                ready: "False TestFailed",
                conditions: &[
                    ("Released", "True UpgradeSucceeded"),
                    ("TestSuccess", "False TestFailed"),
                    ("Stalled", "True RetriesExceeded"),
                ],
                counters: &[("upgradeFailures", 1)],
                records: &["superseded", "deployed"],
            },
        ),
        (
            "fail-remediate",
            json!({"upgrade": {"remediation": {"remediateLastFailure": true}}}),
            json!({"size": "bad"}),
            Expected {
                ready: "False RollbackSucceeded",
                conditions: &[("Remediated", "True RollbackSucceeded"), ("Released", "False UpgradeFailed")],
                counters: &[("upgradeFailures", 1)],
                records: &["superseded", "failed", "deployed"],
            },
        ),
        (
            "fail-retry",
            json!({"upgrade": {"remediation": {"retries": 1, "remediateLastFailure": true}}}),
            json!({"size": "bad"}),
            Expected {
                ready: "False RollbackSucceeded",
                conditions: &[("Remediated", "True RollbackSucceeded"), ("Stalled", "True RetriesExceeded")],
                counters: &[("upgradeFailures", 2)],
                records: &["superseded", "failed", "superseded", "failed", "deployed"],
            },
        ),
    ];
    for (name, spec, _, _) in &rows {
        running.release(name, spec);
    }
    for (name, _, _, _) in &rows {
        running.wait("installed", |o| condition(o, "Ready").starts_with("True"), name);
    }
    for (name, spec, values, _) in &rows {
        let mut spec = spec.clone();
        spec["values"] = values.clone();
        running.release(name, &spec);
    }
    for (name, _, _, expected) in &rows {
        running.ends_with(name, expected);
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_namespaces_and_metadata_are_as_with_helm_controller() {
    let mut running = Running::prepare("names").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    let object = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "new"},
        "spec": {"interval": "1h", "suspend": true, "chartRef": {"kind": "OCIRepository", "name": "demo"}},
    });
    running.apply(&object);
    assert_eq!(running.get("helmrelease", "new")["status"]["observedGeneration"], -1, "without a controller");
    running.start().await;
    let target = format!("{}-target", running.ns.name());
    running.release("web", &json!({"targetNamespace": target, "install": {"createNamespace": true}}));
    let object = running.wait_ready("web", "True InstallSucceeded");
    let name = format!("{target}-web");
    assert_eq!(object["status"]["history"][0]["name"], name.as_str());
    let found = running.cp.kubectl(["get", "configmap", &name, "-n", &target, "-o", "name"]).unwrap();
    assert_eq!(found.trim(), format!("configmap/{name}"));

    let unpatched = json!([{"kustomize": {"patches": [{"target": {"kind": "ConfigMap"}, "patch": "- op: remove\n  path: /none\n"}]}}]);
    running.release("unpatched", &json!({"postRenderers": unpatched}));
    let retried = |o: &Value| condition(o, "Reconciling") == "True ProgressingWithRetry";
    let object = running.wait("a patch that does not apply", retried, "unpatched");
    assert_eq!(condition(&object, "Ready"), "False InstallFailed");
    let patch = "- op: add\n  path: /metadata/labels\n  value: {xxxx: yyyy}\n- op: replace\n  path: /metadata/name\n  value: patched\n";
    let renderers = json!([
        {"kustomize": {"patches": [{"target": {"kind": "ConfigMap"}, "patch": patch}]}},
        {"kustomize": {"patches": [{"target": {"name": "patched"}, "patch": "- op: add\n  path: /metadata/labels/yyyy\n  value: xxxx\n"}]}},
    ]);
    running
        .release("post", &json!({"postRenderers": renderers, "commonMetadata": {"labels": {"team": "a"}}}));
    running.wait_ready("post", "True InstallSucceeded");
    let labels = &running.get("configmap", "patched")["metadata"]["labels"];
    assert_eq!(
        (&labels["xxxx"], &labels["yyyy"], &labels["team"]),
        (&json!("yyyy"), &json!("xxxx"), &json!("a"))
    );

    let long = "a".repeat(53);
    running.release(&long, &json!({"targetNamespace": running.ns.name()}));
    let object = running.wait_ready(&long, "True InstallSucceeded");
    let name = object["status"]["history"][0]["name"].as_str().unwrap();
    assert_eq!((name.len(), name.as_bytes()[40]), (53, b'-'), "{name}");
    running.cp.kubectl(["delete", "namespace", &target, "--wait=false"]).unwrap();
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_chart_reinstalls_or_upgrades_in_place() {
    let mut running = Running::prepare("chartname").await;
    let named = |name: &str| {
        let yaml = format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n");
        super::support::package(&[
            ("Chart.yaml", yaml),
            (
                "templates/c.yaml",
                format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{{{{ .Release.Name }}}}\"}}\ndata: {{chart: {name}}}\n"
                ),
            ),
        ])
    };
    running.publish("demo", "1.0.0", named("first"));
    running.start().await;
    running.release("reinstall", &json!({}));
    running.release("inplace", &json!({"upgrade": {"chartNameChangeStrategy": "InPlaceUpdate"}}));
    for name in ["reinstall", "inplace"] {
        running.wait_ready(name, "True InstallSucceeded");
    }
    running.publish("demo", "1.0.0", named("second"));
    for (name, records) in [("reinstall", vec!["deployed"]), ("inplace", vec!["superseded", "deployed"])] {
        let second = |o: &Value| {
            o["status"]["history"][0]["chartName"] == "second" && condition(o, "Ready").starts_with("True")
        };
        running.wait("the second chart", second, name);
        assert_eq!(running.records_of(name), records, "{name}");
        assert_eq!(running.get("configmap", name)["data"]["chart"], "second");
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_follow_their_policy() {
    let mut running = Running::prepare("crds").await;
    let group = format!("{}.test", running.ns.name());
    let crd = |field: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("things.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {field: {"type": "string"}},
                }}}],
            },
        })
        .to_string()
    };
    let (first, second) = (crd("one"), crd("two"));
    running.publish("demo", "1.0.0", chart("1.0.0", &[("crds/thing.yaml", &first)]));
    running.start().await;
    running.release("web", &json!({}));
    running.wait_ready("web", "True InstallSucceeded");
    let properties = || {
        let object = running.cp.find(&["crd", &format!("things.{group}")]).unwrap().unwrap();
        let schema = &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        schema.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(properties(), ["one"]);
    running.publish("demo", "1.1.0", chart("1.1.0", &[("crds/thing.yaml", &second)]));
    running.wait("upgraded", |o| o["status"]["history"][0]["version"] == 2, "web");
    assert_eq!(properties(), ["one"], "an existing definition stays");
    running.release("web", &json!({"upgrade": {"crds": "CreateReplace"}, "values": {"size": "two"}}));
    running.wait("replaced", |o| o["status"]["history"][0]["version"] == 3, "web");
    assert_eq!(properties(), ["two"]);
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", running.ns.name(), "--timeout=30s"]).unwrap();
    assert_eq!(properties(), ["two"], "definitions are never deleted");
    running.cp.kubectl(["delete", "crd", &format!("things.{group}")]).unwrap();
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_namespace_takes_its_release_with_it() {
    let mut running = Running::prepare_alone("delete-ns").await;
    let other = running.cp.namespace("gone").unwrap();
    let name = other.name().to_owned();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start_in_all().await;
    let reference = json!({"kind": "OCIRepository", "name": "demo", "namespace": running.ns.name()});
    running.release_in(&name, "web", &json!({"chartRef": reference}));
    let ready = || {
        let object = running.cp.find(&["helmrelease", "web", "-n", &name])?.unwrap();
        Ok(condition(&object, "Ready").starts_with("True").then_some(()))
    };
    wait_until("ready", LIMIT, ready).unwrap();
    running.cp.kubectl(["delete", "namespace", &name, "--timeout=60s"]).unwrap();
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_checks_and_drift_targets() {
    let mut running = Running::prepare("health").await;
    let group = format!("{}.test", running.ns.name());
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}],
        },
    });
    running.cp.kubectl_with(["apply", "-f", "-"], &crd.to_string()).unwrap();
    let plural = format!("things.{group}");
    running
        .cp
        .kubectl(["wait", "--for=condition=Established", &format!("crd/{plural}"), "--timeout=30s"])
        .unwrap();
    let thing = format!(
        "apiVersion: {group}/v1\nkind: Thing\nmetadata: {{name: one, labels: {{tier: back}}}}\nspec: {{ports: [{{name: a, port: 1}}]}}\n"
    );
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/thing.yaml", &thing)]));
    running.start().await;
    let rule = json!([{
        "apiVersion": format!("{group}/v1"), "kind": "Thing", "current": "status.phase == 'Up'", "failed": "status.phase == 'Down'",
    }]);
    let drift = json!({"mode": "enabled", "ignore": [
        {"paths": ["/data"], "target": {"kind": "Config.*", "name": "w.b"}},
        {"paths": ["/spec/extra"], "target": {"labelSelector": "tier in (back)"}},
    ]});
    let spec = json!({"healthCheckExprs": rule, "driftDetection": drift, "timeout": "60s"});
    running.release("web", &spec);
    let applied = || Ok((!running.get(&plural, "one").is_null()).then_some(()));
    wait_until("the Thing", LIMIT, applied).unwrap();
    running.wait("announced", |o| condition(o, "Ready") == "Unknown Progressing", "web");
    running.set_status(&plural, "one", &json!({"phase": "Up"}));
    running.wait_ready("web", "True InstallSucceeded");

    // What the rules ignore stays; what they do not is corrected.
    let ns = running.ns.name();
    let patch = |kind: &str, name: &str, data: &str| {
        running.cp.kubectl(["patch", kind, name, "-n", ns, "--type=merge", "-p", data]).unwrap();
    };
    patch("configmap", "web", r#"{"data":{"size":"mine"}}"#);
    patch(&plural, "one", r#"{"spec":{"extra":"mine"}}"#);
    patch(&plural, "one", r#"{"metadata":{"labels":{"helm.toolkit.fluxcd.io/name":"x"}}}"#);
    let back = || {
        let label = &running.get(&plural, "one")["metadata"]["labels"]["helm.toolkit.fluxcd.io/name"];
        Ok((label == "web").then_some(()))
    };
    wait_until("the label", LIMIT, back).unwrap();
    assert_eq!(running.get("configmap", "web")["data"]["size"], "mine");
    assert_eq!(running.get(&plural, "one")["spec"]["extra"], "mine");

    // A failed object fails the release at once; an expression that is none stalls it.
    running.set_status(&plural, "one", &json!({"phase": "Down"}));
    let mut other = spec.clone();
    other["values"] = json!({"size": "two"});
    running.release("web", &other);
    let object = running.wait_ready("web", "False UpgradeFailed");
    assert!(object["status"]["conditions"].to_string().contains("failed by its health check"), "{object}");
    other["healthCheckExprs"][0]["current"] = json!("status.");
    running.release("web", &other);
    running.wait("no expression", |o| condition(o, "Stalled") == "True InvalidCELExpression", "web");
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", ns, "--timeout=30s"]).unwrap();
    running.cp.kubectl(["delete", "crd", &plural]).unwrap();
    running.end().await;
}
