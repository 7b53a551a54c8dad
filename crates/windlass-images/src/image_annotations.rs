//! What a workload asks for: our annotations, and keel's annotations and labels. Pure.
//!
//! Of one setting our annotation counts, then keel's annotation, then keel's label, then our annotation of the object that the workload's
//! release is of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chart_compat::go::duration;
use regex::Regex;
use windlass_cluster::ObjectMeta;

use super::image_reference::ImageReference;
use super::image_workload::FollowedContainer;
use super::poll_schedule::{PollSchedule, SHORTEST};
use super::time_window::TimeWindows;
use super::update_policy::{Policy, bounded_expression};

/// The policy, ours and keel's.
pub(crate) const POLICY: [&str; 2] = ["windlass.dev/image-policy", "keel.sh/policy"];
/// How often the registry is asked.
const INTERVAL: [&str; 2] = ["windlass.dev/image-interval", "keel.sh/pollSchedule"];
/// Whether only versions with the same prerelease come after another.
const MATCH_PRERELEASE: [&str; 3] =
    ["windlass.dev/image-match-prerelease", "keel.sh/matchPreRelease", "keel.sh/match-pre-release"];
/// The Secret with a login for the registry.
const PULL_SECRET: [&str; 2] = ["windlass.dev/image-pull-secret", "keel.sh/imagePullSecret"];
/// Whether images of init containers are followed.
const INIT_CONTAINERS: [&str; 2] = ["windlass.dev/image-init-containers", "keel.sh/initContainers"];
/// An expression for the names of containers that are followed.
const CONTAINERS: [&str; 2] = ["windlass.dev/image-containers", "keel.sh/monitorContainers"];
/// How many users must approve an image.
const APPROVALS: [&str; 2] = ["windlass.dev/image-approvals", "keel.sh/approvals"];
/// How long they have: a duration.
const APPROVAL_DEADLINE: &str = "windlass.dev/image-approval-deadline";
/// The same in hours.
const APPROVAL_HOURS: &str = "keel.sh/approvalDeadline";
/// When images may be rolled out.
const WINDOW: &str = "windlass.dev/image-window";
/// How long the Pods of a rollout have to become ready.
const ROLLOUT_DEADLINE: &str = "windlass.dev/image-rollout-deadline";
/// What follows when they do not.
const ON_FAILURE: &str = "windlass.dev/image-on-failure";

/// keel's way to learn of images: they are always asked for here.
const TRIGGER: &str = "keel.sh/trigger";
/// keel's setting that `force` follows the tag that runs, which it always does here.
const MATCH_TAG: &str = "keel.sh/matchTag";

/// The most names that are said to have no effect.
const MAX_IGNORED: usize = 10;
/// The longest value of an annotation, in bytes.
const MAX_VALUE: usize = 2048;
/// The longest time of any setting.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// keel's default.
const DEFAULT_APPROVAL_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);
/// As a Deployment's own `progressDeadlineSeconds`.
const DEFAULT_ROLLOUT_DEADLINE: Duration = Duration::from_secs(600);

/// What follows when the Pods of a rollout do not become ready in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// The image before comes back.
    #[default]
    Rollback,
    /// Nothing more is rolled out.
    Stop,
    /// Nothing.
    Ignore,
}

/// What the object of a release says of its workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleaseAnnotations {
    /// The object, for people.
    pub(crate) object: String,
    /// Its annotations.
    pub(crate) annotations: BTreeMap<String, String>,
}

/// A Secret with a login that a setting names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretSetting {
    pub(crate) name: String,
    /// Its namespace; `None`: that of the workload, or that of the release where its values name the image.
    pub(crate) namespace: Option<String>,
    /// The object of the release names it.
    pub(crate) of_release: bool,
}

/// What a workload asks for.
pub(crate) struct ImageRequest {
    pub(crate) policy: Arc<Policy>,
    /// As it was written.
    pub(crate) policy_text: String,
    /// The policy and the object of the release whose it is; empty if it is the workload's own.
    pub(crate) release_policy: String,
    /// The only image that is followed, with its registry; `None`: all.
    pub(crate) only_image: Option<String>,
    /// When the registry is asked; `None`: as the operator does.
    pub(crate) polls: Option<PollSchedule>,
    pub(crate) match_prerelease: bool,
    pub(crate) pull_secret: Option<SecretSetting>,
    pub(crate) init_containers: bool,
    containers: Option<Regex>,
    pub(crate) approvals: usize,
    pub(crate) approval_deadline: Duration,
    pub(crate) windows: TimeWindows,
    pub(crate) rollout_deadline: Duration,
    pub(crate) on_failure: OnFailure,
}

/// keel's annotations and labels that have no effect here, with their values where those are the reason; `None`: there are none.
pub(crate) fn ignored_annotations(workload: ObjectMeta<'_>) -> Option<String> {
    let own = [POLICY[1], INTERVAL[1], MATCH_PRERELEASE[1], MATCH_PRERELEASE[2], PULL_SECRET[1]];
    let own = own.into_iter().chain([INIT_CONTAINERS[1], CONTAINERS[1], APPROVALS[1], APPROVAL_HOURS]);
    let has_effect: BTreeSet<&str> = own.collect();
    let says = |(name, text): (&str, &str)| {
        if !name.starts_with("keel.sh/") || has_effect.contains(name) {
            return None;
        }
        match (name, text) {
            // What is done anyway.
            (TRIGGER, "poll") | (MATCH_TAG, "true") => None,
            (TRIGGER | MATCH_TAG, _) => {
                Some(format!("{name}: {}", text.chars().take(40).collect::<String>()))
            }
            _ => Some(name.to_owned()),
        }
    };
    let all: BTreeSet<String> = workload.annotations().chain(workload.labels()).filter_map(says).collect();
    let all: Vec<String> = all.into_iter().take(MAX_IGNORED).collect();
    (!all.is_empty() && has_policy(workload)).then(|| all.join(", "))
}

/// Whether a workload has a policy at all.
pub(crate) fn has_policy(workload: ObjectMeta<'_>) -> bool {
    own_value(workload, &POLICY).is_some()
}

/// The settings of a workload, and those of its release.
#[derive(Clone, Copy)]
struct Settings<'w> {
    workload: ObjectMeta<'w>,
    release: Option<&'w ReleaseAnnotations>,
}

/// A setting as it was written.
struct Setting {
    name: &'static str,
    /// The name for people.
    title: String,
    text: String,
    /// It is of the object of the release.
    of_release: bool,
}

impl Settings<'_> {
    /// The first of some settings that there is.
    fn value(self, names: &[&'static str]) -> Option<Setting> {
        if let Some((name, text)) = own_value(self.workload, names) {
            let (title, text) = (name.to_owned(), text.to_owned());
            return Some(Setting { name, title, text, of_release: false });
        }
        let release = self.release?;
        let (name, text) = names.iter().find_map(|name| Some((*name, release.annotations.get(*name)?)))?;
        let (title, text) = (format!("{name} of {}", release.object), text.trim().to_owned());
        Some(Setting { name, title, text, of_release: true })
    }
}

impl ImageRequest {
    /// What a workload asks for, or its release does for it; `None`: nothing.
    ///
    /// # Errors
    /// Annotations cannot be used; the text names them with their values.
    pub(crate) fn of(
        workload: ObjectMeta<'_>,
        release: Option<&ReleaseAnnotations>,
    ) -> Result<Option<Self>, String> {
        let settings = Settings { workload, release };
        if settings.value(&POLICY).is_none() {
            return Ok(None);
        }
        let mut errors = Vec::new();
        let request = Self::read(settings, &mut errors);
        match request.filter(|_| errors.is_empty()) {
            Some(request) => Ok(Some(request)),
            None => Err(errors.join("; ")),
        }
    }

    fn read(settings: Settings<'_>, errors: &mut Vec<String>) -> Option<Self> {
        let mut take = |names: &[&'static str]| {
            let setting = settings.value(names)?;
            if setting.text.len() > MAX_VALUE {
                errors.push(format!(
                    "{}: {} bytes, more than {MAX_VALUE}",
                    setting.title,
                    setting.text.len()
                ));
                return None;
            }
            Some(setting)
        };
        let texts = [
            take(&POLICY),
            take(&INTERVAL),
            take(&MATCH_PRERELEASE),
            take(&PULL_SECRET),
            take(&INIT_CONTAINERS),
            take(&CONTAINERS),
            take(&APPROVALS),
            take(&[APPROVAL_DEADLINE, APPROVAL_HOURS]),
            take(&[WINDOW]),
            take(&[ROLLOUT_DEADLINE]),
            take(&[ON_FAILURE]),
        ];
        let [
            policy,
            interval,
            prerelease,
            secret,
            init,
            containers,
            approvals,
            hours,
            window,
            deadline,
            failure,
        ] = texts;
        let policy_text = policy.as_ref().map(|policy| policy.text.clone()).unwrap_or_default();
        let policy = read(policy, errors, |_, text| Policy::parse(text)).map(Arc::new);
        let inherited = settings.release.filter(|_| !has_policy(settings.workload));
        let release_policy = inherited.map(|release| format!("{policy_text} of {}", release.object));
        Some(Self {
            release_policy: release_policy.unwrap_or_default(),
            only_image: None,
            polls: read(interval, errors, polls_of),
            match_prerelease: read(prerelease, errors, |_, text| boolean(text)).unwrap_or(true),
            pull_secret: secret.and_then(secret_setting),
            init_containers: read(init, errors, |_, text| boolean(text)).unwrap_or(false),
            containers: read(containers, errors, |_, text| expression(text)),
            approvals: read(approvals, errors, |_, text| number(text)).unwrap_or(0),
            approval_deadline: read(hours, errors, approval_time).unwrap_or(DEFAULT_APPROVAL_DEADLINE),
            windows: read(window, errors, |_, text| TimeWindows::parse(text)).unwrap_or_default(),
            rollout_deadline: read(deadline, errors, |_, text| time(text))
                .unwrap_or(DEFAULT_ROLLOUT_DEADLINE),
            on_failure: read(failure, errors, |_, text| on_failure(text)).unwrap_or_default(),
            policy: policy?,
            policy_text,
        })
    }

    /// Whether the image of a container is followed.
    pub(crate) fn follows(&self, container: &FollowedContainer) -> bool {
        let is_meant =
            |only: &String| ImageReference::parse(&container.image).is_ok_and(|image| image.place() == *only);
        (!container.is_init || self.init_containers)
            && self.containers.as_ref().is_none_or(|expression| expression.is_match(&container.name))
            && self.only_image.as_ref().is_none_or(is_meant)
    }
}

/// The first of some settings that a workload has: annotations first, then keel's as labels.
fn own_value<'w>(workload: ObjectMeta<'w>, names: &[&'static str]) -> Option<(&'static str, &'w str)> {
    let annotated = names.iter().find_map(|name| Some((*name, workload.annotation(name)?)));
    let keels = || names.iter().filter(|name| name.starts_with("keel.sh/"));
    let value = annotated.or_else(|| keels().find_map(|name| Some((*name, workload.label(name)?))));
    value.map(|(name, text)| (name, text.trim()))
}

fn read<T>(
    setting: Option<Setting>,
    errors: &mut Vec<String>,
    parse: impl FnOnce(&str, &str) -> Result<T, String>,
) -> Option<T> {
    let Setting { name, title, text, .. } = setting?;
    parse(name, &text).map_err(|error| errors.push(format!("{title}: {error}"))).ok()
}

fn secret_setting(setting: Setting) -> Option<SecretSetting> {
    let Setting { text: name, of_release, .. } = setting;
    (!name.is_empty()).then_some(SecretSetting { name, namespace: None, of_release })
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "True" | "TRUE" | "1" => Ok(true),
        "false" | "False" | "FALSE" | "0" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

fn number(text: &str) -> Result<usize, String> {
    let read: Result<u8, _> = text.parse();
    read.map(usize::from).map_err(|_| format!("{text:?} is not a number from 0 to 255"))
}

fn expression(text: &str) -> Result<Regex, String> {
    bounded_expression(text).map_err(|error| format!("{text:?}: {error}"))
}

fn on_failure(text: &str) -> Result<OnFailure, String> {
    match text {
        "rollback" => Ok(OnFailure::Rollback),
        "stop" => Ok(OnFailure::Stop),
        "ignore" => Ok(OnFailure::Ignore),
        _ => Err(format!("{text:?} is neither rollback, stop nor ignore")),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let read = duration::parse(text).ok().and_then(|nanoseconds| u64::try_from(nanoseconds).ok());
    let read = read.map(Duration::from_nanos).filter(|time| !time.is_zero() && *time <= LONGEST);
    read.ok_or_else(|| format!("{text:?} is not a duration above 0 and up to a year, such as 5m"))
}

/// keel's deadline is a number of hours; ours is a duration.
fn approval_time(name: &str, text: &str) -> Result<Duration, String> {
    if name != APPROVAL_HOURS {
        return time(text);
    }
    let hours: Result<u16, _> = text.parse();
    match hours.map(|hours| HOUR * u32::from(hours)) {
        Ok(deadline) if !deadline.is_zero() && deadline <= LONGEST => Ok(deadline),
        _ => Err(format!("{text:?} is not a number of hours from 1 to 8784")),
    }
}

/// When registries are asked: ours is a duration, keel's a schedule of cron.
fn polls_of(name: &str, text: &str) -> Result<PollSchedule, String> {
    let interval = match (name == INTERVAL[0], text.strip_prefix("@every ")) {
        (true, _) => time(text)?,
        (false, Some(every)) => time(every.trim())?,
        (false, None) => return PollSchedule::of_cron(text),
    };
    match interval < SHORTEST {
        true => Err(format!("{text:?} is shorter than {} seconds", SHORTEST.as_secs())),
        false => Ok(PollSchedule::Every(interval)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn request(annotations: &Value, labels: &Value) -> Result<Option<ImageRequest>, String> {
        let object = json!({"metadata": {"annotations": annotations, "labels": labels}});
        ImageRequest::of(ObjectMeta::of(&object), None)
    }

    fn every(seconds: u64) -> Option<PollSchedule> {
        Some(PollSchedule::Every(Duration::from_secs(seconds)))
    }

    fn container(name: &str, is_init: bool, image: &str) -> FollowedContainer {
        FollowedContainer { is_init, name: name.to_owned(), image: image.to_owned() }
    }

    #[test]
    fn a_release_says_what_its_workloads_do_not() {
        let pairs = [("image-policy", "semver:~1"), ("image-interval", "5m"), ("image-approvals", "1")];
        let annotations = pairs.map(|(name, text)| (format!("windlass.dev/{name}"), text.to_owned()));
        let mut release =
            ReleaseAnnotations { object: "HelmRelease shop/web".to_owned(), annotations: annotations.into() };
        let request = |annotations: &Value, labels: &Value, release: &ReleaseAnnotations| {
            let object = json!({"metadata": {"annotations": annotations, "labels": labels}});
            ImageRequest::of(ObjectMeta::of(&object), Some(release))
        };
        let inherited = request(&Value::Null, &Value::Null, &release).unwrap().unwrap();
        assert_eq!(inherited.policy_text, "semver:~1");
        assert_eq!(inherited.release_policy, "semver:~1 of HelmRelease shop/web");
        assert_eq!((&inherited.polls, inherited.approvals), (&every(300), 1));
        // Of each setting the workload's own comes first, keel's label too.
        for (annotations, labels) in [
            (json!({"windlass.dev/image-policy": "never", "keel.sh/approvals": "2"}), Value::Null),
            (json!({"keel.sh/policy": "never", "keel.sh/approvals": "2"}), Value::Null),
            (Value::Null, json!({"keel.sh/policy": "never", "keel.sh/approvals": "2"})),
        ] {
            let own = request(&annotations, &labels, &release).unwrap().unwrap();
            assert!(own.policy.is_never() && own.release_policy.is_empty() && own.approvals == 2);
            assert_eq!(own.polls, every(300));
        }
        release.annotations.insert("windlass.dev/image-window".to_owned(), "now".to_owned());
        let error = request(&Value::Null, &Value::Null, &release).err().unwrap();
        assert!(
            error.starts_with("windlass.dev/image-window of HelmRelease shop/web: \"now\" is no window"),
            "{error}"
        );
        release.annotations.clear();
        assert!(request(&Value::Null, &Value::Null, &release).unwrap().is_none());
        release.annotations.insert("windlass.dev/image-policy".to_owned(), String::new());
        assert!(request(&Value::Null, &Value::Null, &release).is_err(), "an empty policy is none");
    }

    #[test]
    fn keels_settings_are_read_of_annotations_and_labels() {
        let keel = json!({
            "keel.sh/policy": "minor", "keel.sh/trigger": "poll", "keel.sh/pollSchedule": "@every 10m",
            "keel.sh/matchPreRelease": "false", "keel.sh/imagePullSecret": "login", "keel.sh/initContainers": "true",
            "keel.sh/monitorContainers": "^web", "keel.sh/approvals": "2", "keel.sh/approvalDeadline": "5",
            "keel.sh/notify": "#general", "keel.sh/releaseNotes": "https://notes.example.test", "keel.sh/matchTag": "true",
        });
        for (annotations, labels) in [(&keel, &Value::Null), (&Value::Null, &keel)] {
            let read = request(annotations, labels).unwrap().unwrap();
            assert!(matches!(*read.policy, Policy::Version(super::super::update_policy::Bump::Minor)));
            assert_eq!(read.polls, every(600));
            let login = SecretSetting { name: "login".to_owned(), namespace: None, of_release: false };
            assert_eq!((read.match_prerelease, &read.pull_secret), (false, &Some(login)));
            assert_eq!((read.approvals, read.approval_deadline), (2, 5 * HOUR));
            for (name, is_init, followed) in
                [("web", false, true), ("web-2", true, true), ("side", false, false)]
            {
                assert_eq!(read.follows(&container(name, is_init, "web:1")), followed, "{name}");
            }
        }
        let own = json!({"windlass.dev/image-policy": "never", "windlass.dev/image-approval-deadline": "30m", "keel.sh/policy": "major",
            "windlass.dev/image-window": "* 08:00-09:00", "windlass.dev/image-on-failure": "stop", "windlass.dev/image-rollout-deadline": "1m"});
        let read = request(&own, &keel).unwrap().unwrap();
        assert!(read.policy.is_never() && read.on_failure == OnFailure::Stop);
        assert_eq!((read.approval_deadline, read.rollout_deadline), (HOUR / 2, Duration::from_secs(60)));
        let plain = request(&json!({"keel.sh/policy": "force"}), &Value::Null).unwrap().unwrap();
        assert!(plain.match_prerelease);
        assert!(
            !plain.follows(&container("init", true, "web:1"))
                && plain.follows(&container("any", false, "web:1"))
        );
        // Of a policy for one image, the others are left alone.
        let only = ImageRequest { only_image: Some("docker.io/library/web".to_owned()), ..plain };
        for (image, followed) in
            [("web:1", true), ("docker.io/library/web:2", true), ("other/web:1", false), ("", false)]
        {
            assert_eq!(only.follows(&container("any", false, image)), followed, "{image}");
        }
        let plain = request(&json!({"keel.sh/policy": "force"}), &Value::Null).unwrap().unwrap();
        assert_eq!((plain.approvals, &plain.polls, plain.on_failure), (0, &None, OnFailure::Rollback));
        assert!(request(&json!({"keel.sh/trigger": "poll"}), &Value::Null).unwrap().is_none());
    }

    #[test]
    fn keels_schedules_are_times() {
        for text in ["0 3 * * *", "0 0 3 * * MON-FRI", "@hourly", "@daily"] {
            let read = request(&json!({"keel.sh/policy": "all", "keel.sh/pollSchedule": text}), &Value::Null);
            let polls = read.unwrap().unwrap().polls.unwrap();
            assert!(matches!(&polls, PollSchedule::Times(cron) if cron.text() == text), "{polls:?}");
        }
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let policy = |name: &str, text: &str| json!({"keel.sh/policy": "force", "note": "x", name: text});
        for (annotations, expected) in [
            (policy("keel.sh/trigger", "poll"), None),
            (policy("keel.sh/matchTag", "true"), None),
            (policy("keel.sh/pollSchedule", "@daily"), None),
            (policy("keel.sh/trigger", "default"), Some("keel.sh/trigger: default")),
            (policy("keel.sh/matchTag", "false"), Some("keel.sh/matchTag: false")),
            (policy("keel.sh/notify", "#general"), Some("keel.sh/notify")),
            (json!({"keel.sh/notify": "#general"}), None),
        ] {
            for field in ["annotations", "labels"] {
                let object = json!({"metadata": {field: annotations}});
                assert_eq!(
                    ignored_annotations(ObjectMeta::of(&object)).as_deref(),
                    expected,
                    "{annotations}"
                );
            }
        }
    }

    #[test]
    fn what_cannot_be_used_is_an_error_with_its_name_and_value() {
        for (name, text, part) in [
            ("keel.sh/policy", "newest", "\"newest\": there are digest"),
            ("keel.sh/pollSchedule", "0 * * *", "\"0 * * *\": it has 4 fields, not 6 with seconds first"),
            ("windlass.dev/image-interval", "0 3 * * *", "\"0 3 * * *\" is not a duration"),
            ("keel.sh/pollSchedule", "@every 1s", "\"@every 1s\" is shorter than 10 seconds"),
            ("windlass.dev/image-interval", "soon", "\"soon\" is not a duration"),
            ("keel.sh/matchPreRelease", "maybe", "\"maybe\" is neither true nor false"),
            ("keel.sh/monitorContainers", "a(", "\"a(\": "),
            ("keel.sh/approvals", "-1", "\"-1\" is not a number from 0 to 255"),
            ("keel.sh/approvalDeadline", "0", "\"0\" is not a number of hours"),
            ("windlass.dev/image-window", "always", "\"always\" is no window"),
            ("windlass.dev/image-on-failure", "panic", "\"panic\" is neither rollback, stop nor ignore"),
            ("windlass.dev/image-rollout-deadline", "-1s", "\"-1s\" is not a duration"),
            ("windlass.dev/image-pull-secret", &"a".repeat(3000), "3000 bytes, more than 2048"),
        ] {
            let mut annotations = json!({"windlass.dev/image-interval": null, "keel.sh/policy": "major"});
            annotations[name] = text.into();
            annotations.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            let error = request(&annotations, &Value::Null).err().unwrap();
            assert!(error.starts_with(name) && error.contains(part), "{error}");
        }
    }
}
