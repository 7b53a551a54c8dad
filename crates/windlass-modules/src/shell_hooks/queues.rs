//! Queues of hook runs: one after the other in each, side by side with those of other queues.
//!
//! A queue belongs to a module or to the global hooks, so that a failing hook blocks no other owner's. What a run
//! is, the runner knows; this owns order, combining and repetition.

mod queue_dump;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use super::Hook;
use super::binding_context::{self, Context};
use super::context_bounds::{self, most_waiting};
pub use queue_dump::{OperatorTasks, dump_all, dump_main};
use windlass_base::redact;

/// With more runs than that in a queue those of a hook are one, also where others are between them.
const LONG: usize = 100;

/// How long a failed run waits at most before it is tried again: addon-operator's pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The number of the next event.
static EVENTS: AtomicU64 = AtomicU64::new(1);

/// A number for the cause of a run.
pub(super) fn next_event() -> u64 {
    EVENTS.fetch_add(1, Ordering::Relaxed)
}

/// Runs of a hook in one queue, as they come; `label` tells bindings of different kinds apart.
#[derive(Clone)]
pub struct Run {
    pub hook: Arc<Hook>,
    pub contexts: Vec<Context>,
    /// Kind of the bindings: `schedule`, `kubernetes`.
    pub kind: &'static str,
    pub queue: String,
    /// A failure counts as done.
    pub allow_failure: bool,
    /// When it was queued.
    pub since: Instant,
    /// The number of its cause.
    pub event: u64,
    /// How often it has failed.
    pub failures: u32,
}

/// Does a run; an error is for the log, and the run is tried again.
pub type Runner = Arc<dyn Fn(Run) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

struct Task {
    run: Run,
    /// Told when it is done.
    done: Vec<oneshot::Sender<()>>,
    /// What its contexts take, in bytes.
    size: u64,
}

/// What a queue holds.
#[derive(Default)]
struct Content {
    /// The run that is under way, or waits for another try.
    head: Option<Head>,
    waiting: VecDeque<Task>,
    /// It was too much once since it was empty.
    was_bounded: bool,
}

struct Head {
    run: Run,
    /// Why its last try failed.
    error: String,
    /// Until when it waits for another one.
    rests_until: Option<Instant>,
}

/// A queue as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// The module; empty for the global hooks.
    pub owner: String,
    pub name: String,
    /// What is done with its first run.
    pub status: String,
    /// Its runs in order, the one under way first.
    pub tasks: Vec<TaskView>,
}

impl QueueView {
    /// addon-operator's word for its tasks.
    #[must_use]
    pub fn task_type(&self) -> &'static str {
        if self.owner.is_empty() { "GlobalHookRun" } else { "ModuleHookRun" }
    }
}

/// A run in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskView {
    pub hook: String,
    /// Kind of the bindings.
    pub kind: &'static str,
    /// Names of the bindings, each once.
    pub bindings: Vec<String>,
    /// How many contexts it has.
    pub contexts: usize,
    pub failures: u32,
    /// Why the last try failed.
    pub error: String,
}

impl TaskView {
    fn of(run: &Run, error: &str) -> Self {
        let mut bindings: Vec<String> = run.contexts.iter().map(|c| c.binding.clone()).collect();
        bindings.sort();
        bindings.dedup();
        Self {
            hook: run.hook.name.clone(),
            kind: run.kind,
            bindings,
            contexts: run.contexts.len(),
            failures: run.failures,
            error: error.to_owned(),
        }
    }
}

impl Content {
    /// Warns that contexts of runs take more than `most`: once, until the queue is empty.
    fn warn_of_bound(&mut self, run: &Run, most: u64) {
        if std::mem::replace(&mut self.was_bounded, true) {
            return;
        }
        tracing::warn!(
            module = run.hook.module,
            hook = run.hook.name,
            queue = run.queue,
            "what waits takes more than {} MiB: hooks get the last change of each object, or a Synchronization instead of events",
            most >> 20
        );
    }

    /// Its runs, the one under way first.
    fn tasks(&self) -> Vec<TaskView> {
        let head = self.head.iter().map(|h| TaskView::of(&h.run, &h.error));
        head.chain(self.waiting.iter().map(|t| TaskView::of(&t.run, ""))).collect()
    }

    /// In addon-operator's words.
    fn status(&self) -> String {
        match &self.head {
            None if self.waiting.is_empty() => "waiting for task".to_owned(),
            Some(Head { rests_until: Some(until), .. }) => {
                let left = until.saturating_duration_since(Instant::now());
                format!("sleep after fail for {:.1}s", left.as_secs_f32())
            }
            _ => "run first task".to_owned(),
        }
    }
}

struct Line {
    content: Arc<Mutex<Content>>,
    wake: Arc<Notify>,
    worker: AbortHandle,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

/// Owner and name.
type Id = (String, String);

/// How long a failed run waits: addon-operator's pause at most.
fn pause(failures: u32) -> Duration {
    windlass_base::backoff::delay(failures).min(LONGEST_PAUSE)
}

/// All queues.
pub struct Queues {
    lines: Mutex<BTreeMap<Id, Line>>,
    runner: Runner,
    /// How long to wait after so many failures in a row.
    pause: fn(u32) -> Duration,
    /// The most that contexts which wait in a queue take, in bytes, and those of the run under way.
    most: u64,
    /// Told when a run has failed.
    failed: Arc<Notify>,
}

impl Queues {
    #[must_use]
    pub fn new(runner: Runner) -> Self {
        Self { lines: Mutex::default(), runner, pause, most: most_waiting(), failed: Arc::default() }
    }

    /// Puts a run at the end of its queue, and joins it to the last one there if they belong together. What is given resolves
    /// when it is done, and fails if its queue is dropped.
    pub fn push(&self, run: Run) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        let id = (run.hook.module.clone(), run.queue.clone());
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(id).or_insert_with(|| self.start());
        {
            let mut content = line.content.lock().unwrap_or_else(PoisonError::into_inner);
            let content = &mut *content;
            let task = Task::new(run, done);
            match content.waiting.back_mut() {
                Some(last) if together(&last.run, &task.run) => last.join(task),
                _ => content.waiting.push_back(task),
            }
            if content.waiting.len() > LONG || size(&content.waiting) > self.most {
                compact(&mut content.waiting);
            }
            if let Some(largest) = bound(content.waiting.make_contiguous(), self.most) {
                content.warn_of_bound(&largest, self.most);
            }
        }
        line.wake.notify_one();
        receiver
    }

    fn start(&self) -> Line {
        let content = Arc::new(Mutex::new(Content::default()));
        let wake = Arc::new(Notify::new());
        let runner = Arc::clone(&self.runner);
        let worker = tokio::spawn(redact::own(work(
            Arc::clone(&content),
            (Arc::clone(&wake), Arc::clone(&self.failed)),
            runner,
            (self.pause, self.most),
        )));
        Line { content, wake, worker: worker.abort_handle() }
    }

    /// Drops the queues of an owner with all that waits in them; a run that is under way is killed.
    pub fn drop_owner(&self, owner: &str) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|(of, _), _| of != owner);
    }

    /// Resolves when one of these runs has failed and is still to be done: with its queue, and why.
    pub async fn failure(&self, runs: &[Run]) -> (String, String) {
        loop {
            let failed = self.failed.notified();
            tokio::pin!(failed);
            failed.as_mut().enable();
            if let Some(found) = self.failing(runs) {
                return found;
            }
            failed.await;
        }
    }

    fn failing(&self, runs: &[Run]) -> Option<(String, String)> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let failing = |(id, line): (&Id, &Line)| {
            let content = line.content.lock().unwrap_or_else(PoisonError::into_inner);
            let head = content.head.as_ref().filter(|head| !head.error.is_empty())?;
            let is_in = |run: &Run| {
                let mut contexts = head.run.contexts.iter();
                Arc::ptr_eq(&run.hook, &head.run.hook)
                    && run.queue == head.run.queue
                    && contexts
                        .any(|c| run.contexts.iter().any(|of| c.binding == of.binding && c.what == of.what))
            };
            runs.iter().any(is_in).then(|| (id.1.clone(), head.error.clone()))
        };
        lines.iter().find_map(failing)
    }

    /// All queues as they are now, by owner and name.
    #[must_use]
    pub fn view(&self) -> Vec<QueueView> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let view = |((owner, name), line): (&Id, &Line)| {
            let content = line.content.lock().unwrap_or_else(PoisonError::into_inner);
            let (owner, name) = (owner.clone(), name.clone());
            QueueView { owner, name, status: content.status(), tasks: content.tasks() }
        };
        lines.iter().map(view).collect()
    }
}

/// Whether two runs that follow each other can be one.
fn together(first: &Run, second: &Run) -> bool {
    Arc::ptr_eq(&first.hook, &second.hook)
        && first.kind == second.kind
        && first.allow_failure == second.allow_failure
}

/// Makes runs one that belong together, each at the place of the first of them.
fn compact(waiting: &mut VecDeque<Task>) {
    let mut kept: VecDeque<Task> = VecDeque::new();
    for task in waiting.drain(..) {
        match kept.iter_mut().find(|k| together(&k.run, &task.run)) {
            Some(first) => first.join(task),
            None => kept.push_back(task),
        }
    }
    for task in &mut kept {
        task.run.contexts = binding_context::compact(std::mem::take(&mut task.run.contexts));
        task.measure();
    }
    *waiting = kept;
}

/// What the contexts of runs take, in bytes.
fn size<'t>(tasks: impl IntoIterator<Item = &'t Task>) -> u64 {
    tasks.into_iter().map(|task| task.size).sum()
}

/// Keeps the contexts of runs within a bound. Returns the run that took most, if they took more.
fn bound(tasks: &mut [Task], most: u64) -> Option<Run> {
    if size(&*tasks) <= most {
        return None;
    }
    // Ordinary clusters have many objects, each once: their snapshots are there anyway. What is counted anew counts less from here on, by
    // at most what the snapshots have.
    tasks.iter_mut().for_each(Task::measure);
    if size(&*tasks) <= most {
        return None;
    }
    let largest = tasks.iter().max_by_key(|task| task.size);
    let largest = largest.map(|task| Run { contexts: Vec::new(), ..task.run.clone() });
    let mut by_size: Vec<usize> = (0..tasks.len()).collect();
    by_size.sort_by_key(|at| std::cmp::Reverse(tasks[*at].size));
    for at in by_size {
        if size(&*tasks) <= context_bounds::few(most) {
            break;
        }
        context_bounds::drop_superseded(&mut tasks[at].run.contexts);
        tasks[at].measure();
    }
    while size(&*tasks) > context_bounds::few(most) {
        let with_events =
            tasks.iter_mut().filter(|task| task.run.contexts.iter().any(context_bounds::is_event));
        let Some(task) = with_events.max_by_key(|task| task.size) else { break };
        context_bounds::replace_events(&mut task.run.contexts);
        task.measure();
    }
    largest
}

impl Task {
    fn new(run: Run, done: oneshot::Sender<()>) -> Self {
        let size = context_bounds::size(&run.contexts);
        Self { run, done: vec![done], size }
    }

    fn join(&mut self, next: Self) {
        self.run.contexts.extend(next.run.contexts);
        // Nobody waits for events: their senders would add up.
        self.done.retain(|done| !done.is_closed());
        self.done.extend(next.done);
        self.size += next.size;
    }

    fn measure(&mut self) {
        self.size = context_bounds::size_beside_snapshots(&self.run.contexts);
    }
}

async fn work(
    content: Arc<Mutex<Content>>,
    (wake, failed): (Arc<Notify>, Arc<Notify>),
    runner: Runner,
    (pause, most): (fn(u32) -> Duration, u64),
) {
    let content = || content.lock().unwrap_or_else(PoisonError::into_inner);
    let take = || {
        let mut content = content();
        let task = content.waiting.pop_front();
        content.head =
            task.as_ref().map(|t| Head { run: t.run.clone(), error: String::new(), rests_until: None });
        content.was_bounded &= task.is_some();
        task
    };
    loop {
        let Some(mut task) = take() else {
            wake.notified().await;
            continue;
        };
        loop {
            task.run.hook.turn().await;
            // Runs that came meanwhile are combined with it.
            {
                let mut content = content();
                while content.waiting.front().is_some_and(|next| together(&task.run, &next.run)) {
                    content.waiting.pop_front().into_iter().for_each(|next| task.join(next));
                }
                if let Some(run) = bound(std::slice::from_mut(&mut task), most) {
                    content.warn_of_bound(&run, most);
                }
                if let Some(head) = &mut content.head {
                    head.run = task.run.clone();
                    head.rests_until = None;
                }
            }
            let Err(error) = runner(task.run.clone()).await else { break };
            task.run.failures += 1;
            let Run { hook, queue, kind, allow_failure, failures, .. } = &task.run;
            let (module, hook) = (hook.module.as_str(), hook.name.as_str());
            if *allow_failure {
                tracing::warn!(module, hook, queue, binding = kind, "failed (allowFailure): {error}");
                break;
            }
            let pause = pause(*failures);
            let known = {
                let mut content = content();
                let head = content.head.as_mut();
                let known = head.as_ref().is_some_and(|head| head.error == error);
                if let Some(head) = head {
                    head.run.failures = *failures;
                    head.error.clone_from(&error);
                    head.rests_until = Some(Instant::now() + pause);
                }
                known
            };
            let retry_in_s = pause.as_secs_f32();
            match known {
                true => tracing::info!(
                    module,
                    hook,
                    queue,
                    failures,
                    retry_in_s,
                    "the hook failed again for the same reason"
                ),
                false => tracing::error!(module, hook, queue, binding = kind, retry_in_s, "{error}"),
            }
            failed.notify_waiters();
            tokio::time::sleep(pause).await;
        }
        content().head = None;
        // Whoever waited may have gone.
        task.done.into_iter().for_each(|done| done.send(()).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
