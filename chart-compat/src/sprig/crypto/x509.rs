//! X.509 version 3: creates certificates as Go's `x509.CreateCertificate` does, and parses what signing needs.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sha2::{Digest, Sha256};

use super::der::{self, Reader};
use super::keys::{EC_OID, ED25519_OID, Key, RSA_OID};
use super::quoted;
use crate::go::object::Time;
use crate::world::World;

/// The content of a certificate.
pub(super) struct Template<'t> {
    pub(super) serial: [u8; 16],
    pub(super) common_name: &'t [u8],
    pub(super) ips: &'t [IpAddr],
    pub(super) dns: &'t [&'t [u8]],
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    pub(super) authority: bool,
}

/// The subject of a certificate, as signing needs it.
pub(super) struct Identity {
    /// The subject's name, encoded.
    pub(super) subject: Vec<u8>,
    /// The subject key identifier; empty if there is none.
    pub(super) key_id: Vec<u8>,
    /// The public key's algorithm and bits.
    pub(super) public: (Vec<u8>, Vec<u8>),
}

/// `net.ParseIP`: an address without a zone. An IPv4-mapped IPv6 address becomes IPv4.
pub(super) fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(v4) = text.parse::<Ipv4Addr>() {
        return Some(v4.into());
    }
    Some(text.parse::<Ipv6Addr>().ok()?.to_canonical())
}

/// `id-ce`, the arc of certificate extensions.
const fn ce(n: u8) -> [u8; 3] {
    [0x55, 0x1d, n]
}
const SUBJECT_KEY_ID: [u8; 3] = ce(14);
const KEY_USAGE: [u8; 3] = ce(15);
const SUBJECT_ALT_NAME: [u8; 3] = ce(17);
const BASIC_CONSTRAINTS: [u8; 3] = ce(19);
const AUTHORITY_KEY_ID: [u8; 3] = ce(35);
const EXT_KEY_USAGE: [u8; 3] = ce(37);
const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const SHA256_WITH_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11];

/// Creates a certificate for `key`, signed by `issuer` or self-signed.
///
/// # Errors
/// Go's error texts, or the world's error on signing.
pub(super) fn create(
    world: &dyn World,
    template: &Template<'_>,
    key: &Key,
    issuer: Option<(&Identity, &Key)>,
) -> Result<Vec<u8>, String> {
    let signer = issuer.map_or(key, |i| i.1);
    let signature_algorithm = signature_algorithm(signer)?;
    let (algorithm, parameters) = public_algorithm(key)?;
    let public = key.public(world)?;
    let subject = name(template.common_name)?;
    let mut authority_key_id: &[u8] = &[];
    if let Some((identity, signing)) = issuer {
        if identity.subject != subject {
            authority_key_id = &identity.key_id;
        }
        let known = public_algorithm(signing)?.0;
        if identity.public != (known.to_vec(), signing.public(world)?) {
            return Err("x509: provided PrivateKey doesn't match parent's PublicKey".to_owned());
        }
    }
    let extensions = extensions(template, &subject, &public, authority_key_id)?;
    let version = der::constructed(der::explicit(0), &[&der::integer(&[2])]);
    let validity = der::sequence(&[&time(template.not_before)?, &time(template.not_after)?]);
    let algorithm = der::sequence(&[&der::element(der::OID, algorithm), &parameters]);
    let spki = der::sequence(&[&algorithm, &der::bit_string(&public)]);
    let tbs = der::sequence(&[
        &version,
        &der::integer(&template.serial),
        &signature_algorithm,
        issuer.map_or(&subject, |i| &i.0.subject),
        &validity,
        &subject,
        &spki,
        &der::constructed(der::explicit(3), &[&der::sequence(&[&extensions])]),
    ]);
    let signature = world.sign(&signer.pkcs8(), &tbs)?;
    Ok(der::sequence(&[&tbs, &signature_algorithm, &der::bit_string(&signature)]))
}

fn signature_algorithm(signer: &Key) -> Result<Vec<u8>, String> {
    let oid = |oid| der::element(der::OID, oid);
    match signer {
        Key::Rsa { .. } => Ok(der::sequence(&[&oid(SHA256_WITH_RSA), &der::element(der::NULL, &[])])),
        Key::Ec { curve, .. } => Ok(der::sequence(&[&oid(curve.signature)])),
        Key::Ed25519 { .. } => Ok(der::sequence(&[&oid(ED25519_OID)])),
        Key::Dsa { .. } => Err("x509: certificate private key does not implement crypto.Signer".to_owned()),
    }
}

/// The OID of a public key's algorithm, and its parameters.
fn public_algorithm(key: &Key) -> Result<(&'static [u8], Vec<u8>), String> {
    match key {
        Key::Rsa { .. } => Ok((RSA_OID, der::element(der::NULL, &[]))),
        Key::Ec { curve, .. } => Ok((EC_OID, der::element(der::OID, curve.oid))),
        Key::Ed25519 { .. } => Ok((ED25519_OID, Vec::new())),
        Key::Dsa { .. } => Err("x509: unsupported public key type: *dsa.PublicKey".to_owned()),
    }
}

/// An encoded name with only a common name, or empty.
fn name(common: &[u8]) -> Result<Vec<u8>, String> {
    if common.is_empty() {
        return Ok(der::sequence(&[]));
    }
    if std::str::from_utf8(common).is_err() {
        return Err("asn1: string not valid UTF-8".to_owned());
    }
    let printable = |b: &u8| b.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(b);
    let tag = if common.iter().all(printable) { der::PRINTABLE_STRING } else { der::UTF8_STRING };
    let attribute = der::sequence(&[&der::element(der::OID, COMMON_NAME), &der::element(tag, common)]);
    Ok(der::sequence(&[&der::constructed(der::SET, &[&attribute])]))
}

/// A time, with a two-digit year if that is unambiguous.
fn time(seconds: i64) -> Result<Vec<u8>, String> {
    let c = Time { seconds, nanos: 0, offset: 0, abbreviation: "UTC", zone: "" }.civil();
    let rest = format!("{:02}{:02}{:02}{:02}{:02}Z", c.month, c.day, c.hour, c.minute, c.second);
    match c.year {
        1950..2050 => Ok(der::element(der::UTC_TIME, format!("{:02}{rest}", c.year % 100).as_bytes())),
        0..10_000 => Ok(der::element(der::GENERALIZED_TIME, format!("{:04}{rest}", c.year).as_bytes())),
        _ => Err("asn1: structure error: cannot represent time as GeneralizedTime".to_owned()),
    }
}

/// The extensions in Go's order, concatenated.
fn extensions(
    template: &Template<'_>,
    subject: &[u8],
    public: &[u8],
    authority_key_id: &[u8],
) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut add = |id: [u8; 3], critical: bool, value: &[u8]| {
        let critical = if critical { der::element(der::BOOLEAN, &[0xff]) } else { Vec::new() };
        let value = der::element(der::OCTET_STRING, value);
        out.extend(der::sequence(&[&der::element(der::OID, &id), &critical, &value]));
    };
    // Bits from the left: digital signature, key encipherment and, for a CA, certificate signing.
    let usage: [u8; 2] = if template.authority { [2, 0xa4] } else { [5, 0xa0] };
    add(KEY_USAGE, true, &der::element(der::BIT_STRING, &usage));
    let purposes = [SERVER_AUTH, CLIENT_AUTH].map(|oid| der::element(der::OID, oid));
    add(EXT_KEY_USAGE, false, &der::sequence(&[&purposes.concat()]));
    let constraints = if template.authority { der::element(der::BOOLEAN, &[0xff]) } else { Vec::new() };
    add(BASIC_CONSTRAINTS, true, &der::sequence(&[&constraints]));
    if template.authority {
        // RFC 7093, method 1, which Go uses since 1.25.
        let digest = Sha256::digest(public);
        add(SUBJECT_KEY_ID, false, &der::element(der::OCTET_STRING, &digest[..20]));
    }
    if !authority_key_id.is_empty() {
        let id = der::element(der::implicit(0), authority_key_id);
        add(AUTHORITY_KEY_ID, false, &der::sequence(&[&id]));
    }
    if !template.dns.is_empty() || !template.ips.is_empty() {
        let mut names = Vec::new();
        for dns in template.dns {
            if !dns.is_ascii() {
                return Err(format!("x509: {} cannot be encoded as an IA5String", quoted(dns)));
            }
            names.extend(der::element(der::implicit(2), dns));
        }
        for ip in template.ips {
            names.extend(match ip {
                IpAddr::V4(ip) => der::element(der::implicit(7), &ip.octets()),
                IpAddr::V6(ip) => der::element(der::implicit(7), &ip.octets()),
            });
        }
        // Without a subject only the names identify the owner, so they are critical.
        let critical = subject == der::sequence(&[]);
        add(SUBJECT_ALT_NAME, critical, &der::sequence(&[&names]));
    }
    Ok(out)
}

/// Parses what signing needs from a certificate (`x509.ParseCertificate`). Does not check the signature.
///
/// # Errors
/// Go's error text.
pub(super) fn parse(bytes: &[u8]) -> Result<Identity, String> {
    let malformed = |what: &str| format!("x509: malformed {what}");
    let mut outer = Reader::new(bytes);
    let (content, _) = outer.element(der::SEQUENCE).ok_or_else(|| malformed("certificate"))?;
    if !outer.is_empty() {
        return Err("x509: trailing data".to_owned());
    }
    let mut outer = Reader::new(content);
    let mut tbs = Reader::new(outer.read(der::SEQUENCE).ok_or_else(|| malformed("tbs certificate"))?);
    let version = match tbs.optional(der::explicit(0)) {
        Ok(None) => 0,
        Ok(Some(inner)) => match Reader::new(inner).integer() {
            Some([v @ 0..0x80]) => *v,
            _ => return Err(malformed("version")),
        },
        Err(()) => return Err(malformed("version")),
    };
    if version > 2 {
        return Err("x509: invalid version".to_owned());
    }
    let serial = tbs.integer().ok_or_else(|| malformed("serial number"))?;
    if serial[0] >= 0x80 {
        return Err("x509: negative serial number".to_owned());
    }
    let inner = tbs.read(der::SEQUENCE).ok_or_else(|| malformed("signature algorithm identifier"))?;
    if outer.read(der::SEQUENCE).ok_or_else(|| malformed("algorithm identifier"))? != inner {
        return Err("x509: inner and outer signature algorithm identifiers don't match".to_owned());
    }
    Reader::new(inner).read(der::OID).ok_or_else(|| malformed("OID"))?;
    tbs.read(der::SEQUENCE).ok_or_else(|| malformed("issuer"))?;
    tbs.read(der::SEQUENCE).ok_or_else(|| malformed("validity"))?;
    let (_, subject) = tbs.element(der::SEQUENCE).ok_or_else(|| malformed("issuer"))?;
    let mut spki = Reader::new(tbs.read(der::SEQUENCE).ok_or_else(|| malformed("spki"))?);
    let algorithm = spki.read(der::SEQUENCE).ok_or_else(|| malformed("public key algorithm identifier"))?;
    let algorithm = Reader::new(algorithm).read(der::OID).ok_or_else(|| malformed("OID"))?;
    let public = spki.bit_string().ok_or_else(|| malformed("subjectPublicKey"))?;
    let mut key_id = Vec::new();
    if version > 0 {
        tbs.optional(der::implicit(1)).map_err(|()| malformed("issuerUniqueID"))?;
        tbs.optional(der::implicit(2)).map_err(|()| malformed("subjectUniqueID"))?;
    }
    if version == 2
        && let Some(all) = tbs.optional(der::explicit(3)).map_err(|()| malformed("extensions"))?
    {
        let all = Reader::new(all).read(der::SEQUENCE).ok_or_else(|| malformed("extensions"))?;
        key_id = subject_key_id(all)?;
    }
    outer.bit_string().ok_or_else(|| malformed("signature"))?;
    Ok(Identity { subject: subject.to_vec(), key_id, public: (algorithm.to_vec(), public.to_vec()) })
}

fn subject_key_id(extensions: &[u8]) -> Result<Vec<u8>, String> {
    let mut extensions = Reader::new(extensions);
    let mut found = Vec::new();
    while !extensions.is_empty() {
        let malformed = || "x509: malformed extension".to_owned();
        let mut extension = Reader::new(extensions.read(der::SEQUENCE).ok_or_else(malformed)?);
        let id = extension.read(der::OID).ok_or_else(|| "x509: malformed extension OID field".to_owned())?;
        extension
            .optional(der::BOOLEAN)
            .map_err(|()| "x509: malformed extension critical field".to_owned())?;
        let value = extension
            .read(der::OCTET_STRING)
            .ok_or_else(|| "x509: malformed extension value field".to_owned())?;
        if id == SUBJECT_KEY_ID {
            let id = Reader::new(value).read(der::OCTET_STRING);
            found = id.ok_or_else(|| "x509: invalid subject key identifier".to_owned())?.to_vec();
        }
    }
    Ok(found)
}
