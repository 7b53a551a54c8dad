//! Private keys in the forms that Go writes and reads. Making keys and signing is the world's business.

use super::der::{self, BIT_STRING, INTEGER, OCTET_STRING, OID, Reader, SEQUENCE};
use super::dsa;
use crate::world::{KeyKind, World};

/// `1.2.840.113549.1.1.1`
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// `1.2.840.10045.2.1`
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// `1.3.101.112`
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// `1.2.840.113549.1.1.11`
const SHA256_WITH_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
/// `1.2.840.10045.4.3.2`
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

const NULL: &[u8] = &[0x05, 0x00];

/// A private key.
pub(super) enum Key {
    /// The `RSAPrivateKey` of PKCS#1.
    Rsa(Vec<u8>),
    /// Curve (an object identifier), secret number, public point.
    Ec { curve: Vec<u8>, secret: Vec<u8>, public: Vec<u8> },
    /// Seed and public key.
    Ed25519 { seed: Vec<u8>, public: Vec<u8> },
    /// The whole structure: such a key cannot sign certificates.
    Dsa(Vec<u8>),
}

/// Makes a key of a kind that the world knows.
pub(super) fn make(world: &dyn World, kind: KeyKind) -> Result<Key, String> {
    let der = world.make_key(kind)?;
    from_pkcs8(world, &der).ok_or_else(|| "the key that was made is not in PKCS#8 form".to_owned())?
}

/// sprig's `genPrivateKey`: a key as PEM, or a text that says why there is none.
pub(super) fn generate(world: &dyn World, kind: &[u8]) -> String {
    let made = match kind {
        b"" | b"rsa" => make(world, KeyKind::Rsa(4096)),
        b"ecdsa" => make(world, KeyKind::EcdsaP256),
        b"ed25519" => make(world, KeyKind::Ed25519),
        b"dsa" => Ok(Key::Dsa(dsa::generate(world))),
        other => return format!("Unknown type {}", String::from_utf8_lossy(other)),
    };
    match made {
        Ok(key) => key.to_pem(),
        Err(e) => format!("failed to generate private key: {e}"),
    }
}

fn algorithm(name: &[u8], parameters: &[u8]) -> Vec<u8> {
    der::sequence(&[&der::element(OID, name), parameters])
}

/// Reads PKCS#8; none if it is not that.
fn from_pkcs8(world: &dyn World, pkcs8: &[u8]) -> Option<Result<Key, String>> {
    let mut outer = Reader::new(pkcs8).enter()?;
    outer.expect(INTEGER)?;
    let mut algorithm = outer.enter()?;
    let name = algorithm.expect(OID)?.content;
    let inner = outer.expect(OCTET_STRING)?.content;
    // The second version of the form carries the public key, too.
    let mut public = None;
    while let Some(extra) = outer.next() {
        if extra.tag == 0x81 {
            public = extra.content.get(1..).map(<[u8]>::to_vec);
        }
    }
    let public_key = |have: Option<Vec<u8>>| match have {
        Some(p) => Ok(p),
        None => world.public_key(pkcs8),
    };
    Some(match name {
        RSA => {
            let mut check = Reader::new(inner).enter()?;
            check.expect(INTEGER)?;
            Ok(Key::Rsa(inner.to_vec()))
        }
        EC => {
            let curve = algorithm.expect(OID)?.content.to_vec();
            let (secret, point, _) = sec1(inner)?;
            public_key(point.or(public)).map(|public| Key::Ec { curve, secret, public })
        }
        ED25519 => {
            let seed = Reader::new(inner).expect(OCTET_STRING)?.content.to_vec();
            public_key(public).map(|public| Key::Ed25519 { seed, public })
        }
        _ => Err("x509: PKCS#8 wrapping contained private key with unknown algorithm".to_owned()),
    })
}

/// Secret, public point and curve of SEC 1's `ECPrivateKey`.
#[allow(clippy::type_complexity)]
fn sec1(der: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>)> {
    let mut r = Reader::new(der).enter()?;
    r.expect(INTEGER)?;
    let secret = r.expect(OCTET_STRING)?.content.to_vec();
    let (mut public, mut curve) = (None, None);
    while let Some(e) = r.next() {
        match e.tag {
            0xa0 => curve = Some(Reader::new(e.content).expect(OID)?.content.to_vec()),
            0xa1 => public = Reader::new(e.content).expect(BIT_STRING)?.content.get(1..).map(<[u8]>::to_vec),
            _ => {}
        }
    }
    Some((secret, public, curve))
}

/// Reads a key from PEM (sprig's `parsePrivateKeyPEM`).
pub(super) fn parse(world: &dyn World, pem: &str) -> Result<Key, String> {
    let Some((label, body)) = der::from_pem(pem) else { return Err("no PEM data in input".to_owned()) };
    let malformed = |form: &str, what: &str| format!("{form}: {what}");
    if label == "PRIVATE KEY" {
        let form = "decoding PEM as PKCS#8";
        return match from_pkcs8(world, &body) {
            Some(key) => key.map_err(|e| malformed(form, &e)),
            None => Err(malformed(form, "asn1: structure error: the key is malformed")),
        };
    }
    let Some(kind) = label.strip_suffix(" PRIVATE KEY") else {
        return Err(format!("no private key data in PEM block of type {label}"));
    };
    let broken = || {
        malformed(
            &format!("parsing {kind} private key from PEM"),
            "asn1: structure error: the key is malformed",
        )
    };
    match kind {
        "RSA" => {
            let ok = Reader::new(&body).enter().and_then(|mut r| r.expect(INTEGER)).is_some();
            if ok { Ok(Key::Rsa(body)) } else { Err(broken()) }
        }
        "EC" => {
            let (secret, public, curve) = sec1(&body).ok_or_else(broken)?;
            let curve = curve.ok_or_else(|| {
                malformed("parsing EC private key from PEM", "x509: unknown elliptic curve")
            })?;
            let public = match public {
                Some(p) => p,
                None => world.public_key(&ec_pkcs8(&curve, &secret, None))?,
            };
            Ok(Key::Ec { curve, secret, public })
        }
        "DSA" => {
            let ok = Reader::new(&body).enter().and_then(|mut r| r.expect(INTEGER)).is_some();
            if ok { Ok(Key::Dsa(body)) } else { Err(broken()) }
        }
        other => Err(format!("invalid private key type {other}")),
    }
}

fn ec_private(curve: Option<&[u8]>, secret: &[u8], public: Option<&[u8]>) -> Vec<u8> {
    let curve = curve.map(|c| der::element(0xa0, &der::element(OID, c))).unwrap_or_default();
    let public = public.map(|p| der::element(0xa1, &der::bits(p))).unwrap_or_default();
    der::sequence(&[&der::integer(&[1]), &der::element(OCTET_STRING, secret), &curve, &public])
}

fn pkcs8(algorithm: &[u8], inner: &[u8]) -> Vec<u8> {
    der::sequence(&[&der::integer(&[0]), algorithm, &der::element(OCTET_STRING, inner)])
}

fn ec_pkcs8(curve: &[u8], secret: &[u8], public: Option<&[u8]>) -> Vec<u8> {
    pkcs8(&algorithm(EC, &der::element(OID, curve)), &ec_private(None, secret, public))
}

impl Key {
    /// The key as sprig prints it: RSA and ECDSA in their own forms, Ed25519 as PKCS#8.
    pub(super) fn to_pem(&self) -> String {
        match self {
            Self::Rsa(der) => der::to_pem("RSA PRIVATE KEY", der),
            Self::Dsa(der) => der::to_pem("DSA PRIVATE KEY", der),
            Self::Ec { curve, secret, public } => {
                der::to_pem("EC PRIVATE KEY", &ec_private(Some(curve), secret, Some(public)))
            }
            Self::Ed25519 { .. } => der::to_pem("PRIVATE KEY", &self.to_pkcs8()),
        }
    }

    /// The key as PKCS#8.
    fn to_pkcs8(&self) -> Vec<u8> {
        match self {
            Self::Rsa(der) => pkcs8(&algorithm(RSA, NULL), der),
            Self::Ec { curve, secret, public } => ec_pkcs8(curve, secret, Some(public)),
            Self::Ed25519 { seed, .. } => pkcs8(&algorithm(ED25519, &[]), &der::element(OCTET_STRING, seed)),
            Self::Dsa(der) => der.clone(),
        }
    }

    /// The bits of the public key, as they stand in a certificate.
    pub(super) fn public_bits(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Rsa(private) => {
                let numbers = (|| {
                    let mut r = Reader::new(private).enter()?;
                    r.expect(INTEGER)?;
                    Some([r.expect(INTEGER)?.whole, r.expect(INTEGER)?.whole].concat())
                })();
                numbers
                    .map(|n| der::element(SEQUENCE, &n))
                    .ok_or_else(|| "the RSA key is malformed".to_owned())
            }
            Self::Ec { public, .. } | Self::Ed25519 { public, .. } => Ok(public.clone()),
            Self::Dsa(_) => Err("x509: unsupported public key type: *dsa.PublicKey".to_owned()),
        }
    }

    /// The public key with its algorithm (`SubjectPublicKeyInfo`).
    pub(super) fn public_info(&self) -> Result<Vec<u8>, String> {
        let algorithm = match self {
            Self::Rsa(_) => algorithm(RSA, NULL),
            Self::Ec { curve, .. } => algorithm(EC, &der::element(OID, curve)),
            Self::Ed25519 { .. } | Self::Dsa(_) => algorithm(ED25519, &[]),
        };
        Ok(der::sequence(&[&algorithm, &der::bits(&self.public_bits()?)]))
    }

    /// The algorithm with which this key signs.
    pub(super) fn signature_algorithm(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Rsa(_) => Ok(algorithm(SHA256_WITH_RSA, NULL)),
            Self::Ec { .. } => Ok(algorithm(ECDSA_WITH_SHA256, &[])),
            Self::Ed25519 { .. } => Ok(algorithm(ED25519, &[])),
            Self::Dsa(_) => Err("x509: certificate private key does not implement crypto.Signer".to_owned()),
        }
    }

    /// Signs with the world's help.
    pub(super) fn sign(&self, world: &dyn World, message: &[u8]) -> Result<Vec<u8>, String> {
        world.sign(&self.to_pkcs8(), message)
    }
}
