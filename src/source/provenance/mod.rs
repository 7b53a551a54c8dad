//! Provenance files: a chart's metadata and the digest of its package, signed by PGP (`pkg/provenance`).
//!
//! Owns the file's text, `packet`, `key`, `secret` and `signature` the part of OpenPGP that it needs: RSA, Ed25519 and ECDSA keys
//! of version 4, cleartext signatures by SHA-2. That part is small, and its arithmetic is the TLS library's; a library of all of
//! OpenPGP would bring 150 crates.

mod key;
mod packet;
mod secret;
mod signature;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chart_compat::chart::Metadata;
use chart_compat::data::{Data, Map};
use chart_compat::yaml;
use sha2::{Digest as _, Sha256};

pub use self::key::Entity;
use self::secret::Signer;
use super::cache::hex;
use super::home::user_home;

/// Why a package was not signed, or its signature does not hold; `Display` is Helm's text where it has one.
#[derive(Debug, thiserror::Error)]
pub enum ProvenanceError {
    /// The keyring cannot be read.
    #[error("failed to load keyring: {0}")]
    Keyring(String),
    /// No key has that name.
    #[error("private key not found")]
    NoKey,
    /// The key is a public one.
    #[error("provided key is not a private key. Try providing a keyring with secret keys")]
    NotSecret,
    /// Several keys have that name.
    #[error("more than one key contain the id {0:?}")]
    Vague(String),
    /// The key is protected, and no passphrase is at hand.
    #[error("the key {0:?} is protected: give its passphrase by --passphrase-file")]
    Protected(String),
    /// The key cannot be used, or the signature does not hold.
    #[error("{0}")]
    Signature(String),
    /// The file is no signed text.
    #[error("signature block not found")]
    NoBlock,
    /// The signed text says nothing of files.
    #[error("message block must have at least two parts")]
    NoParts,
    /// The signed text does not speak of this package.
    #[error("provenance does not contain a SHA for a file named {0:?}")]
    NoFile(String),
    /// The package is not the one that was signed.
    #[error("sha256 sum does not match for {file}: {signed:?} != {found:?}")]
    Digest {
        /// The package.
        file: String,
        /// What was signed.
        signed: String,
        /// What is there.
        found: String,
    },
}

/// Who signed a package.
#[derive(Debug)]
pub struct Verified {
    /// The key and its names.
    pub signer: Entity,
    /// `sha256:…` of the package.
    pub digest: String,
}

impl Verified {
    /// What Helm prints of it.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut out: Vec<String> = self.signer.names.iter().map(|n| format!("Signed by: {n}")).collect();
        out.push(format!("Using Key With Fingerprint: {}", self.signer.fingerprint()));
        out.push(format!("Chart Hash Verified: {}", self.digest));
        out
    }
}

/// The keyring that is taken where none is named: GnuPG's, in the old form or the new (`defaultKeyring`).
#[must_use]
pub fn default_keyring() -> PathBuf {
    let home = std::env::var_os("GNUPGHOME").map_or_else(|| user_home().join(".gnupg"), PathBuf::from);
    let (old, new) = (home.join("pubring.gpg"), home.join("pubring.kbx"));
    if !old.exists() && new.exists() { new } else { old }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// A text as signatures see it: lines without spaces at their ends, and no line end after the last (RFC 4880, section 7.1).
fn canonical(text: &str) -> Vec<u8> {
    let lines: Vec<&str> = text.split('\n').map(|l| l.trim_end_matches([' ', '\t', '\r'])).collect();
    lines.join("\r\n").into_bytes()
}

/// Signs a package (`Signatory.ClearSign`). `id`: the name of the key, or a part of it; `passphrase`: asked for if the key is
/// protected. Returns the provenance file.
///
/// # Errors
/// The key is not there, or cannot sign.
pub fn sign(
    package: &[u8],
    file: &str,
    metadata: &Metadata,
    keyring: &Path,
    id: &str,
    passphrase: &mut dyn FnMut() -> Result<Option<Vec<u8>>, String>,
) -> Result<String, ProvenanceError> {
    let ring = key::keyring(keyring).map_err(ProvenanceError::Keyring)?;
    let entity = named(&ring, id)?;
    let secret = entity.primary.secret.as_deref().ok_or(ProvenanceError::NotSecret)?;
    let passphrase = if secret::is_protected(secret) {
        let given = passphrase().map_err(ProvenanceError::Signature)?;
        given.ok_or_else(|| ProvenanceError::Protected(entity.names.first().cloned().unwrap_or_default()))?
    } else {
        Vec::new()
    };
    let signer = Signer::new(&entity.primary, &passphrase).map_err(ProvenanceError::Signature)?;
    let text = |data: &Data| yaml::to_string(data).map_err(|e| ProvenanceError::Signature(e.to_string()));
    let files: Map = [(file.to_owned(), digest(package).into())].into();
    let sums: Map = [("files".to_owned(), files.into())].into();
    let message = format!("{}\n...\n{}", text(&metadata.data())?, text(&sums.into())?);
    let message = message.trim_end_matches('\n');
    let packet = signature::sign(&entity.primary, &signer, &canonical(message), now());
    let packet = packet.map_err(ProvenanceError::Signature)?;
    let escaped: Vec<String> = message
        .split('\n')
        .map(|l| if l.starts_with('-') { format!("- {l}") } else { l.to_owned() })
        .collect();
    Ok(format!(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{}\n{}",
        escaped.join("\n"),
        packet::armor("PGP SIGNATURE", &packet)
    ))
}

/// The key of a name: the whole name goes before a part of it.
fn named<'k>(ring: &'k [Entity], id: &str) -> Result<&'k Entity, ProvenanceError> {
    if let Some(exact) = ring.iter().find(|e| e.names.iter().any(|n| n == id)) {
        return Ok(exact);
    }
    let mut found = ring.iter().filter(|e| e.names.iter().any(|n| n.contains(id)));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(ProvenanceError::Vague(id.to_owned())),
        (None, _) => Err(ProvenanceError::NoKey),
    }
}

/// Checks a package against its provenance file (`Signatory.Verify`). `file`: the package's name.
///
/// # Errors
/// The signature does not hold, is of nobody in the keyring, or is of another package.
pub fn verify(
    package: &[u8],
    provenance: &[u8],
    file: &str,
    keyring: &Path,
) -> Result<Verified, ProvenanceError> {
    let ring = key::keyring(keyring).map_err(ProvenanceError::Keyring)?;
    let text = String::from_utf8_lossy(provenance).replace("\r\n", "\n");
    let (message, signatures) = block(&text).ok_or(ProvenanceError::NoBlock)?;
    let blocks = packet::dearmor(signatures).map_err(ProvenanceError::Signature)?;
    let (_, data) =
        blocks.into_iter().find(|(kind, _)| kind == "PGP SIGNATURE").ok_or(ProvenanceError::NoBlock)?;
    let signer = signature::check(&ring, &canonical(&message), &data, now());
    let signer = signer.map_err(ProvenanceError::Signature)?.clone();
    let found = digest(package);
    let (_, sums) = message.split_once("\n...\n").ok_or(ProvenanceError::NoParts)?;
    let sums = sums.split("\n...\n").next().unwrap_or_default();
    let sums = yaml::from_slice(sums.as_bytes()).map_err(|e| ProvenanceError::Signature(e.to_string()))?;
    let signed = sums.get("files").and_then(|f| f.get(file)).and_then(Data::as_str);
    match signed {
        None => Err(ProvenanceError::NoFile(file.to_owned())),
        Some(signed) if signed != found => {
            Err(ProvenanceError::Digest { file: file.to_owned(), signed: signed.to_owned(), found })
        }
        Some(_) => Ok(Verified { signer, digest: found }),
    }
}

/// The signed text of a cleartext signature, and what follows it.
fn block(text: &str) -> Option<(String, &str)> {
    const BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----\n";
    const END: &str = "\n-----BEGIN PGP SIGNATURE-----";
    let start = if text.starts_with(BEGIN) { 0 } else { text.find(&format!("\n{BEGIN}"))? + 1 };
    let rest = &text[start + BEGIN.len()..];
    let (_headers, rest) = match rest.strip_prefix('\n') {
        Some(rest) => ("", rest),
        None => rest.split_once("\n\n")?,
    };
    let end = rest.find(END)?;
    let lines: Vec<&str> = rest[..end].split('\n').map(|l| l.strip_prefix("- ").unwrap_or(l)).collect();
    Some((lines.join("\n"), &rest[end + 1..]))
}
