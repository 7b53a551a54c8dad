//! Why a release wants a look.

use std::fmt;

/// What was done to a release from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReconcileTrigger {
    /// Someone else wrote its record.
    Record,
    /// Someone may have changed an object, and others may be gone; the text names one.
    Changed(String),
    /// Nothing but deletions: the text names an object.
    Deleted(String),
    /// A CRD of its `crds/` was deleted, of this name. No hook does that by the way.
    Crd(String),
}

impl ReconcileTrigger {
    pub(crate) fn is_change(&self) -> bool {
        matches!(self, Self::Changed(_))
    }
}

impl fmt::Display for ReconcileTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Record => "its record was written by someone else",
            Self::Changed(text) | Self::Deleted(text) => text,
            Self::Crd(name) => return write!(f, "CustomResourceDefinition {name} was deleted"),
        })
    }
}
