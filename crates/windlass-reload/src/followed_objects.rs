//! What is kept of workloads and of configuration: no data of Secrets, and of a Pod template only what it uses. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use windlass_cluster::{Gvk, ObjectMeta};

use super::collected_configuration::{
    CollectedVolumes, CollectionRequest, collection_requests, collections_of,
};
use super::configuration_digest::{config_map_digest, mounted_digest, secret_digest};
use super::pod_references::{Configuration, MAX_REFERENCES, pod_references};
use super::reload_annotations::{ConfigurationMarks, ReloadRequest};
use super::reload_decision::{Digests, read_record};

/// The kinds that are rolled out: API version and kind.
pub const WORKLOAD_KINDS: [(&str, &str); 6] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("argoproj.io/v1alpha1", "Rollout"),
];
/// The kinds whose changes roll out workloads, and what tells which version of a SecretProviderClass is mounted.
pub const CONFIGURATION_KINDS: [(&str, &str); 4] = [
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("secrets-store.csi.x-k8s.io/v1", "SecretProviderClass"),
    ("secrets-store.csi.x-k8s.io/v1", "SecretProviderClassPodStatus"),
];
/// Annotation of a workload: the digests of what it follows, as they were when it was rolled out last.
pub(crate) const RECORD: &str = "windlass.dev/configuration-digests";
/// Annotation of a CronJob or Job: how often it was rolled out.
pub(crate) const RELOADS: &str = "windlass.dev/reloads";
/// Annotation of a Deployment that a change has paused: since when.
pub(crate) const PAUSED_AT: &str = "deployment.reloader.stakater.com/paused-at";
/// Annotation of Helm's hooks.
const HOOK: &str = "helm.sh/hook";
/// How annotations of Pod templates begin with which charts roll out workloads themselves.
const CHECKSUM: &str = "checksum/";

/// A kind that is rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadKind {
    /// By a change of its Pod template.
    Template,
    /// A Deployment: by a change of its Pod template, which may be paused.
    Deployment,
    /// A CronJob: by a Job.
    CronJob,
    /// A Job: by another Job of its name.
    Job,
    /// A Rollout of Argo.
    Rollout,
}

/// A release: namespace and name.
pub(crate) type Release = (String, String);

/// What is kept of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) kind: WorkloadKind,
    pub(crate) uid: String,
    /// Versions of one object are numbers that grow.
    pub(crate) version: Option<u64>,
    /// What it asks for.
    pub(crate) request: ReloadRequest,
    /// What its Pods use.
    pub(crate) used: BTreeSet<Configuration>,
    /// The collections that it asks for.
    pub(crate) collections: Vec<CollectionRequest>,
    /// The collections that its Pod template has.
    pub(crate) collected: CollectedVolumes,
    /// Its containers that may have collections, if it asks for any.
    pub(crate) containers: Vec<String>,
    /// The release that it is of.
    pub(crate) release: Option<Release>,
    /// Its chart rolls it out when the chart's own configuration changes.
    pub(crate) has_checksum: bool,
    /// The digests of the last rollout.
    pub(crate) recorded: Option<Digests>,
    /// How often it was rolled out, of CronJobs and Jobs.
    pub(crate) reloads: u64,
    pub(crate) is_paused: bool,
    /// Since when a change has paused it.
    pub(crate) paused_at: Option<Timestamp>,
    /// It is being deleted, or is of something that is rolled out: a Job of a CronJob, a hook.
    pub(crate) is_left_alone: bool,
}

/// What is kept of an object of configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigurationState {
    pub(crate) digest: String,
    pub(crate) marks: ConfigurationMarks,
    /// The collections that it is part of.
    pub(crate) collections: BTreeSet<String>,
    pub(crate) release: Option<Release>,
}

/// What a Pod has mounted of a SecretProviderClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountedVersion {
    pub(crate) class: String,
    pub(crate) digest: String,
    /// Versions of one kind are numbers that grow.
    pub(crate) version: Option<u64>,
}

/// What is kept of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FollowedObject {
    Workload(Box<Workload>),
    Configuration(ConfigurationState),
    Mounted(MountedVersion),
}

impl FollowedObject {
    /// What is kept of an object of one of the kinds.
    #[allow(clippy::needless_pass_by_value, reason = "the object is dropped here: nothing else of it stays")]
    pub(crate) fn of(kind: &Gvk, object: Value) -> Self {
        let meta = ObjectMeta::of(&object);
        let configuration = |digest| {
            Self::Configuration(ConfigurationState {
                digest,
                marks: ConfigurationMarks::of(meta),
                collections: collections_of(meta),
                release: release_of(meta),
            })
        };
        match kind.kind.as_str() {
            "ConfigMap" => configuration(config_map_digest(&object)),
            "Secret" => configuration(secret_digest(&object)),
            // Its own fields say where secrets are, not which.
            "SecretProviderClass" => configuration(String::new()),
            "SecretProviderClassPodStatus" => Self::Mounted(MountedVersion {
                class: object["status"]["secretProviderClassName"].as_str().unwrap_or_default().to_owned(),
                digest: mounted_digest(&object),
                version: meta.version_number(),
            }),
            _ => Self::Workload(Box::new(Workload::of(&kind.kind, &object))),
        }
    }

    /// Whether nothing differs that matters: versions grow with each status.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Workload(one), Self::Workload(other)) => {
                let version = other.version;
                **other == Workload { version, ..(**one).clone() }
            }
            (one, other) => one == other,
        }
    }

    pub(crate) fn workload(&self) -> Option<&Workload> {
        match self {
            Self::Workload(workload) => Some(workload),
            _ => None,
        }
    }
}

impl Workload {
    fn of(kind: &str, object: &Value) -> Self {
        let meta = ObjectMeta::of(object);
        let kind = match kind {
            "Deployment" => WorkloadKind::Deployment,
            "CronJob" => WorkloadKind::CronJob,
            "Job" => WorkloadKind::Job,
            "Rollout" => WorkloadKind::Rollout,
            _ => WorkloadKind::Template,
        };
        let template = match kind {
            WorkloadKind::CronJob => &object["spec"]["jobTemplate"]["spec"]["template"],
            _ => &object["spec"]["template"],
        };
        let template_meta = ObjectMeta::of(template);
        let mut request = ReloadRequest::of(meta, template_meta);
        let mut used = pod_references(&template["spec"]);
        if used.len() > MAX_REFERENCES {
            request.errors.push(format!(
                "its Pods use {} ConfigMaps, Secrets and SecretProviderClasses: only {MAX_REFERENCES} are followed",
                used.len()
            ));
            used = used.into_iter().take(MAX_REFERENCES).collect();
        }
        let containers = containers(&template["spec"]);
        let (collections, errors) =
            collection_requests(kind, meta, template_meta, (&containers, &template["spec"]));
        request.errors.extend(errors);
        let owners = object["metadata"]["ownerReferences"].as_array();
        let has_controller = owners.into_iter().flatten().any(|owner| owner["controller"] == true);
        Self {
            kind,
            uid: meta.uid().to_owned(),
            version: meta.version_number(),
            request,
            used,
            containers: if collections.is_empty() { Vec::new() } else { containers },
            collections,
            collected: CollectedVolumes::of(&template["spec"]),
            release: release_of(meta),
            has_checksum: template_meta.annotations().any(|(name, _)| name.starts_with(CHECKSUM)),
            recorded: meta.annotation(RECORD).and_then(read_record),
            reloads: meta.annotation(RELOADS).and_then(|text| text.parse().ok()).unwrap_or_default(),
            is_paused: object["spec"]["paused"] == true,
            paused_at: meta.annotation(PAUSED_AT).map(|text| text.parse().unwrap_or_default()),
            is_left_alone: meta.is_deleting()
                || meta.annotation(HOOK).is_some()
                || kind == WorkloadKind::Job && has_controller,
        }
    }

    /// When it is to go on, if a change has paused it. A period that is gone is over.
    pub(crate) fn resumes_at(&self) -> Option<Timestamp> {
        let since = self.paused_at.filter(|_| self.is_paused)?;
        let period = self.request.pause.and_then(|period| jiff::SignedDuration::try_from(period).ok());
        // What lies beyond the calendar never comes.
        Some(period.map_or(Timestamp::MIN, |period| since.checked_add(period).unwrap_or(Timestamp::MAX)))
    }

    /// Whether it follows what its Pods use if it does not say so: not what its own chart rolls it out for.
    pub(crate) fn follows_by_default(&self, all: bool, configuration: Option<&ConfigurationState>) -> bool {
        let same = configuration.is_some_and(|of| of.release.is_some() && of.release == self.release);
        all && !(self.has_checksum && same)
    }
}

/// The names of the containers of a Pod spec, init containers left out.
fn containers(pod: &Value) -> Vec<String> {
    let containers = pod["containers"].as_array().into_iter().flatten();
    containers.filter_map(|container| container["name"].as_str()).map(str::to_owned).collect()
}

/// The release of an object, as Helm marks it.
fn release_of(meta: ObjectMeta<'_>) -> Option<Release> {
    let name = meta.annotation("meta.helm.sh/release-name")?;
    let namespace = meta.annotation("meta.helm.sh/release-namespace")?;
    (meta.label("app.kubernetes.io/managed-by") == Some("Helm"))
        .then(|| (namespace.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workload(kind: &str, object: &Value) -> Workload {
        FollowedObject::of(&Gvk::new("x/v1", kind), object.clone()).workload().unwrap().clone()
    }

    #[test]
    fn what_matters_of_a_workload_is_kept() {
        let spec = json!({"containers": [{"envFrom": [{"configMapRef": {"name": "a"}}]}]});
        let release = json!({"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "n"});
        let object = json!({
            "metadata": {"uid": "u", "resourceVersion": "7", "annotations": release, "labels": {"app.kubernetes.io/managed-by": "Helm"}},
            "spec": {"template": {"metadata": {"annotations": {"checksum/config": "1", "reloader.stakater.com/auto": "true"}}, "spec": spec}},
        });
        let found = workload("Deployment", &object);
        assert_eq!(
            (found.kind, found.version, found.has_checksum),
            (WorkloadKind::Deployment, Some(7), true)
        );
        assert_eq!(found.release, Some(("n".to_owned(), "r".to_owned())));
        assert_eq!(found.used.len(), 1);
        let state = |release| ConfigurationState {
            digest: String::new(),
            marks: ConfigurationMarks::default(),
            collections: BTreeSet::new(),
            release,
        };
        assert!(!found.follows_by_default(true, Some(&state(found.release.clone()))));
        assert!(found.follows_by_default(true, Some(&state(None))) && found.follows_by_default(true, None));
        assert!(!found.follows_by_default(false, None));
        let cron = json!({"metadata": {}, "spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}});
        assert_eq!(workload("CronJob", &cron).used.len(), 1);
        for (kind, meta, alone) in [
            ("Job", json!({"ownerReferences": [{"controller": true}]}), true),
            ("StatefulSet", json!({"ownerReferences": [{"controller": true}]}), false),
            ("Job", json!({"annotations": {"helm.sh/hook": "post-install"}}), true),
            ("Deployment", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), true),
        ] {
            assert_eq!(workload(kind, &json!({"metadata": meta})).is_left_alone, alone, "{kind} {meta}");
        }
    }

    #[test]
    fn a_paused_deployment_goes_on_after_its_period() {
        let paused = |at: &str, period: &str, is_paused: bool| {
            let annotations = json!({PAUSED_AT: at, "deployment.reloader.stakater.com/pause-period": period});
            let object = json!({"metadata": {"annotations": annotations}, "spec": {"paused": is_paused}});
            workload("Deployment", &object).resumes_at().map(|time| time.to_string())
        };
        let at = "2026-01-01T00:00:00Z";
        assert_eq!(paused(at, "5m", true).as_deref(), Some("2026-01-01T00:05:00Z"));
        assert_eq!(paused(at, "5m", false), None);
        assert_eq!(paused(at, "", true), Some(Timestamp::MIN.to_string()));
        assert_eq!(paused("never", "1s", true).as_deref(), Some("1970-01-01T00:00:01Z"));
    }

    #[test]
    fn of_a_secret_only_its_digest_stays() {
        let secret = json!({"metadata": {"uid": "u"}, "data": {"a": "c2VjcmV0"}});
        let kept = format!("{:?}", FollowedObject::of(&Gvk::new("v1", "Secret"), secret));
        assert!(kept.contains("digest") && !kept.contains("c2VjcmV0"), "{kept}");
    }
}
