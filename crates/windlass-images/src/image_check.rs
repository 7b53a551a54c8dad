//! One check of the workloads of a release: what runs, what the registry has, and the writes that follow.
//!
//! Reads each workload anew and writes with its resource version, so that a record never stands for another state. One rollout at a time: while
//! one runs, none begins. When checks run is `images_controller`'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use windlass_base::redact;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta, ObjectRef, PatchKind};
use windlass_controller::{AllReleaseSettings, EventType, ReleaseRunner};
use windlass_engine::IMAGE_MANAGER;

use super::checked_workload::Checked;
use super::cloud_logins::CloudLogins;
use super::image_annotations::{ImageRequest, OnFailure};
use super::image_decision::{Decision, Found, Situation, later};
use super::image_reference::{ImageReference, running_digest};
use super::image_workload::{
    FollowedContainer, Progress, containers, image_ids, pod_selector, pod_spec, progress,
};
use super::poll_schedule::PollSchedule;
use super::pull_logins::{LoginSources, NamedSecret, OperatorSecret, OriginLogins};
use super::record_changes::{end_replaced, note_rewritten, note_running, rebase, take, take_back};
use super::registry_answers::{NoAnswer, RegistryAnswers};
use super::rollout_record::{ContainerRecord, RolloutRecord, TagDigest, read_approvals};
use super::update_policy::CHOICE_LIMIT;

/// How often a rollout that runs is looked at beside its events.
pub(super) const ROLLOUT_INTERVAL: Duration = Duration::from_secs(5);
/// When a workload is checked again that somebody else has written meanwhile.
const CONFLICT_INTERVAL: Duration = Duration::from_secs(1);
/// How long registries may take for the images of a workload.
pub(super) const CHECK_LIMIT: Duration = Duration::from_secs(60);
/// The most Pods of a workload whose images are read.
const MAX_PODS: usize = 1000;

/// What checks share.
#[derive(Clone)]
pub(crate) struct CheckContext {
    pub(crate) client: Cluster,
    /// Has the clients of those whose settings are followed.
    pub(crate) runner: ReleaseRunner,
    pub(crate) settings: AllReleaseSettings,
    pub(crate) answers: Arc<RegistryAnswers>,
    /// How often registries are asked where a workload does not say it.
    pub(crate) interval: Duration,
    /// Logins of the operator.
    pub(crate) pull_secret: Option<OperatorSecret>,
    /// The operator's identity in its cloud.
    pub(crate) cloud: Arc<CloudLogins>,
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
    pub(super) fn due_in(&mut self, wait: Duration) {
        self.next = Some(self.next.map_or(wait, |next| next.min(wait)));
    }

    /// Takes the result of a step of one workload, whose error stops no other. Returns whether a rollout runs, as far as that is known. What
    /// was not written is not said either (the reports after `said`): the next check does both.
    pub(super) fn goes_on(
        &mut self,
        step: Result<bool, ClusterError>,
        workload: &Checked,
        said: usize,
    ) -> bool {
        let error = match step {
            Ok(runs) => return runs,
            Err(error) => error,
        };
        self.reports.truncate(said);
        // Its status, say: what follows from it is found again.
        if error.is_conflict() {
            self.due_in(CONFLICT_INTERVAL);
            return true;
        }
        self.report(workload, EventType::Warning, "ImageCheckFailed", error.to_string());
        self.error = Some(error);
        false
    }

    /// Says why an image could not be checked. `again`: when its registry is asked again.
    pub(super) fn note_failure(&mut self, workload: &Checked, text: &str, again: Option<Instant>) {
        if let Some(again) = again {
            self.due_in(again.saturating_duration_since(Instant::now()));
        }
        self.report(workload, EventType::Warning, "ImageCheckFailed", text.to_owned());
    }

    pub(super) fn report(
        &mut self,
        workload: &Checked,
        event_type: EventType,
        reason: &'static str,
        note: String,
    ) {
        let (reference, uid) = (workload.reference.clone(), workload.uid().to_owned());
        self.reports.push(CheckReport { reference, uid, event_type, reason, note });
    }
}

/// Checks the workloads of one release.
pub(crate) async fn check(context: &CheckContext, members: &[ObjectRef]) -> CheckResult {
    let mut result = CheckResult::default();
    let mut workloads = Vec::new();
    for reference in members {
        match context.client.get(reference).await {
            Ok(Some(object)) => match context.checked(reference, object).await {
                Ok(workload) => workloads.push(workload),
                Err(error) => result.error = Some(error),
            },
            Ok(None) => {}
            Err(error) => result.error = Some(error),
        }
    }
    workloads.retain(|workload| !ObjectMeta::of(&workload.object).is_deleting());
    let mut runs = false;
    for workload in workloads.iter_mut().filter(|workload| workload.runs_rollout()) {
        let said = result.reports.len();
        let settled = settle(context, workload, &mut result).await;
        runs |= result.goes_on(settled, workload, said);
    }
    for workload in &workloads {
        if runs {
            break;
        }
        let said = result.reports.len();
        let followed = follow(context, workload, &mut result).await;
        if result.goes_on(followed, workload, said) {
            result.due_in(ROLLOUT_INTERVAL);
            runs = true;
        }
    }
    result
}

/// Looks at a rollout that has begun: it is through, or fails, or runs on. Returns whether it runs on. While an annotation cannot be used,
/// nobody can say what is to follow from it.
async fn settle(
    context: &CheckContext,
    workload: &mut Checked,
    result: &mut CheckResult,
) -> Result<bool, ClusterError> {
    let now = Timestamp::now();
    if workload.awaits_object(now) {
        result.due_in(ROLLOUT_INTERVAL);
        return Ok(true);
    }
    let images: BTreeMap<String, String> =
        containers(&workload.object).into_iter().map(|one| (one.name, one.image)).collect();
    let mut record = workload.record.clone();
    let deadline = match &workload.request {
        Ok(request) => request.as_ref().map(|request| request.rollout_deadline),
        Err(_) if progress(workload.kind(), &workload.object) != Progress::Running => return Ok(false),
        Err(error) => {
            result.report(workload, EventType::Warning, "InvalidImageAnnotation", error.clone());
            result.due_in(context.interval);
            return Ok(true);
        }
    };
    for note in end_replaced(&mut record, &images) {
        result.report(workload, EventType::Warning, "ImageUpdateFailed", note);
    }
    if deadline.is_none() {
        // It has no policy any more.
        record.values_mut().for_each(|of| of.rollout = None);
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
        Progress::Running => {
            result.due_in(ROLLOUT_INTERVAL);
            return Ok(true);
        }
    };
    let mut changed = Vec::new();
    if let Some(why) = why {
        changed = fail(workload, &mut record, &why, result);
    }
    record.values_mut().for_each(|of| of.rollout = None);
    let written = write(context, workload, &record, &changed).await?;
    *workload = Checked::of(&workload.reference, written.unwrap_or_default(), workload.inherited.clone());
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
                let text = take_back(of, rollout, &container.image, Timestamp::now());
                let next = format!("{text} is back, and this digest is not tried again");
                back.push((container.clone(), text));
                next
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
    if workload.has_flux_policy || workload.inherited.may_join {
        result.due_in(context.interval);
    }
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
    let polls = request.polls.clone().unwrap_or(PollSchedule::Every(context.interval));
    result.due_in(polls.wait(Timestamp::now()));
    let home = workload.reference.namespace.as_deref().unwrap_or_default();
    let named = request.pull_secret.as_ref().map(|secret| {
        let writer = workload.inherited.writer.as_ref().filter(|_| secret.of_release);
        NamedSecret::of(secret, writer.unwrap_or(&context.client), home)
    });
    let mut run = Run {
        context,
        workload,
        request,
        logins: LoginSources {
            cluster: &context.client,
            namespace: home,
            named,
            pod: Some(pod_spec(workload.kind(), &workload.object)),
            operator: context.pull_secret.as_ref(),
            cloud: &context.cloud,
        },
        noun: "container",
        pods: None,
        polls,
    };
    let mut record = workload.record.clone();
    let all = containers(&workload.object);
    record.retain(|name, _| all.iter().any(|container| container.name == *name));
    let mut images = Vec::new();
    let until = tokio::time::Instant::now() + CHECK_LIMIT;
    for container in all {
        if !request.follows(&container) {
            continue;
        }
        let of = record.entry(container.name.clone()).or_default();
        // The writes are not in it: none is left half done.
        let checked = tokio::time::timeout_at(until, run.container(&container, of, result)).await;
        // The check may have begun the record anew.
        record.entry(container.name.clone()).or_default().release_policy.clone_from(&request.release_policy);
        let late = || Err(format!("its check takes longer than {} s", CHECK_LIMIT.as_secs()).into());
        match checked.unwrap_or_else(|_| late()) {
            Ok(Some(image)) => images.push((container, image)),
            Ok(None) => {}
            Err(Failure::Cluster(error)) => return Err(error),
            Err(Failure::Text(text, again)) => {
                result.note_failure(workload, &format!("container {}: {text}", container.name), again);
            }
        }
    }
    if images.is_empty() && record == workload.record {
        return Ok(false);
    }
    let written = write(context, workload, &record, &images).await?;
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
pub(super) enum Failure {
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

/// The check of one workload, or of the object of a release.
pub(super) struct Run<'a> {
    pub(super) context: &'a CheckContext,
    pub(super) workload: &'a Checked,
    pub(super) request: &'a ImageRequest,
    pub(super) logins: LoginSources<'a>,
    /// What has the images: a container, or a value.
    pub(super) noun: &'static str,
    /// The workload's Pods, once they were listed.
    pub(super) pods: Option<Vec<Value>>,
    /// When the registry is asked.
    pub(super) polls: PollSchedule,
}

impl Run<'_> {
    /// Checks one container. Returns the image that is to be written.
    pub(super) async fn container(
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
        let mirror = self.context.answers.mirror_of(&image.location);
        let login = OriginLogins::find(self.logins, &image.location, mirror.as_ref()).await?;
        let Some(newest) = self.newest(&image, of, &login).await? else {
            of.waiting = None;
            return Ok(None);
        };
        let running = match image.location.digest {
            None => self.running(container).await.map_err(Failure::Cluster)?,
            Some(_) => Vec::new(),
        };
        let tag = newest.tag.clone();
        let (mut of_now, mut decision) = self.decide(container, &image, of, &login, newest, &running).await?;
        if matches!(decision, Decision::RollOut(_)) {
            // The answer may be older than the Pods: then what they run may be newer than it.
            let digest = self.context.answers.digest(&image.tagged(&tag), &login, Duration::ZERO).await?;
            let newest = TagDigest { tag, digest };
            (of_now, decision) = self.decide(container, &image, of, &login, newest, &running).await?;
        }
        *of = of_now;
        let (note, image) = take(of, decision, container, &image, Timestamp::now());
        if let Some((reason, note)) = note {
            let note = format!("{} {}: {note}", self.noun, container.name);
            result.report(self.workload, EventType::Normal, reason, note);
        }
        Ok(image)
    }

    /// What follows from an image of the registry and what runs, with the record of that.
    async fn decide(
        &self,
        container: &FollowedContainer,
        image: &ImageReference,
        of: &ContainerRecord,
        login: &OriginLogins,
        newest: TagDigest,
        running: &[String],
    ) -> Result<(ContainerRecord, Decision), Failure> {
        let is_other = |digest: &String| !digest.is_empty() && *digest != newest.digest;
        let platforms = match running.iter().any(is_other) || is_other(&of.current.digest) {
            true => self.context.answers.platforms(&image.at(&newest.digest), login).await?.to_vec(),
            // Registries count requests for manifests.
            false => Vec::new(),
        };
        let before = &of.current.digest;
        let is_unknown =
            |digest: &String| is_other(digest) && !platforms.contains(digest) && digest != before;
        let of_before = match !before.is_empty() && running.iter().any(is_unknown) {
            true => match self.context.answers.platforms(&image.at(before), login).await {
                Ok(platforms) => platforms.to_vec(),
                Err(error) if error.again.is_some() => return Err(error.into()),
                // A registry may have dropped it since.
                Err(_) => Vec::new(),
            },
            false => Vec::new(),
        };
        let (found, mut record) = (Found { image: newest, platforms }, of.clone());
        if image.location.digest.is_none() {
            note_running(&mut record, running, &found, &of_before);
        }
        let approvals = read_approvals(ObjectMeta::of(&self.workload.object));
        let (approval, now) = (approvals.get(&container.name), Timestamp::now());
        let situation = Situation { request: self.request, record: &record, approval, found: &found, now };
        let decision = situation.decide();
        Ok((record, decision))
    }

    /// The image that the policy chooses; `None`: the one that runs.
    async fn newest(
        &self,
        image: &ImageReference,
        of: &ContainerRecord,
        login: &OriginLogins,
    ) -> Result<Option<TagDigest>, Failure> {
        let (answers, age) = (&self.context.answers, self.polls.age(Timestamp::now()));
        let tag = match self.request.policy.keeps_tag() {
            true => of.current.tag.clone(),
            false => {
                let tags = answers.tags(&image.location, login, age).await?;
                let (policy, current) = (Arc::clone(&self.request.policy), of.current.tag.clone());
                let match_prerelease = self.request.match_prerelease;
                // Many tags, and any expression: not on the threads that all share.
                let choice = redact::spawn_blocking(move || {
                    let next = policy.next(&current, &tags, match_prerelease, CHOICE_LIMIT);
                    next.map(|tag| tag.map(str::to_owned))
                });
                let next = choice.await.map_err(|error| error.to_string())?;
                let wrong = |error| format!("policy {:?}: {error}", self.request.policy_text);
                let Some(tag) = next.map_err(wrong)? else { return Ok(None) };
                tag
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

/// Writes a record, and images with it, to a workload. Returns it as it is then; `None`: it is gone.
async fn write(
    context: &CheckContext,
    workload: &Checked,
    record: &RolloutRecord,
    images: &[(FollowedContainer, String)],
) -> Result<Option<Value>, ClusterError> {
    let client = workload.inherited.writer.as_ref().unwrap_or(&context.client);
    let Some(stored) = patch(client, &workload.reference, &workload.patch(record, images)).await? else {
        return Ok(None);
    };
    let mut record = record.clone();
    if !note_rewritten(&mut record, images, &stored) {
        return Ok(Some(stored));
    }
    let mut patch_of_record = workload.patch(&record, &[]);
    if let Some(meta) = patch_of_record["metadata"].as_object_mut() {
        // The annotations are written here alone, and must not be lost by another's write of the status.
        meta.remove("resourceVersion");
    }
    patch(client, &workload.reference, &patch_of_record).await
}

async fn patch(
    client: &Cluster,
    reference: &ObjectRef,
    patch: &Value,
) -> Result<Option<Value>, ClusterError> {
    match client.patch_subresource(reference, "", PatchKind::Strategic, patch, IMAGE_MANAGER).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
