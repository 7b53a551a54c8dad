//! What is read of a workload: its containers, whether its Pods are ready, and what wakes its check. Pure.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;
use windlass_cluster::{Gvk, ObjectMeta};
use windlass_engine::{REQUESTED_IMAGES, ReleaseId};

use super::image_annotations::{has_policy, ignored_annotations};
use super::image_reference::ImageReference;
use super::rollout_record::{IMAGE_RECORD, MAX_CONTAINERS};

/// The kinds whose images are followed: API version and kind.
pub const IMAGE_WORKLOAD_KINDS: [(&str, &str); 4] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "CronJob"),
];
/// Annotation of Helm's hooks.
const HOOK: &str = "helm.sh/hook";
/// The longest name of a release or a namespace, in bytes.
const MAX_NAME: usize = 253;
/// Fields with containers, and whether they are init containers.
const CONTAINERS: [(&str, bool); 2] = [("containers", false), ("initContainers", true)];

/// A container with its image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FollowedContainer {
    pub(crate) is_init: bool,
    pub(crate) name: String,
    pub(crate) image: String,
}

/// Whether the Pods of a workload are those of its template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Ready,
    Running,
    /// Its controller has given up; the text is its own.
    Failed(String),
}

/// What is kept of a workload between two checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedWorkload {
    /// Whether it has a policy of its own, or a record of one.
    pub(crate) asks: bool,
    /// Whether it is left alone whatever it asks for.
    pub(crate) is_left_alone: bool,
    /// Its release.
    pub(crate) release: Option<ReleaseId>,
    /// Those that are rolled out one after the other: those of the release in this namespace, or the workload alone.
    pub(crate) group: String,
    /// The paths of its images in their registries, in lower case.
    pub(crate) repositories: Vec<String>,
    /// What it asks for without effect, for people.
    pub(crate) ignored: Option<String>,
    /// Changes when a check may have another result.
    fingerprint: u64,
}

impl WatchedWorkload {
    #[allow(clippy::needless_pass_by_value, reason = "the object is dropped here: nothing else of it stays")]
    pub(crate) fn of(kind: &Gvk, object: Value) -> Self {
        let meta = ObjectMeta::of(&object);
        let mut hasher = DefaultHasher::new();
        meta.annotations().filter(|(name, _)| counts(name)).for_each(|pair| pair.hash(&mut hasher));
        meta.labels()
            .filter(|(name, _)| name.starts_with("keel.sh/"))
            .for_each(|pair| pair.hash(&mut hasher));
        for container in containers(&object) {
            (container.name, container.image).hash(&mut hasher);
        }
        (progress(&kind.kind, &object) == Progress::Running).hash(&mut hasher);
        let (release, own) = (release_of(meta), meta.namespace().unwrap_or_default());
        // Whoever writes to a namespace may write marks of any release: they reach no other namespace.
        let group = match &release {
            Some(release) => format!("release:{own}:{release}"),
            None => format!("alone:{own}/{}/{}", kind.kind, meta.name()),
        };
        let has_record = meta.annotation(IMAGE_RECORD).is_some();
        let left_alone = meta.is_deleting() || meta.annotation(HOOK).is_some();
        Self {
            asks: has_policy(meta) || has_record,
            is_left_alone: left_alone,
            release,
            group,
            repositories: repositories(&object),
            ignored: ignored_annotations(meta),
            fingerprint: hasher.finish(),
        }
    }
}

fn repositories(object: &Value) -> Vec<String> {
    let images = containers(object).into_iter().filter_map(|one| ImageReference::parse(&one.image).ok());
    images.map(|image| image.location.repository.to_lowercase()).collect()
}

/// Whether an annotation may change what a check does: not those that checks and other controllers write with each rollout.
fn counts(name: &str) -> bool {
    (name.starts_with("windlass.dev/image-") || name.starts_with("keel.sh/"))
        && name != IMAGE_RECORD
        && name != REQUESTED_IMAGES
}

/// The release of an object, as Helm marks it: namespace and name.
pub(crate) fn release_of(meta: ObjectMeta<'_>) -> Option<ReleaseId> {
    let name = meta.annotation("meta.helm.sh/release-name")?;
    let namespace = meta.annotation("meta.helm.sh/release-namespace")?;
    if name.len().max(namespace.len()) > MAX_NAME {
        return None;
    }
    (meta.label("app.kubernetes.io/managed-by") == Some("Helm")).then(|| ReleaseId::new(namespace, name))
}

/// The fields from a workload to the spec of its Pods.
pub(crate) fn template_path(kind: &str) -> &'static [&'static str] {
    match kind {
        "CronJob" => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => &["spec", "template", "spec"],
    }
}

/// The spec of a workload's Pods.
pub(crate) fn pod_spec<'o>(kind: &str, object: &'o Value) -> &'o Value {
    template_path(kind).iter().fold(object, |node, key| &node[*key])
}

/// The containers of a workload; more than [`MAX_CONTAINERS`] are not followed.
pub(crate) fn containers(object: &Value) -> Vec<FollowedContainer> {
    let kind = if object["spec"]["jobTemplate"].is_null() { "" } else { "CronJob" };
    let spec = pod_spec(kind, object);
    let all = CONTAINERS.into_iter().flat_map(|(field, is_init)| {
        let items = spec[field].as_array().into_iter().flatten();
        items.filter_map(move |item| {
            let text = |field: &str| item[field].as_str().map(str::to_owned);
            Some(FollowedContainer { is_init, name: text("name")?, image: text("image")? })
        })
    });
    all.take(MAX_CONTAINERS).collect()
}

/// Whether the Pods of a workload are those of its template, and available.
pub(crate) fn progress(kind: &str, object: &Value) -> Progress {
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |value: &Value, default: i64| value.as_i64().unwrap_or(default);
    if kind != "CronJob" && count(&status["observedGeneration"], 0) < ObjectMeta::of(object).generation() {
        return Progress::Running;
    }
    let wanted = count(&spec["replicas"], 1);
    let is_ready = match kind {
        "CronJob" => true,
        "DaemonSet" | "StatefulSet" if spec["updateStrategy"]["type"] == "OnDelete" => true,
        "DaemonSet" => {
            let wanted = count(&status["desiredNumberScheduled"], 0);
            count(&status["updatedNumberScheduled"], 0) >= wanted
                && count(&status["numberAvailable"], 0) >= wanted
        }
        "StatefulSet" => {
            let partition = count(&spec["updateStrategy"]["rollingUpdate"]["partition"], 0);
            count(&status["updatedReplicas"], 0) >= wanted - partition
                && count(&status["readyReplicas"], 0) >= wanted
        }
        _ => {
            count(&status["updatedReplicas"], 0) >= wanted
                && count(&status["availableReplicas"], 0) >= wanted
                && count(&status["replicas"], 0) <= wanted
        }
    };
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut exceeded = conditions.filter(|one| one["reason"] == "ProgressDeadlineExceeded");
    match (is_ready, exceeded.next()) {
        (true, _) => Progress::Ready,
        (false, Some(condition)) => {
            Progress::Failed(condition["message"].as_str().unwrap_or("ProgressDeadlineExceeded").to_owned())
        }
        (false, None) => Progress::Running,
    }
}

/// The labels by which Pods of a workload are listed; `None`: its Pods are not told apart so.
pub(crate) fn pod_selector(object: &Value) -> Option<String> {
    let labels = object["spec"]["selector"]["matchLabels"].as_object()?;
    let pairs = labels.iter().map(|(name, value)| Some(format!("{name}={}", value.as_str()?)));
    pairs.collect::<Option<Vec<_>>>().map(|pairs| pairs.join(",")).filter(|text| !text.is_empty())
}

/// The images that a container of these Pods runs, as their runtimes name them. Pods of an earlier template, with another image, do not
/// count: they are being replaced.
pub(crate) fn image_ids<'p>(pods: &'p [Value], container: &FollowedContainer) -> Vec<&'p str> {
    let (list, statuses) = match container.is_init {
        true => ("initContainers", "initContainerStatuses"),
        false => ("containers", "containerStatuses"),
    };
    let of_name = |list: &'p Value| {
        list.as_array().into_iter().flatten().find(|item| item["name"] == container.name.as_str())
    };
    let is_current = |pod: &&'p Value| {
        let own = of_name(&pod["spec"][list]);
        !ObjectMeta::of(pod).is_deleting() && own.is_some_and(|own| own["image"] == container.image.as_str())
    };
    let running = |pod: &'p Value| of_name(&pod["status"][statuses])?["imageID"].as_str();
    pods.iter().filter(|pod| is_current(pod)).filter_map(running).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rollout_is_through_when_its_pods_are_available() {
        let web = |spec: Value, status: Value| json!({"metadata": {"generation": 2}, "spec": spec, "status": status});
        let seen = |mut status: Value| {
            status["observedGeneration"] = 2.into();
            status
        };
        let exceeded =
            json!([{"type": "Progressing", "reason": "ProgressDeadlineExceeded", "message": "too late"}]);
        let all = json!({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2});
        for (kind, spec, status, expected) in [
            ("Deployment", json!({"replicas": 2}), all.clone(), Progress::Running),
            ("Deployment", json!({"replicas": 2}), seen(all.clone()), Progress::Ready),
            ("Deployment", json!({}), seen(json!({})), Progress::Running),
            ("Deployment", json!({"replicas": 0}), seen(json!({})), Progress::Ready),
            ("Deployment", json!({"replicas": 1}), seen(all.clone()), Progress::Running),
            (
                "Deployment",
                json!({}),
                seen(json!({"conditions": exceeded})),
                Progress::Failed("too late".to_owned()),
            ),
            ("StatefulSet", json!({"replicas": 2}), seen(all), Progress::Ready),
            (
                "StatefulSet",
                json!({"updateStrategy": {"type": "OnDelete"}}),
                seen(json!({})),
                Progress::Ready,
            ),
            ("DaemonSet", json!({}), seen(json!({"desiredNumberScheduled": 1})), Progress::Running),
            ("DaemonSet", json!({}), seen(json!({})), Progress::Ready),
            ("CronJob", json!({}), json!({}), Progress::Ready),
        ] {
            assert_eq!(
                progress(kind, &web(spec.clone(), status.clone())),
                expected,
                "{kind} {spec} {status}"
            );
        }
    }

    #[test]
    fn a_check_is_woken_by_what_it_reads() {
        let object = |annotations: Value, image: &str| {
            json!({
                "metadata": {"name": "web", "namespace": "n", "annotations": annotations, "labels": {"app.kubernetes.io/managed-by": "Helm"}},
                "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}], "initContainers": [{"name": "i", "image": "i"}]}}},
            })
        };
        let kind = Gvk::new("apps/v1", "Deployment");
        let of = |annotations: Value, image: &str| WatchedWorkload::of(&kind, object(annotations, image));
        let base = of(json!({"keel.sh/policy": "all"}), "web:1");
        assert!(base.asks && base.release.is_none() && base.group == "alone:n/Deployment/web");
        assert_eq!(base, of(json!({"keel.sh/policy": "all", "note": "x", IMAGE_RECORD: "{}"}), "web:1"));
        for other in
            [of(json!({"keel.sh/policy": "major"}), "web:1"), of(json!({"keel.sh/policy": "all"}), "web:2")]
        {
            assert_ne!(base, other);
        }
        let release = json!({"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "n"});
        let released = of(release, "web:1");
        assert!(!released.asks && released.release == Some(ReleaseId::new("n", "r")));
        assert_eq!(released.group, "release:n:n/r");
        let mut forged =
            object(json!({"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "n"}), "web:1");
        forged["metadata"]["namespace"] = "other".into();
        assert_eq!(WatchedWorkload::of(&kind, forged).group, "release:other:n/r");
        let read = containers(&object(json!({}), "web:1"));
        assert_eq!(
            read.iter().map(|one| (one.name.as_str(), one.is_init)).collect::<Vec<_>>(),
            [("main", false), ("i", true)]
        );
        let pod = |image: &str, id: &str| {
            json!({
                "spec": {"containers": [{"name": "x", "image": "x"}, {"name": "main", "image": image}]},
                "status": {"containerStatuses": [{"name": "main", "imageID": id}, {"name": "x", "imageID": "y"}]},
            })
        };
        let pods = [pod("web:0", "web@sha256:0"), pod("web:1", "web@sha256:1")];
        assert_eq!(image_ids(&pods, &read[0]), ["web@sha256:1"]);
        let selector = json!({"spec": {"selector": {"matchLabels": {"app": "web", "tier": "a"}}}});
        assert_eq!(pod_selector(&selector).as_deref(), Some("app=web,tier=a"));
        assert_eq!(pod_selector(&json!({})), None);
    }
}
