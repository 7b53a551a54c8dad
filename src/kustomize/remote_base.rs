//! Repositories and files of the network that kustomizations name.
//!
//! Owns what is fetched during a build: several repositories at once, each into one copy until the build ends.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kustomize_compat::load::{FetchError, Repository};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::source::git::copies::GitCopies;
use crate::source::git::remote::{GitAccess, GitRemote, Point};
use crate::source::http::{Http, HttpError, Request, Tls};
use crate::source::location::Location;

/// Most repositories that are fetched at once.
const AT_ONCE: usize = 8;
/// Most repositories of one build.
const MAX_REPOSITORIES: usize = 1000;
/// The size limit of a file of the network, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// What is fetched: URL, reference, and whether with submodules.
type RepositoryKey = (String, String, bool);

/// The repositories and files of one build.
pub(super) struct RemoteBases {
    http: Http,
    isolated: bool,
    /// Made for the first URL: most builds have none, and take a few milliseconds.
    fetcher: OnceCell<Fetcher>,
    running: RefCell<HashMap<RepositoryKey, JoinHandle<Result<PathBuf, String>>>>,
    done: RefCell<HashMap<RepositoryKey, Result<PathBuf, String>>>,
}

/// What runs the tasks of one build.
struct Fetcher {
    runtime: Runtime,
    shared: Arc<Shared>,
}

/// What the tasks of one build share.
struct Shared {
    copies: GitCopies,
    slots: Semaphore,
    /// Whether nothing of this process' user is used for repositories.
    isolated: bool,
    /// Whether repositories may be on this machine.
    local: bool,
}

impl RemoteBases {
    /// No copies yet. `isolated`: nothing of this process' user is used for repositories.
    pub(super) fn new(http: Http, isolated: bool) -> Self {
        Self {
            http,
            isolated,
            fetcher: OnceCell::new(),
            running: RefCell::default(),
            done: RefCell::default(),
        }
    }

    fn fetcher(&self) -> Result<&Fetcher, String> {
        if self.fetcher.get().is_none() {
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let failed = |e: std::io::Error| format!("cannot prepare for repositories: {e}");
            let copies = GitCopies::new("windlass-kustomize-", None).map_err(failed)?;
            let local = self.http.reaches_local_addresses();
            let shared = Shared { copies, slots: Semaphore::new(AT_ONCE), isolated: self.isolated, local };
            let fetcher = Fetcher { runtime: runtime.map_err(failed)?, shared: Arc::new(shared) };
            // There is none: this is the only place that sets it.
            drop(self.fetcher.set(fetcher));
        }
        self.fetcher.get().ok_or_else(|| "cannot prepare for repositories".to_owned())
    }

    /// Whether a path, without symbolic links, is in a copy.
    pub(super) fn has(&self, path: &Path) -> bool {
        let home = self.fetcher.get().and_then(|fetcher| fetcher.shared.copies.home().canonicalize().ok());
        home.is_some_and(|home| path.starts_with(home))
    }

    /// Starts to fetch a repository, unless that was done before.
    pub(super) fn start(&self, repository: &Repository) {
        let key = key_of(repository);
        let mut running = self.running.borrow_mut();
        let known = running.len() + self.done.borrow().len();
        if running.contains_key(&key)
            || self.done.borrow().contains_key(&key)
            || known >= MAX_REPOSITORIES
            || self.http.is_offline()
        {
            return;
        }
        // The error is that of the step that needs the copy.
        let Ok(fetcher) = self.fetcher() else { return };
        let (shared, repository) = (Arc::clone(&fetcher.shared), repository.clone());
        let task = fetcher.runtime.spawn(async move { shared.fetch(&repository).await });
        running.insert(key, task);
    }

    /// The directory of a repository's copy.
    pub(super) fn clone_repository(&self, repository: &Repository) -> Result<String, String> {
        if self.http.is_offline() {
            return Err(format!("{}: offline mode forbids fetching it", repository.raw));
        }
        let runtime = &self.fetcher()?.runtime;
        self.start(repository);
        let key = key_of(repository);
        let running = self.running.borrow_mut().remove(&key);
        if let Some(task) = running {
            let result = runtime.block_on(task);
            let result = result.unwrap_or_else(|e| Err(format!("the fetch did not end: {e}")));
            self.done.borrow_mut().insert(key.clone(), result);
        }
        let copy = match self.done.borrow().get(&key) {
            Some(result) => result.clone(),
            None => Err(format!("a build fetches at most {MAX_REPOSITORIES} repositories")),
        };
        copy.map(|path| path.to_string_lossy().into_owned()).map_err(|e| format!("{}: {e}", repository.raw))
    }

    /// Reads a file of the network.
    pub(super) fn fetch(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let other = |text: String| FetchError::Other(text);
        let location = Location::parse(url).map_err(|e| other(e.to_string()))?;
        let tls = Tls::default();
        let sent = self.fetcher().map_err(other)?.runtime.block_on(async {
            let answer = self.http.send(Request::get(location, &tls, MAX_FILE)).await?;
            let status = answer.status;
            let bytes = if status.is_success() { Some(answer.bytes().await?) } else { None };
            Ok::<_, HttpError>((status, bytes))
        });
        match sent.map_err(|e| other(e.to_string()))? {
            (_, Some(bytes)) => Ok(bytes.into()),
            (_, None) if Repository::parse(url).is_ok() => Err(other("URL is a git repository".to_owned())),
            (status, None) => {
                let words = status.canonical_reason().unwrap_or_default();
                Err(FetchError::Status(format!("HTTP Error: status code {} ({words})", status.as_u16())))
            }
        }
    }
}

fn key_of(repository: &Repository) -> RepositoryKey {
    (repository.clone_spec(), repository.reference.clone(), repository.submodules)
}

impl Shared {
    /// The copy of the commit that a repository's reference names.
    async fn fetch(&self, repository: &Repository) -> Result<PathBuf, String> {
        let url = repository.clone_spec();
        if url.starts_with("file://") {
            return Err("repositories of the file system are not fetched; name the directory".to_owned());
        }
        let point = Point::of_reference(&repository.reference)?;
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await.map_err(|e| e.to_string())?;
        let access = GitAccess {
            timeout: Some(repository.timeout),
            isolated: self.isolated,
            no_local_addresses: !self.local,
            ..GitAccess::default()
        };
        let git = GitRemote { url: &url, access: &access };
        self.copies.copy(&git, &point, repository.submodules).await.map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_of_the_file_system_and_offline_ones_are_refused() {
        let remote = RemoteBases::new(Http::new(std::time::Duration::from_secs(1), false), false);
        let local = Repository::parse("file:///srv/repository.git").unwrap();
        let told = remote.clone_repository(&local).unwrap_err();
        assert!(told.contains("name the directory"), "{told}");
        let offline = RemoteBases::new(Http::new(std::time::Duration::from_secs(1), true), false);
        let repository = Repository::parse("https://example.com/org/repository.git").unwrap();
        assert!(offline.clone_repository(&repository).unwrap_err().contains("offline"));
    }
}
