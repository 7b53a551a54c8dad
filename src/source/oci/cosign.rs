//! Signatures that cosign leaves beside an artifact, checked with a public key that the user gives.
//!
//! Owns the tag and payload of such a signature. Trusts no certificate and asks no transparency log.

use std::path::{Path, PathBuf};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey, VerificationAlgorithm};
use aws_lc_rs::signature::{ECDSA_P384_SHA384_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;

use super::artifact::Manifest;
use super::reference::OciReference;
use super::{OciError, Registry};

/// The annotation of a layer that holds its signature.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// Why a signature does not hold.
#[derive(Debug, thiserror::Error)]
pub enum CosignError {
    /// The key is none.
    #[error("{path}: {reason}")]
    Key {
        /// Its file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The registry does not say.
    #[error(transparent)]
    Registry(#[from] OciError),
    /// Nobody has signed it.
    #[error("{0}: no cosign signature found; was it pushed to the same repository?")]
    Unsigned(String),
    /// Nobody who has this key has signed it.
    #[error("{reference}: none of {count} cosign signatures is of the key {key} and of this artifact")]
    NotOurs {
        /// What was to be checked.
        reference: String,
        /// How many signatures there are.
        count: usize,
        /// The key's file.
        key: PathBuf,
    },
}

/// A public key.
pub struct Key {
    path: PathBuf,
    info: Vec<u8>,
    algorithm: &'static dyn VerificationAlgorithm,
}

/// What is signed (`simplesigning`).
#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

impl Key {
    /// Reads a public key in PEM, as `cosign generate-key-pair` writes it.
    ///
    /// # Errors
    /// The file is not one.
    pub fn read(path: &Path) -> Result<Self, CosignError> {
        let failed = |reason: String| CosignError::Key { path: path.to_owned(), reason };
        let info = SubjectPublicKeyInfoDer::from_pem_file(path).map_err(|e| failed(e.to_string()))?;
        let has = |oid: &[u8]| info.windows(oid.len()).take(40).any(|w| w == oid);
        let algorithm: &'static dyn VerificationAlgorithm =
            if has(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]) {
                &ECDSA_P256_SHA256_ASN1
            } else if has(&[0x2b, 0x81, 0x04, 0x00, 0x22]) {
                &ECDSA_P384_SHA384_ASN1
            } else if has(&[0x2b, 0x65, 0x70]) {
                &ED25519
            } else if has(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]) {
                &RSA_PKCS1_2048_8192_SHA256
            } else {
                return Err(failed("a public key of an unknown kind".to_owned()));
            };
        Ok(Self { path: path.to_owned(), info: info.to_vec(), algorithm })
    }

    fn signed(&self, payload: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(self.algorithm, &self.info).verify(payload, signature).is_ok()
    }
}

/// Whether a payload speaks of an artifact.
fn speaks_of(payload: &[u8], digest: &str) -> bool {
    serde_json::from_slice::<Payload>(payload).is_ok_and(|p| {
        p.critical.kind == "cosign container image signature" && p.critical.image.digest == digest
    })
}

/// Checks that an artifact was signed with a key. `digest`: of its manifest.
///
/// # Errors
/// It was not, or the registry does not say.
pub async fn verify(
    registry: &Registry<'_>,
    reference: &OciReference,
    digest: &str,
    key: &Key,
) -> Result<(), CosignError> {
    let tag = format!("{}.sig", digest.replace(':', "-"));
    let beside = reference.tagged(&tag);
    let manifest = match registry.manifest(&beside).await {
        Ok((bytes, _, _)) => Manifest::read(&bytes)?,
        Err(OciError::NotFound(_)) => return Err(CosignError::Unsigned(reference.to_string())),
        Err(e) => return Err(e.into()),
    };
    for layer in &manifest.layers {
        let Some(signature) = layer.annotations.get(SIGNATURE).and_then(|s| STANDARD.decode(s).ok()) else {
            continue;
        };
        let payload = registry.blob(&beside, &layer.digest, layer.size).await?;
        if key.signed(&payload, &signature) && speaks_of(&payload, digest) {
            return Ok(());
        }
    }
    let (reference, count, key) = (reference.to_string(), manifest.layers.len(), key.path.clone());
    Err(CosignError::NotOurs { reference, count, key })
}
