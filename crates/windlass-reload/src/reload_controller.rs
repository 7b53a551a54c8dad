//! When a workload is rolled out: watches in, writes out.
//!
//! Owns how long a workload waits for further changes. What there is to follow is `observed_configuration`'s, what follows from a change
//! `reload_decision`'s, and how it is written `rollout_write`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use windlass_base::backoff;
use windlass_cluster::{ClusterError, Gvk, ObjectRef};
use windlass_controller::{
    ControllerContext, EventNote, EventType, FailureLog, Gate, Job, PassFailure, ReconcileError,
    RelatedWatch, WorkQueue, WorkerEvent, Workers, until,
};

use super::collected_configuration::CollectedVolumes;
use super::followed_objects::{CONFIGURATION_KINDS, FollowedObject, WORKLOAD_KINDS, Workload};
use super::observed_configuration::{MAX_RECORD, ObservedConfiguration, collections, configuration, kind_of};
use super::pod_references::Configuration;
use super::reload_decision::{Digests, Triggers, decide};
use super::rollout_write::{Write, names, write};

/// Name of the controller in logs and metrics.
const NAME: &str = "reload";
/// A workload is rolled out when nothing that it follows has changed for this long.
const QUIET: Duration = Duration::from_secs(1);
/// But at the latest this long after the first change.
const LONGEST: Duration = Duration::from_secs(10);
/// Secrets that are no configuration: the records of releases.
const SECRETS: &str = "type!=helm.sh/release.v1";
/// Workloads that are written at a time.
const CONCURRENCY: usize = 8;

/// Which workloads follow their configuration.
#[derive(Clone, Debug, Default)]
pub struct ReloadOptions {
    /// Objects of this namespace only; `None`: of all.
    pub namespace: Option<String>,
    /// Namespaces whose workloads are followed although they are of no release; `*` is all.
    pub foreign_namespaces: BTreeSet<String>,
    /// Workloads without an annotation follow what their Pods use.
    pub auto_reload_all: bool,
    /// Configuration that is created counts as changed.
    pub on_create: bool,
    /// Configuration that is deleted counts as changed.
    pub on_delete: bool,
}

/// A workload that waits for further changes.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// When it was asked for first.
    since: Instant,
    /// When its time has come.
    at: Instant,
}

/// What was written to a workload, until the watch shows it.
struct Written {
    version: Option<u64>,
    uid: String,
    digests: Digests,
    reloads: u64,
}

/// The collected configuration that was applied to a workload last.
struct AppliedCollections {
    version: Option<u64>,
    uid: String,
    volumes: CollectedVolumes,
}

/// The result of a job.
struct Done {
    reference: ObjectRef,
    uid: String,
    /// How often the workload was rolled out before.
    reloads: u64,
    what: Write,
    result: Result<Option<u64>, ClusterError>,
}

struct Reloader {
    context: ControllerContext,
    options: ReloadOptions,
    observed: ObservedConfiguration,
    workers: Workers<Done>,
    /// The workloads of each namespace that ask for anything, by key.
    followers: BTreeMap<String, BTreeMap<String, ObjectRef>>,
    /// By key.
    waiting: BTreeMap<String, Waiting>,
    written: BTreeMap<String, Written>,
    collected: BTreeMap<String, AppliedCollections>,
    /// When Deployments go on that a change has paused.
    paused: BTreeMap<String, Instant>,
    /// Errors of annotations that an Event has reported.
    reported: BTreeMap<String, Vec<String>>,
    failures: FailureLog,
    /// The first lists are through.
    has_started: bool,
}

/// Rolls out workloads until `stop` resolves; then waits for running writes.
///
/// # Errors
/// None: kinds that cannot be watched are tried again, and said in the log.
pub async fn run(
    context: ControllerContext,
    options: ReloadOptions,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    let client = context.runner.engine().operator_client().clone();
    let kinds = WORKLOAD_KINDS.iter().chain(&CONFIGURATION_KINDS);
    let kinds = kinds.map(|(api_version, kind)| Gvk::new(api_version, kind)).collect();
    let fields = [(Gvk::new("v1", "Secret"), SECRETS)];
    let namespace = options.namespace.as_deref();
    let watch = RelatedWatch::start_reduced(&client, namespace, kinds, &fields, FollowedObject::of).await;
    let reloader = Reloader {
        context,
        options,
        observed: ObservedConfiguration::new(watch),
        workers: Workers::new(WorkQueue::new(Gate::Open, CONCURRENCY)),
        followers: BTreeMap::new(),
        waiting: BTreeMap::new(),
        written: BTreeMap::new(),
        collected: BTreeMap::new(),
        paused: BTreeMap::new(),
        reported: BTreeMap::new(),
        failures: FailureLog::default(),
        has_started: false,
    };
    reloader.work(stop).await;
    Ok(())
}

impl Reloader {
    async fn work(mut self, stop: impl Future<Output = ()>) {
        tracing::info!(controller = NAME, "controller starts");
        let mut stop = std::pin::pin!(stop);
        loop {
            self.start_jobs();
            let due = self.waiting.values().map(|waiting| waiting.at).min();
            let due = due.filter(|_| self.has_started);
            let resumes = self.paused.values().min().copied();
            let summary = self.failures.next_summary();
            tokio::select! {
                () = &mut stop => break,
                changed = self.observed.watch.next() => self.take(changed),
                // After any other event what is due is in the queue.
                event = self.workers.next() => if let WorkerEvent::Finished(key, _, result) = event {
                    self.finish(&key, result);
                },
                () = until(due) => self.request_due(),
                () = until(resumes) => self.request_paused(),
                () = until(summary) => self.failures.summarize(NAME, Instant::now()),
            }
        }
        tracing::info!(controller = NAME, "controller stops");
        self.workers.shut_down(self.context.runner.engine()).await;
    }

    /// Notes objects that were created, changed or deleted.
    fn take(&mut self, changed: Vec<(ObjectRef, Option<Arc<FollowedObject>>)>) {
        for (reference, before) in changed {
            let now = self.observed.watch.get(&reference);
            if before.as_deref().zip(now).is_some_and(|(before, now)| before.is_same(now)) {
                continue;
            }
            self.observed.note_mounted(&reference);
            let now = self.observed.watch.get(&reference);
            match (before.as_deref(), now) {
                (_, Some(FollowedObject::Workload(_))) | (Some(FollowedObject::Workload(_)), None) => {
                    self.take_workload(&reference);
                }
                (before, now) => {
                    let namespace = reference.namespace.clone().unwrap_or_default();
                    let objects = [before, now]
                        .into_iter()
                        .flatten()
                        .filter_map(|object| configuration(&reference, object));
                    let objects: BTreeSet<Configuration> = objects.collect();
                    let collections = [before, now].into_iter().flatten().flat_map(collections);
                    let collections: BTreeSet<String> = collections.cloned().collect();
                    self.wake_followers(&namespace, &objects, &collections);
                }
            }
        }
        if !self.has_started && self.observed.watch.is_complete() {
            self.has_started = true;
            tracing::info!(controller = NAME, workloads = self.waiting.len(), "all workloads are listed");
        }
    }

    fn take_workload(&mut self, reference: &ObjectRef) {
        let key = reference.to_string();
        let namespace = reference.namespace.clone().unwrap_or_default();
        let workload = self.observed.watch.get(reference).and_then(FollowedObject::workload);
        let followed = workload.filter(|workload| self.is_followed(&namespace, workload));
        let Some(workload) = followed else {
            if let Some(keys) = self.followers.get_mut(&namespace) {
                keys.remove(&key);
            }
            self.waiting.remove(&key);
            self.written.remove(&key);
            self.collected.remove(&key);
            self.paused.remove(&key);
            self.reported.remove(&key);
            self.workers.queue.forget(&key);
            self.failures.clear(&key);
            return;
        };
        match workload.resumes_at() {
            Some(time) => drop(self.paused.insert(key.clone(), instant(time))),
            None => drop(self.paused.remove(&key)),
        }
        self.report_errors(reference, &workload.request.errors.clone());
        self.followers.entry(namespace).or_default().insert(key.clone(), reference.clone());
        self.wait(key);
    }

    /// Whether a workload asks for anything, and may.
    fn is_followed(&self, namespace: &str, workload: &Workload) -> bool {
        let foreign = &self.options.foreign_namespaces;
        let may = workload.release.is_some() || foreign.contains("*") || foreign.contains(namespace);
        let asks = !workload.request.is_empty(self.options.auto_reload_all)
            || !workload.request.errors.is_empty()
            || !workload.collections.is_empty()
            || !workload.collected.is_empty()
            || workload.resumes_at().is_some();
        may && asks && !workload.is_left_alone
    }

    /// An annotation that cannot be used is said once for each state of the annotations.
    fn report_errors(&mut self, reference: &ObjectRef, errors: &[String]) {
        let key = reference.to_string();
        if self.reported.get(&key).map_or(&[][..], Vec::as_slice) == errors {
            return;
        }
        if !errors.is_empty() {
            tracing::warn!(controller = NAME, object = key, "{}", errors.join("; "));
            self.context.events.warn_object(reference, "InvalidReloadAnnotation", errors.join("; "));
        }
        self.reported.insert(key, errors.to_vec());
    }

    /// Asks for the workloads of a namespace that follow one of these objects, or did, or that ask for one of these collections.
    fn wake_followers(
        &mut self,
        namespace: &str,
        objects: &BTreeSet<Configuration>,
        collections: &BTreeSet<String>,
    ) {
        let Some(keys) = self.followers.get(namespace) else { return };
        let affected = |reference: &ObjectRef| {
            let workload = self.observed.watch.get(reference).and_then(FollowedObject::workload);
            workload.is_some_and(|workload| {
                objects.iter().any(|object| workload.used.contains(object) || workload.request.names(object))
                    || workload.collections.iter().any(|request| collections.contains(&request.collection))
            })
        };
        let keys: Vec<String> =
            keys.iter().filter(|(_, reference)| affected(reference)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.workers.queue.cancel_retry(&key);
            self.workers.queue.reset_failures(&key);
            self.wait(key);
        }
    }

    /// A workload waits until nothing changes for a moment: many edits are one rollout.
    fn wait(&mut self, key: String) {
        let now = Instant::now();
        let waiting = self.waiting.entry(key).or_insert(Waiting { since: now, at: now });
        waiting.at = (now + QUIET).min(waiting.since + LONGEST);
    }

    fn request_due(&mut self) {
        let now = Instant::now();
        let due = self.waiting.extract_if(.., |_, waiting| waiting.at <= now);
        let due: Vec<String> = due.map(|(key, _)| key).collect();
        for key in due {
            self.workers.queue.request(&key, 0, Job::Reconcile);
        }
    }

    fn request_paused(&mut self) {
        let now = Instant::now();
        let due: Vec<String> = self.paused.extract_if(.., |_, at| *at <= now).map(|(key, _)| key).collect();
        for key in due {
            let resumes = self
                .reference(&key)
                .and_then(|reference| self.observed.watch.get(&reference)?.workload()?.resumes_at());
            match resumes.filter(|time| *time > Timestamp::now()) {
                Some(later) => drop(self.paused.insert(key, instant(later))),
                None => self.workers.queue.request(&key, 0, Job::Reconcile),
            }
        }
    }

    /// Starts what is due. Workloads with nothing to write leave their places to others.
    fn start_jobs(&mut self) {
        if !self.has_started {
            return;
        }
        loop {
            let started = self.workers.start();
            if started.is_empty() {
                return;
            }
            for (key, job) in started {
                match self.next_write(&key) {
                    Some(next) => self.start_write(key, job, next),
                    None => self.leave(&key, true),
                }
            }
        }
    }

    fn start_write(&mut self, key: String, job: Job, next: (ObjectRef, Box<Workload>, Write)) {
        let (reference, workload, what) = next;
        let client = self.context.runner.engine().operator_client().clone();
        self.workers.spawn(key, job, async move {
            let result = write(&client, &reference, &workload, &what).await;
            Done { reference, uid: workload.uid.clone(), reloads: workload.reloads, what, result }
        });
    }

    /// Ends the job of a workload, of which nothing is kept if it is gone.
    fn leave(&mut self, key: &str, succeeded: bool) {
        self.workers.queue.done(key, succeeded);
        if self.reference(key).is_none() {
            self.workers.queue.forget(key);
        }
    }

    /// The workload of a key.
    fn reference(&self, key: &str) -> Option<ObjectRef> {
        self.followers.values().find_map(|keys| keys.get(key)).cloned()
    }

    /// What is to be written to a workload; `None`: nothing.
    fn next_write(&mut self, key: &str) -> Option<(ObjectRef, Box<Workload>, Write)> {
        let reference = self.reference(key)?;
        let mut workload = Box::new(self.observed.watch.get(&reference)?.workload()?.clone());
        // The watch may be behind: what was written counts until it is not.
        let shown = |written: &Written| {
            written.uid != workload.uid
                || workload.version.zip(written.version).is_none_or(|(seen, written)| seen >= written)
        };
        if self.written.get(key).is_some_and(shown) {
            self.written.remove(key);
        }
        if let Some(written) = self.written.get(key) {
            workload.recorded = Some(written.digests.clone());
            workload.reloads = written.reloads;
        }
        if let Some(volumes) = self.collections_to_apply(key, &reference, &workload) {
            return Some((reference, workload, Write::Collect(volumes)));
        }
        let triggers = Triggers { on_create: self.options.on_create, on_delete: self.options.on_delete };
        let namespace = reference.namespace.clone().unwrap_or_default();
        let (current, is_whole) = self.observed.current(&namespace, &workload, self.options.auto_reload_all);
        if !is_whole {
            let text = format!(
                "it follows more objects than a record of {MAX_RECORD} bytes holds: the rest is not followed"
            );
            self.report_errors(&reference, &[&workload.request.errors[..], &[text]].concat());
        }
        let recorded = workload.recorded.as_ref();
        let decision = decide(recorded, &current, triggers);
        let what = if !decision.changed.is_empty() {
            Write::Rollout(decision)
        } else if Some(&decision.digests) != recorded && (recorded.is_some() || !decision.digests.is_empty())
        {
            Write::Record(decision.digests)
        } else if workload.resumes_at().is_some_and(|time| time <= Timestamp::now()) {
            Write::Resume
        } else {
            return None;
        };
        Some((reference, workload, what))
    }

    /// The volumes of collected configuration, if a workload has others than it is to have.
    fn collections_to_apply(
        &self,
        key: &str,
        reference: &ObjectRef,
        workload: &Workload,
    ) -> Option<CollectedVolumes> {
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        let members = |collection: &str| self.observed.members(namespace, collection);
        let is_unreadable = |kind| !self.observed.watch.is_watched(&kind_of(kind));
        let wanted =
            workload.collected.wanted(&workload.collections, &workload.containers, members, is_unreadable);
        // The watch may be behind. What somebody else keeps there is not taken away, and not tried again until the workload changes.
        let is_applied = self.collected.get(key).is_some_and(|last| {
            last.uid == workload.uid
                && last.volumes == wanted
                && workload.version.zip(last.version).is_some_and(|(seen, written)| seen <= written)
        });
        (wanted != workload.collected && !is_applied).then_some(wanted)
    }

    fn finish(&mut self, key: &str, result: Result<Done, String>) {
        let done = match result {
            Ok(done) => done,
            Err(text) => return self.fail(key, &ReconcileError::Task(text)),
        };
        let Done { reference, uid, reloads, what, result } = done;
        match &what {
            Write::Rollout(decision) => {
                self.report(&reference, &uid, &names(&decision.changed), result.as_ref().err());
            }
            Write::Collect(volumes) => {
                self.report_collections(&reference, &uid, volumes, result.as_ref().err());
            }
            Write::Record(_) | Write::Resume => {}
        }
        match result {
            Ok(version) => {
                self.leave(key, true);
                if self.failures.clear(key) {
                    tracing::info!(controller = NAME, object = key, "written after failures");
                }
                let (digests, reloads) = match what {
                    Write::Rollout(decision) => (decision.digests, reloads.saturating_add(1)),
                    Write::Record(digests) => (digests, reloads),
                    Write::Resume => return,
                    Write::Collect(volumes) => {
                        let applied = AppliedCollections { version, uid, volumes };
                        self.collected.insert(key.to_owned(), applied);
                        // Nothing else was looked at.
                        return self.wait(key.to_owned());
                    }
                };
                if self.reference(key).is_some() {
                    self.written.insert(key.to_owned(), Written { version, uid, digests, reloads });
                }
            }
            Err(error) => self.fail(key, &error.into()),
        }
    }

    /// Says that a workload was rolled out, or that it was not.
    fn report(&self, reference: &ObjectRef, uid: &str, changed: &str, error: Option<&ClusterError>) {
        let result = if error.is_none() { "true" } else { "false" };
        self.context.state.metrics.add(
            "reloader_reload_executed_total",
            "Rollouts for changed configuration.",
            &[("success", result)],
            1.0,
        );
        let (event_type, reason, note) = match error {
            None => (EventType::Normal, "Reloaded", format!("rolled out, because of a change of {changed}")),
            Some(error) => (
                EventType::Warning,
                "ReloadFail",
                format!("cannot be rolled out after a change of {changed}, and is tried again: {error}"),
            ),
        };
        if error.is_none() {
            tracing::info!(controller = NAME, object = %reference, changed, "rolled out");
        }
        self.record_event(reference, uid, (event_type, reason, note));
    }

    /// Says which collected configuration a workload has, or that it could not be applied.
    fn report_collections(
        &self,
        reference: &ObjectRef,
        uid: &str,
        volumes: &CollectedVolumes,
        error: Option<&ClusterError>,
    ) {
        let members = match names(&volumes.names()) {
            none if none.is_empty() => "nothing".to_owned(),
            names => names,
        };
        let note = match error {
            None => {
                tracing::info!(controller = NAME, object = %reference, members, "collected configuration applied");
                (EventType::Normal, "Collected", format!("its collections have {members}"))
            }
            Some(error) => (
                EventType::Warning,
                "CollectFail",
                format!("collections with {members} cannot be applied, and are tried again: {error}"),
            ),
        };
        self.record_event(reference, uid, note);
    }

    fn record_event(
        &self,
        reference: &ObjectRef,
        uid: &str,
        (event_type, reason, note): (EventType, &'static str, String),
    ) {
        let note = EventNote { event_type, reason, action: "Reload", note, annotations: BTreeMap::new() };
        self.context.events.spawn_named(reference, uid, note);
    }

    fn fail(&mut self, key: &str, error: &ReconcileError) {
        self.leave(key, false);
        if self.reference(key).is_none() {
            return;
        }
        let failures = self.workers.queue.failures(key);
        let retry_in = backoff::delay(failures);
        self.failures.note(NAME, key, &PassFailure { error, retry_in, failures }, Instant::now());
        self.workers.queue.retry_at(key, Job::Reconcile, Instant::now() + retry_in);
    }
}

/// The moment of a time, at most a day ahead; a past one is now.
fn instant(time: Timestamp) -> Instant {
    let left = time.duration_since(Timestamp::now());
    Instant::now() + Duration::try_from(left).unwrap_or_default().min(Duration::from_secs(24 * 60 * 60))
}
