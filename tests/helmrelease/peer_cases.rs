//! Cases of helm-controller's own tests, with manifests of ours: Jobs that delete themselves, server-side apply, values from many places.

use serde_json::{Value, json};

use super::support::{Running, chart, condition};

/// A Job that is deleted as soon as it has finished.
const JOB: &str = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec:\n  ttlSecondsAfterFinished: 0\n  template:\n    \
                   spec:\n      restartPolicy: Never\n      containers: [{name: main, image: x}]\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_deletes_itself_is_done() {
    let mut running = Running::prepare("ttl").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/job.yaml", JOB)]));
    running.start().await;
    running.release("web", &json!({"driftDetection": {"mode": "enabled"}}));
    running.wait_ready("web", "True InstallSucceeded");
    let gone = || Ok(running.get("job", "web").is_null().then_some(()));
    windlass_testing::wait_until("the Job is gone", super::support::LIMIT, gone).unwrap();
    // It is no drift, and no reason to release anything.
    running
        .cp
        .kubectl([
            "annotate",
            "helmrelease",
            "web",
            "-n",
            running.ns.name(),
            "reconcile.fluxcd.io/requestedAt=1",
        ])
        .unwrap();
    let object = running.wait("handled", |o| o["status"]["lastHandledReconcileAt"] == "1", "web");
    assert_eq!(condition(&object, "Ready"), "True InstallSucceeded");
    assert!(running.get("job", "web").is_null());
    assert_eq!(running.records(), ["deployed"]);
    running.end().await;
}

impl Running {
    /// The operation of the release's field manager on its ConfigMap.
    pub(crate) fn operation(&self, name: &str) -> Vec<String> {
        let args = ["configmap", name, "-n", self.ns.name(), "--show-managed-fields"];
        let object = self.cp.find(&args).unwrap().unwrap();
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let shown = |entry: &Value| {
            format!("{} {}", entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap())
        };
        entries.iter().map(shown).collect()
    }
}

/// The method is chosen by field, and records and managed fields say which one it was.
#[tokio::test(flavor = "multi_thread")]
async fn objects_are_applied_by_the_method_of_the_spec() {
    let mut running = Running::prepare("apply").await;
    let more = "{{- if .Values.more }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}-more\"}\ndata: {a: b}\n{{- end }}\n";
    let fields = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}-fields\"}\ndata:\n  kept: a\n{{- if .Values.more }}\n  removed: \
                  b\n{{- end }}\n";
    running.publish(
        "demo",
        "1.0.0",
        chart("1.0.0", &[("templates/more.yaml", more), ("templates/fields.yaml", fields)]),
    );
    running.start().await;
    // Install, upgrade and rollback as the seven manifests set them; the methods of the revisions, and the last managers.
    let (server, client) = (&["helm Apply"][..], &["helm Update"][..]);
    for (name, install, upgrade, rollback, methods, managers) in [
        ("default", json!({}), json!({}), json!({}), &["ssa", "ssa"][..], server),
        ("enabled", json!({"serverSideApply": true}), json!({}), json!({}), &["ssa", "ssa"], server),
        ("disabled", json!({"serverSideApply": false}), json!({}), json!({}), &["csa", "csa"], client),
        (
            "auto",
            json!({}),
            json!({"serverSideApply": "auto"}),
            json!({"serverSideApply": "auto"}),
            &["ssa", "ssa"],
            server,
        ),
        (
            "to-server",
            json!({"serverSideApply": false}),
            json!({"serverSideApply": "enabled"}),
            json!({}),
            &["csa", "ssa"],
            server,
        ),
        (
            "to-client",
            json!({"serverSideApply": true}),
            json!({"serverSideApply": "disabled"}),
            json!({}),
            &["ssa", "csa"],
            &["helm Apply", "helm Update"],
        ),
        (
            "back",
            json!({}),
            json!({"remediation": {"remediateLastFailure": true}}),
            json!({"serverSideApply": "auto"}),
            &["ssa", "ssa", "ssa"],
            server,
        ),
    ] {
        let spec = |values: Value| json!({"install": install, "upgrade": upgrade, "rollback": rollback, "values": values});
        running.release(name, &spec(json!({"more": true})));
        running.wait_ready(name, "True InstallSucceeded");
        let changed = if name == "back" {
            json!({"more": true, "size": "bad"})
        } else {
            json!({"more": false, "size": "two"})
        };
        running.release(name, &spec(changed));
        if name == "back" {
            running.wait("rolled back", |o| condition(o, "Remediated") == "True RollbackSucceeded", name);
            let record = running.stored_record(name, 3);
            assert_eq!(record["info"]["description"], "Rollback to 1", "{record}");
        } else {
            running.wait_ready(name, "True UpgradeSucceeded");
            // What left the chart goes, whatever way it came.
            assert!(running.get("configmap", &format!("{name}-more")).is_null(), "{name}");
            assert_eq!(
                running.get("configmap", &format!("{name}-fields"))["data"],
                json!({"kept": "a"}),
                "{name}"
            );
        }
        assert_eq!(running.operation(name), managers, "{name}");
        for (revision, method) in (1..).zip(methods) {
            assert_eq!(running.stored_record(name, revision)["apply_method"], *method, "{name} {revision}");
        }
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_many_places_are_composed_in_their_order() {
    let mut running = Running::prepare("golden").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    let config = |kind: &str, name: &str, field: &str, data: Value| {
        running.apply(&json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: data}));
    };
    config(
        "ConfigMap",
        "base",
        "data",
        json!({
            "values.yaml": "size: one\nresources: {cpu: 100m, memory: 1Gi}\nlist: [1, 2]\nkept: base\n",
            "other.yaml": "resources: {cpu: 200m}\nlist: [3]\n",
        }),
    );
    config("Secret", "login", "stringData", json!({"user": "admin", "password": "p,a=s", "flag": "true"}));
    running.start().await;
    running.release("web", &json!({
        "valuesFrom": [
            {"kind": "ConfigMap", "name": "base"},
            {"kind": "ConfigMap", "name": "base", "valuesKey": "other.yaml"},
            {"kind": "Secret", "name": "login", "valuesKey": "user", "targetPath": "login.user"},
            {"kind": "Secret", "name": "login", "valuesKey": "password", "targetPath": "login.password", "literal": true},
            {"kind": "Secret", "name": "login", "valuesKey": "flag", "targetPath": "login.flag"},
            {"kind": "ConfigMap", "name": "absent", "optional": true},
            {"kind": "ConfigMap", "name": "base", "valuesKey": "absent", "optional": true},
        ],
        "values": {"kept": "inline", "login": {"user": "nobody"}},
    }));
    running.wait_ready("web", "True InstallSucceeded");
    let golden = "kept: inline\nlist:\n- 3\nlogin:\n  flag: true\n  password: p,a=s\n  user: admin\nresources:\n  cpu: 200m\n  memory: \
                  1Gi\nsize: one\n";
    assert_eq!(running.output(0, "get values web -o yaml"), golden);
    running.end().await;
}
