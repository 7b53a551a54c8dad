//! Diagnostics of a lenient render, for lint, which reports more than the first error.

use super::error::Frame;
use super::exec::Exec;
use crate::go::{Value, fmt};

/// The maximal number of diagnostics of one render.
const MAX_DIAGNOSTICS: usize = 10_000;

/// A finding in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The position.
    pub frame: Frame,
    /// The finding.
    pub kind: DiagnosticKind,
}

/// The kind of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiagnosticKind {
    /// A `required` value is missing; holds the chart's message.
    Missing(String),
    /// A `required` value is an empty string; holds the chart's message.
    Empty(String),
    /// The chart called `fail`; holds its message.
    Failed(String),
    /// An action printed `<no value>` for a missing value.
    NoValue,
    /// An action printed a short string, or a float with an exponent; holds the text.
    Printed(String),
}

impl<'a> Exec<'a> {
    /// Records a diagnostic at the current position if the render is lenient; returns whether it is.
    pub fn report(&mut self, kind: DiagnosticKind) -> bool {
        let frame = match &self.diagnostics {
            None => return false,
            Some(diagnostics) if diagnostics.len() >= MAX_DIAGNOSTICS => return true,
            Some(_) => self.frame(),
        };
        if let Some(diagnostics) = &mut self.diagnostics {
            diagnostics.push(Diagnostic { frame, kind });
        }
        true
    }

    /// Records a diagnostic for a printed value that is likely a mistake.
    #[cold]
    pub(super) fn report_print(&mut self, value: Value<'a>) {
        let text = match value {
            v if v.is_nil() => {
                self.report(DiagnosticKind::NoValue);
                return;
            }
            Value::Str(text) if text.len() < 64 => String::from_utf8_lossy(text).into_owned(),
            Value::Float(_) => String::from_utf8_lossy(&fmt::sprint(value)).into_owned(),
            _ => return,
        };
        let number = matches!(value, Value::Float(_));
        if !number || text.contains('e') {
            self.report(DiagnosticKind::Printed(text));
        }
    }
}
