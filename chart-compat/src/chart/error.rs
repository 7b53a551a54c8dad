//! Errors of charts and values.

use crate::yaml;

/// Why a chart does not load or its values do not merge; `Display` is Helm's text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data is not an archive, or the archive has entries that a chart must not have.
    #[error("{0}")]
    Archive(String),
    /// A file of the chart cannot be decoded.
    #[error("cannot load {file}: {reason}")]
    File {
        /// Path in the chart.
        file: String,
        /// The error.
        reason: String,
        /// The error without its chain of callers and without a line.
        problem: String,
        /// The line, from 1, if known.
        line: Option<u32>,
        /// The file's content.
        content: bytes::Bytes,
    },
    /// The chart has an unsupported API version.
    #[error("{0}")]
    Form(&'static str),
    /// `Chart.yaml` is missing.
    #[error("Chart.yaml file is missing")]
    NoMetadata,
    /// `Chart.yaml` violates a rule.
    #[error("validation: {0}")]
    Validation(String),
    /// Two dependencies in `Chart.yaml` have this name or alias, which is quoted.
    #[error("validation: more than one dependency with name or alias {0}")]
    DuplicateDependency(String),
    /// A chart below `charts/` does not load.
    #[error("error unpacking subchart {name} in {parent}: {source}")]
    Subchart {
        /// Name of the entry below `charts/`.
        name: String,
        /// The chart that holds it.
        parent: String,
        /// The error of the subchart.
        source: Box<Error>,
    },
    /// A pattern of `.helmignore` is invalid.
    #[error("{0}")]
    Ignore(String),
    /// A values file is not valid YAML, or not a map.
    #[error("cannot unmarshal yaml document: {source}")]
    Yaml {
        /// The error of the document.
        source: yaml::Error,
        /// The number of lines before the document in the file.
        before: u32,
    },
    /// A line of a values file begins like a document separator but continues with other text.
    #[error("error reading yaml document: invalid Yaml document separator: {rest}")]
    Separator {
        /// The text behind the dashes.
        rest: String,
        /// The line of the file, from 1.
        line: u32,
    },
    /// A values file is not valid YAML, or not a map, with the text of Helm 3.
    #[error("{0}")]
    Unmarshal(yaml::Error),
    /// Values cannot be merged.
    #[error("{0}")]
    Values(String),
    /// Preparing the chart for a render takes more than it may.
    #[error("{}", bound_text(chart, value, bound))]
    Bound {
        /// The names of the chart and those around it, joined by dots.
        chart: String,
        /// The value, dependency or import, or nothing if it is the chart as a whole.
        value: String,
        /// The bound.
        bound: String,
    },
}

fn bound_text(chart: &str, value: &str, bound: &str) -> String {
    if value.is_empty() {
        format!("chart {chart}: {bound}")
    } else {
        format!("chart {chart}: {value}: {bound}")
    }
}

impl Error {
    /// The error of a bound, for a chart that [`Self::in_chart`] names.
    pub(super) fn bound(value: &str, bound: String) -> Self {
        // A name can be as long as its file.
        let value = value.chars().take(200).collect();
        Self::Bound { chart: String::new(), value, bound }
    }

    /// Names the chart in which a bound was exceeded, unless a chart below it is named.
    pub(super) fn in_chart(mut self, name: &str) -> Self {
        if let Self::Bound { chart, .. } = &mut self
            && chart.is_empty()
        {
            *chart = name.chars().take(200).collect();
        }
        self
    }

    /// The error of a values file without its chain of callers and without a line.
    #[must_use]
    pub fn problem(&self) -> String {
        match self {
            Self::Yaml { source, .. } => source.problem().to_owned(),
            Self::Separator { rest, .. } => format!("invalid Yaml document separator: {rest}"),
            other => other.to_string(),
        }
    }

    /// The line of the error in the file, from 1, if known. Helm's own text counts differently.
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
