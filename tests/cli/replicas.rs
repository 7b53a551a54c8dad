//! Whose replicas are: an autoscaler's while one targets the object, else the chart's.

use super::{control_plane, run};
use std::path::Path;
use std::process::{Command, Output};

const WORKLOAD: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: {{ .Values.replicas | default 1 }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, v: {{ .Values.v | default 1 | quote }}}}
    spec:
      containers: [{name: c, image: "c:1"}]
{{- if .Values.scaled }}
---
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 9}
{{- end }}
"#;

const SCALED_OBJECT: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
"metadata": {"name": "scaledobjects.keda.sh"}, "spec": {"group": "keda.sh", "scope": "Namespaced",
"names": {"kind": "ScaledObject", "plural": "scaledobjects"}, "versions": [{"name": "v1alpha1", "served": true, "storage": true,
"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;

fn chart() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("templates")).unwrap();
    std::fs::write(dir.path().join("Chart.yaml"), "apiVersion: v2\nname: sc\nversion: 1.0.0\n").unwrap();
    std::fs::write(dir.path().join("templates/d.yaml"), WORKLOAD).unwrap();
    dir
}

struct Release {
    namespace: windlass_testing::Namespace<'static>,
    chart: tempfile::TempDir,
}

impl Release {
    fn installed(name: &str) -> Self {
        let release = Self { namespace: control_plane().namespace(name).unwrap(), chart: chart() };
        let out = release.run("install", &[]);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        release
    }

    fn path(&self) -> &Path {
        self.chart.path()
    }

    fn run(&self, verb: &str, args: &[&str]) -> Output {
        let common = [verb, "w", self.path().to_str().unwrap(), "-n", self.namespace.name()];
        run(&common.into_iter().chain(args.iter().copied()).collect::<Vec<_>>())
    }

    fn upgraded(&self, args: &[&str]) -> String {
        let out = self.run("upgrade", args);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success(), "{said}");
        said
    }

    fn kubectl(&self, args: &[&str]) -> String {
        control_plane().kubectl(args.iter().copied().chain(["-n", self.namespace.name()])).unwrap()
    }

    fn scale(&self, replicas: u32) {
        self.kubectl(&["scale", "deployment", "web", &format!("--replicas={replicas}")]);
    }

    fn replicas(&self) -> String {
        self.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"])
    }
}

#[test]
fn a_user_who_scales_is_no_autoscaler() {
    let release = Release::installed("scaled");
    release.scale(2);
    let out = release.run("upgrade", &["--set", "v=2"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success(), "{said}");
    for part in [
        "Deployment ",
        "/web",
        "spec.replicas is owned by \"kubectl\"",
        "--force-conflicts",
        "--leave-to-owner",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    release.upgraded(&["--set", "v=2", "--force-conflicts"]);
    assert_eq!(release.replicas(), "1");
    release.scale(5);
    release.upgraded(&["--set", "v=3", "--leave-to-owner", "Deployment/web:spec.replicas"]);
    assert_eq!(release.replicas(), "5");
    let plan = release.run("plan", &["--set", "v=4", "--force-conflicts"]);
    let plan = String::from_utf8(plan.stdout).unwrap();
    assert!(plan.contains("spec.replicas"), "{plan}");
}

#[test]
fn an_autoscaler_keeps_its_replicas_while_it_is_there() {
    let release = Release::installed("autoscaled");
    let hpa = ["autoscale", "deployment", "web", "--max=9"];
    release.kubectl(&hpa);
    release.scale(4);
    let plan = release.run("plan", &["--set", "v=2", "--force-conflicts"]);
    let plan = String::from_utf8(plan.stdout).unwrap();
    assert!(plan.contains("its replicas are left to HorizontalPodAutoscaler web"), "{plan}");
    release.upgraded(&["--set", "v=2", "--force-conflicts"]);
    assert_eq!(release.replicas(), "4");
    // Of another object.
    release.kubectl(&["delete", "hpa", "web"]);
    let other = r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "other"},
        "spec": {"maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}}}"#;
    let namespace = release.namespace.name();
    control_plane().kubectl_with(["create", "-n", namespace, "-f", "-"], other).unwrap();
    release.upgraded(&["--set", "v=3", "--force-conflicts"]);
    assert_eq!(release.replicas(), "1");
    // In the same manifest.
    release.scale(6);
    release.upgraded(&["--set", "v=4,scaled=true", "--force-conflicts"]);
    assert_eq!(release.replicas(), "6");
}

#[test]
fn a_scaled_object_has_the_defaults_of_keda() {
    let cp = control_plane();
    cp.kubectl_with(["apply", "--server-side", "-f", "-"], SCALED_OBJECT).unwrap();
    cp.kubectl(["wait", "crd/scaledobjects.keda.sh", "--for=condition=Established", "--timeout=60s"])
        .unwrap();
    let release = Release::installed("keda");
    let object = r#"{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"name": "web"}}}"#;
    cp.kubectl_with(["create", "-n", release.namespace.name(), "-f", "-"], object).unwrap();
    release.scale(3);
    release.upgraded(&["--set", "v=2", "--force-conflicts"]);
    assert_eq!(release.replicas(), "3");
}

#[test]
fn without_the_right_to_list_autoscalers_known_managers_count() {
    let release = Release::installed("unseen");
    let (cp, n) = (control_plane(), release.namespace.name());
    let user = format!("{n}-user");
    let allow = [
        "create",
        "role",
        "some",
        "--verb=*",
        "--resource=secrets,deployments.apps,leases.coordination.k8s.io",
        "-n",
        n,
    ];
    cp.kubectl(allow).unwrap();
    cp.kubectl(["create", "rolebinding", "some", "--role=some", &format!("--user={user}"), "-n", n]).unwrap();
    let kubeconfig = cp.kubeconfig_as(&user, &["system:authenticated"]).unwrap();
    let upgrade = |v: &str| {
        let path = release.path().to_str().unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["upgrade", "w", path, "-n", n, "--force-conflicts", "--set", v])
            .env("KUBECONFIG", &kubeconfig)
            .output()
            .unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success(), "{said}");
        said
    };
    release.scale(3);
    let said = upgrade("v=2");
    assert_eq!(said.matches("the account may not list HorizontalPodAutoscaler").count(), 1, "{said}");
    assert_eq!(release.replicas(), "1");
    let patch = r#"{"spec":{"replicas":7}}"#;
    let manager = ["--field-manager=kube-controller-manager", "--subresource=scale"];
    release.kubectl(&["patch", "deployment", "web", "--type=merge", "-p", patch, manager[0], manager[1]]);
    upgrade("v=3");
    assert_eq!(release.replicas(), "7");
}
