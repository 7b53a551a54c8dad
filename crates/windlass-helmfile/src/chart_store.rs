//! Where the charts of releases come from.
//!
//! Owns what is asked for: a chart on disk, of a repository or of a registry, and the manifests of a kustomization. Who answers
//! decides what may be reached.

use std::path::{Path, PathBuf};

use chart_compat::chart::Chart;
use tempfile::TempDir;

use super::error::HelmfileError;
use windlass_fetch::fetch::Options;

/// A chart to open.
#[derive(Clone, Debug, Default)]
pub struct ChartRequest {
    /// A path, a URL, or the name of a chart in the repository of the options.
    pub reference: String,
    /// Version, repository, login and TLS; [`Options::provenance`] asks for a verification.
    pub options: Options,
    /// The trusted keys; `None`: those of GnuPG's default keyring.
    pub keyring: Option<PathBuf>,
    /// Whether missing dependencies of a chart on disk are fetched.
    pub update_dependencies: bool,
}

/// Opens charts and builds kustomizations.
pub trait ChartStore: Send + Sync {
    /// The chart.
    ///
    /// # Errors
    /// It does not exist, cannot be fetched or cannot be installed.
    fn chart(&self, request: &ChartRequest) -> Result<Chart, HelmfileError>;

    /// The manifests of the kustomization in a directory.
    ///
    /// # Errors
    /// It cannot be built.
    fn kustomization(&self, dir: &Path) -> Result<String, HelmfileError>;

    /// A temporary directory that kustomizations may be in.
    ///
    /// # Errors
    /// It cannot be made.
    fn scratch(&self) -> Result<TempDir, HelmfileError>;

    /// Receives a directory of plain manifests before its files are read.
    ///
    /// # Errors
    /// It may not be read.
    fn manifests(&self, dir: &Path) -> Result<(), HelmfileError>;
}
