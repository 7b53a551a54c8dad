//! An object that differs from the deployed revision, as people read it. Plain data.

use crate::objects::field_diff::FieldChange;
use serde_json::Value;
use std::{borrow::Cow, fmt};
use windlass_cluster::ObjectRef;

/// Longest value that is shown in full, in characters.
const LONGEST: usize = 60;
/// Longest path that is shown in full, in characters.
const LONGEST_PATH: usize = 300;
/// Most fields shown of one object.
const MOST: usize = 8;

/// An object that differs from the deployed revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    pub object: ObjectRef,
    /// It was deleted.
    pub deleted: bool,
    /// The differences: `before` is the live value, `after` the revision's. Secrets are hidden.
    pub fields: Vec<DriftedField>,
    /// How many more there are: of an object that is only described.
    pub further_fields: usize,
    /// It was corrected; else only reported.
    pub corrected: bool,
    /// It was reported before.
    pub known: bool,
}

/// A changed field, and its current owner.
#[derive(Debug, Clone, PartialEq)]
pub struct DriftedField {
    pub change: FieldChange,
    /// Field manager; `None` if nobody owns the field.
    pub manager: Option<String>,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.deleted {
            return write!(f, "{} was deleted", self.object);
        }
        write!(f, "{}", self.object)?;
        if self.fields.is_empty() {
            // What differs is not known, or too long to be told.
            return f.write_str(" was changed");
        }
        for (i, field) in self.fields.iter().take(MOST).enumerate() {
            write!(f, "{}{field}", if i == 0 { ": " } else { "; " })?;
        }
        match self.fields.len().saturating_sub(MOST) + self.further_fields {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl fmt::Display for DriftedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FieldChange { path, before, after, .. } = &self.change;
        let path = cut(path, LONGEST_PATH);
        match (before, after) {
            (None, None) => write!(f, "{path} was changed")?,
            (None, Some(_)) => write!(f, "{path} was removed")?,
            (Some(found), None) => write!(f, "{path} was added as {}", short(found))?,
            (Some(found), Some(wanted)) => {
                write!(f, "{path} is {} instead of {}", short(found), short(wanted))?;
            }
        }
        match &self.manager {
            Some(manager) => write!(f, ", by {manager:?}"),
            None => Ok(()),
        }
    }
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    cut(&text, LONGEST).into_owned()
}

fn cut(text: &str, characters: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut() {
        assert_eq!(short(&Value::String("x".repeat(100))).chars().count(), LONGEST + 1);
    }
}
