//! Certificates (transferable public keys): which of their keys may sign data, as their signatures prove.
//!
//! Owns the policy: self-signatures, subkey bindings with their back-signatures, key flags, expiry, revocation, weak algorithms.
//! Certifications by other people do not count: the keyring defines who is trusted.

use pgp::crypto::hash::HashAlgorithm;
use pgp::crypto::public_key::PublicKeyAlgorithm;
use pgp::packet::{PublicKey, PublicSubkey, SecretKey, Signature, SignatureType, SignatureVersion};
use pgp::packet::{SubpacketData, UserId};
use pgp::ser::Serialize as _;
use pgp::types::{KeyDetails, KeyVersion, Tag};

/// Least length of accepted RSA keys, in bits.
const MIN_RSA_BITS: u16 = 2047;

/// A primary key with all its components, as a keyring has it: nothing is verified yet.
pub(super) struct Certificate {
    pub(super) key: PublicKey,
    /// The secret part of the primary key, if the keyring has it.
    pub(super) secret: Option<SecretKey>,
    /// Direct-key signatures and revocations.
    pub(super) signatures: Vec<Signature>,
    pub(super) users: Vec<User>,
    pub(super) subkeys: Vec<Subkey>,
}

/// A user id and the signatures after it.
pub(super) struct User {
    pub(super) id: UserId,
    pub(super) signatures: Vec<Signature>,
}

/// A subkey and the signatures after it.
pub(super) struct Subkey {
    pub(super) key: PublicSubkey,
    pub(super) signatures: Vec<Signature>,
}

/// Why a key may not sign; `Display` is Helm's text, with the reason where Helm has none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The proof of the binding between key and certificate is missing, or the key is not for signing.
    #[error("openpgp: signature made by unknown entity: {0}")]
    NotForSigning(&'static str),
    #[error("openpgp: signature made by revoked key")]
    Revoked,
    #[error("openpgp: key expired")]
    KeyExpired,
    #[error("openpgp: signature expired")]
    SignatureExpired,
    #[error("openpgp: weak algorithms are rejected: {0}")]
    Weak(String),
}

impl Refusal {
    /// A defect of the key.
    pub(super) fn of_key(&self) -> String {
        match self {
            Self::NotForSigning(reason) => (*reason).to_owned(),
            Self::Revoked => "it is revoked".to_owned(),
            Self::KeyExpired | Self::SignatureExpired => "it has expired".to_owned(),
            Self::Weak(reason) => format!("it is too weak: {reason}"),
        }
    }
}

impl Certificate {
    /// The fingerprint of the primary key in upper-case hex.
    pub(super) fn fingerprint(&self) -> String {
        self.key.fingerprint().as_bytes().iter().map(|b| format!("{b:02X}")).collect()
    }

    /// The user ids that the primary key has certified.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let certified = |u: &&User| u.certification(&self.key).is_some();
        self.users.iter().filter(certified).map(|u| String::from_utf8_lossy(u.id.id()).into_owned())
    }

    /// The index of a user id; adds it if needed.
    pub(super) fn user(&mut self, id: UserId) -> usize {
        let known = self.users.iter().position(|u| u.id.id() == id.id());
        known.unwrap_or_else(|| {
            self.users.push(User { id, signatures: Vec::new() });
            self.users.len() - 1
        })
    }

    /// The index of a subkey; adds it if needed.
    pub(super) fn subkey(&mut self, key: PublicSubkey) -> usize {
        let fingerprint = key.fingerprint();
        let known = self.subkeys.iter().position(|s| s.key.fingerprint() == fingerprint);
        known.unwrap_or_else(|| {
            self.subkeys.push(Subkey { key, signatures: Vec::new() });
            self.subkeys.len() - 1
        })
    }

    /// Whether the primary key may sign data. `now`: seconds since 1970.
    pub(super) fn primary_may_sign(&self, now: u64) -> Result<(), Refusal> {
        let own = self.self_signature(now)?;
        if !own.key_flags().sign() {
            return Err(Refusal::NotForSigning("the primary key is not for signing"));
        }
        strong_key(&self.key)
    }

    /// Whether a subkey may sign data.
    pub(super) fn subkey_may_sign(&self, subkey: &Subkey, now: u64) -> Result<(), Refusal> {
        self.self_signature(now)?;
        strong_key(&self.key)?;
        let binding = newest(&subkey.signatures, |s| {
            s.typ() == Some(SignatureType::SubkeyBinding)
                && s.verify_subkey_binding(&self.key, &subkey.key).is_ok()
        });
        let binding = binding.ok_or(Refusal::NotForSigning("the subkey has no valid binding signature"))?;
        // A designated revoker may have made an unverifiable revocation.
        if subkey.signatures.iter().any(|s| s.typ() == Some(SignatureType::SubkeyRevocation)) {
            return Err(Refusal::Revoked);
        }
        if !binding.key_flags().sign() {
            return Err(Refusal::NotForSigning("the subkey is not for signing"));
        }
        let back = binding
            .embedded_signature()
            .filter(|s| acceptable(s) && s.verify_primary_key_binding(&subkey.key, &self.key).is_ok());
        let back = back.ok_or(Refusal::NotForSigning("the subkey has no valid back-signature"))?;
        if key_expired(&subkey.key, binding, now) {
            return Err(Refusal::KeyExpired);
        }
        if expired(binding, now) || expired(back, now) {
            return Err(Refusal::SignatureExpired);
        }
        strong_key(&subkey.key)
    }

    /// The self-signature with the usage of the primary key, which must be neither revoked nor expired.
    fn self_signature(&self, now: u64) -> Result<&Signature, Refusal> {
        // A designated revoker may have made an unverifiable revocation.
        if self.signatures.iter().any(|s| s.typ() == Some(SignatureType::KeyRevocation)) {
            return Err(Refusal::Revoked);
        }
        let direct = newest(&self.signatures, |s| {
            s.typ() == Some(SignatureType::Key) && s.verify_key(&self.key).is_ok()
        });
        let own = if self.key.version() == KeyVersion::V6 {
            direct.ok_or(Refusal::NotForSigning("the primary key has no valid self-signature"))?
        } else {
            self.primary_user()?
        };
        if [Some(own), direct].into_iter().flatten().any(|s| key_expired(&self.key, s, now)) {
            return Err(Refusal::KeyExpired);
        }
        if expired(own, now) { Err(Refusal::SignatureExpired) } else { Ok(own) }
    }

    /// The certification of the primary user id: of those that are not revoked, one marked as primary takes
    /// precedence over a newer one.
    fn primary_user(&self) -> Result<&Signature, Refusal> {
        let certified = self.users.iter().filter_map(|u| Some((u, u.certification(&self.key)?)));
        let certified: Vec<(&User, &Signature)> = certified.collect();
        if certified.is_empty() {
            return Err(Refusal::NotForSigning("the primary key has no user id with a valid self-signature"));
        }
        let valid = certified.into_iter().filter(|(user, _)| !user.revoked(&self.key)).map(|(_, s)| s);
        valid.max_by_key(|s| (s.is_primary(), created(s))).ok_or(Refusal::Revoked)
    }
}

impl User {
    /// The newest valid certification by the primary key.
    fn certification(&self, key: &PublicKey) -> Option<&Signature> {
        newest(&self.signatures, |s| {
            s.typ() != Some(SignatureType::CertRevocation)
                && s.verify_certification(key, Tag::UserId, &self.id).is_ok()
        })
    }

    fn revoked(&self, key: &PublicKey) -> bool {
        self.signatures.iter().any(|s| {
            s.typ() == Some(SignatureType::CertRevocation)
                && s.verify_certification(key, Tag::UserId, &self.id).is_ok()
        })
    }
}

/// The newest acceptable signature that passes a check.
fn newest(signatures: &[Signature], check: impl Fn(&Signature) -> bool) -> Option<&Signature> {
    signatures.iter().filter(|s| acceptable(s) && check(s)).max_by_key(|s| created(s))
}

/// Whether a signature by a certificate's own keys is acceptable. SHA-1 is accepted here and nowhere else: only the
/// owner made it, GnuPG made certificates so for years, Helm accepts it, and rPGP detects the known collisions.
fn acceptable(signature: &Signature) -> bool {
    strong_hash(signature) || signature.hash_alg() == Some(HashAlgorithm::Sha1) && understood(signature)
}

/// Whether a signature uses a strong hash and only known critical subpackets.
pub(super) fn strong_hash(signature: &Signature) -> bool {
    use HashAlgorithm::{Sha3_256, Sha3_512, Sha224, Sha256, Sha384, Sha512};
    let strong = [Sha224, Sha256, Sha384, Sha512, Sha3_256, Sha3_512];
    signature.hash_alg().is_some_and(|h| strong.contains(&h)) && understood(signature)
}

/// Whether the version of a signature and all its critical subpackets are known.
fn understood(signature: &Signature) -> bool {
    let unknown = |data: &SubpacketData| {
        matches!(
            data,
            SubpacketData::Notation(_) | SubpacketData::Experimental(..) | SubpacketData::Other(..)
        )
    };
    matches!(signature.version(), SignatureVersion::V4 | SignatureVersion::V6)
        && signature
            .config()
            .is_some_and(|c| !c.hashed_subpackets().any(|s| s.is_critical && unknown(&s.data)))
}

/// Whether an algorithm and a length are strong enough to sign.
fn strong_key(key: &impl KeyDetails) -> Result<(), Refusal> {
    use PublicKeyAlgorithm::{ECDSA, Ed448, Ed25519, EdDSALegacy, RSA, RSASign};
    match key.algorithm() {
        RSA | RSASign => {
            // The parameters begin with the length of the modulus in bits.
            let bits = match key.public_params().to_bytes().as_deref() {
                Ok([high, low, ..]) => u16::from_be_bytes([*high, *low]),
                _ => 0,
            };
            if bits < MIN_RSA_BITS { Err(Refusal::Weak(format!("RSA key of {bits} bits"))) } else { Ok(()) }
        }
        ECDSA | EdDSALegacy | Ed25519 | Ed448 => Ok(()),
        other => Err(Refusal::Weak(format!("keys of algorithm {other:?}"))),
    }
}

fn created(signature: &Signature) -> u64 {
    signature.created().map_or(0, |t| t.as_secs().into())
}

/// Whether a signature is from the future or has expired.
pub(super) fn expired(signature: &Signature, now: u64) -> bool {
    let lifetime = signature.signature_expiration_time().map_or(0, |d| d.as_secs().into());
    signature.created().is_none() || over(created(signature), lifetime, now)
}

/// Whether a key is from the future or has expired, by one of its self-signatures.
fn key_expired(key: &impl KeyDetails, signature: &Signature, now: u64) -> bool {
    let lifetime = signature.key_expiration_time().map_or(0, |d| d.as_secs().into());
    over(key.created_at().as_secs().into(), lifetime, now)
}

/// A lifetime of 0 seconds means no expiry.
fn over(from: u64, lifetime: u64, now: u64) -> bool {
    from > now || lifetime > 0 && from + lifetime < now
}
