//! Why a state file cannot be evaluated.

use crate::document::DocumentError;

/// An error of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The environment is not defined in the state file: a directory's other files may have it.
    #[error("failed to read {file}: environment \"{environment}\" is not defined")]
    UndefinedEnvironment {
        /// The state file.
        file: String,
        /// The environment.
        environment: String,
    },
    /// No release of any file matches the selectors.
    #[error("{0}")]
    NoMatch(String),
    /// Anything else, with the place in the text.
    #[error("{0}")]
    Other(String),
}

impl From<DocumentError> for Error {
    fn from(error: DocumentError) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl Error {
    /// The error, within something.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        match self {
            Self::Other(text) => Self::Other(format!("{place}: {text}")),
            other => other,
        }
    }
}
