//! The Go side: one process that answers JSON lines.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chart_compat::profile::Profile;
use serde_json::{Value, json};
use windlass_testing::Tool;

use crate::family::FILES;
use crate::{Answer, Case, Kind, Way};

/// The running answerer; it goes when this is dropped.
pub struct Go {
    tool: Tool,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Go {
    /// Starts the answerer, built first if it is not in the cache.
    ///
    /// # Errors
    /// If it cannot be built or started.
    pub fn start(profile: Profile) -> Result<Self, Box<dyn Error>> {
        Self::run(match profile {
            Profile::Helm4 => Tool::Answers,
            Profile::Helm3 => Tool::AnswersOfHelm3,
        })
    }

    fn run(tool: Tool) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(tool.path()?)
            .arg("answer")
            .env("TZ", "UTC")
            // A schema that refers to the network gets no answer from there.
            .envs(["HTTP_PROXY", "HTTPS_PROXY"].map(|name| (name, "http://127.0.0.1:1")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("the answerer has no output")?);
        Ok(Self { tool, child, input, output })
    }

    /// Asks all cases; there is no answer to a case that Go dies of or does not finish.
    ///
    /// # Errors
    /// If the process cannot be started again, or says what is no answer.
    pub fn ask(&mut self, cases: &[&Case]) -> Result<Vec<Option<Answer>>, Box<dyn Error>> {
        let mut answers = Vec::with_capacity(cases.len());
        while answers.len() < cases.len() {
            answers.extend(self.ask_until_death(&cases[answers.len()..])?.into_iter().map(Some));
            if answers.len() < cases.len() {
                // Answers come one by one and in order: the next question is what it died of.
                answers.push(None);
                *self = Self::run(self.tool)?;
            }
        }
        Ok(answers)
    }

    /// The answers to the first cases, to all of them if Go lives.
    fn ask_until_death(&mut self, cases: &[&Case]) -> Result<Vec<Answer>, Box<dyn Error>> {
        let mut lines = Vec::new();
        for case in cases {
            serde_json::to_writer(&mut lines, &question(case))?;
            lines.push(b'\n');
        }
        let mut input = self.input.take().ok_or("the answerer is gone")?;
        // Written beside the reading: neither pipe holds a whole batch.
        let writer = thread::spawn(move || input.write_all(&lines).map(|()| input));
        let mut answers = Vec::with_capacity(cases.len());
        let mut line = Vec::new();
        for _ in cases {
            line.clear();
            if self.output.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            answers.push(answer(&serde_json::from_slice(&line)?)?);
        }
        // Of a dead process the pipe is broken, and a new one is started.
        self.input = writer.join().map_err(|_| "the writer panicked")?.ok();
        Ok(answers)
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        self.input = None;
        // It ends by itself with its input; one that hangs is ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn question(case: &Case) -> Value {
    let (kind, how) = match case.kind {
        Kind::Template => ("template", ""),
        Kind::Chart(_) => ("chart", ""),
        Kind::Yaml => ("yaml", ""),
        Kind::Manifests => ("manifests", ""),
        Kind::Schema => ("schema", ""),
        Kind::Set(Way::Set) => ("strvals", "set"),
        Kind::Set(Way::String) => ("strvals", "string"),
        Kind::Set(Way::Json) => ("strvals", "json"),
        Kind::Set(Way::Literal) => ("strvals", "literal"),
    };
    let mut question = json!({
        "kind": kind,
        "how": how,
        "text": BASE64_STANDARD.encode(&case.text),
        "values": case.values,
    });
    if case.wants_files() {
        let encoded = |data: &[u8]| Value::String(BASE64_STANDARD.encode(data));
        question["files"] = FILES.iter().map(|(name, data)| ((*name).to_owned(), encoded(data))).collect();
    }
    question
}

fn answer(reply: &Value) -> Result<Answer, Box<dyn Error>> {
    let text = |name: &str| -> Result<Option<String>, Box<dyn Error>> {
        let Some(encoded) = reply[name].as_str() else { return Ok(None) };
        Ok(Some(String::from_utf8_lossy(&BASE64_STANDARD.decode(encoded)?).into_owned()))
    };
    Ok(Answer { output: text("output")?.unwrap_or_default(), error: text("error")? })
}
