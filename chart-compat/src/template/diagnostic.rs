//! Diagnostics of a lenient render, for lint, which reports more than the first error.

use super::error::Frame;
use super::exec::{At, Exec};
use crate::go::{Value, fmt};
use std::collections::BTreeSet;

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
    /// An action printed a short string, or an action or function a float with an exponent; holds the text of the string or float.
    Printed(String),
}

/// The maximal number of values that are searched for floats at once.
const MAX_SEARCHED: usize = 10_000;

/// Functions that run templates: what is printed there is reported there.
const RUN_TEMPLATES: [&str; 2] = ["include", "tpl"];

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
            _ => {
                for text in exponents(&[value]) {
                    self.report(DiagnosticKind::Printed(text));
                }
                return;
            }
        };
        self.report(DiagnosticKind::Printed(text));
    }

    /// Records a diagnostic for each float among the arguments of a function that its result has as text with an exponent: whatever
    /// the function is, the number has become a text there.
    #[cold]
    pub(super) fn report_call(
        &mut self,
        function: &str,
        site: At<'a>,
        args: &[Value<'a>],
        result: Value<'a>,
    ) {
        let texts: Vec<&[u8]> = match result {
            Value::Str(text) => vec![text],
            Value::List(list) => list.items.iter().filter_map(|item| item.as_bytes()).collect(),
            _ => return,
        };
        let has = |part: &[u8]| texts.iter().any(|text| memchr::memmem::find(text, part).is_some());
        if !has(b"e+") || RUN_TEMPLATES.contains(&function) {
            return;
        }
        for text in exponents(args).into_iter().filter(|text| has(text.as_bytes())) {
            let at = std::mem::replace(&mut self.at, site);
            self.report(DiagnosticKind::Printed(text));
            self.at = at;
        }
    }
}

/// The texts of the floats in values that Go prints with an exponent.
fn exponents(values: &[Value<'_>]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = values.to_vec();
    for _ in 0..MAX_SEARCHED {
        match open.pop() {
            None => break,
            Some(value @ Value::Float(_)) => {
                let text = String::from_utf8_lossy(&fmt::sprint(value)).into_owned();
                if text.contains('e') {
                    found.insert(text);
                }
            }
            Some(Value::List(list)) => open.extend_from_slice(list.items),
            Some(Value::Map(map)) => open.extend(map.entries().iter().map(|(_, value)| *value)),
            Some(_) => {}
        }
    }
    found
}
