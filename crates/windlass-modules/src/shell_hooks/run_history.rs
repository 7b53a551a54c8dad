//! The last runs of a hook: when, how they ended, what they used, what they printed.
//!
//! Owns how much of that is kept: a few runs, of each stream the beginning and the end. It is kept in memory alone, for as
//! long as the hook is loaded; what is printed went to the log, too.

mod run_dump;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;

use super::process::{End, ProcessError, ProcessResult, Stream, Usage};
pub use run_dump::dump_runs;

/// So many runs of a hook are kept. More run at once only for webhooks, and all that run are kept.
const KEPT: usize = 5;
/// Of each stream of a run so many bytes of the beginning are kept,
const HEAD: usize = 512;
/// and so many of the end.
const TAIL: usize = 1536;

/// A run of a hook.
#[derive(Clone, Debug)]
pub struct RunView {
    /// Its number, as in the log.
    pub task: u64,
    /// The number of its cause: the same in each of its tries.
    pub event: u64,
    /// Names of its bindings, each once.
    pub bindings: Vec<String>,
    pub queue: String,
    pub started: Timestamp,
    began: Instant,
    pub outcome: RunResult,
    /// What it used; `None` while it runs, and where that is not known.
    pub usage: Option<Usage>,
    pub stdout: Printed,
    pub stderr: Printed,
}

impl RunView {
    /// How long it took, or has taken by now, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        match &self.outcome {
            RunResult::Running => self.began.elapsed().as_secs_f64(),
            RunResult::ProcessExit { seconds, .. } => *seconds,
        }
    }
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq)]
pub enum RunResult {
    Running,
    ProcessExit {
        seconds: f64,
        /// How its program ended; `None` where it was killed for its timeout, given up, or could not be started.
        end: Option<End>,
        timed_out: bool,
        /// Why the run counts as failed: its program failed, or what it answered cannot be used.
        error: Option<String>,
    },
}

/// What is kept of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    head: String,
    tail: String,
    /// So many bytes between the two are not kept.
    left_out: usize,
}

impl Printed {
    fn line(&mut self, line: &str) {
        let text = format!("{line}\n");
        let mut rest = text.as_str();
        if self.tail.is_empty() && self.left_out == 0 {
            let fits = rest.floor_char_boundary(HEAD.saturating_sub(self.head.len()));
            self.head.push_str(&rest[..fits]);
            rest = &rest[fits..];
        }
        // Of a line that is longer than all that is kept the beginning would be taken in only to be dropped.
        let skipped = rest.ceil_char_boundary(rest.len().saturating_sub(TAIL));
        self.left_out += skipped;
        self.tail.push_str(&rest[skipped..]);
        let over = self.tail.ceil_char_boundary(self.tail.len().saturating_sub(TAIL));
        self.tail.drain(..over);
        self.left_out += over;
    }

    /// Its lines, with a word where some are missing.
    #[must_use]
    pub fn text(&self) -> String {
        match self.left_out {
            0 => format!("{}{}", self.head, self.tail),
            bytes => format!("{}\n… {bytes} bytes are left out …\n{}", self.head, self.tail),
        }
    }

    fn shrink(&mut self) {
        self.head.shrink_to_fit();
        self.tail.shrink_to_fit();
    }
}

/// The last runs of a hook, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Runs(Mutex<VecDeque<RunView>>);

impl Runs {
    fn all(&self) -> MutexGuard<'_, VecDeque<RunView>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list(&self) -> Vec<RunView> {
        self.all().iter().cloned().collect()
    }

    /// A run begins; the oldest one that has ended makes room for it.
    pub(super) fn begin(
        self: &Arc<Self>,
        (task, event): (u64, u64),
        bindings: Vec<String>,
        queue: &str,
    ) -> Running {
        let mut all = self.all();
        while all.len() >= KEPT
            && let Some(ended) = all.iter().position(|run| run.outcome != RunResult::Running)
        {
            all.remove(ended);
        }
        all.push_back(RunView {
            task,
            event,
            bindings,
            queue: queue.to_owned(),
            started: Timestamp::now(),
            began: Instant::now(),
            outcome: RunResult::Running,
            usage: None,
            stdout: Printed::default(),
            stderr: Printed::default(),
        });
        Running { runs: Arc::clone(self), task }
    }

    /// Something is known of a run, if it is still kept.
    fn with(&self, task: u64, change: impl FnOnce(&mut RunView)) {
        if let Some(run) = self.all().iter_mut().find(|run| run.task == task) {
            change(run);
        }
    }

    /// What a run answered cannot be used.
    pub(super) fn refused(&self, task: u64, why: &str) {
        self.with(task, |run| {
            if let RunResult::ProcessExit { error, .. } = &mut run.outcome {
                *error = Some(why.to_owned());
            }
        });
    }
}

/// A running run: one that is dropped without an end was cancelled.
pub(super) struct Running {
    runs: Arc<Runs>,
    pub(super) task: u64,
}

impl Running {
    pub(super) fn line(&self, stream: Stream, line: &str) {
        self.runs.with(self.task, |run| match stream {
            Stream::Stdout => run.stdout.line(line),
            Stream::Stderr => run.stderr.line(line),
        });
    }

    /// The program has ended, or was killed after its timeout, or could not be run.
    pub(super) fn ended(&self, result: &Result<ProcessResult, ProcessError>) {
        let (end, usage) = match result {
            Ok(ended) => (Some(End::Status(0)), Some(ended.usage)),
            Err(ProcessError::Failed { end, usage, .. }) => (Some(*end), Some(*usage)),
            Err(other) => (None, other.usage()),
        };
        let timed_out = matches!(result, Err(ProcessError::Timeout { .. }));
        // What stderr says stands beside it.
        let error = result.as_ref().err().map(ProcessError::in_short);
        self.runs.with(self.task, |run| {
            let seconds = usage.map_or_else(|| run.seconds(), |usage| usage.took.as_secs_f64());
            run.outcome = RunResult::ProcessExit { seconds, end, timed_out, error };
            run.usage = usage;
            run.stdout.shrink();
            run.stderr.shrink();
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.runs.with(self.task, |run| {
            if run.outcome == RunResult::Running {
                let error = Some("given up: it was killed before its end".to_owned());
                let seconds = run.seconds();
                run.outcome = RunResult::ProcessExit { seconds, end: None, timed_out: false, error };
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_of_what_is_printed_are_kept() {
        let mut printed = Printed::default();
        printed.line("first");
        assert_eq!(printed.text(), "first\n");
        for number in 0..1000 {
            printed.line(&format!("line {number} ä"));
        }
        printed.line(&"ö".repeat(100_000));
        printed.line("last");
        let text = printed.text();
        assert!(text.starts_with("first\nline 0 ä\n") && text.ends_with("öö\nlast\n"), "{text}");
        let all = 6 + (0..1000).map(|n| format!("line {n} ä\n").len()).sum::<usize>() + 200_001 + 5;
        assert_eq!(printed.head.len() + printed.tail.len() + printed.left_out, all);
        assert!(printed.head.len() <= HEAD && printed.head.len() > HEAD - 4);
        assert!(printed.tail.len() <= TAIL && printed.tail.len() > TAIL - 4);
        assert!(text.contains(&format!("… {} bytes are left out …", printed.left_out)), "{text}");
    }

    #[test]
    fn a_hook_that_prints_a_lot_takes_little() {
        let runs = Arc::new(Runs::default());
        assert_eq!(runs.all().capacity(), 0, "one that has not run takes nothing");
        for task in 0..20 {
            let run = runs.begin((task, task), vec!["b".to_owned()], "main");
            for stream in [Stream::Stdout, Stream::Stderr] {
                (0..1000).for_each(|number| run.line(stream, &format!("line {number}")));
            }
            run.ended(&Ok(ProcessResult { usage: Usage::default(), stdout: Vec::new() }));
        }
        let all = runs.all();
        let printed = |p: &Printed| p.head.capacity() + p.tail.capacity();
        let texts: usize = all.iter().map(|run| printed(&run.stdout) + printed(&run.stderr)).sum();
        let bytes = texts + all.capacity() * size_of::<RunView>();
        assert!(bytes <= 24 << 10, "{bytes} bytes, {texts} of them the texts");
    }

    #[test]
    fn a_few_runs_are_kept_and_all_that_run() {
        let runs = Arc::new(Runs::default());
        let begin = |task| runs.begin((task, task), vec!["b".to_owned()], "main");
        let tasks = || runs.list().iter().map(|r| r.task).collect::<Vec<_>>();
        let running: Vec<Running> = (0..7).map(begin).collect();
        assert_eq!(tasks(), [0, 1, 2, 3, 4, 5, 6], "nothing that runs goes");
        for run in &running {
            run.ended(&Ok(ProcessResult { usage: Usage::default(), stdout: Vec::new() }));
        }
        drop(running);
        let last = begin(7);
        assert_eq!(tasks(), [3, 4, 5, 6, 7]);
        last.line(Stream::Stderr, "so far");
        assert_eq!(runs.list()[4].outcome, RunResult::Running);
        assert_eq!(runs.list()[4].stderr.text(), "so far\n");
        drop(last);
        let RunResult::ProcessExit { end: None, error: Some(error), .. } = &runs.list()[4].outcome else {
            panic!()
        };
        assert!(error.starts_with("given up"), "{error}");
        runs.refused(6, "no patch");
        runs.refused(0, "gone by now");
        assert!(
            matches!(&runs.list()[3].outcome, RunResult::ProcessExit { error: Some(e), end: Some(End::Status(0)), .. } if e == "no patch")
        );
    }
}
