//! The chart of a kind, loaded once for all its objects.
//!
//! Owns its digest: of the files of a directory, or of a package.

use std::path::Path;
use std::sync::Arc;

use chart_compat::chart::Chart;
use chart_compat::profile::Profile;
use chart_compat::render::CompiledChart;
use sha2::{Digest as _, Sha256};

use windlass_controller::ChartArguments;
use windlass_fetch::Loaded;
use windlass_fetch::tenant_chart::{check_loaded, load_installable};

/// The rules of Helm that charts are rendered by.
const PROFILE: Profile = Profile::Helm4;

/// A chart that can be installed.
#[derive(Clone)]
pub struct LoadedChart {
    /// The chart, ready to render.
    pub chart: Arc<CompiledChart>,
    /// `sha256:` and the digest of its files, or of its package.
    pub digest: String,
    /// How commands name it.
    pub arguments: ChartArguments,
    /// Whether a file of it names the capabilities: what the API server serves is part of what it renders.
    pub(crate) reads_capabilities: bool,
}

/// How templates name them.
pub(crate) const CAPABILITIES: &str = "Capabilities";

/// Whether templates, values or other files of a chart name the capabilities, those of subcharts included.
fn reads_capabilities(chart: &Chart) -> bool {
    let names = |data: &[u8]| data.windows(CAPABILITIES.len()).any(|part| part == CAPABILITIES.as_bytes());
    chart.values_text.iter().any(|text| names(text))
        || chart.templates.iter().chain(&chart.files).any(|file| names(&file.data))
        || chart.dependencies.iter().any(reads_capabilities)
}

impl std::fmt::Debug for LoadedChart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedChart")
            .field("name", &self.name())
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

impl LoadedChart {
    /// The chart in a directory or a package on disk.
    ///
    /// # Errors
    /// It cannot be read, is not a chart, or cannot be installed.
    pub fn of_path(path: &Path) -> Result<Self, String> {
        let digest = match path.is_dir() {
            true => {
                let mut files = windlass_fetch::directory_files(path).map_err(|error| error.to_string())?;
                files.sort_by(|one, other| one.name.cmp(&other.name));
                let mut digest = Sha256::default();
                for file in files {
                    digest.update(format!("{:?} {}\n", file.name, file.data.len()));
                    digest.update(&file.data);
                }
                hex(digest)
            }
            false => hex(Sha256::default()
                .chain_update(windlass_fetch::package_bytes(path).map_err(|error| error.to_string())?)),
        };
        let chart = path.display().to_string();
        let loaded = windlass_fetch::load(path, PROFILE).map_err(|error| error.to_string())?;
        check_loaded(&loaded, PROFILE, &mut |line| tracing::warn!(chart, "{line}"))?;
        Ok(Self::new(loaded, digest, ChartArguments { chart, ..ChartArguments::default() }))
    }

    /// The chart in a package. `file`: its name in errors. `arguments`: how commands name it.
    ///
    /// # Errors
    /// It is not a chart, or cannot be installed.
    pub fn of_package(bytes: &[u8], file: &str, arguments: ChartArguments) -> Result<Self, String> {
        let loaded = load_installable(bytes, file, PROFILE, &mut |line| tracing::warn!(file, "{line}"))?;
        Ok(Self::new(loaded, hex(Sha256::default().chain_update(bytes)), arguments))
    }

    fn new(loaded: Loaded, digest: String, arguments: ChartArguments) -> Self {
        let reads_capabilities = reads_capabilities(&loaded.chart);
        Self { chart: Arc::new(loaded.compile(PROFILE)), digest, arguments, reads_capabilities }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.chart.chart().name()
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.chart.chart().metadata.version
    }
}

fn hex(digest: Sha256) -> String {
    let digits: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_files() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.path().join(name), text).unwrap();
        write("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n");
        write("values.yaml", "a: 1\n");
        let first = LoadedChart::of_path(root.path()).unwrap();
        assert_eq!((first.name(), first.version()), ("web", "1.2.3"));
        assert_eq!(LoadedChart::of_path(root.path()).unwrap().digest, first.digest);
        write("values.yaml", "a: 2\n");
        assert_ne!(LoadedChart::of_path(root.path()).unwrap().digest, first.digest);
        assert!(!first.reads_capabilities);
        std::fs::create_dir(root.path().join("templates")).unwrap();
        write("templates/_helpers.tpl", "{{ .Capabilities.KubeVersion }}");
        assert!(LoadedChart::of_path(root.path()).unwrap().reads_capabilities);
        write("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\ntype: library\n");
        assert!(LoadedChart::of_path(root.path()).unwrap_err().contains("library"));
        assert!(LoadedChart::of_path(&root.path().join("absent")).is_err());
    }
}
