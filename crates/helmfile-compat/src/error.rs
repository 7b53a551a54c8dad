//! Why a state file cannot be evaluated.
//!
//! Owns the causes that callers tell apart, and the places in front of a cause. What the outside answers stays what the host made of it.

use super::document::DocumentError;

/// An error of an evaluation.
#[derive(Debug, thiserror::Error)]
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
    /// A text is not the YAML that is expected.
    #[error("{0}")]
    Document(#[from] DocumentError),
    /// A template cannot be parsed or executed.
    #[error("{0}")]
    Template(String),
    /// Values in HCL cannot be evaluated.
    #[error("{0}")]
    Hcl(String),
    /// A state file, a file that it names or a setting of the run says what has no meaning, or more than is allowed.
    #[error("{0}")]
    Invalid(String),
    /// What a command over state files does beside the evaluation: its flags, its output, the cluster.
    #[error("{0}")]
    Command(String),
    /// The outside: a file, a program, an address or a secret.
    #[error("{0}")]
    Host(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An error in a place.
    #[error("{place}: {source}")]
    Within {
        /// Where: a file, a field, a step.
        place: String,
        /// What.
        source: Box<Error>,
    },
    /// An error that shows a path as the user wrote it.
    #[error("{}", .source.to_string().replacen(.opened, .shown, 1))]
    Path {
        /// The path that was opened.
        opened: String,
        /// The path that the user wrote.
        shown: String,
        /// What.
        source: Box<Error>,
    },
}

impl Error {
    /// What the outside answers.
    #[must_use]
    pub fn host(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Host(error.into())
    }

    /// The error in a place. What a caller has to recognise stays as it is.
    #[must_use]
    pub fn within(self, place: impl Into<String>) -> Self {
        match self {
            Self::UndefinedEnvironment { .. } | Self::NoMatch(_) => self,
            other => Self::Within { place: place.into(), source: Box::new(other) },
        }
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self::Command(text)
    }
}
