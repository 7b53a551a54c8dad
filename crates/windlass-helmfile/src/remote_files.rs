//! Files that addresses name, fetched once in a run.
//!
//! Owns what was fetched: into one temporary directory, one copy for each address and for each commit of a repository, within one budget
//! of bytes. What is on a server is asked anew in each run; helmfile keeps a branch for ever. Errors name no login and no query.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::addresses::address::Address;
use super::addresses::{download, git_address};
use super::error::HelmfileError;
use super::local_host::Fetcher;
use windlass_base::blocking;
use windlass_fetch::byte_budget::ByteBudget;
use windlass_fetch::git::copies::GitCopies;
use windlass_fetch::git::remote::{GitAccess, GitLogin};
use windlass_fetch::http::Http;
use windlass_fetch::input_store::{InputKind, InputStore, RemoteInput};
use windlass_fetch::location::{Location, without_secrets};

/// Most addresses of one run.
const MAX_ADDRESSES: usize = 1000;
/// Most bytes of all downloads and repositories of one run, packed and unpacked.
const MAX_BYTES: u64 = 8 << 30;
/// The same for a tenant, who shares the disk with others.
const MAX_TENANT_BYTES: u64 = 2 << 30;

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

impl TenantAccess {
    /// How a repository is accessed. `login`: of the address itself.
    ///
    /// # Errors
    /// Tenants may not access it.
    pub(super) fn access(&self, url: &Location, login: Option<GitLogin>) -> Result<GitAccess, HelmfileError> {
        if url.scheme == "file" {
            return Err(HelmfileError::Address(
                "a Helmfile may not read repositories of the operator's disk".to_owned(),
            ));
        }
        let is_origin =
            self.origin.as_ref().is_some_and(|(scheme, host)| *scheme == url.scheme && *host == url.host);
        let access = match is_origin {
            true => self.git.clone(),
            false => GitAccess { isolated: true, ..GitAccess::default() },
        };
        let login = login.or_else(|| access.login.clone());
        Ok(GitAccess { login, no_local_addresses: !self.allow_local_addresses, ..access })
    }
}

/// The files of one run.
pub struct RemoteFiles {
    http: Http,
    /// `None`: what this machine's user may fetch.
    tenant: Option<TenantAccess>,
    /// Keeps what is fetched, or has it in place of servers.
    inputs: Option<Arc<dyn InputStore>>,
    budget: Arc<ByteBudget>,
    /// Made for the first address.
    git: OnceLock<Result<GitCopies, String>>,
    /// Paths by address. No lock is held while one is fetched: who wants the same waits for it.
    files: Mutex<HashMap<String, FetchedPath>>,
}

/// Where the file of an address is, or why it could not be fetched: a text without the secrets that its causes may have.
type FetchedPath = Arc<OnceLock<Result<String, String>>>;

impl RemoteFiles {
    /// Files that `http` reaches; repositories are reached by git, unless `http` is offline.
    #[must_use]
    pub fn new(http: Http) -> Self {
        let budget = Arc::new(ByteBudget::new(MAX_BYTES));
        Self { http, tenant: None, inputs: None, budget, git: OnceLock::new(), files: Mutex::default() }
    }

    /// The same for a tenant: nothing of this process' user is used.
    #[must_use]
    pub fn of_tenant(http: Http, access: TenantAccess) -> Self {
        let http = if access.allow_local_addresses { http } else { http.without_local_addresses() };
        let budget = Arc::new(ByteBudget::new(MAX_TENANT_BYTES));
        Self { tenant: Some(access), budget, ..Self::new(http) }
    }

    /// The same with a store that keeps what is fetched, or has it.
    #[must_use]
    pub fn with_inputs(self, inputs: Option<Arc<dyn InputStore>>) -> Self {
        Self { inputs, ..self }
    }

    /// What all that is fetched counts against.
    #[must_use]
    pub fn budget(&self) -> Arc<ByteBudget> {
        Arc::clone(&self.budget)
    }

    /// The commits that were copied, each as `URL@sha1:COMMIT`, sorted.
    #[must_use]
    pub fn revisions(&self) -> Vec<String> {
        let all =
            self.git.get().and_then(|git| git.as_ref().ok()).map(GitCopies::commits).unwrap_or_default();
        let mut all: Vec<String> =
            all.into_iter().map(|(url, commit)| format!("{url}@sha1:{commit}")).collect();
        all.sort();
        all
    }

    /// Fetches an address, unless the store has it.
    fn get_or_find(&self, address: &Address, text: &str) -> Result<String, HelmfileError> {
        let Some(inputs) = &self.inputs else { return self.get(address) };
        let input = RemoteInput::new(InputKind::Address, text, "");
        if let Some(path) = inputs.find(&input)? {
            return Ok(path.to_string_lossy().into_owned());
        }
        let path = self.get(address)?;
        let home = self.git()?.home();
        // Roots of repositories are without symbolic links, those of other copies as they were made.
        let real = home.canonicalize().map_err(HelmfileError::cause)?;
        let below = Path::new(&path).strip_prefix(&real).or_else(|_| Path::new(&path).strip_prefix(home));
        let folder = below
            .ok()
            .and_then(|below| below.components().next())
            .ok_or_else(|| HelmfileError::Address("no copy".to_owned()))?;
        let base = if Path::new(&path).starts_with(&real) { real.as_path() } else { home };
        inputs.take_copy(&input, &base.join(folder), Path::new(&path))?;
        Ok(path)
    }

    fn git(&self) -> Result<&GitCopies, HelmfileError> {
        let made = self.git.get_or_init(|| {
            let within = self.tenant.as_ref().map(|tenant| tenant.directory.as_path());
            let git = GitCopies::new("windlass-helmfile-", within);
            let git = git.map_err(|error| format!("no temporary directory: {error}"))?;
            Ok(git.with_budget(Arc::clone(&self.budget)))
        });
        made.as_ref().map_err(|text| HelmfileError::Address(text.clone()))
    }

    fn get(&self, address: &Address) -> Result<String, HelmfileError> {
        if self.http.is_offline() {
            return Err(HelmfileError::Address("offline mode forbids fetching it".to_owned()));
        }
        let git = self.git()?;
        match (address.getter.as_deref(), address.location.scheme.as_str()) {
            (Some("git"), _) => {
                let root = blocking::wait(|| git_address::copy(git, address, self.tenant.as_ref()))?;
                address.below(&root)
            }
            // The keys would be this process' own.
            (None, "s3") | (Some("s3" | "gcs"), _) if self.tenant.is_some() => {
                Err(HelmfileError::Address("a Helmfile may not read buckets: use git:: or https".to_owned()))
            }
            (None | Some("http" | "https"), "http" | "https") | (None, "s3") | (Some("s3" | "gcs"), _) => {
                let directory = tempfile::tempdir_in(git.home()).map_err(HelmfileError::cause)?.keep();
                blocking::wait(|| download::fetch(&self.http, address, &directory, &self.budget))
            }
            (Some("hg"), _) => Err(HelmfileError::Address(
                "Mercurial repositories are not supported; use git:: or an archive by http::".to_owned(),
            )),
            (getter, scheme) => Err(HelmfileError::Address(format!(
                "{:?} is not supported; there are git::, http::, s3:: and gcs::, and single files by https and s3",
                getter.unwrap_or(scheme)
            ))),
        }
    }
}

impl Fetcher for RemoteFiles {
    fn fetch(&self, text: &str, _: &str) -> Result<String, HelmfileError> {
        let fetched = {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            if files.len() >= MAX_ADDRESSES && !files.contains_key(text) {
                return Err(HelmfileError::Address(format!(
                    "{}: a run fetches at most {MAX_ADDRESSES} addresses",
                    without_secrets(text)
                )));
            }
            Arc::clone(files.entry(text.to_owned()).or_default())
        };
        let fetch = || match Address::parse(text) {
            Ok(address) => self.get_or_find(&address, text).map_err(|error| {
                format!("{}: {}", address.without_login(), without_secrets(&error.to_string()))
            }),
            Err(error) => Err(format!("{}: {error}", without_secrets(text))),
        };
        fetched.get_or_init(fetch).clone().map_err(HelmfileError::Address)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn files(offline: bool) -> RemoteFiles {
        RemoteFiles::new(Http::new(Duration::from_secs(5), offline))
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name_and_without_secrets() {
        for (address, words) in [
            ("hg::https://h/r@f", "Mercurial repositories are not supported"),
            ("ftp://h/f", "\"ftp\" is not supported"),
            ("file::https://h/f", "\"file\" is not supported"),
            ("git::https://u:hunter2@h/r@f?key=hunter2", "\"key\" is not supported"),
            ("git::ssh://h/r@f?sshkey=hunter2", "\"sshkey\" is not a key"),
            ("git::https://h/r@f?ref=--upload-pack=x", "not a name of a branch"),
            ("git::ftp://h/r@f", "git by \"ftp\""),
            ("git::ssh://u:hunter2@h/r@f", "no password"),
            ("git::ssh://127.0.0.1%2Fx@h/r@f", "other characters"),
            ("http::https://u:hunter2@h/f.yaml?x=hunter2", "not an archive"),
            ("http::https://h/a.tar.bz2@f", "use tar.gz"),
            ("http::https://h/a?archive=rar", "not a type of archives"),
            ("s3::https://h/b/f.yaml@x?aws_profile=hunter2", "single file"),
            ("s3://b/f.yaml?aws_profile=hunter2", "set AWS_PROFILE"),
            ("gcs::https://h/f", "gcs:: takes https://"),
        ] {
            let told = files(false).fetch(address, "states").unwrap_err().to_string();
            assert!(told.contains(words) && !told.contains("hunter2"), "{told}");
        }
        let told =
            files(true).fetch("https://u:hunter2@h/f?token=hunter2", "states").unwrap_err().to_string();
        assert!(told.contains("offline") && !told.contains("hunter2"), "{told}");
    }
}
