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
    ControllerContext, EventNote, EventType, FailureLog, Gate, Job, PassFailure, ReconcileError,
    RelatedWatch, WorkQueue, WorkerEvent, Workers, until,
};
use windlass_fetch::http::Http;

use super::image_check::{CheckContext, CheckReport, CheckResult, check};
use super::image_workload::{IMAGE_WORKLOAD_KINDS, WatchedWorkload, involved};
use super::namespace_turns::NamespaceTurns;
use super::registry_answers::RegistryAnswers;

/// Name of the controller in logs and metrics.
const NAME: &str = "images";
/// Releases that are checked at a time.
const CONCURRENCY: usize = 8;
/// Those of one namespace, where several are followed.
const OF_NAMESPACE: usize = 2;
/// The most workloads that are followed; each may have ten images.
const MAX_WORKLOADS: usize = 20_000;

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
    /// The followed workloads of each release, by key.
    groups: BTreeMap<String, BTreeSet<ObjectRef>>,
    /// The namespaces of the groups whose checks run.
    namespaces: BTreeMap<String, String>,
    /// Followed workloads.
    followed: usize,
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
    let answers = RegistryAnswers::new(options.http.clone(), options.plain_registries.clone());
    let check = CheckContext { client, answers: Arc::new(answers), interval: options.interval };
    let of_namespace = if options.namespace.is_some() { CONCURRENCY } else { OF_NAMESPACE };
    let follower = ImageFollower {
        context,
        options,
        check,
        watch,
        workers: Workers::new(WorkQueue::new(Gate::Open, CONCURRENCY)),
        turns: NamespaceTurns::new(of_namespace),
        groups: BTreeMap::new(),
        namespaces: BTreeMap::new(),
        followed: 0,
        failures: FailureLog::default(),
        has_started: false,
    };
    follower.work(stop).await;
    Ok(())
}

impl ImageFollower {
    async fn work(mut self, stop: impl Future<Output = ()>) {
        tracing::info!(controller = NAME, "controller starts");
        let mut stop = std::pin::pin!(stop);
        loop {
            self.start_checks();
            let summary = self.failures.next_summary();
            tokio::select! {
                () = &mut stop => break,
                changed = self.watch.next() => self.take(changed),
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
            let group =
                now.as_ref().filter(|now| self.is_followed(&reference, now)).map(|now| now.group.clone());
            let said_before = before.as_ref().and_then(|before| before.ignored.clone());
            if let Some(before) = before.filter(|before| Some(&before.group) != group.as_ref()) {
                self.leave(&before.group, &reference);
            }
            let Some(group) = group else { continue };
            if let Some(ignored) =
                now.and_then(|now| now.ignored).filter(|now| said_before.as_ref() != Some(now))
            {
                tracing::warn!(controller = NAME, object = %reference, "these annotations or labels have no effect: {ignored}");
            }
            let members = self.groups.entry(group.clone()).or_default();
            if members.contains(&reference) || self.followed < MAX_WORKLOADS {
                self.followed += usize::from(members.insert(reference));
                self.request(&group);
            } else {
                let note =
                    format!("{MAX_WORKLOADS} workloads are followed, which is the most: this one is not");
                self.context.events.warn_object(&reference, "ImageCheckFailed", note);
            }
        }
        if !self.has_started && self.watch.is_complete() {
            self.has_started = true;
            tracing::info!(controller = NAME, workloads = self.followed, "all workloads are listed");
        }
    }

    /// Whether the images of a workload are followed.
    fn is_followed(&self, reference: &ObjectRef, workload: &WatchedWorkload) -> bool {
        let foreign = &self.options.foreign_namespaces;
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        workload.is_followed && (workload.has_release || foreign.contains("*") || foreign.contains(namespace))
    }

    /// Takes a workload out of its release, of which nothing is kept without one.
    fn leave(&mut self, group: &str, reference: &ObjectRef) {
        let Some(members) = self.groups.get_mut(group) else { return };
        self.followed -= usize::from(members.remove(reference));
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
            let scope = SecretScope::new();
            let namespace = self.namespace(&group).unwrap_or_default();
            let work = async move {
                let result = scope.clone().run_async(check(&context, &members)).await;
                (result, scope)
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
        self.context.events.spawn_for(&involved(reference, uid), note);
    }
}
