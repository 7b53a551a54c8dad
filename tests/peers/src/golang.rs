//! Go itself: `text/template` and sigs.k8s.io/yaml, timed within one process of `tests/tools/go`.

use std::error::Error;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_testing::Tool;

use crate::templates::LOOP;

/// What Go takes.
pub(crate) struct Times {
    /// Go's version.
    pub(crate) version: String,
    /// Parsing a probe, in the mean.
    pub(crate) parse: Duration,
    /// Running it.
    pub(crate) run: Duration,
    /// Running the loop.
    pub(crate) large: Duration,
    /// Reading the document.
    pub(crate) read: Duration,
    /// Writing it.
    pub(crate) write: Duration,
}

/// Times the work that the peers are timed on.
pub(crate) fn times(
    probes: &[&str],
    data: &Value,
    items: &Value,
    document: &str,
) -> Result<Times, Box<dyn Error>> {
    let work = json!({"probes": probes, "data": data, "loop": LOOP, "items": items, "document": document});
    let mut child = Command::new(Tool::Answers.path()?)
        .arg("time")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    child.stdin.take().ok_or("no pipe")?.write_all(work.to_string().as_bytes())?;
    let out = child.wait_with_output()?;
    if !out.status.success() {
        return Err("Go could not time the work".into());
    }
    let told: Value = serde_json::from_slice(&out.stdout)?;
    let time = |key: &str| Duration::from_secs_f64(told[key].as_f64().unwrap_or(f64::NAN).max(0.0) / 1e9);
    Ok(Times {
        version: told["go"].as_str().unwrap_or("Go").to_owned(),
        parse: time("parse"),
        run: time("run"),
        large: time("loop"),
        read: time("read"),
        write: time("write"),
    })
}
