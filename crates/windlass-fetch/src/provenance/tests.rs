//! Tests which keys of a keyring may sign a package: valid and invalid certificates, each with a valid signature of the text.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use std::time::SystemTime;

use pgp::armor::{self, BlockType};
use pgp::composed::KeyType;
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{
    KeyFlags, Notation, Packet, PubKeyInner, PublicKey, PublicSubkey, SecretKey, SecretSubkey, Signature,
    SignatureConfig, SignatureType, Subpacket, SubpacketData, UserId,
};
use pgp::ser::Serialize as _;
use pgp::types::{
    Duration, KeyDetails, KeyVersion, PacketHeaderVersion, Password, PublicParams, SecretParams, SigningKey,
    Tag, Timestamp,
};
use sha2::{Digest as _, Sha256};

use super::verify;

const HOUR: u32 = 3600;

fn now() -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    u32::try_from(now).unwrap()
}

/// Properties of a signature: times in seconds before now, and lifetimes.
#[derive(Clone, Copy)]
struct Says {
    ago: u32,
    hash: HashAlgorithm,
    signs: Option<bool>,
    key_lifetime: Option<u32>,
    lifetime: Option<u32>,
    critical_notation: bool,
}

impl Default for Says {
    fn default() -> Self {
        let hash = HashAlgorithm::Sha256;
        Self { ago: HOUR, hash, signs: None, key_lifetime: None, lifetime: None, critical_notation: false }
    }
}

const SIGNS: Says = Says {
    ago: HOUR,
    hash: HashAlgorithm::Sha256,
    signs: Some(true),
    key_lifetime: None,
    lifetime: None,
    critical_notation: false,
};

impl Says {
    fn config(self, kind: SignatureType, key: &impl KeyDetails) -> SignatureConfig {
        let mut config = SignatureConfig::v4(kind, key.algorithm(), self.hash);
        let mut push = |data| config.hashed_subpackets.push(Subpacket::regular(data).unwrap());
        push(SubpacketData::SignatureCreationTime(Timestamp::from_secs(now() - self.ago)));
        push(SubpacketData::IssuerFingerprint(key.fingerprint()));
        push(SubpacketData::IssuerKeyId(key.legacy_key_id()));
        if let Some(signs) = self.signs {
            let mut flags = KeyFlags::default();
            flags.set_sign(signs);
            flags.set_encrypt_comms(!signs);
            push(SubpacketData::KeyFlags(flags));
        }
        if let Some(seconds) = self.key_lifetime {
            push(SubpacketData::KeyExpirationTime(Duration::from_secs(seconds)));
        }
        if let Some(seconds) = self.lifetime {
            push(SubpacketData::SignatureExpirationTime(Duration::from_secs(seconds)));
        }
        if self.critical_notation {
            let (name, value) = ("rule@example.test".into(), "x".into());
            let notation = SubpacketData::Notation(Notation { readable: true, name, value });
            config.hashed_subpackets.push(Subpacket::critical(notation).unwrap());
        }
        config
    }
}

fn inner(kind: &KeyType, params: PublicParams) -> PubKeyInner {
    let created = Timestamp::from_secs(now() - 2 * HOUR);
    PubKeyInner::new(KeyVersion::V4, kind.to_alg(), created, None, params).unwrap()
}

fn generate(kind: &KeyType) -> (PubKeyInner, SecretParams) {
    let (params, secret) = kind.generate(rand::thread_rng()).unwrap();
    (inner(kind, params), secret)
}

fn primary_of(kind: &KeyType) -> SecretKey {
    let (inner, secret) = generate(kind);
    SecretKey::new(PublicKey::from_inner(inner).unwrap(), secret).unwrap()
}

fn primary() -> SecretKey {
    primary_of(&KeyType::Ed25519Legacy)
}

fn subkey() -> SecretSubkey {
    let (inner, secret) = generate(&KeyType::Ed25519Legacy);
    SecretSubkey::new(PublicSubkey::from_inner(inner).unwrap(), secret).unwrap()
}

fn user() -> UserId {
    UserId::from_str(PacketHeaderVersion::New, "Me <me@example.test>").unwrap()
}

fn certify(key: &SecretKey, kind: SignatureType, says: Says) -> Packet {
    let config = says.config(kind, key);
    let signed = config.sign_certification(key, key.public_key(), &Password::empty(), Tag::UserId, &user());
    signed.unwrap().into()
}

fn bind(
    key: &SecretKey,
    kind: SignatureType,
    subkey: &SecretSubkey,
    says: Says,
    back: Option<Signature>,
) -> Packet {
    let mut config = says.config(kind, key);
    if let Some(back) = back {
        let embedded = SubpacketData::EmbeddedSignature(Box::new(back));
        config.hashed_subpackets.push(Subpacket::regular(embedded).unwrap());
    }
    let signed =
        config.sign_subkey_binding(key, key.public_key(), &Password::empty(), subkey.public_key()).unwrap();
    signed.into()
}

fn back(subkey: &SecretSubkey, of: &SecretKey, says: Says) -> Signature {
    let config = says.config(SignatureType::KeyBinding, subkey);
    let (own, password) = (subkey.public_key(), Password::empty());
    config.sign_primary_key_binding(subkey, own, &password, of.public_key()).unwrap()
}

fn key_signature(key: &SecretKey, kind: SignatureType, says: Says) -> Packet {
    says.config(kind, key).sign_key(key, &Password::empty(), key.public_key()).unwrap().into()
}

/// A certificate whose primary key signs.
fn certificate(key: &SecretKey) -> Vec<Packet> {
    vec![key.public_key().clone().into(), user().into(), certify(key, SignatureType::CertPositive, SIGNS)]
}

/// Verifies a package that a key signed, against a keyring of packets.
fn verified(ring: &[Packet], signer: &impl SigningKey, says: Says) -> Result<Vec<String>, String> {
    let package = b"a package";
    let sum: String = Sha256::digest(package).iter().map(|b| format!("{b:02x}")).collect();
    let text = format!("name: web\n\n...\nfiles:\n  web-1.0.0.tgz: sha256:{sum}");
    let config = says.config(SignatureType::Text, signer);
    let signature = config.sign(signer, &Password::empty(), text.replace('\n', "\r\n").as_bytes()).unwrap();
    let mut armored = Vec::new();
    armor::write(&Packet::from(signature), BlockType::Signature, &mut armored, None, true).unwrap();
    let armored = String::from_utf8(armored).unwrap();
    let signed = format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{text}\n{armored}");
    let keyring = tempfile::NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = ring.iter().flat_map(|p| p.to_bytes().unwrap()).collect();
    std::fs::write(keyring.path(), bytes).unwrap();
    match verify(package, signed.as_bytes(), "web-1.0.0.tgz", keyring.path()) {
        Ok(verified) => Ok(verified.lines()),
        Err(e) => Err(e.to_string()),
    }
}

/// Description, keyring, properties of the signature, expected result.
type Case<'c> = (&'c str, Vec<Packet>, Says, Result<(), &'c str>);

const UNKNOWN: &str = "openpgp: signature made by unknown entity";
const REVOKED: &str = "openpgp: signature made by revoked key";
const KEY_EXPIRED: &str = "openpgp: key expired";
const EXPIRED: &str = "openpgp: signature expired";
const WEAK: &str = "openpgp: weak algorithms are rejected";

#[test]
fn a_primary_key_signs_if_its_self_signature_says_so() {
    use SignatureType::{CertPositive, CertRevocation, Key, KeyRevocation};
    let key = primary();
    let other = primary();
    let plain = Says::default();
    let public = || Packet::from(key.public_key().clone());
    let cert = |says| vec![public(), user().into(), certify(&key, CertPositive, says)];
    let old = Says { ago: 2 * HOUR, ..SIGNS };
    let cases: Vec<Case<'_>> = vec![
        ("a good key", certificate(&key), plain, Ok(())),
        ("the key of someone else", certificate(&other), plain, Err(UNKNOWN)),
        ("no user id", vec![public()], plain, Err(UNKNOWN)),
        ("a user id without a self-signature", vec![public(), user().into()], plain, Err(UNKNOWN)),
        (
            "a user id that someone else certified",
            vec![public(), user().into(), certify(&other, CertPositive, SIGNS)],
            plain,
            Err(UNKNOWN),
        ),
        ("a key without flags", cert(plain), plain, Err(UNKNOWN)),
        ("a key for encryption", cert(Says { signs: Some(false), ..plain }), plain, Err(UNKNOWN)),
        ("an expired key", cert(Says { key_lifetime: Some(HOUR), ..SIGNS }), plain, Err(KEY_EXPIRED)),
        ("a key that ends later", cert(Says { key_lifetime: Some(9 * HOUR), ..SIGNS }), plain, Ok(())),
        ("an expired self-signature", cert(Says { lifetime: Some(60), ..SIGNS }), plain, Err(EXPIRED)),
        (
            "a newer self-signature that ends the key",
            [cert(old), vec![certify(&key, CertPositive, Says { key_lifetime: Some(60), ..SIGNS })]].concat(),
            plain,
            Err(KEY_EXPIRED),
        ),
        (
            "a direct signature that ends the key",
            {
                let ends = key_signature(&key, Key, Says { key_lifetime: Some(60), ..SIGNS });
                vec![public(), ends, user().into(), certify(&key, CertPositive, SIGNS)]
            },
            plain,
            Err(KEY_EXPIRED),
        ),
        (
            "a self-signature with an unknown critical rule",
            cert(Says { critical_notation: true, ..SIGNS }),
            plain,
            Err(UNKNOWN),
        ),
        (
            "a revoked key",
            {
                let revocation = key_signature(&key, KeyRevocation, plain);
                vec![public(), revocation, user().into(), certify(&key, CertPositive, SIGNS)]
            },
            plain,
            Err(REVOKED),
        ),
        (
            "a revoked user id",
            [certificate(&key), vec![certify(&key, CertRevocation, plain)]].concat(),
            plain,
            Err(REVOKED),
        ),
        ("an expired signature", certificate(&key), Says { lifetime: Some(60), ..plain }, Err(EXPIRED)),
        (
            "a signature with a critical rule",
            certificate(&key),
            Says { critical_notation: true, ..plain },
            Err(WEAK),
        ),
    ];
    for (what, ring, says, want) in cases {
        match (verified(&ring, &key, says), want) {
            (Ok(lines), Ok(())) => assert_eq!(lines[0], "Signed by: Me <me@example.test>", "{what}"),
            (Err(e), Err(want)) => assert!(e.starts_with(want), "{what}: {e}"),
            (got, _) => panic!("{what}: {got:?}"),
        }
    }
}

#[test]
fn a_subkey_signs_if_both_keys_say_so() {
    use SignatureType::{SubkeyBinding, SubkeyRevocation};
    let key = primary();
    let own = subkey();
    let attacker = primary();
    let plain = Says::default();
    let encrypts = Says { signs: Some(false), ..plain };
    let good = || bind(&key, SubkeyBinding, &own, SIGNS, Some(back(&own, &key, plain)));
    let with = |more: Vec<Packet>| [certificate(&key), vec![own.public_key().clone().into()], more].concat();
    let bound = |says, back| with(vec![bind(&key, SubkeyBinding, &own, says, back)]);
    let revocation = bind(&key, SubkeyRevocation, &own, plain, None);
    let foreign = bind(&attacker, SubkeyBinding, &own, SIGNS, Some(back(&own, &attacker, plain)));
    let cases: Vec<(&str, Vec<Packet>, Result<(), &str>)> = vec![
        ("a good subkey", with(vec![good()]), Ok(())),
        ("a subkey without a binding", with(Vec::new()), Err(UNKNOWN)),
        ("a subkey that an attacker bound to his own key", with(vec![foreign]), Err(UNKNOWN)),
        ("a subkey without a back-signature", bound(SIGNS, None), Err(UNKNOWN)),
        ("a back-signature for another key", bound(SIGNS, Some(back(&own, &attacker, plain))), Err(UNKNOWN)),
        (
            "a back-signature by another subkey",
            bound(SIGNS, Some(back(&subkey(), &key, plain))),
            Err(UNKNOWN),
        ),
        ("a subkey for encryption", bound(encrypts, Some(back(&own, &key, plain))), Err(UNKNOWN)),
        ("a subkey without flags", bound(plain, Some(back(&own, &key, plain))), Err(UNKNOWN)),
        (
            "an expired subkey",
            bound(Says { key_lifetime: Some(HOUR), ..SIGNS }, Some(back(&own, &key, plain))),
            Err(KEY_EXPIRED),
        ),
        (
            "an expired binding",
            bound(Says { lifetime: Some(60), ..SIGNS }, Some(back(&own, &key, plain))),
            Err(EXPIRED),
        ),
        (
            "an expired back-signature",
            bound(SIGNS, Some(back(&own, &key, Says { lifetime: Some(60), ..plain }))),
            Err(EXPIRED),
        ),
        ("a revoked subkey", with(vec![revocation.clone(), good()]), Err(REVOKED)),
        ("a subkey that was revoked later", with(vec![good(), revocation]), Err(REVOKED)),
        (
            "a subkey of an expired key",
            {
                let says = Says { key_lifetime: Some(60), ..SIGNS };
                let head = vec![key.public_key().clone().into(), user().into()];
                let tail = vec![own.public_key().clone().into(), good()];
                [head, vec![certify(&key, SignatureType::CertPositive, says)], tail].concat()
            },
            Err(KEY_EXPIRED),
        ),
    ];
    for (what, ring, want) in cases {
        match (verified(&ring, &own, plain), want) {
            (Ok(_), Ok(())) => {}
            (Err(e), Err(want)) => assert!(e.starts_with(want), "{what}: {e}"),
            (got, _) => panic!("{what}: {got:?}"),
        }
        // An invalid subkey does not invalidate the primary key.
        if want != Err(KEY_EXPIRED) || what == "an expired subkey" {
            assert!(verified(&ring, &key, plain).is_ok(), "{what}");
        }
    }
}

#[test]
fn weak_algorithms_sign_no_data() {
    let key = primary_of(&KeyType::Rsa(2048));
    let plain = Says::default();
    for (hash, want) in [
        (HashAlgorithm::Md5, Err(WEAK)),
        (HashAlgorithm::Sha1, Err(WEAK)),
        (HashAlgorithm::Ripemd160, Err(WEAK)),
        (HashAlgorithm::Sha256, Ok(())),
        (HashAlgorithm::Sha512, Ok(())),
    ] {
        let got = verified(&certificate(&key), &key, Says { hash, ..plain }).map(drop);
        match want {
            Ok(()) => assert_eq!(got, Ok(())),
            Err(want) => assert!(got.is_err_and(|e| e.starts_with(want)), "{hash}"),
        }
    }
    // Only the owner makes a self-signature: SHA-1 is accepted there, as by Helm and GnuPG; MD5 is not.
    for (hash, good) in [(HashAlgorithm::Sha1, true), (HashAlgorithm::Md5, false)] {
        let own = certify(&key, SignatureType::CertPositive, Says { hash, ..SIGNS });
        let ring = vec![key.public_key().clone().into(), user().into(), own];
        assert_eq!(verified(&ring, &key, plain).is_ok(), good, "{hash}");
    }
    let short = primary_of(&KeyType::Rsa(1024));
    let got = verified(&certificate(&short), &short, plain);
    assert!(
        got.as_ref().is_err_and(|e| e == "openpgp: weak algorithms are rejected: RSA key of 1024 bits"),
        "{got:?}"
    );
}

#[test]
fn keyrings_keep_their_good_keys_beside_bad_ones() {
    let (first, second) = (primary(), primary());
    // A primary key of an unknown version, a trust packet in GnuPG's form, and a truncated packet.
    let mut bytes = vec![0xc0 | 6, 5, 99, 0, 0, 0, 0];
    for packet in [certificate(&first), certificate(&second)].concat() {
        bytes.extend(packet.to_bytes().unwrap());
        bytes.extend([0xb0, 2, 3, 6]);
    }
    bytes.extend([0xc0 | 6, 200, 4]);
    let mut ring = super::keyring::Ring::default();
    ring.add(&bytes).unwrap();
    assert_eq!(ring.certificates().len(), 2);
}

#[test]
fn a_revocation_counts_for_every_copy_of_a_key() {
    use SignatureType::{CertPositive, KeyRevocation, SubkeyBinding, SubkeyRevocation};
    let (key, own, plain) = (primary(), subkey(), Says::default());
    let revoked = vec![
        key.public_key().clone().into(),
        key_signature(&key, KeyRevocation, plain),
        user().into(),
        certify(&key, CertPositive, SIGNS),
    ];
    for ring in [[certificate(&key), revoked.clone()].concat(), [revoked, certificate(&key)].concat()] {
        assert_eq!(verified(&ring, &key, plain), Err(REVOKED.to_owned()));
    }
    let good = bind(&key, SubkeyBinding, &own, SIGNS, Some(back(&own, &key, plain)));
    let gone = bind(&key, SubkeyRevocation, &own, plain, None);
    let with = |more| [certificate(&key), vec![own.public_key().clone().into(), more]].concat();
    let ring = [with(good.clone()), with(gone.clone())].concat();
    assert_eq!(verified(&ring, &own, plain), Err(REVOKED.to_owned()));
    let ring = [with(gone), vec![own.public_key().clone().into(), good]].concat();
    assert_eq!(verified(&ring, &own, plain), Err(REVOKED.to_owned()));
}

#[test]
fn no_changed_byte_of_a_keyring_makes_another_key_good() {
    let key = primary();
    let ring: Vec<u8> = certificate(&key).iter().flat_map(|p| p.to_bytes().unwrap()).collect();
    for n in 0..ring.len() {
        let mut changed = ring.clone();
        changed[n] ^= 1 << (n % 8);
        // The keyring may be invalid now; reading it must not panic or yield another key.
        let mut read = super::keyring::Ring::default();
        if read.add(&changed).is_ok() {
            let now = u64::from(now());
            let good = read.certificates().into_iter().filter(|c| c.primary_may_sign(now).is_ok());
            for certificate in good {
                assert_eq!(certificate.key.fingerprint(), key.fingerprint(), "{n}");
            }
        }
        assert!(super::keyring::Ring::default().add(&ring[..n]).is_ok(), "{n}");
    }
}
