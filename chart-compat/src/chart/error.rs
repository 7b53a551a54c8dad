//! What can be wrong with a chart or its values.

use crate::yaml;

/// Why a chart does not load or its values do not merge; `Display` is Helm's text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The archive is not one, or holds what an archive of a chart must not.
    #[error("{0}")]
    Archive(String),
    /// A file of the chart cannot be read as what it is.
    #[error("cannot load {file}: {reason}")]
    File {
        /// Path in the chart.
        file: String,
        /// Why.
        reason: String,
        /// Why, without the calls that failed and without a line.
        problem: String,
        /// The line, from 1, where it is known.
        line: Option<u32>,
        /// The file's content.
        content: bytes::Bytes,
    },
    /// The chart is of a form that this program does not know.
    #[error("{0}")]
    Form(&'static str),
    /// `Chart.yaml` is missing.
    #[error("Chart.yaml file is missing")]
    NoMetadata,
    /// `Chart.yaml` breaks a rule.
    #[error("validation: {0}")]
    Validation(String),
    /// A chart below `charts/` does not load.
    #[error("error unpacking subchart {name} in {parent}: {source}")]
    Subchart {
        /// Name of the entry below `charts/`.
        name: String,
        /// The chart that holds it.
        parent: String,
        /// Why.
        source: Box<Error>,
    },
    /// A pattern of `.helmignore` is not one.
    #[error("{0}")]
    Ignore(String),
    /// A values file is not YAML, or not a map.
    #[error("cannot unmarshal yaml document: {source}")]
    Yaml {
        /// What is wrong with the document.
        source: yaml::Error,
        /// How many lines of the file are before the document.
        before: u32,
    },
    /// A line of a values file begins with dashes as if a document ended there, and goes on.
    #[error("error reading yaml document: invalid Yaml document separator: {rest}")]
    Separator {
        /// What is behind the dashes.
        rest: String,
        /// The line of the file, from 1.
        line: u32,
    },
    /// A values file is not YAML, or not a map, in the words of Helm 3.
    #[error("{0}")]
    Unmarshal(yaml::Error),
    /// Values cannot be merged.
    #[error("{0}")]
    Values(String),
}

impl Error {
    /// What is wrong with a values file, without the calls that failed and without a line.
    #[must_use]
    pub fn problem(&self) -> String {
        match self {
            Self::Yaml { source, .. } => source.problem().to_owned(),
            Self::Separator { rest, .. } => format!("invalid Yaml document separator: {rest}"),
            other => other.to_string(),
        }
    }

    /// The line of the file that is wrong, from 1, where it is known. Helm's own text counts differently.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        match self {
            Self::Yaml { source, before } => source.line().map(|line| before + line),
            Self::Separator { line, .. } => Some(*line),
            Self::Unmarshal(e) => e.line(),
            Self::File { line, .. } => *line,
            _ => None,
        }
    }
}
