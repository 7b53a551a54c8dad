//! Repositories and files of the network that kustomizations name.
//!
//! Owns what is fetched during a build: several repositories at once, each into one copy until the build ends.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kustomize_compat::load::{FetchError, Repository};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use windlass_base::blocking;
use windlass_base::redact;
use windlass_fetch::byte_budget::ByteBudget;
use windlass_fetch::git::copies::GitCopies;
use windlass_fetch::git::remote::{GitAccess, GitRemote, GitRevision};
use windlass_fetch::http::{Http, HttpError, Request, Tls};
use windlass_fetch::location::Location;

/// Most repositories that are fetched at once: each may take what is left of the budget. Of a tenant, fewer.
const AT_ONCE: [usize; 2] = [8, 2];
/// Most repositories of one build.
const MAX_REPOSITORIES: usize = 1000;
/// The longest time that a URL may ask for a repository.
const MAX_TIMEOUT: Duration = Duration::from_secs(1800);
/// The size limit of a file of the network, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// What is fetched: URL, reference, and whether with submodules.
type RepositoryKey = (String, String, bool);

/// The repositories and files of one build.
pub(super) struct RemoteBases {
    http: Http,
    isolated: bool,
    budget: Arc<ByteBudget>,
    /// Made for the first URL: most builds have none, and take a few milliseconds.
    fetcher: OnceCell<Fetcher>,
    running: RefCell<HashMap<RepositoryKey, JoinHandle<Result<PathBuf, String>>>>,
    done: RefCell<HashMap<RepositoryKey, Result<PathBuf, String>>>,
}

/// What runs the tasks of one build.
struct Fetcher {
    runtime: &'static Runtime,
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
    /// `budget`: what all copies count against.
    pub(super) fn new(http: Http, isolated: bool, budget: Arc<ByteBudget>) -> Self {
        Self {
            http,
            isolated,
            budget,
            fetcher: OnceCell::new(),
            running: RefCell::default(),
            done: RefCell::default(),
        }
    }

    fn fetcher(&self) -> Result<&Fetcher, String> {
        if self.fetcher.get().is_none() {
            let failed = |e: std::io::Error| format!("cannot prepare for repositories: {e}");
            let copies = GitCopies::new("windlass-kustomize-", None).map_err(failed)?;
            let copies = copies.with_budget(Arc::clone(&self.budget));
            let local = self.http.reaches_local_addresses();
            let shared = Shared {
                copies,
                slots: Semaphore::new(AT_ONCE[usize::from(self.isolated)]),
                isolated: self.isolated,
                local,
            };
            let fetcher = Fetcher { runtime: blocking::runtime().map_err(failed)?, shared: Arc::new(shared) };
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
        let task = fetcher.runtime.spawn(redact::in_scope(async move { shared.fetch(&repository).await }));
        running.insert(key, task);
    }

    /// The directory of a repository's copy.
    pub(super) fn clone_repository(&self, repository: &Repository) -> Result<String, String> {
        if self.http.is_offline() {
            return Err(format!("{}: offline mode forbids fetching it", repository.raw));
        }
        let runtime = self.fetcher()?.runtime;
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
        let point = GitRevision::of_reference(&repository.reference)?;
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await.map_err(|e| e.to_string())?;
        let access = GitAccess {
            timeout: Some(repository.timeout.min(MAX_TIMEOUT)),
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
    use std::io::{BufRead as _, BufReader, Write as _};

    use super::*;

    fn budget() -> Arc<ByteBudget> {
        Arc::new(ByteBudget::new(1 << 20))
    }

    #[test]
    fn repositories_of_the_file_system_and_offline_ones_are_refused() {
        let remote = RemoteBases::new(Http::new(Duration::from_secs(1), false), false, budget());
        let local = Repository::parse("file:///srv/repository.git").unwrap();
        let told = remote.clone_repository(&local).unwrap_err();
        assert!(told.contains("name the directory"), "{told}");
        let offline = RemoteBases::new(Http::new(Duration::from_secs(1), true), false, budget());
        let repository = Repository::parse("https://example.com/org/repository.git").unwrap();
        assert!(offline.clone_repository(&repository).unwrap_err().contains("offline"));
    }

    fn git(directory: &Path, args: &[&str]) {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@example.com"]).args(args);
        assert!(
            command.current_dir(directory).env("HOME", directory).status().unwrap().success(),
            "{args:?}"
        );
    }

    /// Serves the files of a directory, one request for each connection.
    fn serve(root: PathBuf) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = BufReader::new(stream);
                let (mut first, mut line) = (String::new(), String::new());
                stream.read_line(&mut first).unwrap();
                while stream.read_line(&mut line).unwrap_or(0) > 2 {
                    line.clear();
                }
                let path =
                    first.split([' ', '?']).nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
                let (status, body) = match std::fs::read(root.join(path)) {
                    Ok(body) => ("200 OK", body),
                    Err(_) => ("404 Not Found", Vec::new()),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                // A client need not read it.
                drop(stream.get_mut().write_all(&[head.into_bytes(), body].concat()));
            }
        });
        url
    }

    /// A kustomization may name a thousand of them.
    #[test]
    fn repositories_count_against_the_budget_of_the_run() {
        let home = tempfile::tempdir().unwrap();
        let work = home.path().join("work");
        std::fs::create_dir(&work).unwrap();
        // It does not compress.
        let bytes: Vec<u8> =
            (0..20_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        std::fs::write(work.join("a"), bytes).unwrap();
        for args in [&["init", "--quiet"][..], &["add", "a"], &["commit", "--quiet", "--message", "one"]] {
            git(&work, args);
        }
        let urls: Vec<String> = (0..2).map(|n| format!("r{n}.git")).collect();
        for name in &urls {
            git(home.path(), &["clone", "--quiet", "--bare", "work", name]);
            git(&home.path().join(name), &["update-server-info"]);
        }
        let server = serve(home.path().to_owned());
        let budget = Arc::new(ByteBudget::new(300_000));
        let remote = RemoteBases::new(Http::new(Duration::from_secs(5), false), true, Arc::clone(&budget));
        let copied: Vec<Result<String, String>> = urls
            .iter()
            .map(|name| {
                remote
                    .clone_repository(&Repository::parse(&format!("{server}/{name}?timeout=9000h")).unwrap())
            })
            .collect();
        assert!(copied[0].is_ok() && budget.at_most(u64::MAX) < 220_000, "{copied:?} {budget:?}");
        let told = copied[1].as_ref().unwrap_err();
        assert!(
            told.contains("larger than") || told.contains("bytes, more than") || told.contains("in all"),
            "{told}"
        );
    }
}
