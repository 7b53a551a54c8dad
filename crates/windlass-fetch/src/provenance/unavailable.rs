//! Replaces provenance files in builds without OpenPGP: signing and verification fail.

use std::path::Path;

use chart_compat::chart::Metadata;

use super::{ProvenanceError, Verified};

/// Fails.
///
/// # Errors
/// Always: the build has no OpenPGP.
pub fn sign(
    _package: &[u8],
    _file: &str,
    _metadata: &Metadata,
    _keyring: &Path,
    _id: &str,
    _passphrase: &mut dyn FnMut() -> Result<Option<Vec<u8>>, String>,
) -> Result<String, ProvenanceError> {
    Err(ProvenanceError::NotBuilt)
}

/// Fails.
///
/// # Errors
/// Always: the build has no OpenPGP.
pub fn verify(
    _package: &[u8],
    _provenance: &[u8],
    _file: &str,
    _keyring: &Path,
) -> Result<Verified, ProvenanceError> {
    Err(ProvenanceError::NotBuilt)
}

/// Fails.
///
/// # Errors
/// Always: the build has no OpenPGP.
pub fn verify_detached(_keys: &[String], _text: &[u8], _signature: &str) -> Result<String, ProvenanceError> {
    Err(ProvenanceError::NotBuilt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_verified_without_the_feature() {
        let error = verify(b"", b"", "web-1.0.0.tgz", Path::new("pubring.gpg")).unwrap_err().to_string();
        assert!(error.contains("need the cargo feature \"pgp\""), "{error}");
    }
}
