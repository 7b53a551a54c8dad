//! TLS to chart servers: trusted certificates and the client certificate.

use std::path::{Path, PathBuf};

use reqwest::{Certificate, ClientBuilder, Identity};

use crate::causes::chain;

use super::super::atomic_files;

/// The largest file of certificates, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// The flags `--ca-file`, `--cert-file`, `--key-file` and `--insecure-skip-tls-verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// Trusted certificates, in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// The client certificate.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// Whether the server's certificate is not verified.
    pub insecure: bool,
}

/// Why there is no TLS configuration.
#[derive(Debug, thiserror::Error)]
#[error("can't create TLS config for client: {0}")]
pub struct TlsError(String);

impl TlsError {
    /// The cause in an error of reqwest, whose own text does not have it.
    pub(super) fn new(error: reqwest::Error) -> Self {
        Self(chain(&error.without_url()))
    }
}

impl Tls {
    /// The same without the client certificate.
    #[must_use]
    pub fn without_identity(&self) -> Self {
        Self { cert_file: None, key_file: None, ..self.clone() }
    }

    /// A client with these flags.
    pub(super) fn configure(&self, builder: ClientBuilder) -> Result<ClientBuilder, TlsError> {
        let builder = match &self.ca_file {
            _ if self.insecure => builder.tls_danger_accept_invalid_certs(true),
            Some(path) => builder.tls_certs_only(authorities(path)?),
            None => builder,
        };
        let (Some(cert), Some(key)) = (&self.cert_file, &self.key_file) else { return Ok(builder) };
        let pem = [pem(cert)?, b"\n".to_vec(), pem(key)?].concat();
        let identity = Identity::from_pem(&pem);
        let (cert, key) = (cert.display(), key.display());
        Ok(builder.identity(identity.map_err(|e| TlsError(format!("{cert}, {key}: {}", chain(&e))))?))
    }
}

fn authorities(path: &Path) -> Result<Vec<Certificate>, TlsError> {
    let failed = |reason: &str| TlsError(format!("can't read certificates of {}: {reason}", path.display()));
    let all = Certificate::from_pem_bundle(&pem(path)?).map_err(|e| failed(&chain(&e)))?;
    if all.is_empty() { Err(failed("it contains none in PEM")) } else { Ok(all) }
}

fn pem(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |reason: String| TlsError(format!("can't read {}: {reason}", path.display()));
    let bytes = atomic_files::read(path, MAX_FILE).map_err(|e| failed(e.to_string()))?;
    bytes.ok_or_else(|| failed("no such file".to_owned()))
}
