//! The bytes of an artifact: by the URL of the source's status, verified by digest.
//!
//! Owns where they come from and how many there may be. Whoever may write the status of a source names the URL, so that addresses of this
//! machine are refused unless the operator allows them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::source_artifact::Artifact;
use windlass_base::bounded_read;
use windlass_base::hex::hex;
use windlass_base::redact;
use windlass_cluster::ObjectRef;
use windlass_fetch::http::{Http, HttpError, Request, Tls};
use windlass_fetch::location::{BadLocation, Location};

/// Largest artifact, in bytes.
const MAX_ARTIFACT: u64 = 64 << 20;
/// Time for one download.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The file of an artifact by its source and its URL, if this process has it: artifacts of its own sources are read from disk. The
/// error says why the URL is not one of the source.
pub type LocalArtifacts = Arc<dyn Fn(&ObjectRef, &str) -> Result<Option<PathBuf>, String> + Send + Sync>;

/// Why an artifact cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// Its URL is none, or is not one of its source.
    #[error("{0}")]
    Url(String),
    /// Its server does not give it.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Its file cannot be read.
    #[error("{url}: {error}")]
    File {
        /// The URL.
        url: String,
        /// Why not.
        error: std::io::Error,
    },
    /// The digest of the status is of no kind that is verified.
    #[error("digest {0:?} is not a sha256 digest")]
    UnknownDigest(String),
    /// The file is another one. The digest that was found may be one of somebody else's file, and is not said.
    #[error("the digest of the file is not {0}")]
    Digest(String),
    /// The task ended.
    #[error("the task ended unexpectedly: {0}")]
    Task(String),
}

impl From<BadLocation> for ArtifactError {
    fn from(error: BadLocation) -> Self {
        Self::Url(error.to_string())
    }
}

/// Fetches artifacts.
pub struct ArtifactClient {
    http: Http,
    tls: Tls,
    local: Option<LocalArtifacts>,
}

impl ArtifactClient {
    /// A client. `no_local_addresses`: it reaches neither this machine nor its cloud's metadata service.
    #[must_use]
    pub fn new(no_local_addresses: bool) -> Self {
        let http = Http::new(TIMEOUT, false);
        let http = if no_local_addresses { http.without_local_addresses() } else { http };
        Self { http, tls: Tls::default(), local: None }
    }

    /// The same for a process that has its own sources: their artifacts are read from its disk.
    pub fn set_local(&mut self, local: LocalArtifacts) {
        self.local = Some(local);
    }

    /// The bytes of an artifact, unverified ([`check_digest`]).
    ///
    /// # Errors
    /// They cannot be fetched.
    pub async fn fetch(&self, artifact: &Artifact) -> Result<Bytes, ArtifactError> {
        let local = self.local.as_ref().map(|local| local(&artifact.source, &artifact.url));
        if let Some(file) = local.transpose().map_err(ArtifactError::Url)?.flatten() {
            let read = redact::spawn_blocking(move || bounded_read::read_file(&file, MAX_ARTIFACT));
            let read = read.await.map_err(|e| ArtifactError::Task(e.to_string()))?;
            let failed = |error| ArtifactError::File { url: artifact.url.clone(), error };
            return read.map(Bytes::from).map_err(failed);
        }
        let url = Location::parse(&artifact.url)?;
        Ok(self.http.fetch(Request::get(url, &self.tls, MAX_ARTIFACT)).await?)
    }
}

/// Checks the digest of an artifact.
///
/// # Errors
/// The bytes have another one, or the artifact has one that is no SHA-256.
pub fn check_digest(artifact: &Artifact, bytes: &[u8]) -> Result<(), ArtifactError> {
    if !artifact.digest.starts_with("sha256:") {
        return Err(ArtifactError::UnknownDigest(artifact.digest.clone()));
    }
    match format!("sha256:{}", hex(&Sha256::digest(bytes))) == artifact.digest {
        true => Ok(()),
        false => Err(ArtifactError::Digest(artifact.digest.clone())),
    }
}
