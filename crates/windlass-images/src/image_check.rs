//! One check of the workloads of a release: what runs, what the registry has, and the writes that follow.
//!
//! Reads each workload anew and writes with its resource version, so that a record never stands for another state. One rollout at a time: while
//! one runs, none begins. When checks run is `images_controller`'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta, ObjectRef, PatchKind};
use windlass_controller::EventType;
use windlass_engine::{IMAGE_MANAGER, REQUESTED_IMAGES};

use super::image_annotations::{ImageRequest, OnFailure};
use super::image_decision::{Decision, Found, Situation, later};
use super::image_reference::{ImageReference, running_digest};
use super::image_workload::{
    FollowedContainer, Progress, containers, image_ids, pod_selector, pod_spec, progress, template_path,
};
use super::pull_logins::{PullLogin, login_for};
use super::registry_answers::{NoAnswer, RegistryAnswers};
use super::rollout_record::{
    ContainerRecord, IMAGE_RECORD, RolloutRecord, RunningRollout, TagDigest, WaitingImage, read_approvals,
    read_image_record,
};

/// How often a rollout that runs is looked at beside its events.
const ROLLOUT_INTERVAL: Duration = Duration::from_secs(5);
/// When a workload is checked again that somebody else has written meanwhile.
const CONFLICT_INTERVAL: Duration = Duration::from_secs(1);
/// The most Pods of a workload whose images are read.
const MAX_PODS: usize = 1000;

/// What checks share.
#[derive(Clone)]
pub(crate) struct CheckContext {
    pub(crate) client: Cluster,
    pub(crate) answers: Arc<RegistryAnswers>,
    /// How often registries are asked where a workload does not say it.
    pub(crate) interval: Duration,
}

/// What is said of a workload.
#[derive(Clone, Debug)]
pub(crate) struct CheckReport {
    pub(crate) reference: ObjectRef,
    pub(crate) uid: String,
    pub(crate) event_type: EventType,
    pub(crate) reason: &'static str,
    pub(crate) note: String,
}

/// The result of a check.
#[derive(Default)]
pub(crate) struct CheckResult {
    pub(crate) reports: Vec<CheckReport>,
    /// When the next check is due at the latest; `None`: nothing is followed.
    pub(crate) next: Option<Duration>,
    /// Why the check did not come to its end.
    pub(crate) error: Option<ClusterError>,
}

impl CheckResult {
    fn due_in(&mut self, wait: Duration) {
        self.next = Some(self.next.map_or(wait, |next| next.min(wait)));
    }

    fn report(&mut self, workload: &Checked, event_type: EventType, reason: &'static str, note: String) {
        let (reference, uid) = (workload.reference.clone(), workload.uid().to_owned());
        self.reports.push(CheckReport { reference, uid, event_type, reason, note });
    }
}

/// A workload in a check.
struct Checked {
    reference: ObjectRef,
    object: Value,
    request: Result<Option<ImageRequest>, String>,
    record: RolloutRecord,
}

impl Checked {
    fn of(reference: &ObjectRef, object: Value) -> Self {
        let meta = ObjectMeta::of(&object);
        let (request, record) = (ImageRequest::of(meta), read_image_record(meta));
        Self { reference: reference.clone(), request, record, object }
    }

    fn uid(&self) -> &str {
        ObjectMeta::of(&self.object).uid()
    }

    fn kind(&self) -> &str {
        &self.reference.gvk.kind
    }

    fn runs_rollout(&self) -> bool {
        self.record.values().any(|of| of.rollout.is_some())
    }

    /// The patch of the record, and of the images of some containers.
    fn patch(&self, record: &RolloutRecord, images: &[(FollowedContainer, String)]) -> Value {
        let asked = record.iter().filter(|(_, of)| of.image != of.requested);
        let asked: BTreeMap<&str, &str> =
            asked.map(|(name, of)| (name.as_str(), of.requested.as_str())).collect();
        let text =
            |is_empty: bool, value: Value| if is_empty { Value::Null } else { value.to_string().into() };
        let meta = ObjectMeta::of(&self.object);
        let mut patch = json!({"metadata": {
            "uid": meta.uid(), "resourceVersion": meta.resource_version(),
            "annotations": {
                IMAGE_RECORD: text(record.is_empty(), json!(record)),
                REQUESTED_IMAGES: text(asked.is_empty(), json!(asked)),
            },
        }});
        for (container, image) in images {
            let mut pod = template_path(self.kind()).iter().fold(&mut patch, |node, key| &mut node[*key]);
            let field = if container.is_init { "initContainers" } else { "containers" };
            pod = &mut pod[field];
            if !pod.is_array() {
                *pod = json!([]);
            }
            if let Some(list) = pod.as_array_mut() {
                list.push(json!({"name": container.name, "image": image}));
            }
        }
        patch
    }
}

/// Checks the workloads of one release.
pub(crate) async fn check(context: &CheckContext, members: &[ObjectRef]) -> CheckResult {
    let mut result = CheckResult::default();
    match check_all(context, members, &mut result).await {
        Ok(()) => {}
        // Its status, say: what follows from it is found again.
        Err(error) if error.is_conflict() => result.due_in(CONFLICT_INTERVAL),
        Err(error) => result.error = Some(error),
    }
    result
}

async fn check_all(
    context: &CheckContext,
    members: &[ObjectRef],
    result: &mut CheckResult,
) -> Result<(), ClusterError> {
    let mut workloads = Vec::new();
    for reference in members {
        if let Some(object) = context.client.get(reference).await? {
            workloads.push(Checked::of(reference, object));
        }
    }
    workloads.retain(|workload| !ObjectMeta::of(&workload.object).is_deleting());
    for workload in workloads.iter_mut().filter(|workload| workload.runs_rollout()) {
        let said = result.reports.len();
        let settled = settle(context, workload, result).await;
        if settled.inspect_err(|_| result.reports.truncate(said))? {
            result.due_in(ROLLOUT_INTERVAL);
            return Ok(());
        }
    }
    for workload in &workloads {
        let said = result.reports.len();
        let followed = follow(context, workload, result).await;
        // What was not written is not said either: the next check does both.
        if followed.inspect_err(|_| result.reports.truncate(said))? {
            result.due_in(ROLLOUT_INTERVAL);
            return Ok(());
        }
    }
    Ok(())
}

/// Looks at a rollout that has begun: it is through, or fails, or runs on. Returns whether it runs on.
async fn settle(
    context: &CheckContext,
    workload: &mut Checked,
    result: &mut CheckResult,
) -> Result<bool, ClusterError> {
    let now = Timestamp::now();
    let images: BTreeMap<String, String> =
        containers(&workload.object).into_iter().map(|one| (one.name, one.image)).collect();
    let mut record = workload.record.clone();
    let deadline = match &workload.request {
        Ok(Some(request)) => Some(request.rollout_deadline),
        _ => None,
    };
    for (name, of) in record.iter_mut().filter(|(_, of)| of.rollout.is_some()) {
        // The release, or somebody, has written another image since, or the workload has no policy any more.
        if deadline.is_none() || images.get(name) != Some(&of.image) {
            of.rollout = None;
        }
    }
    let deadline = deadline.unwrap_or_default();
    let rollouts = record.values().filter_map(|of| of.rollout.as_ref());
    // A paused Deployment goes on when somebody says so.
    let is_paused = workload.object["spec"]["paused"] == true;
    let is_late = !is_paused && rollouts.clone().any(|rollout| later(rollout.since, deadline) <= now);
    let why = match progress(workload.kind(), &workload.object) {
        _ if rollouts.count() == 0 => None,
        Progress::Ready => {
            let image = |of: &ContainerRecord| of.rollout.is_some().then(|| of.current.to_string());
            let through: Vec<String> = record.values().filter_map(image).collect();
            let note = format!("{} is ready", through.join(", "));
            result.report(workload, EventType::Normal, "ImageUpdateReady", note);
            None
        }
        Progress::Failed(text) => Some(text),
        Progress::Running if is_late => {
            Some(format!("its Pods are not ready after {} s", deadline.as_secs()))
        }
        Progress::Running => return Ok(true),
    };
    let mut changed = Vec::new();
    if let Some(why) = why {
        changed = fail(workload, &mut record, &why, result);
    }
    record.values_mut().for_each(|of| of.rollout = None);
    let patch = workload.patch(&record, &changed);
    let written = write(context, &workload.reference, &patch).await?;
    *workload = Checked::of(&workload.reference, written.unwrap_or_default());
    Ok(false)
}

/// Notes a rollout that has failed. Returns the images that come back.
fn fail(
    workload: &Checked,
    record: &mut RolloutRecord,
    why: &str,
    result: &mut CheckResult,
) -> Vec<(FollowedContainer, String)> {
    let policy = match &workload.request {
        Ok(Some(request)) => request.on_failure,
        _ => OnFailure::Ignore,
    };
    let mut back = Vec::new();
    for container in containers(&workload.object) {
        let Some(of) = record.get_mut(&container.name) else { continue };
        let Some(rollout) = of.rollout.take() else { continue };
        let failed = of.current.clone();
        of.note_failed(&failed.digest);
        let next = match policy {
            OnFailure::Ignore => "it is left as it is".to_owned(),
            OnFailure::Stop => {
                of.stopped = true;
                "it is left as it is, and nothing more is rolled out until the release has another image"
                    .to_owned()
            }
            OnFailure::Rollback => {
                of.known.retain(|known| *known != rollout.previous.digest);
                (of.current, of.image) = (rollout.previous, rollout.before.clone());
                back.push((container.clone(), rollout.before.clone()));
                format!("{} is back, and this digest is not tried again", rollout.before)
            }
        };
        let note = format!("container {}: {failed} did not become ready: {why}; {next}", container.name);
        result.report(workload, EventType::Warning, "ImageUpdateFailed", note);
    }
    back
}

/// Asks for newer images of a workload, and rolls them out. Returns whether a rollout has begun.
async fn follow(
    context: &CheckContext,
    workload: &Checked,
    result: &mut CheckResult,
) -> Result<bool, ClusterError> {
    let request = match &workload.request {
        Ok(Some(request)) if !request.policy.is_never() && workload.object["spec"]["paused"] != true => {
            request
        }
        Ok(_) => return Ok(false),
        Err(error) => {
            result.report(workload, EventType::Warning, "InvalidImageAnnotation", error.clone());
            return Ok(false);
        }
    };
    let interval = request.interval.unwrap_or(context.interval);
    result.due_in(interval);
    let mut run = Run { context, workload, request, pods: None, interval };
    let mut record = workload.record.clone();
    let all = containers(&workload.object);
    record.retain(|name, _| all.iter().any(|container| container.name == *name));
    let mut images = Vec::new();
    for container in all {
        if !request.follows(&container.name, container.is_init) {
            continue;
        }
        let of = record.entry(container.name.clone()).or_default();
        match run.container(&container, of, result).await {
            Ok(Some(image)) => images.push((container, image)),
            Ok(None) => {}
            Err(Failure::Cluster(error)) => return Err(error),
            Err(Failure::Text(text, again)) => {
                if let Some(again) = again {
                    result.due_in(again.saturating_duration_since(Instant::now()));
                }
                let note = format!("container {}: {text}", container.name);
                result.report(workload, EventType::Warning, "ImageCheckFailed", note);
            }
        }
    }
    if images.is_empty() && record == workload.record {
        return Ok(false);
    }
    let written = write(context, &workload.reference, &workload.patch(&record, &images)).await?;
    if written.is_some() {
        for (container, image) in &images {
            let note = format!(
                "container {}: {} is rolled out instead of {}",
                container.name, image, container.image
            );
            result.report(workload, EventType::Normal, "ImageUpdate", note);
        }
    }
    Ok(written.is_some() && !images.is_empty())
}

/// Why a container could not be checked.
enum Failure {
    Cluster(ClusterError),
    /// For people, and when it is tried again.
    Text(String, Option<Instant>),
}

impl From<NoAnswer> for Failure {
    fn from(error: NoAnswer) -> Self {
        Self::Text(error.text, error.again)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Text(text, None)
    }
}

/// The check of one workload.
struct Run<'a> {
    context: &'a CheckContext,
    workload: &'a Checked,
    request: &'a ImageRequest,
    /// The workload's Pods, once they were listed.
    pods: Option<Vec<Value>>,
    interval: Duration,
}

impl Run<'_> {
    /// Checks one container. Returns the image that is to be written.
    async fn container(
        &mut self,
        container: &FollowedContainer,
        of: &mut ContainerRecord,
        result: &mut CheckResult,
    ) -> Result<Option<String>, Failure> {
        let image = ImageReference::parse(&container.image)?;
        rebase(of, &container.image, &image);
        if of.current.tag.is_empty() {
            return Err(format!("{} has no tag that could be followed", container.image).into());
        }
        let namespace = self.workload.reference.namespace.as_deref().unwrap_or_default();
        let pod = pod_spec(self.workload.kind(), &self.workload.object);
        let named = self.request.pull_secret.as_deref();
        let login = login_for(&self.context.client, namespace, &image.location, named, pod).await?;
        let Some(newest) = self.newest(&image, of, &login).await? else {
            of.waiting = None;
            return Ok(None);
        };
        let running = match image.location.digest {
            None => self.running(container).await.map_err(Failure::Cluster)?,
            Some(_) => Vec::new(),
        };
        let is_other = |digest: &String| !digest.is_empty() && *digest != newest.digest;
        let platforms = match running.iter().any(is_other) || is_other(&of.current.digest) {
            true => self.context.answers.platforms(&image.at(&newest.digest), &login).await?.to_vec(),
            // Registries count requests for manifests.
            false => Vec::new(),
        };
        let found = Found { image: newest, platforms };
        if image.location.digest.is_none() {
            of.current.digest = baseline(of, &running, &found);
        }
        let approvals = read_approvals(ObjectMeta::of(&self.workload.object));
        let approval = approvals.get(&container.name);
        let now = Timestamp::now();
        let situation = Situation { request: self.request, record: of, approval, found: &found, now };
        let decision = situation.decide();
        let (note, image) = take(of, decision, container, &image, now);
        if let Some((reason, note)) = note {
            result.report(
                self.workload,
                EventType::Normal,
                reason,
                format!("container {}: {note}", container.name),
            );
        }
        Ok(image)
    }

    /// The image that the policy chooses; `None`: the one that runs.
    async fn newest(
        &self,
        image: &ImageReference,
        of: &ContainerRecord,
        login: &PullLogin,
    ) -> Result<Option<TagDigest>, Failure> {
        // Half of it: who asks next may be another workload, with the same image.
        let (answers, age) = (&self.context.answers, self.interval / 2);
        let tag = match self.request.policy.keeps_tag() {
            true => of.current.tag.clone(),
            false => {
                let tags = answers.tags(&image.location, login, age).await?;
                let next = self.request.policy.next(&of.current.tag, &tags, self.request.match_prerelease)?;
                let Some(tag) = next else { return Ok(None) };
                tag.to_owned()
            }
        };
        let digest = answers.digest(&image.tagged(&tag), login, age).await?;
        Ok(Some(TagDigest { tag, digest }))
    }

    /// The digests that the Pods of the workload run in a container.
    async fn running(&mut self, container: &FollowedContainer) -> Result<Vec<String>, ClusterError> {
        if self.pods.is_none() {
            let namespace = self.workload.reference.namespace.as_deref();
            let mut pods = match pod_selector(&self.workload.object) {
                Some(labels) => self.context.client.list(&Gvk::new("v1", "Pod"), namespace, &labels).await?,
                None => Vec::new(),
            };
            pods.truncate(MAX_PODS);
            self.pods = Some(pods);
        }
        let ids = image_ids(self.pods.as_deref().unwrap_or_default(), container);
        Ok(ids.into_iter().filter_map(running_digest).map(str::to_owned).collect())
    }
}

/// Begins a record anew if the container has another image than the one that was written last: the release has changed it, or somebody.
fn rebase(of: &mut ContainerRecord, text: &str, image: &ImageReference) {
    if of.image == text {
        return;
    }
    *of = ContainerRecord {
        requested: text.to_owned(),
        image: text.to_owned(),
        current: TagDigest {
            tag: image.tag().unwrap_or_default().to_owned(),
            digest: image.location.digest.clone().unwrap_or_default(),
        },
        // What did not become ready does not do so because the release names it.
        failed: std::mem::take(&mut of.failed),
        ..ContainerRecord::default()
    };
}

/// The digest that runs where the image names none: that of the Pods. Without Pods it is the one that was recorded, or the first one seen
/// under the tag.
fn baseline(of: &ContainerRecord, running: &[String], found: &Found) -> String {
    let is_new = |digest: &&String| **digest == found.image.digest || found.platforms.contains(digest);
    match running.iter().find(|digest| !is_new(digest)) {
        Some(old) => old.clone(),
        None if !running.is_empty() => found.image.digest.clone(),
        None if of.current.digest.is_empty() && of.current.tag == found.image.tag => {
            found.image.digest.clone()
        }
        None => of.current.digest.clone(),
    }
}

/// Takes a decision into the record. Returns what is said, and the image that is to be written.
fn take(
    of: &mut ContainerRecord,
    decision: Decision,
    container: &FollowedContainer,
    image: &ImageReference,
    now: Timestamp,
) -> (Option<(&'static str, String)>, Option<String>) {
    match decision {
        Decision::UpToDate => {
            of.waiting = None;
            (None, None)
        }
        Decision::SameImage(same) => {
            let note = format!(
                "the tag {} is the image that runs as {}: nothing is rolled out",
                same.tag, of.current.tag
            );
            (of.waiting, of.current.tag) = (None, same.tag);
            (Some(("SameImage", note)), None)
        }
        Decision::Wait(waiting) => {
            let is_news = of.waiting.as_ref() != Some(&waiting);
            let WaitingImage { image, reason, wants_approval, .. } = &waiting;
            let word = if *wants_approval { "ImageWaitsForApproval" } else { "ImageWaits" };
            let note = is_news.then(|| (word, format!("{image} is newer than {}: {reason}", of.current)));
            of.waiting = Some(waiting);
            (note, None)
        }
        Decision::RollOut(new) => {
            if !of.current.digest.is_empty() {
                of.retire_current();
            }
            of.known.retain(|known| *known != new.digest);
            let text = image.pinned(&new.tag, &new.digest);
            let previous = std::mem::replace(&mut of.current, new);
            of.rollout = Some(RunningRollout { since: now, before: container.image.clone(), previous });
            (of.waiting, of.image) = (None, text.clone());
            (None, Some(text))
        }
    }
}

/// Writes to a workload. Returns it as it is then; `None`: it is gone.
async fn write(
    context: &CheckContext,
    reference: &ObjectRef,
    patch: &Value,
) -> Result<Option<Value>, ClusterError> {
    match context.client.patch_subresource(reference, "", PatchKind::Strategic, patch, IMAGE_MANAGER).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
