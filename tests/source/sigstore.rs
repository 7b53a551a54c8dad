//! A small Sigstore instance: a certificate authority, its log of certificates, a log of signatures and a time-stamping authority;
//! and what cosign makes with it.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType, SerialNumber,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::timestamps::TimeAuthority;

/// When everything was signed: in the one day on which certificates are valid.
pub(crate) const SIGNED_AT: i64 = 1_704_110_400;
pub(crate) const IDENTITY: &str = "https://git.example.test/web/.ci/release.yaml@refs/heads/main";
pub(crate) const ISSUER: &str = "https://tokens.example.test";
pub(crate) const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn sha256(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64(der))
}

/// A key that signs.
pub(crate) struct Key {
    pair: EcdsaKeyPair,
    pub(crate) certified: KeyPair,
}

impl Key {
    pub(crate) fn new() -> Self {
        let certified = KeyPair::generate().unwrap();
        let der = certified.serialize_der();
        Self { pair: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der).unwrap(), certified }
    }

    /// The public key in DER, as certificates and PEM files have it.
    pub(crate) fn public(&self) -> Vec<u8> {
        assert!(!self.pair.public_key().as_ref().is_empty());
        self.certified.subject_public_key_info()
    }

    pub(crate) fn sign(&self, data: &[u8]) -> Vec<u8> {
        self.pair.sign(&SystemRandom::new(), data).unwrap().as_ref().to_vec()
    }
}

/// The services.
pub(crate) struct Instance {
    authority: CertifiedIssuer<'static, KeyPair>,
    certificates: Key,
    log: Key,
    pub(crate) times: TimeAuthority,
}

/// What somebody signs, and which parts of the proof are there.
#[derive(Clone)]
pub(crate) struct Signing<'s> {
    /// The digest of the manifest that the statement is about.
    pub(crate) digest: &'s str,
    pub(crate) predicate: &'s str,
    pub(crate) identity: &'s str,
    pub(crate) issuer: &'s str,
    /// Whether the certificate was logged.
    pub(crate) logged_certificate: bool,
    /// Whether the log promised to take the signature: the time of signing is in it.
    pub(crate) promise: bool,
    /// Whether the log proves that it has the signature.
    pub(crate) proof: bool,
    pub(crate) at: i64,
}

impl<'s> Signing<'s> {
    pub(crate) fn new(digest: &'s str) -> Self {
        Self {
            digest,
            predicate: SIGN,
            identity: IDENTITY,
            issuer: ISSUER,
            logged_certificate: true,
            promise: true,
            proof: true,
            at: SIGNED_AT,
        }
    }
}

/// The first element within the outer one of a DER document, whole.
fn inner(der: &[u8]) -> &[u8] {
    let head = |d: &[u8]| match d[1] {
        short @ 0..0x80 => (2, usize::from(short)),
        long => {
            let n = usize::from(long & 0x7f);
            (2 + n, d[2..2 + n].iter().fold(0, |l, b| l << 8 | usize::from(*b)))
        }
    };
    let rest = &der[head(der).0..];
    let (start, length) = head(rest);
    &rest[..start + length]
}

/// An element of DER.
pub(crate) fn der(tag: u8, body: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(body.len()).unwrap().to_be_bytes();
    let head = match (high, low) {
        (0, 0..0x80) => vec![tag, low],
        (0, _) => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [&head, body].concat()
}

impl Instance {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, "test authority");
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2090, 1, 1);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { authority, certificates: Key::new(), log: Key::new(), times: TimeAuthority::new() }
    }

    /// What clients trust (`trusted_root.json`).
    pub(crate) fn trusted_root(&self) -> String {
        let start = json!({"start": "2020-01-01T00:00:00Z"});
        let log = |url: &str, key: &Key| {
            json!({
                "baseUrl": url, "hashAlgorithm": "SHA2_256", "logId": {"keyId": base64(sha256(&key.public()))},
                "publicKey": {
                    "rawBytes": base64(key.public()), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": start
                },
            })
        };
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log("https://log.example.test", &self.log)],
            "ctlogs": [log("https://certificates.example.test", &self.certificates)],
            "certificateAuthorities": [{
                "uri": "https://authority.example.test", "validFor": start,
                "certChain": {"certificates": [{"rawBytes": base64(self.authority.der())}]},
            }],
            "timestampAuthorities": [self.times.trusted()],
        })
        .to_string()
    }

    /// A certificate for a key, valid on one day of the past.
    fn certificate(&self, key: &Key, signing: &Signing<'_>) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.serial_number = Some(SerialNumber::from(7));
        params.not_before = rcgen::date_time_ymd(2024, 1, 1);
        params.not_after = rcgen::date_time_ymd(2024, 1, 2);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.subject_alt_names = vec![SanType::URI(signing.identity.try_into().unwrap())];
        let issuer = der(0x0c, signing.issuer.as_bytes());
        let oid = [1, 3, 6, 1, 4, 1, 57264, 1, 8];
        params.custom_extensions.push(CustomExtension::from_oid_content(&oid, issuer));
        let plain = params.signed_by(&key.certified, &self.authority).unwrap();
        if !signing.logged_certificate {
            return plain.der().to_vec();
        }
        let body = inner(plain.der());
        let time = u64::try_from(SIGNED_AT * 1000).unwrap().to_be_bytes();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let authority = sha256(&self.authority.key().subject_public_key_info());
        let signed = [&[0, 0][..], &time, &[0, 1], &authority, &length[1..], body, &[0, 0]].concat();
        let signature = self.certificates.sign(&signed);
        let list = |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
        let id = sha256(&self.certificates.public());
        let timestamp = [&[0][..], &id, &time, &[0, 0, 4, 3], &list(&signature)].concat();
        let oid = [1, 3, 6, 1, 4, 1, 11129, 2, 4, 2];
        let content = der(4, &list(&list(&timestamp)));
        params.custom_extensions.push(CustomExtension::from_oid_content(&oid, content));
        params.signed_by(&key.certified, &self.authority).unwrap().der().to_vec()
    }

    /// The log's promise to take an entry.
    fn promise(&self, body: &str, at: i64) -> String {
        let id = hex(&sha256(&self.log.public()));
        let body = base64(body);
        let text =
            format!("{{\"body\":\"{body}\",\"integratedTime\":{at},\"logID\":\"{id}\",\"logIndex\":0}}");
        base64(self.log.sign(text.as_bytes()))
    }

    /// An entry of the log, the only one that it has, as a bundle holds it.
    fn entry(&self, kind: &str, body: &Value, signing: &Signing<'_>) -> Value {
        let body = body.to_string();
        let id = sha256(&self.log.public());
        let mut entry = json!({
            "logIndex": "0", "logId": {"keyId": base64(&id)}, "integratedTime": signing.at.to_string(),
            "kindVersion": {"kind": kind, "version": "0.0.1"}, "canonicalizedBody": base64(&body),
        });
        if signing.promise {
            entry["inclusionPromise"] = json!({"signedEntryTimestamp": self.promise(&body, signing.at)});
        }
        if signing.proof {
            let root = sha256(&[&[0][..], body.as_bytes()].concat());
            let note = format!("log.example.test\n1\n{}\n", base64(&root));
            let signature = [&id[..4], &self.log.sign(note.as_bytes())].concat();
            let checkpoint = format!("{note}\n\u{2014} log.example.test {}\n", base64(signature));
            entry["inclusionProof"] = json!({
                "logIndex": "0", "rootHash": base64(&root), "treeSize": "1", "hashes": [],
                "checkpoint": {"envelope": checkpoint},
            });
        }
        entry
    }

    /// A bundle that signs an artifact keyless, as cosign makes it.
    pub(crate) fn bundle(&self, signing: &Signing<'_>) -> Value {
        let key = Key::new();
        let certificate = self.certificate(&key, signing);
        let verifier = pem("CERTIFICATE", &certificate);
        let material = json!({"rawBytes": base64(&certificate)});
        self.statement(&key, ("certificate", &material), &verifier, signing)
    }

    /// A bundle that signs an artifact with a key. The log has it if `signing` says so.
    pub(crate) fn key_bundle(&self, key: &Key, signing: &Signing<'_>) -> Value {
        let verifier = pem("PUBLIC KEY", &key.public());
        self.statement(key, ("publicKey", &json!({"hint": ""})), &verifier, signing)
    }

    fn statement(
        &self,
        key: &Key,
        (by, material): (&str, &Value),
        verifier: &str,
        signing: &Signing<'_>,
    ) -> Value {
        let digest = signing.digest.strip_prefix("sha256:").unwrap();
        let payload = json!({
            "_type": "https://in-toto.io/Statement/v1", "subject": [{"digest": {"sha256": digest}}],
            "predicateType": signing.predicate, "predicate": {},
        })
        .to_string();
        let kind = "application/vnd.in-toto+json";
        let signed = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
        let signature = base64(key.sign(signed.as_bytes()));
        let envelope = json!({
            "payload": base64(&payload), "payloadType": kind, "signatures": [{"sig": signature}],
        });
        let body = json!({"apiVersion": "0.0.1", "kind": "dsse", "spec": {
            "envelopeHash": {"algorithm": "sha256", "value": hex(&sha256(envelope.to_string().as_bytes()))},
            "payloadHash": {"algorithm": "sha256", "value": hex(&sha256(payload.as_bytes()))},
            "signatures": [{"signature": signature, "verifier": base64(verifier)}],
        }});
        let logged = signing.promise || signing.proof;
        let entries = if logged { vec![self.entry("dsse", &body, signing)] } else { Vec::new() };
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {by: material, "tlogEntries": entries},
            "dsseEnvelope": envelope,
        })
    }

    /// The payload of a `.sig` tag and its layer's annotations, keyless.
    pub(crate) fn simple(&self, signing: &Signing<'_>) -> (String, Value) {
        let key = Key::new();
        let certificate = pem("CERTIFICATE", &self.certificate(&key, signing));
        let payload = payload(signing.digest);
        let signature = base64(key.sign(payload.as_bytes()));
        let body = json!({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": {
            "data": {"hash": {"algorithm": "sha256", "value": hex(&sha256(payload.as_bytes()))}},
            "signature": {"content": signature, "publicKey": {"content": base64(&certificate)}},
        }})
        .to_string();
        let mut annotations = json!({
            "dev.cosignproject.cosign/signature": signature,
            "dev.sigstore.cosign/certificate": certificate,
            "dev.sigstore.cosign/chain": pem("CERTIFICATE", self.authority.der()),
        });
        if signing.promise {
            let log = json!({"SignedEntryTimestamp": self.promise(&body, signing.at), "Payload": {
                "body": base64(&body), "integratedTime": signing.at, "logIndex": 0,
                "logID": hex(&sha256(&self.log.public())),
            }});
            annotations["dev.sigstore.cosign/bundle"] = json!(log.to_string());
        }
        (payload, annotations)
    }
}

/// What cosign signs for a `.sig` tag.
pub(crate) fn payload(digest: &str) -> String {
    json!({"critical": {
        "identity": {"docker-reference": "registry.example.test/web"}, "image": {"docker-manifest-digest": digest},
        "type": "cosign container image signature",
    }, "optional": null})
    .to_string()
}
