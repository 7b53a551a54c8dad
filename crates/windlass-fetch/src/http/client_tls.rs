//! TLS to chart servers: trusted certificates and the client certificate.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use reqwest::{Certificate, ClientBuilder, Identity};

use windlass_base::causes::chain;

use super::super::atomic_files;

/// The largest file of certificates, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// Certificates or a key in PEM.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Pem {
    /// In a file.
    File(PathBuf),
    /// The text itself, out of a Secret; never shown.
    Text(Arc<[u8]>),
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Text(_) => f.write_str("the Secret"),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Pem {
    /// The text.
    pub(in super::super) fn read(&self) -> Result<Vec<u8>, TlsError> {
        let failed = |reason: String| TlsError(format!("can't read {self}: {reason}"));
        match self {
            Self::Text(bytes) => Ok(bytes.to_vec()),
            Self::File(path) => {
                let bytes = atomic_files::read(path, MAX_FILE).map_err(|e| failed(e.to_string()))?;
                bytes.ok_or_else(|| failed("no such file".to_owned()))
            }
        }
    }
}

/// The flags `--ca-file`, `--cert-file`, `--key-file` and `--insecure-skip-tls-verify`, or what stands for them in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// Trusted certificates, in place of the system's.
    pub ca: Option<Pem>,
    /// The client certificate.
    pub certificate: Option<Pem>,
    /// Its key.
    pub key: Option<Pem>,
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
        Self { certificate: None, key: None, ..self.clone() }
    }

    /// A client with these flags.
    pub(super) fn configure(&self, builder: ClientBuilder) -> Result<ClientBuilder, TlsError> {
        let builder = match &self.ca {
            _ if self.insecure => builder.tls_danger_accept_invalid_certs(true),
            Some(pem) => builder.tls_certs_only(authorities(pem)?),
            None => builder,
        };
        let (Some(certificate), Some(key)) = (&self.certificate, &self.key) else { return Ok(builder) };
        let pem = [certificate.read()?, b"\n".to_vec(), key.read()?].concat();
        let identity = Identity::from_pem(&pem);
        let wrong = |e: reqwest::Error| TlsError(format!("{certificate}, {key}: {}", chain(&e)));
        Ok(builder.identity(identity.map_err(wrong)?))
    }
}

fn authorities(pem: &Pem) -> Result<Vec<Certificate>, TlsError> {
    let failed = |reason: &str| TlsError(format!("can't read certificates of {pem}: {reason}"));
    let all = Certificate::from_pem_bundle(&pem.read()?).map_err(|e| failed(&chain(&e)))?;
    if all.is_empty() { Err(failed("it contains none in PEM")) } else { Ok(all) }
}
