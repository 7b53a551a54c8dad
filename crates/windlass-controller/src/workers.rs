//! The jobs of one front end: what runs, and what becomes due by itself.
//!
//! Owns the tasks, the work queue, the renewals of certificates and the watches of render inputs. What a job is and what
//! follows from its result is the caller's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::answer_watch::AnswerWatch;
use super::release_runner::RenderInputs;
use super::work_queue::{Job, WorkQueue};
use super::worker_slot::{SlotEvent, WorkerSlot};
use windlass_cluster::{Cluster, Gvk};
use windlass_engine::Engine;
use windlass_render::replay::LookupQuery;

/// How long running jobs may take to end after a stop.
const GRACE: Duration = Duration::from_secs(25);
/// A renewal is at most this far ahead; then its time is computed again.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// What happened among the workers.
#[derive(Debug)]
pub enum WorkerEvent<T> {
    /// A job ended. An error means that its task panicked.
    Finished(String, Job, Result<T, String>),
    /// Retries were due and are in the queue.
    RetriesDue,
    /// A certificate of this key must be renewed.
    RenewalDue(String),
    /// The interval of this key has elapsed.
    IntervalElapsed(String),
    /// What the last render of this key looked up has changed.
    InputsChanged(String),
    /// A kind without which this key has failed is served.
    KindServed(String),
    /// A job has left its place or wants it back: others may start.
    PlacesChanged,
}

/// The wait of a running job for the cluster.
struct Wait {
    /// Cancels it.
    cancel: watch::Sender<bool>,
    /// It is to be cancelled as soon as it begins.
    is_stale: bool,
}

/// The jobs of one front end; `T` is what a job returns.
pub struct Workers<T> {
    /// What waits, and in which order.
    pub queue: WorkQueue,
    tasks: JoinSet<(String, Job, T)>,
    /// The job of each task, for a task that panics.
    running: BTreeMap<tokio::task::Id, (String, Job)>,
    /// What ends the running job of a key.
    handles: BTreeMap<String, AbortHandle>,
    renewals: BTreeMap<String, Instant>,
    intervals: BTreeMap<String, Instant>,
    watches: BTreeMap<String, AnswerWatch>,
    changed: UnboundedReceiver<String>,
    changed_sender: UnboundedSender<String>,
    slot_events: UnboundedReceiver<SlotEvent>,
    slot_sender: UnboundedSender<SlotEvent>,
    /// What the running jobs may wait for.
    waits: BTreeMap<String, Wait>,
    /// Jobs whose wait is over, in that order, and what lets them go on.
    resuming: VecDeque<(String, oneshot::Sender<()>)>,
    kinds: KindWaits,
}

/// Keys that have failed for want of kinds.
#[derive(Default)]
struct KindWaits {
    /// Tells that other kinds are served.
    changes: Option<(Cluster, watch::Receiver<u64>)>,
    missing: BTreeMap<String, BTreeSet<Gvk>>,
    /// Keys for which one is served now.
    served: Vec<String>,
}

impl KindWaits {
    /// Waits until a missing kind of a key is served; for ever without one.
    async fn next(&mut self) -> String {
        loop {
            if let Some(key) = self.served.pop() {
                return key;
            }
            let Some((cluster, changes)) = self.changes.as_mut().filter(|_| !self.missing.is_empty()) else {
                return std::future::pending().await;
            };
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
            let is_served = |kinds: &BTreeSet<Gvk>| kinds.iter().any(|kind| cluster.is_known_to_serve(kind));
            let served = self.missing.extract_if(.., |_, kinds| is_served(kinds));
            self.served = served.map(|(key, _)| key).collect();
        }
    }
}

impl<T: Send + 'static> Workers<T> {
    /// Workers without a job.
    #[must_use]
    pub fn new(queue: WorkQueue) -> Self {
        let (changed_sender, changed) = mpsc::unbounded_channel();
        let (slot_sender, slot_events) = mpsc::unbounded_channel();
        Self {
            queue,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            handles: BTreeMap::new(),
            renewals: BTreeMap::new(),
            intervals: BTreeMap::new(),
            watches: BTreeMap::new(),
            changed,
            changed_sender,
            slot_events,
            slot_sender,
            waits: BTreeMap::new(),
            resuming: VecDeque::new(),
            kinds: KindWaits::default(),
        }
    }

    /// The same workers, which report when a kind is served that a key waits for.
    #[must_use]
    pub fn with_kinds_of(mut self, cluster: &Cluster) -> Self {
        self.kinds.changes = Some((cluster.clone(), cluster.kind_changes()));
        self
    }

    /// Notes the kinds without which a key has failed, in place of those before. One that has been served meanwhile counts at once.
    pub fn wait_for_kinds(&mut self, key: &str, missing: BTreeSet<Gvk>) {
        self.kinds.missing.remove(key);
        let Some((cluster, _)) = self.kinds.changes.as_ref().filter(|_| !missing.is_empty()) else { return };
        match missing.iter().any(|kind| cluster.is_known_to_serve(kind)) {
            true => self.kinds.served.push(key.to_owned()),
            false => drop(self.kinds.missing.insert(key.to_owned(), missing)),
        }
    }

    /// The jobs that may start now. Jobs whose wait is over come first.
    pub fn start(&mut self) -> Vec<(String, Job)> {
        self.resume();
        self.queue.start()
    }

    /// Lets jobs whose wait is over go on, as far as there are places for them.
    pub fn resume(&mut self) {
        for (key, granted) in std::mem::take(&mut self.resuming) {
            if !self.queue.resume(&key) {
                self.resuming.push_back((key, granted));
            } else if granted.send(()).is_err() {
                tracing::debug!(key, "the job ended during its wait");
            }
        }
    }

    /// The place of a job that starts.
    pub fn slot(&mut self, key: &str) -> WorkerSlot {
        let cancel = watch::Sender::new(false);
        let slot = WorkerSlot::new(key, self.slot_sender.clone(), cancel.subscribe());
        self.waits.insert(key.to_owned(), Wait { cancel, is_stale: false });
        slot
    }

    /// Cancels the wait of a key's running job, now or when it begins: what it waits for is not desired any more.
    pub fn cancel_wait(&mut self, key: &str) {
        if let Some(wait) = self.waits.get_mut(key) {
            wait.is_stale = true;
            if self.queue.is_parked(key) {
                wait.cancel.send_replace(true);
            }
        }
    }

    fn take_slot_event(&mut self, event: SlotEvent) {
        match event {
            SlotEvent::Left(key) => {
                self.queue.park(&key);
                if let Some(wait) = self.waits.get(&key).filter(|wait| wait.is_stale) {
                    wait.cancel.send_replace(true);
                }
            }
            SlotEvent::Returning(key, granted) => self.resuming.push_back((key, granted)),
        }
    }

    /// Runs a job that the queue has started.
    pub fn spawn(&mut self, key: String, job: Job, work: impl Future<Output = T> + Send + 'static) {
        let started = (key.clone(), job);
        let task = self.tasks.spawn(async move { (key, job, work.await) });
        self.running.insert(task.id(), started.clone());
        self.handles.insert(started.0, task);
    }

    /// Whether a job of this key runs that `matches`.
    pub fn runs(&self, key: &str, matches: impl Fn(Job) -> bool) -> bool {
        self.running.values().any(|(running, job)| running == key && matches(*job))
    }

    /// Watches what the last render of a key depends on, instead of what the one before did.
    pub fn watch_inputs(&mut self, key: &str, inputs: RenderInputs) {
        self.renewals.remove(key);
        if let Some(at) = inputs.renew_at {
            let now = jiff::Timestamp::now().as_second();
            let left = Duration::from_secs(u64::try_from(at - now).unwrap_or(0)).min(LONGEST_SLEEP);
            self.renewals.insert(key.to_owned(), Instant::now() + left);
        }
        self.watch_answers(&inputs.client, key, inputs.lookups);
    }

    /// Watches the answers to lookups for a key, instead of those before, with the rights of `cluster`.
    pub fn watch_answers(&mut self, cluster: &Cluster, key: &str, answers: BTreeMap<LookupQuery, String>) {
        self.watches.remove(key);
        if !answers.is_empty() {
            let watch = AnswerWatch::start(cluster, key, answers, &self.changed_sender);
            self.watches.insert(key.to_owned(), watch);
        }
    }

    /// Reconciles a key again after this time; `None`: only when something changes.
    pub fn set_interval(&mut self, key: &str, interval: Option<Duration>) {
        self.intervals.remove(key);
        if let Some(interval) = interval {
            self.intervals.insert(key.to_owned(), Instant::now() + interval);
        }
    }

    /// Ends the watches, the renewal and the interval of a key.
    pub fn stop_watching(&mut self, key: &str) {
        self.renewals.remove(key);
        self.intervals.remove(key);
        self.watches.remove(key);
        self.kinds.missing.remove(key);
    }

    /// Waits for the next event. Cancel-safe.
    pub async fn next(&mut self) -> WorkerEvent<T> {
        loop {
            let timers = self.renewals.values().chain(self.intervals.values()).copied();
            let timer = timers.chain(self.queue.next_retry()).min();
            tokio::select! {
                Some(done) = self.tasks.join_next_with_id() => match done {
                    Ok((id, (key, job, result))) => {
                        self.running.remove(&id);
                        self.handles.remove(&key);
                        self.waits.remove(&key);
                        return WorkerEvent::Finished(key, job, Ok(result));
                    }
                    Err(error) => if let Some((key, job)) = self.running.remove(&error.id()) {
                        self.handles.remove(&key);
                        self.waits.remove(&key);
                        return WorkerEvent::Finished(key, job, Err(error.to_string()));
                    },
                },
                key = self.kinds.next() => return WorkerEvent::KindServed(key),
                Some(key) = self.changed.recv() => return WorkerEvent::InputsChanged(key),
                Some(event) = self.slot_events.recv() => {
                    self.take_slot_event(event);
                    return WorkerEvent::PlacesChanged;
                }
                () = until(timer) => {
                    let now = Instant::now();
                    if let Some(key) = take_due(&mut self.renewals, now) {
                        return WorkerEvent::RenewalDue(key);
                    }
                    if let Some(key) = take_due(&mut self.intervals, now) {
                        return WorkerEvent::IntervalElapsed(key);
                    }
                    self.queue.release_retries(now);
                    return WorkerEvent::RetriesDue;
                }
            }
        }
    }

    /// Ends the jobs that wait for the cluster, which the next start resumes; waits until no other job runs and the engine has nothing in
    /// the background, for a while. Results are dropped.
    pub async fn shut_down(&mut self, engine: &Engine) {
        let parked = self.handles.iter().filter(|(key, _)| self.queue.is_parked(key));
        let waiting = parked.map(|(_, handle)| handle.abort()).count();
        if waiting > 0 {
            tracing::info!(waiting, "jobs that wait for the cluster end; the next start resumes them");
        }
        // Nobody starts after this: places are free.
        self.resuming.clear();
        let rest = async {
            loop {
                tokio::select! {
                    done = self.tasks.join_next() => if done.is_none() { break },
                    Some(event) = self.slot_events.recv() => match event {
                        SlotEvent::Left(key) => self.handles.get(&key).into_iter().for_each(AbortHandle::abort),
                        // Without an answer the job goes on.
                        SlotEvent::Returning(..) => {}
                    },
                }
            }
            engine.settle().await;
        };
        if tokio::time::timeout(GRACE, rest).await.is_err() {
            tracing::warn!("jobs still run; the next start resumes them");
        }
    }
}

/// Takes out a key whose time has come.
fn take_due(times: &mut BTreeMap<String, Instant>, now: Instant) -> Option<String> {
    let key = times.iter().find(|(_, at)| **at <= now)?.0.clone();
    times.remove(&key);
    Some(key)
}

/// Resolves at a moment; never without one.
pub async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::super::work_queue::Gate;
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_ends_its_job() {
        let mut workers: Workers<u32> = Workers::new(WorkQueue::new(Gate::Open, 2));
        workers.spawn("a".to_owned(), Job::Reconcile, async { 1 });
        assert!(matches!(workers.next().await, WorkerEvent::Finished(key, _, Ok(1)) if key == "a"));
        #[allow(clippy::panic, reason = "what is tested")]
        workers.spawn("b".to_owned(), Job::Uninstall, async { panic!("broken") });
        assert!(workers.runs("b", |job| job == Job::Uninstall));
        let event = workers.next().await;
        assert!(
            matches!(&event, WorkerEvent::Finished(key, Job::Uninstall, Err(text)) if key == "b" && text.contains("broken")),
            "{event:?}"
        );
        assert!(!workers.runs("b", |_| true));
    }

    #[tokio::test]
    async fn retries_and_renewals_come_when_they_are_due() {
        let mut workers: Workers<()> = Workers::new(WorkQueue::new(Gate::Open, 2));
        workers.queue.request("a", 0, Job::Reconcile);
        workers.queue.start();
        workers.queue.done("a", false);
        workers.queue.retry_at("a", Job::Reconcile, Instant::now());
        assert!(matches!(workers.next().await, WorkerEvent::RetriesDue));
        assert_eq!(workers.queue.start(), [("a".to_owned(), Job::Reconcile)]);
        workers.renewals.insert("c".to_owned(), Instant::now());
        assert!(matches!(workers.next().await, WorkerEvent::RenewalDue(key) if key == "c"));
        workers.set_interval("d", Some(Duration::ZERO));
        assert!(matches!(workers.next().await, WorkerEvent::IntervalElapsed(key) if key == "d"));
    }
}
