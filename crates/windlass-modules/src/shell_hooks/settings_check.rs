//! `hook check`: a batch program says what it thinks of settings before they are taken.
//!
//! Owns the call and the meaning of its answer. Which settings are checked, and what follows from an objection, is the caller's.

use std::ffi::OsString;

use serde_json::Value;

use super::hook::HookEnvironment;
use super::process::{self, ProcessError, Program, Scratch, Stdout, Stream};

/// Longest text of an answer that is used, in characters.
const MAX_TEXT: usize = 1024;
/// Most warnings of an answer.
const MAX_WARNINGS: usize = 20;

/// A program that checks the settings of its module.
#[derive(Clone, Debug)]
pub struct SettingsCheck {
    /// The name of its file.
    name: String,
    program: Program,
}

/// What a check says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckVerdict {
    /// Why the settings must not be taken.
    pub objection: Option<String>,
    pub warnings: Vec<String>,
}

impl SettingsCheck {
    pub(super) fn new(name: &str, program: Program) -> Self {
        Self { name: name.to_owned(), program }
    }

    /// The name of the program's file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts settings to the program.
    ///
    /// # Errors
    /// The check itself fails: nothing is known of the settings then.
    pub async fn run(&self, around: &HookEnvironment, settings: &Value) -> Result<CheckVerdict, String> {
        let failed = |e: &ProcessError| format!("hook {}: hook check: {e}", self.name);
        let scratch = Scratch::new(&around.scratch, around.keep_files).map_err(|e| failed(&e))?;
        let path = scratch.write("settings.json", settings.to_string().as_bytes()).map_err(|e| failed(&e))?;
        let mut program = self.program.clone();
        program.environment.push(("SETTINGS_PATH".to_owned(), OsString::from(path)));
        program.environment.extend(around.kubeconfig());
        let mut said = None;
        let line = |stream: Stream, line: &str| {
            tracing::debug!(hook = self.name, output = stream.name(), "{line}");
            if stream == Stream::Stderr {
                said = verdict(line).or(said.take());
            }
        };
        let ended = process::run(&program, Stdout::Lines, line).await;
        match (ended, said) {
            (Ok(_), said) => Ok(said.unwrap_or_default()),
            // The library fails with every answer, one without an objection included.
            (Err(ProcessError::Failed { .. }), Some(said)) => Ok(said),
            (Err(e), _) => Err(failed(&e)),
        }
    }
}

/// The answer in a line, if it is one.
fn verdict(line: &str) -> Option<CheckVerdict> {
    let answer: Value = line.starts_with('{').then(|| serde_json::from_str(line).ok()).flatten()?;
    let valid = answer["valid"].as_bool()?;
    let cut = |text: &str| text.chars().take(MAX_TEXT).collect::<String>();
    let message = match answer["message"].as_str().map(str::trim) {
        None | Some("") => "it gives no reason",
        Some(message) => message,
    };
    let warnings = answer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Some(CheckVerdict {
        objection: (!valid).then(|| cut(message)),
        warnings: warnings.filter(|text| !text.trim().is_empty()).take(MAX_WARNINGS).map(cut).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_from_a_line_of_the_log() {
        let verdict_of = |objection: Option<&str>, warnings: &[&str]| {
            Some(CheckVerdict {
                objection: objection.map(str::to_owned),
                warnings: warnings.iter().map(|w| (*w).to_owned()).collect(),
            })
        };
        let table = [
            (r#"{"valid":true,"message":"","warnings":null}"#, verdict_of(None, &[])),
            (r#"{"valid":true,"warnings":["old","", 7,"soon"]}"#, verdict_of(None, &["old", "soon"])),
            (r#"{"valid":false,"message":"too large"}"#, verdict_of(Some("too large"), &[])),
            (r#"{"valid":false,"message":"no","warnings":["w"]}"#, verdict_of(Some("no"), &["w"])),
            (r#"{"valid":false}"#, verdict_of(Some("it gives no reason"), &[])),
            (r#"{"valid":"false"}"#, None),
            (r#"{"level":"info","msg":"checking"}"#, None),
            (r#"{"valid":tru"#, None),
            ("valid", None),
            ("", None),
        ];
        for (line, expected) in table {
            assert_eq!(verdict(line), expected, "{line}");
        }
        let long = format!(r#"{{"valid":false,"message":"{}"}}"#, "x".repeat(5000));
        assert_eq!(verdict(&long).unwrap().objection.unwrap().len(), MAX_TEXT);
    }
}
