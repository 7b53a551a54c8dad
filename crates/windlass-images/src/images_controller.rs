//! When images are checked: watches, intervals and the queue of releases.
//!
//! A job is a check of all followed workloads of one release, so that one rollout of it runs at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_base::backoff;
use windlass_base::redact::SecretScope;
use windlass_cluster::{ClusterError, Gvk, ObjectRef};
use windlass_controller::{
    ChangedSettings, ControllerContext, EventNote, EventType, FailureLog, Gate, Job, NamespaceTurns,
    PassFailure, ReconcileError, RelatedWatch, ReleaseSettings, WorkQueue, WorkerEvent, Workers, until,
};
use windlass_fetch::http::Http;

use super::cloud_logins::{CloudLogins, CloudRegistries};
use super::image_annotations::POLICY;
use super::image_check::{CheckContext, CheckReport, CheckResult, check};
use super::image_mirrors::ImageMirrors;
use super::image_reference::ImageReference;
use super::image_workload::{IMAGE_WORKLOAD_KINDS, WatchedWorkload};
use super::pull_logins::OperatorSecret;
use super::push_hints::PushHints;
use super::registry_answers::RegistryAnswers;
use super::value_check::check_values;

/// Name of the controller in logs and metrics.
const NAME: &str = "images";
/// What the keys of groups begin with that are the object of a release, in whose values images are followed.
const VALUES: &str = "values:";
/// Releases that are checked at a time.
const CONCURRENCY: usize = 8;
/// Those of one namespace, where several are followed.
const OF_NAMESPACE: usize = 2;
/// How long the operator's cloud may take for a login.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(10);
/// The most workloads that are followed; each may have ten images.
const MAX_WORKLOADS: usize = 20_000;
/// Those of one namespace, where several are followed: it does not take the places of all others.
const MAX_OF_NAMESPACE: usize = MAX_WORKLOADS / 4;

/// Which images are followed, and how registries are asked.
#[derive(Clone)]
pub struct ImagesOptions {
    /// Objects of this namespace only; `None`: of all.
    pub namespace: Option<String>,
    /// Namespaces whose workloads are followed although they are of no release; `*` is all.
    pub foreign_namespaces: BTreeSet<String>,
    /// How often registries are asked where a workload does not say it.
    pub interval: Duration,
    /// Registries, with their ports, that are asked without TLS.
    pub plain_registries: BTreeSet<String>,
    /// Logins of the operator for registries for which a workload has none.
    pub pull_secret: Option<OperatorSecret>,
    /// Mirrors that are asked first.
    pub mirrors: ImageMirrors,
    /// Registries that take the operator's identity in its cloud.
    pub cloud_registries: CloudRegistries,
    /// The client that asks, with its rule for local addresses.
    pub http: Http,
}

struct ImageFollower {
    context: ControllerContext,
    options: ImagesOptions,
    check: CheckContext,
    watch: RelatedWatch<WatchedWorkload>,
    workers: Workers<(CheckResult, SecretScope)>,
    turns: NamespaceTurns,
    pushes: PushHints,
    /// The followed workloads of each release, by key.
    groups: BTreeMap<String, BTreeSet<ObjectRef>>,
    /// The namespaces of the groups whose checks run.
    namespaces: BTreeMap<String, String>,
    places: FollowedPlaces,
    failures: FailureLog,
    has_started: bool,
}

/// Follows images until `stop` resolves; then waits for running checks.
///
/// # Errors
/// None: kinds that cannot be watched are tried again, and said in the log.
pub async fn run(
    context: ControllerContext,
    options: ImagesOptions,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    let client = context.runner.engine().operator_client().clone();
    let kinds = IMAGE_WORKLOAD_KINDS.iter().map(|(api_version, kind)| Gvk::new(api_version, kind)).collect();
    let namespace = options.namespace.as_deref();
    let watch = RelatedWatch::start_reduced(&client, namespace, kinds, &[], WatchedWorkload::of).await;
    let (plain, mirrors) = (options.plain_registries.clone(), options.mirrors.clone());
    let answers = RegistryAnswers::new(options.http.clone(), plain, mirrors);
    // Its own machine and its cloud's metadata service give the operator its identity.
    let cloud = CloudLogins::new(options.cloud_registries.clone(), Http::new(IDENTITY_TIMEOUT, false));
    let check = CheckContext {
        client,
        runner: context.runner.clone(),
        settings: context.release_settings.clone(),
        answers: Arc::new(answers),
        interval: options.interval,
        pull_secret: options.pull_secret.clone(),
        cloud: Arc::new(cloud),
    };
    let (of_namespace, most_of_namespace) = match options.namespace {
        Some(_) => (CONCURRENCY, MAX_WORKLOADS),
        None => (OF_NAMESPACE, MAX_OF_NAMESPACE),
    };
    let follower = ImageFollower {
        context,
        options,
        check,
        watch,
        workers: Workers::new(WorkQueue::new(Gate::Open, CONCURRENCY)),
        turns: NamespaceTurns::new(of_namespace),
        pushes: PushHints::default(),
        groups: BTreeMap::new(),
        namespaces: BTreeMap::new(),
        places: FollowedPlaces::new(most_of_namespace),
        failures: FailureLog::default(),
        has_started: false,
    };
    follower.work(stop).await;
    Ok(())
}

/// How many workloads are followed.
struct FollowedPlaces {
    most_of_namespace: usize,
    all: usize,
    of_namespace: BTreeMap<String, usize>,
}

impl FollowedPlaces {
    fn new(most_of_namespace: usize) -> Self {
        Self { most_of_namespace, all: 0, of_namespace: BTreeMap::new() }
    }

    /// A place for one more workload of a namespace. The error is which number of them is the most.
    fn take(&mut self, namespace: &str) -> Result<(), String> {
        let own = self.of_namespace.get(namespace).copied().unwrap_or_default();
        if self.all >= MAX_WORKLOADS {
            return Err(MAX_WORKLOADS.to_string());
        }
        if own >= self.most_of_namespace {
            return Err(format!("{} of the namespace's", self.most_of_namespace));
        }
        self.all += 1;
        self.of_namespace.insert(namespace.to_owned(), own + 1);
        Ok(())
    }

    fn free(&mut self, namespace: &str) {
        self.all -= 1;
        if let Some(own) = self.of_namespace.get_mut(namespace) {
            *own -= 1;
            if *own == 0 {
                self.of_namespace.remove(namespace);
            }
        }
    }
}

impl ImageFollower {
    async fn work(mut self, stop: impl Future<Output = ()>) {
        tracing::info!(controller = NAME, "controller starts");
        let mut stop = std::pin::pin!(stop);
        let settings = self.context.release_settings.clone();
        let pushed = self.context.pushed_images.clone();
        loop {
            self.start_checks();
            let push = self.pushes.next_due(Instant::now());
            let summary = self.failures.next_summary();
            tokio::select! {
                () = &mut stop => break,
                changed = self.watch.next() => self.take(changed),
                hints = pushed.take() => self.pushes.add(hints),
                () = until(push.filter(|_| self.has_started)) => self.ask_for_pushed(),
                changed = settings.changed() => self.take_settings(&changed),
                event = self.workers.next() => match event {
                    WorkerEvent::Finished(group, _, result) => self.finish(&group, result),
                    WorkerEvent::IntervalElapsed(group) => self.request(&group),
                    // What is due is in the queue.
                    _ => {}
                },
                () = until(summary) => self.failures.summarize(NAME, Instant::now()),
            }
        }
        tracing::info!(controller = NAME, "controller stops");
        self.workers.shut_down(self.context.runner.engine()).await;
    }

    /// Notes workloads that were created, changed or deleted.
    fn take(&mut self, changed: Vec<(ObjectRef, Option<Arc<WatchedWorkload>>)>) {
        for (reference, before) in changed {
            let now = self.watch.get(&reference).cloned();
            if before.as_deref() == now.as_ref() {
                continue;
            }
            let is_other =
                |before: &&Arc<WatchedWorkload>| now.as_ref().is_none_or(|now| now.group != before.group);
            if let Some(before) = before.as_ref().filter(is_other) {
                self.leave(&before.group, &reference);
            }
            let Some(now) = now else { continue };
            let ignored_before = before.as_ref().and_then(|before| before.ignored.as_ref());
            if let Some(ignored) = now.ignored.as_ref().filter(|now| ignored_before != Some(now)) {
                tracing::warn!(controller = NAME, object = %reference, "these annotations or labels have no effect: {ignored}");
            }
            self.place(reference, &now);
        }
        if !self.has_started && self.watch.is_complete() {
            self.has_started = true;
            tracing::info!(controller = NAME, workloads = self.places.all, "all workloads are listed");
        }
    }

    /// Notes releases whose objects say something else of their workloads, or of images in their values.
    fn take_settings(&mut self, changed: &ChangedSettings) {
        changed.objects.iter().for_each(|object| self.place_object(object));
        let releases = &changed.releases;
        let kinds = IMAGE_WORKLOAD_KINDS.map(|(api_version, kind)| Gvk::new(api_version, kind));
        let all = kinds.iter().flat_map(|kind| self.watch.all(kind));
        let concerned = all.filter(|(_, workload)| {
            workload.release.as_ref().is_some_and(|release| releases.contains(release))
        });
        let concerned: Vec<_> =
            concerned.map(|(name, workload)| (name.clone(), Arc::clone(workload))).collect();
        for (reference, workload) in concerned {
            self.place(reference, &workload);
        }
    }

    /// Takes a workload into its group, or out of it, and asks for a check.
    fn place(&mut self, reference: ObjectRef, workload: &WatchedWorkload) {
        match self.is_followed(&reference, workload) {
            true => self.join(&workload.group, reference),
            false => self.leave(&workload.group, &reference),
        }
    }

    /// Takes the object of a release, in whose values images are followed, into a group of its own, or out of it, and asks for a check.
    fn place_object(&mut self, object: &ObjectRef) {
        let group = format!("{VALUES}{object}");
        let own = self.options.namespace.as_ref().is_none_or(|own| object.namespace.as_ref() == Some(own));
        match own && self.context.release_settings.of_object(object).is_some() {
            true => self.join(&group, object.clone()),
            false => self.leave(&group, object),
        }
    }

    /// Takes a workload or an object into a group, and asks for a check.
    fn join(&mut self, group: &str, reference: ObjectRef) {
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        if !self.groups.get(group).is_some_and(|members| members.contains(&reference)) {
            if let Err(most) = self.places.take(namespace) {
                let note = format!("{most} workloads are followed, which is the most: this one is not");
                self.context.events.warn_object(&reference, "ImageCheckFailed", note);
                return;
            }
            self.groups.entry(group.to_owned()).or_default().insert(reference);
        }
        self.request(group);
    }

    /// Whether the images of a workload are followed.
    fn is_followed(&self, reference: &ObjectRef, workload: &WatchedWorkload) -> bool {
        let known = &self.context.release_settings;
        let settings = workload.release.as_ref().map(|release| known.of(release)).unwrap_or_default();
        // What goes into the values of the release reaches its workloads as well.
        let inherits = |settings: &ReleaseSettings| {
            settings.annotations.contains_key(POLICY[0]) && !settings.follows_values()
        };
        let asks = workload.asks || settings.iter().any(inherits);
        let foreign = &self.options.foreign_namespaces;
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        let may = workload.release.is_some() || foreign.contains("*") || foreign.contains(namespace);
        asks && may && !workload.is_left_alone
    }

    /// Asks the registries anew for repositories that something was pushed to.
    fn ask_for_pushed(&mut self) {
        let due = self.pushes.take_due(Instant::now());
        let is_meant = |reference: &ObjectRef| {
            let repositories = match self.watch.get(reference) {
                Some(workload) => workload.repositories.clone(),
                None => self.repositories_in_values(reference),
            };
            due.iter().any(|hint| {
                repositories.contains(&hint.path)
                    && (hint.namespace.is_none() || hint.namespace == reference.namespace)
            })
        };
        let concerned = self.groups.iter().filter(|(_, members)| members.iter().any(is_meant));
        let concerned: Vec<String> = concerned.map(|(group, _)| group.clone()).collect();
        if !concerned.is_empty() {
            self.check.answers.forget(&due.into_iter().map(|hint| hint.path).collect());
        }
        for group in concerned {
            tracing::info!(
                controller = NAME,
                group,
                "a webhook says that an image was pushed: its registry is asked"
            );
            self.request(&group);
        }
    }

    /// The paths of the images in the values of an object's release, in their registries and in lower case.
    fn repositories_in_values(&self, object: &ObjectRef) -> Vec<String> {
        let images = self.context.release_settings.of_object(object).and_then(|settings| settings.images);
        let images = images.iter().flat_map(|images| images.images.values());
        let read = images.filter_map(|one| ImageReference::parse(&one.image).ok());
        read.map(|image| image.location.repository.to_lowercase()).collect()
    }

    /// Takes a workload out of its release, of which nothing is kept without one.
    fn leave(&mut self, group: &str, reference: &ObjectRef) {
        let Some(members) = self.groups.get_mut(group) else { return };
        if members.remove(reference) {
            self.places.free(reference.namespace.as_deref().unwrap_or_default());
        }
        if members.is_empty() {
            self.groups.remove(group);
            self.workers.stop_watching(group);
            self.workers.queue.forget(group);
            self.failures.clear(group);
            self.pass_turn(group, reference.namespace.as_deref().unwrap_or_default());
        }
    }

    /// The namespace of a group's workloads, which is one; `None`: it has none any more.
    fn namespace(&self, group: &str) -> Option<String> {
        let member = self.groups.get(group)?.first()?;
        Some(member.namespace.clone().unwrap_or_default())
    }

    /// Requests a check, as soon as its namespace has a turn.
    fn request(&mut self, group: &str) {
        let Some(namespace) = self.namespace(group) else { return };
        if self.turns.request(&namespace, group) {
            self.workers.queue.request(group, 0, Job::Reconcile);
        }
    }

    /// Lets the next group of a namespace into the queue, unless this one has still something to do there.
    fn pass_turn(&mut self, group: &str, namespace: &str) {
        if !self.workers.queue.is_busy(group)
            && let Some(next) = self.turns.leave(namespace, group)
        {
            self.workers.queue.request(&next, 0, Job::Reconcile);
        }
    }

    fn start_checks(&mut self) {
        if !self.has_started {
            return;
        }
        for (group, job) in self.workers.start() {
            let members: Vec<ObjectRef> = self.groups.get(&group).into_iter().flatten().cloned().collect();
            let context = self.check.clone();
            // Secrets for pulls are those of tenants.
            let namespace = self.namespace(&group).unwrap_or_default();
            let scope = SecretScope::of_namespace(&namespace);
            let of_values = group.starts_with(VALUES);
            let work = async move {
                let checked = async {
                    match members.first().filter(|_| of_values) {
                        Some(object) => check_values(&context, object).await,
                        None => check(&context, &members).await,
                    }
                };
                (scope.clone().run_async(checked).await, scope)
            };
            self.namespaces.insert(group.clone(), namespace);
            self.workers.spawn(group, job, work);
        }
    }

    /// Notes how a check ended. What is said of it is masked by the secrets that it read.
    fn finish(&mut self, group: &str, result: Result<(CheckResult, SecretScope), String>) {
        let (result, error, scope) = match result {
            Ok((mut result, scope)) => {
                let error = result.error.take().map(ReconcileError::from);
                (result, error, scope)
            }
            Err(text) => (CheckResult::default(), Some(ReconcileError::Task(text)), SecretScope::new()),
        };
        scope.run(|| self.finish_check(group, &result, error));
        if let Some(namespace) = self.namespaces.remove(group) {
            self.pass_turn(group, &namespace);
        }
    }

    fn finish_check(&mut self, group: &str, result: &CheckResult, error: Option<ReconcileError>) {
        self.workers.queue.done(group, error.is_none());
        result.reports.iter().for_each(|report| self.report(report));
        if !self.groups.contains_key(group) {
            self.workers.queue.forget(group);
            return;
        }
        let Some(error) = error else {
            self.failures.clear(group);
            self.workers.set_interval(group, result.next);
            return;
        };
        let failures = self.workers.queue.failures(group);
        let retry_in = backoff::delay(failures);
        self.failures.note(NAME, group, &PassFailure { error: &error, retry_in, failures }, Instant::now());
        // In its turn, as every check.
        self.workers.set_interval(group, Some(retry_in));
    }

    fn report(&self, report: &CheckReport) {
        let CheckReport { reference, uid, event_type, reason, note } = report;
        let result = match *reason {
            "ImageUpdate" => Some("started"),
            "ImageUpdateReady" => Some("ready"),
            "ImageUpdateFailed" => Some("failed"),
            _ => None,
        };
        if let Some(result) = result {
            let help = "Rollouts of newer images.";
            self.context.state.metrics.add("windlass_image_rollouts_total", help, &[("result", result)], 1.0);
        }
        match event_type {
            EventType::Warning => tracing::warn!(controller = NAME, object = %reference, reason, "{note}"),
            _ => tracing::info!(controller = NAME, object = %reference, reason, "{note}"),
        }
        let note = EventNote {
            event_type: *event_type,
            reason,
            action: "FollowImage",
            note: note.clone(),
            annotations: BTreeMap::new(),
        };
        self.context.events.spawn_named(reference, uid, note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_namespace_leaves_places_to_others() {
        let mut places = FollowedPlaces::new(MAX_OF_NAMESPACE);
        let mut take = |namespace: &str, count: usize| (0..count).find_map(|_| places.take(namespace).err());
        assert_eq!(take("a", MAX_OF_NAMESPACE), None);
        assert_eq!(take("a", 1).as_deref(), Some("5000 of the namespace's"));
        assert_eq!(["b", "c", "d"].map(|namespace| take(namespace, MAX_OF_NAMESPACE)), [None, None, None]);
        assert_eq!(take("e", 1).as_deref(), Some("20000"));
        places.free("a");
        assert_eq!(places.take("a"), Ok(()));
        (0..MAX_OF_NAMESPACE).for_each(|_| places.free("a"));
        assert_eq!(places.of_namespace.len(), 3);
    }
}
