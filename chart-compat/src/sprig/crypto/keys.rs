//! Private keys: parsed as by sprig's `parsePrivateKeyPEM`, printed as by its `pemBlockForKey`.
//!
//! Knows the formats of keys (PKCS#1, PKCS#8, SEC 1). The [`World`] does the arithmetic.

use super::der::{self, Reader};
use super::{dsa, pem};
use crate::world::{KeyKind, World};

pub(super) const RSA_OID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
pub(super) const EC_OID: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
pub(super) const ED25519_OID: &[u8] = &[0x2b, 0x65, 0x70];

/// A named elliptic curve.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Curve {
    pub(super) oid: &'static [u8],
    /// Length of a private key in bytes.
    size: usize,
    /// Its signature algorithm: ECDSA with a hash of the curve's strength.
    pub(super) signature: &'static [u8],
}

const CURVES: &[Curve] = &[
    Curve {
        oid: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7],
        size: 32,
        signature: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2],
    },
    Curve { oid: &[0x2b, 0x81, 4, 0, 0x22], size: 48, signature: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3] },
    Curve { oid: &[0x2b, 0x81, 4, 0, 0x23], size: 66, signature: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4] },
];

/// A private key, as the parts that its formats share.
#[derive(Debug)]
pub(super) enum Key {
    /// PKCS#1 private key, and the PKCS#1 public key.
    Rsa { private: Vec<u8>, public: Vec<u8> },
    /// The private number, zero-padded to the curve's size.
    Ec { curve: &'static Curve, private: Vec<u8> },
    /// The 32 bytes that the key is derived from.
    Ed25519 { seed: Vec<u8> },
    /// OpenSSL's format. Cannot sign.
    Dsa { private: Vec<u8> },
}

impl Key {
    /// The key in PKCS#8, the format of the [`World`].
    pub(super) fn pkcs8(&self) -> Vec<u8> {
        let wrapped = |algorithm: &[&[u8]], private: &[u8]| {
            let version = der::integer(&[]);
            der::sequence(&[&version, &der::sequence(algorithm), &der::element(der::OCTET_STRING, private)])
        };
        match self {
            Self::Rsa { private, .. } => {
                wrapped(&[&der::element(der::OID, RSA_OID), &der::element(der::NULL, &[])], private)
            }
            Self::Ec { curve, private } => {
                let number = der::element(der::OCTET_STRING, private);
                let key = der::sequence(&[&der::integer(&[1]), &number]);
                wrapped(&[&der::element(der::OID, EC_OID), &der::element(der::OID, curve.oid)], &key)
            }
            Self::Ed25519 { seed } => {
                wrapped(&[&der::element(der::OID, ED25519_OID)], &der::element(der::OCTET_STRING, seed))
            }
            Self::Dsa { private } => private.clone(),
        }
    }

    /// The public key as the bits in a certificate.
    pub(super) fn public(&self, world: &dyn World) -> Result<Vec<u8>, String> {
        match self {
            Self::Rsa { public, .. } => Ok(public.clone()),
            Self::Ec { .. } | Self::Ed25519 { .. } => world.public_key(&self.pkcs8()),
            Self::Dsa { .. } => Err("x509: unsupported public key type: *dsa.PublicKey".to_owned()),
        }
    }

    /// The key's PEM block (`pemBlockForKey`).
    pub(super) fn pem(&self, world: &dyn World) -> Result<Vec<u8>, String> {
        Ok(match self {
            Self::Rsa { private, .. } => pem::encode("RSA PRIVATE KEY", private),
            Self::Dsa { private } => pem::encode("DSA PRIVATE KEY", private),
            Self::Ed25519 { .. } => pem::encode("PRIVATE KEY", &self.pkcs8()),
            Self::Ec { curve, private } => {
                let curve = der::constructed(der::explicit(0), &[&der::element(der::OID, curve.oid)]);
                let public = der::constructed(der::explicit(1), &[&der::bit_string(&self.public(world)?)]);
                let number = der::element(der::OCTET_STRING, private);
                pem::encode(
                    "EC PRIVATE KEY",
                    &der::sequence(&[&der::integer(&[1]), &number, &curve, &public]),
                )
            }
        })
    }

    /// Generates a key.
    pub(super) fn make(world: &dyn World, kind: KeyKind) -> Result<Self, String> {
        from_pkcs8(&world.make_key(kind)?)
    }

    /// Parses a key from PEM (`parsePrivateKeyPEM`).
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let Some(block) = pem::decode(text) else {
            return Err("no PEM data in input".to_owned());
        };
        if block.kind == "PRIVATE KEY" {
            return from_pkcs8(&block.bytes).map_err(|e| format!("decoding PEM as PKCS#8: {e}"));
        }
        let Some(kind) = block.kind.strip_suffix(" PRIVATE KEY") else {
            return Err(format!("no private key data in PEM block of type {}", block.kind));
        };
        match kind {
            "RSA" => from_pkcs1(&block.bytes).map_err(|e| format!("parsing RSA private key from PEM: {e}")),
            "EC" => {
                from_sec1(None, &block.bytes).map_err(|e| format!("parsing EC private key from PEM: {e}"))
            }
            "DSA" => {
                from_dsa(&block.bytes).ok_or_else(|| format!("parsing DSA private key from PEM: {MALFORMED}"))
            }
            _ => Err(format!("invalid private key type {}", block.kind)),
        }
    }
}

/// sprig's `genPrivateKey`, which returns the text of an error as its result.
pub(super) fn generate(world: &dyn World, kind: &[u8]) -> String {
    let key = match kind {
        b"" | b"rsa" => Key::make(world, KeyKind::Rsa(4096)),
        b"dsa" => Ok(Key::Dsa { private: dsa::generate(world) }),
        b"ecdsa" => Key::make(world, KeyKind::EcdsaP256),
        b"ed25519" => Key::make(world, KeyKind::Ed25519),
        other => return format!("Unknown type {}", String::from_utf8_lossy(other)),
    };
    match key.and_then(|k| k.pem(world)) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(e) => format!("failed to generate private key: {e}"),
    }
}

const MALFORMED: &str = "asn1: structure error: not a private key of that form";

/// Go's error for a key that is not in the format of its PEM type. It names the right function for other known formats.
fn instead(bytes: &[u8]) -> String {
    let named = |form: &str| {
        format!("x509: failed to parse private key (use Parse{form}PrivateKey instead for this key format)")
    };
    if sec1(bytes).is_some() {
        named("EC")
    } else if pkcs1(bytes).is_some() {
        named("PKCS1")
    } else if pkcs8(bytes).is_some() {
        named("PKCS8")
    } else {
        MALFORMED.to_owned()
    }
}

/// PKCS#8: the algorithm, its parameters and the private part.
fn pkcs8(bytes: &[u8]) -> Option<(&[u8], Reader<'_>, &[u8])> {
    let mut outer = Reader::whole(der::SEQUENCE, bytes)?;
    outer.integer()?;
    let mut algorithm = Reader::new(outer.read(der::SEQUENCE)?);
    let oid = algorithm.read(der::OID)?;
    let private = outer.read(der::OCTET_STRING)?;
    Some((oid, algorithm, private))
}

fn from_pkcs8(bytes: &[u8]) -> Result<Key, String> {
    let (oid, mut parameters, private) = pkcs8(bytes).ok_or_else(|| instead(bytes))?;
    match oid {
        RSA_OID => from_pkcs1(private)
            .map_err(|e| format!("x509: failed to parse RSA private key embedded in PKCS#8: {e}")),
        EC_OID => from_sec1(parameters.read(der::OID), private)
            .map_err(|e| format!("x509: failed to parse EC private key embedded in PKCS#8: {e}")),
        ED25519_OID => {
            if !parameters.is_empty() {
                return Err("x509: invalid Ed25519 private key parameters".to_owned());
            }
            let mut inner = Reader::new(private);
            match inner.read(der::OCTET_STRING) {
                Some(seed) if seed.len() == 32 => Ok(Key::Ed25519 { seed: seed.to_vec() }),
                Some(seed) => Err(format!("x509: invalid Ed25519 private key length: {}", seed.len())),
                None => Err(format!("x509: invalid Ed25519 private key: {MALFORMED}")),
            }
        }
        _ => Err("x509: PKCS#8 wrapping contained private key with unknown algorithm".to_owned()),
    }
}

/// PKCS#1: modulus and exponent.
fn pkcs1(bytes: &[u8]) -> Option<[&[u8]; 2]> {
    let mut outer = Reader::whole(der::SEQUENCE, bytes)?;
    outer.integer()?;
    let public = [outer.integer()?, outer.integer()?];
    // The private exponent, two primes and their derived values.
    for _ in 0..6 {
        outer.integer()?;
    }
    Some(public)
}

fn from_pkcs1(bytes: &[u8]) -> Result<Key, String> {
    let [modulus, exponent] = pkcs1(bytes).ok_or_else(|| instead(bytes))?;
    if [modulus, exponent].iter().any(|n| n[0] >= 0x80 || n == b"\0") {
        return Err("x509: private key contains zero or negative value".to_owned());
    }
    let public = der::sequence(&[&der::integer(modulus), &der::integer(exponent)]);
    Ok(Key::Rsa { private: bytes.to_vec(), public })
}

/// SEC 1: version, private number, and the curve's OID if present.
struct Sec1<'a> {
    version: &'a [u8],
    private: &'a [u8],
    curve: Option<&'a [u8]>,
}

fn sec1(bytes: &[u8]) -> Option<Sec1<'_>> {
    let mut outer = Reader::whole(der::SEQUENCE, bytes)?;
    let version = outer.integer()?;
    let private = outer.read(der::OCTET_STRING)?;
    let curve = match outer.optional(der::explicit(0)).ok()? {
        Some(inner) => Some(Reader::new(inner).read(der::OID)?),
        None => None,
    };
    Some(Sec1 { version, private, curve })
}

fn from_sec1(curve: Option<&[u8]>, bytes: &[u8]) -> Result<Key, String> {
    let Sec1 { version, mut private, curve: own } = sec1(bytes).ok_or_else(|| instead(bytes))?;
    if version != [1] {
        return Err(format!("x509: unknown EC private key version {}", version.last().copied().unwrap_or(0)));
    }
    let curve = curve.or(own).and_then(|oid| CURVES.iter().find(|c| c.oid == oid));
    let Some(curve) = curve else {
        return Err("x509: unknown elliptic curve".to_owned());
    };
    while private.len() > curve.size {
        match private {
            [0, rest @ ..] => private = rest,
            _ => return Err("x509: invalid private key length".to_owned()),
        }
    }
    let mut number = vec![0; curve.size - private.len()];
    number.extend_from_slice(private);
    Ok(Key::Ec { curve, private: number })
}

fn from_dsa(bytes: &[u8]) -> Option<Key> {
    let mut outer = Reader::whole(der::SEQUENCE, bytes)?;
    for _ in 0..6 {
        outer.integer()?;
    }
    Some(Key::Dsa { private: bytes.to_vec() })
}
