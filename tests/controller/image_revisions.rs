//! Newer images in the values of a HelmChart: as new revisions of its release.

use serde_json::{Value, json};
use windlass_images::rollout_record::IMAGE_RECORD;
use windlass_testing::wait_until;

use super::LIMIT;
use super::helmcharts::{self, chart, content};
use super::helmfiles::{self, Repository};
use super::image_registry::ImageRegistry;
use super::images::FollowedImages;

const POLICY: &str = "windlass.dev/image-policy";
const VALUES: &str = "windlass.dev/image-values";
const OVERRIDES: &str = "windlass.dev/image-overrides";

/// A Deployment whose image is of values; that of a bad tag has Pods that no node takes.
const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: {{ if eq (toString .Values.image.tag) \"1.9.0\" }}1{{ else }}0{{ end }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {windlass.dev/node: none}
      containers: [{name: main, image: \"{{ .Values.image.repository }}:{{ .Values.image.tag }}\"}]
";

fn spec(registry: &ImageRegistry, tag: &str, more: &Value) -> Value {
    let mut values = more.clone();
    values["image"] = json!({"repository": format!("{}/team/web", registry.host()), "tag": tag});
    let package = chart("1.0.0", &[("templates/web.yaml", DEPLOYMENT)]);
    json!({"chartContent": content(&package), "valuesContent": values.to_string()})
}

fn image_of(helm: &helmcharts::Running) -> String {
    helm.get("deployment", "web", "{.spec.template.spec.containers[0].image}")
}

fn annotation(helm: &helmcharts::Running, name: &str) -> String {
    helm.get("helmchart", "web", &format!("{{.metadata.annotations.{}}}", name.replace('.', "\\.")))
}

async fn follower_of(helm: &helmcharts::Running, registry: &ImageRegistry) -> FollowedImages {
    let mut own = FollowedImages::prepare(&[registry.host()]).await.of_namespace(helm.ns.name());
    own.context.clone_from(&helm.context);
    own.start();
    own
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_image_is_a_new_revision_until_the_values_name_another() {
    let registry = ImageRegistry::start();
    registry.push("1.2.0", "one").await;
    let mut helm = helmcharts::Running::started().await;
    let mut own = follower_of(&helm, &registry).await;
    let annotations = json!({POLICY: "minor", VALUES: "image.tag", "windlass.dev/image-approvals": "1"});
    helm.apply("HelmChart", "web", &annotations, &spec(&registry, "1.2.0", &json!({})));
    helm.wait_revision("web", 1);
    let second = registry.push("1.3.0", "two").await;
    helm.wait("it waits for approval", || annotation(&helm, IMAGE_RECORD).contains("it waits for approval"));
    assert_eq!(helm.revisions("web"), 1);
    let shown = String::from_utf8(helm.run("images").stdout).unwrap();
    assert!(shown.contains("helmchart/web") && shown.contains("image.tag"), "{shown}");
    let approved = String::from_utf8(helm.run("approve helmchart/web").stdout).unwrap();
    assert!(
        approved.contains(&format!("helmchart/web, image.tag: 1.3.0@{second} approved by ")),
        "{approved}"
    );
    helm.wait_revision("web", 2);
    assert_eq!(image_of(&helm), registry.image("1.3.0"));
    helm.wait("the rollout is through", || !annotation(&helm, IMAGE_RECORD).contains("\"rollout\""));
    helm.wait_event("web", &format!("ImageUpdateReady: 1.3.0@{second} is ready"));
    let values = helm.cp.helm4(["get", "values", "web", "-n", helm.ns.name()]).unwrap();
    assert!(values.contains("tag: 1.3.0"), "{values}");
    // The spec is the user's, and the workload has no record of its own.
    let content = helm.get("helmchart", "web", "{.spec.valuesContent}");
    assert!(content.contains("1.2.0") && !content.contains("1.3.0"), "{content}");
    assert_eq!(helm.get("deployment", "web", "{.metadata.annotations.windlass\\.dev/image-rollouts}"), "");
    // Both controllers begin anew: nothing is rolled out.
    own.stop().await;
    helm.stop().await;
    helm.start().await;
    let mut own = follower_of(&helm, &registry).await;
    let third = registry.push("1.4.0", "three").await;
    let waits = || {
        let record = annotation(&helm, IMAGE_RECORD);
        record.contains("\"waiting\"") && record.contains(&third)
    };
    helm.wait("the next image waits", waits);
    assert_eq!((helm.revisions("web"), image_of(&helm)), (2, registry.image("1.3.0")));
    // The user asks for another image than the one that the override was decided on.
    registry.push("1.2.5", "other").await;
    helm.apply("HelmChart", "web", &annotations, &spec(&registry, "1.2.5", &json!({})));
    helm.wait_revision("web", 3);
    assert_eq!(image_of(&helm), registry.image("1.2.5"));
    helm.wait("the override has ended", || annotation(&helm, OVERRIDES).is_empty());
    helm.wait("the next image waits", waits);
    // Also if they go back to it afterwards.
    helm.apply("HelmChart", "web", &annotations, &spec(&registry, "1.2.0", &json!({})));
    helm.wait_revision("web", 4);
    assert_eq!(image_of(&helm), registry.image("1.2.0"));
    let requested = format!("\"requested\":\"{}\"", registry.image("1.2.0"));
    helm.wait("its record begins anew", || annotation(&helm, IMAGE_RECORD).contains(&requested));
    assert_eq!(annotation(&helm, OVERRIDES), "");
    own.stop().await;
    helm.stop().await;
}

/// The block of values that keel reads; no annotation is needed.
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_does_not_become_ready_takes_its_image_back() {
    let registry = ImageRegistry::start();
    registry.push("1.2.0", "one").await;
    let mut helm = helmcharts::Running::started().await;
    let mut own = follower_of(&helm, &registry).await;
    let images = json!([{"repository": "image.repository", "tag": "image.tag"}]);
    let keel = json!({"keel": {"policy": "minor", "trigger": "poll", "images": images}});
    let deadline = json!({"windlass.dev/image-rollout-deadline": "3s"});
    helm.apply("HelmChart", "web", &deadline, &spec(&registry, "1.2.0", &keel));
    helm.wait_revision("web", 1);
    let bad = registry.push("1.9.0", "bad").await;
    helm.wait_event(
        "web",
        &format!(
            "did not become ready: its revision is not ready after 3 s; {} is back",
            registry.image("1.2.0")
        ),
    );
    // The pass that waits for the Pods ends at once: its image is not asked for any more.
    helm.wait_revision("web", 3);
    assert_eq!((image_of(&helm), annotation(&helm, OVERRIDES)), (registry.image("1.2.0"), String::new()));
    helm.wait("it is not tried again", || annotation(&helm, IMAGE_RECORD).contains("it is not tried again"));
    assert!(annotation(&helm, IMAGE_RECORD).contains(&format!("\"failed\":[\"{bad}\"]")));
    // A later version is another try.
    registry.push("1.9.1", "good").await;
    helm.wait_revision("web", 4);
    assert_eq!(image_of(&helm), registry.image("1.9.1"));
    // What cannot be used is said, and nothing is followed.
    let broken = json!({"keel": {"policy": "newest", "images": images}});
    helm.apply("HelmChart", "web", &json!({}), &spec(&registry, "1.2.0", &broken));
    helm.wait_event("web", "InvalidImageAnnotation: keel.sh/policy: \"newest\": there are digest");
    helm.apply(
        "HelmChart",
        "web",
        &json!({VALUES: "image.name", POLICY: "all"}),
        &spec(&registry, "1.2.0", &json!({})),
    );
    helm.wait_event("web", "InvalidImageAnnotation: image.name: the values name no image");
    own.stop().await;
    helm.stop().await;
}

/// A Helmfile's values are not composed with images, and an Event says so, however many releases it has.
#[tokio::test(flavor = "multi_thread")]
async fn images_in_the_values_of_a_helmfile_are_refused() {
    let mut helmfile = helmfiles::Running::start().await;
    let mut own = FollowedImages::prepare(&[]).await.of_namespace(helmfile.ns.name());
    own.context.clone_from(&helmfile.context);
    own.start();
    let release = |name: &str| format!("{{name: {name}, chart: ./web}}");
    let repository = Repository::new(&format!("releases: [{}, {}]", release("web"), release("db"))).await;
    helmfile.apply("stack", &json!({"source": repository.source()}));
    helmfile.ready("stack", "True Deployed");
    let n = helmfile.ns.name();
    let annotate =
        |text: &str| helmfile.cp.kubectl(["annotate", helmfiles::HELMFILES, "stack", "-n", n, text]).unwrap();
    annotate("windlass.dev/image-policy=minor");
    annotate("windlass.dev/image-values=image.tag");
    let said = "InvalidImageAnnotation: windlass.dev/image-values: images in the values of Helmfiles are not followed: remove it";
    let events = || {
        let path = "jsonpath={range .items[*]}{.involvedObject.name} {.reason}: {.message}{'\\n'}{end}";
        helmfile.cp.kubectl(["get", "events", "-n", n, "-o", path])
    };
    let found = || Ok(events()?.contains(&format!("stack {said}")).then_some(()));
    wait_until("it is said", LIMIT, found).unwrap();
    own.stop().await;
    helmfile.pause().await;
}
