//! Signatures of texts: read, checked against a keyring, made (RFC 4880, sections 5.2 and 7).

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use super::key::{Entity, Key, Public, subpackets};
use super::packet::{Packet, Reader, packet, packets};
use super::secret::Signer;

/// The type of a signature of a text.
const TEXT: u8 = 1;
const SHA512: u8 = 10;

/// A signature as it was read.
struct Signature<'d> {
    kind: u8,
    hash: u8,
    /// From the version to the end of what is hashed.
    hashed: &'d [u8],
    issuers: Vec<&'d [u8]>,
    created: u64,
    lifetime: u64,
    numbers: &'d [u8],
}

fn number(data: &[u8]) -> u64 {
    data.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

impl<'d> Signature<'d> {
    fn read(body: &'d [u8]) -> Option<Self> {
        let mut r = Reader(body);
        let head = r.take(4)?;
        if head[0] != 4 {
            return None;
        }
        let length = r.number(2)?;
        let own = r.take(length)?;
        let length = r.number(2)?;
        let more = r.take(length)?;
        r.take(2)?;
        let mut out = Self {
            kind: head[1],
            hash: head[3],
            hashed: &body[..6 + own.len()],
            issuers: Vec::new(),
            created: 0,
            lifetime: 0,
            numbers: r.0,
        };
        for (kind, data) in subpackets(own) {
            match (kind, data.len()) {
                (2, 4) => out.created = number(data),
                (3, 4) => out.lifetime = number(data),
                _ => {}
            }
        }
        for (kind, data) in subpackets(own).into_iter().chain(subpackets(more)) {
            match (kind, data.len()) {
                (16, 8) => out.issuers.push(data),
                (33, 21) => out.issuers.push(&data[13..]),
                _ => {}
            }
        }
        Some(out)
    }

    /// All that is hashed after the text.
    fn trailer(&self) -> Vec<u8> {
        trailer(self.hashed)
    }
}

fn trailer(hashed: &[u8]) -> Vec<u8> {
    let mut out = hashed.to_vec();
    out.extend([4, 0xff]);
    out.extend(u32::try_from(hashed.len()).unwrap_or(u32::MAX).to_be_bytes());
    out
}

/// Whether a key has signed data.
fn signed(key: &Key, hash: u8, data: &[u8], numbers: &[u8]) -> Result<bool, String> {
    let unknown = || format!("openpgp: unsupported feature: hash {hash} with algorithm {}", key.algorithm);
    let mut r = Reader(numbers);
    let mut part = |length: usize| -> Option<Vec<u8>> {
        let short = r.mpi()?;
        let mut out = vec![0; length.checked_sub(short.len())?];
        out.extend_from_slice(short);
        Some(out)
    };
    match &key.public {
        Public::Rsa { n, e } => {
            let parameters = match hash {
                8 => &RSA_PKCS1_2048_8192_SHA256,
                9 => &RSA_PKCS1_2048_8192_SHA384,
                SHA512 => &RSA_PKCS1_2048_8192_SHA512,
                _ => return Err(unknown()),
            };
            let Some(signature) = part(n.len()) else { return Ok(false) };
            Ok(RsaPublicKeyComponents { n, e }.verify(parameters, data, &signature).is_ok())
        }
        Public::Ed25519(public) => {
            let digest = match hash {
                8 => Sha256::digest(data).to_vec(),
                9 => Sha384::digest(data).to_vec(),
                SHA512 => Sha512::digest(data).to_vec(),
                _ => return Err(unknown()),
            };
            let Some((r, s)) = part(32).zip(part(32)) else { return Ok(false) };
            Ok(UnparsedPublicKey::new(&ED25519, public).verify(&digest, &[r, s].concat()).is_ok())
        }
        Public::Ecdsa(curve, point) => {
            let (algorithm, length) = match (curve.as_slice(), hash) {
                ([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], 8) => (&ECDSA_P256_SHA256_FIXED, 32),
                ([0x2b, 0x81, 0x04, 0x00, 0x22], 9) => (&ECDSA_P384_SHA384_FIXED, 48),
                ([0x2b, 0x81, 0x04, 0x00, 0x23], SHA512) => (&ECDSA_P521_SHA512_FIXED, 66),
                _ => return Err(unknown()),
            };
            let Some((r, s)) = part(length).zip(part(length)) else { return Ok(false) };
            Ok(UnparsedPublicKey::new(algorithm, point).verify(data, &[r, s].concat()).is_ok())
        }
        Public::Other => Err(unknown()),
    }
}

/// Who of a keyring has signed a text (`openpgp.CheckDetachedSignature`). `text`: in its canonical form; `now`: seconds since
/// 1970.
pub(super) fn check<'k>(
    keyring: &'k [Entity],
    text: &[u8],
    signatures: &[u8],
    now: u64,
) -> Result<&'k Entity, String> {
    let mut reason = "openpgp: signature made by unknown entity".to_owned();
    for Packet { body, .. } in packets(signatures)?.iter().filter(|p| p.tag == 2) {
        let Some(signature) = Signature::read(body) else { continue };
        if !matches!(signature.kind, 0 | TEXT) {
            continue;
        }
        for entity in keyring {
            for key in std::iter::once(&entity.primary).chain(&entity.subkeys) {
                if !signature.issuers.iter().any(|i| **i == key.id()) {
                    continue;
                }
                let data = [text, &signature.trailer()].concat();
                match signed(key, signature.hash, &data, signature.numbers) {
                    Ok(true) => {}
                    Ok(false) => {
                        reason =
                            "openpgp: invalid signature: the text or the signature was changed".to_owned();
                        continue;
                    }
                    Err(e) => {
                        reason = e;
                        continue;
                    }
                }
                let ends = |from: u64, lifetime: u64| lifetime > 0 && from + lifetime < now;
                if ends(signature.created, signature.lifetime) {
                    reason = "openpgp: signature expired".to_owned();
                } else if [&entity.primary, key].iter().any(|k| k.revoked) {
                    reason = "openpgp: signature made by a revoked key".to_owned();
                } else if [&entity.primary, key]
                    .iter()
                    .any(|k| ends(k.created, k.lifetime.unwrap_or_default()))
                {
                    reason = "openpgp: key expired".to_owned();
                } else {
                    return Ok(entity);
                }
            }
        }
    }
    Err(reason)
}

/// A signature packet for a text in its canonical form.
pub(super) fn sign(key: &Key, signer: &Signer, text: &[u8], now: u64) -> Result<Vec<u8>, String> {
    let mut own = vec![5, 2];
    own.extend(u32::try_from(now).unwrap_or(u32::MAX).to_be_bytes());
    own.extend([22, 33, 4]);
    own.extend(key.fingerprint);
    own.extend([9, 16]);
    own.extend(key.id());
    let mut body = vec![4, TEXT, key.algorithm, SHA512];
    body.extend(u16::try_from(own.len()).unwrap_or(u16::MAX).to_be_bytes());
    body.extend(own);
    let data = [text, &trailer(&body)].concat();
    let digest = Sha512::digest(&data);
    let numbers = signer.sign(&data)?;
    body.extend([0, 0, digest[0], digest[1]]);
    body.extend(numbers);
    Ok(packet(2, &body))
}
