//! Private keys and certificates as sprig makes them with Go's `crypto/x509`.

use std::net::IpAddr;

use sha2::{Digest, Sha256};

use super::args::{Out, bytes, fail, int, text};
use super::base::decode64;
use super::chance::site;
use super::der::{self, BIT_STRING, OCTET_STRING, OID, Reader, SEQUENCE, SET};
use super::hashes::masked;
use super::keys::{self, Key};
use crate::go::object::Struct;
use crate::go::time::Civil;
use crate::go::{Arena, Object, Value, fmt};
use crate::template::{Error, Exec, Func, Type};
use crate::world::{KeyKind, Timestamp, World};

use Type::{Int, List, String as Str};

/// The type of what the functions return.
const CERTIFICATE: &str = "sprig.certificate";
const PAIR: Type = Type::Struct(CERTIFICATE);

pub(super) const FUNCS: &[Func] = &[
    Func::new("genPrivateKey", &[Str], |x, a| {
        let kind = bytes(a[0]);
        let pem = super::chance::remembered(x, "genPrivateKey", a, |world| {
            keys::generate(world, kind).into_bytes()
        });
        Ok(Value::str(x.arena, pem))
    }),
    Func::new("buildCustomCert", &[Str, Str], build_custom),
    Func::new("genCA", &[Str, Int], |x, a| made(x, "genCA", a, |r| r.authority(a, None))),
    Func::new("genCAWithKey", &[Str, Int, Str], |x, a| {
        made(x, "genCAWithKey", a, |r| r.authority(a, Some(a[2])))
    }),
    Func::new("genSelfSignedCert", &[Str, List, List, Int], |x, a| {
        made(x, "genSelfSignedCert", a, |r| r.self_signed(a, None))
    }),
    Func::new("genSelfSignedCertWithKey", &[Str, List, List, Int, Str], |x, a| {
        made(x, "genSelfSignedCertWithKey", a, |r| r.self_signed(a, Some(a[4])))
    }),
    Func::new("genSignedCert", &[Str, List, List, Int, PAIR], |x, a| {
        made(x, "genSignedCert", a, |r| r.signed(a, None))
    }),
    Func::new("genSignedCertWithKey", &[Str, List, List, Int, PAIR, Str], |x, a| {
        made(x, "genSignedCertWithKey", a, |r| r.signed(a, Some(a[5])))
    }),
];

fn pair<'a>(arena: &'a Arena, cert: &str, key: &str) -> Value<'a> {
    let fields = [("Cert", Value::str(arena, cert)), ("Key", Value::str(arena, key))];
    Value::object(
        arena,
        Object::Struct(Struct {
            type_name: CERTIFICATE,
            fields: arena.alloc_slice_copy(&fields),
            text: None,
        }),
    )
}

/// Certificate and key of a value that a template hands back.
fn parts(v: Value<'_>) -> (String, String) {
    let field = |name: &[u8]| match v {
        Value::Object(o) => text(o.field(name).unwrap_or_default()).into_owned(),
        _ => String::new(),
    };
    (field(b"Cert"), field(b"Key"))
}

type Made = Result<(String, String), String>;

/// Makes a certificate, or takes the one that the world remembers for this call.
fn made<'a>(x: &mut Exec<'a>, name: &str, a: &[Value<'a>], make: impl Fn(&Request<'_>) -> Made) -> Out<'a> {
    let world = x.world;
    // Keys among the arguments are secrets: the call is known by their digest.
    let shown: Vec<Value<'a>> = a
        .iter()
        .map(|v| match v {
            Value::Object(_) => Value::str(x.arena, masked(&fmt::sprint(*v))),
            Value::Str(s) if s.starts_with(b"-----BEGIN") => Value::str(x.arena, masked(s)),
            other => *other,
        })
        .collect();
    let mut failure = None;
    let text = world.remember(&site(name, &shown), &mut || match make(&Request { world }) {
        Ok((cert, key)) => format!("{cert}\0{key}").into_bytes(),
        Err(e) => {
            failure = Some(e);
            Vec::new()
        }
    });
    if let Some(e) = failure {
        return fail(e);
    }
    let text = String::from_utf8_lossy(&text);
    match text.split_once('\0') {
        Some((cert, key)) => Ok(pair(x.arena, cert, key)),
        None => fail(format!("{name}: the remembered answer is no certificate")),
    }
}

fn build_custom<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let decode = |v: Value<'a>, what: &str| {
        decode64(bytes(v)).map_err(|_| Error::new(format!("unable to decode base64 {what}")))
    };
    let cert = decode(a[0], "certificate")?;
    let key = decode(a[1], "private key")?;
    let (cert, key) = (String::from_utf8_lossy(&cert), String::from_utf8_lossy(&key));
    Issuer::parse(&cert).map_err(Error::new)?;
    keys::parse(x.world, &key).map_err(|e| Error::new(format!("error parsing private key: {e}")))?;
    Ok(pair(x.arena, &cert, &key))
}

/// What a new certificate says.
struct Subject {
    name: Vec<u8>,
    alternative: Vec<u8>,
    authority: bool,
    days: i64,
}

/// Who signs: the issuer's name and key identifier, and the key.
struct Issuer {
    name: Vec<u8>,
    key_id: Vec<u8>,
    public: Vec<u8>,
}

impl Issuer {
    /// Reads a certificate from PEM.
    fn parse(pem: &str) -> Result<Self, String> {
        let Some((_, body)) = der::from_pem(pem) else {
            return Err("unable to decode certificate".to_owned());
        };
        Self::from_der(&body).ok_or_else(|| {
            "error parsing certificate: decodedCert.Bytes: x509: malformed certificate".to_owned()
        })
    }

    fn from_der(body: &[u8]) -> Option<Self> {
        let mut tbs = Reader::new(body).enter()?.enter()?;
        let mut first = tbs.next()?;
        if first.tag == 0xa0 {
            first = tbs.next()?;
        }
        if first.tag != der::INTEGER {
            return None;
        }
        // Algorithm, issuer, validity.
        for _ in 0..3 {
            tbs.expect(SEQUENCE)?;
        }
        let name = tbs.expect(SEQUENCE)?.whole.to_vec();
        let public = tbs.expect(SEQUENCE)?.whole.to_vec();
        let mut key_id = Vec::new();
        while let Some(e) = tbs.next() {
            if e.tag != 0xa3 {
                continue;
            }
            let mut extensions = Reader::new(e.content).enter()?;
            while !extensions.is_empty() {
                let mut extension = extensions.enter()?;
                if extension.expect(OID)?.content != SUBJECT_KEY_ID {
                    continue;
                }
                let value = extension.next()?;
                let value = if value.tag == 0x01 { extension.next()? } else { value };
                key_id = Reader::new(value.content).expect(OCTET_STRING)?.content.to_vec();
            }
        }
        Some(Self { name, key_id, public })
    }
}

/// Object identifiers of the extensions.
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 0x23];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// Server and client authentication.
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
/// `commonName`
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

const TRUE: &[u8] = &[0x01, 0x01, 0xff];

fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    der::sequence(&[
        &der::element(OID, id),
        if critical { TRUE } else { &[] },
        &der::element(OCTET_STRING, value),
    ])
}

/// A name with nothing but a common name, as Go writes it: in the plainest string type that can hold it.
fn name(common: &[u8]) -> Result<Vec<u8>, String> {
    if common.is_empty() {
        return Ok(der::sequence(&[]));
    }
    if std::str::from_utf8(common).is_err() {
        return Err("asn1: string not valid UTF-8".to_owned());
    }
    let printable = |b: &u8| b.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(b);
    let tag = if common.iter().all(printable) { 0x13 } else { 0x0c };
    let attribute = der::sequence(&[&der::element(OID, COMMON_NAME), &der::element(tag, common)]);
    Ok(der::sequence(&[&der::element(SET, &attribute)]))
}

/// The names for which a certificate is good.
fn alternative(ips: Value<'_>, names: Value<'_>) -> Result<Vec<u8>, String> {
    let mut addresses = Vec::new();
    for ip in ips.as_items().unwrap_or_default() {
        let Value::Str(s) = ip else {
            let shown = String::from_utf8_lossy(&fmt::sprint(*ip)).into_owned();
            return Err(format!("error parsing ip: {shown} is not a string"));
        };
        let shown = String::from_utf8_lossy(s);
        match shown.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
            Ok(IpAddr::V4(ip)) => addresses.extend(der::element(0x87, &ip.octets())),
            Ok(IpAddr::V6(ip)) => addresses.extend(der::element(0x87, &ip.octets())),
            Err(_) => return Err(format!("error parsing ip: {shown}")),
        }
    }
    let mut out = Vec::new();
    for dns in names.as_items().unwrap_or_default() {
        let Value::Str(s) = dns else {
            let shown = String::from_utf8_lossy(&fmt::sprint(*dns)).into_owned();
            return Err(format!("error processing alternate dns name: {shown} is not a string"));
        };
        if !s.is_ascii() {
            let shown = crate::go::strconv::quote(s);
            return Err(format!(
                "error creating certificate: x509: {shown} cannot be encoded as an IA5String"
            ));
        }
        out.extend(der::element(0x82, s));
    }
    out.extend(addresses);
    Ok(out)
}

/// A moment as certificates have it: with two digits for the year as long as they suffice.
fn moment(seconds: i64) -> Result<Vec<u8>, String> {
    let utc = crate::go::object::Time { seconds, nanos: 0, offset: 0, abbreviation: "UTC", zone: "UTC" };
    let Civil { year, month, day, hour, minute, second, .. } = utc.civil();
    let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    match year {
        1950..2050 => Ok(der::element(0x17, format!("{:02}{rest}", year % 100).as_bytes())),
        0..10_000 => Ok(der::element(0x18, format!("{year:04}{rest}").as_bytes())),
        _ => {
            Err("error creating certificate: asn1: structure error: cannot represent time as GeneralizedTime"
                .to_owned())
        }
    }
}

struct Request<'w> {
    world: &'w dyn World,
}

impl Request<'_> {
    fn key(&self, pem: Option<Value<'_>>) -> Result<Key, String> {
        match pem {
            Some(pem) => keys::parse(self.world, &text(pem)).map_err(|e| format!("parsing private key: {e}")),
            None => keys::make(self.world, KeyKind::Rsa(2048))
                .map_err(|e| format!("error generating rsa key: {e}")),
        }
    }

    fn authority(&self, a: &[Value<'_>], pem: Option<Value<'_>>) -> Made {
        let key = self.key(pem)?;
        let subject =
            Subject { name: name(bytes(a[0]))?, alternative: Vec::new(), authority: true, days: int(a[1]) };
        self.certificate(&subject, &key, None)
    }

    fn self_signed(&self, a: &[Value<'_>], pem: Option<Value<'_>>) -> Made {
        let key = self.key(pem)?;
        self.certificate(&Self::subject(a)?, &key, None)
    }

    fn signed(&self, a: &[Value<'_>], pem: Option<Value<'_>>) -> Made {
        let key = self.key(pem)?;
        let (cert, signer) = parts(a[4]);
        let issuer = Issuer::parse(&cert).map_err(|e| e.replace("decodedCert", "decodedSignerCert"))?;
        let signer =
            keys::parse(self.world, &signer).map_err(|e| format!("error parsing private key: {e}"))?;
        self.certificate(&Self::subject(a)?, &key, Some((&issuer, &signer)))
    }

    fn subject(a: &[Value<'_>]) -> Result<Subject, String> {
        Ok(Subject {
            alternative: alternative(a[1], a[2])?,
            name: name(bytes(a[0]))?,
            authority: false,
            days: int(a[3]),
        })
    }

    /// A certificate and its key as PEM; without an issuer the key signs for itself.
    fn certificate(&self, subject: &Subject, key: &Key, issuer: Option<(&Issuer, &Key)>) -> Made {
        let creating = |e: String| format!("error creating certificate: {e}");
        let signer = issuer.map_or(key, |i| i.1);
        let algorithm = signer.signature_algorithm().map_err(creating)?;
        let public = key.public_info().map_err(creating)?;
        if let Some((issuer, signer)) = issuer
            && signer.public_info().map_err(creating)? != issuer.public
        {
            return Err(creating("x509: provided PrivateKey doesn't match parent's PublicKey".to_owned()));
        }
        let mut serial = [0; 16];
        self.world.random(&mut serial);
        let Timestamp { seconds, .. } = self.world.now();
        // Go's durations are nanoseconds in an int64, which wraps.
        let valid = 86_400_000_000_000i64.wrapping_mul(subject.days);
        let until = seconds.saturating_add(valid.div_euclid(1_000_000_000));
        let tbs = der::sequence(&[
            &der::element(0xa0, &der::integer(&[2])),
            &der::integer(&serial),
            &algorithm,
            issuer.map_or(&subject.name, |i| &i.0.name),
            &der::sequence(&[&moment(seconds)?, &moment(until)?]),
            &subject.name,
            &public,
            &der::element(0xa3, &der::element(SEQUENCE, &extensions(subject, key, issuer.map(|i| i.0))?)),
        ]);
        let signature = signer.sign(self.world, &tbs).map_err(creating)?;
        let whole = der::sequence(&[&tbs, &algorithm, &der::bits(&signature)]);
        Ok((der::to_pem("CERTIFICATE", &whole), key.to_pem()))
    }
}

fn extensions(subject: &Subject, key: &Key, issuer: Option<&Issuer>) -> Result<Vec<u8>, String> {
    // Digital signature and key encipherment; an authority may sign certificates, too.
    let usage: [u8; 2] = if subject.authority { [2, 0xa4] } else { [5, 0xa0] };
    let mut out = extension(KEY_USAGE, true, &der::element(BIT_STRING, &usage));
    let purposes = der::sequence(&[&der::element(OID, SERVER_AUTH), &der::element(OID, CLIENT_AUTH)]);
    out.extend(extension(EXTENDED_KEY_USAGE, false, &purposes));
    let constraints = der::sequence(&[if subject.authority { TRUE } else { &[] }]);
    out.extend(extension(BASIC_CONSTRAINTS, true, &constraints));
    if subject.authority {
        let digest = Sha256::digest(key.public_bits()?);
        out.extend(extension(SUBJECT_KEY_ID, false, &der::element(OCTET_STRING, &digest[..20])));
    }
    if let Some(issuer) = issuer
        && issuer.name != subject.name
        && !issuer.key_id.is_empty()
    {
        let id = der::sequence(&[&der::element(0x80, &issuer.key_id)]);
        out.extend(extension(AUTHORITY_KEY_ID, false, &id));
    }
    if !subject.alternative.is_empty() {
        let nameless = subject.name == der::sequence(&[]);
        out.extend(extension(ALTERNATIVE_NAME, nameless, &der::element(SEQUENCE, &subject.alternative)));
    }
    Ok(out)
}
