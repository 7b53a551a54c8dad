//! Charts that cosign signed, with a key and keyless: what proves it, where registries keep it, and what is refused.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::server::Server;
use super::sigstore::{IDENTITY, ISSUER, Instance, Key, SIGNED_AT, Signing, hex, payload, pem};
use super::support::{User, chart};
use super::timestamps::generalized;

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

fn sha(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// A chart in a registry, and whoever pulls it.
struct Bench {
    server: Server,
    user: User,
    /// The digest of the chart's manifest.
    digest: String,
}

impl Bench {
    fn new() -> Self {
        let (server, user) = (Server::plain(), User::new());
        chart(&user.path("web"), "web", "1.2.3", "");
        user.ok(&["package", "web"]);
        let package = fs::read(user.path("web-1.2.3.tgz")).unwrap();
        fs::remove_file(user.path("web-1.2.3.tgz")).unwrap();
        let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
        let manifest = json!({"schemaVersion": 2,
            "config": {"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": sha(b"{}"), "size": 2},
            "layers": [{"mediaType": layer, "digest": sha(&package), "size": package.len()}],
        })
        .to_string();
        let digest = sha(manifest.as_bytes());
        server.body("/v2/web/manifests/1.2.3", manifest);
        server.body(&format!("/v2/web/blobs/{}", sha(&package)), package);
        Self { server, user, digest }
    }

    fn reference(&self) -> String {
        format!("oci://{}/web:1.2.3", self.server.url.strip_prefix("http://").unwrap())
    }

    fn tag(&self, suffix: &str) -> String {
        format!("/v2/web/manifests/{}{suffix}", self.digest.replace(':', "-"))
    }

    fn api(&self) -> String {
        let kind = BUNDLE.replace('/', "%2F").replace('+', "%2B");
        format!("/v2/web/referrers/{}?artifactType={kind}", self.digest)
    }

    /// Puts bundles into the registry; returns the index of what refers to the chart.
    fn index(&self, bundles: &[Value]) -> String {
        let entry = |bundle: &Value| {
            let text = bundle.to_string();
            let layer = json!({"mediaType": BUNDLE, "digest": sha(text.as_bytes()), "size": text.len()});
            let manifest = json!({"schemaVersion": 2, "artifactType": BUNDLE, "layers": [layer]}).to_string();
            let digest = sha(manifest.as_bytes());
            self.server.body(&format!("/v2/web/blobs/{}", sha(text.as_bytes())), text);
            let media = "application/vnd.oci.image.manifest.v1+json";
            let entry =
                json!({"mediaType": media, "digest": digest, "size": manifest.len(), "artifactType": BUNDLE});
            self.server.body(&format!("/v2/web/manifests/{digest}"), manifest);
            entry
        };
        json!({"schemaVersion": 2, "manifests": bundles.iter().map(entry).collect::<Vec<_>>()}).to_string()
    }

    /// From now on the registry has such bundles.
    fn refer(&self, bundles: &[Value]) {
        let index = self.index(bundles);
        self.server.body(&self.api(), index);
    }

    /// From now on the `.sig` tag has one such signature.
    fn attach(&self, payload: &str, annotations: &Value) {
        let media = "application/vnd.dev.cosign.simplesigning.v1+json";
        let (digest, size) = (sha(payload.as_bytes()), payload.len());
        self.server.body(&format!("/v2/web/blobs/{digest}"), payload);
        let layer = json!({"mediaType": media, "digest": digest, "size": size, "annotations": annotations});
        self.server.body(&self.tag(".sig"), json!({"schemaVersion": 2, "layers": [layer]}).to_string());
    }

    fn pull(&self, flags: &[&str]) -> Result<(), String> {
        let reference = self.reference();
        let said = self.user.ours(&[&["pull", &reference, "--plain-http"], flags].concat());
        let package = self.user.path("web-1.2.3.tgz");
        assert_eq!(package.exists(), said.ok);
        if said.ok {
            fs::remove_file(package).unwrap();
            Ok(())
        } else {
            Err(said.err)
        }
    }
}

/// What it is, the bundle, and what comes of it without a log and with one.
type Case<'c> = (&'c str, Value, Result<(), &'c str>, Result<(), &'c str>);

fn keyless(root: &str) -> [&str; 6] {
    ["--cosign-identity", IDENTITY, "--cosign-issuer", ISSUER, "--cosign-trusted-root", root]
}

#[test]
fn keyless_bundles_prove_identity_issuer_and_time() {
    let bench = Bench::new();
    let (instance, foreign) = (Instance::new(), Instance::new());
    bench.user.write("root.json", &instance.trusted_root());
    let flags = keyless("root.json");
    let good = Signing::new(&bench.digest);
    let unsigned = bench.pull(&flags).unwrap_err();
    assert!(unsigned.contains("no cosign signature found"), "{unsigned}");
    bench.refer(&[instance.bundle(&good)]);
    assert_eq!(bench.pull(&flags), Ok(()));

    let changed = |change: &dyn Fn(&mut Value)| {
        let mut bundle = instance.bundle(&good);
        change(&mut bundle);
        bundle
    };
    let other = sha(b"another artifact");
    let cases: [(&str, Value, &str); 13] = [
        (
            "another identity",
            instance.bundle(&Signing { identity: "https://evil.example.test", ..good.clone() }),
            "it is of the identity \"https://evil.example.test\"",
        ),
        (
            "another issuer",
            instance.bundle(&Signing { issuer: "https://evil.example.test", ..good.clone() }),
            "it is by the issuer \"https://evil.example.test\"",
        ),
        ("another artifact", instance.bundle(&Signing::new(&other)), "it is of another artifact"),
        (
            "a statement of something else",
            instance.bundle(&Signing { predicate: "https://slsa.dev/provenance/v1", ..good.clone() }),
            "which does not sign the artifact",
        ),
        ("another instance", foreign.bundle(&good), "No log key valid at integrated time"),
        (
            "a certificate that was not logged",
            instance.bundle(&Signing { logged_certificate: false, ..good.clone() }),
            "SCT",
        ),
        (
            "no promise of the log, so no time of signing",
            instance.bundle(&Signing { promise: false, ..good.clone() }),
            "No verified timestamp found",
        ),
        (
            "no proof of the log",
            instance.bundle(&Signing { proof: false, ..good.clone() }),
            "inclusion proof",
        ),
        (
            "no log at all",
            instance.bundle(&Signing { promise: false, proof: false, ..good.clone() }),
            "inclusion proof",
        ),
        (
            "signed when the certificate had expired",
            instance.bundle(&Signing { at: SIGNED_AT + 7 * 86400, ..good.clone() }),
            "CertExpired",
        ),
        (
            "another time than the log promised",
            changed(&|b| {
                let time = (SIGNED_AT - 60).to_string();
                b["verificationMaterial"]["tlogEntries"][0]["integratedTime"] = json!(time);
            }),
            "SET verification failed",
        ),
        (
            "a changed signature",
            changed(&|b| {
                let foreign = foreign.bundle(&good)["dsseEnvelope"]["signatures"].clone();
                b["dsseEnvelope"]["signatures"] = foreign;
            }),
            "signature",
        ),
        (
            "a changed statement",
            changed(&|b| {
                let payload = b["dsseEnvelope"]["payload"].as_str().unwrap().to_owned();
                let longer = [&STANDARD.decode(payload).unwrap()[..], b" "].concat();
                b["dsseEnvelope"]["payload"] = json!(STANDARD.encode(longer));
            }),
            "DSSE signature verification failed",
        ),
    ];
    for (what, bundle, want) in cases {
        bench.refer(&[bundle]);
        let error = bench.pull(&flags).expect_err(what);
        let start =
            format!("none of 1 cosign signatures is of the identity {IDENTITY} by the issuer {ISSUER}");
        assert!(error.contains(&start) && error.contains(want), "{what}: {error}");
    }
    // One that holds is enough, whatever lies beside it.
    bench.refer(&[foreign.bundle(&good), instance.bundle(&good)]);
    assert_eq!(bench.pull(&flags), Ok(()));
    // Those of the public instance are trusted where no others are named.
    let error = bench.pull(&flags[..4]).unwrap_err();
    let want = "the built-in trusted root is not refreshed; --cosign-trusted-root gives another";
    assert!(error.contains("none of 2 cosign signatures") && error.contains(want), "{error}");
}

#[test]
fn patterns_match_whole_identities_and_issuers() {
    let bench = Bench::new();
    let instance = Instance::new();
    bench.user.write("root.json", &instance.trusted_root());
    bench.refer(&[instance.bundle(&Signing::new(&bench.digest))]);
    for (identity, issuer, good) in [
        ("https://git\\.example\\.test/web/.*@refs/heads/(main|next)", "https://.*\\.example\\.test", true),
        (".*", ".*", true),
        ("https://git\\.example\\.test/web/", ".*", false),
        ("web|https://git\\.example\\.test/web/.*", ".*", true),
        ("x)|(.*", ".*", false),
        (".*", "example", false),
        (".*", "(", false),
    ] {
        let flags = ["--cosign-identity-regexp", identity, "--cosign-issuer-regexp", issuer];
        let flags = [&flags[..], &["--cosign-trusted-root", "root.json"]].concat();
        assert_eq!(bench.pull(&flags).is_ok(), good, "{identity} {issuer}");
    }
}

#[test]
fn bundles_are_found_by_the_api_and_by_the_tag() {
    let bench = Bench::new();
    let instance = Instance::new();
    bench.user.write("root.json", &instance.trusted_root());
    let flags = keyless("root.json");
    let index = bench.index(&[instance.bundle(&Signing::new(&bench.digest))]);
    bench.server.body(&bench.tag(""), index);
    assert_eq!(bench.pull(&flags), Ok(()));
    bench.server.answer(&bench.api(), super::server::Answer::Status(500));
    let error = bench.pull(&flags).unwrap_err();
    assert!(error.contains("500 Internal Server Error"), "{error}");
    bench.server.body(&bench.api(), "no json");
    let error = bench.pull(&flags).unwrap_err();
    assert!(error.contains("the registry's answer is wrong: referrers"), "{error}");
}

#[test]
fn keys_sign_bundles_with_a_log_and_without() {
    let bench = Bench::new();
    let instance = Instance::new();
    let (own, other) = (Key::new(), Key::new());
    bench.user.write("root.json", &instance.trusted_root());
    bench.user.write("own.pub", &pem("PUBLIC KEY", &own.public()));
    let logged = Signing::new(&bench.digest);
    let alone = Signing { promise: false, proof: false, ..logged.clone() };
    let artifact = sha(b"another artifact");
    let with_root: &[&str] = &["--cosign-key", "own.pub", "--cosign-trusted-root", "root.json"];
    let key_only = &with_root[..2];
    let cases: [Case<'_>; 5] = [
        ("in the log", instance.key_bundle(&own, &logged), Ok(()), Ok(())),
        ("in no log", instance.key_bundle(&own, &alone), Ok(()), Err("must have an inclusion proof")),
        ("of another key", instance.key_bundle(&other, &logged), Err("none of 1"), Err("none of 1")),
        (
            "of another artifact",
            instance.key_bundle(&own, &Signing { digest: &artifact, ..logged.clone() }),
            Err("it is of another artifact"),
            Err("it is of another artifact"),
        ),
        ("keyless", instance.bundle(&logged), Err("not of a key"), Err("contains a certificate")),
    ];
    for (what, bundle, alone, with_log) in cases {
        bench.refer(&[bundle]);
        for (flags, want) in [(key_only, alone), (with_root, with_log)] {
            match (bench.pull(flags), want) {
                (Ok(()), Ok(())) => {}
                (Err(e), Err(want)) => assert!(e.contains(want), "{what}: {e}"),
                (got, _) => panic!("{what}: {got:?}"),
            }
        }
    }
}

#[test]
fn tags_of_older_versions_of_cosign_hold_keyless_signatures() {
    let bench = Bench::new();
    let (instance, foreign) = (Instance::new(), Instance::new());
    bench.user.write("root.json", &instance.trusted_root());
    let flags = keyless("root.json");
    let good = Signing::new(&bench.digest);
    let (text, annotations) = instance.simple(&good);
    bench.attach(&text, &annotations);
    assert_eq!(bench.pull(&flags), Ok(()));
    let other = sha(b"another artifact");
    let with = |name: &str, value: Option<&str>| {
        let (text, mut annotations) = instance.simple(&good);
        match value {
            Some(value) => annotations[name] = json!(value),
            None => drop(annotations.as_object_mut().unwrap().remove(name)),
        }
        (text, annotations)
    };
    let identity = "https://evil.example.test";
    let cases: [(&str, (String, Value), &str); 8] = [
        ("another artifact", instance.simple(&Signing::new(&other)), "it is of another artifact"),
        ("another identity", instance.simple(&Signing { identity, ..good.clone() }), "it is of the identity"),
        ("another instance", foreign.simple(&good), "No log key valid at integrated time"),
        (
            "no entry of a log",
            instance.simple(&Signing { promise: false, ..good.clone() }),
            "it has no entry of a transparency log",
        ),
        ("no certificate", with("dev.sigstore.cosign/certificate", None), "it has no certificate"),
        ("a certificate that is none", with("dev.sigstore.cosign/certificate", Some("x")), "certificate"),
        (
            "signed when the certificate had expired",
            instance.simple(&Signing { at: SIGNED_AT + 7 * 86400, ..good.clone() }),
            "CertExpired",
        ),
        (
            "a changed payload",
            (payload(&bench.digest).replace("null", "true"), annotations),
            "invalid signature",
        ),
    ];
    for (what, (text, annotations), want) in cases {
        bench.attach(&text, &annotations);
        let error = bench.pull(&flags).expect_err(what);
        assert!(error.contains("none of 1 cosign signatures") && error.contains(want), "{what}: {error}");
    }
}

/// Replaces the only occurrence of a part.
fn replaced(bytes: &[u8], part: &[u8], by: &[u8]) -> Vec<u8> {
    let at = bytes.windows(part.len()).position(|w| w == part).unwrap();
    [&bytes[..at], by, &bytes[at + part.len()..]].concat()
}

#[test]
fn timestamps_of_a_trusted_authority_prove_the_time_of_signing() {
    let bench = Bench::new();
    let (instance, foreign) = (Instance::new(), Instance::new());
    bench.user.write("root.json", &instance.trusted_root());
    let flags = keyless("root.json");
    // The log promises nothing, so the time in its entry proves nothing; the certificate expired long ago.
    let bundle = instance.bundle(&Signing { promise: false, ..Signing::new(&bench.digest) });
    let signature =
        STANDARD.decode(bundle["dsseEnvelope"]["signatures"][0]["sig"].as_str().unwrap()).unwrap();
    let with = |stamp: &[u8]| {
        let mut bundle = bundle.clone();
        let stamps = json!([{"signedTimestamp": STANDARD.encode(stamp)}]);
        bundle["verificationMaterial"]["timestampVerificationData"] = json!({"rfc3161Timestamps": stamps});
        bundle
    };
    let late = SIGNED_AT + 7 * 86400;
    let stamp = instance.times.stamp(&signature, SIGNED_AT);
    bench.refer(&[with(&stamp)]);
    assert_eq!(bench.pull(&flags), Ok(()));

    let late_stamp = instance.times.stamp(&signature, late);
    let times = [generalized(late), generalized(SIGNED_AT)];
    let backdated = replaced(&late_stamp, times[0].as_bytes(), times[1].as_bytes());
    let cases = [
        ("no timestamp", bundle.clone(), "No verified timestamp found"),
        ("another signature", with(&instance.times.stamp(b"another", SIGNED_AT)), "hash mismatch"),
        (
            "an unknown authority",
            with(&foreign.times.stamp(&signature, SIGNED_AT)),
            "verify timestamp signature",
        ),
        ("signed when the certificate had expired", with(&late_stamp), "CertExpired"),
        ("a changed time", with(&backdated), "hash mismatch"),
        ("no token", with(b"no token"), "failed to decode TimeStampToken"),
    ];
    for (what, bundle, want) in cases {
        bench.refer(&[bundle]);
        let error = bench.pull(&flags).expect_err(what);
        assert!(error.contains("none of 1 cosign signatures") && error.contains(want), "{what}: {error}");
    }
    let mut root: Value = serde_json::from_str(&instance.trusted_root()).unwrap();
    root["timestampAuthorities"] = json!([]);
    bench.user.write("bare.json", &root.to_string());
    bench.refer(&[with(&stamp)]);
    let error = bench.pull(&keyless("bare.json")).unwrap_err();
    assert!(error.contains("no timestamp authorities configured"), "{error}");
}
