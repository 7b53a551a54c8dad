//! Server certificates, and client certificate authorities.
//!
//! Owns their parsing. `listen` owns connections.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// A certificate or key that a server cannot use.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the certificate: {0}")]
    Certificate(String),
    #[error("the private key: {0}")]
    Key(String),
    #[error("an authority of clients: {0}")]
    Client(String),
    #[error("certificate and private key: {0}")]
    Pair(rustls::Error),
}

/// A server configuration from a certificate chain and its key, in PEM. With `clients`, PEM bundles of certificate authorities,
/// only clients with a certificate of one of them are accepted.
///
/// # Errors
/// A part cannot be parsed, or key and certificate do not match.
pub fn config(chain: &[u8], key: &[u8], clients: &[Vec<u8>]) -> Result<Arc<ServerConfig>, TlsError> {
    let certificates = |pem: &[u8]| -> Result<Vec<CertificateDer<'static>>, String> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let all = all.map_err(|e| e.to_string())?;
        if all.is_empty() { Err("it contains none".to_owned()) } else { Ok(all) }
    };
    let chain = certificates(chain).map_err(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| TlsError::Key(e.to_string()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)?;
    let builder = if clients.is_empty() {
        builder.with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        for pem in clients {
            for certificate in certificates(pem).map_err(TlsError::Client)? {
                roots.add(certificate).map_err(|e| TlsError::Client(e.to_string()))?;
            }
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        builder.with_client_cert_verifier(verifier.map_err(|e| TlsError::Client(e.to_string()))?)
    };
    builder.with_single_cert(chain, key).map(Arc::new).map_err(TlsError::Pair)
}
