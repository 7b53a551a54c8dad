//! Which module's turn it is. Pure.
//!
//! Modules of one number run side by side; those of the next number start when each of the lower ones has been tried
//! once, whether that worked or not, or with the peer's gate when each has worked. Uninstalls come before all runs, in reverse
//! order. A retry blocks nobody. A module that waits for others by name waits until they have worked, and nobody waits for it
//! meanwhile but who says so.

use std::collections::BTreeMap;

use super::needs::Waits;

/// What is done with a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Render and reconcile.
    Run,
    /// Put its objects right, as last rendered.
    Restore,
    /// Uninstall its release.
    Uninstall,
}

/// A job that runs or waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) module: String,
    pub(super) job: Job,
    pub(super) running: bool,
    /// In a row.
    pub(super) failures: u32,
}

#[derive(Debug, Default)]
struct Slot {
    order: u32,
    waiting: Option<Job>,
    running: Option<Job>,
    /// It has had an outcome since it was last asked for.
    tried: bool,
    failures: u32,
    /// Its last run has failed.
    broken: bool,
}

impl Slot {
    /// What this module still owes before others may go on.
    fn owes(&self) -> Option<Job> {
        if self.tried { None } else { self.waiting.or(self.running) }
    }
}

/// All modules with something to do, running or done.
#[derive(Debug, Default)]
pub(super) struct Queue {
    slots: BTreeMap<String, Slot>,
    /// Which modules wait for which.
    waits: Waits,
    /// Lower numbers must have worked, not only been tried.
    strict: bool,
}

impl Queue {
    /// An empty queue; `strict`: a number waits until the lower ones have worked.
    pub(super) fn new(strict: bool) -> Self {
        Self { strict, ..Self::default() }
    }

    /// Says which modules wait for which from here on. There are no circles in it.
    pub(super) fn set_waits(&mut self, waits: Waits) {
        self.waits = waits;
    }

    /// Which modules wait for which.
    pub(super) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Whether a module's run waits for one that has not worked yet. One that is off keeps those that need it off, too, so
    /// that nobody is here who waits for it.
    fn is_held(&self, module: &str, slot: &Slot) -> bool {
        let works =
            |other: &String| self.slots.get(other).is_none_or(|s| !s.broken && s.owes() != Some(Job::Run));
        slot.waiting == Some(Job::Run)
            && self.waits.get(module).is_some_and(|others| !others.iter().all(works))
    }

    /// What a module owes before those of higher numbers may go on.
    fn owes(&self, module: &str, slot: &Slot) -> Option<Job> {
        match slot.owes() {
            Some(Job::Run) if self.is_held(module, slot) => None,
            None if self.strict && slot.broken => Some(Job::Run),
            owes => owes,
        }
    }

    /// Asks for a job; one that waits for its turn is replaced, unless the new one is less than it.
    pub(super) fn want(&mut self, module: &str, order: u32, job: Job) {
        let slot = self.slots.entry(module.to_owned()).or_default();
        slot.order = order;
        if job == Job::Restore && (slot.waiting.is_some() || slot.running == Some(Job::Uninstall)) {
            return;
        }
        slot.waiting = Some(job);
        if job != Job::Restore {
            slot.tried = false;
        }
    }

    /// Asks for a job again after it failed: it blocks nobody.
    pub(super) fn retry(&mut self, module: &str, job: Job) {
        if let Some(slot) = self.slots.get_mut(module)
            && slot.waiting.is_none()
        {
            slot.waiting = Some(job);
        }
    }

    /// The jobs that may start now; they count as running from here on.
    pub(super) fn start(&mut self) -> Vec<(String, Job)> {
        let queue = &*self;
        let owed = |job: Job| {
            let owing = queue.slots.iter().filter(move |(name, s)| queue.owes(name, s) == Some(job));
            owing.map(|(_, s)| s.order)
        };
        let last_uninstall = owed(Job::Uninstall).max();
        let first_run = owed(Job::Run).min();
        let held = queue.slots.iter().filter(|(name, s)| queue.is_held(name, s));
        let held: Vec<String> = held.map(|(name, _)| name.clone()).collect();
        let mut started = Vec::new();
        for (name, slot) in &mut self.slots {
            if held.contains(name) {
                continue;
            }
            let Some(job) = slot.waiting.filter(|_| slot.running.is_none()) else { continue };
            let turn = match job {
                _ if slot.tried => true,
                Job::Restore => true,
                Job::Uninstall => last_uninstall == Some(slot.order),
                Job::Run => last_uninstall.is_none() && first_run == Some(slot.order),
            };
            if turn {
                slot.waiting = None;
                slot.running = Some(job);
                started.push((name.clone(), job));
            }
        }
        started
    }

    /// The modules among those that may whose objects are to be put right; as [`Self::start`], whoever's turn it is.
    pub(super) fn start_restores(&mut self, may: impl Fn(&str) -> bool) -> Vec<String> {
        let mut started = Vec::new();
        for (name, slot) in &mut self.slots {
            if slot.waiting == Some(Job::Restore) && slot.running.is_none() && may(name) {
                slot.running = slot.waiting.take();
                started.push(name.clone());
            }
        }
        started
    }

    /// Notes that a job ended; gives how often it has failed in a row.
    pub(super) fn done(&mut self, module: &str, worked: bool) -> u32 {
        let Some(slot) = self.slots.get_mut(module) else { return 0 };
        let job = slot.running.take();
        slot.broken = match job {
            Some(Job::Run) => !worked,
            Some(Job::Uninstall) => false,
            Some(Job::Restore) | None => slot.broken,
        };
        // A job asked for meanwhile has had no outcome yet.
        slot.tried |= slot.waiting.is_none();
        slot.failures = if worked { 0 } else { slot.failures + 1 };
        slot.failures
    }

    /// The modules whose running jobs others may wait for.
    pub(super) fn awaited(&self) -> Vec<&str> {
        let awaited = self.slots.iter().filter(|(_, s)| s.running.is_some() && !s.tried);
        awaited.map(|(name, _)| name.as_str()).collect()
    }

    /// Counts a module as tried though its job still runs: others go on.
    pub(super) fn pass_over(&mut self, module: &str) {
        if let Some(slot) = self.slots.get_mut(module) {
            slot.tried = true;
        }
    }

    /// Whether everything asked for has had an outcome.
    pub(super) fn all_tried(&self) -> bool {
        self.owing() == 0
    }

    /// Whether a job of this module waits or runs.
    pub(super) fn is_busy(&self, module: &str) -> bool {
        self.slots.get(module).is_some_and(|s| s.waiting.is_some() || s.running.is_some())
    }

    /// All jobs that run or wait, in the order of their turns.
    pub(super) fn tasks(&self) -> Vec<Task> {
        let mut tasks: Vec<(u32, bool, Task)> = Vec::new();
        for (module, slot) in &self.slots {
            for (job, running) in
                slot.running.map(|j| (j, true)).into_iter().chain(slot.waiting.map(|j| (j, false)))
            {
                let task = Task { module: module.clone(), job, running, failures: slot.failures };
                tasks.push((slot.order, !running, task));
            }
        }
        tasks.sort_by_key(|t| (t.1, t.0));
        tasks.into_iter().map(|t| t.2).collect()
    }

    /// The job that has its turn, or is next to have it.
    pub(super) fn head(&self) -> Option<(&str, Job)> {
        let first = |job: fn(&Slot) -> Option<Job>| {
            let slots =
                self.slots.iter().filter_map(move |(name, s)| Some((s.order, name.as_str(), job(s)?)));
            slots.min_by_key(|s| s.0).map(|(_, name, job)| (name, job))
        };
        first(|s| s.running).or_else(|| first(|s| s.waiting))
    }

    /// How often a module's job has failed in a row.
    pub(super) fn failures(&self, module: &str) -> u32 {
        self.slots.get(module).map_or(0, |s| s.failures)
    }

    /// How many modules still owe an outcome.
    pub(super) fn owing(&self) -> usize {
        let owes = |(name, s): &(&String, &Slot)| self.owes(name, s).is_some_and(|job| job != Job::Restore);
        self.slots.iter().filter(owes).count()
    }

    /// How many jobs run.
    pub(super) fn running(&self) -> usize {
        self.slots.values().filter(|s| s.running.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(started: &[(String, Job)]) -> Vec<&str> {
        started.iter().map(|s| s.0.as_str()).collect()
    }

    #[test]
    fn a_number_waits_for_the_lower_ones_to_be_tried() {
        let mut q = Queue::default();
        for (name, order) in [("c", 2), ("a", 1), ("b", 1)] {
            q.want(name, order, Job::Run);
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
    fn with_the_peers_gate_lower_numbers_must_have_worked() {
        let mut q = Queue::new(true);
        for (name, order) in [("a", 1), ("b", 2)] {
            q.want(name, order, Job::Run);
        }
        assert_eq!(names(&q.start()), ["a"]);
        q.done("a", false);
        assert_eq!(names(&q.start()), [""; 0]);
        q.retry("a", Job::Run);
        assert_eq!(names(&q.start()), ["a"], "a retry is not held");
        q.done("a", false);
        assert!(!q.all_tried());
        q.retry("a", Job::Run);
        q.start();
        q.done("a", true);
        assert_eq!(names(&q.start()), ["b"]);
        // One that is switched off in its misery holds up nobody.
        q.done("b", false);
        q.want("c", 3, Job::Run);
        assert_eq!(names(&q.start()), [""; 0]);
        q.want("b", 2, Job::Uninstall);
        assert_eq!(q.start(), [("b".to_owned(), Job::Uninstall)]);
        q.done("b", true);
        assert_eq!(names(&q.start()), ["c"]);
    }

    #[test]
    fn who_waits_for_another_waits_until_it_has_worked_and_nobody_else_does() {
        let mut q = Queue::default();
        let names_of = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        q.set_waits([("b".to_owned(), names_of(&["a", "off"])), ("d".to_owned(), names_of(&["b"]))].into());
        for (name, order) in [("a", 1), ("b", 1), ("c", 2), ("d", 3)] {
            q.want(name, order, Job::Run);
        }
        assert_eq!(names(&q.start()), ["a"]);
        q.done("a", false);
        assert_eq!(names(&q.start()), ["c"]);
        q.done("c", true);
        assert_eq!(names(&q.start()), [""; 0]);
        assert!(q.all_tried(), "a converge does not wait for what waits");
        q.retry("a", Job::Run);
        assert_eq!(names(&q.start()), ["a"]);
        q.done("a", true);
        assert_eq!(names(&q.start()), ["b"]);
        q.done("b", true);
        assert_eq!(names(&q.start()), ["d"]);
        // A number in between does not come between those that were held and what they waited for.
        q.done("d", true);
        q.want("a", 1, Job::Run);
        q.want("d", 3, Job::Run);
        assert_eq!(names(&q.start()), ["a"]);
    }

    #[test]
    fn a_retry_blocks_nobody() {
        let mut q = Queue::default();
        q.want("a", 1, Job::Run);
        q.start();
        q.done("a", false);
        q.retry("a", Job::Run);
        assert!(q.all_tried());
        q.want("b", 2, Job::Run);
        assert_eq!(names(&q.start()), ["a", "b"]);
        assert_eq!(q.done("a", false), 2);
    }

    #[test]
    fn uninstalls_come_first_in_reverse() {
        let mut q = Queue::default();
        q.want("new", 1, Job::Run);
        q.want("x", 1, Job::Uninstall);
        q.want("y", 5, Job::Uninstall);
        assert_eq!(names(&q.start()), ["y"]);
        q.done("y", true);
        assert_eq!(names(&q.start()), ["x"]);
        q.done("x", false);
        assert_eq!(names(&q.start()), ["new"]);
    }

    #[test]
    fn a_job_asked_for_while_another_runs_comes_after_it() {
        let mut q = Queue::default();
        q.want("a", 1, Job::Run);
        q.start();
        q.want("a", 1, Job::Uninstall);
        assert_eq!(names(&q.start()), [""; 0]);
        q.done("a", true);
        assert!(!q.all_tried());
        assert_eq!(q.start(), [("a".to_owned(), Job::Uninstall)]);
    }

    #[test]
    fn a_module_that_is_passed_over_holds_up_nobody() {
        let mut q = Queue::default();
        q.want("a", 1, Job::Run);
        q.want("b", 2, Job::Run);
        q.start();
        assert_eq!(q.awaited(), ["a"]);
        q.pass_over("a");
        assert!(q.awaited().is_empty());
        assert_eq!(names(&q.start()), ["b"]);
        q.done("b", true);
        assert!(q.all_tried() && q.is_busy("a"));
        // It comes back after all, and what was asked for meanwhile is done.
        q.want("a", 1, Job::Run);
        assert_eq!(names(&q.start()), [""; 0], "one job of a module at a time");
        q.done("a", true);
        assert_eq!(names(&q.start()), ["a"]);
    }

    #[test]
    fn a_restore_gives_way_and_does_not_unmake_a_converge() {
        let mut q = Queue::default();
        q.want("a", 1, Job::Run);
        q.want("a", 1, Job::Restore);
        assert_eq!(q.start(), [("a".to_owned(), Job::Run)]);
        q.done("a", true);
        q.want("a", 1, Job::Restore);
        assert!(q.all_tried());
        assert_eq!(q.start(), [("a".to_owned(), Job::Restore)]);
    }

    #[test]
    fn restores_start_while_all_else_is_held() {
        let mut q = Queue::default();
        for name in ["a", "c"] {
            q.want(name, 1, Job::Run);
            q.start();
            q.done(name, true);
        }
        q.want("a", 1, Job::Restore);
        q.want("c", 1, Job::Restore);
        q.want("b", 1, Job::Run);
        assert_eq!(q.start_restores(|name| name != "c"), ["a"]);
        assert_eq!(q.start_restores(|name| name != "c"), [""; 0]);
        q.done("a", true);
        assert_eq!(names(&q.start()), ["b", "c"]);
    }
}
