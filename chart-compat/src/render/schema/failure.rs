//! What a value breaks, as a tree, and how the tree reads.

use super::show::quote;

/// How a failure shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// With its own text.
    #[default]
    Plain,
    /// Several failures of one schema, kept together.
    Group,
    /// Failures behind a reference: not shown itself when there is but one.
    Reference,
}

/// A keyword that a value breaks. An empty one stands for any where only the fact counts.
#[derive(Debug, Default)]
pub(super) struct Failure {
    /// Pointer to the value.
    pub(super) at: String,
    pub(super) text: String,
    pub(super) form: Form,
    pub(super) causes: Vec<Failure>,
}

impl Failure {
    /// The failures of one schema as one; `None` if there are none.
    pub(super) fn join(mut failures: Vec<Self>, at: impl FnOnce() -> String) -> Option<Self> {
        match failures.len() {
            0 => None,
            1 => failures.pop(),
            _ => {
                let text = "validation failed".to_owned();
                Some(Self { at: at(), text, form: Form::Group, causes: failures })
            }
        }
    }

    /// What stands below something that wraps this failure: a group's members, else the failure itself.
    pub(super) fn into_causes(self) -> Vec<Self> {
        if self.form == Form::Group { self.causes } else { vec![self] }
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

/// The lines of all failures.
pub(super) fn lines(failures: &[Failure]) -> String {
    let mut out = String::new();
    for failure in failures {
        failure.write(&mut out, 0);
    }
    out
}
