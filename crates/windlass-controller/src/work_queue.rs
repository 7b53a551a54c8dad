//! The order of jobs. Pure: it is given the time and says what may start.
//!
//! One job of a key at a time; a job that waits is replaced by a later one. Among jobs that may start, lower orders come
//! first, then those that have waited longest. A namespace that has no place finds one where others take all of them. A key that
//! depends on others waits until they have succeeded, and nothing waits for it meanwhile but what depends on it. A retry blocks
//! nothing.
//!
//! With [`Gate::Tried`] and [`Gate::Succeeded`], keys of one order run side by side, those of the next order start when each
//! of the lower ones was tried once (or has succeeded), and uninstalls come before all reconciles, in reverse order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::dependencies::Dependencies;

/// What is done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Render and reconcile.
    Reconcile,
    /// Correct drift with what was rendered last.
    CorrectDrift,
    /// Uninstall the release.
    Uninstall,
}

/// What a higher order waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    /// Nothing: the order is a priority.
    #[default]
    Open,
    /// Each key of a lower order was tried, whether that worked or not.
    Tried,
    /// Each key of a lower order has succeeded.
    Succeeded,
}

/// A job that runs or waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedJob {
    /// Key of the release.
    pub key: String,
    /// What is done.
    pub job: Job,
    /// Whether it runs.
    pub running: bool,
    /// Failures in a row.
    pub failures: u32,
}

#[derive(Debug, Default)]
struct Slot {
    order: u32,
    waiting: Option<Job>,
    /// Number of the request that `waiting` answers, for fairness.
    turn: u64,
    running: Option<Job>,
    /// The running job has left its place: it waits for the cluster.
    parked: bool,
    /// It has had an outcome since it was last requested.
    tried: bool,
    failures: u32,
    /// Its last reconcile has failed.
    failed: bool,
}

impl Slot {
    /// What this key still owes before others may start.
    fn owes(&self) -> Option<Job> {
        if self.tried { None } else { self.waiting.or(self.running) }
    }

    fn has_place(&self) -> bool {
        self.running.is_some() && !self.parked
    }
}

/// All keys with something to do, running or done.
#[derive(Debug)]
pub struct WorkQueue {
    slots: BTreeMap<String, Slot>,
    dependencies: Dependencies,
    gate: Gate,
    /// Jobs that may run at a time.
    max_running: usize,
    /// Jobs that may run beside them, each of a namespace that has no place.
    spare_places: usize,
    turns: u64,
    /// Failed jobs and when they are tried again.
    retries: BTreeMap<String, (Instant, Job)>,
}

impl WorkQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(gate: Gate, max_running: usize) -> Self {
        Self {
            slots: BTreeMap::new(),
            dependencies: Dependencies::new(),
            gate,
            max_running,
            spare_places: 0,
            turns: 0,
            retries: BTreeMap::new(),
        }
    }

    /// The same queue, whose keys are `NAMESPACE/NAME`, with spare places for namespaces that have none: whatever takes all the others, one
    /// job of each further namespace goes on, a quarter as many of them as there are places.
    #[must_use]
    pub fn with_spare_places(self) -> Self {
        Self { spare_places: self.max_running.div_ceil(4), ..self }
    }

    /// Sets which keys depend on which. There must be no cycles ([`super::dependencies::resolve`]).
    pub fn set_dependencies(&mut self, dependencies: Dependencies) {
        self.dependencies = dependencies;
    }

    /// Which keys depend on which.
    #[must_use]
    pub fn dependencies(&self) -> &Dependencies {
        &self.dependencies
    }

    /// Whether a key's reconcile waits for a key that it depends on. One that is not in the queue holds nothing up.
    fn is_held(&self, key: &str, slot: &Slot) -> bool {
        let done = |other: &String| {
            self.slots.get(other).is_none_or(|s| !s.failed && s.owes() != Some(Job::Reconcile))
        };
        slot.waiting == Some(Job::Reconcile)
            && self.dependencies.get(key).is_some_and(|others| !others.iter().all(done))
    }

    /// What a key owes before those of higher orders may start.
    fn owes(&self, key: &str, slot: &Slot) -> Option<Job> {
        match slot.owes() {
            Some(Job::Reconcile) if self.is_held(key, slot) => None,
            None if self.gate == Gate::Succeeded && slot.failed => Some(Job::Reconcile),
            owes => owes,
        }
    }

    /// Requests a job. One that waits is replaced, unless the new one is a drift correction.
    pub fn request(&mut self, key: &str, order: u32, job: Job) {
        self.turns += 1;
        let slot = self.slots.entry(key.to_owned()).or_default();
        slot.order = order;
        if job == Job::CorrectDrift && (slot.waiting.is_some() || slot.running == Some(Job::Uninstall)) {
            return;
        }
        if slot.waiting.is_none() {
            slot.turn = self.turns;
        }
        slot.waiting = Some(job);
        if job != Job::CorrectDrift {
            slot.tried = false;
        }
    }

    /// Requests a failed job again at a later time.
    pub fn retry_at(&mut self, key: &str, job: Job, at: Instant) {
        self.retries.insert(key.to_owned(), (at, job));
    }

    /// Takes out the retry of a key.
    pub fn take_retry(&mut self, key: &str) -> Option<Job> {
        self.retries.remove(key).map(|(_, job)| job)
    }

    /// Forgets a retry: something else was requested.
    pub fn cancel_retry(&mut self, key: &str) {
        self.retries.remove(key);
    }

    /// When the next retry is due.
    #[must_use]
    pub fn next_retry(&self) -> Option<Instant> {
        self.retries.values().map(|(at, _)| *at).min()
    }

    /// Requests the retries that are due. They block nothing.
    pub fn release_retries(&mut self, now: Instant) {
        let due: Vec<(String, Job)> =
            self.retries.iter().filter(|(_, r)| r.0 <= now).map(|(n, r)| (n.clone(), r.1)).collect();
        for (key, job) in due {
            self.retries.remove(&key);
            self.retry(&key, job);
        }
    }

    /// The jobs that wait for a retry.
    pub fn retries(&self) -> impl Iterator<Item = (&str, Job)> {
        self.retries.iter().map(|(key, (_, job))| (key.as_str(), *job))
    }

    fn retry(&mut self, key: &str, job: Job) {
        self.turns += 1;
        if let Some(slot) = self.slots.get_mut(key)
            && slot.waiting.is_none()
        {
            slot.waiting = Some(job);
            slot.turn = self.turns;
        }
    }

    /// The jobs that may start now; they count as running from here on.
    pub fn start(&mut self) -> Vec<(String, Job)> {
        if self.placed() >= self.most_placed() {
            // Asked after each event: with many keys that wait, looking at all of them would take longer than what is done.
            return Vec::new();
        }
        let queue = &*self;
        let owed = |job: Job| {
            let owing = queue.slots.iter().filter(move |(key, s)| queue.owes(key, s) == Some(job));
            owing.map(|(_, s)| s.order)
        };
        let last_uninstall = owed(Job::Uninstall).max();
        let first_reconcile = owed(Job::Reconcile).min();
        let may_start = |(key, slot): &(&String, &Slot)| {
            let Some(job) = slot.waiting.filter(|_| slot.running.is_none()) else { return false };
            if queue.is_held(key, slot) {
                return false;
            }
            match job {
                _ if slot.tried || queue.gate == Gate::Open => true,
                Job::CorrectDrift => true,
                Job::Uninstall => last_uninstall == Some(slot.order),
                Job::Reconcile => last_uninstall.is_none() && first_reconcile == Some(slot.order),
            }
        };
        let ready = self.slots.iter().filter(may_start);
        let mut ready: Vec<(u32, u64, &String)> =
            ready.map(|(key, slot)| (slot.order, slot.turn, key)).collect();
        ready.sort_unstable();
        let mut started = Vec::new();
        for key in self.with_a_place(ready.into_iter().map(|(.., key)| key)) {
            if let Some(slot) = self.slots.get_mut(&key)
                && let Some(job) = slot.waiting.take()
            {
                slot.running = Some(job);
                started.push((key, job));
            }
        }
        started
    }

    /// Most jobs that have a place.
    fn most_placed(&self) -> usize {
        self.max_running.saturating_add(self.spare_places)
    }

    /// Those of the keys that get a place now, in this order.
    fn with_a_place<'k>(&self, keys: impl Iterator<Item = &'k String>) -> Vec<String> {
        let mut placed = self.placed();
        let mut namespaces: Option<BTreeSet<String>> = None;
        let mut chosen = Vec::new();
        for key in keys {
            if placed >= self.most_placed() {
                break;
            }
            if placed >= self.max_running {
                let namespaces = namespaces.get_or_insert_with(|| {
                    let started = chosen.iter().map(|key: &String| namespace_of(key).to_owned());
                    self.namespaces_with_places().into_iter().chain(started).collect()
                });
                if !namespaces.insert(namespace_of(key).to_owned()) {
                    continue;
                }
            }
            placed += 1;
            chosen.push(key.clone());
        }
        chosen
    }

    /// The namespaces of jobs that have a place.
    fn namespaces_with_places(&self) -> BTreeSet<String> {
        let placed = self.slots.iter().filter(|(_, slot)| slot.has_place());
        placed.map(|(key, _)| namespace_of(key).to_owned()).collect()
    }

    /// Starts the drift corrections among keys that `may`, whatever the gate; otherwise as [`Self::start`].
    pub fn start_drift_corrections(&mut self, may: impl Fn(&str) -> bool) -> Vec<String> {
        let mut started = Vec::new();
        for (key, slot) in &mut self.slots {
            if slot.waiting == Some(Job::CorrectDrift) && slot.running.is_none() && may(key) {
                slot.running = slot.waiting.take();
                started.push(key.clone());
            }
        }
        started
    }

    /// Frees the place of a running job while it waits for the cluster.
    pub fn park(&mut self, key: &str) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.parked = slot.running.is_some();
        }
    }

    /// Gives a parked job a place again. Returns whether there is one; a job that is not parked has one.
    pub fn resume(&mut self, key: &str) -> bool {
        let placed = self.placed();
        let free = placed < self.max_running
            || placed < self.most_placed() && !self.namespaces_with_places().contains(namespace_of(key));
        match self.slots.get_mut(key) {
            Some(slot) if slot.parked && !free => false,
            Some(slot) => {
                slot.parked = false;
                true
            }
            None => true,
        }
    }

    /// Whether the job of a key is parked.
    #[must_use]
    pub fn is_parked(&self, key: &str) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.parked)
    }

    /// Records that a job ended. Returns how often it has failed in a row.
    pub fn done(&mut self, key: &str, succeeded: bool) -> u32 {
        let Some(slot) = self.slots.get_mut(key) else { return 0 };
        let job = slot.running.take();
        slot.parked = false;
        slot.failed = match job {
            Some(Job::Reconcile) => !succeeded,
            Some(Job::Uninstall) => false,
            Some(Job::CorrectDrift) | None => slot.failed,
        };
        // A job requested meanwhile has had no outcome yet.
        slot.tried |= slot.waiting.is_none();
        slot.failures = if succeeded { 0 } else { slot.failures + 1 };
        slot.failures
    }

    /// Forgets a key that has no job.
    pub fn forget(&mut self, key: &str) {
        if self.slots.get(key).is_some_and(|s| s.running.is_none()) {
            self.slots.remove(key);
        }
        self.retries.remove(key);
    }

    /// The keys whose running jobs others may wait for.
    #[must_use]
    pub fn awaited(&self) -> Vec<&str> {
        let awaited = self.slots.iter().filter(|(_, s)| s.running.is_some() && !s.tried);
        awaited.map(|(key, _)| key.as_str()).collect()
    }

    /// Counts a key as tried though its job still runs: others may start.
    pub fn pass_over(&mut self, key: &str) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.tried = true;
        }
    }

    /// Whether every requested job has had an outcome.
    #[must_use]
    pub fn all_tried(&self) -> bool {
        self.owing() == 0
    }

    /// Whether a job of this key waits or runs.
    #[must_use]
    pub fn is_busy(&self, key: &str) -> bool {
        self.slots.get(key).is_some_and(|s| s.waiting.is_some() || s.running.is_some())
    }

    /// All jobs that run or wait, in their order.
    #[must_use]
    pub fn jobs(&self) -> Vec<QueuedJob> {
        let mut jobs: Vec<(u32, bool, QueuedJob)> = Vec::new();
        for (key, slot) in &self.slots {
            for (job, running) in
                slot.running.map(|j| (j, true)).into_iter().chain(slot.waiting.map(|j| (j, false)))
            {
                let queued = QueuedJob { key: key.clone(), job, running, failures: slot.failures };
                jobs.push((slot.order, !running, queued));
            }
        }
        jobs.sort_by_key(|j| (j.1, j.0));
        jobs.into_iter().map(|j| j.2).collect()
    }

    /// The job that runs, or else the one that is next.
    #[must_use]
    pub fn head(&self) -> Option<(&str, Job)> {
        let first = |job: fn(&Slot) -> Option<Job>| {
            let slots = self.slots.iter().filter_map(move |(key, s)| Some((s.order, key.as_str(), job(s)?)));
            slots.min_by_key(|s| s.0).map(|(_, key, job)| (key, job))
        };
        first(|s| s.running).or_else(|| first(|s| s.waiting))
    }

    /// Starts the count of failures anew: what a key is made of has changed.
    pub fn reset_failures(&mut self, key: &str) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.failures = 0;
        }
    }

    /// How often a key's job has failed in a row.
    #[must_use]
    pub fn failures(&self, key: &str) -> u32 {
        self.slots.get(key).map_or(0, |s| s.failures)
    }

    /// How many keys still owe an outcome.
    #[must_use]
    pub fn owing(&self) -> usize {
        let owes = |(key, s): &(&String, &Slot)| self.owes(key, s).is_some_and(|j| j != Job::CorrectDrift);
        self.slots.iter().filter(owes).count()
    }

    /// How many jobs run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.slots.values().filter(|s| s.running.is_some()).count()
    }

    /// How many of them have a place.
    fn placed(&self) -> usize {
        self.slots.values().filter(|slot| slot.has_place()).count()
    }
}

/// The namespace of a key; empty for one without.
fn namespace_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(started: &[(String, Job)]) -> Vec<&str> {
        started.iter().map(|s| s.0.as_str()).collect()
    }

    #[test]
    fn an_order_waits_for_the_lower_ones_to_be_tried() {
        let mut q = WorkQueue::new(Gate::Tried, usize::MAX);
        for (name, order) in [("c", 2), ("a", 1), ("b", 1)] {
            q.request(name, order, Job::Reconcile);
        }
        assert_eq!(names(&q.start()), ["a", "b"]);
        assert_eq!(names(&q.start()), [""; 0]);
        assert_eq!(q.done("a", true), 0);
        assert_eq!(names(&q.start()), [""; 0]);
        assert_eq!(q.done("b", false), 1, "a failure counts as tried");
        assert_eq!(names(&q.start()), ["c"]);
        assert!(!q.all_tried());
        q.done("c", true);
        assert!(q.all_tried());
    }

    #[test]
    fn with_the_strict_gate_lower_orders_must_have_succeeded() {
        let mut q = WorkQueue::new(Gate::Succeeded, usize::MAX);
        for (name, order) in [("a", 1), ("b", 2)] {
            q.request(name, order, Job::Reconcile);
        }
        assert_eq!(names(&q.start()), ["a"]);
        q.done("a", false);
        assert_eq!(names(&q.start()), [""; 0]);
        q.retry("a", Job::Reconcile);
        assert_eq!(names(&q.start()), ["a"], "a retry is not held");
        q.done("a", false);
        assert!(!q.all_tried());
        q.retry("a", Job::Reconcile);
        q.start();
        q.done("a", true);
        assert_eq!(names(&q.start()), ["b"]);
        // A failed key that is disabled blocks nothing.
        q.done("b", false);
        q.request("c", 3, Job::Reconcile);
        assert_eq!(names(&q.start()), [""; 0]);
        q.request("b", 2, Job::Uninstall);
        assert_eq!(q.start(), [("b".to_owned(), Job::Uninstall)]);
        q.done("b", true);
        assert_eq!(names(&q.start()), ["c"]);
    }

    #[test]
    fn a_dependent_waits_until_its_dependency_has_succeeded_and_nothing_else_does() {
        let mut q = WorkQueue::new(Gate::Tried, usize::MAX);
        let names_of = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        q.set_dependencies(
            [("b".to_owned(), names_of(&["a", "off"])), ("d".to_owned(), names_of(&["b"]))].into(),
        );
        for (name, order) in [("a", 1), ("b", 1), ("c", 2), ("d", 3)] {
            q.request(name, order, Job::Reconcile);
        }
        assert_eq!(names(&q.start()), ["a"]);
        q.done("a", false);
        assert_eq!(names(&q.start()), ["c"]);
        q.done("c", true);
        assert_eq!(names(&q.start()), [""; 0]);
        assert!(q.all_tried(), "a converge does not wait for what waits");
        q.retry("a", Job::Reconcile);
        assert_eq!(names(&q.start()), ["a"]);
        q.done("a", true);
        assert_eq!(names(&q.start()), ["b"]);
        q.done("b", true);
        assert_eq!(names(&q.start()), ["d"]);
        // A number in between does not come between those that were held and what they waited for.
        q.done("d", true);
        q.request("a", 1, Job::Reconcile);
        q.request("d", 3, Job::Reconcile);
        assert_eq!(names(&q.start()), ["a"]);
    }

    #[test]
    fn a_retry_blocks_nothing() {
        let mut q = WorkQueue::new(Gate::Tried, usize::MAX);
        q.request("a", 1, Job::Reconcile);
        q.start();
        q.done("a", false);
        q.retry("a", Job::Reconcile);
        assert!(q.all_tried());
        q.request("b", 2, Job::Reconcile);
        assert_eq!(names(&q.start()), ["a", "b"]);
        assert_eq!(q.done("a", false), 2);
    }

    #[test]
    fn uninstalls_come_first_in_reverse() {
        let mut q = WorkQueue::new(Gate::Tried, usize::MAX);
        q.request("new", 1, Job::Reconcile);
        q.request("x", 1, Job::Uninstall);
        q.request("y", 5, Job::Uninstall);
        assert_eq!(names(&q.start()), ["y"]);
        q.done("y", true);
        assert_eq!(names(&q.start()), ["x"]);
        q.done("x", false);
        assert_eq!(names(&q.start()), ["new"]);
    }

    #[test]
    fn a_job_that_waits_for_the_cluster_needs_no_place() {
        let mut q = WorkQueue::new(Gate::Open, 1);
        q.request("a", 0, Job::Reconcile);
        q.request("b", 0, Job::Reconcile);
        assert_eq!(names(&q.start()), ["a"]);
        q.park("a");
        assert_eq!(names(&q.start()), ["b"]);
        assert!(!q.resume("a"), "b has the only place");
        assert!(q.is_parked("a") && !q.is_parked("b"));
        q.request("a", 0, Job::Reconcile);
        assert_eq!(names(&q.start()), [""; 0], "one job of a key at a time");
        q.done("b", true);
        assert!(q.resume("a"));
        q.done("a", true);
        assert_eq!(names(&q.start()), ["a"]);
        q.park("none");
        assert!(q.resume("none"));
    }

    #[test]
    fn a_job_requested_while_another_runs_comes_after_it() {
        let mut q = WorkQueue::new(Gate::Tried, usize::MAX);
        q.request("a", 1, Job::Reconcile);
        q.start();
        q.request("a", 1, Job::Uninstall);
        assert_eq!(names(&q.start()), [""; 0]);
        q.done("a", true);
        assert!(!q.all_tried());
        assert_eq!(q.start(), [("a".to_owned(), Job::Uninstall)]);
    }

    #[test]
    fn a_key_that_is_passed_over_holds_up_nothing() {
        let mut q = WorkQueue::new(Gate::Tried, usize::MAX);
        q.request("a", 1, Job::Reconcile);
        q.request("b", 2, Job::Reconcile);
        q.start();
        assert_eq!(q.awaited(), ["a"]);
        q.pass_over("a");
        assert!(q.awaited().is_empty());
        assert_eq!(names(&q.start()), ["b"]);
        q.done("b", true);
        assert!(q.all_tried() && q.is_busy("a"));
        // It comes back after all, and what was asked for meanwhile is done.
        q.request("a", 1, Job::Reconcile);
        assert_eq!(names(&q.start()), [""; 0], "one job of a module at a time");
        q.done("a", true);
        assert_eq!(names(&q.start()), ["a"]);
    }

    #[test]
    fn a_drift_correction_gives_way_and_owes_nothing() {
        let mut q = WorkQueue::new(Gate::Tried, usize::MAX);
        q.request("a", 1, Job::Reconcile);
        q.request("a", 1, Job::CorrectDrift);
        assert_eq!(q.start(), [("a".to_owned(), Job::Reconcile)]);
        q.done("a", true);
        q.request("a", 1, Job::CorrectDrift);
        assert!(q.all_tried());
        assert_eq!(q.start(), [("a".to_owned(), Job::CorrectDrift)]);
    }

    #[test]
    fn drift_corrections_start_while_all_else_is_held() {
        let mut q = WorkQueue::new(Gate::Tried, usize::MAX);
        for name in ["a", "c"] {
            q.request(name, 1, Job::Reconcile);
            q.start();
            q.done(name, true);
        }
        q.request("a", 1, Job::CorrectDrift);
        q.request("c", 1, Job::CorrectDrift);
        q.request("b", 1, Job::Reconcile);
        assert_eq!(q.start_drift_corrections(|name| name != "c"), ["a"]);
        assert_eq!(q.start_drift_corrections(|name| name != "c"), [""; 0]);
        q.done("a", true);
        assert_eq!(names(&q.start()), ["c", "b"], "the longest waiting first");
    }

    #[test]
    fn without_gates_the_longest_waiting_start_first_and_few_at_a_time() {
        let mut q = WorkQueue::new(Gate::Open, 2);
        for key in ["c", "a", "b"] {
            q.request(key, 0, Job::Reconcile);
        }
        q.request("c", 0, Job::Reconcile);
        assert_eq!(names(&q.start()), ["c", "a"], "a second request does not lose the turn");
        q.request("urgent", 0, Job::Uninstall);
        assert_eq!(names(&q.start()), [""; 0]);
        q.done("c", true);
        q.request("c", 0, Job::Reconcile);
        assert_eq!(names(&q.start()), ["b"], "one key cannot starve the others");
        q.done("a", true);
        assert_eq!(names(&q.start()), ["urgent"]);
    }

    #[test]
    fn retries_are_requested_when_they_are_due() {
        let mut q = WorkQueue::new(Gate::Open, 8);
        let now = Instant::now();
        q.request("a", 0, Job::Reconcile);
        q.start();
        q.done("a", false);
        let later = now + std::time::Duration::from_secs(5);
        q.retry_at("a", Job::Reconcile, later);
        assert_eq!(q.next_retry(), Some(later));
        q.release_retries(now);
        assert_eq!(names(&q.start()), [""; 0]);
        q.release_retries(later);
        assert_eq!((names(&q.start()), q.next_retry()), (vec!["a"], None));
    }

    #[test]
    fn what_has_failed_for_long_is_done_at_once_when_it_is_requested() {
        let mut q = WorkQueue::new(Gate::Open, 8);
        for failures in 1..=100 {
            q.request("a", 0, Job::Reconcile);
            assert_eq!(names(&q.start()), ["a"]);
            assert_eq!(q.done("a", false), failures);
            q.retry_at("a", Job::Reconcile, Instant::now() + std::time::Duration::from_secs(40));
        }
        // Its source is back: nothing waits for the retry, and the next failure is the first one.
        q.request("a", 0, Job::Reconcile);
        assert_eq!(names(&q.start()), ["a"]);
        assert_eq!(q.done("a", true), 0);
        q.request("a", 0, Job::Reconcile);
        q.start();
        assert_eq!(q.done("a", false), 1);
    }

    #[test]
    fn a_namespace_without_a_place_finds_a_spare_one() {
        let mut q = WorkQueue::new(Gate::Open, 4).with_spare_places();
        for n in 0..6 {
            q.request(&format!("a/{n}"), 0, Job::Reconcile);
        }
        assert_eq!(names(&q.start()), ["a/0", "a/1", "a/2", "a/3"], "one alone has all but the spare place");
        for key in ["b/0", "b/1", "c/0"] {
            q.request(key, 0, Job::Reconcile);
        }
        assert_eq!(names(&q.start()), ["b/0"]);
        q.done("b/0", true);
        assert_eq!(names(&q.start()), ["b/1"], "its next one, though those of a have waited longer");
        q.park("b/1");
        assert_eq!(names(&q.start()), ["c/0"]);
        assert!(!q.resume("b/1"), "c has the spare place");
        q.done("c/0", true);
        assert!(q.resume("b/1"));
        q.park("a/0");
        assert_eq!(names(&q.start()), [""; 0], "four run, and a has places");
        q.done("a/1", true);
        assert_eq!(names(&q.start()), ["a/4"], "four run, of which one is of b");
        assert!(!q.resume("a/0"), "a has places, and no other is free");
    }
}
