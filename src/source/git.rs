//! Charts in Git repositories, by the `git` program: `git+https://HOST/REPOSITORY//PATH?ref=REF`, `git+ssh://…`.
//!
//! Uses the program instead of a library: it supports the user's ssh keys, known hosts, credential helpers and proxies,
//! and gix would add 245 crates. Runs it without a terminal, hooks or symbolic links, and allows one protocol. Login,
//! client certificate and `--insecure-skip-tls-verify` apply to the repository's origin; with any of them git follows no redirect.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use base64::Engine as _;
use chart_compat::chart::MAX_CHART_BYTES;
use chart_compat::go::semver;
use chart_compat::profile::Profile;
use sha2::{Digest as _, Sha256};
use tokio::process::Command;

use super::cache::{Kind, hex, parse_digest};
use super::chart_package::{self, Times};
use super::fetch::{ChartBytes, Fetcher, Options};
use super::location::Location;
use super::{Error as LoadError, atomic_files, load};

/// Time limit of one call.
const PATIENCE: Duration = Duration::from_secs(300);
/// Size limit of a clone, in bytes.
const MAX_CLONE: u64 = 2 << 30;
/// The interval between checks of that size.
const LOOK: Duration = Duration::from_millis(500);
/// Maximum number of bytes read from git's output.
const MAX_REFS: usize = 64 << 20;

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
    point: Point,
    submodules: bool,
}

/// The requested commit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Point {
    Head,
    /// A branch, a tag or a commit, whichever exists.
    Any(String),
    Branch(String),
    Tag(String),
    Commit(String),
    /// The highest tag in a range.
    Semver(String),
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
        let mut out = Self { url, scheme, path: path.to_owned(), point: Point::Head, submodules: false };
        for pair in location.query.iter().flat_map(|q| q.split('&')).filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned();
            out.point = match key {
                "ref" => Point::Any(checked(value)?),
                "branch" => Point::Branch(checked(value)?),
                "tag" => Point::Tag(checked(value)?),
                "commit" if is_commit(&value) => Point::Commit(value),
                "semver" => Point::Semver(value),
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

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|c| c.is_ascii_hexdigit())
}

/// A name of a branch or tag that git cannot mistake for an option.
fn checked(name: String) -> Result<String, GitError> {
    let ok = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '/' | '-' | '+');
    if name.is_empty() || name.starts_with(['-', '/', '.']) || name.contains("..") || !name.chars().all(ok) {
        return Err(GitError::Reference(format!("{name:?} is not a name of a branch, tag or commit")));
    }
    Ok(name)
}

/// The requested commit, and the name to fetch it by, from the output of `ls-remote`.
fn resolve(refs: &str, point: &Point, url: &str) -> Result<(String, String), GitError> {
    let all: Vec<(&str, &str)> =
        refs.lines().filter_map(|l| l.split_once('\t')).filter(|r| is_commit(r.0)).collect();
    // An annotated tag points at its commit under a second name.
    let find = |name: &str| {
        let peeled = format!("{name}^{{}}");
        let commit = all.iter().find(|r| r.1 == peeled).or_else(|| all.iter().find(|r| r.1 == name));
        commit.map(|r| (r.0.to_owned(), name.to_owned()))
    };
    let missing = |what: String| GitError::Reference(format!("{url} has no {what}"));
    match point {
        Point::Head => find("HEAD").ok_or_else(|| missing("commit".to_owned())),
        Point::Branch(name) => {
            find(&format!("refs/heads/{name}")).ok_or_else(|| missing(format!("branch {name}")))
        }
        Point::Tag(name) => find(&format!("refs/tags/{name}")).ok_or_else(|| missing(format!("tag {name}"))),
        Point::Commit(commit) => Ok((commit.clone(), commit.clone())),
        Point::Any(name) => find(&format!("refs/heads/{name}"))
            .or_else(|| find(&format!("refs/tags/{name}")))
            .or_else(|| find(name))
            .or_else(|| is_commit(name).then(|| (name.clone(), name.clone())))
            .ok_or_else(|| missing(format!("branch, tag or commit {name}"))),
        Point::Semver(wish) => {
            let range = semver::Range::parse(wish).map_err(GitError::Reference)?;
            let tags =
                all.iter().filter_map(|r| r.1.strip_prefix("refs/tags/")).filter(|t| !t.ends_with("^{}"));
            let versions =
                tags.filter_map(|t| Some((semver::parse(t).ok()?, t))).filter(|v| range.check(&v.0));
            let best = versions.max_by(|a, b| semver::compare(&a.0, &b.0)).map(|v| v.1);
            best.and_then(|t| find(&format!("refs/tags/{t}")))
                .ok_or_else(|| missing(format!("tag in {wish}")))
        }
    }
}

/// Runs git for one repository.
struct Git<'g> {
    wanted: &'g GitRequest,
    options: &'g Options,
    login: Option<(String, String)>,
}

impl Git<'_> {
    fn command(&self, directory: &Path) -> Command {
        let mut settings: Vec<(String, OsString)> = vec![
            ("core.hooksPath".into(), "/dev/null".into()),
            ("core.symlinks".into(), "false".into()),
            ("core.fsmonitor".into(), "false".into()),
            ("protocol.allow".into(), "never".into()),
            (format!("protocol.{}.allow", self.wanted.scheme), "always".into()),
            ("gc.auto".into(), "0".into()),
        ];
        let tls = &self.options.tls;
        // Settings for the repository's origin: submodules on other servers get none of them.
        let server = self.wanted.url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let mut own: Vec<(&str, OsString)> = Vec::new();
        for (key, file) in [("sslCert", &tls.cert_file), ("sslKey", &tls.key_file)] {
            own.extend(file.as_ref().map(|f| (key, f.as_os_str().to_owned())));
        }
        if tls.insecure {
            own.push(("sslVerify", "false".into()));
        }
        if let Some((user, password)) = &self.login {
            // In the environment: other users can read the command line.
            let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
            own.push(("extraHeader", format!("Authorization: Basic {pair}").into()));
        }
        settings.push(("http.followRedirects".into(), "initial".into()));
        if !own.is_empty() {
            // After a redirect git sends these to the new server. The user's own setting may be for this origin too.
            own.push(("followRedirects", "false".into()));
        }
        settings.extend(own.into_iter().map(|(key, value)| (format!("http.{server}/.{key}"), value)));
        settings.extend(tls.ca_file.as_ref().map(|f| ("http.sslCAInfo".into(), f.as_os_str().to_owned())));
        let mut command = Command::new("git");
        command.current_dir(directory).env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "true");
        // This setting takes precedence over `protocol.allow`, so the user's must be cleared.
        command.env("GIT_ALLOW_PROTOCOL", &self.wanted.scheme);
        command.env("LC_ALL", "C").env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (n, (key, value)) in settings.into_iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{n}"), key).env(format!("GIT_CONFIG_VALUE_{n}"), value);
        }
        for own in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
            command.env_remove(own);
        }
        if std::env::var_os("GIT_SSH_COMMAND").is_none() && std::env::var_os("GIT_SSH").is_none() {
            command.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        }
        command
    }

    /// Runs a call; ends it if it exceeds the time or size limit.
    async fn run(&self, directory: &Path, args: &[&str]) -> Result<Vec<u8>, GitError> {
        let verb = args.first().copied().unwrap_or_default().to_owned();
        let url = self.wanted.url.clone();
        let bound = |reason: String| GitError::Bound { verb: verb.clone(), url: url.clone(), reason };
        let child = self
            .command(directory)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(GitError::Program)?;
        let work = child.wait_with_output();
        tokio::pin!(work);
        let end = tokio::time::Instant::now() + PATIENCE;
        let output: Output = loop {
            tokio::select! {
                output = &mut work => break output.map_err(GitError::Program)?,
                () = tokio::time::sleep(LOOK) => {}
            }
            if tokio::time::Instant::now() > end {
                return Err(bound(format!("no end within {} seconds", PATIENCE.as_secs())));
            }
            if size(directory) > MAX_CLONE {
                return Err(bound(format!("the repository is larger than {MAX_CLONE} bytes")));
            }
        };
        if output.status.success() && output.stdout.len() <= MAX_REFS {
            return Ok(output.stdout);
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        let reason: String = lines.join("; ").chars().filter(|c| !c.is_control()).take(500).collect();
        Err(GitError::Failed {
            verb,
            url,
            reason: if reason.is_empty() { output.status.to_string() } else { reason },
        })
    }
}

fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |e: std::fs::DirEntry| match e.metadata() {
        Ok(meta) if meta.is_dir() => size(&e.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

impl Fetcher {
    /// Fetches the chart in a directory of a Git repository, packed.
    pub(super) async fn fetch_git(
        &self,
        location: &Location,
        options: &Options,
        warn: &mut dyn FnMut(String),
    ) -> Result<ChartBytes, GitError> {
        if self.http.is_offline() {
            return Err(GitError::Offline(location.to_string()));
        }
        let wanted = GitRequest::parse(location)?;
        let flags = Some((options.username.clone(), options.password.0.clone())).filter(|f| !f.0.is_empty());
        let own = location.user().map(|u| (u.0.to_owned(), u.1.to_owned()));
        let login = own.or(flags).filter(|_| wanted.scheme.starts_with("http"));
        let git = Git { wanted: &wanted, options, login };
        let scratch = tempfile::Builder::new().prefix("windlass-git-").tempdir()?;
        let refs = git.run(scratch.path(), &["ls-remote", "--", &wanted.url]).await?;
        let (commit, name) = resolve(&String::from_utf8_lossy(&refs), &wanted.point, &wanted.url)?;
        let origin = format!("git+{}//{}@{commit}", wanted.url, wanted.path);
        let note = self.home.content.join("windlass-git").join(hex(&Sha256::digest(origin.as_bytes())));
        if let Some(known) = self.known(&note, &origin) {
            return Ok(known);
        }
        let root = checkout(&git, scratch.path(), &commit, &name).await?;
        let directory = root.join(&wanted.path);
        // Checks links out as files, so that no path leaves the checkout.
        if !directory.is_dir() {
            return Err(GitError::NoPath { url: wanted.url.clone(), path: wanted.path.clone(), commit });
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

/// Checks a commit out, with as little history as the server allows.
async fn checkout(git: &Git<'_>, scratch: &Path, commit: &str, name: &str) -> Result<PathBuf, GitError> {
    let root = scratch.join("checkout");
    let url = git.wanted.url.as_str();
    git.run(scratch, &["init", "--quiet", "checkout"]).await?;
    let shallow = ["fetch", "--quiet", "--no-tags", "--depth=1", "--", url, commit];
    if git.run(&root, &shallow).await.is_err() {
        // Servers need not serve single commits or shallow clones; the commit is in some branch or tag then.
        let all =
            ["fetch", "--quiet", "--", url, "+refs/heads/*:refs/remotes/all/*", "+refs/tags/*:refs/tags/*"];
        let one = ["fetch", "--quiet", "--no-tags", "--", url, name];
        git.run(&root, if is_commit(name) { &all } else { &one }).await?;
    }
    git.run(&root, &["checkout", "--quiet", "--detach", commit]).await?;
    if git.wanted.submodules {
        git.run(&root, &["submodule", "--quiet", "update", "--init", "--recursive", "--depth=1"]).await?;
    }
    Ok(root)
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
        assert_eq!((w.point, w.submodules), (Point::Any("v1.0".into()), true));
        let w = wanted("git+ssh://git@h/repo.git").unwrap();
        assert_eq!((w.url.as_str(), w.path.as_str(), w.point), ("ssh://git@h/repo.git", "", Point::Head));
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

    #[test]
    fn refs_are_resolved() {
        let id = |c: &str| c.repeat(40);
        let refs = format!(
            "{0}\tHEAD\n{0}\trefs/heads/main\n{1}\trefs/heads/v1\n{2}\trefs/tags/v1.0.0\n{3}\trefs/tags/v1.0.0^{{}}\n{4}\trefs/tags/v1.10.0\n",
            id("a"),
            id("b"),
            id("c"),
            id("d"),
            id("e")
        );
        let table = [
            (Point::Head, Some("a")),
            (Point::Branch("v1".into()), Some("b")),
            (Point::Tag("v1.0.0".into()), Some("d")),
            (Point::Any("v1.0.0".into()), Some("d")),
            (Point::Any("main".into()), Some("a")),
            (Point::Any(id("f")), Some("f")),
            (Point::Semver("^1".into()), Some("e")),
            (Point::Semver("~1.0".into()), Some("d")),
            (Point::Semver("2.x".into()), None),
            (Point::Tag("main".into()), None),
        ];
        for (point, want) in table {
            let found = resolve(&refs, &point, "url").ok().map(|r| r.0);
            assert_eq!(found, want.map(id), "{point:?}");
        }
    }
}
