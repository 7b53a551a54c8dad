//! A policy of a HelmChart for all workloads of its release.

use serde_json::{Value, json};
use windlass_controller::AccountName;
use windlass_images::rollout_record::IMAGE_RECORD;

use super::helmcharts::{self, chart, content};
use super::image_registry::ImageRegistry;
use super::images::{FollowedImages, policy};

const POLICY: &str = "windlass.dev/image-policy";

/// Two Deployments, of which one has a policy of its own.
const DEPLOYMENTS: &str = "{{- range $name, $annotations := .Values.workloads }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  annotations: {{ $annotations | toJson }}
spec:
  replicas: 0
  selector: {matchLabels: {app: {{ $name }}}}
  template:
    metadata: {labels: {app: {{ $name }}}}
    spec: {containers: [{name: main, image: {{ $.Values.image | quote }}}]}
{{- end }}
";

fn spec(image: &str) -> Value {
    let values = json!({"image": image, "workloads": {"web": {}, "db": {"keel.sh/policy": "never"}}});
    let package = chart("1.0.0", &[("templates/web.yaml", DEPLOYMENTS)]);
    json!({"chartContent": content(&package), "valuesContent": values.to_string()})
}

fn image_of(helm: &helmcharts::Running, name: &str) -> String {
    helm.get("deployment", name, "{.spec.template.spec.containers[0].image}")
}

fn record_of(helm: &helmcharts::Running, name: &str) -> String {
    helm.get("deployment", name, &format!("{{.metadata.annotations.{}}}", IMAGE_RECORD.replace('.', "\\.")))
}

/// The controller of images beside that of HelmCharts, for workloads of releases.
async fn beside(helm: &helmcharts::Running, registry: &ImageRegistry) -> FollowedImages {
    let mut own = FollowedImages::prepare(&[registry.host()]).await.of_namespace(helm.ns.name());
    own.context.clone_from(&helm.context);
    own.start();
    own
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_of_an_object_counts_for_the_workloads_of_its_release() {
    let registry = ImageRegistry::start();
    let first = registry.push("1", "one").await;
    let image = registry.image("1");
    let mut helm = helmcharts::Running::started().await;
    let mut own = beside(&helm, &registry).await;
    helm.apply("HelmChart", "web", &json!({POLICY: "force"}), &spec(&image));
    helm.wait("the first digest is recorded", || record_of(&helm, "web").contains(&first));
    // Whoever writes to a namespace may claim to be of any release. It comes before the others of the release in a check.
    let mut forged = own.deployment_object("a-forged", &image, &json!({}), &json!({}));
    forged["metadata"]["namespace"] = helm.ns.name().into();
    forged["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    forged["metadata"]["annotations"] =
        json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": helm.ns.name()});
    helm.cp.kubectl_with(["apply", "-f", "-"], &forged.to_string()).unwrap();
    let second = registry.push("1", "two").await;
    helm.wait("the second digest is rolled out", || image_of(&helm, "web") == format!("{image}@{second}"));
    assert_eq!(image_of(&helm, "db"), image, "the workload's own policy comes first");
    assert_eq!(record_of(&helm, "a-forged"), "", "it has nothing of a release that it is not of");
    assert_eq!(image_of(&helm, "a-forged"), image);
    let expected = format!("force of HelmChart {}/web", helm.ns.name());
    assert!(record_of(&helm, "web").contains(&expected), "{}", record_of(&helm, "web"));
    let why = String::from_utf8(helm.run("why deployment/web").stdout).unwrap();
    let line = format!(
        "last change of its Pods: image: container main: {image}@{second} instead of {image}: policy {expected}"
    );
    assert!(why.contains(&line) && why.contains("revision 1, deployed"), "{why}");
    // Both controllers begin anew: the policy counts as soon as a pass over the object is through.
    own.stop().await;
    helm.stop().await;
    let third = registry.push("1", "three").await;
    helm.start().await;
    let mut own = beside(&helm, &registry).await;
    helm.wait("the third digest is rolled out", || image_of(&helm, "web") == format!("{image}@{third}"));
    helm.wait("the rollout is through", || !record_of(&helm, "web").contains("\"rollout\""));
    // Without its policy nothing is followed: another workload shows that the registry is asked.
    own.stop().await;
    own.options.foreign_namespaces.insert(helm.ns.name().to_owned());
    own.start();
    helm.kubectl(&format!("annotate helmchart web {POLICY}-"));
    let fourth = registry.push("1", "four").await;
    let other = own.deployment_object("other", &format!("{image}@{third}"), &policy("force"), &json!({}));
    let mut other = other;
    other["metadata"]["namespace"] = helm.ns.name().into();
    helm.cp.kubectl_with(["apply", "-f", "-"], &other.to_string()).unwrap();
    helm.wait("another workload is rolled out", || image_of(&helm, "other") == format!("{image}@{fourth}"));
    assert_eq!(image_of(&helm, "web"), format!("{image}@{third}"));
    own.stop().await;
    helm.stop().await;
}

/// What follows from an object's policy is written with the rights that its release is applied with.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_of_an_object_has_no_more_rights_than_its_account() {
    let registry = ImageRegistry::start();
    let first = registry.push("1", "one").await;
    let image = registry.image("1");
    let mut helm = helmcharts::Running::prepare().await;
    let n = helm.ns.name().to_owned();
    helm.kubectl("create serviceaccount tenant");
    let role = |verbs: &str| {
        let rules = json!([
            {"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "secrets", "leases"], "verbs": ["*"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": verbs.split(',').collect::<Vec<_>>()},
        ]);
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "some", "namespace": n}, "rules": rules});
        helm.cp.kubectl_with(["apply", "-f", "-"], &role.to_string()).unwrap();
    };
    role("*");
    let account = format!("--serviceaccount={n}:tenant");
    helm.cp.kubectl(["create", "rolebinding", "some", "--role=some", &account, "-n", &n]).unwrap();
    helm.options.default_service_account = AccountName::parse("tenant");
    helm.start().await;
    let mut own = beside(&helm, &registry).await;
    helm.apply("HelmChart", "web", &json!({POLICY: "force"}), &spec(&image));
    helm.wait("the first digest is recorded", || record_of(&helm, "web").contains(&first));
    helm.wait_ready("web", "True Deployed");
    role("get,list,watch");
    let second = registry.push("1", "two").await;
    helm.wait_event("web", "ImageCheckFailed: ");
    let events = helm.kubectl("get events -o jsonpath={.items[*].message}");
    assert!(events.contains(&format!("system:serviceaccount:{n}:tenant")), "{events}");
    assert_eq!(image_of(&helm, "web"), image);
    role("*");
    helm.wait("the second digest is rolled out", || image_of(&helm, "web") == format!("{image}@{second}"));
    own.stop().await;
    helm.stop().await;
}
