//! Charts in Git repositories, by the `git` program: `git+https://HOST/REPOSITORY//PATH?ref=REF`, `git+ssh://…`.
//!
//! Uses the program instead of a library: it supports the user's ssh keys, known hosts, credential helpers and proxies,
//! and gix would add 245 crates. [`remote`]: how it runs; [`copies`]: checkouts of one run; [`ssh_signature`]: signatures of Git
//! objects; [`github_app`]: tokens of GitHub Apps; `pinned_servers`: the addresses that git may connect to; `checkout_size`: how much
//! a checkout takes; `submodules`: repositories in a repository.

mod checkout_size;
pub mod copies;
pub mod github_app;
mod pinned_servers;
pub mod remote;
pub mod ssh_signature;
mod submodules;

use std::io;
use std::path::{Component, Path};
use windlass_base::hex::hex;

use chart_compat::chart::MAX_CHART_BYTES;
use chart_compat::profile::Profile;
use sha2::{Digest as _, Sha256};

use self::remote::{GitAccess, GitLogin, GitRemote, GitRevision, is_commit, is_reference_name};
use super::cache::{Kind, parse_digest};
use super::chart_package::{self, Times};
use super::fetch::{ChartBytes, Fetcher, Options};
use super::location::Location;
use super::{Error as LoadError, atomic_files, load};

/// Why a chart could not be fetched from Git.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The program is missing or does not run.
    #[error("git: {0}; charts in Git repositories need the git program")]
    Program(io::Error),
    /// It failed.
    #[error("git {verb} {url}: {reason}")]
    Failed {
        /// The step.
        verb: String,
        /// The URL.
        url: String,
        /// Its output, without credentials.
        reason: String,
        /// Its status, if it ended by itself.
        code: Option<i32>,
    },
    /// The reference is invalid.
    #[error("{0}")]
    Reference(String),
    /// It took too long, or the repository is too large.
    #[error("git {verb} {url}: {reason}")]
    Bound {
        /// The step.
        verb: String,
        /// The URL.
        url: String,
        /// The limit.
        reason: String,
    },
    /// The path does not exist in it.
    #[error("{url} has no directory {path:?} at {commit}")]
    NoPath {
        /// The URL.
        url: String,
        /// The path.
        path: String,
        /// The commit.
        commit: String,
    },
    /// The directory is not a chart.
    #[error(transparent)]
    Load(Box<LoadError>),
    /// A file cannot be written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The chart cannot be packed.
    #[error(transparent)]
    Package(#[from] chart_package::PackageError),
    /// Offline mode.
    #[error("{0} is not in the cache, and offline mode forbids fetching it")]
    Offline(String),
}

/// The requested part of a repository.
#[derive(Debug, PartialEq, Eq)]
struct GitRequest {
    /// For git.
    url: String,
    scheme: String,
    path: String,
    point: GitRevision,
    submodules: bool,
}

impl GitRequest {
    fn parse(location: &Location) -> Result<Self, GitError> {
        let wrong = |text: String| GitError::Reference(text);
        let scheme = location.scheme.trim_start_matches("git+").to_owned();
        let (repository, path) = location.path.split_once("//").unwrap_or((&location.path, ""));
        if Path::new(path).components().any(|c| !matches!(c, Component::Normal(_) | Component::CurDir)) {
            return Err(wrong(format!("{location}: the path {path:?} leads out of the repository")));
        }
        let user = location.user().map(|u| u.0).filter(|_| scheme == "ssh");
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
        if user.is_some_and(|u| u.starts_with('-') || !u.chars().all(plain)) || location.host.starts_with('-')
        {
            return Err(wrong(format!("{location}: no user or host of ssh")));
        }
        let user = user.map(|u| format!("{u}@")).unwrap_or_default();
        let url = format!("{scheme}://{user}{}{repository}", location.host);
        let mut out =
            Self { url, scheme, path: path.to_owned(), point: GitRevision::Head, submodules: false };
        for pair in location.query.iter().flat_map(|q| q.split('&')).filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned();
            out.point = match key {
                "ref" => GitRevision::Any(checked(value)?),
                "branch" => GitRevision::Branch(checked(value)?),
                "tag" => GitRevision::Tag(checked(value)?),
                "commit" if is_commit(&value) => GitRevision::Commit(value),
                "semver" => GitRevision::Semver(value),
                "submodules" => {
                    out.submodules = matches!(value.as_str(), "1" | "true");
                    continue;
                }
                _ => {
                    let known = "ref, branch, tag, commit (40 hex digits), semver, submodules";
                    return Err(wrong(format!("{location}: {pair:?} is none of {known}")));
                }
            };
        }
        Ok(out)
    }
}

/// A name of a branch or tag that git cannot mistake for an option.
fn checked(name: String) -> Result<String, GitError> {
    if is_reference_name(&name) {
        return Ok(name);
    }
    Err(GitError::Reference(format!("{name:?} is not a name of a branch, tag or commit")))
}

impl Fetcher {
    /// Fetches the chart in a directory of a Git repository, packed.
    pub(super) async fn fetch_git(
        &self,
        location: &Location,
        options: &Options,
        warn: &mut (dyn FnMut(String) + Send),
    ) -> Result<ChartBytes, GitError> {
        if self.http.is_offline() {
            return Err(GitError::Offline(location.to_string()));
        }
        let wanted = GitRequest::parse(location)?;
        let flags = Some((options.username.clone(), options.password.clone())).filter(|f| !f.0.is_empty());
        let own = location.user().map(|u| (u.0.to_owned(), u.1.clone()));
        let login = own.or(flags).filter(|_| wanted.scheme.starts_with("http"));
        let access = GitAccess {
            tls: options.tls.clone(),
            login: login.map(|(user, password)| GitLogin::Basic(user, password)),
            ..GitAccess::default()
        };
        let git = GitRemote { url: &wanted.url, access: &access };
        let scratch = tempfile::Builder::new().prefix("windlass-git-").tempdir()?;
        let commit = git.resolve(scratch.path(), &wanted.point).await?;
        let origin = format!("git+{}//{}@{}", wanted.url, wanted.path, commit.commit);
        let note = self.home.content.join("windlass-git").join(hex(&Sha256::digest(origin.as_bytes())));
        if let Some(known) = self.known(&note, &origin) {
            return Ok(known);
        }
        let root = git.checkout(scratch.path(), &commit, wanted.submodules, &[]).await?;
        let directory = root.join(&wanted.path);
        // Checks links out as files, so that no path leaves the checkout.
        if !directory.is_dir() {
            return Err(GitError::NoPath {
                url: wanted.url.clone(),
                path: wanted.path.clone(),
                commit: commit.commit,
            });
        }
        let loaded = load(&directory, Profile::Helm4).map_err(|e| GitError::Load(Box::new(e)))?;
        loaded.warnings.into_iter().for_each(&mut *warn);
        let bytes = chart_package::pack(&loaded.chart, &Times::none())?;
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        self.keep(&digest, Kind::Chart, &bytes, warn);
        // Without this record the next call fetches it again.
        drop(atomic_files::write(&note, hex(&digest).as_bytes(), 0o644));
        Ok(ChartBytes {
            digest: hex(&digest),
            file_name: chart_package::file_name(&loaded.chart),
            version: loaded.chart.metadata.version,
            origin,
            provenance: None,
            notes: Vec::new(),
            bytes: bytes.into(),
        })
    }

    /// The cached package of a commit.
    fn known(&self, note: &Path, origin: &str) -> Option<ChartBytes> {
        let text = String::from_utf8(atomic_files::read(note, 64).ok()??).ok()?;
        let digest = parse_digest(&text).ok()?;
        let bytes = self.cache.get(&digest, Kind::Chart, MAX_CHART_BYTES)?;
        let chart = super::load_package(&bytes, note, Profile::Helm4).ok()?.chart;
        Some(ChartBytes {
            digest: text,
            file_name: chart_package::file_name(&chart),
            version: chart.metadata.version,
            origin: origin.to_owned(),
            provenance: None,
            notes: Vec::new(),
            bytes: bytes.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> Result<GitRequest, String> {
        GitRequest::parse(&Location::parse(text).unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn references_name_a_repository_a_path_and_a_commit() {
        let w = wanted("git+https://me:secret@h/team/repo.git//charts/web?ref=v1.0&submodules=1").unwrap();
        assert_eq!((w.url.as_str(), w.path.as_str()), ("https://h/team/repo.git", "charts/web"));
        assert_eq!((w.point, w.submodules), (GitRevision::Any("v1.0".into()), true));
        let w = wanted("git+ssh://git@h/repo.git").unwrap();
        assert_eq!(
            (w.url.as_str(), w.path.as_str(), w.point),
            ("ssh://git@h/repo.git", "", GitRevision::Head)
        );
        for bad in [
            "//../x",
            "//a/../../x",
            "?ref=-x",
            "?branch=-x",
            "?tag=--upload-pack=x",
            "?ref=--upload-pack=x",
            "?ref=a..b",
            "?commit=abc",
            "?depth=1",
            "?tag=",
        ] {
            assert!(wanted(&format!("git+https://h/r.git{bad}")).is_err(), "{bad}");
        }
    }
}
