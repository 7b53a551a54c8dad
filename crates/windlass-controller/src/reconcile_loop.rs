//! The loop of one front end of custom resources: triggers in, jobs out.
//!
//! Owns the objects of one kind as they were last seen, and when each is reconciled: a new generation, a trigger annotation,
//! drift of its release, a changed reference, lookup or related object, a certificate to renew, its interval, a dependency that became ready,
//! a retry. What is done then is `reconcile_pass`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryFutureExt as _};
use serde_json::Value;

use super::compact_object::{CompactObject, without_managed_fields};
use super::controller_context::ControllerContext;
use super::dependencies::reaches;
use super::drift_policy::forget_drift;
use super::error::ReconcileError;
use super::failure_log::{FailureLog, PassFailure};
use super::finalizer::has_finalizer;
use super::front_end::{Dependencies, FrontEnd, Reconciled, Requeue};
use super::image_values::ImageAnnotations;
use super::kept_requests::KeptRequest;
use super::kind_events::{self, KindEvents};
use super::reconcile_pass::{Finished, ReconcilePass, Task, duration_labels};
use super::related_objects::RelatedWatch;
use super::release_claims::ReleaseClaims;
use super::work_queue::{Gate, Job, WorkQueue};
use super::workers::{WorkerEvent, Workers, until};
use windlass_base::backoff;
use windlass_base::redact::SecretScope;
use windlass_cluster::{Cluster, ClusterError, ObjectEvent, ObjectMeta, ObjectRef};
use windlass_engine::{ReconcileTrigger, ReleaseKey, ReleaseRequest};

/// How often dependencies that are not watched are read, as helm-controller's `--requeue-dependency`.
pub const DEPENDENCY_INTERVAL: Duration = Duration::from_secs(30);

/// Pause after the watch of a front end's own kind was refused.
const FOLLOW_PAUSE: Duration = Duration::from_secs(10);

/// What a controller of custom resources works on.
#[derive(Clone, Debug, Default)]
pub struct ControllerOptions {
    /// Objects of this namespace only; `None`: of all.
    pub namespace: Option<String>,
    /// Further namespaces, beside the one.
    pub further_namespaces: Vec<String>,
    /// Label selector of the objects; an empty one selects all.
    pub selector: String,
    /// Objects reconciled at a time.
    pub concurrency: usize,
    /// Whether to end when each object was reconciled once; with an error if one is not ready then.
    pub once: bool,
}

impl ControllerOptions {
    /// The namespaces; none for all.
    fn namespaces(&self) -> Vec<String> {
        self.namespace.iter().chain(&self.further_namespaces).cloned().collect()
    }
}

/// What of an object triggers a reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fingerprint {
    uid: String,
    generation: i64,
    annotations: Vec<Option<String>>,
    images: ImageAnnotations,
    deleted: bool,
}

impl Fingerprint {
    fn of(object: &Value, annotations: &[&str]) -> Self {
        let meta = ObjectMeta::of(object);
        let annotation = |name: &&str| meta.annotation(name).map(str::to_owned);
        Self {
            uid: meta.uid().to_owned(),
            generation: meta.generation(),
            annotations: annotations.iter().map(annotation).collect(),
            images: ImageAnnotations::of(meta),
            deleted: meta.is_deleting(),
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

/// What the loop needs of an object between its passes, read once for each state of it.
struct ObjectFacts {
    dependencies: Dependencies,
    related: BTreeSet<ObjectRef>,
    /// Whether it is ready, if its status says so.
    shows_ready: Option<bool>,
    /// Its place among objects that are due at the same time.
    order: u32,
}

/// An object as it was last seen.
struct ObservedObject {
    object: CompactObject,
    fingerprint: Fingerprint,
    releases: BTreeSet<ReleaseKey>,
    facts: ObjectFacts,
    /// What was last rendered of each release, unless it is out of date or too much to keep.
    requests: BTreeMap<ReleaseKey, KeptRequest>,
    /// Releases that may have drifted since the last job.
    drifted: BTreeSet<ReleaseKey>,
    /// What the last pass left.
    memo: Option<Arc<Value>>,
    readiness: Readiness,
}

struct Controller<F> {
    front_end: Arc<F>,
    context: ControllerContext,
    options: ControllerOptions,
    workers: Workers<(Finished, Value, SecretScope)>,
    objects: BTreeMap<String, ObservedObject>,
    claims: ReleaseClaims,
    /// Objects whose reconcile has ended at least once. Only kept if the loop ends when all have.
    tried: BTreeSet<String>,
    related: RelatedWatch,
    failures: FailureLog,
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
    let client = context.runner.engine().operator_client();
    let queue = WorkQueue::new(Gate::Open, options.concurrency).with_spare_places();
    let workers = Workers::new(queue).with_kinds_of(client);
    let related = RelatedWatch::start(client, options.namespace.as_deref(), front_end.related_kinds()).await;
    let controller = Controller {
        front_end: Arc::new(front_end),
        context,
        options,
        workers,
        objects: BTreeMap::new(),
        claims: ReleaseClaims::default(),
        tried: BTreeSet::new(),
        related,
        failures: FailureLog::default(),
    };
    controller.work(stop).await
}

impl<F: FrontEnd> Controller<F> {
    async fn work(mut self, stop: impl Future<Output = ()>) -> Result<(), ClusterError> {
        let engine = self.context.runner.engine().clone();
        let kind = self.front_end.kind();
        let front_end = Arc::clone(&self.front_end);
        let owners = BTreeSet::from([front_end.name().to_owned()]);
        let client = engine.operator_client().clone();
        let (namespaces, selector) = (self.options.namespaces(), &self.options.selector);
        let mut events = kind_events::follow(&client, &kind, &namespaces, selector).await?;
        tracing::info!(controller = self.front_end.name(), "controller starts");
        let mut stop = std::pin::pin!(stop);
        let mut listed: Option<BTreeSet<String>> = None;
        let mut complete = false;
        loop {
            self.start_jobs();
            let summary = self.failures.next_summary();
            if complete && self.options.once && self.all_tried() {
                break;
            }
            tokio::select! {
                () = &mut stop => break,
                event = events.next() => match event {
                    Some(Ok(ObjectEvent::Listing)) => listed = Some(BTreeSet::new()),
                    Some(Ok(ObjectEvent::Present(object))) => {
                        let object = without_managed_fields(object);
                        let key = ObjectMeta::of(&object).namespaced_name();
                        let known = self.objects.get(&key).map(|known| &known.object);
                        match &mut listed {
                            Some(listed) => {
                                listed.insert(key.clone());
                            }
                            // What was written since is on its way. A list is another matter: the cluster may be a restored one.
                            None if known.is_some_and(|known| known.is_newer_than(&object)) => continue,
                            None => {}
                        }
                        self.observe(&key, &object);
                    }
                    Some(Ok(ObjectEvent::Gone(object))) => {
                        self.forget(&ObjectMeta::of(&object).namespaced_name());
                    }
                    Some(Ok(ObjectEvent::Listed)) => {
                        complete = true;
                        let listed = listed.take().unwrap_or_default();
                        let gone: Vec<String> =
                            self.objects.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                        gone.iter().for_each(|key| self.forget(key));
                    }
                    // It worked before: rights and definitions come back.
                    Some(Err(error)) if complete && !self.options.once => {
                        tracing::error!(controller = self.front_end.name(), retry_in_s = FOLLOW_PAUSE.as_secs(), "cannot watch {}: {error}", kind.kind);
                        events = self.follow_again(client.clone());
                    }
                    Some(Err(error)) => return Err(error),
                    None => return Err(ClusterError::Other(format!("the watch of {} ended", kind.kind))),
                },
                changed = self.related.next() => self.take_related(changed),
                key = front_end.next_request() => self.take_request(&key),
                (id, trigger) = engine.next_trigger_for(&owners) => self.take_trigger(&id, &trigger),
                event = self.workers.next() => match event {
                    WorkerEvent::Finished(key, job, result) => self.finish(&key, job, result),
                    WorkerEvent::InputsChanged(key) => {
                        self.reconcile_anew(&key, "an object that it was rendered from has changed");
                    }
                    WorkerEvent::KindServed(key) => {
                        self.reconcile_anew(&key, "a kind that it needs is served");
                    }
                    WorkerEvent::RenewalDue(key) => self.reconcile(&key, "a certificate needs renewal"),
                    WorkerEvent::IntervalElapsed(key) => self.reconcile(&key, "its interval has elapsed"),
                    WorkerEvent::RetriesDue | WorkerEvent::PlacesChanged => {}
                },
                () = until(summary) => self.failures.summarize(self.front_end.name(), Instant::now()),
            }
        }
        tracing::info!(
            controller = self.front_end.name(),
            running = self.workers.queue.running(),
            "controller stops"
        );
        self.workers.shut_down(&engine).await;
        if self.options.once { self.check_ready() } else { Ok(()) }
    }

    /// The events of the kind after a pause, or as soon as other kinds are served.
    fn follow_again(&self, client: Cluster) -> KindEvents {
        let (kind, namespaces) = (self.front_end.kind(), self.options.namespaces());
        let selector = self.options.selector.clone();
        let mut kinds = client.kind_changes();
        let opened = async move {
            drop(tokio::time::timeout(FOLLOW_PAUSE, kinds.changed()).await);
            kind_events::follow(&client, &kind, &namespaces, &selector).await
        };
        opened.try_flatten_stream().boxed()
    }

    fn all_tried(&self) -> bool {
        self.objects.keys().all(|key| self.tried.contains(key))
    }

    /// Fails if an object is not ready.
    fn check_ready(&self) -> Result<(), ClusterError> {
        let unready = |(key, known): (&String, &ObservedObject)| {
            let left_alone = || {
                let object = self.front_end.read(&known.object.value());
                self.front_end.is_suspended(&object) || self.front_end.belongs_elsewhere(&object)
            };
            (known.readiness != Readiness::Ready && !left_alone()).then(|| key.clone())
        };
        let unready: Vec<String> = self.objects.iter().filter_map(unready).collect();
        match unready.is_empty() {
            true => Ok(()),
            false => Err(ClusterError::Other(format!(
                "{} of {} {} not ready: {}",
                unready.len(),
                self.objects.len(),
                if unready.len() == 1 { "object is" } else { "objects are" },
                unready.join(", ")
            ))),
        }
    }

    /// The releases of an object, and what else the loop needs of it.
    fn read(&self, key: &str, object: &Value) -> (BTreeSet<ReleaseKey>, ObjectFacts) {
        let meta = ObjectMeta::of(object);
        let object = self.front_end.read(object);
        self.front_end.note_observed(key, &object);
        let target = self.front_end.target(&object).ok();
        self.context.release_settings.note_object(&self.reference(key), meta, target);
        let facts = ObjectFacts {
            dependencies: self.front_end.dependencies(&object),
            related: self.front_end.related(&object),
            shows_ready: self.front_end.shows_ready(&object),
            order: self.front_end.order(&object),
        };
        (self.front_end.releases(&object), facts)
    }

    /// Stores an object as it is now, and requests what follows from a change.
    fn observe(&mut self, key: &str, object: &Value) {
        let fingerprint = Fingerprint::of(object, self.front_end.trigger_annotations());
        let same = |known: &&mut ObservedObject| known.fingerprint == fingerprint;
        let (releases, facts) = self.read(key, object);
        if let Some(known) = self.objects.get_mut(key).filter(same) {
            known.object = CompactObject::of(object);
            known.facts = facts;
            self.set_releases(key, releases);
            return self.wake_dependents(key);
        }
        let before = self.objects.remove(key);
        let deleted = fingerprint.deleted;
        // What the running job waits for may not be desired any more; a trigger annotation changes nothing of it.
        let is_same = |known: &ObservedObject| {
            let known = &known.fingerprint;
            known.generation == fingerprint.generation && known.images == fingerprint.images
        };
        let is_newer = deleted || !before.as_ref().is_some_and(is_same);
        let order = facts.order;
        let (memo, requests) = before.map(|known| (known.memo, known.requests)).unwrap_or_default();
        let known = ObservedObject {
            fingerprint,
            releases: BTreeSet::new(),
            facts,
            object: CompactObject::of(object),
            requests: if self.front_end.keeps_state_on_error() { requests } else { BTreeMap::new() },
            drifted: BTreeSet::new(),
            memo,
            readiness: Readiness::Pending,
        };
        self.objects.insert(key.to_owned(), known);
        self.set_releases(key, releases);
        self.workers.queue.cancel_retry(key);
        self.workers.queue.reset_failures(key);
        let job = if deleted { Job::Uninstall } else { Job::Reconcile };
        self.workers.queue.request(key, order, job);
        if is_newer {
            self.workers.cancel_wait(key);
        }
        self.wake_dependents(key);
    }

    /// Notes the releases that an object asks for. Releases that it does not have any more go to others that ask for them.
    fn set_releases(&mut self, key: &str, releases: BTreeSet<ReleaseKey>) {
        let ended = self.claims.keep(key, &releases);
        self.context.release_settings.end_releases(&self.reference(key), &ended.iter().cloned().collect());
        for release in &releases {
            self.claims.note_wish(release, key);
        }
        self.tell_former_owners();
        if let Some(known) = self.objects.get_mut(key) {
            known.requests.retain(|id, _| releases.contains(id));
            known.releases = releases;
        }
        for release in ended {
            let waits = |(other, known): &(&String, &ObservedObject)| {
                *other != key && known.releases.contains(&release)
            };
            if let Some(other) = self.objects.iter().find(waits).map(|(other, _)| other.clone()) {
                self.claims.note_wish(&release, &other);
                self.reconcile(&other, "its release has no other owner any more");
            }
        }
    }

    /// Requests the objects that lost a release to another one: passes claim releases, too.
    fn tell_former_owners(&mut self) {
        for former in self.claims.take_former_owners() {
            // The next pass says what it still has.
            self.context.release_settings.leave(&self.reference(&former));
            // An operation that waits would hold the release for as long as its objects take to become ready.
            self.workers.cancel_wait(&former);
            self.reconcile(&former, "an object in the namespace of its release claims it");
        }
    }

    /// Requests the objects that wait for this one, if they need not wait any more.
    fn wake_dependents(&mut self, key: &str) {
        let waits = |other: &ObservedObject| {
            other.readiness == Readiness::Waiting && other.facts.dependencies.contains_key(key)
        };
        let waiting = self.objects.iter().filter(|(_, other)| waits(other));
        let blocks =
            |other: &ObservedObject| self.unready(other).any(|missing| !self.is_unchecked(other, missing));
        let ready = waiting.filter(|(_, other)| !blocks(other));
        let ready: Vec<String> = ready.map(|(other, _)| other.clone()).collect();
        for other in ready {
            self.reconcile_anew(&other, "a dependency is ready");
        }
    }

    /// Related objects were created, changed or deleted.
    fn take_related(&mut self, changed: Vec<(ObjectRef, Option<Arc<Value>>)>) {
        for (name, before) in changed {
            let state = |object: &Value| self.front_end.related_state(object);
            if before.as_deref().map(state) == self.related.get(&name).map(state) {
                continue;
            }
            let refers = |known: &&ObservedObject| known.facts.related.contains(&name);
            let keys: Vec<String> =
                self.objects.iter().filter(|(_, known)| refers(known)).map(|(key, _)| key.clone()).collect();
            for key in keys {
                self.reconcile_anew(&key, "an object that it refers to has changed");
            }
        }
    }

    /// An object does not exist any more.
    fn forget(&mut self, key: &str) {
        self.workers.stop_watching(key);
        self.workers.cancel_wait(key);
        self.workers.queue.forget(key);
        self.failures.clear(key);
        let object = self.reference(key);
        self.context.release_settings.forget(&object);
        let metrics = &self.context.state.metrics;
        forget_drift(metrics, ("object", &object.to_string()));
        if let Some(metric) = self.front_end.duration_metric() {
            metrics.remove(metric.name, &duration_labels(&object));
        }
        self.objects.remove(key);
        self.front_end.note_gone(key);
        self.set_releases(key, BTreeSet::new());
    }

    /// Requests a reconcile of an object of which something has changed that its passes depend on: earlier failures do not count.
    fn reconcile_anew(&mut self, key: &str, reason: &str) {
        self.workers.queue.cancel_retry(key);
        self.workers.queue.reset_failures(key);
        self.reconcile(key, reason);
    }

    /// The front end asks for a pass over an object, deleted or not.
    fn take_request(&mut self, key: &str) {
        match self.objects.get(key) {
            Some(known) if known.fingerprint.deleted => {
                self.workers.queue.cancel_retry(key);
                self.workers.queue.request(key, 0, Job::Uninstall);
            }
            Some(_) => self.reconcile_anew(key, "its front end asks for it"),
            None => {}
        }
    }

    /// Requests a reconcile of an object whose render may be out of date.
    fn reconcile(&mut self, key: &str, reason: &str) {
        let Some(known) = self.objects.get_mut(key).filter(|known| !known.fingerprint.deleted) else {
            return;
        };
        tracing::info!(controller = self.front_end.name(), object = key, reason, "reconciling");
        if !self.front_end.keeps_state_on_error() {
            known.requests.clear();
        }
        let order = known.facts.order;
        self.workers.queue.request(key, order, Job::Reconcile);
    }

    /// Objects or records of a release were written from outside.
    fn take_trigger(&mut self, id: &ReleaseKey, trigger: &ReconcileTrigger) {
        let Some(key) = self.claims.owner(id) else { return };
        let Some(known) = self.objects.get_mut(&key).filter(|known| !known.fingerprint.deleted) else {
            return;
        };
        tracing::info!(controller = self.front_end.name(), object = key, reason = %trigger, "reconciling");
        self.front_end.note_trigger(&key, trigger);
        if trigger.is_status() {
            let order = known.facts.order;
            return self.workers.queue.request(&key, order, Job::Reconcile);
        }
        let rendered = known.requests.contains_key(id);
        known.drifted.insert(id.clone());
        let (job, order) = (if rendered { Job::CorrectDrift } else { Job::Reconcile }, known.facts.order);
        self.workers.queue.request(&key, order, job);
    }

    /// The object of a key.
    fn reference(&self, key: &str) -> ObjectRef {
        let (namespace, name) =
            key.split_once('/').map_or((None, key), |(namespace, name)| (Some(namespace), name));
        ObjectRef::new(self.front_end.kind(), namespace, name)
    }

    fn start_jobs(&mut self) {
        if !self.related.is_complete() {
            return;
        }
        for (key, job) in self.workers.start() {
            let Some(known) = self.objects.get_mut(&key) else {
                self.workers.queue.done(&key, true);
                self.workers.queue.forget(&key);
                continue;
            };
            let drifted = std::mem::take(&mut known.drifted);
            let kept = |id| known.requests.get(id).map(|kept| Arc::clone(&kept.request));
            let requests: Option<Vec<_>> = drifted.iter().map(kept).collect();
            let Some(known) = self.objects.get(&key) else { continue };
            let owned = |id: &ReleaseKey| self.claims.refusal(id, &key).is_none();
            let owned = known.releases.is_empty() || known.releases.iter().any(owned);
            let object = known.object.value();
            let task = match (job, requests) {
                (Job::Uninstall, _) if !self.is_kept(&object) => {
                    self.workers.queue.done(&key, true);
                    continue;
                }
                (Job::Uninstall, _) if owned => Task::Uninstall,
                // The release is another object's.
                (Job::Uninstall, _) => Task::RemoveFinalizer,
                (Job::CorrectDrift, Some(requests)) if !requests.is_empty() => Task::CorrectDrift(requests),
                (Job::CorrectDrift | Job::Reconcile, _) => self.reconcile_task(&key, known),
            };
            let waits = matches!(task, Task::Wait { .. });
            let mut pass = ReconcilePass {
                context: self.context.clone(),
                reference: self.reference(&key),
                generation: ObjectMeta::of(&object).generation(),
                object,
                failures: self.workers.queue.failures(&key),
                related: self.related.select(&known.facts.related),
                memo: known.memo.clone(),
                references: BTreeMap::new(),
                claims: self.claims.clone(),
                slot: self.workers.slot(&key),
                reader: None,
                image_values: None,
            };
            if job == Job::Reconcile && self.workers.queue.failures(&key) > 0 {
                // What a failed pass left behind is not known.
                pass.memo = None;
            }
            if waits && let Some(known) = self.objects.get_mut(&key) {
                // From now on: a dependency may become ready while the pass runs.
                known.readiness = Readiness::Waiting;
            }
            let namespace = pass.reference.namespace.as_deref();
            let scope = SecretScope::of_namespace(namespace.unwrap_or_default());
            // A pass is a large future: it stays where it is.
            let pass = Box::pin(pass.run(Arc::clone(&self.front_end), task));
            let run = scope.clone().run_async(pass);
            let work = async move {
                let (finished, written) = run.await;
                (finished, written, scope)
            };
            self.workers.spawn(key, job, work);
        }
    }

    /// Whether a finalizer keeps a deleted object until its pass.
    fn is_kept(&self, object: &Value) -> bool {
        let legacy = self.front_end.legacy_finalizers().iter();
        legacy.chain([&self.front_end.finalizer()]).any(|finalizer| has_finalizer(object, finalizer))
    }

    /// What a reconcile has to do: it may have to wait, or be refused.
    fn reconcile_task(&self, key: &str, known: &ObservedObject) -> Task {
        // With some releases of its own, a pass fails those of others only.
        let errors: Vec<_> = known.releases.iter().filter_map(|id| self.claims.refusal(id, key)).collect();
        if errors.len() == known.releases.len()
            && let Some(error) = errors.into_iter().next()
        {
            return Task::Refuse(error);
        }
        let dependencies = |key: &str| self.objects.get(key).map(|known| known.facts.dependencies.keys());
        if reaches(dependencies, key, key) {
            return Task::Refuse(ReconcileError::Config(
                "it depends on itself, directly or through others".to_owned(),
            ));
        }
        let missing: BTreeSet<String> = self.unready(known).cloned().collect();
        if missing.is_empty() {
            return Task::Reconcile;
        }
        let observed = |key: &String| self.objects.get(key).map(|other| other.object.value());
        let unchecked = missing.iter().filter(|key| self.is_unchecked(known, key));
        Task::Wait { unchecked: unchecked.map(|key| (key.clone(), observed(key))).collect(), missing }
    }

    /// Whether only a pass finds out if a dependency is ready: it is not watched, or a rule decides.
    fn is_unchecked(&self, known: &ObservedObject, key: &str) -> bool {
        match self.objects.get(key) {
            Some(_) => known.facts.dependencies.get(key).is_some_and(Option::is_some),
            None => self.options.namespace.is_some() || !self.options.selector.is_empty(),
        }
    }

    /// The dependencies of an object that are not ready, as far as that is known here.
    fn unready<'o>(&'o self, known: &'o ObservedObject) -> impl Iterator<Item = &'o String> {
        let is_ready =
            |other: &ObservedObject| other.facts.shows_ready.unwrap_or(other.readiness == Readiness::Ready);
        let waits = move |(key, rule): &(&String, &Option<String>)| {
            rule.is_some() || !self.objects.get(*key).is_some_and(is_ready)
        };
        known.facts.dependencies.iter().filter(waits).map(|(key, _)| key)
    }

    /// Notes how a job ended. What is logged of it is masked by the secrets that it read.
    fn finish(&mut self, key: &str, job: Job, result: Result<(Finished, Value, SecretScope), String>) {
        let (finished, written, scope) = result.unwrap_or_else(|text| {
            let retry_in = backoff::delay(self.workers.queue.failures(key) + 1);
            let failed = Finished::Failed { error: ReconcileError::Task(text), retry_in, inputs: None };
            (failed, Value::Null, SecretScope::new())
        });
        scope.run(|| self.finish_job(key, job, finished, written));
    }

    fn finish_job(&mut self, key: &str, job: Job, finished: Finished, written: Value) {
        let repeated = |done: &Reconciled| done.failure.is_some() || done.requeue == Requeue::Backoff;
        let succeeded = match &finished {
            Finished::Reconciled(done) => !repeated(done),
            Finished::Failed { .. } => false,
            _ => true,
        };
        self.workers.queue.done(key, succeeded);
        self.tell_former_owners();
        if self.options.once {
            self.tried.insert(key.to_owned());
        }
        let result = if succeeded { "ok" } else { "error" };
        self.context.state.metrics.add(
            "windlass_reconciles_total",
            "Jobs of custom resources that ended.",
            &[("controller", self.front_end.name()), ("result", result)],
            1.0,
        );
        let busy = self.workers.queue.is_busy(key);
        let Some(known) = self.objects.get_mut(key) else {
            self.front_end.note_gone(key);
            return self.workers.queue.forget(key);
        };
        // The watch may be behind: the next pass begins with what this one wrote. What a later generation depends on, the watch tells.
        if known.object.is_status_older_than(&written) {
            let written = without_managed_fields(written);
            known.object = CompactObject::of(&written);
            let (releases, facts) = self.read(key, &written);
            if let Some(known) = self.objects.get_mut(key) {
                known.facts = facts;
            }
            self.set_releases(key, releases);
        }
        let Some(known) = self.objects.get_mut(key) else { return };
        match finished {
            Finished::Reconciled(Reconciled { ready, requeue, requests, inputs, memo, failure }) => {
                // A later generation that came meanwhile is not ready yet.
                known.readiness = if ready && !busy { Readiness::Ready } else { Readiness::Pending };
                // The room of those before is free for these.
                known.requests.clear();
                known.requests = kept(requests, key);
                known.memo = memo;
                if let Some(inputs) = inputs {
                    self.workers.watch_inputs(key, inputs);
                }
                let interval = match requeue {
                    Requeue::Never => None,
                    Requeue::After(interval) => Some(interval),
                    Requeue::Backoff | Requeue::Failure => {
                        Some(backoff::delay(self.workers.queue.failures(key)))
                    }
                };
                self.workers.set_interval(key, interval);
                match (&failure, ready) {
                    (Some(error), _) => self.note_failure(key, error, interval.unwrap_or_default()),
                    (None, true) => self.note_success(key),
                    (None, false) => {}
                }
                self.wake_dependents(key);
            }
            Finished::Corrected => {
                known.readiness = if busy { Readiness::Pending } else { Readiness::Ready };
                self.note_success(key);
                self.wake_dependents(key);
            }
            Finished::Waiting { elsewhere } => {
                known.readiness = Readiness::Waiting;
                // The status says that it waits: the next pass has to write it anew.
                known.memo = None;
                if elsewhere {
                    self.workers.set_interval(key, Some(DEPENDENCY_INTERVAL));
                }
            }
            Finished::Suspended => known.readiness = Readiness::Pending,
            Finished::Uninstalled => {}
            Finished::Failed { error, retry_in, inputs } => {
                known.readiness = Readiness::Pending;
                if let Some(inputs) = inputs.filter(|inputs| !inputs.lookups.is_empty()) {
                    self.workers.watch_inputs(key, inputs);
                }
                if job == Job::Reconcile && !self.front_end.keeps_state_on_error() {
                    known.requests.clear();
                }
                self.note_failure(key, &error, retry_in);
                if !busy {
                    self.workers.queue.retry_at(key, job, Instant::now() + retry_in);
                }
            }
        }
    }

    /// What follows from each failed pass, whatever the front end.
    fn note_failure(&mut self, key: &str, error: &ReconcileError, retry_in: Duration) {
        let failures = self.workers.queue.failures(key);
        let failure = PassFailure { error, retry_in, failures };
        self.failures.note(self.front_end.name(), key, &failure, Instant::now());
        self.workers.wait_for_kinds(key, error.missing_kinds());
    }

    fn note_success(&mut self, key: &str) {
        self.workers.wait_for_kinds(key, BTreeSet::new());
        if self.failures.clear(key) {
            tracing::info!(controller = self.front_end.name(), object = key, "reconciled after failures");
        }
    }
}

/// What drift of each release is corrected with, as far as there is room. `key`: of their object.
fn kept(requests: Vec<Arc<ReleaseRequest>>, key: &str) -> BTreeMap<ReleaseKey, KeptRequest> {
    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
    let keep = |request: Arc<ReleaseRequest>| {
        Some((ReleaseKey::at_home(&request.id), KeptRequest::new(request, namespace)?))
    };
    requests.into_iter().filter_map(keep).collect()
}
