//! Servers of sources that misbehave, for each kind of source: what the condition says, and that the source recovers by itself.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::sources::{Fault, Files, git, message, publish_repository, source};
use super::support::{Running, chart, digest};

const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Everything that a source can be, at one server.
pub(crate) async fn everything(repository: &std::path::Path) -> (Files, SocketAddr) {
    let files = Files::default();
    let address = files.serve().await;
    let first = files.chart("1.0.0", &[]);
    files.index(&[(first.0, &first.1, first.2.clone())]);
    // A registry that has one artifact.
    let package = chart("1.0.0", &[]);
    let config = b"{}".to_vec();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": digest(&config), "size": config.len()},
        "layers": [{"mediaType": CHART, "digest": digest(&package), "size": package.len()}],
    })
    .to_string();
    for blob in [package, config] {
        files.put(&format!("/v2/charts/demo/blobs/{}", digest(&blob)), blob);
    }
    for name in ["1.0.0".to_owned(), digest(manifest.as_bytes())] {
        files.put(&format!("/v2/charts/demo/manifests/{name}"), manifest.clone());
    }
    files.put("/v2/", "{}");
    files.put(
        "/bucket",
        "<ListBucketResult><Contents><Key>a.yaml</Key><ETag>e</ETag><Size>2</Size></Contents></ListBucketResult>",
    );
    files.put("/bucket/a.yaml", "{}");
    std::fs::write(repository.join("a.yaml"), "{}").unwrap();
    git(repository, &["init", "--quiet", "-b", "main"]);
    git(repository, &["add", "-A"]);
    git(repository, &["commit", "--quiet", "-m", "first"]);
    publish_repository(repository, &files);
    (files, address)
}

/// Name, kind and spec of a source of each kind at a server; `tls`: with HTTPS, and certificates of a Secret.
fn sources(server: &str, tls: Option<&str>) -> Vec<(&'static str, &'static str, Value)> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut all = vec![
        ("index", "HelmRepository", json!({"url": format!("{scheme}://{server}")})),
        (
            "oci",
            "OCIRepository",
            json!({"url": format!("oci://{server}/charts/demo"), "insecure": tls.is_none(), "ref": {"tag": "1.0.0"},
                "layerSelector": {"mediaType": CHART, "operation": "copy"}}),
        ),
        (
            "git",
            "GitRepository",
            json!({"url": format!("{scheme}://{server}/repository.git"), "ref": {"branch": "main"}}),
        ),
        (
            "bucket",
            "Bucket",
            json!({"bucketName": "bucket", "endpoint": server, "insecure": tls.is_none(), "provider": "generic"}),
        ),
    ];
    for (_, kind, spec) in &mut all {
        (spec["interval"], spec["timeout"]) = ("1h".into(), "2s".into());
        if let Some(secret) = tls {
            let field = if *kind == "GitRepository" { "secretRef" } else { "certSecretRef" };
            spec[field] = json!({"name": secret});
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_servers_give_plain_conditions_and_sources_recover() {
    let mut running = Running::prepare("faults").await;
    let repository = tempfile::tempdir().unwrap();
    let (files, address) = everything(repository.path()).await;
    let other = Files::default();
    let elsewhere = other.serve().await;
    let storage = tempfile::tempdir().unwrap();
    running.start_with_sources(storage.path()).await;
    let all = sources(&address.to_string(), None);
    let redirect = Fault::Redirect(format!("http://{elsewhere}/login"));
    // What each kind says, in the order of `sources`.
    for (at, (fault, said)) in [
        (
            Fault::Status(503),
            ["503 Service Unavailable", "503 Service Unavailable", "503", "503 Service Unavailable"],
        ),
        (Fault::Status(404), ["404 Not Found", "not found", "not found", "bucket 'bucket' not found"]),
        (
            Fault::Status(401),
            [
                "401 Unauthorized",
                "a secretRef with a login for it is missing",
                "Authentication failed",
                "401 Unauthorized",
            ],
        ),
        (
            Fault::Hang,
            [
                "context deadline exceeded",
                "context deadline exceeded",
                "no end within 2 seconds",
                "context deadline exceeded",
            ],
        ),
        (
            Fault::Trickle,
            [
                "context deadline exceeded",
                "context deadline exceeded",
                "no end within 2 seconds",
                "context deadline exceeded",
            ],
        ),
        (Fault::Truncated, ["unexpected EOF", "unexpected EOF", "", "unexpected EOF"]),
        (Fault::Garbage, ["", "", "", "malformed"]),
        (redirect, ["404 Not Found", "not found", "", "bucket 'bucket' not found"]),
    ]
    .into_iter()
    .enumerate()
    {
        files.fail(Some(fault.clone()));
        for (name, kind, spec) in &all {
            running.apply(&source(kind, &format!("{name}-{at}"), spec));
        }
        for ((name, kind, _), text) in all.iter().zip(said) {
            let (kind, name) = (kind.to_lowercase(), format!("{name}-{at}"));
            let object = running.source_with(&kind, &name, "False");
            let told = message(&object, "FetchFailed");
            println!("{fault:?} {kind}: {told}");
            assert!(told.contains(text) && !told.is_empty(), "{fault:?} {kind}: {told}");
            assert!(!told.contains("registry login"), "{fault:?} {kind}: {told}");
            assert!(told.len() < 1000 && !told.contains('\u{1b}'), "{fault:?} {kind}: {told}");
        }
        files.fail(None);
        for (name, kind, _) in &all {
            let (kind, name) = (kind.to_lowercase(), format!("{name}-{at}"));
            running.reconcile_source(&kind, &name, "again");
            let object = running.ready_source(&kind, &name);
            assert_eq!(message(&object, "FetchFailed"), "", "{fault:?} {kind}");
        }
    }
    running.end().await;
}

/// The PEM of an authority, and of a server's certificate and key.
fn certificates(name: &str, expired: bool) -> (String, String, String) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    if expired {
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    }
    (authority.pem(), params.signed_by(&key, &authority).unwrap().pem(), key.serialize_pem())
}

/// A server with TLS before another one.
async fn with_tls(upstream: SocketAddr, chain: &str, key: &str) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let acceptor =
        TlsAcceptor::from(Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not like the certificate goes away.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut server = TcpStream::connect(upstream).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut stream, &mut server).await);
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_certificates_are_named_and_right_ones_noticed() {
    let mut running = Running::prepare("certs").await;
    let repository = tempfile::tempdir().unwrap();
    let (_files, address) = everything(repository.path()).await;
    let storage = tempfile::tempdir().unwrap();
    running.start_with_sources(storage.path()).await;
    let (authority, chain, key) = certificates("one", false);
    let (other, ..) = certificates("two", false);
    let good = with_tls(address, &chain, &key).await;
    let (old_authority, chain, key) = certificates("old", true);
    let expired = with_tls(address, &chain, &key).await;
    let secret = |name: &str, ca: &str| {
        running.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"ca.crt": ca},
        }));
    };
    for (name, server, ca, texts) in [
        (
            "unknown",
            good,
            &other,
            [
                "signed by unknown authority",
                "signed by unknown authority",
                "certificate",
                "signed by unknown authority",
            ],
        ),
        (
            "expired",
            expired,
            &old_authority,
            ["certificate has expired", "certificate has expired", "certificate", "certificate has expired"],
        ),
    ] {
        secret(name, ca);
        let all = sources(&server.to_string(), Some(name));
        for (kind_name, kind, spec) in &all {
            running.apply(&source(kind, &format!("{kind_name}-{name}"), spec));
        }
        for ((kind_name, kind, _), text) in all.iter().zip(texts) {
            let object = running.source_with(&kind.to_lowercase(), &format!("{kind_name}-{name}"), "False");
            let told = message(&object, "FetchFailed");
            println!("{name} {kind}: {told}");
            assert!(told.contains(text), "{name} {kind}: {told}");
        }
    }
    // The right certificate in the same Secret is enough.
    secret("unknown", &authority);
    for (name, kind, _) in sources("", Some("unknown")) {
        running.ready_source(&kind.to_lowercase(), &format!("{name}-unknown"));
    }
    running.end().await;
}
