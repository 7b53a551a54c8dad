//! Policies of Flux that workloads and objects of releases name.

use std::sync::Once;

use serde_json::{Value, json};
use windlass_testing::shared;

use super::image_registry::ImageRegistry;
use super::images::{FollowedImages, image_of};

/// Both kinds, as far as they are read.
fn register() {
    static KINDS: Once = Once::new();
    KINDS.call_once(|| {
        for (kind, plural) in [("ImagePolicy", "imagepolicies"), ("ImageRepository", "imagerepositories")] {
            let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            let version = json!({"name": "v1beta2", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
            let crd = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.image.toolkit.fluxcd.io")},
                "spec": {"group": "image.toolkit.fluxcd.io", "scope": "Namespaced", "versions": [version],
                    "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()}},
            });
            shared().unwrap().establish(&crd).unwrap();
        }
    });
}

fn object(own: &FollowedImages, kind: &str, spec: &Value) {
    own.apply(&json!({"apiVersion": "image.toolkit.fluxcd.io/v1beta2", "kind": kind, "metadata": {"name": "web"}, "spec": spec}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_policy_chooses_the_tag() {
    tokio::task::spawn_blocking(register).await.unwrap();
    let registry = ImageRegistry::start();
    let mut own = FollowedImages::prepare(&[registry.host()]).await;
    registry.push("main-7", "seven").await;
    let image = registry.image("main-7");
    let policy = json!({"windlass.dev/image-policy": "flux:web"});
    own.deployment("web", &image, &policy, &json!({}));
    own.start();
    own.wait_event("web InvalidImageAnnotation: policy \"flux:web\": ImagePolicy web not found");
    let filter = json!({"pattern": "^main-(?P<n>[0-9]+)$", "extract": "$n"});
    let spec = json!({"imageRepositoryRef": {"name": "web"}, "policy": {"numerical": {"order": "asc"}}, "filterTags": filter});
    object(&own, "ImagePolicy", &spec);
    own.wait_event("web InvalidImageAnnotation: policy \"flux:web\": ImageRepository web not found");
    // Its interval is ten seconds at the least; the workload's own comes first, and is the operator's in this test.
    let repository = json!({"image": image.rsplit_once(':').unwrap().0, "exclusionList": ["^main-13$"]});
    object(&own, "ImageRepository", &repository);
    registry.push("main-13", "thirteen").await;
    registry.push("other-20", "twenty").await;
    let twelve = registry.push("main-12", "twelve").await;
    registry.push("main-9", "nine").await;
    own.rolled_out("web", &format!("{}@{twelve}", registry.image("main-12")));
    // While it is suspended, nothing is followed; another image neither.
    let mut suspended = repository.clone();
    suspended["suspend"] = true.into();
    object(&own, "ImageRepository", &suspended);
    let later = registry.push("main-20", "later").await;
    own.deployment(
        "control",
        &registry.image("main-12"),
        &json!({"keel.sh/policy": "regexp:^main-(?P<compare>[0-9]+)$"}),
        &json!({}),
    );
    own.rolled_out("control", &format!("{}@{later}", registry.image("main-20")));
    assert_eq!(image_of(&own.get("deployment", "web")), format!("{}@{twelve}", registry.image("main-12")));
    object(&own, "ImageRepository", &repository);
    own.rolled_out("web", &format!("{}@{later}", registry.image("main-20")));
    own.stop().await;
}
