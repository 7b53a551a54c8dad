//! YAML read errors, with go-yaml's messages.
//!
//! Owns the error type and go-yaml's line numbering in messages. Knows nothing of reading.

use std::borrow::Cow;
use std::fmt;

/// A YAML read error. `Display` is the message of Go's `sigs.k8s.io/yaml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The step that failed.
    kind: ErrorKind,
    /// The prefix of the Go call that failed, "" or `error converting YAML to JSON: `.
    prefix: &'static str,
}

/// The step that failed, with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ErrorKind {
    /// The text is not valid YAML. `shown` is the line in go-yaml's message (0: none), `v3` the line in go-yaml v3's message,
    /// `line` the actual line (0: unknown).
    Syntax { shown: u32, v3: u32, line: u32, problem: Cow<'static, str> },
    /// Strict mode found duplicate keys.
    Duplicates { lines: Vec<(u32, String)> },
    /// The text is valid YAML, but has no JSON form or not the requested type.
    Shape { message: String },
}

/// Prefix of sigs' `Unmarshal` for errors of the conversion to JSON.
const TO_JSON: &str = "error converting YAML to JSON: ";
/// Prefix of sigs' `Unmarshal` for errors of the conversion from JSON.
const FROM_JSON: &str = "error unmarshaling JSON: while decoding JSON: ";

impl Error {
    /// A scanner error. go-yaml shows the line plus one, or else the context's line unchanged, or no line.
    pub(super) fn scanner(line: u32, context: u32, problem: impl Into<Cow<'static, str>>) -> Self {
        let shown = if line != 0 { line + 1 } else { context };
        let v3 = match (context, line) {
            (0, 0) => 0,
            (0, line) => line + 1,
            (context, _) => context + 1,
        };
        Self::of(ErrorKind::Syntax { shown, v3, line: line + 1, problem: problem.into() })
    }

    /// A parser error. go-yaml shows the zero-based line, or else the context's line, or no line.
    pub(super) fn parser(line: u32, context: u32, problem: &'static str) -> Self {
        let shown = if line != 0 { line } else { context };
        let v3 = if context != 0 { context } else { line };
        Self::of(ErrorKind::Syntax { shown, v3, line: line + 1, problem: problem.into() })
    }

    /// An error that go-yaml reports without a line. `line` is the actual line (from 1, 0: unknown).
    pub(super) fn plain(line: u32, problem: impl Into<Cow<'static, str>>) -> Self {
        Self::of(ErrorKind::Syntax { shown: 0, v3: 0, line, problem: problem.into() })
    }

    /// Limits the line to the lines of the text: an error at the end is reported on the last line.
    pub(super) fn within(mut self, text: &[u8]) -> Self {
        if let ErrorKind::Syntax { line, .. } = &mut self.kind {
            let lines = memchr::memchr_iter(b'\n', text).count() + usize::from(!text.ends_with(b"\n"));
            *line = (*line).min(u32::try_from(lines).unwrap_or(u32::MAX));
        }
        self
    }

    /// The duplicate keys that strict mode found, with their lines.
    pub(super) fn duplicates(lines: Vec<(u32, String)>) -> Self {
        Self::of(ErrorKind::Duplicates { lines })
    }

    /// An error of the conversion from YAML to JSON, with its complete message.
    pub(super) fn shape(message: String) -> Self {
        Self::of(ErrorKind::Shape { message })
    }

    /// An error of the conversion from JSON to the requested Go type.
    pub(super) fn unmarshal(message: String) -> Self {
        Self { kind: ErrorKind::Shape { message }, prefix: FROM_JSON }
    }

    fn of(kind: ErrorKind) -> Self {
        Self { kind, prefix: "" }
    }

    /// The error with the message of sigs' `Unmarshal` instead of go-yaml's.
    pub(super) fn while_converting(mut self) -> Self {
        if self.prefix.is_empty() {
            self.prefix = TO_JSON;
        }
        self
    }

    /// The message of go-yaml v3, which uses the line where the invalid node starts.
    #[must_use]
    pub fn in_v3(mut self) -> String {
        if let ErrorKind::Syntax { shown, v3, .. } = &mut self.kind {
            *shown = *v3;
        }
        self.to_string()
    }

    /// The problem, without prefixes and line.
    #[must_use]
    pub fn problem(&self) -> &str {
        match &self.kind {
            ErrorKind::Syntax { problem, .. } => problem,
            ErrorKind::Duplicates { lines } => lines.first().map_or("", |(_, text)| text),
            ErrorKind::Shape { message } => message,
        }
    }

    /// The actual line of the error (from 1), if known. The line in the message can differ.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        let line = match &self.kind {
            ErrorKind::Syntax { line, .. } => *line,
            ErrorKind::Duplicates { lines } => lines.first().map_or(0, |(line, _)| *line),
            ErrorKind::Shape { .. } => 0,
        };
        (line != 0).then_some(line)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix)?;
        match &self.kind {
            ErrorKind::Syntax { shown: 0, problem, .. } => write!(f, "yaml: {problem}"),
            ErrorKind::Syntax { shown, problem, .. } => write!(f, "yaml: line {shown}: {problem}"),
            ErrorKind::Duplicates { lines } => {
                f.write_str("yaml: unmarshal errors:")?;
                lines.iter().try_for_each(|(line, text)| write!(f, "\n  line {line}: {text}"))
            }
            ErrorKind::Shape { message } => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}
