//! Queues of hook runs: one after the other in each, side by side with those of other queues.
//!
//! A queue belongs to a module or to the global hooks, so that a hook that keeps failing holds up nobody else's. What a run
//! is, the runner knows; this owns order, combining and repetition.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use super::Hook;
use super::context::Context;

/// The longest pause between two tries, but for jitter.
const MAX_PAUSE: Duration = Duration::from_secs(32);

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
}

/// Does a run; an error is for the log, and the run is tried again.
pub type Runner = Arc<dyn Fn(Run) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

struct Task {
    run: Run,
    /// Told when it is done.
    done: Vec<oneshot::Sender<()>>,
}

struct Line {
    waiting: Arc<Mutex<VecDeque<Task>>>,
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

/// All queues.
pub struct Queues {
    lines: Mutex<BTreeMap<Id, Line>>,
    runner: Runner,
    /// How long to wait after so many failures in a row.
    pause: fn(u32) -> Duration,
}

impl Queues {
    #[must_use]
    pub fn new(runner: Runner) -> Self {
        Self { lines: Mutex::default(), runner, pause }
    }

    /// Puts a run at the end of its queue, and joins it to the last one there if they belong together. What is given resolves
    /// when it is done, and fails if its queue is dropped.
    pub fn push(&self, run: Run) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        let id = (run.hook.module.clone(), run.queue.clone());
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(id).or_insert_with(|| self.start());
        {
            let mut waiting = line.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let task = Task { run, done: vec![done] };
            match waiting.back_mut() {
                Some(last) if together(&last.run, &task.run) => last.join(task),
                _ => waiting.push_back(task),
            }
        }
        line.wake.notify_one();
        receiver
    }

    fn start(&self) -> Line {
        let waiting = Arc::new(Mutex::new(VecDeque::new()));
        let wake = Arc::new(Notify::new());
        let runner = Arc::clone(&self.runner);
        let worker = tokio::spawn(work(Arc::clone(&waiting), Arc::clone(&wake), runner, self.pause));
        Line { waiting, wake, worker: worker.abort_handle() }
    }

    /// Drops the queues of an owner with all that waits in them; a run that is under way is killed.
    pub fn drop_owner(&self, owner: &str) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|(of, _), _| of != owner);
    }

    /// How many runs wait in each queue, by owner and name.
    #[must_use]
    pub fn lengths(&self) -> BTreeMap<(String, String), usize> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let length = |line: &Line| line.waiting.lock().unwrap_or_else(PoisonError::into_inner).len();
        lines.iter().map(|(id, line)| (id.clone(), length(line))).collect()
    }
}

/// Whether two runs that follow each other can be one.
fn together(first: &Run, second: &Run) -> bool {
    Arc::ptr_eq(&first.hook, &second.hook)
        && first.kind == second.kind
        && first.allow_failure == second.allow_failure
}

impl Task {
    fn join(&mut self, next: Self) {
        self.run.contexts.extend(next.run.contexts);
        self.done.extend(next.done);
    }
}

async fn work(
    waiting: Arc<Mutex<VecDeque<Task>>>,
    wake: Arc<Notify>,
    runner: Runner,
    pause: fn(u32) -> Duration,
) {
    let take = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    loop {
        let Some(mut task) = take() else {
            wake.notified().await;
            continue;
        };
        let mut failures = 0;
        loop {
            task.run.hook.turn().await;
            // What came while it waited for its turn, or for another try, goes along.
            {
                let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                while waiting.front().is_some_and(|next| together(&task.run, &next.run)) {
                    waiting.pop_front().into_iter().for_each(|next| task.join(next));
                }
            }
            let Err(error) = runner(task.run.clone()).await else { break };
            let Run { hook, queue, kind, allow_failure, .. } = &task.run;
            let (module, hook) = (hook.module.as_str(), hook.name.as_str());
            if *allow_failure {
                tracing::warn!(module, hook, queue, binding = kind, "failed, which it may: {error}");
                break;
            }
            failures += 1;
            let pause = pause(failures);
            tracing::error!(module, hook, queue, binding = kind, retry_in_s = pause.as_secs_f32(), "{error}");
            tokio::time::sleep(pause).await;
        }
        // Whoever waited may have gone.
        task.done.into_iter().for_each(|done| done.send(()).unwrap_or_default());
    }
}

/// How long to wait before another try: 1 s doubling to 32 s, and up to a quarter more, so that hooks which fail for the same
/// reason do not all come back at once.
#[must_use]
pub fn pause(failures: u32) -> Duration {
    let base = Duration::from_secs(1 << failures.saturating_sub(1).min(5)).min(MAX_PAUSE);
    let chance = RandomState::new().build_hasher().finish() % 1000;
    base + base.mul_f64(chance as f64 / 4000.0)
}

#[cfg(test)]
mod tests;
