//! The violations of a schema as a tree, and the tree's text.

use super::show::quote;
use super::uri::unescape;
use crate::path::{Path, Step};
use crate::render::error::Breach;

/// How a failure is displayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// With its own text.
    #[default]
    Plain,
    /// Several failures of one schema, grouped.
    Group,
    /// With its own text, at a location that is known after all checks ([`super::instance_location`]).
    Name,
    /// Failures behind a reference: not displayed itself if there is only one.
    Reference,
}

/// A violated keyword. An empty one is a placeholder where only the fact matters.
#[derive(Debug, Default)]
pub(super) struct Failure {
    /// Pointer to the value.
    pub(super) at: String,
    pub(super) text: String,
    pub(super) form: Form,
    pub(super) causes: Vec<Failure>,
    /// The properties that are refused by their names.
    pub(super) properties: Vec<String>,
}

impl Failure {
    /// Groups the failures of one schema; `None` if there are none.
    pub(super) fn join(mut failures: Vec<Self>, at: impl FnOnce() -> String) -> Option<Self> {
        match failures.len() {
            0 => None,
            1 => failures.pop(),
            _ => {
                let text = "validation failed".to_owned();
                Some(Self { at: at(), text, form: Form::Group, causes: failures, properties: Vec::new() })
            }
        }
    }

    /// The causes for a failure that wraps this one: a group's members, else the failure itself.
    pub(super) fn into_causes(self) -> Vec<Self> {
        if self.form == Form::Group { self.causes } else { vec![self] }
    }

    /// The innermost failures, which cause the others.
    fn leaves(&self, outer: &[String], out: &mut Vec<Breach>) {
        let properties = if self.properties.is_empty() { outer } else { &self.properties };
        if self.causes.is_empty() && !self.text.is_empty() {
            let properties = properties.to_vec();
            out.push(Breach { path: path(&self.at), text: self.text.clone(), properties });
        }
        self.causes.iter().for_each(|c| c.leaves(properties, out));
    }

    /// One line for each failure, causes indented.
    pub(super) fn write(&self, out: &mut String, depth: usize) {
        let hidden = self.form == Form::Reference && self.causes.len() == 1;
        if !hidden {
            out.extend(std::iter::repeat_n("  ", depth));
            out.push_str("- at ");
            out.push_str(&quote(&self.at));
            out.push_str(": ");
            out.push_str(&self.text);
            out.push('\n');
        }
        for cause in &self.causes {
            cause.write(out, depth + usize::from(!hidden));
        }
    }
}

/// A violated schema: Helm's text, and the failures one by one.
#[derive(Debug)]
pub(super) struct Unmet {
    pub(super) text: String,
    pub(super) breaches: Vec<Breach>,
}

impl From<String> for Unmet {
    fn from(text: String) -> Self {
        Self { text, breaches: Vec::new() }
    }
}

impl Unmet {
    pub(super) fn of(failures: &[Failure]) -> Self {
        let mut breaches = Vec::new();
        failures.iter().for_each(|f| f.leaves(&[], &mut breaches));
        Self { text: lines(failures), breaches }
    }
}

/// The lines of all failures.
pub(super) fn lines(failures: &[Failure]) -> String {
    let mut out = String::new();
    for failure in failures {
        failure.write(&mut out, 0);
    }
    out
}

/// The path of a JSON pointer; numbers are indexes.
fn path(pointer: &str) -> Path {
    let step = |name: &str| match name.parse() {
        Ok(index) => Step::Index(index),
        Err(_) => Step::Key(unescape(name).unwrap_or_default()),
    };
    Path(pointer.split('/').skip(1).map(step).collect())
}
