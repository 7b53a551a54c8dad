//! The last runs of a hook as text and as JSON. Pure.

use serde_json::{Map, Value, json};

use super::{RunResult, RunView};
use crate::shell_hooks::process::End;

/// Runs, the last one first, as text and as JSON.
#[must_use]
pub fn dump_runs(runs: &[RunView]) -> (String, Value) {
    let text: Vec<String> = runs.iter().rev().map(text).collect();
    let text = if text.is_empty() { "it has not run yet\n".to_owned() } else { text.join("\n") };
    (text, runs.iter().rev().map(value).collect())
}

fn state(outcome: &RunResult) -> &'static str {
    match outcome {
        RunResult::Running => "running",
        RunResult::ProcessExit { error: None, .. } => "succeeded",
        RunResult::ProcessExit { .. } => "failed",
    }
}

fn value(run: &RunView) -> Value {
    let mut value = json!({
        "task": run.task,
        "event": run.event,
        "bindings": run.bindings,
        "queue": run.queue,
        "started": run.started.to_string(),
        "tookSeconds": run.seconds(),
        "state": state(&run.outcome),
        "stdout": run.stdout.text(),
        "stderr": run.stderr.text(),
    });
    let mut more = Map::new();
    if let RunResult::ProcessExit { end, timed_out, error, .. } = &run.outcome {
        match end {
            Some(End::Status(code)) => drop(more.insert("exitStatus".to_owned(), (*code).into())),
            Some(End::Signal(number)) => drop(more.insert("signal".to_owned(), (*number).into())),
            None => {}
        }
        more.insert("timedOut".to_owned(), (*timed_out).into());
        if let Some(error) = error {
            more.insert("error".to_owned(), error.clone().into());
        }
    }
    if let Some(usage) = &run.usage {
        more.insert("userCpuSeconds".to_owned(), usage.user.as_secs_f64().into());
        more.insert("systemCpuSeconds".to_owned(), usage.system.as_secs_f64().into());
        more.insert("maxRssBytes".to_owned(), usage.max_rss_bytes.into());
    }
    if let Value::Object(fields) = &mut value {
        fields.extend(more);
    }
    value
}

fn text(run: &RunView) -> String {
    let (started, state) = (run.started.strftime("%Y-%m-%dT%H:%M:%SZ"), state(&run.outcome));
    let mut out = format!("{started} {state} after {:.3} s", run.seconds());
    if let RunResult::ProcessExit { error: Some(error), .. } = &run.outcome {
        out.push_str(&format!(": {error}"));
    }
    out.push_str(&format!(
        "\n  task {}, event {}: {} in queue {}\n",
        run.task,
        run.event,
        run.bindings.join(", "),
        run.queue
    ));
    if let Some(usage) = &run.usage {
        out.push_str(&format!(
            "  used {:.3} s in user mode, {:.3} s in system mode, {:.1} MiB of memory at most\n",
            usage.user.as_secs_f64(),
            usage.system.as_secs_f64(),
            usage.max_rss_bytes as f64 / f64::from(1 << 20)
        ));
    }
    for (name, printed) in [("stdout", &run.stdout), ("stderr", &run.stderr)] {
        for line in printed.text().lines() {
            out.push_str(&format!("  {name}: {line}\n"));
        }
    }
    out
}
