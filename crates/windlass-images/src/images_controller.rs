//! When images are checked: watches, intervals and the queue of releases.
//!
//! A job is a check of all followed workloads of one release, so that one rollout of it runs at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_base::backoff;
use windlass_cluster::{ClusterError, Gvk, ObjectRef};
use windlass_controller::{
    ControllerContext, EventNote, EventType, FailureLog, Gate, Job, PassFailure, ReconcileError,
    RelatedWatch, WorkQueue, WorkerEvent, Workers, until,
};
use windlass_fetch::http::Http;

use super::image_check::{CheckContext, CheckReport, CheckResult, check};
use super::image_workload::{IMAGE_WORKLOAD_KINDS, WatchedWorkload, involved};
use super::registry_answers::RegistryAnswers;

/// Name of the controller in logs and metrics.
const NAME: &str = "images";
/// Releases that are checked at a time.
const CONCURRENCY: usize = 8;
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
    workers: Workers<CheckResult>,
    /// The followed workloads of each release, by key.
    groups: BTreeMap<String, BTreeSet<ObjectRef>>,
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
    let follower = ImageFollower {
        context,
        options,
        check,
        watch,
        workers: Workers::new(WorkQueue::new(Gate::Open, CONCURRENCY)),
        groups: BTreeMap::new(),
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
                    WorkerEvent::IntervalElapsed(group) => self.workers.queue.request(&group, 0, Job::Reconcile),
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
            if let Some(before) = before.filter(|before| Some(&before.group) != group.as_ref()) {
                self.leave(&before.group, &reference);
            }
            let Some(group) = group else { continue };
            let members = self.groups.entry(group.clone()).or_default();
            if members.contains(&reference) || self.followed < MAX_WORKLOADS {
                self.followed += usize::from(members.insert(reference));
                self.workers.queue.cancel_retry(&group);
                self.workers.queue.request(&group, 0, Job::Reconcile);
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
        }
    }

    fn start_checks(&mut self) {
        if !self.has_started {
            return;
        }
        for (group, job) in self.workers.start() {
            let members: Vec<ObjectRef> = self.groups.get(&group).into_iter().flatten().cloned().collect();
            let context = self.check.clone();
            self.workers.spawn(group, job, async move { check(&context, &members).await });
        }
    }

    fn finish(&mut self, group: &str, result: Result<CheckResult, String>) {
        let (result, error) = match result {
            Ok(mut result) => {
                let error = result.error.take().map(ReconcileError::from);
                (result, error)
            }
            Err(text) => (CheckResult::default(), Some(ReconcileError::Task(text))),
        };
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
        self.workers.queue.retry_at(group, Job::Reconcile, Instant::now() + retry_in);
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
