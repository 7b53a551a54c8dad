//! Policies of Flux that workloads and objects of releases name.

use std::sync::Once;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_controller::AccountName;
use windlass_testing::shared;

use super::helmcharts::{self, chart, content};
use super::image_registry::{ImageRegistry, ScriptedRegistry};
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
    // A check that has begun before has ended once the next one says something.
    let annotate = |text: &str| {
        own.cp.kubectl(["annotate", "deployment", "web", "-n", own.ns.name(), text]).unwrap();
    };
    annotate("windlass.dev/image-window=someday");
    own.wait_event("windlass.dev/image-window");
    annotate("windlass.dev/image-window-");
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

/// The release of an object may be in another namespace: the login is read where the ImageRepository is, with the object's account.
#[tokio::test(flavor = "multi_thread")]
async fn the_login_of_an_image_repository_is_read_in_its_namespace() {
    tokio::task::spawn_blocking(register).await.unwrap();
    let registry = ScriptedRegistry::start().await;
    let host = registry.address.to_string();
    let challenge = ("www-authenticate", "Basic realm=\"images\"");
    let digest = format!("sha256:{}", "b".repeat(64));
    registry.list("web", &["1.2.0", "1.3.0"], &[challenge]);
    registry.set("/v2/web/manifests/1.3.0", 200, &[("docker-content-digest", &digest), challenge]);
    let mut helm = helmcharts::Running::prepare().await;
    let (cp, ns) = (helm.cp, helm.ns.name().to_owned());
    let target = cp.namespace("target").unwrap();
    helm.kubectl("create serviceaccount tenant");
    let account = format!("--serviceaccount={ns}:tenant");
    cp.kubectl([
        "create",
        "rolebinding",
        "all",
        "--clusterrole=cluster-admin",
        &account,
        "-n",
        target.name(),
    ])
    .unwrap();
    let verbs = "--verb=get --resource=imagepolicies.image.toolkit.fluxcd.io,imagerepositories.image.toolkit.fluxcd.io";
    helm.kubectl(&format!("create role policies {verbs}"));
    helm.kubectl(&format!("create rolebinding policies --role=policies {account}"));
    let auths = json!({"auths": {&host: {"auth": STANDARD.encode("me:secret-word")}}});
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": STANDARD.encode(auths.to_string())}}),
        json!({"apiVersion": "image.toolkit.fluxcd.io/v1beta2", "kind": "ImagePolicy", "metadata": {"name": "web"},
            "spec": {"imageRepositoryRef": {"name": "web"}, "policy": {"semver": {"range": "^1"}}}}),
        json!({"apiVersion": "image.toolkit.fluxcd.io/v1beta2", "kind": "ImageRepository", "metadata": {"name": "web"},
            "spec": {"image": format!("{host}/web"), "secretRef": {"name": "login"}}}),
    ] {
        cp.kubectl_with(["apply", "-n", &ns, "-f", "-"], &object.to_string()).unwrap();
    }
    helm.options.default_service_account = AccountName::parse("tenant");
    helm.start().await;
    let mut own = FollowedImages::prepare(&[&host]).await.of_namespace(&ns);
    own.context.clone_from(&helm.context);
    own.start();
    let values = json!({"image": {"repository": format!("{host}/web"), "tag": "1.2.0"}});
    let package = content(&chart("1.0.0", &[]));
    let spec = json!({"chartContent": package, "valuesContent": values.to_string(), "targetNamespace": target.name()});
    let annotations =
        json!({"windlass.dev/image-policy": "flux:web", "windlass.dev/image-values": "image.tag"});
    helm.apply("HelmChart", "web", &annotations, &spec);
    let refused = format!(
        "User \"system:serviceaccount:{ns}:tenant\" cannot get resource \"secrets\" in API group \"\" in the namespace \"{ns}\""
    );
    helm.wait_event("web", &refused);
    helm.kubectl("create role logins --verb=get --resource=secrets");
    helm.kubectl(&format!("create rolebinding logins --role=logins {account}"));
    let overrides = "{.metadata.annotations.windlass\\.dev/image-overrides}";
    helm.wait("the newer image is set", || helm.get("helmchart", "web", overrides).contains("1.3.0"));
    own.stop().await;
    helm.stop().await;
}
