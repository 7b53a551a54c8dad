//! One HTTP repository: the update of its index, and the search for a chart in it.
//!
//! Owns the files of an index in the cache: Helm's `NAME-index.yaml` and `NAME-charts.txt`, and our `NAME-index.etag`.

use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use windlass_base::bounded_json;
use windlass_base::hex::hex;

use http::header;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::atomic_files;
use super::fetch::FetchError;
use super::http::{Credentials, Http, Request, Tls};
use super::index;
use super::location::Location;
use super::repositories::Entry;

/// Size limit of an index, in bytes, where no smaller one is asked for.
pub const MAX_INDEX: u64 = 1 << 30;

/// The validators of the cached index, to avoid sending it again.
#[derive(Default, Serialize, Deserialize)]
struct Seen {
    url: String,
    etag: Option<String>,
    modified: Option<String>,
    /// SHA-256 of the file with these validators: Helm may have written another one since.
    digest: String,
}

/// How a repository is accessed.
#[derive(Clone)]
pub struct RepositoryAccess {
    /// Name of its files in the cache.
    pub name: String,
    /// Its URL, without `index.yaml`.
    pub url: String,
    /// Sent to its origin only.
    pub credentials: Option<Credentials>,
    /// Whether credentials and client certificate also go to other servers that the index names; never to the target of a
    /// redirect.
    pub pass_credentials: bool,
    /// TLS flags.
    pub tls: Tls,
    /// Size limit of its index, in bytes.
    pub max_index: u64,
}

impl From<&Entry> for RepositoryAccess {
    fn from(entry: &Entry) -> Self {
        Self {
            name: entry.name.clone(),
            url: entry.url.clone(),
            credentials: entry.credentials(),
            pass_credentials: entry.pass_credentials_all,
            tls: entry.tls(),
            max_index: MAX_INDEX,
        }
    }
}

/// The index file for a repository's name.
#[must_use]
pub fn index_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(if name.is_empty() { "index.yaml".to_owned() } else { format!("{name}-index.yaml") })
}

fn charts_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(if name.is_empty() { "charts.txt".to_owned() } else { format!("{name}-charts.txt") })
}

fn seen_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}-index.etag"))
}

/// Deletes all cached files of a repository.
///
/// # Errors
/// A file exists and cannot be removed.
pub fn forget(directory: &Path, name: &str) -> io::Result<()> {
    for path in [index_path(directory, name), charts_path(directory, name), seen_path(directory, name)] {
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Fetches the index of a repository unless the cached one is current. Returns its path.
///
/// # Errors
/// The server does not return it, or it is not an index; the cached index is unchanged.
pub async fn update(
    http: &Http,
    directory: &Path,
    repository: &RepositoryAccess,
) -> Result<PathBuf, FetchError> {
    let base = Location::parse(&repository.url)?;
    if !matches!(base.scheme.as_str(), "http" | "https") {
        return Err(FetchError::Protocol(base.scheme));
    }
    let url = base.within("index.yaml")?;
    let path = index_path(directory, &repository.name);
    let asked = url.to_string();
    let known = known(directory, &repository.name, &asked);
    let mut request = Request::get(url.clone(), &repository.tls, repository.max_index);
    request.credentials.clone_from(&repository.credentials);
    if let Some(seen) = &known {
        let conditions = [(header::IF_NONE_MATCH, &seen.etag), (header::IF_MODIFIED_SINCE, &seen.modified)];
        request.headers.extend(conditions.into_iter().filter_map(|(k, v)| Some((k, v.clone()?))));
    }
    let response = http.send(request).await?;
    if known.is_some() && response.status == http::StatusCode::NOT_MODIFIED {
        return Ok(path);
    }
    let response = response.ok(&url)?;
    let text = |name| response.header(name).map(str::to_owned);
    let (etag, modified) = (text(header::ETAG), text(header::LAST_MODIFIED));
    let io = |source| FetchError::Write { path: path.clone(), source };
    let mut file = atomic_files::temporary_file_for(&path).map_err(io)?;
    let mut out = io::BufWriter::new(&mut file);
    let digest = response.copy_to(&mut out).await?;
    out.flush().map_err(io)?;
    drop(out);
    let names = index::check(file.path())?;
    // Writes the names of charts first: a client that reads the new index needs them.
    let mut charts = names.join("\n");
    charts.push_str(if names.is_empty() { "" } else { "\n" });
    atomic_files::write(&charts_path(directory, &repository.name), charts.as_bytes(), 0o644).map_err(io)?;
    atomic_files::persist(file, &path, 0o644).map_err(io)?;
    remember(directory, &repository.name, &Seen { url: asked, etag, modified, digest: hex(&digest) })
        .map_err(io)?;
    Ok(path)
}

/// The validators of the cached index, if they belong to it.
fn known(directory: &Path, name: &str, url: &str) -> Option<Seen> {
    let bytes = atomic_files::read(&seen_path(directory, name), 64 << 10).ok()??;
    let seen: Seen = bounded_json::from_slice(&bytes).ok()?;
    if seen.url != url || digest_of(&index_path(directory, name)).ok()? != seen.digest {
        return None;
    }
    Some(seen)
}

fn remember(directory: &Path, name: &str, seen: &Seen) -> io::Result<()> {
    let path = seen_path(directory, name);
    if seen.etag.is_none() && seen.modified.is_none() {
        return match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        };
    }
    atomic_files::write(&path, &serde_json::to_vec(seen)?, 0o644)
}

/// SHA-256 of a file in hex.
///
/// # Errors
/// It cannot be read.
pub fn digest_of(path: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut reader = io::BufReader::with_capacity(256 << 10, std::fs::File::open(path)?);
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok(hex(&digest.finalize()));
        }
        digest.update(chunk);
        let length = chunk.len();
        reader.consume(length);
    }
}

/// The name of the cached index of a repository without a name.
#[must_use]
pub fn name_of(url: &str) -> String {
    format!("helm-manager-{}", hex(&Sha256::digest(url.as_bytes())))
}
