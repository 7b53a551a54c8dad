//! A time-stamping authority (RFC 3161), and the tokens that it makes.

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, SerialNumber,
};
use serde_json::{Value, json};

use super::sigstore::{Key, base64, der, sha256};

/// Tags of DER.
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const TEXT: u8 = 0x0c;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The context tag 0 of a structure.
const FIELD: u8 = 0xa0;

/// Object identifiers, as DER has them.
const SHA_256: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];
const ECDSA_SHA_256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const CONTENT_TYPE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x03];
const MESSAGE_DIGEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x04];
const SIGNED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02];
const TST_INFO: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x10, 0x01, 0x04];
/// A policy for tests.
const POLICY: &[u8] = &[0x2a, 0x03, 0x04];

const NAME: &str = "test time authority";
const SERIAL: u8 = 9;

/// The authority: every one has the same name and serial number, so that only keys tell them apart.
pub(crate) struct TimeAuthority {
    root: CertifiedIssuer<'static, KeyPair>,
    key: Key,
    certificate: Vec<u8>,
}

fn seal(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    der(tag, &parts.concat())
}

fn algorithm(oid: &[u8]) -> Vec<u8> {
    seal(SEQUENCE, &[&der(OID, oid)])
}

/// A time as certificates and tokens have it. `at`: seconds since 1970.
pub(crate) fn generalized(at: i64) -> String {
    Timestamp::from_second(at).unwrap().strftime("%Y%m%d%H%M%SZ").to_string()
}

impl TimeAuthority {
    pub(crate) fn new() -> Self {
        let params = || {
            let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, NAME);
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2090, 1, 1);
            params
        };
        let mut own = params();
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = CertifiedIssuer::self_signed(own, KeyPair::generate().unwrap()).unwrap();
        let mut leaf = params();
        leaf.serial_number = Some(SerialNumber::from(u64::from(SERIAL)));
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::TimeStamping];
        let key = Key::new();
        let certificate = leaf.signed_by(&key.certified, &root).unwrap().der().to_vec();
        Self { root, key, certificate }
    }

    /// The authority in a `trusted_root.json`.
    pub(crate) fn trusted(&self) -> Value {
        let certificates = [&self.certificate[..], self.root.der()].map(|c| json!({"rawBytes": base64(c)}));
        json!({
            "uri": "https://time.example.test", "validFor": {"start": "2020-01-01T00:00:00Z"},
            "certChain": {"certificates": certificates},
        })
    }

    /// A response (`TimeStampResp`) for a signature. `at`: seconds since 1970.
    pub(crate) fn stamp(&self, signature: &[u8], at: i64) -> Vec<u8> {
        let (digest_algorithm, tst_info) = (algorithm(SHA_256), der(OID, TST_INFO));
        let imprint = seal(SEQUENCE, &[&digest_algorithm, &der(OCTETS, &sha256(signature))]);
        let (version, policy, serial) = (der(INTEGER, &[1]), der(OID, POLICY), der(INTEGER, &[1]));
        let time = der(TIME, generalized(at).as_bytes());
        let info = seal(SEQUENCE, &[&version, &policy, &imprint, &serial, &time]);

        let attribute = |oid: &[u8], value: &[u8]| seal(SEQUENCE, &[&der(OID, oid), &der(SET, value)]);
        let kind = attribute(CONTENT_TYPE, &tst_info);
        let digest = attribute(MESSAGE_DIGEST, &der(OCTETS, &sha256(&info)));
        let attributes = [kind, digest].concat();
        let signed = self.key.sign(&der(SET, &attributes));

        let name = seal(SEQUENCE, &[&der(OID, COMMON_NAME), &der(TEXT, NAME.as_bytes())]);
        let issuer = der(SEQUENCE, &der(SET, &name));
        let signer = seal(SEQUENCE, &[&issuer, &der(INTEGER, &[SERIAL])]);
        let (attributes, signed) = (der(FIELD, &attributes), der(OCTETS, &signed));
        let signature_algorithm = algorithm(ECDSA_SHA_256);
        let parts: [&[u8]; 6] =
            [&version, &signer, &digest_algorithm, &attributes, &signature_algorithm, &signed];
        let signer = seal(SEQUENCE, &parts);

        let content = seal(SEQUENCE, &[&tst_info, &der(FIELD, &der(OCTETS, &info))]);
        let (digests, signers) = (der(SET, &digest_algorithm), der(SET, &signer));
        let data = seal(SEQUENCE, &[&der(INTEGER, &[3]), &digests, &content, &signers]);
        let token = seal(SEQUENCE, &[&der(OID, SIGNED_DATA), &der(FIELD, &data)]);
        let granted = der(SEQUENCE, &der(INTEGER, &[0]));
        seal(SEQUENCE, &[&granted, &token])
    }
}
