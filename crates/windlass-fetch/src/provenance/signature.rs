//! Signatures of texts: verified by a keyring, and created.

use pgp::armor::{self, BlockType};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Packet, PacketParser, SecretKey, Signature, SignatureConfig, SignatureType};
use pgp::packet::{Subpacket, SubpacketData};
use pgp::types::VerifyingKey;
use pgp::types::{KeyDetails, KeyVersion, Password, S2kParams, SecretParams, StringToKey, Timestamp};

use super::certificate::{Certificate, Refusal, expired, strong_hash};
use super::keyring::dearmor;
use super::openpgp_error::OpenPgpError;

/// Most signatures of a provenance file.
pub(super) const MAX_SIGNATURES: usize = 32;

/// The signer of a text, by a keyring (`openpgp.CheckDetachedSignature`). `text`: in its canonical form; `now`:
/// seconds since 1970.
pub(super) fn check<'k>(
    ring: &'k [Certificate],
    text: &[u8],
    armored: &str,
    now: u64,
) -> Result<&'k Certificate, OpenPgpError> {
    let mut reason = OpenPgpError::Unknown;
    for signature in signatures(armored)? {
        if !matches!(signature.typ(), Some(SignatureType::Binary | SignatureType::Text)) {
            continue;
        }
        for certificate in ring {
            if issued_by(&signature, &certificate.key) {
                let allowed = || certificate.primary_may_sign(now);
                match holds(&signature, &certificate.key, text, now, allowed) {
                    Ok(()) => return Ok(certificate),
                    Err(e) => reason = e,
                }
            }
            for subkey in certificate.subkeys.iter().filter(|s| issued_by(&signature, &s.key)) {
                let allowed = || certificate.subkey_may_sign(subkey, now);
                match holds(&signature, &subkey.key, text, now, allowed) {
                    Ok(()) => return Ok(certificate),
                    Err(e) => reason = e,
                }
            }
        }
    }
    Err(reason)
}

/// The signatures in an armored block.
fn signatures(armored: &str) -> Result<Vec<Signature>, OpenPgpError> {
    let (kind, data) = dearmor(armored)?;
    if kind != BlockType::Signature {
        return Err(OpenPgpError::NotSignature(kind.to_string()));
    }
    let mut out = Vec::new();
    for packet in PacketParser::new(data.as_slice()) {
        match packet.map_err(OpenPgpError::Packet)? {
            Packet::Signature(signature) => out.push(signature),
            _ => return Err(OpenPgpError::OtherPacket),
        }
        if out.len() > MAX_SIGNATURES {
            return Err(OpenPgpError::TooMany);
        }
    }
    Ok(out)
}

fn issued_by(signature: &Signature, key: &impl KeyDetails) -> bool {
    let (id, fingerprint) = (key.legacy_key_id(), key.fingerprint());
    signature.issuer_key_id().contains(&&id) || signature.issuer_fingerprint().contains(&&fingerprint)
}

/// Whether a signature of a text is by a key, and the key may sign.
fn holds(
    signature: &Signature,
    key: &impl VerifyingKey,
    text: &[u8],
    now: u64,
    allowed: impl Fn() -> Result<(), Refusal>,
) -> Result<(), OpenPgpError> {
    if !strong_hash(signature) {
        let hash = signature.hash_alg().map_or_else(|| "unknown".to_owned(), |h| h.to_string());
        return Err(Refusal::Weak(format!("signature by {hash}")).into());
    }
    if signature.verify(key, text).is_err() {
        return Err(OpenPgpError::Changed);
    }
    allowed()?;
    if expired(signature, now) { Err(Refusal::SignatureExpired.into()) } else { Ok(()) }
}

/// An armored signature of a text in its canonical form.
pub(super) fn sign(
    key: &SecretKey,
    passphrase: &[u8],
    text: &[u8],
    now: u64,
) -> Result<String, OpenPgpError> {
    if is_stub(key) {
        return Err(OpenPgpError::Stub);
    }
    if key.version() != KeyVersion::V4 {
        return Err(OpenPgpError::Version(key.version()));
    }
    let password = Password::from(passphrase);
    if key.unlock(&password, |_, _| Ok(())).is_err() {
        return Err(OpenPgpError::Passphrase);
    }
    let failed = OpenPgpError::Sign;
    let created = Timestamp::from_secs(u32::try_from(now).unwrap_or(u32::MAX));
    let mut config = SignatureConfig::v4(SignatureType::Text, key.algorithm(), HashAlgorithm::Sha512);
    for data in [
        SubpacketData::SignatureCreationTime(created),
        SubpacketData::IssuerFingerprint(key.fingerprint()),
        SubpacketData::IssuerKeyId(key.legacy_key_id()),
    ] {
        config.hashed_subpackets.push(Subpacket::regular(data).map_err(failed)?);
    }
    let signature = config.sign(key, &password, text).map_err(failed)?;
    let mut out = Vec::new();
    armor::write(&Packet::from(signature), BlockType::Signature, &mut out, None, true).map_err(failed)?;
    Ok(String::from_utf8_lossy(&out).trim_end().to_owned())
}

/// Whether GnuPG exported only a stub of a secret key.
fn is_stub(key: &SecretKey) -> bool {
    let SecretParams::Encrypted(secret) = key.secret_params() else { return false };
    let (S2kParams::Cfb { s2k, .. } | S2kParams::MalleableCfb { s2k, .. } | S2kParams::Aead { s2k, .. }) =
        secret.string_to_key_params()
    else {
        return false;
    };
    matches!(s2k, StringToKey::Private { typ: 101, .. })
}
