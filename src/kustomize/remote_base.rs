//! Repositories and files of the network that kustomizations name.
//!
//! Owns their copies: one for each repository and commit, in a temporary directory until the build ends. Several are fetched at
//! once.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kustomize_compat::load::{FetchError, Repository};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::source::git::GitError;
use crate::source::git::remote::{GitAccess, GitRemote, Point, ResolvedCommit, is_reference_name};
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
/// URL, commit, and whether with submodules.
type CopyKey = (String, String, bool);
/// A copy that one task makes and others wait for.
type SharedCopy = Arc<tokio::sync::OnceCell<PathBuf>>;

/// The repositories and files of one build.
pub(super) struct RemoteBases {
    http: Http,
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
    /// The directory of all copies.
    home: TempDir,
    slots: Semaphore,
    copies: Mutex<HashMap<CopyKey, SharedCopy>>,
}

impl RemoteBases {
    pub(super) fn new(http: Http) -> Self {
        Self { http, fetcher: OnceCell::new(), running: RefCell::default(), done: RefCell::default() }
    }

    fn fetcher(&self) -> Result<&Fetcher, String> {
        if self.fetcher.get().is_none() {
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let home = tempfile::Builder::new().prefix("windlass-kustomize-").tempdir();
            let failed = |e: std::io::Error| format!("cannot prepare for repositories: {e}");
            let shared = Shared {
                home: home.map_err(failed)?,
                slots: Semaphore::new(AT_ONCE),
                copies: Mutex::default(),
            };
            let fetcher = Fetcher { runtime: runtime.map_err(failed)?, shared: Arc::new(shared) };
            // There is none: this is the only place that sets it.
            drop(self.fetcher.set(fetcher));
        }
        self.fetcher.get().ok_or_else(|| "cannot prepare for repositories".to_owned())
    }

    /// Whether a path, without symbolic links, is in a copy.
    pub(super) fn has(&self, path: &Path) -> bool {
        let home = self.fetcher.get().and_then(|fetcher| fetcher.shared.home.path().canonicalize().ok());
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
    /// Finds the commit of a repository's reference, and copies it unless that was done.
    async fn fetch(&self, repository: &Repository) -> Result<PathBuf, String> {
        let url = repository.clone_spec();
        if url.starts_with("file://") {
            return Err("repositories of the file system are not fetched; name the directory".to_owned());
        }
        let point = point(&repository.reference)?;
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await.map_err(|e| e.to_string())?;
        let access = GitAccess { timeout: Some(repository.timeout), ..GitAccess::default() };
        let git = GitRemote { url: &url, access: &access };
        let failed = |e: GitError| e.to_string();
        let commit = git.resolve(self.home.path(), &point).await.map_err(failed)?;
        let key = (url.clone(), commit.commit.clone(), repository.submodules);
        let copy = {
            let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(copies.entry(key).or_default())
        };
        let home = self.home.path();
        let made = copy.get_or_try_init(|| checkout(&git, home, &commit, repository.submodules)).await;
        made.cloned().map_err(failed)
    }
}

async fn checkout(
    git: &GitRemote<'_>,
    home: &Path,
    commit: &ResolvedCommit,
    submodules: bool,
) -> Result<PathBuf, GitError> {
    // Removed with all of the build's copies.
    let directory = tempfile::tempdir_in(home)?.keep();
    let root = git.checkout(&directory, commit, submodules, &[]).await?;
    // A kustomization's files are found without links.
    Ok(std::fs::canonicalize(root)?)
}

/// The point of a reference that git cannot mistake for an option.
fn point(reference: &str) -> Result<Point, String> {
    match reference {
        "" => Ok(Point::Head),
        name if is_reference_name(name) => Ok(Point::Any(name.to_owned())),
        name => Err(format!("{name:?} is not a name of a branch, tag or commit")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_no_options() {
        assert_eq!(point("").unwrap(), Point::Head);
        assert_eq!(point("v1").unwrap(), Point::Any("v1".to_owned()));
        for bad in ["-x", "--upload-pack=x", "a..b"] {
            assert!(point(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn repositories_of_the_file_system_and_offline_ones_are_refused() {
        let remote = RemoteBases::new(Http::new(std::time::Duration::from_secs(1), false));
        let local = Repository::parse("file:///srv/repository.git").unwrap();
        let told = remote.clone_repository(&local).unwrap_err();
        assert!(told.contains("name the directory"), "{told}");
        let offline = RemoteBases::new(Http::new(std::time::Duration::from_secs(1), true));
        let repository = Repository::parse("https://example.com/org/repository.git").unwrap();
        assert!(offline.clone_repository(&repository).unwrap_err().contains("offline"));
    }
}
