//! What a build reads: files below the root, repositories and charts elsewhere.
//!
//! Owns who may read what, and that no kustomization contains itself. The caller owns the files: a [`World`].

mod loader;
mod metered;
mod path;
mod repository;

pub use loader::Loader;
pub(crate) use metered::Metered;
pub use path::{base, join};
pub use repository::{Repository, is_remote_file};

use chart_compat::data::Map;

use crate::error::Error;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// To a directory, without links.
    Directory(String),
    /// To a file.
    File {
        /// Its directory, without links.
        directory: String,
        /// Its name there.
        name: String,
    },
}

/// Why a file of the network could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// The server answered with another status than success: the path is nothing else.
    Status(String),
    /// Anything else: the path may be that of a repository.
    Other(String),
}

/// A chart to render, as `helmCharts` has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// The fields of the item of `helmCharts`, with the namespace of the kustomization if it has none.
    pub fields: Map,
    /// `helmGlobals.chartHome`; empty for `charts`.
    pub chart_home: String,
    /// `helmGlobals.configHome`
    pub config_home: String,
    /// The directory of the kustomization.
    pub root: String,
}

/// Reads a file that a kustomization names, within its bounds: below its root, unless files elsewhere are allowed.
pub type ReadFile<'r> = dyn Fn(&str) -> Result<Vec<u8>, Error> + 'r;

/// What a build may ask of the outside.
pub trait World {
    /// Reads a file. The error is the reason as the system has it.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, path: &str) -> Result<Vec<u8>, String>;

    /// Finds where an absolute path leads, through links. The error is the reason as the system has it.
    ///
    /// # Errors
    /// There is nothing.
    fn resolve(&self, path: &str) -> Result<Place, String>;

    /// Reads a file of the network.
    ///
    /// # Errors
    /// It cannot be read.
    fn fetch(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        Err(FetchError::Other(format!("{url}: files of the network are not read here")))
    }

    /// Makes a copy of a repository. Returns its directory, whose files [`World::read`] and [`World::resolve`] know.
    ///
    /// # Errors
    /// There is no copy.
    fn clone_repository(&self, repository: &Repository) -> Result<String, String> {
        Err(format!("{}: repositories are not fetched here", repository.raw))
    }

    /// Whether charts may be rendered.
    fn charts_enabled(&self) -> bool {
        false
    }

    /// Renders a chart to a stream of objects. `read` has the files of its values.
    ///
    /// # Errors
    /// The chart cannot be found or rendered.
    fn inflate(&self, _chart: &Chart, _read: &ReadFile<'_>) -> Result<String, String> {
        Err("must specify --enable-helm".to_owned())
    }

    /// Hears what kustomize writes to standard error.
    fn warn(&self, _line: &str) {}

    /// Hears what kustomize says nothing of: patches that change nothing, names that are not followed, rewrites of deprecated fields.
    fn hint(&self, _line: &str) {}
}
