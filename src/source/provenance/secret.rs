//! Secret keys: taken out of their packets, with a passphrase if they are protected, and used to sign.

use aes::cipher::Array;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, RSA_PKCS1_SHA512, RsaKeyPair};
use num_bigint::BigUint;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

use super::key::{Key, Public};
use super::packet::{Reader, mpi};

/// Signs; the parts of the signature come as a packet holds them.
pub(super) enum Signer {
    Rsa(Box<RsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
}

/// Whether a secret key is protected by a passphrase.
pub(super) fn is_protected(secret: &[u8]) -> bool {
    secret.first().is_some_and(|usage| *usage != 0)
}

impl Signer {
    /// The signer of a key.
    pub(super) fn new(key: &Key, passphrase: &[u8]) -> Result<Self, String> {
        let secret = key.secret.as_deref().unwrap_or_default();
        let plain = unprotected(secret, passphrase)?;
        let wrong = || "openpgp: the secret key is damaged".to_owned();
        let mut r = Reader(&plain);
        match &key.public {
            Public::Rsa { n, e } => {
                let (d, p, q) = (|| Some((r.mpi()?, r.mpi()?, r.mpi()?)))().ok_or_else(wrong)?;
                let der = pkcs1(n, e, d, p, q).ok_or_else(wrong)?;
                let pair = RsaKeyPair::from_der(&der).map_err(|e| format!("openpgp: {e}"))?;
                Ok(Self::Rsa(Box::new(pair)))
            }
            Public::Ed25519(public) => {
                let short = r.mpi().ok_or_else(wrong)?;
                let mut seed = vec![0; 32usize.saturating_sub(short.len())];
                seed.extend_from_slice(short);
                let pair = Ed25519KeyPair::from_seed_and_public_key(&seed, public);
                Ok(Self::Ed25519(Box::new(pair.map_err(|e| format!("openpgp: {e}"))?)))
            }
            _ => Err(format!("openpgp: keys of algorithm {} cannot sign here", key.algorithm)),
        }
    }

    /// Signs data by way of its SHA-512.
    pub(super) fn sign(&self, data: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA512, &SystemRandom::new(), data, &mut signature)
                    .map_err(|_| "openpgp: the key cannot sign".to_owned())?;
                Ok(mpi(&signature))
            }
            Self::Ed25519(pair) => {
                let signature = pair.sign(&Sha512::digest(data));
                let (r, s) = signature.as_ref().split_at(32);
                Ok([mpi(r), mpi(s)].concat())
            }
        }
    }
}

/// The numbers of a secret key (RFC 4880, sections 3.7 and 5.5.3).
fn unprotected(secret: &[u8], passphrase: &[u8]) -> Result<Vec<u8>, String> {
    let cut = || "openpgp: the secret key is cut off".to_owned();
    let mut r = Reader(secret);
    let usage = r.byte().ok_or_else(cut)?;
    if usage == 0 {
        return Ok(r.0.to_vec());
    }
    if !matches!(usage, 254 | 255) {
        return Err(format!("openpgp: unsupported feature: secret keys protected in way {usage}"));
    }
    let key_length = match r.byte().ok_or_else(cut)? {
        7 => 16,
        8 => 24,
        9 => 32,
        other => return Err(format!("openpgp: unsupported feature: cipher {other}")),
    };
    let (mode, hash) = (r.byte().ok_or_else(cut)?, r.byte().ok_or_else(cut)?);
    let (salt, count) = match mode {
        0 => (&[][..], 0),
        1 => (r.take(8).ok_or_else(cut)?, 0),
        3 => {
            let salt = r.take(8).ok_or_else(cut)?;
            let coded = r.byte().ok_or_else(cut)?;
            (salt, (16 + usize::from(coded & 15)) << ((coded >> 4) + 6))
        }
        101 => return Err("the secret key is not in this keyring, only a note that it exists".to_owned()),
        other => return Err(format!("openpgp: unsupported feature: passphrases of way {other}")),
    };
    let key = match hash {
        2 => derived::<Sha1>(passphrase, salt, count, key_length),
        8 => derived::<Sha256>(passphrase, salt, count, key_length),
        10 => derived::<Sha512>(passphrase, salt, count, key_length),
        other => return Err(format!("openpgp: unsupported feature: hash {other}")),
    };
    let iv = r.take(16).ok_or_else(cut)?;
    let plain = cfb(&key, iv, r.0).ok_or_else(cut)?;
    let wrong = || "openpgp: invalid data: private key checksum failure: is the passphrase right?".to_owned();
    let sum_length = if usage == 254 { 20 } else { 2 };
    let (numbers, sum) = plain.split_at_checked(plain.len().saturating_sub(sum_length)).ok_or_else(wrong)?;
    let right = if usage == 254 {
        Sha1::digest(numbers)[..] == *sum
    } else {
        let all = numbers.iter().fold(0u16, |n, b| n.wrapping_add(u16::from(*b)));
        all.to_be_bytes() == *sum
    };
    if right { Ok(numbers.to_vec()) } else { Err(wrong()) }
}

/// A key from a passphrase: salted, and hashed over and over to `count` bytes.
fn derived<D: sha2::Digest>(passphrase: &[u8], salt: &[u8], count: usize, length: usize) -> Vec<u8> {
    let block = [salt, passphrase].concat();
    let total = count.max(block.len());
    let mut out = Vec::new();
    for zeros in 0.. {
        let mut digest = D::new();
        digest.update(vec![0; zeros]);
        let mut left = total;
        while left > 0 {
            let n = left.min(block.len());
            digest.update(&block[..n]);
            left -= n;
        }
        out.extend_from_slice(&digest.finalize());
        if out.len() >= length || block.is_empty() {
            break;
        }
    }
    out.truncate(length);
    out
}

/// AES in cipher feedback mode, backwards.
fn cfb(key: &[u8], iv: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    fn run<C: aes::cipher::BlockCipherEncrypt + aes::cipher::KeyInit>(
        key: &[u8],
        iv: &[u8],
        data: &[u8],
    ) -> Option<Vec<u8>> {
        let cipher = C::new_from_slice(key).ok()?;
        let mut feedback = Array::<u8, C::BlockSize>::try_from(iv).ok()?;
        let mut out = Vec::with_capacity(data.len());
        for chunk in data.chunks(16) {
            cipher.encrypt_block(&mut feedback);
            out.extend(chunk.iter().zip(feedback.iter()).map(|(c, k)| c ^ k));
            for (place, c) in feedback.iter_mut().zip(chunk) {
                *place = *c;
            }
        }
        Some(out)
    }
    match key.len() {
        16 => run::<aes::Aes128>(key, iv, data),
        24 => run::<aes::Aes192>(key, iv, data),
        32 => run::<aes::Aes256>(key, iv, data),
        _ => None,
    }
}

/// An RSA key in the form that the TLS library reads (PKCS #1).
fn pkcs1(n: &[u8], e: &[u8], d: &[u8], p: &[u8], q: &[u8]) -> Option<Vec<u8>> {
    let number = BigUint::from_bytes_be;
    let (big_d, big_p, big_q) = (number(d), number(p), number(q));
    let one = BigUint::from(1u8);
    if big_p <= one || big_q <= one {
        return None;
    }
    let dp = (&big_d % (&big_p - &one)).to_bytes_be();
    let dq = (&big_d % (&big_q - &one)).to_bytes_be();
    // By Fermat: p is a prime.
    let inverse = big_q.modpow(&(&big_p - 2u8), &big_p).to_bytes_be();
    let body: Vec<u8> =
        [&[0][..], n, e, d, p, q, &dp, &dq, &inverse].into_iter().flat_map(der_number).collect();
    Some(der(0x30, &body))
}

fn der_number(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|b| **b == 0).count().min(bytes.len().saturating_sub(1));
    let bytes = &bytes[zeros..];
    let sign = bytes.first().is_some_and(|b| *b >= 0x80);
    let body = [if sign { &[0][..] } else { &[] }, bytes].concat();
    der(2, &body)
}

fn der(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(body.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let length: Vec<u8> = body.len().to_be_bytes().into_iter().skip_while(|b| *b == 0).collect();
            out.push(0x80 | u8::try_from(length.len()).unwrap_or(0));
            out.extend(length);
        }
    }
    out.extend_from_slice(body);
    out
}
