//! Signatures of artifacts by cosign: by a key, or keyless by a certificate of an identity.
//!
//! Owns the policy that flags express, and the errors. `find_signatures`: bundles and `.sig` tags of a registry;
//! `check`: verifies one signature against the policy, with the `sigstore-verify` crate. Fetches no trusted root from
//! the network. A build without the feature `cosign` refuses each policy.

#[cfg(feature = "cosign")]
mod check;
#[cfg(feature = "cosign")]
mod find_signatures;
#[cfg(not(feature = "cosign"))]
mod unavailable;

use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "cosign")]
pub use self::find_signatures::Verifier;
#[cfg(not(feature = "cosign"))]
pub use self::unavailable::Verifier;
use super::OciError;

/// Why a signature is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum CosignError {
    /// A key or a trusted root cannot be used.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A pattern of an identity or issuer is not a regular expression.
    #[error("{0}")]
    Pattern(String),
    /// The registry fails.
    #[error(transparent)]
    Registry(#[from] OciError),
    /// The artifact has no signature.
    #[error("{0}: no cosign signature found; was it pushed to the same repository?")]
    Unsigned(String),
    /// None of the artifact's signatures is valid.
    #[error("{reference}: none of {count} cosign signatures is of {signer} and of this artifact: {reason}")]
    NotVerified {
        /// The artifact.
        reference: String,
        /// How many signatures it has.
        count: usize,
        /// The required signer.
        signer: Box<Signer>,
        /// Why the last of them is not valid.
        reason: SignatureError,
        /// The built-in trusted root was used, which may be older than the signing keys.
        built_in_root: bool,
    },
    /// The program was built without cosign's signatures.
    #[error("cosign signatures need the cargo feature \"cosign\", and this program was built without it")]
    NotBuilt,
}

/// Why one signature does not count.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The artifact's digest cannot be compared.
    #[error("the artifact's digest {0}")]
    Digest(&'static str),
    /// A part of the signature cannot be decoded.
    #[error("{part}: {reason}")]
    Malformed {
        /// `bundle`, `statement`, `payload` and so on.
        part: &'static str,
        /// Why.
        reason: String,
    },
    /// The signature lacks a part.
    #[error("{0}")]
    Missing(&'static str),
    /// The signature, its certificate or its log entry fails a check; in the library's words.
    #[error("{0}")]
    Invalid(String),
    /// The certificate is of this identity.
    #[error("it is of the identity {0:?}")]
    OtherIdentity(String),
    /// The identity is attested by this issuer.
    #[error("it is by the issuer {0:?}")]
    OtherIssuer(String),
    /// Nothing says which certificates are valid.
    #[error("there is no trusted root")]
    NoTrustedRoot,
    /// A key is required, and a certificate signed.
    #[error("it is of a certificate, not of a key")]
    NotOfKey,
    /// The signature has no content of a known kind.
    #[error("it is of an unknown kind")]
    UnknownKind,
    /// The statement is of this type.
    #[error("it states {0:?}, which does not sign the artifact")]
    Predicate(String),
    /// The payload is of this type.
    #[error("its payload is of the type {0:?}")]
    PayloadType(String),
    /// The signature is of another artifact.
    #[error("it is of another artifact")]
    OtherArtifact,
}

/// The required signer of a chart, and the trusted root.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The required signer.
    pub signer: Signer,
    /// Certificate authorities and logs (`trusted_root.json`). Without it: those of the public Sigstore instance for an identity, and
    /// no log for a key.
    pub trusted_root: Option<PathBuf>,
}

/// The required signer of a chart.
#[derive(Clone, Debug)]
pub enum Signer {
    /// The owner of a public key, in a PEM file.
    Key(PathBuf),
    /// An identity that an issuer of tokens attested.
    Identity {
        /// The subject of the certificate: an e-mail address or a URI.
        identity: IdentityMatch,
        /// The URL of the issuer.
        issuer: IdentityMatch,
    },
}

/// A text that a certificate must contain.
#[derive(Clone, Debug)]
pub enum IdentityMatch {
    /// This text.
    Exact(String),
    /// A text that a regular expression of Go's dialect matches from its start to its end.
    Pattern(String),
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(path) => write!(f, "the key {}", path.display()),
            Self::Identity { identity, issuer } => {
                write!(f, "the identity {identity} by the issuer {issuer}")
            }
        }
    }
}

impl fmt::Display for IdentityMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Exact(text) | Self::Pattern(text)) = self;
        f.write_str(text)
    }
}
