//! A server of charts on this machine: files of a repository, or the manifests and blobs of a registry.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;

/// A certificate of a server on this machine, as PEM, and its authority's.
fn certificates() -> (String, String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "test authority");
    let authority = CertifiedIssuer::self_signed(params, key).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    (authority.pem(), params.signed_by(&key, &authority).unwrap().pem(), key.serialize_pem())
}

/// TLS before a server: its address, and the authority of its certificate.
pub(crate) async fn tls_before(server: SocketAddr) -> (SocketAddr, String) {
    let (authority, chain, key) = certificates();
    let chain = vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not like the certificate goes away.
                let Ok(mut client) = acceptor.accept(stream).await else { return };
                let mut plain = tokio::net::TcpStream::connect(server).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut client, &mut plain).await);
            });
        }
    });
    (address, authority)
}

/// A server of charts that notes the Authorization of each request.
pub(crate) struct ChartServer {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Vec<(String, String)>>>,
}

type Files = BTreeMap<String, Vec<u8>>;

/// What a server has.
#[derive(Clone)]
struct Served {
    files: Arc<Files>,
    /// The Authorization that it requires; empty for none.
    login: String,
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

async fn answer(Shared(served): Shared<Served>, headers: HeaderMap, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let login = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    served.seen.lock().unwrap().push((path.clone(), login.to_owned()));
    if !served.login.is_empty() && served.login != login {
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Basic realm=\"charts\"")]).into_response();
    }
    let kind = if path.contains("/manifests/") {
        "application/vnd.oci.image.manifest.v1+json"
    } else {
        "application/octet-stream"
    };
    match served.files.get(&path) {
        Some(bytes) => ([("content-type", kind)], bytes.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

impl ChartServer {
    pub(crate) async fn start(files: &[(&str, Vec<u8>)]) -> Self {
        let files = files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.clone())).collect();
        Self::serve(files, "").await
    }

    /// A registry with the chart `charts/web` in one version, for this Authorization.
    pub(crate) async fn registry(version: &str, package: &[u8], login: &str) -> Self {
        let config = json!({"apiVersion": "v2", "name": "web", "version": version}).to_string().into_bytes();
        let mut files = Files::new();
        let mut blob = |bytes: &[u8], kind: &str| -> Value {
            let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            files.insert(format!("/v2/charts/web/blobs/sha256:{digest}"), bytes.to_vec());
            json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": bytes.len()})
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob(&config, "application/vnd.cncf.helm.config.v1+json"),
            "layers": [blob(package, "application/vnd.cncf.helm.chart.content.v1.tar+gzip")],
        });
        let manifest = manifest.to_string().into_bytes();
        let digest: String = Sha256::digest(&manifest).iter().map(|byte| format!("{byte:02x}")).collect();
        let tags = json!({"name": "charts/web", "tags": [version]}).to_string().into_bytes();
        files.insert("/v2/charts/web/tags/list".to_owned(), tags);
        files.insert("/v2/".to_owned(), b"{}".to_vec());
        files.insert(format!("/v2/charts/web/manifests/{version}"), manifest.clone());
        files.insert(format!("/v2/charts/web/manifests/sha256:{digest}"), manifest);
        Self::serve(files, login).await
    }

    async fn serve(files: Files, login: &str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<(String, String)>>>::default();
        let served = Served { files: Arc::new(files), login: login.to_owned(), seen: Arc::clone(&seen) };
        let router = axum::Router::new().fallback(answer).with_state(served);
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, seen }
    }
}
