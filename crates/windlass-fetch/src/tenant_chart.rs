//! A chart that a tenant's object names, from its server.
//!
//! Owns what such a download may use: neither charts nor logins of this machine, and no address that the client does not allow. Which
//! references an object may have is the front end's.

use std::path::Path;

use chart_compat::profile::Profile;

use super::Loaded;
use super::fetch::{ChartBytes, FetchError, Fetcher, Options};
use super::helm_paths::Home;
use super::http::Http;
use super::installable::{NotInstallable, check_installable};
use super::oci::credentials::Credentials;

/// Why a tenant's chart is not downloaded.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// There is no temporary directory.
    #[error("no temporary directory: {0}")]
    NoDirectory(std::io::Error),
    /// Its server does not have it, or does not give it.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// Why a package is not installed.
#[derive(Debug, thiserror::Error)]
pub enum UnusableChart {
    /// It is not a chart.
    #[error(transparent)]
    Load(#[from] super::Error),
    /// It is a chart that cannot be installed.
    #[error(transparent)]
    NotInstallable(#[from] NotInstallable),
}

impl From<UnusableChart> for String {
    fn from(error: UnusableChart) -> Self {
        error.to_string()
    }
}

/// What a download is made with.
pub struct TenantDownload<'d> {
    /// The client of HTTP servers, with its rule for local addresses.
    pub http: &'d Http,
    /// Logins of registries.
    pub registries: Credentials,
    /// Also Git repositories and buckets, which are read with the operator's own login.
    pub as_operator: bool,
    /// Version, repository and login.
    pub options: Options,
}

impl TenantDownload<'_> {
    /// Downloads a chart. `warn` takes lines for the log.
    ///
    /// # Errors
    /// It does not exist, cannot be fetched, or fails a check; or there is no temporary directory.
    pub async fn fetch(
        self,
        reference: &str,
        warn: &mut (dyn FnMut(String) + Send),
    ) -> Result<ChartBytes, DownloadError> {
        let scratch = tempfile::tempdir().map_err(DownloadError::NoDirectory)?;
        let fetcher = Fetcher::of_tenant(Home::below(scratch.path()), self.http.clone(), self.registries);
        let fetcher = Fetcher { of_tenant: !self.as_operator, ..fetcher };
        Ok(fetcher.fetch(reference, &self.options, warn).await?)
    }
}

/// Loads a package and checks that it can be installed. `name`: the package's name in errors. `warn` takes lines for the log.
///
/// # Errors
/// It is not a chart, or cannot be installed.
pub fn load_installable(
    package: &[u8],
    name: &str,
    profile: Profile,
    warn: &mut dyn FnMut(&str),
) -> Result<Loaded, UnusableChart> {
    let loaded = super::load_package(package, Path::new(name), profile)?;
    check_loaded(&loaded, profile, warn)?;
    Ok(loaded)
}

/// Checks that a chart which was loaded can be installed. `warn` takes its warnings.
///
/// # Errors
/// It cannot be installed.
pub fn check_loaded(
    loaded: &Loaded,
    profile: Profile,
    warn: &mut dyn FnMut(&str),
) -> Result<(), NotInstallable> {
    loaded.warnings.iter().for_each(|line| warn(line));
    check_installable(&loaded.chart, profile, warn)
}
