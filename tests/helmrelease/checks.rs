//! What is checked before the switch from helm-controller: `doctor helmreleases`, `operator --observe`, `rbac`.

use serde_json::{Value, json};

use super::commands::parsed;
use super::support::{Running, chart, condition};

/// An object of a kind that the rules do not name.
const SERVICE: &str =
    "apiVersion: v1\nkind: Service\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec: {ports: [{port: 80}]}\n";

#[tokio::test(flavor = "multi_thread")]
async fn doctor_tells_what_the_switch_would_change() {
    let mut running = Running::prepare("doctor").await;
    let ns = running.ns.name().to_owned();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.release("web", &json!({}));
    running.release("asleep", &json!({"suspend": true}));
    let text = running.output(2, "doctor helmreleases");
    let expected = format!(
        "would change: HelmRelease {ns}/web: install (the release does not exist)\n2 HelmReleases: 0 unchanged, 1 would get a new \
         revision, 1 suspended, 0 do not work here\n"
    );
    assert_eq!(text, expected);
    // The observation of the operator shows each object, and writes nothing.
    let mark = running.cp.audit_mark().unwrap();
    let text = running.output(2, "operator --observe --controllers=helmreleases --allow-local-sources");
    assert!(
        text.contains(&format!("HelmRelease {ns}/web: install (the release does not exist)\n")),
        "{text}"
    );
    assert!(text.contains(&format!("+ ConfigMap {ns}/web  it is not there\n")), "{text}");
    let writes = running.cp.writes_since(mark).unwrap();
    assert!(writes.iter().all(|write| write.namespace != ns), "{writes:?}");

    running.start().await;
    running.wait_ready("web", "True InstallSucceeded");
    assert!(running.output(0, "doctor hr").starts_with("2 HelmReleases: 1 unchanged, 0 would"));
    // helm-controller runs, and a release is beyond what is supported.
    running.apply(&json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "helm-controller-leader-election"},
        "spec": {
            "holderIdentity": "helm-controller-1", "leaseDurationSeconds": 600,
            "renewTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        },
    }));
    running.release(
        "remote",
        &json!({"kubeConfig": {"configMapRef": {"name": "x"}}, "upgrade": {"force": true}}),
    );
    let words = format!("doctor helmreleases --helm-controller-namespace {ns}");
    let (status, text, err) = running.answer(&words);
    assert_eq!((status, err.trim()), (1, "Error: 1 HelmRelease(s) do not work here"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with(&format!("lease: helm-controller-1 holds {ns}/helm-controller-leader-election")),
        "{text}"
    );
    assert!(lines[1].starts_with(&format!("cannot tell: {ns}/remote: kubeConfig of configmap ")), "{text}");
    assert!(lines[2].starts_with(&format!("differs: {ns}/remote: force: ")), "{text}");
    assert!(lines[3].starts_with(&format!("differs: {ns}/remote: kubeConfig.configMapRef: ")), "{text}");
    let (_, out, _) = running.answer(&format!("{words} -o json"));
    let report = parsed(&out);
    assert_eq!(report["leases"][0]["holder"], "helm-controller-1");
    let findings: Vec<&Value> =
        report["releases"].as_array().unwrap().iter().map(|release| &release["finding"]).collect();
    assert_eq!(findings, ["suspended", "failed", "unchanged"]);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_rights_are_enough_for_releases_of_tenants() {
    let mut running = Running::prepare("rights").await;
    let ns = running.ns.name().to_owned();
    let cp = running.cp;
    let said = running.said(0, "rbac --controllers=helmreleases");
    assert!(said.contains("WARNING: HelmReleases without serviceAccountName"), "{said}");
    let rules = running.output(0, "rbac --controllers=helmreleases --default-service-account tenant");
    cp.kubectl_with(["apply", "-f", "-"], &rules).unwrap();
    for account in ["windlass", "tenant"] {
        cp.kubectl(["create", "serviceaccount", account, "-n", &ns]).unwrap();
    }
    let account = format!("--serviceaccount={ns}:tenant");
    cp.kubectl(["create", "rolebinding", "tenant", "-n", &ns, "--clusterrole=admin", &account]).unwrap();
    let mut config =
        parsed(&cp.kubectl(["config", "view", "--raw", "--minify", "--flatten", "-o", "json"]).unwrap());
    let token = cp.kubectl(["create", "token", "windlass", "-n", &ns]).unwrap();
    config["users"][0]["user"] = json!({"token": token.trim()});
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();

    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/service.yaml", SERVICE)]));
    running.start_as(kubeconfig).await;
    let tenant = |values: Value| json!({"serviceAccountName": "tenant", "values": values, "driftDetection": {"mode": "enabled"}});
    running.release("web", &tenant(json!({"size": "two"})));
    running.wait_ready("web", "True InstallSucceeded");
    running.release("web", &tenant(json!({"size": "three"})));
    running.wait_ready("web", "True UpgradeSucceeded");
    let template = json!({"spec": {"chart": "demo", "sourceRef": {"kind": "HelmRepository", "name": "r"}}});
    running.release("made", &json!({"chartRef": null, "chart": template, "serviceAccountName": "tenant"}));
    running.wait("no artifact", |o| condition(o, "Ready") == "False SourceNotReady", "made");
    assert_eq!(running.get("helmchart", &format!("{ns}-made"))["spec"]["chart"], "demo");
    for name in ["web", "made"] {
        cp.kubectl(["delete", "helmrelease", name, "-n", &ns, "--timeout=30s"]).unwrap();
    }
    assert!(running.records().is_empty() && running.get("helmchart", &format!("{ns}-made")).is_null());
    let events = cp.kubectl(["get", "events", "-n", &ns, "-o", "jsonpath={.items[*].reason}"]).unwrap();
    assert!(events.contains("InstallSucceeded"), "{events}");
    let role = format!("{ns}-windlass");
    cp.kubectl(["delete", "clusterrole,clusterrolebinding", &role]).unwrap();
    running.end().await;
}
