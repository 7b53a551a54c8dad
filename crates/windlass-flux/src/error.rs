//! Why something that an object, an event or a request asks for is not done.
//!
//! Owns only the type: what follows from an error is decided where it becomes a status, an Event or an answer.

use std::fmt::Display;

/// A text for people: what is wrong, with the field, key or object, and without the values of Secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FluxError(String);

impl FluxError {
    /// The error of a place: a field, a Secret, a step.
    pub(crate) fn within(place: impl Display, error: impl Display) -> Self {
        Self(format!("{place}: {error}"))
    }
}

impl From<String> for FluxError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<FluxError> for String {
    fn from(error: FluxError) -> Self {
        error.0
    }
}

impl From<&'static str> for FluxError {
    fn from(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}
