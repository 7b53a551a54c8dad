//! Files that addresses name: `[GETTER::]SCHEME://[USER[:PASSWORD]@]HOST/DIRECTORY[@FILE][?QUERY]`.
//!
//! Owns helmfile's grammar of addresses, and the copies of one run: one for each repository and commit, in a temporary directory.
//! What is on a server is asked anew in each run; helmfile keeps a branch for ever. Errors name no login and no query.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;
use tokio::runtime::Builder;

use super::local_host::Fetcher;
use crate::source::git::remote::{GitAccess, GitLogin, GitRemote, Point, is_reference_name};
use crate::source::http::{Credentials, Http, Request, Tls, names_local_address};
use crate::source::input_store::{InputKind, InputStore, RemoteInput};
use crate::source::location::Location;
use crate::source::repositories::Secret;

/// The size limit of a file, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// Most addresses of one run.
const MAX_ADDRESSES: usize = 1000;

/// An address in its parts.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    getter: Option<String>,
    /// What is fetched, without the file and the query.
    location: Location,
    /// The directory of the repository that the file is in.
    subdirectory: String,
    file: String,
    query: Vec<(String, String)>,
}

impl Address {
    /// A single `@` in the path ends what is fetched; otherwise the last element is the file.
    fn parse(text: &str) -> Result<Self, String> {
        let (getter, url) = match text.split_once("::") {
            Some((getter, url)) => (Some(getter.to_owned()), url),
            None => (None, text),
        };
        let mut location = Location::parse(url).map_err(|_| "invalid URL".to_owned())?;
        let query = location.query.take().unwrap_or_default();
        let query = query.split('&').filter(|pair| !pair.is_empty());
        let query = query.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let query = query.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let path = location.path.clone();
        let (directory, file) = match path.split('@').collect::<Vec<_>>().as_slice() {
            [directory, file] => ((*directory).to_owned(), file.trim_start_matches('/').to_owned()),
            _ => {
                let (directory, file) = path.rsplit_once('/').unwrap_or(("", &path));
                (directory.to_owned(), file.to_owned())
            }
        };
        let (repository, subdirectory) = directory.split_once("//").unwrap_or((&directory, ""));
        let subdirectory = subdirectory.to_owned();
        location.path = repository.to_owned();
        Ok(Self { getter, location, subdirectory, file, query })
    }

    /// The address for messages.
    fn shown(&self) -> String {
        let getter = self.getter.as_ref().map(|getter| format!("{getter}::")).unwrap_or_default();
        let subdirectory =
            if self.subdirectory.is_empty() { String::new() } else { format!("//{}", self.subdirectory) };
        format!("{getter}{}{subdirectory}@{}", self.location, self.file)
    }

    /// The path of the file below the root of a copy.
    fn below(&self, root: &Path) -> Result<String, String> {
        let path = Path::new(&self.subdirectory).join(&self.file);
        if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(format!("{:?} leaves the repository", path.display().to_string()));
        }
        Ok(root.join(path).to_string_lossy().into_owned())
    }
}

/// What the files of a tenant may be fetched with.
#[derive(Clone, Debug)]
pub struct TenantAccess {
    /// The directory of all copies.
    pub directory: PathBuf,
    /// The server that gets the credentials of `git`: scheme and host of a URL.
    pub origin: Option<(String, String)>,
    /// How repositories of that server are accessed; others without credentials.
    pub git: GitAccess,
    /// Whether addresses of this machine and of its cloud's metadata service may be fetched.
    pub allow_local_addresses: bool,
}

/// The files of one run.
pub struct RemoteFiles {
    http: Http,
    /// `None`: what this machine's user may fetch.
    tenant: Option<TenantAccess>,
    /// Keeps what is fetched, or has it in place of servers.
    inputs: Option<Arc<dyn InputStore>>,
    copies: Mutex<Copies>,
}

#[derive(Default)]
struct Copies {
    home: Option<TempDir>,
    /// By address.
    files: HashMap<String, Result<String, String>>,
    /// By URL and commit.
    repositories: HashMap<(String, String), PathBuf>,
}

impl RemoteFiles {
    /// Files that `http` reaches; repositories are reached by git, unless `http` is offline.
    #[must_use]
    pub fn new(http: Http) -> Self {
        Self { http, tenant: None, inputs: None, copies: Mutex::default() }
    }

    /// The same for a tenant: nothing of this process' user is used.
    #[must_use]
    pub fn of_tenant(http: Http, access: TenantAccess) -> Self {
        let http = if access.allow_local_addresses { http } else { http.without_local_addresses() };
        Self { tenant: Some(access), ..Self::new(http) }
    }

    /// The same with a store that keeps what is fetched, or has it.
    #[must_use]
    pub fn with_inputs(self, inputs: Option<Arc<dyn InputStore>>) -> Self {
        Self { inputs, ..self }
    }

    /// The commits that were copied, each as `URL@sha1:COMMIT`, sorted.
    #[must_use]
    pub fn revisions(&self) -> Vec<String> {
        let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<String> =
            copies.repositories.keys().map(|(url, commit)| format!("{url}@sha1:{commit}")).collect();
        all.sort();
        all
    }

    /// Fetches an address, unless the store has it.
    fn get_or_find(&self, copies: &mut Copies, address: &Address, text: &str) -> Result<String, String> {
        let Some(inputs) = &self.inputs else { return self.get(copies, address) };
        let input = RemoteInput::new(InputKind::Address, text, "");
        if let Some(path) = inputs.find(&input)? {
            return Ok(path.to_string_lossy().into_owned());
        }
        let path = self.get(copies, address)?;
        let home = copies.home.as_ref().ok_or("no temporary directory")?.path();
        let below = Path::new(&path).strip_prefix(home).map_err(|error| error.to_string())?;
        let copy = below.components().next().map(|folder| home.join(folder)).ok_or("no copy")?;
        inputs.take_copy(&input, &copy, Path::new(&path))?;
        Ok(path)
    }

    fn get(&self, copies: &mut Copies, address: &Address) -> Result<String, String> {
        if self.http.is_offline() {
            return Err("offline mode forbids fetching it".to_owned());
        }
        if copies.files.len() >= MAX_ADDRESSES {
            return Err(format!("a run fetches at most {MAX_ADDRESSES} addresses"));
        }
        if copies.home.is_none() {
            let mut home = tempfile::Builder::new();
            home.prefix("windlass-helmfile-");
            let home = match &self.tenant {
                Some(tenant) => home.tempdir_in(&tenant.directory),
                None => home.tempdir(),
            };
            copies.home = Some(home.map_err(|error| format!("no temporary directory: {error}"))?);
        }
        match address.getter.as_deref() {
            Some("git") => {
                let root = on_own_thread(|| repository(copies, address, self.tenant.as_ref()))?;
                address.below(&root)
            }
            None if matches!(address.location.scheme.as_str(), "http" | "https") => {
                on_own_thread(|| self.file(copies, address))
            }
            other => Err(format!(
                "{:?} is not supported; there are git:: with https, ssh and file, and single files by http and https",
                other.unwrap_or(&address.location.scheme)
            )),
        }
    }

    async fn file(&self, copies: &Copies, address: &Address) -> Result<String, String> {
        let mut url = address.location.clone();
        url.path = format!("{}/{}", url.path, address.file);
        let pairs = address.query.iter().filter(|(key, _)| key != "cache");
        let query = pairs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&");
        let hidden =
            |text: String| if query.is_empty() { text } else { text.replace(&format!("?{query}"), "") };
        if !query.is_empty() {
            url = url.with_query(query.clone());
        }
        let tls = Tls::default();
        let login = address.location.user();
        let request = Request {
            credentials: login
                .map(|(user, password)| Credentials::Basic(user.to_owned(), password.to_owned())),
            confined: !query.is_empty(),
            ..Request::get(url.clone(), &tls, MAX_FILE)
        };
        let fetched = async { self.http.send(request).await?.ok(&url)?.bytes().await };
        let bytes = fetched.await.map_err(|error| hidden(error.to_string()))?;
        let home = copies.home.as_ref().ok_or("no temporary directory")?.path();
        let folder = tempfile::tempdir_in(home).map_err(|error| error.to_string())?.keep();
        let path = folder.join(url.file_name());
        std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Fetcher for RemoteFiles {
    fn fetch(&self, text: &str, _: &str) -> Result<String, String> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = copies.files.get(text) {
            return known.clone();
        }
        let done = match Address::parse(text) {
            Ok(address) => self
                .get_or_find(&mut copies, &address, text)
                .map_err(|error| format!("{}: {error}", address.shown())),
            Err(error) => Err(format!("{}: {error}", crate::source::location::without_user(text))),
        };
        copies.files.insert(text.to_owned(), done.clone());
        done
    }
}

impl TenantAccess {
    /// How a repository is accessed. `login`: of the address itself.
    async fn access(&self, url: &Location, login: Option<GitLogin>) -> Result<GitAccess, String> {
        if url.scheme == "file" {
            return Err("a Helmfile may not read repositories of the operator's disk".to_owned());
        }
        if !self.allow_local_addresses && names_local_address(url).await {
            return Err("its host is this machine or the metadata service of its cloud".to_owned());
        }
        let is_origin =
            self.origin.as_ref().is_some_and(|(scheme, host)| *scheme == url.scheme && *host == url.host);
        let access = match is_origin {
            true => self.git.clone(),
            false => GitAccess { isolated: true, ..GitAccess::default() },
        };
        Ok(GitAccess { login: login.or_else(|| access.login.clone()), ..access })
    }
}

/// Copies the commit that the address asks for, unless that was done, and returns its root.
async fn repository(
    copies: &mut Copies,
    address: &Address,
    tenant: Option<&TenantAccess>,
) -> Result<PathBuf, String> {
    let mut point = Point::Head;
    for (key, value) in &address.query {
        match key.as_str() {
            "ref" if is_reference_name(value) => point = Point::Any(value.clone()),
            "ref" => return Err(format!("{value:?} is not a name of a branch, tag or commit")),
            // A copy has no history, and is not kept.
            "depth" | "cache" => {}
            other => return Err(format!("the parameter {other:?} is not supported; there is ref")),
        }
    }
    let location = &address.location;
    let login = location.user();
    // ssh takes the user from the URL; https sends it to this origin alone.
    let (url, login) = match (location.scheme.as_str(), login) {
        ("ssh", Some((user, ""))) => (format!("ssh://{user}@{}{}", location.host, location.path), None),
        ("ssh", Some(_)) => return Err("ssh takes keys, and no password".to_owned()),
        ("https" | "http", Some((user, password))) => {
            (location.to_string(), Some(GitLogin::Basic(user.to_owned(), Secret(password.to_owned()))))
        }
        ("https" | "http" | "ssh" | "file", None) => (location.to_string(), None),
        (other, _) => {
            return Err(format!("git by {other:?} is not supported; there are https, ssh and file"));
        }
    };
    let home = copies.home.as_ref().ok_or("no temporary directory")?.path();
    let access = match tenant {
        Some(tenant) => tenant.access(location, login).await?,
        None => GitAccess { login, ..GitAccess::default() },
    };
    let git = GitRemote { url: &url, access: &access };
    let commit = git.resolve(home, &point).await.map_err(|error| error.to_string())?;
    let key = (url.clone(), commit.commit.clone());
    if let Some(root) = copies.repositories.get(&key) {
        return Ok(root.clone());
    }
    let folder = tempfile::tempdir_in(home).map_err(|error| error.to_string())?.keep();
    let root = git.checkout(&folder, &commit, false, &[]).await.map_err(|error| error.to_string())?;
    copies.repositories.insert(key, root.clone());
    Ok(root)
}

/// Runs a future on a thread of its own: callers may be in a runtime already.
pub(super) fn on_own_thread<T: Send, F: Future<Output = Result<T, String>>>(
    make: impl FnOnce() -> F + Send,
) -> Result<T, String> {
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| error.to_string())?.block_on(make())
        });
        work.join().unwrap_or_else(|_| Err("the fetch did not end".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn files(offline: bool) -> RemoteFiles {
        RemoteFiles::new(Http::new(Duration::from_secs(5), offline))
    }

    #[test]
    fn a_single_at_sign_ends_what_is_fetched() {
        for (text, url, subdirectory, file) in [
            ("git::https://h/o/r@a/b.yaml?ref=x", "https://h/o/r", "", "a/b.yaml"),
            ("git::https://h/o/r//s@b.yaml", "https://h/o/r", "s", "b.yaml"),
            ("git::https://h/o/r//s@/b.yaml", "https://h/o/r", "s", "b.yaml"),
            ("git::https://u:p@h/o/r/b.yaml", "https://h/o/r", "", "b.yaml"),
            ("https://h/a@b@c/d.yaml", "https://h/a@b@c", "", "d.yaml"),
            ("git::ssh://git@h/r@b.yaml", "ssh://h/r", "", "b.yaml"),
        ] {
            let address = Address::parse(text).unwrap();
            let parts = (address.location.to_string(), address.subdirectory.as_str(), address.file.as_str());
            assert_eq!(parts, (url.to_owned(), subdirectory, file), "{text}");
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name_and_without_secrets() {
        for (address, words) in [
            ("hg::https://h/r@f", "\"hg\" is not supported"),
            ("s3://bucket/key", "\"s3\" is not supported"),
            ("git::https://u:hunter2@h/r@f?sshkey=hunter2", "\"sshkey\" is not supported"),
            ("git::https://h/r@f?ref=--upload-pack=x", "not a name of a branch"),
            ("git::ftp://h/r@f", "git by \"ftp\""),
            ("git::ssh://u:hunter2@h/r@f", "no password"),
        ] {
            let told = files(false).fetch(address, "states").unwrap_err();
            assert!(told.contains(words) && !told.contains("hunter2"), "{told}");
        }
        let told = files(true).fetch("https://u:hunter2@h/f?token=hunter2", "states").unwrap_err();
        assert!(told.contains("offline") && !told.contains("hunter2"), "{told}");
    }

    #[test]
    fn files_stay_within_their_repository() {
        for file in ["../x", "a/../../x"] {
            let address = Address::parse(&format!("git::https://h/r@{file}")).unwrap();
            assert!(address.below(Path::new("/copy")).unwrap_err().contains("leaves"), "{file}");
        }
        let address = Address::parse("git::https://h/r//a@b/c").unwrap();
        assert_eq!(address.below(Path::new("/copy")).unwrap(), "/copy/a/b/c");
    }
}
