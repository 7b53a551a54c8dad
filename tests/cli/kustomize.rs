//! `plan -k`, `diff -k` and `apply -k`: kustomizations as releases.

use super::{control_plane, fails, run, windlass};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: nginx, envFrom: [{configMapRef: {name: settings}}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}], selector: {app: web}}
";

/// A directory `web` with a kustomization.
fn kustomization(text: &str) -> (tempfile::TempDir, String) {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("web");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("objects.yaml"), DEPLOYMENT).unwrap();
    let path = directory.to_str().unwrap().to_owned();
    write(&path, text);
    (root, path)
}

fn write(directory: &str, text: &str) {
    std::fs::write(Path::new(directory).join("kustomization.yaml"), text).unwrap();
}

fn with_size(size: &str) -> String {
    format!("resources: [objects.yaml]\nconfigMapGenerator: [{{name: settings, literals: [size={size}]}}]\n")
}

/// The names of the generated ConfigMaps that exist.
fn settings(namespace: &str) -> Vec<String> {
    let list = control_plane().get(&format!("/api/v1/namespaces/{namespace}/configmaps")).unwrap();
    let names = list["items"].as_array().unwrap().iter().map(|o| o["metadata"]["name"].as_str().unwrap());
    names.filter(|name| name.starts_with("settings-")).map(str::to_owned).collect()
}

fn status(args: &[&str]) -> i32 {
    run(args).status.code().unwrap()
}

#[test]
fn old_hashed_config_maps_stay_as_long_as_workloads_refer_to_them() {
    let cp = control_plane();
    let ns = cp.namespace("apply-k").unwrap();
    let n = ns.name();
    let (_root, dir) = kustomization(&with_size("1"));
    let diff = ["diff", "-k", &dir, "-n", n, "--detailed-exitcode"];
    assert_eq!(status(&diff), 2);
    assert!(cp.helm4(["status", "web", "-n", n]).is_err(), "a diff writes nothing");
    let out = windlass(&["apply", "-k", &dir, "-n", n, "--wait"]);
    assert!(
        out.contains(&format!("+ Deployment {n}/web\n")) && out.contains("STATUS: deployed\nREVISION: 1\n"),
        "{out}"
    );
    assert_eq!(status(&diff), 0);
    let before = settings(n);
    assert_eq!(before.len(), 1);
    let listed: Value = serde_json::from_str(&cp.helm4(["list", "-n", n, "-o", "json"]).unwrap()).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["chart"]), (&"web".into(), &"web-0.0.0".into()), "{listed}");
    let manifest = cp.helm3(["get", "manifest", "web", "-n", n]).unwrap();
    assert!(manifest.contains("# Source: web/apps_v1_deployment_web.yaml\n"), "{manifest}");

    // The rollout cannot end: the Pods of the first revision keep their ConfigMap.
    cp.kubectl(["rollout", "pause", "deployment/web", "-n", n]).unwrap();
    write(&dir, &with_size("2"));
    let told = windlass(&["diff", "-k", &dir, "-n", n]);
    let kept = format!(
        "· ConfigMap {n}/{}  it is no longer in the manifest; live workloads refer to it, and it is deleted when none does\n",
        before[0]
    );
    assert!(told.contains(&kept), "{told}");
    let out = windlass(&["apply", "-k", &dir, "-n", n]);
    assert!(
        out.contains(&format!(
            "· ConfigMap {n}/{}  it left the release; live workloads refer to it\n",
            before[0]
        )),
        "{out}"
    );
    assert_eq!(settings(n).len(), 2);
    // Another revision does not forget it, and a plan holds whatever workloads do in the meantime.
    write(&dir, &with_size("3"));
    let plan = Path::new(&dir).join("plan.json");
    let plan = plan.to_str().unwrap();
    windlass(&["plan", "-k", &dir, "-n", n, "--out", plan]);
    windlass(&["apply", plan]);
    assert!(settings(n).contains(&before[0]));
    cp.kubectl(["rollout", "resume", "deployment/web", "-n", n]).unwrap();
    cp.kubectl(["rollout", "status", "deployment/web", "-n", n, "--timeout=120s"]).unwrap();
    assert_eq!(status(&diff), 2, "what is not referred to any more would be deleted");
    let out = windlass(&["apply", "-k", &dir, "-n", n]);
    assert!(
        out.starts_with("Release \"web\" is unchanged.\n")
            && out.contains(&format!("- ConfigMap {n}/{}\n", before[0])),
        "{out}"
    );
    assert!(out.contains("REVISION: 3\n"), "{out}");
    assert_eq!(settings(n).len(), 1);
    assert_eq!(status(&diff), 0);

    // A rollback brings an old one back, and an uninstall leaves none.
    windlass(&["rollback", "web", "1", "-n", n]);
    assert!(settings(n).contains(&before[0]));
    windlass(&["uninstall", "web", "-n", n]);
    assert_eq!(settings(n), Vec::<String>::new());
}

#[test]
fn drift_is_shown_and_corrected_without_a_revision() {
    let cp = control_plane();
    let ns = cp.namespace("drift-k").unwrap();
    let n = ns.name();
    let (_root, dir) = kustomization(&with_size("1"));
    windlass(&["apply", "-k", &dir, "-n", n]);
    cp.kubectl(["delete", "service", "web", "-n", n]).unwrap();
    let out = run(&["diff", "-k", &dir, "-n", n, "--detailed-exitcode"]);
    assert_eq!(out.status.code(), Some(2));
    let told = String::from_utf8(out.stdout).unwrap();
    assert!(told.contains(&format!("+ Service {n}/web  it was deleted\n")), "{told}");
    let dry = windlass(&["apply", "-k", &dir, "-n", n, "--dry-run=server"]);
    assert!(dry.contains("kind: Service") || dry.contains("STATUS"), "{dry}");
    assert!(cp.kubectl(["get", "service", "web", "-n", n]).is_err(), "a dry run writes nothing");
    let out = windlass(&["apply", "-k", &dir, "-n", n]);
    assert!(out.starts_with("Release \"web\" is as it was: ") && out.contains("REVISION: 1\n"), "{out}");
    cp.kubectl(["get", "service", "web", "-n", n]).unwrap();
}

#[test]
fn the_kustomization_names_its_namespace_and_its_release() {
    let cp = control_plane();
    let ns = cp.namespace("named-k").unwrap();
    let n = &format!("{}-own", ns.name());
    let (_root, dir) = kustomization(&format!(
        "metadata: {{name: shop}}\nnamespace: {n}\nresources: [objects.yaml, namespace.yaml]\n"
    ));
    std::fs::write(
        Path::new(&dir).join("namespace.yaml"),
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {n}}}\n"),
    )
    .unwrap();
    let told = windlass(&["diff", "-k", &dir]);
    assert!(told.starts_with(&format!("{n}/shop: revision 1 ")), "{told}");
    assert_eq!(told.matches(&format!("+ Namespace {n}")).count(), 1, "{told}");
    windlass(&["apply", "-k", &dir]);
    assert!(cp.helm4(["list", "-n", n]).unwrap().contains("shop-0.0.0"));
    assert_eq!(status(&["diff", "-k", &dir, "--detailed-exitcode"]), 0);
    // A plan is saved and applied as that of a chart.
    write(
        &dir,
        &format!(
            "metadata: {{name: shop}}\nnamespace: {n}\nnameSuffix: -b\nresources: [objects.yaml, namespace.yaml]\n"
        ),
    );
    let plan = Path::new(&dir).join("plan.json");
    let plan = plan.to_str().unwrap();
    let told = windlass(&["plan", "-k", &dir, "--out", plan]);
    assert!(told.contains(&format!("- Service {n}/web  it is no longer in the manifest\n")), "{told}");
    assert!(windlass(&["apply", plan]).contains("REVISION: 2\n"));
    cp.kubectl(["get", "service", "web-b", "-n", n]).unwrap();
    assert!(cp.kubectl(["get", "service", "web", "-n", n]).is_err());
    // Another name is another release, which does not take the objects of the first.
    let told = fails(&["apply", "-k", &dir, "--release-name", "other"]);
    assert!(told.contains(&format!("it belongs to release {n}/shop")), "{told}");
    cp.kubectl(["delete", "namespace", n, "--wait=false"]).unwrap();
}

#[test]
fn objects_of_kubectl_are_taken_over() {
    let cp = control_plane();
    let ns = cp.namespace("take-k").unwrap();
    let n = ns.name();
    let (_root, dir) = kustomization(&with_size("1"));
    cp.kubectl(["apply", "-k", &dir, "-n", n]).unwrap();
    let told = windlass(&["diff", "-k", &dir, "-n", n]);
    assert!(
        told.contains(&format!("> Service {n}/web  it exists and belongs to no other release\n")),
        "{told}"
    );
    windlass(&["apply", "-k", &dir, "-n", n, "--wait"]);
    assert_eq!(status(&["diff", "-k", &dir, "-n", n, "--detailed-exitcode"]), 0);
}

/// Without a takeover of kubectl's fields, those that the kustomization lacks would stay for ever.
#[test]
fn fields_of_kubectl_are_taken_over_with_their_object() {
    let cp = control_plane();
    for (server_side, manager) in [("false", "kubectl-client-side-apply"), ("true", "kubectl")] {
        let ns = cp.namespace("fields-k").unwrap();
        let n = ns.name();
        let (_root, dir) = kustomization("resources: [objects.yaml, config.yaml]\n");
        let config = |data: &str| {
            let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: config}}\ndata: {data}\n");
            std::fs::write(Path::new(&dir).join("config.yaml"), text).unwrap();
        };
        let live = || cp.get(&format!("/api/v1/namespaces/{n}/configmaps/config")).unwrap();
        config("{changed: a, removed: a, same: a}");
        cp.kubectl(["apply", "-k", &dir, "-n", n, &format!("--server-side={server_side}")]).unwrap();
        let managers = |object: &Value| -> Vec<String> {
            let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
            entries.map(|entry| entry["manager"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(managers(&live()), [manager]);
        cp.kubectl(["label", "configmap", "config", "-n", n, "by-hand=kept"]).unwrap();

        config("{changed: b, same: a}");
        let told = windlass(&["diff", "-k", &dir, "-n", n]);
        assert!(told.contains("data.removed") && told.contains("data.changed"), "{told}");
        assert!(!told.contains("onflict"), "{told}");
        windlass(&["apply", "-k", &dir, "-n", n]);
        let object = live();
        assert_eq!(object["data"], serde_json::json!({"changed": "b", "same": "a"}));
        let metadata = &object["metadata"];
        assert_eq!(metadata["annotations"]["kubectl.kubernetes.io/last-applied-configuration"], Value::Null);
        assert_eq!(metadata["labels"]["by-hand"], "kept");
        assert!(!managers(&object).contains(&manager.to_owned()), "{object}");

        let version = metadata["resourceVersion"].clone();
        let out = windlass(&["apply", "-k", &dir, "-n", n]);
        assert!(out.starts_with("Release \"web\" is unchanged.\n") && out.contains("REVISION: 1\n"), "{out}");
        assert_eq!(live()["metadata"]["resourceVersion"], version, "the second apply writes nothing");
    }
}

#[test]
fn flags_that_do_not_fit_are_refused() {
    let (_root, dir) = kustomization("resources: [objects.yaml]\n");
    let cases: [(&[&str], &str); 9] = [
        (&["plan", "-k", &dir, "--set", "a=1"], "cannot be used with"),
        (&["diff", "-k", &dir, "name", "chart"], "cannot be used with"),
        (&["plan", "-k", &dir, "--version", "1"], "cannot be used with"),
        (&["plan", "-k", &dir, "--repo", "https://example.com", "--reuse-values"], "cannot be used with"),
        (&["apply", "plan.json", "--wait"], "cannot be used with"),
        (&["apply", "plan.json", "--take-ownership"], "cannot be used with"),
        (&["apply", "plan.json", "-k", &dir], "cannot be used with"),
        (&["apply", "--release-name", "x"], "required"),
        (&["apply", "-k", &dir, "--release-name", "No_Name"], "invalid release name"),
    ];
    for (args, part) in cases {
        let told = fails(args);
        assert!(told.contains(part), "{args:?}: {told}");
    }
    let upper = tempfile::tempdir().unwrap();
    let upper = upper.path().join("Web_App");
    std::fs::create_dir(&upper).unwrap();
    std::fs::write(upper.join("kustomization.yaml"), "configMapGenerator: [{name: a}]\n").unwrap();
    let told = fails(&["apply", "-k", upper.to_str().unwrap()]);
    assert!(told.contains("give one with --release-name"), "{told}");
    assert!(fails(&["apply", "-k", "/nowhere"]).contains("/nowhere"));
}

/// Nobody knows what refers to them: a ConfigMap that is in use must not go.
#[test]
fn config_maps_stay_where_workloads_may_not_be_listed() {
    let cp = control_plane();
    let ns = cp.namespace("rights-k").unwrap();
    let n = ns.name();
    let user = format!("{n}-user");
    for (name, verbs, resources) in [
        ("records", "get,list,create,update,delete", "secrets,leases.coordination.k8s.io"),
        ("objects", "get,list,create,patch,delete", "configmaps"),
    ] {
        let (verbs, resources) = (format!("--verb={verbs}"), format!("--resource={resources}"));
        cp.kubectl(["create", "role", name, &verbs, &resources, "-n", n]).unwrap();
        let (role, user) = (format!("--role={name}"), format!("--user={user}"));
        cp.kubectl(["create", "rolebinding", name, &role, &user, "-n", n]).unwrap();
    }
    let kubeconfig = cp.kubeconfig_as(&user, &["system:authenticated"]).unwrap();
    let size = |size: &str| format!("configMapGenerator: [{{name: settings, literals: [size={size}]}}]\n");
    let (_root, dir) = kustomization(&size("1"));
    let apply = || {
        let out = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["apply", "-k", &dir, "-n", n])
            .env("KUBECONFIG", &kubeconfig)
            .output()
            .unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success(), "{said}");
        said
    };
    apply();
    write(&dir, &size("2"));
    let said = apply();
    let part = format!("ConfigMaps and Secrets that left the manifest are kept in namespace \\\"{n}\\\": ");
    assert!(said.contains(&part) && said.contains("cannot list resource"), "{said}");
    assert_eq!(settings(n).len(), 2);
    // Who may list them deletes what nothing refers to.
    windlass(&["apply", "-k", &dir, "-n", n]);
    assert_eq!(settings(n).len(), 1);
}

#[test]
fn hints_go_to_stderr() {
    let (_root, dir) = kustomization("resources: [objects.yaml]\ncommonLabels: {a: b}\n");
    let out = run(&["build", &dir]);
    let said = String::from_utf8(out.stderr).unwrap();
    let rewrite = format!(
        "# Warning: {}/kustomization.yaml: write 'commonLabels' as labels: [{{\"includeSelectors\":true,\"pairs\":{{\"a\":\"b\"}}}}]\n",
        std::fs::canonicalize(&dir).unwrap().display()
    );
    assert!(said.contains(&rewrite), "{said}");
    write(&dir, "resources: [objects.yaml]\nlabels: [{includeSelectors: true, pairs: {a: b}}]\n");
    let modern = run(&["build", &dir]);
    assert_eq!(modern.stdout, out.stdout, "the rewrite gives the same");
    assert_eq!(String::from_utf8(modern.stderr).unwrap(), "");
}
