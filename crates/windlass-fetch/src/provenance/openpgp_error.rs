//! Why keyrings and signatures are refused: the containers of keys, the packets in them, and what a key may do.
//!
//! Owns the texts, which are those of Go's OpenPGP library where it has some.

use std::path::PathBuf;

use super::certificate::Refusal;
use super::signature::MAX_SIGNATURES;

/// Why a keyring or a signature is not used.
#[derive(Debug, thiserror::Error)]
pub enum OpenPgpError {
    /// The keyring cannot be opened.
    #[error("open {path}: {reason}")]
    Open {
        /// The keyring.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The keyring is not what its first bytes say.
    #[error("reading {container} {path}: {source}")]
    Container {
        /// What it claims to be: `keybox`, `armored keyring`.
        container: &'static str,
        /// The keyring.
        path: PathBuf,
        /// Why.
        source: Box<OpenPgpError>,
    },
    /// A blob of a keybox is malformed, or there is no key.
    #[error("{0}")]
    Keybox(&'static str),
    /// The text is not in armor.
    #[error("openpgp: invalid argument: armor invalid")]
    Armor,
    /// A block in armor is not of keys; its kind.
    #[error("expected a public or private key block, got \"{0}\"")]
    NotKeys(String),
    /// A block in armor is not a signature; its kind.
    #[error("openpgp: invalid argument: expected a signature, got \"{0}\"")]
    NotSignature(String),
    /// A text in armor has no keys.
    #[error("no keys found")]
    NoKeys,
    /// A packet cannot be parsed.
    #[error("openpgp: invalid data: {0}")]
    Packet(pgp::errors::Error),
    /// A packet beside signatures.
    #[error("openpgp: invalid data: non signature packet found")]
    OtherPacket,
    /// More signatures than one text has.
    #[error("openpgp: invalid data: more than {MAX_SIGNATURES} signatures")]
    TooMany,
    /// No key of the keyring made the signature.
    #[error("openpgp: signature made by unknown entity")]
    Unknown,
    /// The key must not be used.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The signature is of another text.
    #[error("openpgp: invalid signature: the text or the signature was changed")]
    Changed,
    /// GnuPG exported only a note that the secret key exists.
    #[error("the secret key is not in this keyring, only a note that it exists")]
    Stub,
    /// Keys of this version do not sign.
    #[error("openpgp: unsupported feature: signing with a key of version {0:?}")]
    Version(pgp::types::KeyVersion),
    /// The passphrase does not unlock the key.
    #[error("openpgp: invalid data: private key checksum failure: is the passphrase right?")]
    Passphrase,
    /// The signature cannot be made.
    #[error("openpgp: {0}")]
    Sign(pgp::errors::Error),
}
