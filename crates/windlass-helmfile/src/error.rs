//! Why something around state files fails: an address, a secret, a bundle, a chart, the object that asks.
//!
//! Owns the causes by where they come from, and what becomes of them in an evaluation and in a store. What a state file itself says wrong
//! is `helmfile_compat::Error`.

use std::fmt::Display;
use std::io;

use windlass_base::blocking::BlockingError;
use windlass_base::causes::{of_the_system, of_type};
use windlass_fetch::BucketError;
use windlass_fetch::archive::ArchiveError;
use windlass_fetch::confined_files::ConfinedPathError;
use windlass_fetch::file_checksum::ChecksumError;
use windlass_fetch::git::remote::BadRevision;
use windlass_fetch::input_store::StoreError;
use windlass_fetch::installable::NotInstallable;
use windlass_fetch::provenance::ProvenanceError;

/// An error of the outside of an evaluation. The texts are for people and have no secrets.
#[derive(Debug, thiserror::Error)]
pub enum HelmfileError {
    /// State files cannot be evaluated.
    #[error("{0}")]
    State(#[source] helmfile_compat::Error),
    /// The object, its kind or its spec asks for what has no meaning or is not allowed.
    #[error("{0}")]
    Object(String),
    /// An address has no meaning, is not allowed, or what it names cannot be had.
    #[error("{0}")]
    Address(String),
    /// A secret reference has no meaning, is not allowed, or leads to no value.
    #[error("{0}")]
    Secret(String),
    /// An encrypted file cannot be decrypted.
    #[error("{0}")]
    Sops(String),
    /// A bundle cannot be made, or is not valid.
    #[error("{0}")]
    Bundle(String),
    /// A chart, manifests or a kustomization cannot be used.
    #[error("{0}")]
    Chart(String),
    /// A file or a program of this machine.
    #[error("{0}")]
    Machine(String),
    /// What was fetched, read or unpacked by others: a caller that needs the reason asks for the type of the source.
    #[error("{0}")]
    Cause(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An error in a place.
    #[error("{place}: {source}")]
    Within {
        /// Where: a file, a field, a step.
        place: String,
        /// What.
        source: Box<HelmfileError>,
    },
    /// An error that shows paths below a directory as paths within it.
    #[error("{}", .source.to_string().replace(.directory, ""))]
    Below {
        /// The directory, with a slash at its end.
        directory: String,
        /// What.
        source: Box<HelmfileError>,
    },
}

impl HelmfileError {
    /// The error of another crate.
    #[must_use]
    pub fn cause(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Cause(error.into())
    }

    /// The error of an operation on a file, in the words of the system.
    #[must_use]
    pub fn file(path: impl Display, error: &io::Error) -> Self {
        Self::Machine(format!("{path}: {}", of_the_system(error)))
    }

    /// The error in a place.
    #[must_use]
    pub fn within(self, place: impl Into<String>) -> Self {
        Self::Within { place: place.into(), source: Box::new(self) }
    }

    /// Whether a cloud answered that it has nothing of the name.
    #[must_use]
    pub fn is_missing_resource(&self) -> bool {
        of_type::<BucketError>(self).any(BucketError::is_missing_resource)
    }
}

impl From<helmfile_compat::Error> for HelmfileError {
    fn from(error: helmfile_compat::Error) -> Self {
        Self::State(error)
    }
}

macro_rules! causes {
    ($($error:ty),*) => {
        $(impl From<$error> for HelmfileError {
            fn from(error: $error) -> Self {
                Self::cause(error)
            }
        })*
    };
}

causes!(
    ArchiveError,
    BadRevision,
    BlockingError,
    ChecksumError,
    ConfinedPathError,
    NotInstallable,
    ProvenanceError,
    StoreError
);

/// What a host answers an evaluation.
impl From<HelmfileError> for helmfile_compat::Error {
    fn from(error: HelmfileError) -> Self {
        match error {
            HelmfileError::State(error) => error,
            other => Self::host(other),
        }
    }
}

/// What a bundle answers a download.
impl From<HelmfileError> for StoreError {
    fn from(error: HelmfileError) -> Self {
        Self(error.to_string())
    }
}
