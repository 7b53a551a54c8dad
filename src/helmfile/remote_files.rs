//! Files that addresses name, fetched once in a run.
//!
//! Owns what was fetched: into one temporary directory, one copy for each address and for each commit of a repository. What is on a
//! server is asked anew in each run; helmfile keeps a branch for ever. Errors name no login and no query.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::addresses::address::Address;
use super::addresses::{download, git_address};
use super::local_host::Fetcher;
use super::own_thread;
use crate::source::git::copies::GitCopies;
use crate::source::http::Http;
use crate::source::location::without_secrets;

/// Most addresses of one run.
const MAX_ADDRESSES: usize = 1000;

/// The files of one run.
pub struct RemoteFiles {
    http: Http,
    copies: Mutex<Copies>,
}

#[derive(Default)]
struct Copies {
    /// Made for the first address.
    git: Option<GitCopies>,
    /// By address.
    files: HashMap<String, Result<String, String>>,
}

impl RemoteFiles {
    /// Files that `http` reaches; repositories are reached by git, unless `http` is offline.
    #[must_use]
    pub fn new(http: Http) -> Self {
        Self { http, copies: Mutex::default() }
    }

    fn get(&self, copies: &mut Copies, address: &Address) -> Result<String, String> {
        if self.http.is_offline() {
            return Err("offline mode forbids fetching it".to_owned());
        }
        if copies.files.len() >= MAX_ADDRESSES {
            return Err(format!("a run fetches at most {MAX_ADDRESSES} addresses"));
        }
        let git = match &mut copies.git {
            Some(git) => git,
            empty => {
                let git = GitCopies::new("windlass-helmfile-");
                empty.insert(git.map_err(|error| format!("no temporary directory: {error}"))?)
            }
        };
        match (address.getter.as_deref(), address.location.scheme.as_str()) {
            (Some("git"), _) => {
                let root = own_thread::wait(|| git_address::copy(git, address))?;
                address.below(&root)
            }
            (None | Some("http" | "https"), "http" | "https") | (None, "s3") | (Some("s3" | "gcs"), _) => {
                let directory = tempfile::tempdir_in(git.home()).map_err(|error| error.to_string())?.keep();
                own_thread::wait(|| download::fetch(&self.http, address, &directory))
            }
            (Some("hg"), _) => {
                Err("Mercurial repositories are not supported; use git:: or an archive by http::".to_owned())
            }
            (getter, scheme) => Err(format!(
                "{:?} is not supported; there are git::, http::, s3:: and gcs::, and single files by https and s3",
                getter.unwrap_or(scheme)
            )),
        }
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
                .get(&mut copies, &address)
                .map_err(|error| format!("{}: {}", address.shown(), without_secrets(&error))),
            Err(error) => Err(format!("{}: {error}", without_secrets(text))),
        };
        copies.files.insert(text.to_owned(), done.clone());
        done
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
            ("http::https://u:hunter2@h/f.yaml?x=hunter2", "no archive"),
            ("http::https://h/a.tar.bz2@f", "use tar.gz"),
            ("http::https://h/a?archive=rar", "no type of archives"),
            ("s3::https://h/b/f.yaml@x?aws_profile=hunter2", "single file"),
            ("s3://b/f.yaml?aws_profile=hunter2", "set AWS_PROFILE"),
            ("gcs::https://h/f", "gcs:: takes https://"),
        ] {
            let told = files(false).fetch(address, "states").unwrap_err();
            assert!(told.contains(words) && !told.contains("hunter2"), "{told}");
        }
        let told = files(true).fetch("https://u:hunter2@h/f?token=hunter2", "states").unwrap_err();
        assert!(told.contains("offline") && !told.contains("hunter2"), "{told}");
    }
}
