//! Certificates and keys compared with Go's for the same keys, serial numbers and times. The world here is fixed; real keys and
//! signatures are tested with the real world.

use super::super::base::{decode64, encode64};
use super::certificate::{self, Request};
use super::der::{self, Reader};
use super::keys::Key;
use super::{dsa, pem, x509};
use crate::data::Data;
use crate::world::{KeyKind, Timestamp, World};

const ED25519: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJRsMZovvFK/RPS7r4rp0Y9IkJQaCwdbCFQPXaXsmgpP
-----END PRIVATE KEY-----
";
const ED25519_PUBLIC: &str = "4/4eKAmmfL2Iyj9KAWnU4IdO+ZkilYmBwFI8lZZXy/Q=";

const P256: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgbyzsZ2Tlf/aCXIa/
TmmL+tTxoDsylFbwfZhXD4o6hmihRANCAASsCorgYECacGEXQ2UOtxoyK8vpigH9
1eqsjXWDCvzekXiNnNgj3Imx06ZwpKJqUPHaPiTYLWdnpXmda0wE4/96
-----END PRIVATE KEY-----
";
const P256_SEC1: &str = "-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIG8s7Gdk5X/2glyGv05pi/rU8aA7MpRW8H2YVw+KOoZooAoGCCqGSM49
AwEHoUQDQgAErAqK4GBAmnBhF0NlDrcaMivL6YoB/dXqrI11gwr83pF4jZzYI9yJ
sdOmcKSialDx2j4k2C1nZ6V5nWtMBOP/eg==
-----END EC PRIVATE KEY-----
";
const P256_PUBLIC: &str =
    "BKwKiuBgQJpwYRdDZQ63GjIry+mKAf3V6qyNdYMK/N6ReI2c2CPcibHTpnCkompQ8do+JNgtZ2eleZ1rTATj/3o=";

/// A CA that Go created for the Ed25519 key.
const CA: &str = "MIIBQzCB9qADAgECAhEAgIGCg4SFhoeIiYqLjI2OjzAFBgMrZXAwEjEQMA4GA1UEAxMHdGVzdC1jYTAeFw0yMzExMTQyMjEz\
MjBaFw0yNDExMTMyMjEzMjBaMBIxEDAOBgNVBAMTB3Rlc3QtY2EwKjAFBgMrZXADIQDj/h4oCaZ8vYjKP0oBadTgh075mSKViYHAUjyVllfL9KNhMF8wDg\
YDVR0PAQH/BAQDAgKkMB0GA1UdJQQWMBQGCCsGAQUFBwMBBggrBgEFBQcDAjAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBT4ryONtfV8jQBtVNFdTfEf\
3LNL5DAFBgMrZXADQQDJrx62ADnTuaKYQI2Aked1vrGJwmj4pl3JIKd1FNiyeznwAntxlSTpyS9+Nx3/bpvDw+mVwgwBzHcjPlZMoyIP";

/// A deterministic world: random bytes count up from 0x80, and every signature is the same.
struct Fixed;

impl World for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: 1_700_000_000, nanos: 999_999_999 }
    }

    fn local_zone(&self) -> String {
        "UTC".to_owned()
    }

    fn random(&self, bytes: &mut [u8]) {
        for (byte, n) in bytes.iter_mut().zip(0x80..) {
            *byte = n;
        }
    }

    fn make_key(&self, kind: KeyKind) -> Result<Vec<u8>, String> {
        Err(format!("no {kind:?} key here"))
    }

    fn public_key(&self, pkcs8: &[u8]) -> Result<Vec<u8>, String> {
        let ed25519 = pem::decode(ED25519.as_bytes()).unwrap().bytes;
        decode64(if pkcs8 == ed25519 { ED25519_PUBLIC } else { P256_PUBLIC }.as_bytes())
    }

    fn sign(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> {
        Ok(b"signature".to_vec())
    }

    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> {
        Ok(Data::Null)
    }

    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

/// The signed part of a PEM certificate.
fn signed_part(cert: &[u8]) -> String {
    let block = pem::decode(cert).unwrap();
    assert_eq!(block.kind, "CERTIFICATE");
    let mut outer = Reader::whole(der::SEQUENCE, &block.bytes).unwrap();
    let (_, tbs) = outer.element(der::SEQUENCE).unwrap();
    outer.read(der::SEQUENCE).unwrap();
    assert_eq!(outer.bit_string().unwrap(), b"signature");
    String::from_utf8(encode64(tbs)).unwrap()
}

fn request<'r>(
    common_name: &'r str,
    ips: &[&str],
    dns: &[&'r str],
    days: i64,
    authority: bool,
) -> Request<'r> {
    Request {
        common_name: common_name.as_bytes(),
        ips: ips.iter().map(|ip| x509::parse_ip(ip).unwrap()).collect(),
        dns: dns.iter().map(|d| d.as_bytes()).collect(),
        days,
        authority,
    }
}

fn ca() -> Vec<u8> {
    pem::encode("CERTIFICATE", &decode64(CA.as_bytes()).unwrap())
}

#[test]
fn certificates_are_those_of_go() {
    let ca = ca();
    let make = |r: &Request<'_>, key: &str, signer: Option<(&[u8], &[u8])>| {
        let pair = certificate::make(&Fixed, r, Some(key.as_bytes()), signer).unwrap();
        signed_part(&pair.cert)
    };
    let own = make(&request("test-ca", &[], &[], 365, true), ED25519, None);
    assert_eq!(
        own,
        "MIH2oAMCAQICEQCAgYKDhIWGh4iJiouMjY6PMAUGAytlcDASMRAwDgYDVQQDEwd0ZXN0LWNhMB4XDTIzMTExNDIyMTMyMFoXDTI0MTExMzIyMTMy\
MFowEjEQMA4GA1UEAxMHdGVzdC1jYTAqMAUGAytlcAMhAOP+HigJpny9iMo/SgFp1OCHTvmZIpWJgcBSPJWWV8v0o2EwXzAOBgNVHQ8BAf8EBAMCAqQwHQ\
YDVR0lBBYwFAYIKwYBBQUHAwEGCCsGAQUFBwMCMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFPivI4219XyNAG1U0V1N8R/cs0vk"
    );
    // A name beyond ASCII, IPv4 and IPv6 addresses, and the CA's key identifier.
    let leaf = request("über", &["10.0.0.1", "2001:db8::5"], &["a.example", "*.b.example"], 30, false);
    assert_eq!(
        make(&leaf, P256, Some((&ca, ED25519.as_bytes()))),
        "MIIBX6ADAgECAhEAgIGCg4SFhoeIiYqLjI2OjzAFBgMrZXAwEjEQMA4GA1UEAxMHdGVzdC1jYTAeFw0yMzExMTQyMjEzMjBaFw0yMzEyMTQyMjEz\
MjBaMBAxDjAMBgNVBAMMBcO8YmVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAErAqK4GBAmnBhF0NlDrcaMivL6YoB/dXqrI11gwr83pF4jZzYI9yJsd\
OmcKSialDx2j4k2C1nZ6V5nWtMBOP/eqOBnDCBmTAOBgNVHQ8BAf8EBAMCBaAwHQYDVR0lBBYwFAYIKwYBBQUHAwEGCCsGAQUFBwMCMAwGA1UdEwEB/wQC\
MAAwHwYDVR0jBBgwFoAU+K8jjbX1fI0AbVTRXU3xH9yzS+QwOQYDVR0RBDIwMIIJYS5leGFtcGxlggsqLmIuZXhhbXBsZYcECgAAAYcQIAENuAAAAAAAAA\
AAAAAABQ=="
    );
    // Without a subject the names are critical. The end date is after 2050.
    assert_eq!(
        make(&request("", &[], &["c.example"], 40_000, false), P256_SEC1, None),
        "MIH/oAMCAQICEQCAgYKDhIWGh4iJiouMjY6PMAoGCCqGSM49BAMCMAAwIBcNMjMxMTE0MjIxMzIwWhgPMjEzMzA1MjEyMjEzMjBaMAAwWTATBgcq\
hkjOPQIBBggqhkjOPQMBBwNCAASsCorgYECacGEXQ2UOtxoyK8vpigH91eqsjXWDCvzekXiNnNgj3Imx06ZwpKJqUPHaPiTYLWdnpXmda0wE4/96o1gwVj\
AOBgNVHQ8BAf8EBAMCBaAwHQYDVR0lBBYwFAYIKwYBBQUHAwEGCCsGAQUFBwMCMAwGA1UdEwEB/wQCMAAwFwYDVR0RAQH/BA0wC4IJYy5leGFtcGxl"
    );
}

#[test]
fn keys_print_as_go_prints_them() {
    let number = der::integer(&[7]);
    let rsa = der::sequence(&[&der::integer(&[]), &number.repeat(8)]);
    let rsa = String::from_utf8(pem::encode("RSA PRIVATE KEY", &rsa)).unwrap();
    for (given, printed) in
        [(ED25519, ED25519), (P256, P256_SEC1), (P256_SEC1, P256_SEC1), (rsa.as_str(), rsa.as_str())]
    {
        let key = Key::parse(given.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(key.pem(&Fixed).unwrap()).unwrap(), printed);
    }
}

#[test]
fn keys_and_certificates_that_are_none_are_told() {
    let ca = ca();
    let as_kind = |text: &str, kind: &str| pem::encode(kind, &pem::decode(text.as_bytes()).unwrap().bytes);
    for (key, error) in [
        (b"x".to_vec(), "no PEM data in input"),
        (ca.clone(), "no private key data in PEM block of type CERTIFICATE"),
        (as_kind(ED25519, "ODD PRIVATE KEY"), "invalid private key type ODD PRIVATE KEY"),
        (
            as_kind(P256_SEC1, "PRIVATE KEY"),
            "decoding PEM as PKCS#8: x509: failed to parse private key (use ParseECPrivateKey instead for this key format)",
        ),
        (
            as_kind(P256, "RSA PRIVATE KEY"),
            "parsing RSA private key from PEM: x509: failed to parse private key (use ParsePKCS8PrivateKey instead for this \
             key format)",
        ),
    ] {
        assert_eq!(Key::parse(&key).unwrap_err(), error);
    }
    let coded = |s: &[u8]| encode64(s);
    let (good_cert, good_key) = (coded(&ca), coded(ED25519.as_bytes()));
    assert!(certificate::custom(&good_cert, &good_key).is_ok());
    for (cert, key, error) in [
        (b"!".to_vec(), good_key.clone(), "unable to decode base64 certificate"),
        (good_cert.clone(), b"!".to_vec(), "unable to decode base64 private key"),
        (coded(b"x"), good_key.clone(), "unable to decode certificate"),
        (
            coded(&pem::encode("CERTIFICATE", &[0])),
            good_key,
            "error parsing certificate: decodedCert.Bytes: x509: malformed certificate",
        ),
        (good_cert, coded(b"x"), "error parsing private key: no PEM data in input"),
    ] {
        assert_eq!(certificate::custom(&cert, &key).err().unwrap(), error);
    }
    // A CA whose key does not match its certificate.
    let made = certificate::make(
        &Fixed,
        &request("a", &[], &[], 1, false),
        Some(P256.as_bytes()),
        Some((&ca, P256.as_bytes())),
    );
    assert_eq!(
        made.err().unwrap(),
        "error creating certificate: x509: provided PrivateKey doesn't match parent's PublicKey"
    );
}

#[test]
fn pem_blocks_are_found_as_go_finds_them() {
    let plain = "-----BEGIN A-----\nAQI=\n-----END A-----\n";
    for (text, found) in [
        (plain.to_owned(), Some("A")),
        (format!("before\n{plain}after"), Some("A")),
        (plain.replace('\n', "\r\n"), Some("A")),
        (plain.replace("AQI=", "Name: value\n\nAQI="), Some("A")),
        (plain.replace("AQI=", " AQ\tI="), Some("A")),
        (format!("-----BEGIN B-----\n{plain}"), Some("A")),
        (format!("{}{plain}", plain.replace("AQI=", "!")), Some("A")),
        (plain.replace("END A", "END B"), None),
        (format!("x{plain}"), None),
        (plain.replacen("A-----", "A", 1), None),
        (plain.replace("AQI=", "AQI"), None),
        (String::new(), None),
    ] {
        let block = pem::decode(text.as_bytes());
        assert_eq!(block.as_ref().map(|b| b.kind.as_str()), found, "{text}");
        assert!(block.is_none_or(|b| b.bytes == [1, 2]), "{text}");
    }
}

#[test]
fn der_has_one_form_for_each_value() {
    for (magnitude, encoded) in [
        (&[][..], &[2, 1, 0][..]),
        (&[0, 0, 5], &[2, 1, 5]),
        (&[0x7f], &[2, 1, 0x7f]),
        (&[0x80], &[2, 2, 0, 0x80]),
        (&[1, 0], &[2, 2, 1, 0]),
    ] {
        assert_eq!(der::integer(magnitude), encoded);
    }
    for (length, head) in [(0x7f, &[4, 0x7f][..]), (0x80, &[4, 0x81, 0x80]), (0x100, &[4, 0x82, 1, 0])] {
        let encoded = der::element(der::OCTET_STRING, &vec![9; length]);
        assert_eq!(&encoded[..head.len()], head);
        assert_eq!(Reader::new(&encoded).read(der::OCTET_STRING).unwrap().len(), length);
    }
    // Lengths that are not minimal, indefinite, or longer than the input.
    for bad in [&[4, 0x81, 1, 9][..], &[4, 0x82, 0, 1, 9], &[4, 0x80, 0, 0], &[4, 2, 9], &[4], &[]] {
        assert_eq!(Reader::new(bad).read(der::OCTET_STRING), None, "{bad:x?}");
    }
    assert_eq!(Reader::new(&[2, 2, 0, 5]).integer(), None);
}

/// A sequence of pseudo-random numbers, the same in every run.
struct Sequence(std::sync::atomic::AtomicU64);

impl World for Sequence {
    fn random(&self, bytes: &mut [u8]) {
        for byte in bytes {
            // The high bits of a linear congruential generator.
            let step =
                |n: u64| n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let n = self.0.load(std::sync::atomic::Ordering::Relaxed);
            self.0.store(step(n), std::sync::atomic::Ordering::Relaxed);
            *byte = n.to_be_bytes()[0];
        }
    }

    fn now(&self) -> Timestamp {
        Fixed.now()
    }

    fn local_zone(&self) -> String {
        Fixed.local_zone()
    }

    fn make_key(&self, kind: KeyKind) -> Result<Vec<u8>, String> {
        Fixed.make_key(kind)
    }

    fn public_key(&self, pkcs8: &[u8]) -> Result<Vec<u8>, String> {
        Fixed.public_key(pkcs8)
    }

    fn sign(&self, pkcs8: &[u8], message: &[u8]) -> Result<Vec<u8>, String> {
        Fixed.sign(pkcs8, message)
    }

    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> {
        Ok(Data::Null)
    }

    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

#[test]
fn dsa_keys_fit_together() {
    use num_bigint::BigUint;
    let key = dsa::generate(&Sequence(1.into()));
    let mut outer = Reader::whole(der::SEQUENCE, &key).unwrap();
    assert_eq!(outer.integer().unwrap(), [0]);
    let [p, q, g, y, x] = std::array::from_fn(|_| BigUint::from_bytes_be(outer.integer().unwrap()));
    assert_eq!((p.bits(), q.bits()), (2048, 256));
    let one = BigUint::from(1u8);
    assert_eq!((&p - &one) % &q, BigUint::ZERO);
    assert_ne!(g, one);
    assert_eq!(g.modpow(&q, &p), one);
    assert_eq!(g.modpow(&x, &p), y);
    assert!(x < q && x > BigUint::ZERO);
}
