//! Provenance files: a chart's metadata and the digest of its package, signed with OpenPGP (`pkg/provenance`).
//!
//! Owns the errors and the text about a signer. `file`: the text of a provenance file; `keyring`: certificates from a
//! keyring; `certificate`: which of their keys may sign; `signature`: signatures of texts; `package_file`: packages on disk and
//! fetched ones. All cryptography is rPGP's. Without the feature `pgp` each function fails.

#[cfg(feature = "pgp")]
mod certificate;
#[cfg(feature = "pgp")]
mod file;
#[cfg(feature = "pgp")]
mod keyring;
#[cfg(feature = "pgp")]
mod openpgp_error;
mod package_file;
#[cfg(feature = "pgp")]
mod signature;
#[cfg(all(test, feature = "pgp"))]
mod tests;
#[cfg(not(feature = "pgp"))]
mod unavailable;

use std::path::PathBuf;

#[cfg(feature = "pgp")]
pub use self::file::{sign, verify, verify_detached};
#[cfg(feature = "pgp")]
pub use self::openpgp_error::OpenPgpError;
pub use self::package_file::{verify_fetched, verify_file};
#[cfg(not(feature = "pgp"))]
pub use self::unavailable::{sign, verify, verify_detached};
use super::helm_paths::user_home;

/// Why a package could not be signed or verified; `Display` is Helm's text where it has one.
#[derive(Debug, thiserror::Error)]
pub enum ProvenanceError {
    /// The keyring cannot be read.
    #[cfg(feature = "pgp")]
    #[error("failed to load keyring: {0}")]
    Keyring(OpenPgpError),
    /// No key has the given name.
    #[error("private key not found")]
    NoKey,
    /// The key is a public one.
    #[error("provided key is not a private key. Try providing a keyring with secret keys")]
    NotSecret,
    /// Several keys have the given name.
    #[error("more than one key contain the id {0:?}")]
    Vague(String),
    /// The key is protected, and no passphrase was given.
    #[error("the key {0:?} is protected")]
    Protected(String),
    /// The key cannot be used, or the signature is invalid.
    #[cfg(feature = "pgp")]
    #[error("{0}")]
    Signature(OpenPgpError),
    /// The named key must not sign.
    #[error("the key {key:?} cannot sign: {reason}")]
    CannotSign {
        /// A user id of the key.
        key: String,
        /// Why.
        reason: String,
    },
    /// No passphrase can be read.
    #[error("{0}")]
    Passphrase(String),
    /// The two documents of a provenance file cannot be written.
    #[error("{0}")]
    Write(#[from] chart_compat::yaml::WriteError),
    /// The list of files in a provenance file is not YAML.
    #[error("{0}")]
    Files(#[from] chart_compat::yaml::Error),
    /// The file is not a signed text.
    #[error("signature block not found")]
    NoBlock,
    /// The signed text has no file list.
    #[error("message block must have at least two parts")]
    NoParts,
    /// The signed text does not list this package.
    #[error("provenance does not contain a SHA for a file named {0:?}")]
    NoFile(String),
    /// The package differs from the signed one.
    #[error("sha256 sum does not match for {file}: {signed:?} != {found:?}")]
    Digest {
        /// The package.
        file: String,
        /// The signed digest.
        signed: String,
        /// The actual digest.
        found: String,
    },
    /// There is no such package.
    #[error("stat {0}: no such file or directory")]
    NoPackage(PathBuf),
    /// The package cannot be looked at.
    #[error("stat {path}: {source}")]
    Stat {
        /// The package.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A directory is no package.
    #[error("unpacked charts cannot be verified")]
    Unpacked,
    /// The file has another ending than `.tgz`.
    #[error("chart must be a tgz file")]
    NotPackage,
    /// There is no provenance file beside the package, or it cannot be read; Helm's text.
    #[error("could not load provenance file {0}: stat {0}: no such file or directory")]
    NoneBeside(PathBuf),
    /// The package cannot be read.
    #[error(transparent)]
    Load(Box<crate::Error>),
    /// The package was fetched without a provenance file.
    #[error("failed to fetch provenance \"{0}.prov\"")]
    NotFetched(String),
    /// The program was built without OpenPGP.
    #[error("provenance files need the cargo feature \"pgp\", and this program was built without it")]
    NotBuilt,
}

impl From<ProvenanceError> for String {
    fn from(error: ProvenanceError) -> Self {
        error.to_string()
    }
}

/// Who signed a package.
#[derive(Debug)]
pub struct Verified {
    /// The user ids of the signer's certificate, in the order of the keyring.
    pub names: Vec<String>,
    /// The fingerprint of the signer's primary key in upper-case hex.
    pub fingerprint: String,
    /// `sha256:…` of the package.
    pub digest: String,
}

impl Verified {
    /// Helm's output for the signer.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut out: Vec<String> = self.names.iter().map(|n| format!("Signed by: {n}")).collect();
        out.push(format!("Using Key With Fingerprint: {}", self.fingerprint));
        out.push(format!("Chart Hash Verified: {}", self.digest));
        out
    }
}

/// The default keyring: GnuPG's, in the old or the new format (`defaultKeyring`).
#[must_use]
pub fn default_keyring() -> PathBuf {
    let home = std::env::var_os("GNUPGHOME").map_or_else(|| user_home().join(".gnupg"), PathBuf::from);
    let (old, new) = (home.join("pubring.gpg"), home.join("pubring.kbx"));
    if !old.exists() && new.exists() { new } else { old }
}
