//! TLS towards servers of charts: which certificates are trusted, and which one we show.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// What the flags `--ca-file`, `--cert-file`, `--key-file` and `--insecure-skip-tls-verify` say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// Trusted certificates, in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate that we show.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// Whether any certificate of the server will do.
    pub insecure: bool,
}

impl Tls {
    /// The same without the certificate that we show.
    #[must_use]
    pub fn without_identity(&self) -> Self {
        Self { cert_file: None, key_file: None, ..self.clone() }
    }
}

/// Why there is no TLS configuration.
#[derive(Debug, thiserror::Error)]
#[error("can't create TLS config for client: {0}")]
pub struct TlsError(String);

/// The configuration for the flags.
pub(super) fn config(tls: &Tls) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let failed = |e: rustls::Error| TlsError(e.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let builder = if tls.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
    } else {
        builder.with_root_certificates(roots(tls.ca_file.as_deref())?)
    };
    match (&tls.cert_file, &tls.key_file) {
        (Some(cert), Some(key)) => {
            let chain = certificates(cert)?;
            let read = PrivateKeyDer::from_pem_file(key);
            let key = read.map_err(|e| TlsError(format!("can't load key from {}: {e}", key.display())))?;
            builder.with_client_auth_cert(chain, key).map_err(failed)
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

/// A configuration that trusts nobody: plain HTTP never asks it.
pub(super) fn nobody() -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| TlsError(e.to_string()))?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    if let Some(path) = ca_file {
        for certificate in certificates(path)? {
            let wrong = |e: rustls::Error| TlsError(format!("{}: {e}", path.display()));
            store.add(certificate).map_err(wrong)?;
        }
        return Ok(store);
    }
    // What the system trusts; a certificate there that rustls cannot read is none of the user's business.
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Ok(store)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed =
        |e: &dyn fmt::Display| TlsError(format!("can't read certificates of {}: {e}", path.display()));
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(|e| failed(&e))?.collect();
    match all {
        Ok(all) if all.is_empty() => Err(failed(&"it holds none in PEM")),
        Ok(all) => Ok(all),
        Err(e) => Err(failed(&e)),
    }
}

/// Takes any certificate, as `--insecure-skip-tls-verify` asks for; the handshake itself is still checked.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
