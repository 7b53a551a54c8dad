//! Verifies one signature against a policy: the signed digest, the key or the certificate and its identity, the logs
//! and timestamps.
//!
//! Owns the conversion of cosign's annotations to a bundle, and which statements count as signatures. The
//! `sigstore-verify` crate checks the cryptography, the certificate chain, the certificate's log and Rekor's proofs.
//! Sends no requests.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use windlass_base::bounded_json;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chart_compat::go::regexp::{self, Regexp};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::{Value, json};
use sigstore_verify::crypto::{KeyAlgorithm, verify_signature, verify_signature_prehashed};
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};
use sigstore_verify::types::bundle::VerificationMaterialContent;
use sigstore_verify::types::{
    Artifact, Bundle, DerPublicKey, HashAlgorithm, Sha256Hash, SignatureBytes, SignatureContent, Statement,
};
use sigstore_verify::{PublicKeyVerificationPolicy, VerificationPolicy};

use super::super::super::atomic_files;
use super::{CosignError, IdentityMatch, Policy, SignatureError, Signer};

/// The predicate type of a statement that signs an artifact.
pub(super) const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";
/// Annotations of a layer of a `.sig` tag.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";
const LOG: &str = "dev.sigstore.cosign/bundle";
/// The largest automaton of an identity's pattern, and the longest identity that one is compared with, in bytes.
const MAX_PATTERN: usize = 64 << 10;
const MAX_IDENTITY: usize = 8 << 10;
/// Size limit of a key or a trusted root, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// A signature as stored in a registry.
pub(super) enum Found {
    /// A bundle, as JSON.
    Bundle(Bytes),
    /// A layer of a `.sig` tag.
    Simple(Simple),
}

/// A signed payload (`simplesigning`) with its layer's annotations.
pub(super) struct Simple {
    pub(super) payload: Bytes,
    pub(super) annotations: BTreeMap<String, String>,
}

/// A policy, ready to check signatures.
pub(super) struct Checks {
    trusted: Trusted,
    /// The keys or roots that are trusted.
    verifier: Option<sigstore_verify::Verifier>,
}

enum Trusted {
    Key { key: DerPublicKey, algorithm: KeyAlgorithm },
    Identity { identity: Test, issuer: Test },
}

enum Test {
    Exact(String),
    Pattern(Arc<Regexp>),
}

/// The payload of a `.sig` tag.
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

/// A log entry in the annotations of a `.sig` tag.
#[derive(Deserialize)]
struct LogEntry {
    #[serde(rename = "SignedEntryTimestamp")]
    timestamp: String,
    #[serde(rename = "Payload")]
    payload: LogPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogPayload {
    body: String,
    integrated_time: i64,
    log_index: i64,
    #[serde(rename = "logID")]
    log_id: String,
}

/// The head of a log's entry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryHead {
    kind: String,
    api_version: String,
}

impl Test {
    fn new(wanted: &IdentityMatch) -> Result<Self, CosignError> {
        match wanted {
            IdentityMatch::Exact(text) => Ok(Self::Exact(text.clone())),
            IdentityMatch::Pattern(pattern) => {
                // Checked alone first, so that it cannot end the group early.
                let compile = |pattern: &str| {
                    let compiled = regexp::compile_within(pattern.as_bytes(), MAX_PATTERN);
                    compiled.map_err(CosignError::Pattern)
                };
                compile(pattern)?;
                Ok(Self::Pattern(Arc::new(compile(&format!("\\A(?:{pattern})\\z"))?)))
            }
        }
    }

    fn passes(&self, text: &str) -> bool {
        match self {
            Self::Exact(wanted) => wanted == text,
            Self::Pattern(pattern) => text.len() <= MAX_IDENTITY && pattern.is_match(text.as_bytes()),
        }
    }
}

impl Checks {
    pub(super) fn new(policy: &Policy) -> Result<Self, CosignError> {
        let root = match (&policy.trusted_root, &policy.signer) {
            (Some(path), _) => Some(read(path, TrustedRoot::from_json)?),
            (None, Signer::Identity { .. }) => {
                let root = TrustedRoot::from_json(SIGSTORE_PRODUCTION_TRUSTED_ROOT);
                Some(root.map_err(|e| failed(Path::new("the built-in trusted root"), e.to_string()))?)
            }
            (None, Signer::Key(_)) => None,
        };
        let name = policy.trusted_root.as_deref().unwrap_or(Path::new("the built-in trusted root"));
        let verifier = root.map(|r| sigstore_verify::Verifier::new(&r));
        let verifier = verifier.transpose().map_err(|e| failed(name, e.to_string()))?;
        let trusted = match &policy.signer {
            Signer::Key(path) => {
                let key = read(path, DerPublicKey::from_pem)?;
                let algorithm = KeyAlgorithm::from_spki(&key).map_err(|e| failed(path, e.to_string()))?;
                Trusted::Key { key, algorithm }
            }
            Signer::Identity { identity, issuer } => {
                Trusted::Identity { identity: Test::new(identity)?, issuer: Test::new(issuer)? }
            }
        };
        Ok(Self { trusted, verifier })
    }

    /// Checks that the policy's signer signed an artifact. `digest`: of its manifest.
    pub(super) fn check(&self, found: &Found, digest: &str) -> Result<(), SignatureError> {
        let hex = digest.strip_prefix("sha256:").ok_or(SignatureError::Digest("is not of SHA-256"))?;
        let artifact = Sha256Hash::from_hex(hex).map_err(invalid)?;
        match found {
            Found::Bundle(json) => {
                let text = std::str::from_utf8(json).map_err(invalid)?;
                let bundle = Bundle::from_json(text).map_err(malformed("bundle"))?;
                if let SignatureContent::DsseEnvelope(envelope) = &bundle.content {
                    check_statement(envelope.payload.as_bytes(), &artifact)?;
                }
                self.check_bundle(Artifact::from_digest(artifact), Some(&artifact), &bundle)
            }
            Found::Simple(simple) => {
                self.check_simple(simple)?;
                check_payload(&simple.payload, digest)
            }
        }
    }

    /// Checks a bundle of an artifact. `digest`: set if only the artifact's digest is known.
    fn check_bundle(
        &self,
        artifact: Artifact<'_>,
        digest: Option<&Sha256Hash>,
        bundle: &Bundle,
    ) -> Result<(), SignatureError> {
        match (&self.trusted, &self.verifier) {
            (Trusted::Key { key, .. }, Some(verifier)) => {
                let policy = PublicKeyVerificationPolicy::new(key.clone());
                verifier.verify(artifact, bundle, &policy).map(drop).map_err(invalid)
            }
            (Trusted::Key { key, algorithm }, None) => {
                let digest = digest.ok_or(SignatureError::Digest("is unknown"))?;
                signed_by(key, *algorithm, bundle, digest)
            }
            (Trusted::Identity { identity, issuer }, Some(verifier)) => {
                // The identity is checked below, by text or by pattern.
                let policy = VerificationPolicy::any_identity();
                let result = verifier.verify(artifact, bundle, &policy).map_err(invalid)?;
                let own = result.identity().map(|i| i.as_str()).unwrap_or_default();
                if !identity.passes(own) {
                    return Err(SignatureError::OtherIdentity(own.to_owned()));
                }
                let own = result.issuer().unwrap_or_default();
                if issuer.passes(own) { Ok(()) } else { Err(SignatureError::OtherIssuer(own.to_owned())) }
            }
            (Trusted::Identity { .. }, None) => Err(SignatureError::NoTrustedRoot),
        }
    }

    /// Checks the signer of the payload of a `.sig` tag.
    fn check_simple(&self, simple: &Simple) -> Result<(), SignatureError> {
        let signature =
            simple.annotations.get(SIGNATURE).ok_or(SignatureError::Missing("a layer has no signature"))?;
        if let (Trusted::Key { key, algorithm }, None) = (&self.trusted, &self.verifier) {
            let signature = SignatureBytes::from_base64(signature).map_err(invalid)?;
            let scheme = algorithm.default_signing_scheme();
            return verify_signature(key, &simple.payload, &signature, scheme).map_err(invalid);
        }
        let bundle = self.bundle_of(simple, signature)?;
        self.check_bundle(Artifact::from_blob(&simple.payload), None, &bundle)
    }

    /// A bundle from the annotations of a `.sig` tag's layer.
    fn bundle_of(&self, simple: &Simple, signature: &str) -> Result<Bundle, SignatureError> {
        let log = simple.annotations.get(LOG);
        let log = log.ok_or(SignatureError::Missing("it has no entry of a transparency log"))?;
        let log: LogEntry = serde_json::from_str(log).map_err(malformed("log entry"))?;
        let body = STANDARD.decode(&log.payload.body).map_err(malformed("log entry"))?;
        let head: EntryHead = bounded_json::from_slice(&body).map_err(malformed("log entry"))?;
        let id = log_id(&log.payload.log_id);
        let id = id.ok_or_else(|| malformed("log entry")("the log's id is wrong"))?;
        let (kind, material) = match self.trusted {
            Trusted::Key { .. } => ("publicKey", json!({"hint": ""})),
            Trusted::Identity { .. } => {
                let leaf = simple.annotations.get(CERTIFICATE);
                let leaf = leaf.ok_or(SignatureError::Missing("it has no certificate"))?;
                let chain = simple.annotations.get(CHAIN).map_or("", String::as_str);
                ("x509CertificateChain", json!({"certificates": certificates(leaf, chain)?}))
            }
        };
        let json = json!({
            "mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1",
            "verificationMaterial": {
                kind: material,
                "tlogEntries": [{
                    "logIndex": log.payload.log_index.to_string(),
                    "logId": {"keyId": STANDARD.encode(id)},
                    "kindVersion": {"kind": head.kind, "version": head.api_version},
                    "integratedTime": log.payload.integrated_time.to_string(),
                    "inclusionPromise": {"signedEntryTimestamp": log.timestamp},
                    "canonicalizedBody": log.payload.body,
                }],
            },
            "messageSignature": {"signature": signature},
        });
        Bundle::from_json(&json.to_string()).map_err(malformed("signature"))
    }
}

/// Checks the signature of a bundle by a key, without any log.
fn signed_by(
    key: &DerPublicKey,
    algorithm: KeyAlgorithm,
    bundle: &Bundle,
    digest: &Sha256Hash,
) -> Result<(), SignatureError> {
    if !matches!(bundle.verification_material.content, VerificationMaterialContent::PublicKey(_)) {
        return Err(SignatureError::NotOfKey);
    }
    match &bundle.content {
        SignatureContent::DsseEnvelope(envelope) => {
            let scheme = algorithm.default_signing_scheme();
            verify_signature(key, &envelope.pae(), &envelope.signature.sig, scheme).map_err(invalid)
        }
        SignatureContent::MessageSignature(message) => {
            let scheme = algorithm.resolve_signing_scheme(HashAlgorithm::Sha2256).map_err(invalid)?;
            verify_signature_prehashed(key, digest.as_bytes(), &message.signature, scheme).map_err(invalid)
        }
        _ => Err(SignatureError::UnknownKind),
    }
}

/// Checks that a signed statement signs an artifact; statements of provenance or content do not.
fn check_statement(payload: &[u8], artifact: &Sha256Hash) -> Result<(), SignatureError> {
    let statement: Statement = bounded_json::from_slice(payload).map_err(malformed("statement"))?;
    if statement.type_ != Statement::TYPE_V1 || statement.predicate_type != SIGNED {
        return Err(SignatureError::Predicate(statement.predicate_type));
    }
    if statement.matches_sha256(artifact) { Ok(()) } else { Err(SignatureError::OtherArtifact) }
}

/// Checks that a signed payload of a `.sig` tag names an artifact.
fn check_payload(payload: &[u8], digest: &str) -> Result<(), SignatureError> {
    let payload: Payload = bounded_json::from_slice(payload).map_err(malformed("payload"))?;
    if payload.critical.kind != "cosign container image signature" {
        return Err(SignatureError::PayloadType(payload.critical.kind));
    }
    if payload.critical.image.digest == digest { Ok(()) } else { Err(SignatureError::OtherArtifact) }
}

/// Converts PEM certificates to their form in a bundle.
fn certificates(leaf: &str, chain: &str) -> Result<Vec<Value>, SignatureError> {
    let all = [leaf, chain].into_iter().flat_map(|pem| CertificateDer::pem_slice_iter(pem.as_bytes()));
    all.map(|c| {
        let der = c.map_err(malformed("certificate"))?;
        Ok(json!({"rawBytes": STANDARD.encode(der)}))
    })
    .collect()
}

/// Decodes a log's id from hex.
fn log_id(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2).map(|p| std::str::from_utf8(p).ok());
    pairs.map(|p| u8::from_str_radix(p.filter(|p| p.len() == 2)?, 16).ok()).collect()
}

fn invalid(error: impl Display) -> SignatureError {
    SignatureError::Invalid(error.to_string())
}

/// A part of a signature that cannot be decoded.
fn malformed<E: Display>(part: &'static str) -> impl Fn(E) -> SignatureError {
    move |error| SignatureError::Malformed { part, reason: error.to_string() }
}

fn failed(path: &Path, reason: String) -> CosignError {
    CosignError::File { path: path.to_owned(), reason }
}

/// Reads a file of text and parses it.
fn read<T, E: Display>(path: &Path, parse: impl Fn(&str) -> Result<T, E>) -> Result<T, CosignError> {
    let bytes = atomic_files::read(path, MAX_FILE).map_err(|e| failed(path, e.to_string()))?;
    let bytes = bytes.ok_or_else(|| failed(path, "no such file or directory".to_owned()))?;
    let text = String::from_utf8(bytes).map_err(|e| failed(path, e.to_string()))?;
    parse(&text).map_err(|e| failed(path, e.to_string()))
}
