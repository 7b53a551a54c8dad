//! Artifacts of sources on disk: saved under their kind, namespace and name, verified by digest, served over HTTP, and removed when
//! they are old.
//!
//! Knows nothing of what is in an artifact, nor of the objects in the cluster.

use std::fs;
use std::io::{self, Read as _, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};

use flux_api::common::SourceArtifact;
use windlass_base::hex::hex;
use windlass_cluster::ObjectRef;
use windlass_fetch::private_directory;

use super::super::error::FluxError;
use super::scratch_directories::ScratchDirectories;

/// How long an artifact stays after it was replaced: somebody may have read its URL just before. As source-controller.
const RETENTION: Duration = Duration::from_secs(60);
/// How many artifacts of a source stay, whatever their age.
const RETAINED: usize = 2;
/// Names that lead to the newest artifact.
pub(super) const LATEST: [&str; 2] = ["latest.tar.gz", "index.yaml"];
/// Bytes of an artifact that are read at a time to serve it.
const CHUNK: usize = 256 << 10;

/// The object whose artifacts these are.
#[derive(Clone, Copy, Debug)]
pub struct SourceName<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl SourceName<'_> {
    fn directory(&self) -> String {
        format!("{}/{}/{}", self.kind.to_lowercase(), self.namespace, self.name)
    }
}

/// The directory of all artifacts, and the address where they are served.
#[derive(Clone, Debug)]
pub struct ArtifactStore {
    root: PathBuf,
    host: String,
    work: Arc<ScratchDirectories>,
}

impl ArtifactStore {
    /// A store, without the work of processes that are gone. `host`: host and port of the URLs, as consumers reach this process.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(root: &Path, host: &str) -> io::Result<Self> {
        let root = private_directory::create(root)?;
        let work = Arc::new(ScratchDirectories::open(&root.join(".work"))?);
        Ok(Self { root, host: host.to_owned(), work })
    }

    /// A directory beside the artifacts, for work in progress.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn scratch(&self) -> io::Result<tempfile::TempDir> {
        self.work.scratch()
    }

    /// The directory for what is kept between passes over a source, such as the index of a repository.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn cache_of(&self, source: &SourceName<'_>) -> io::Result<PathBuf> {
        let directory = self.root.join(".cache").join(source.directory());
        fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    /// The file of a source's artifact. `None` if the path is not one of this source: whoever may write statuses may write any.
    #[must_use]
    pub fn file_of(&self, source: &SourceName<'_>, artifact: &SourceArtifact) -> Option<PathBuf> {
        let name = artifact.path.strip_prefix(&source.directory())?.strip_prefix('/')?;
        if name.is_empty() || name.contains('/') { None } else { self.file(&artifact.path) }
    }

    /// The file of a path; `None` if the path does not stay below the root.
    fn file(&self, path: &str) -> Option<PathBuf> {
        let relative = Path::new(path);
        let plain = relative.components().all(|part| match part {
            Component::Normal(name) => !name.to_string_lossy().starts_with('.'),
            _ => false,
        });
        (plain && !path.is_empty()).then(|| self.root.join(relative))
    }

    /// The URL of an artifact.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.host)
    }

    /// The file of a source's URL; `None` for a URL that this store does not serve.
    ///
    /// # Errors
    /// The URL is one of this store, but not of this source.
    pub fn file_of_url(&self, source: &ObjectRef, url: &str) -> Result<Option<PathBuf>, FluxError> {
        let namespace = source.namespace.as_deref().unwrap_or_default();
        let source = SourceName { kind: &source.gvk.kind, namespace, name: &source.name };
        let path = url.strip_prefix("http://").and_then(|rest| rest.strip_prefix(&self.host));
        let Some(path) = path.and_then(|rest| rest.strip_prefix('/')) else { return Ok(None) };
        let artifact = SourceArtifact { path: path.to_owned(), ..SourceArtifact::default() };
        match self.file_of(&source, &artifact) {
            Some(file) => Ok(Some(file)),
            None => Err(format!("status.artifact.url is not one of {}", source.directory()).into()),
        }
    }

    /// Saves an artifact. `file`: its name; `write`: writes its bytes.
    ///
    /// # Errors
    /// It cannot be written, or the name is not one of a file.
    pub fn save(
        &self,
        source: &SourceName<'_>,
        file: &str,
        revision: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<SourceArtifact> {
        let path = format!("{}/{file}", source.directory());
        let wrong =
            || io::Error::new(io::ErrorKind::InvalidInput, format!("{path:?} is not a path of a file"));
        let target = self.file(&path).ok_or_else(wrong)?;
        let directory = target.parent().ok_or_else(wrong)?;
        fs::create_dir_all(directory)?;
        let mut temporary = tempfile::Builder::new().prefix(".saving-").tempfile_in(directory)?;
        let (digest, size) = {
            let buffered = io::BufWriter::new(&mut temporary);
            let mut out = Digesting { out: buffered, digest: Sha256::new(), size: 0 };
            write(&mut out)?;
            out.flush()?;
            (format!("sha256:{}", hex(&out.digest.finalize())), out.size)
        };
        temporary.persist(&target).map_err(|e| e.error)?;
        Ok(SourceArtifact {
            digest,
            last_update_time: windlass_cluster::api_now(),
            url: self.url(&path),
            path,
            revision: revision.to_owned(),
            size: i64::try_from(size).ok(),
            ..SourceArtifact::default()
        })
    }

    /// Puts an artifact also at a name that always leads to the newest one. Returns the URL; empty if that fails, since every
    /// consumer has the exact one.
    #[must_use]
    pub fn publish_latest(&self, source: &SourceName<'_>, artifact: &SourceArtifact, name: &str) -> String {
        let path = format!("{}/{name}", source.directory());
        let link = || -> io::Result<()> {
            let (Some(from), Some(to)) = (self.file_of(source, artifact), self.file(&path)) else {
                return Ok(());
            };
            let temporary = to.with_file_name(format!(".{name}"));
            match fs::remove_file(&temporary) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            fs::hard_link(from, &temporary)?;
            fs::rename(&temporary, to)
        };
        match link() {
            Ok(()) => self.url(&path),
            Err(error) => {
                tracing::debug!(path, "the newest artifact has no name of its own: {error}");
                String::new()
            }
        }
    }

    /// Whether the file of a source's artifact is there, with its digest. What is damaged is removed.
    #[must_use]
    pub fn is_intact(&self, source: &SourceName<'_>, artifact: &SourceArtifact) -> bool {
        let Some(file) = self.file_of(source, artifact) else { return false };
        let intact = digest_of(&file).is_ok_and(|digest| digest == artifact.digest);
        if !intact
            && let Err(error) = fs::remove_file(&file)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = artifact.path, "a damaged artifact cannot be removed: {error}");
        }
        intact
    }

    /// Removes former artifacts of a source: those that were replaced a minute ago, but for the newest.
    pub fn remove_old(&self, source: &SourceName<'_>, current: &SourceArtifact) {
        let directory = self.root.join(source.directory());
        let mut files: Vec<(SystemTime, PathBuf)> = fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                !name.starts_with('.') && !LATEST.contains(&name.as_ref())
            })
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort();
        let kept = files.len().saturating_sub(RETAINED);
        for (modified, path) in files.into_iter().take(kept) {
            let old = modified.elapsed().is_ok_and(|age| age > RETENTION);
            if old
                && Some(&path) != self.file_of(source, current).as_ref()
                && let Err(error) = fs::remove_file(&path)
            {
                tracing::warn!(path = %path.display(), "an old artifact cannot be removed: {error}");
            }
        }
    }

    /// Removes everything of a source.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn remove_all(&self, source: &SourceName<'_>) -> io::Result<()> {
        for directory in
            [self.root.join(source.directory()), self.root.join(".cache").join(source.directory())]
        {
            match fs::remove_dir_all(directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// What serves the artifacts.
    pub fn routes(&self) -> Router {
        Router::new().route("/{*path}", get(serve)).with_state(Arc::new(self.clone()))
    }
}

async fn serve(
    extract::State(store): extract::State<Arc<ArtifactStore>>,
    extract::Path(path): extract::Path<String>,
) -> Response {
    let Some(file) = store.file(&path) else { return StatusCode::NOT_FOUND.into_response() };
    let open = move || -> io::Result<(fs::File, u64)> {
        let file = fs::File::open(&file)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    };
    let Ok((file, size)) = blocking(open).await else { return StatusCode::NOT_FOUND.into_response() };
    // A chunk at a time: many requests for large artifacts must not fill the memory.
    let chunks = futures::stream::try_unfold(file, |mut file| async {
        blocking(move || {
            let mut chunk = Vec::with_capacity(CHUNK);
            #[expect(clippy::disallowed_methods, reason = "within the limit")]
            io::Read::take(&mut file, CHUNK as u64).read_to_end(&mut chunk)?;
            Ok((!chunk.is_empty()).then_some((chunk, file)))
        })
        .await
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_LENGTH, HeaderValue::from(size)),
    ];
    (headers, Body::from_stream(chunks)).into_response()
}

/// Runs work on files outside of the runtime's threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// `sha256:HEX` of a file.
fn digest_of(path: &Path) -> io::Result<String> {
    let mut out = Digesting { out: io::sink(), digest: Sha256::new(), size: 0 };
    io::copy(&mut fs::File::open(path)?, &mut out)?;
    Ok(format!("sha256:{}", hex(&out.digest.finalize())))
}

/// A writer that knows digest and size of what was written.
struct Digesting<W> {
    out: W,
    digest: Sha256,
    size: u64,
}

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.digest.update(&bytes[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_cluster::Gvk;

    const DEMO: SourceName<'_> = SourceName { kind: "HelmChart", namespace: "ns", name: "demo" };

    fn demo() -> ObjectRef {
        ObjectRef::new(Gvk::new("g/v1", DEMO.kind), Some(DEMO.namespace), DEMO.name)
    }

    fn store() -> (tempfile::TempDir, ArtifactStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = ArtifactStore::new(directory.path(), "host:80").unwrap();
        (directory, store)
    }

    #[tokio::test]
    async fn an_artifact_is_served_in_chunks() {
        let (_directory, store) = store();
        let content: Vec<u8> = (0..CHUNK * 2 + 7).map(|i| (i % 251) as u8).collect();
        let artifact = store.save(&DEMO, "demo-1.tgz", "1.0.0", |out| out.write_all(&content)).unwrap();
        let store = Arc::new(store);
        let get = async |path: String| serve(extract::State(store.clone()), extract::Path(path)).await;
        let response = get(artifact.path).await;
        assert_eq!(response.headers()[header::CONTENT_LENGTH], content.len().to_string());
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(body == content, "{} bytes", body.len());
        assert_eq!(get("helmchart/ns/demo/none.tgz".to_owned()).await.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn artifacts_are_saved_verified_and_removed() {
        let (_directory, store) = store();
        let artifact = store.save(&DEMO, "demo-1.tgz", "1.0.0", |out| out.write_all(b"abc")).unwrap();
        assert_eq!(artifact.path, "helmchart/ns/demo/demo-1.tgz");
        assert_eq!(artifact.url, "http://host:80/helmchart/ns/demo/demo-1.tgz");
        assert_eq!(artifact.size, Some(3));
        assert_eq!(
            artifact.digest,
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(store.is_intact(&DEMO, &artifact));
        let file = store.file_of_url(&demo(), &artifact.url).unwrap().unwrap();
        fs::write(&file, b"abd").unwrap();
        assert!(!store.is_intact(&DEMO, &artifact));
        assert!(!file.exists(), "a damaged artifact is removed");
        store.remove_all(&DEMO).unwrap();
        store.remove_all(&DEMO).unwrap();
    }

    #[test]
    fn paths_stay_below_the_root() {
        let (_directory, store) = store();
        for path in ["../x", "a/../../x", "/etc/passwd", "", "a/.cache/x", ".work/x", "./a"] {
            assert_eq!(store.file(path), None, "{path}");
        }
        for url in ["http://other:80/a", "https://host:80/a", "http://host:80"] {
            assert_eq!(store.file_of_url(&demo(), url), Ok(None), "{url}");
        }
        assert!(store.save(&DEMO, "../x", "1", |_| Ok(())).is_err());
    }

    /// A status that somebody forged.
    #[test]
    fn an_artifact_is_below_its_own_source() {
        let (_directory, store) = store();
        let victim = SourceName { namespace: "victim", ..DEMO };
        let secret = store.save(&victim, "demo-1.tgz", "1", |out| out.write_all(b"secret")).unwrap();
        let forged = |path: &str| SourceArtifact {
            path: path.to_owned(),
            url: store.url(path),
            digest: "sha256:0".to_owned(),
            ..SourceArtifact::default()
        };
        for path in [
            &secret.path,
            "helmchart/ns/demo/../../victim/demo/demo-1.tgz",
            "helmchart/ns/demo/x/demo-1.tgz",
            "helmchart/ns/demo2/x",
            "helmchart/ns/demo/",
            "../x",
        ] {
            let artifact = forged(path);
            assert_eq!(store.file_of(&DEMO, &artifact), None, "{path}");
            let told = store.file_of_url(&demo(), &artifact.url).unwrap_err();
            assert_eq!(told.to_string(), "status.artifact.url is not one of helmchart/ns/demo");
            assert!(!store.is_intact(&DEMO, &artifact));
        }
        assert!(store.is_intact(&victim, &secret), "it was not removed");
    }

    #[test]
    fn old_artifacts_are_removed_but_for_the_newest() {
        let (_directory, store) = store();
        let save = |file: &str| store.save(&DEMO, file, "1", |out| out.write_all(b"x")).unwrap();
        let [first, second, third, current] = ["1", "2", "3", "4"].map(save);
        for (at, artifact) in [&first, &second, &third, &current].into_iter().enumerate() {
            let age = Duration::from_secs(1_000 - 10 * at as u64);
            let file = fs::File::options().write(true).open(store.file(&artifact.path).unwrap()).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        store.remove_old(&DEMO, &current);
        let left = [&first, &second, &third, &current].map(|a| store.file(&a.path).unwrap().exists());
        assert_eq!(left, [false, false, true, true]);
    }
}
