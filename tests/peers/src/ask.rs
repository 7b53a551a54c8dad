//! Asks an engine for one answer in a process of its own: some peers panic on a text that does not parse, or never end.

use std::env;
use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::engines::{Engine, Gotmpl, Gtmpl, Ours};

/// How long an engine may take for a probe; they take microseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// What came of a probe.
pub(crate) enum Given {
    Output(String),
    Error(String),
    /// A panic, or an overflow of the stack.
    Crash,
    /// No answer within [`PATIENCE`].
    Hang,
}

/// Asks engine `name` for its answer to the probe at `index`.
pub(crate) fn ask(name: &str, index: usize) -> Result<Given, Box<dyn Error>> {
    let mut child = Command::new(env::current_exe()?)
        .args(["answer", name, &index.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdout = child.stdout.take().ok_or("no pipe")?;
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        // Whoever waits no longer has given up on this answer.
        drop(sender.send(stdout.read_to_string(&mut text).map(|_| text)));
    });
    let given = match receiver.recv_timeout(PATIENCE) {
        Ok(text) => match text?.split_at_checked(1) {
            Some(("+", output)) => Given::Output(output.to_owned()),
            Some(("-", error)) => Given::Error(error.to_owned()),
            _ => Given::Crash,
        },
        Err(_) => {
            child.kill()?;
            Given::Hang
        }
    };
    child.wait()?;
    drop(reader.join());
    Ok(given)
}

/// Prints the answer of engine `name` to the probe at `index`: `+` and the output, or `-` and the error.
pub(crate) fn answer(recorded: &Value, name: &str, index: &str) -> Result<(), Box<dyn Error>> {
    let template =
        recorded["answers"][index.parse::<usize>()?]["template"].as_str().ok_or("no such probe")?;
    let data = &recorded["data"];
    let given = match name {
        Gtmpl::NAME => run::<Gtmpl>(template, data),
        Gotmpl::NAME => run::<Gotmpl>(template, data),
        Ours::NAME => run::<Ours>(template, data),
        _ => return Err("no such engine".into()),
    };
    let text = given.map_or_else(|error| format!("-{error}"), |output| format!("+{output}"));
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn run<E: Engine>(template: &str, data: &Value) -> Result<String, String> {
    E::run(&E::parse(template)?, &E::data(data), 1)
}
