//! A failed command: Helm's text, and an optional explanation.

use std::io::IsTerminal;

use chart_compat::chart::Chart;
use chart_compat::explain::{Report, Trace, chart_report, render_report};
use chart_compat::profile::Profile;
use chart_compat::render;

use super::flags::{Globals, When};
use super::hints;
use super::values::User;

/// A failed command: the text after `Error: `, and an explanation.
#[derive(Debug)]
pub(super) struct Explained {
    pub(super) text: String,
    pub(super) report: Option<Report>,
}

impl From<String> for Explained {
    fn from(text: String) -> Self {
        Self { text, report: None }
    }
}

impl From<windlass_fetch::Error> for Explained {
    fn from(e: windlass_fetch::Error) -> Self {
        let report = match &e {
            windlass_fetch::Error::Chart(e) => chart_report(e),
            _ => None,
        };
        Self { text: hints::source_text(&e), report }
    }
}

impl Explained {
    /// This failure with a changed text, e.g. prefixed with the verb.
    pub(super) fn text(self, change: impl FnOnce(&str) -> String) -> Self {
        Self { text: change(&self.text), report: self.report }
    }
}

/// Whether explanations are shown: on a terminal by default.
pub(super) fn explains(globals: &Globals) -> bool {
    match globals.explain_errors {
        When::Always => true,
        When::Never => false,
        When::Auto => std::io::stderr().is_terminal(),
    }
}

/// The explanation of a failed render, if explanations are shown.
pub(super) fn of_render(
    shown: bool,
    error: &render::Error,
    chart: &Chart,
    user: &User,
    profile: Profile,
) -> Option<Report> {
    if !shown {
        return None;
    }
    let trace = Trace::new(chart, user.layers(), profile).ok();
    render_report(error, trace.as_ref())
}
