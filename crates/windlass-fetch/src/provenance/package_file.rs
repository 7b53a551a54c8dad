//! Verification of packages: on disk beside their provenance file, and fetched with it.

use std::path::{Path, PathBuf};

use super::{ProvenanceError, Verified, verify};

use crate::fetch::ChartBytes;

/// Verifies a package on disk (`downloader.VerifyChart`).
///
/// # Errors
/// There is no such package or no provenance file, or no key of the keyring has signed it; Helm's text.
pub fn verify_file(chart: &Path, keyring: &Path) -> Result<Verified, ProvenanceError> {
    let path = chart.to_owned();
    match std::fs::metadata(chart) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(ProvenanceError::NoPackage(path)),
        Err(source) => return Err(ProvenanceError::Stat { path, source }),
        Ok(meta) if meta.is_dir() => return Err(ProvenanceError::Unpacked),
        Ok(_) if !chart.extension().is_some_and(|e| e.eq_ignore_ascii_case("tgz")) => {
            return Err(ProvenanceError::NotPackage);
        }
        Ok(_) => {}
    }
    let mut beside = chart.as_os_str().to_owned();
    beside.push(".prov");
    let beside = PathBuf::from(beside);
    let provenance = crate::package_bytes(&beside).map_err(|_| ProvenanceError::NoneBeside(beside))?;
    let bytes = crate::package_bytes(chart).map_err(|e| ProvenanceError::Load(Box::new(e)))?;
    let name = chart.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    verify(&bytes, &provenance, &name, keyring)
}

/// Verifies a fetched package with its provenance file.
///
/// # Errors
/// As [`verify_file`].
pub fn verify_fetched(chart: &ChartBytes, keyring: &Path) -> Result<Verified, ProvenanceError> {
    let missing = || ProvenanceError::NotFetched(chart.origin.clone());
    let provenance = chart.provenance.as_deref().ok_or_else(missing)?;
    verify(&chart.bytes, provenance, &chart.file_name, keyring)
}
