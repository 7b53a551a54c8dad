//! The loop of one front end of custom resources: triggers in, jobs out.
//!
//! Owns the objects of one kind as they were last seen, and when each is reconciled: a new generation, a trigger annotation,
//! drift of its release, a changed reference or lookup, a certificate to renew, its interval, a dependency that became ready,
//! a retry. What is done then is `reconcile_job`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use serde_json::Value;

use super::controller_context::ControllerContext;
use super::dependencies::reaches;
use super::error::ReconcileError;
use super::finalizer::has_finalizer;
use super::front_end::FrontEnd;
use super::reconcile_job::{Finished, ReconcileJob, Task};
use super::work_queue::{Gate, Job, WorkQueue};
use super::workers::{WorkerEvent, Workers};
use crate::backoff;
use crate::cluster::{ClusterError, ObjectEvent, ObjectRef};
use crate::release::{ReconcileTrigger, ReleaseId, ReleaseRequest};

/// What a controller of custom resources works on.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Objects of this namespace only; `None`: of all.
    pub namespace: Option<String>,
    /// Objects reconciled at a time.
    pub concurrency: usize,
}

/// What of an object triggers a reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fingerprint {
    uid: String,
    generation: i64,
    annotations: Vec<Option<String>>,
    deleted: bool,
}

impl Fingerprint {
    fn of(object: &Value, annotations: &[&str]) -> Self {
        let meta = &object["metadata"];
        let annotation = |name: &&str| meta["annotations"][*name].as_str().map(str::to_owned);
        Self {
            uid: meta["uid"].as_str().unwrap_or_default().to_owned(),
            generation: meta["generation"].as_i64().unwrap_or_default(),
            annotations: annotations.iter().map(annotation).collect(),
            deleted: meta["deletionTimestamp"].is_string(),
        }
    }
}

/// How far the object's last reconcile came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    /// It has not ended, was suspended or has failed.
    Pending,
    /// It waits for a dependency.
    Waiting,
    /// It succeeded, and nothing has changed since.
    Ready,
}

/// An object as it was last seen.
struct ObservedObject {
    object: Value,
    fingerprint: Fingerprint,
    release: ReleaseId,
    dependencies: BTreeSet<String>,
    /// What was last rendered, unless it is out of date.
    request: Option<Arc<ReleaseRequest>>,
    readiness: Readiness,
}

struct Controller<F> {
    front_end: Arc<F>,
    context: ControllerContext,
    options: ControllerOptions,
    workers: Workers<Finished>,
    objects: BTreeMap<String, ObservedObject>,
    /// Which object each release belongs to.
    releases: BTreeMap<ReleaseId, String>,
}

/// Runs a front end until `stop` resolves; then waits for running jobs.
///
/// # Errors
/// The API server refuses to list or watch the kind.
pub async fn run<F: FrontEnd>(
    front_end: F,
    context: ControllerContext,
    options: ControllerOptions,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    let workers = Workers::new(WorkQueue::new(Gate::Open, options.concurrency));
    let controller = Controller {
        front_end: Arc::new(front_end),
        context,
        options,
        workers,
        objects: BTreeMap::new(),
        releases: BTreeMap::new(),
    };
    controller.work(stop).await
}

impl<F: FrontEnd> Controller<F> {
    async fn work(mut self, stop: impl Future<Output = ()>) -> Result<(), ClusterError> {
        let engine = self.context.runner.engine().clone();
        let kind = self.front_end.kind();
        let owners = BTreeSet::from([self.front_end.name().to_owned()]);
        let client = engine.operator_client().clone();
        let mut events = client.follow_selected(&kind, self.options.namespace.as_deref(), "", "").await?;
        tracing::info!(controller = self.front_end.name(), "controller starts");
        let mut stop = std::pin::pin!(stop);
        let mut listed: Option<BTreeSet<String>> = None;
        loop {
            self.start_jobs();
            tokio::select! {
                () = &mut stop => break,
                event = events.next() => match event {
                    Some(Ok(ObjectEvent::Listing)) => listed = Some(BTreeSet::new()),
                    Some(Ok(ObjectEvent::Present(object))) => {
                        let key = key_of(&object);
                        if let Some(listed) = &mut listed {
                            listed.insert(key.clone());
                        }
                        self.observe(&key, object);
                    }
                    Some(Ok(ObjectEvent::Gone(object))) => self.forget(&key_of(&object)),
                    Some(Ok(ObjectEvent::Listed)) => {
                        let listed = listed.take().unwrap_or_default();
                        let gone: Vec<String> =
                            self.objects.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                        gone.iter().for_each(|key| self.forget(key));
                    }
                    Some(Err(error)) => return Err(error),
                    None => return Err(ClusterError::Other(format!("the watch of {} ended", kind.kind))),
                },
                (id, trigger) = engine.next_trigger_for(&owners) => self.take_trigger(&id, &trigger),
                event = self.workers.next() => match event {
                    WorkerEvent::Finished(key, job, result) => self.finish(&key, job, result),
                    WorkerEvent::InputsChanged(key) => self.reconcile(&key, "an object that it was rendered from has changed"),
                    WorkerEvent::RenewalDue(key) => self.reconcile(&key, "a certificate needs renewal"),
                    WorkerEvent::IntervalElapsed(key) => self.reconcile(&key, "its interval has elapsed"),
                    WorkerEvent::RetriesDue => {}
                },
            }
        }
        tracing::info!(
            controller = self.front_end.name(),
            running = self.workers.queue.running(),
            "controller stops"
        );
        self.workers.shut_down(&engine).await;
        Ok(())
    }

    /// Stores an object as it is now, and requests what follows from a change.
    fn observe(&mut self, key: &str, object: Value) {
        let fingerprint = Fingerprint::of(&object, self.front_end.trigger_annotations());
        let same = self.objects.get(key).is_some_and(|known| known.fingerprint == fingerprint);
        if same {
            if let Some(known) = self.objects.get_mut(key) {
                known.object = object;
            }
            return;
        }
        let release = self.front_end.release(&object);
        let dependencies = self.front_end.dependencies(&object);
        let deleted = fingerprint.deleted;
        if let Some(before) = self.objects.get(key).filter(|known| known.release != release) {
            self.releases.remove(&before.release);
        }
        self.releases.entry(release.clone()).or_insert_with(|| key.to_owned());
        let known = ObservedObject {
            object,
            fingerprint,
            release,
            dependencies,
            request: None,
            readiness: Readiness::Pending,
        };
        self.objects.insert(key.to_owned(), known);
        self.workers.queue.cancel_retry(key);
        let job = if deleted { Job::Uninstall } else { Job::Reconcile };
        self.workers.queue.request(key, 0, job);
    }

    /// An object does not exist any more.
    fn forget(&mut self, key: &str) {
        self.workers.stop_watching(key);
        self.workers.queue.forget(key);
        let object = self.reference(key).to_string();
        self.context.state.metrics.remove("windlass_drifted_objects", &[("object", &object)]);
        if let Some(known) = self.objects.remove(key)
            && self.releases.get(&known.release).is_some_and(|owner| owner == key)
        {
            self.releases.remove(&known.release);
            // Another object may have waited for the name.
            let claimant = self.objects.iter().find(|(_, other)| other.release == known.release);
            if let Some(other) = claimant.map(|(key, _)| key.clone()) {
                self.releases.insert(known.release, other.clone());
                self.reconcile(&other, "its release has no other owner any more");
            }
        }
    }

    /// Requests a reconcile of an object whose render may be out of date.
    fn reconcile(&mut self, key: &str, reason: &str) {
        let Some(known) = self.objects.get_mut(key).filter(|known| !known.fingerprint.deleted) else {
            return;
        };
        tracing::info!(controller = self.front_end.name(), object = key, reason, "reconciling");
        known.request = None;
        self.workers.queue.request(key, 0, Job::Reconcile);
    }

    /// Objects or records of a release were written from outside.
    fn take_trigger(&mut self, id: &ReleaseId, trigger: &ReconcileTrigger) {
        let Some(key) = self.releases.get(id).cloned() else { return };
        let Some(known) = self.objects.get(&key).filter(|known| !known.fingerprint.deleted) else { return };
        tracing::info!(controller = self.front_end.name(), object = key, reason = %trigger, "correcting drift");
        let job = if known.request.is_some() { Job::CorrectDrift } else { Job::Reconcile };
        self.workers.queue.request(&key, 0, job);
    }

    /// The object of a key.
    fn reference(&self, key: &str) -> ObjectRef {
        let (namespace, name) =
            key.split_once('/').map_or((None, key), |(namespace, name)| (Some(namespace), name));
        ObjectRef::new(self.front_end.kind(), namespace, name)
    }

    fn start_jobs(&mut self) {
        for (key, job) in self.workers.queue.start() {
            let Some(known) = self.objects.get(&key) else {
                self.workers.queue.done(&key, true);
                self.workers.queue.forget(&key);
                continue;
            };
            let owned = self.releases.get(&known.release).is_some_and(|owner| *owner == key);
            let task = match job {
                Job::Uninstall if !has_finalizer(&known.object, self.front_end.finalizer()) => {
                    self.workers.queue.done(&key, true);
                    continue;
                }
                Job::Uninstall if owned => Task::Uninstall,
                // The release is another object's.
                Job::Uninstall => Task::RemoveFinalizer,
                Job::CorrectDrift if known.request.is_some() => Task::CorrectDrift(known.request.clone()),
                Job::CorrectDrift | Job::Reconcile => self.reconcile_task(&key, known),
            };
            let reconcile = ReconcileJob {
                front_end: Arc::clone(&self.front_end),
                context: self.context.clone(),
                reference: self.reference(&key),
                object: known.object.clone(),
                failures: self.workers.queue.failures(&key),
                inputs: None,
            };
            self.workers.spawn(key, job, reconcile.run(task));
        }
    }

    /// What a reconcile has to do: it may have to wait, or be refused.
    fn reconcile_task(&self, key: &str, known: &ObservedObject) -> Task {
        if let Some(owner) = self.releases.get(&known.release).filter(|owner| *owner != key) {
            let text = format!("release {} belongs to {owner} already: choose another name", known.release);
            return Task::Refuse(ReconcileError::Config(text));
        }
        let dependencies = |key: &str| self.objects.get(key).map(|known| &known.dependencies);
        if reaches(dependencies, key, key) {
            return Task::Refuse(ReconcileError::Config(
                "it depends on itself, directly or through others".to_owned(),
            ));
        }
        let ready = |other: &ObservedObject| other.readiness == Readiness::Ready;
        let unready = |on: &&String| !self.objects.get(*on).is_some_and(ready);
        let missing: BTreeSet<String> = known.dependencies.iter().filter(unready).cloned().collect();
        if missing.is_empty() { Task::Reconcile } else { Task::Wait(missing) }
    }

    fn finish(&mut self, key: &str, job: Job, result: Result<Finished, String>) {
        let finished = result.unwrap_or_else(|text| Finished::Failed {
            error: ReconcileError::Task(text),
            retry_in: backoff::delay(self.workers.queue.failures(key) + 1),
            inputs: None,
        });
        let succeeded = !matches!(finished, Finished::Failed { .. });
        self.workers.queue.done(key, succeeded);
        let result = if succeeded { "ok" } else { "error" };
        self.context.state.metrics.add(
            "windlass_reconciles_total",
            "Jobs of custom resources that ended.",
            &[("controller", self.front_end.name()), ("result", result)],
            1.0,
        );
        let busy = self.workers.queue.is_busy(key);
        let Some(known) = self.objects.get_mut(key) else { return self.workers.queue.forget(key) };
        match finished {
            Finished::Released { request, inputs, interval } => {
                // A later generation that came meanwhile is not ready yet.
                known.readiness = if busy { Readiness::Pending } else { Readiness::Ready };
                known.request = Some(request);
                if let Some(inputs) = inputs {
                    self.workers.watch_inputs(key, inputs);
                    self.workers.set_interval(key, interval);
                }
                let waits = |other: &ObservedObject| {
                    other.readiness == Readiness::Waiting && other.dependencies.contains(key)
                };
                let waiting: Vec<String> = self
                    .objects
                    .iter()
                    .filter(|(_, other)| waits(other))
                    .map(|(other, _)| other.clone())
                    .collect();
                for other in waiting {
                    self.reconcile(&other, "a dependency is ready");
                }
            }
            Finished::Waiting => known.readiness = Readiness::Waiting,
            Finished::Suspended => known.readiness = Readiness::Pending,
            Finished::Uninstalled => {}
            Finished::Failed { error, retry_in, inputs } => {
                known.readiness = Readiness::Pending;
                if let Some(inputs) = inputs.filter(|inputs| !inputs.lookups.is_empty()) {
                    self.workers.watch_inputs(key, inputs);
                }
                if job == Job::Reconcile {
                    known.request = None;
                }
                tracing::error!(
                    controller = self.front_end.name(),
                    object = key,
                    retry_in_s = retry_in.as_secs(),
                    "{error}"
                );
                if !busy {
                    self.workers.queue.retry_at(key, job, Instant::now() + retry_in);
                }
            }
        }
    }
}

/// `NAMESPACE/NAME` of an object, or `NAME` of one without a namespace.
fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}
