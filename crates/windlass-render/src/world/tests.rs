//! Keys and certificates that templates generate in the real world, each signature verified with its key; and the local time zone.

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chart_compat::chart::{File, load_files};
use chart_compat::data::Map;
use chart_compat::profile::Profile;
use chart_compat::render::{Capabilities, CompiledChart, Options, Release};
use chart_compat::template::Limits;

use super::{PathBuf, SystemWorld, check_whole, zone_name};
use crate::replay::LookupQuery;

/// Renders a template and returns its output, line by line.
fn render(template: &str) -> Vec<String> {
    let files = vec![
        File::new("Chart.yaml".to_owned(), b"{apiVersion: v2, name: keys, version: 1.0.0}".to_vec()),
        File::new("templates/x.yaml".to_owned(), format!("text: |-\n{template}").into_bytes()),
    ];
    let chart = load_files(files, Profile::Helm4, &mut |w| panic!("{w}")).unwrap();
    let options = Options {
        release: Release {
            name: "r".to_owned(),
            namespace: "default".to_owned(),
            revision: 1,
            is_upgrade: false,
        },
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: false,
        limits: Limits::default(),
    };
    let rendered = CompiledChart::new(chart, Profile::Helm4)
        .render(&Map::new(), &options, &SystemWorld::default(), &mut |w| panic!("{w}"))
        .unwrap();
    // What templates print here is base64 of PEM, nothing else.
    rendered.manifests[0]
        .text
        .lines()
        .map(str::trim)
        .filter(|l| l.starts_with("LS0t"))
        .map(str::to_owned)
        .collect()
}

/// The elements of DER content.
fn elements(mut der: &[u8]) -> Vec<Element<'_>> {
    let mut out = Vec::new();
    while let [tag, first, rest @ ..] = der {
        let (length, rest) = match first {
            short @ 0..0x80 => (usize::from(*short), rest),
            long => {
                let (digits, rest) = rest.split_at(usize::from(long & 0x7f));
                (digits.iter().fold(0, |n, d| n << 8 | usize::from(*d)), rest)
            }
        };
        out.push((*tag, &rest[..length]));
        der = &rest[length..];
    }
    out
}

/// Tag and content.
type Element<'d> = (u8, &'d [u8]);

struct Certificate {
    der: Vec<u8>,
}

impl Certificate {
    fn read(base64_of_pem: &str) -> Self {
        let pem = String::from_utf8(STANDARD.decode(base64_of_pem).unwrap()).unwrap();
        let body = pem
            .strip_prefix("-----BEGIN CERTIFICATE-----\n")
            .and_then(|p| p.strip_suffix("-----END CERTIFICATE-----\n"))
            .unwrap();
        Self { der: STANDARD.decode(body.replace('\n', "")).unwrap() }
    }

    /// The signed part's elements, the signed part itself and the signature.
    fn parts(&self) -> (Vec<Element<'_>>, &[u8], &[u8]) {
        let whole = elements(&self.der)[0].1;
        let parts = elements(whole);
        let signed = whole.len() - elements(whole)[1..].iter().map(|e| size(e.1)).sum::<usize>();
        (elements(parts[0].1), &whole[..signed], &parts[2].1[1..])
    }

    fn public_key(&self) -> Vec<u8> {
        let (tbs, ..) = self.parts();
        elements(tbs[6].1)[1].1[1..].to_vec()
    }

    fn is_signed_by(&self, authority: &Self, algorithm: &'static dyn VerificationAlgorithm) -> bool {
        let (tbs, message, signature) = self.parts();
        // The issuer is the authority's subject, and the fourth element of ours.
        assert_eq!(tbs[3], authority.parts().0[5]);
        UnparsedPublicKey::new(algorithm, authority.public_key()).verify(message, signature).is_ok()
    }
}

/// The encoded length of an element with this content.
fn size(content: &[u8]) -> usize {
    let head = match content.len() {
        0..0x80 => 2,
        0x80..0x100 => 3,
        _ => 4,
    };
    head + content.len()
}

#[test]
fn an_authority_signs_what_its_key_verifies() {
    let lines = render(
        r#"
  {{- $ca := genCA "authority" 365 }}
  {{ $ca.Cert | b64enc }}
  {{ (genSignedCert "leaf" (list "10.0.0.1") (list "a.example") 30 $ca).Cert | b64enc }}
  {{ (genSelfSignedCert "alone" nil nil 30).Cert | b64enc }}
"#,
    );
    let [ca, leaf, alone] = [0, 1, 2].map(|n| Certificate::read(&lines[n]));
    let rsa = &signature::RSA_PKCS1_2048_8192_SHA256;
    assert!(ca.is_signed_by(&ca, rsa));
    assert!(leaf.is_signed_by(&ca, rsa));
    assert!(alone.is_signed_by(&alone, rsa));
    let (_, message, signature) = leaf.parts();
    assert!(UnparsedPublicKey::new(rsa, alone.public_key()).verify(message, signature).is_err());
}

#[test]
fn keys_say_what_they_are() {
    let lines = render(
        r#"
  {{ genPrivateKey "ecdsa" | b64enc }}
  {{ genPrivateKey "ed25519" | b64enc }}
  {{ (genCA "authority" 1).Key | b64enc }}
"#,
    );
    for (line, kind) in lines.iter().zip(["EC PRIVATE KEY", "PRIVATE KEY", "RSA PRIVATE KEY"]) {
        let text = String::from_utf8(STANDARD.decode(line).unwrap()).unwrap();
        assert!(text.starts_with(&format!("-----BEGIN {kind}-----\n")), "{text}");
    }
    assert_eq!(lines.len(), 3);
}

#[test]
fn keys_of_other_kinds_sign_too() {
    let algorithms: [(&str, &'static dyn VerificationAlgorithm); 4] = [
        ("ecdsa", &signature::ECDSA_P256_SHA256_ASN1),
        ("ed25519", &signature::ED25519),
        ("P-384", &signature::ECDSA_P384_SHA384_ASN1),
        ("P-521", &signature::ECDSA_P521_SHA512_ASN1),
    ];
    // Templates cannot generate keys of these curves, only use given ones.
    let brought = |curve: &'static signature::EcdsaSigningAlgorithm| {
        let key = signature::EcdsaKeyPair::generate(curve).unwrap();
        let der = STANDARD.encode(key.to_pkcs8v1().unwrap().as_ref());
        format!("\"-----BEGIN PRIVATE KEY-----\\n{der}\\n-----END PRIVATE KEY-----\\n\"")
    };
    for (kind, algorithm) in algorithms {
        let key = match kind {
            "P-384" => brought(&signature::ECDSA_P384_SHA384_ASN1_SIGNING),
            "P-521" => brought(&signature::ECDSA_P521_SHA512_ASN1_SIGNING),
            made => format!("(genPrivateKey \"{made}\")"),
        };
        let lines = render(&format!(
            r#"
  {{{{- $ca := genCAWithKey "authority" 365 {key} }}}}
  {{{{ $ca.Cert | b64enc }}}}
  {{{{ (genSignedCertWithKey "leaf" nil nil 30 $ca $ca.Key).Cert | b64enc }}}}
"#
        ));
        let [ca, leaf] = [0, 1].map(|n| Certificate::read(&lines[n]));
        assert!(ca.is_signed_by(&ca, algorithm), "{kind}");
        assert!(leaf.is_signed_by(&ca, algorithm), "{kind}");
        assert_eq!(ca.public_key(), leaf.public_key(), "{kind}");
    }
}

#[test]
fn the_local_zone_is_where_go_looks_for_it() {
    let of = |variable: Option<&str>, link: Option<&str>| {
        zone_name(variable.map(str::to_owned), || link.map(PathBuf::from))
    };
    for (variable, link, zone) in [
        (Some("Europe/Berlin"), None, "Europe/Berlin"),
        (Some(":Europe/Berlin"), None, "Europe/Berlin"),
        (Some("/usr/share/zoneinfo/Asia/Tokyo"), None, "Asia/Tokyo"),
        (Some(""), Some("/usr/share/zoneinfo/Asia/Tokyo"), "UTC"),
        (None, Some("/usr/share/zoneinfo/America/Argentina/Salta"), "America/Argentina/Salta"),
        (None, Some("/etc/localtime"), "/etc/localtime"),
        (None, None, "UTC"),
    ] {
        assert_eq!(of(variable, link), zone, "{variable:?} {link:?}");
    }
}

#[test]
fn an_answer_with_omitted_values_is_an_error_that_names_what_was_asked_for() {
    let whole = serde_json::json!({"spec": {"deep": [[1]]}});
    let cut = serde_json::json!({"items": [{"spec": {"deep": ["windlass.dev/nested-too-deeply"]}}]});
    for (namespace, name, expected) in [
        ("shop", "web", "Widget shop/web has values"),
        ("", "web", "Widget web has values"),
        ("shop", "", "an object in the list of Widget in namespace shop has values"),
        ("", "", "an object in the list of Widget has values"),
    ] {
        let query = LookupQuery {
            api_version: "a.io/v1".to_owned(),
            kind: "Widget".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        assert!(check_whole(&whole, &query).is_ok());
        let error = check_whole(&cut, &query).unwrap_err().to_string();
        assert!(error.starts_with(expected) && error.contains("make them flatter"), "{error}");
    }
}
