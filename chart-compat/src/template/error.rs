//! Template errors: Go's message, byte for byte, and the frames that user-facing reports need.

use bytes::Bytes;
use std::fmt;

use crate::path::Path;

/// The position of an error in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The file (Go's `ParseName`), e.g. `chart/templates/x.yaml`.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 0, as Go counts it.
    pub column: usize,
    /// The template being executed; empty for a parse error.
    pub template: String,
    /// The expression, as Go prints it.
    pub node: String,
    /// The text that `line` and `column` refer to.
    pub source: Source,
    /// The failure here, without position and without the message of a wrapped error.
    pub message: String,
    /// The values that the expression reads, as far as they are known.
    pub used: Vec<Used>,
    /// Whether the context of this frame has been collected.
    pub(super) traced: bool,
}

/// The text of a template, shared.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Source(pub Bytes);

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// A value that a failing expression reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// As written in the template, e.g. `.Values.image.tag` or `$root.port`.
    pub text: String,
    /// The path in the render's data, e.g. `Values.image.tag`; `None` for a value that the template created.
    pub path: Option<Path>,
    /// The number of steps of `path` that exist. Smaller than its length if the value is missing.
    pub present: usize,
}

struct Inner {
    /// This error's own text; the text of `source` follows it.
    text: String,
    /// Whether this is Go's `template.ExecError`.
    exec: bool,
    frame: Option<Frame>,
    source: Option<Error>,
    /// Where `{{template}}` called the failing template, innermost first.
    callers: Vec<Frame>,
}

/// A parse or execution error. Its `Display` is the text that Go prints.
pub struct Error(Box<Inner>);

impl Error {
    /// A plain error, as a template function returns it (`errors.New`).
    pub fn new(text: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            text: text.into(),
            exec: false,
            frame: None,
            source: None,
            callers: Vec::new(),
        }))
    }

    /// An error that wraps another (`fmt.Errorf("…: %w", err)`); `text` precedes the text of `source`.
    #[must_use]
    pub fn wrap(text: impl Into<String>, source: Error) -> Self {
        Self(Box::new(Inner {
            text: text.into(),
            exec: false,
            frame: None,
            source: Some(source),
            callers: Vec::new(),
        }))
    }

    /// A parse error at a line.
    pub(super) fn parse(text: String, frame: Frame) -> Self {
        Self(Box::new(Inner { text, exec: false, frame: Some(frame), source: None, callers: Vec::new() }))
    }

    /// An execution error (`template.ExecError`). `message` precedes the text of `source`, if there is one.
    pub(super) fn exec(mut frame: Frame, message: &str, source: Option<Error>) -> Self {
        let text = format!(
            "template: {}:{}:{}: executing {} at <{}>: {message}",
            frame.file,
            frame.line,
            frame.column,
            crate::go::strconv::quote(frame.template.as_bytes()),
            frame.node
        );
        message.trim_end_matches(": ").clone_into(&mut frame.message);
        Self(Box::new(Inner { text, exec: true, frame: Some(frame), source, callers: Vec::new() }))
    }

    /// Whether this is an execution error with a position.
    #[must_use]
    pub fn is_exec(&self) -> bool {
        self.0.exec
    }

    /// The position of this error itself, not of the error that it wraps.
    #[must_use]
    pub fn frame(&self) -> Option<&Frame> {
        self.0.frame.as_ref()
    }

    /// The `{{template}}` calls that led to the failing template, innermost first. Go's message omits them.
    #[must_use]
    pub fn callers(&self) -> &[Frame] {
        &self.0.callers
    }

    /// This error's own text, without that of the error that it wraps.
    #[must_use]
    pub fn own_text(&self) -> &str {
        &self.0.text
    }

    pub(super) fn trace(&mut self, used: Vec<Used>) {
        if let Some(frame) = &mut self.0.frame {
            frame.used = used;
            frame.traced = true;
        }
    }

    pub(super) fn called_from(&mut self, frame: Frame) {
        self.0.callers.push(frame);
    }

    /// The error that this one wraps.
    #[must_use]
    pub fn inner(&self) -> Option<&Error> {
        self.0.source.as_ref()
    }

    /// This error and those that it wraps, outermost first.
    pub fn chain(&self) -> impl Iterator<Item = &Error> {
        std::iter::successors(Some(self), |e| e.inner())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for e in self.chain() {
            f.write_str(&e.0.text)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Error {}
