//! What reading YAML can fail with, in go-yaml's words.
//!
//! Owns the error type and the rule by which go-yaml numbers lines; knows nothing of how text is read.

use std::borrow::Cow;
use std::fmt;

/// Why a YAML text could not be read. `Display` is the text that Go's `sigs.k8s.io/yaml` answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Which step of the reading failed.
    kind: ErrorKind,
    /// The prefix of the Go call that failed, "" or `error converting YAML to JSON: `.
    prefix: &'static str,
}

/// The step of the reading that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ErrorKind {
    /// The text is no YAML. `shown` is the line that go-yaml prints (0: none), `v3` the one that its version 3 does, `line`
    /// the true one (0: unknown).
    Syntax { shown: u32, v3: u32, line: u32, problem: Cow<'static, str> },
    /// Strict reading found keys that were set before.
    Duplicates { lines: Vec<(u32, String)> },
    /// The text is YAML, but has no JSON form, or not the one that was asked for.
    Shape { message: String },
}

/// The prefix that sigs' `Unmarshal` puts before an error of the conversion to JSON.
const TO_JSON: &str = "error converting YAML to JSON: ";
/// The prefix that sigs' `Unmarshal` puts before an error of the conversion from JSON.
const FROM_JSON: &str = "error unmarshaling JSON: while decoding JSON: ";

impl Error {
    /// A scanner's error: go-yaml shows the line after adding one, or the context's line as it is, or no line.
    pub(super) fn scanner(line: u32, context: u32, problem: impl Into<Cow<'static, str>>) -> Self {
        let shown = if line != 0 { line + 1 } else { context };
        let v3 = match (context, line) {
            (0, 0) => 0,
            (0, line) => line + 1,
            (context, _) => context + 1,
        };
        Self::of(ErrorKind::Syntax { shown, v3, line: line + 1, problem: problem.into() })
    }

    /// A parser's error: go-yaml shows the line counted from zero, or the context's, or no line.
    pub(super) fn parser(line: u32, context: u32, problem: &'static str) -> Self {
        let shown = if line != 0 { line } else { context };
        let v3 = if context != 0 { context } else { line };
        Self::of(ErrorKind::Syntax { shown, v3, line: line + 1, problem: problem.into() })
    }

    /// An error that go-yaml reports without a line, though `line` (from 1, 0: unknown) is where it is.
    pub(super) fn plain(line: u32, problem: impl Into<Cow<'static, str>>) -> Self {
        Self::of(ErrorKind::Syntax { shown: 0, v3: 0, line, problem: problem.into() })
    }

    /// The same, on a line that the text has: what is missing at its end is missed on the last one.
    pub(super) fn within(mut self, text: &[u8]) -> Self {
        if let ErrorKind::Syntax { line, .. } = &mut self.kind {
            let lines = memchr::memchr_iter(b'\n', text).count() + usize::from(!text.ends_with(b"\n"));
            *line = (*line).min(u32::try_from(lines).unwrap_or(u32::MAX));
        }
        self
    }

    /// The keys that strict reading found twice, with their lines.
    pub(super) fn duplicates(lines: Vec<(u32, String)>) -> Self {
        Self::of(ErrorKind::Duplicates { lines })
    }

    /// An error of the conversion from YAML to JSON, in its own words.
    pub(super) fn shape(message: String) -> Self {
        Self::of(ErrorKind::Shape { message })
    }

    /// A failure to decode the JSON form into the Go type that was asked for.
    pub(super) fn unmarshal(message: String) -> Self {
        Self { kind: ErrorKind::Shape { message }, prefix: FROM_JSON }
    }

    fn of(kind: ErrorKind) -> Self {
        Self { kind, prefix: "" }
    }

    /// The same error as sigs' `Unmarshal` words it, rather than go-yaml's.
    pub(super) fn while_converting(mut self) -> Self {
        if self.prefix.is_empty() {
            self.prefix = TO_JSON;
        }
        self
    }

    /// The same in the words of go-yaml v3, which counts lines from where a broken node starts.
    pub(crate) fn in_v3(mut self) -> String {
        if let ErrorKind::Syntax { shown, v3, .. } = &mut self.kind {
            *shown = *v3;
        }
        self.to_string()
    }

    /// What is wrong, without the calls that failed and without a line.
    #[must_use]
    pub fn problem(&self) -> &str {
        match &self.kind {
            ErrorKind::Syntax { problem, .. } => problem,
            ErrorKind::Duplicates { lines } => lines.first().map_or("", |(_, text)| text),
            ErrorKind::Shape { message } => message,
        }
    }

    /// The line (from 1) where the reading failed, where it is known. It is the true one: the text may show another.
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
