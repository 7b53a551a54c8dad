//! Workloads that follow their images, on a real control plane with registries on loopback.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_cluster::{ClusterError, ObjectMeta};
use windlass_controller::ControllerContext;
use windlass_fetch::http::{Http, TIMEOUT};
use windlass_images::rollout_record::{ContainerRecord, read_image_record};
use windlass_images::{CloudRegistries, IMAGE_MANAGER, ImageMirrors, ImagesOptions};

use super::followed_workloads::{Followed, FollowerOptions};
use super::helmcharts;
use super::image_registry::{ImageRegistry, ScriptedRegistry};

const REQUESTED: &str = "windlass.dev/requested-images";

/// A namespace whose images are followed.
pub(crate) type FollowedImages = Followed<ImagesOptions>;

impl FollowerOptions for ImagesOptions {
    fn run(
        self,
        context: ControllerContext,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = Result<(), ClusterError>> + Send + 'static {
        windlass_images::run(context, self, stop)
    }
}

impl FollowedImages {
    pub(crate) async fn prepare(registries: &[&str]) -> Self {
        let options = |namespace: &str| ImagesOptions {
            namespace: Some(namespace.to_owned()),
            foreign_namespaces: BTreeSet::from([namespace.to_owned()]),
            interval: Duration::from_millis(500),
            plain_registries: registries.iter().map(|host| (*host).to_owned()).collect(),
            pull_secret: None,
            mirrors: ImageMirrors::default(),
            cloud_registries: CloudRegistries::default(),
            http: Http::new(TIMEOUT, false),
        };
        Self::new("images", options).await
    }

    /// Follows the images of another namespace.
    pub(crate) fn of_namespace(mut self, name: &str) -> Self {
        self.options.namespace = Some(name.to_owned());
        self.options.foreign_namespaces.clear();
        self
    }

    async fn started(registries: &[&str]) -> Self {
        let mut own = Self::prepare(registries).await;
        own.start();
        own
    }

    /// A Deployment of one container; without replicas it is ready at once.
    pub(crate) fn deployment_object(
        &self,
        name: &str,
        image: &str,
        annotations: &Value,
        spec: &Value,
    ) -> Value {
        let labels = json!({"app": name});
        let mut pod = spec.clone();
        pod["containers"] = json!([{"name": "main", "image": image}]);
        let replicas = i32::from(!spec["nodeSelector"].is_null());
        let meta = json!({"name": name, "namespace": self.ns.name(), "annotations": annotations});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta,
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
        })
    }

    pub(crate) fn deployment(&self, name: &str, image: &str, annotations: &Value, spec: &Value) {
        self.apply(&self.deployment_object(name, image, annotations, spec));
    }

    /// Waits until a digest is recorded as the one that runs.
    pub(crate) fn records(&self, name: &str, digest: &str) -> Value {
        self.until("deployment", name, "has a record", |found| record(found).current.digest == digest)
    }

    /// Waits until an image is rolled out, and the rollout is through.
    pub(crate) fn rolled_out(&self, name: &str, image: &str) -> Value {
        self.until("deployment", name, image, |found| {
            image_of(found) == image && record(found).rollout.is_none()
        })
    }
}

pub(crate) fn image_of(object: &Value) -> &str {
    object["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap()
}

pub(crate) fn record(object: &Value) -> ContainerRecord {
    read_image_record(ObjectMeta::of(object)).remove("main").unwrap_or_default()
}

pub(crate) fn policy(text: &str) -> Value {
    json!({"keel.sh/policy": text})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_is_rolled_out_once_also_after_a_restart() {
    let registry = ImageRegistry::start();
    let first = registry.push("1", "one").await;
    let mut own = FollowedImages::started(&[registry.host()]).await;
    let image = registry.image("1");
    for name in ["web", "twin"] {
        own.deployment(name, &image, &policy("force"), &json!({}));
    }
    own.deployment("still", &image, &policy("never"), &json!({}));
    own.deployment("plain", &image, &json!({}), &json!({}));
    own.deployment("broken", &image, &policy("newest"), &json!({}));
    for name in ["web", "twin"] {
        let before = own.records(name, &first);
        assert_eq!(image_of(&before), image, "{name}: a baseline rolls nothing out");
    }
    let second = registry.push("1", "two").await;
    for name in ["web", "twin"] {
        let after = own.rolled_out(name, &format!("{image}@{second}"));
        let managers = after["metadata"]["managedFields"].to_string();
        assert!(managers.contains(IMAGE_MANAGER), "{managers}");
        let asked = ObjectMeta::of(&after).annotation(REQUESTED).unwrap().to_owned();
        assert_eq!(asked, json!({"main": image}).to_string());
        assert_eq!(record(&after).known, std::slice::from_ref(&first));
    }
    own.wait_event("web ImageUpdate: container main:");
    own.wait_event("web ImageUpdateReady: 1@sha256:");
    own.wait_event("broken InvalidImageAnnotation: keel.sh/policy: \"newest\": there are digest");
    own.stop().await;
    let before = own.get("deployment", "web");
    own.start();
    // The later workload shows that the operator has begun.
    own.deployment("later", &image, &policy("digest"), &json!({}));
    own.records("later", &second);
    assert_eq!(own.get("deployment", "web")["spec"], before["spec"]);
    // The registry goes back: `force` follows, `digest` does not.
    own.deployment("later", &image, &policy("digest"), &json!({}));
    let third = registry.push("1", "three").await;
    own.rolled_out("later", &format!("{image}@{third}"));
    own.rolled_out("web", &format!("{image}@{third}"));
    registry.push("1", "two").await;
    own.rolled_out("web", &format!("{image}@{second}"));
    let later = own
        .until("deployment", "later", "tells of the older digest", |found| record(found).waiting.is_some());
    assert_eq!(image_of(&later), format!("{image}@{third}"));
    assert!(record(&later).waiting.unwrap().reason.contains("went back to a digest"));
    for name in ["still", "plain", "broken"] {
        assert_eq!(image_of(&own.get("deployment", name)), image, "{name}");
    }
    own.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_wait_for_approval_and_are_rolled_out_then() {
    let registry = ImageRegistry::start();
    registry.push("1.2.3", "one").await;
    let mut own = FollowedImages::started(&[registry.host()]).await;
    let image = registry.image("1.2.3");
    own.deployment("minor", &image, &json!({"windlass.dev/image-policy": "semver:^1"}), &json!({}));
    own.deployment(
        "waits",
        &image,
        &json!({"keel.sh/policy": "minor", "keel.sh/approvals": "1"}),
        &json!({}),
    );
    registry.push("2.0.0", "other").await;
    let newer = registry.push("1.3.0", "newer").await;
    let rolled_out = format!("{}@{newer}", registry.image("1.3.0"));
    own.rolled_out("minor", &rolled_out);
    let waits = own.until("deployment", "waits", "waits", |found| record(found).waiting.is_some());
    assert_eq!(image_of(&waits), image);
    let shown = own.run("images");
    assert!(shown.contains("deployment/waits") && shown.contains("it waits for approval until"), "{shown}");
    let refused = own.run("approve deployment/minor");
    assert!(refused.contains("deployment/minor: no image waits for approval"), "{refused}");
    let approved = own.run("approve deployment/waits");
    assert!(
        approved.contains(&format!("deployment/waits, container main: 1.3.0@{newer} approved by ")),
        "{approved}"
    );
    own.rolled_out("waits", &rolled_out);
    // The same image under another tag is an Event, and no rollout.
    registry.push("1.3.1", "newer").await;
    own.wait_event("waits SameImage: container main: the tag 1.3.1 is the image that runs as 1.3.0");
    assert_eq!(image_of(&own.get("deployment", "waits")), rolled_out);
    own.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_does_not_become_ready_is_taken_back_and_not_tried_again() {
    let registry = ImageRegistry::start();
    let first = registry.push("1", "one").await;
    let mut own = FollowedImages::started(&[registry.host()]).await;
    let image = registry.image("1");
    // Its Pods have no node.
    let nowhere = json!({"nodeSelector": {"windlass.dev/node": "none"}});
    let mut annotations = policy("force");
    annotations["windlass.dev/image-rollout-deadline"] = "2s".into();
    own.deployment("back", &image, &annotations, &nowhere);
    annotations["windlass.dev/image-on-failure"] = "stop".into();
    own.deployment("stop", &image, &annotations, &nowhere);
    own.records("back", &first);
    own.records("stop", &first);
    let bad = registry.push("1", "bad").await;
    let back =
        own.until("deployment", "back", "is taken back", |found| record(found).failed == [bad.clone()]);
    // By its digest: the tag points at the one that has failed.
    assert_eq!(image_of(&back), format!("{image}@{first}"));
    let asked = json!({"main": image}).to_string();
    assert_eq!(ObjectMeta::of(&back).annotation(REQUESTED), Some(asked.as_str()));
    own.wait_event("did not become ready: its Pods are not ready after 2 s");
    let waits = own.until("deployment", "back", "tells why", |found| record(found).waiting.is_some());
    assert!(record(&waits).waiting.unwrap().reason.contains("it is not tried again"));
    let stopped = own.until("deployment", "stop", "is stopped", |found| record(found).stopped);
    assert_eq!(image_of(&stopped), format!("{image}@{bad}"));
    // Another digest is another try, where nothing has stopped.
    let good = registry.push("1", "good").await;
    own.until("deployment", "back", "is tried again", |found| image_of(found) == format!("{image}@{good}"));
    let stopped = own.until("deployment", "stop", "waits", |found| record(found).waiting.is_some());
    assert_eq!(image_of(&stopped), format!("{image}@{bad}"));
    own.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_what_the_pods_say() {
    let registry = ImageRegistry::start();
    let old = registry.push("1", "old").await;
    let new = registry.push("1", "new").await;
    let mut own = FollowedImages::prepare(&[registry.host()]).await;
    let image = registry.image("1");
    own.deployment("web", &image, &policy("digest"), &json!({}));
    // The tag has moved since the Pod was started.
    own.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web", "other": "x"}},
        "spec": {"nodeSelector": {"windlass.dev/node": "none"}, "containers": [{"name": "main", "image": image}]}}));
    let status = json!({"status": {"containerStatuses": [{"name": "main", "image": image, "imageID": format!("{}/team/web@{old}", registry.host()),
        "ready": true, "restartCount": 0}]}});
    let patch = ["patch", "pod", "web", "-n", own.ns.name(), "--subresource=status", "--type=merge", "-p"];
    own.cp.kubectl(patch.into_iter().chain([status.to_string().as_str()])).unwrap();
    own.start();
    own.rolled_out("web", &format!("{image}@{new}"));
    own.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_refuses_is_left_alone_and_gets_its_own_login_only() {
    let (main, other) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
    let host = main.address.to_string();
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    let path = "/v2/team/web/manifests/1";
    let challenge = ("www-authenticate", "Basic realm=\"images\"");
    main.set(path, 429, &[("retry-after", "2"), challenge]);
    let mut own = FollowedImages::prepare(&[&host]).await;
    let auths = json!({"auths": {&host: {"auth": STANDARD.encode("me:pw")}}});
    own.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": STANDARD.encode(auths.to_string())}}));
    let image = format!("{host}/team/web:1");
    let pod = json!({"imagePullSecrets": [{"name": "missing"}, {"name": "login"}]});
    for name in ["web", "twin"] {
        own.deployment(name, &image, &policy("force"), &pod);
    }
    own.start();
    own.wait_event("web ImageCheckFailed: container main:");
    // Both have the same image and login: one request with a login, and none within two seconds.
    assert_eq!(main.count(&format!("HEAD {path}")), 2, "{:?}", main.seen.lock().unwrap());
    // It redirects to another server, which gets no login.
    let answer = [("docker-content-digest", digest("a"))];
    other.set("/elsewhere", 200, &[("docker-content-digest", &answer[0].1)]);
    let elsewhere = format!("http://{}/elsewhere", other.address);
    main.set(path, 307, &[("location", &elsewhere), challenge]);
    own.records("web", &digest("a"));
    let seen = other.seen.lock().unwrap().clone();
    assert!(!seen.is_empty() && seen.iter().all(|(_, login)| login.is_empty()), "{seen:?}");
    let logins: BTreeSet<String> = main.seen.lock().unwrap().iter().map(|(_, login)| login.clone()).collect();
    assert_eq!(logins, BTreeSet::from([String::new(), format!("Basic {}", STANDARD.encode("me:pw"))]));
    // It fails, and works again.
    main.set(path, 500, &[challenge]);
    own.wait_event("500");
    assert_eq!(image_of(&own.get("deployment", "web")), image);
    assert!(!own.events().contains("pw"), "no secret is shown");
    own.stop().await;
}

/// A chart of a Deployment whose image is followed.
const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {keel.sh/policy: force}
spec:
  replicas: 0
  revisionHistoryLimit: {{ .Values.limit | default 5 }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: {{ .Values.image | quote }}}]}
";

/// Neither drift correction nor an upgrade brings back the image that the release asked for before; another one of the release wins.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_leaves_the_image_until_it_asks_for_another() {
    let registry = ImageRegistry::start();
    let first = registry.push("1", "one").await;
    let mut helm = helmcharts::Running::started().await;
    let image = registry.image("1");
    let package = helmcharts::chart("1.0.0", &[("templates/web.yaml", DEPLOYMENT)]);
    let spec = |image: &str, limit: u32| json!({"chartContent": STANDARD.encode(&package), "set": {"image": image, "limit": limit}});
    helm.chart("web", &spec(&image, 5));
    helm.wait_revision("web", 1);
    let namespace = helm.get("deployment", "web", "{.metadata.namespace}");
    let mut own = FollowedImages::prepare(&[registry.host()]).await.of_namespace(&namespace);
    own.start();
    let shown = |path: &str| helm.get("deployment", "web", path);
    let current = "{.spec.template.spec.containers[0].image}";
    let recorded = || shown("{.metadata.annotations.windlass\\.dev/image-rollouts}");
    helm.wait("the first digest is recorded", || recorded().contains(&first));
    let second = registry.push("1", "two").await;
    let pinned = format!("{image}@{second}");
    helm.wait("the second digest is rolled out", || shown(current) == pinned);
    helm.wait("the rollout is through", || !recorded().contains("\"rollout\""));
    helm.kubectl("patch deployment web --type=merge -p {\"spec\":{\"revisionHistoryLimit\":9}}");
    helm.wait("drift is corrected", || shown("{.spec.revisionHistoryLimit}") == "5");
    assert_eq!(shown(current), pinned, "drift correction leaves the image");
    helm.chart("web", &spec(&image, 6));
    helm.wait_revision("web", 2);
    assert_eq!((shown("{.spec.revisionHistoryLimit}").as_str(), shown(current)), ("6", pinned.clone()));
    let other = registry.push("2", "other").await;
    helm.chart("web", &spec(&registry.image("2"), 6));
    helm.wait_revision("web", 3);
    assert_eq!(shown(current), registry.image("2"), "another image of the release wins");
    helm.wait("the record begins anew", || recorded().contains(&other));
    assert_eq!(shown("{.metadata.annotations.windlass\\.dev/requested-images}"), "");
    own.stop().await;
    helm.stop().await;
}
