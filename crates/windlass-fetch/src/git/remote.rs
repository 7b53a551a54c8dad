//! One Git repository: its references, and checkouts of its commits.
//!
//! Owns how the `git` program runs: without a terminal, hooks or symbolic links, with one protocol, within limits of time, size and
//! memory. What a commit would unpack to is asked before it is checked out.
//! Login, client certificate and `--insecure-skip-tls-verify` apply to the repository's origin; with any of them git follows no
//! redirect.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use chart_compat::go::semver;

use super::GitError;
use super::checkout_size::{CheckoutSize, measure};
use super::pinned_servers::PinnedServers;
use crate::atomic_files;
use crate::http::{Pem, Tls};
use windlass_base::child_process::{self, ChildError, Group, Limits};
use windlass_base::machine::memory_limit;
use windlass_base::redact::SecretText;

/// Time limit of one call, unless the access has another one.
const PATIENCE: Duration = Duration::from_secs(300);
/// Size limit of a clone, in bytes.
const MAX_CLONE: u64 = 2 << 30;
/// The interval between checks of that size.
const LOOK: Duration = Duration::from_millis(500);
/// Most bytes of git's output: references of a repository, names in a tree.
const MAX_OUTPUT: u64 = 64 << 20;
/// Least and most bytes of memory of a `git`; in between, half of what this process may take.
const MEMORY: (u64, u64) = (256 << 20, 2 << 30);

/// The requested commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GitRevision {
    /// The head of the default branch.
    Head,
    /// A branch, a tag or a commit, whichever exists.
    Any(String),
    /// A branch.
    Branch(String),
    /// A tag.
    Tag(String),
    /// The full name of a reference, such as `refs/pull/1/head`.
    Name(String),
    /// A commit, by its 40 hexadecimal digits.
    Commit(String),
    /// The highest tag in a range of versions.
    Semver(String),
}

/// A text that names no point of a repository.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a name of a branch, tag or commit")]
pub struct BadRevision(pub String);

impl From<BadRevision> for String {
    fn from(error: BadRevision) -> Self {
        error.to_string()
    }
}

impl GitRevision {
    /// The point of a reference that a user gives; the head of the default branch, if it is empty.
    ///
    /// # Errors
    /// git could mistake it for an option or a path.
    pub fn of_reference(reference: &str) -> Result<Self, BadRevision> {
        match reference {
            "" => Ok(Self::Head),
            name if is_reference_name(name) => Ok(Self::Any(name.to_owned())),
            name => Err(BadRevision(name.to_owned())),
        }
    }
}

/// A commit that a [`Point`] stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedCommit {
    /// 40 hexadecimal digits.
    pub commit: String,
    /// The name to fetch it by: a full reference, or the commit itself.
    pub name: String,
}

/// Who git is for a server.
#[derive(Clone, Debug)]
pub enum GitLogin {
    /// User and password.
    Basic(String, SecretText),
    /// A token.
    Bearer(SecretText),
}

/// A private key for ssh, and the host keys to accept.
#[derive(Clone, Debug)]
pub struct SshKey {
    /// The private key, in OpenSSH's or PEM format.
    pub identity: SecretText,
    /// Lines of a `known_hosts` file.
    pub known_hosts: String,
    /// The password of an encrypted key.
    pub password: SecretText,
}

/// How a repository is accessed.
#[derive(Clone, Debug, Default)]
pub struct GitAccess {
    /// TLS flags.
    pub tls: Tls,
    /// Login over HTTP.
    pub login: Option<GitLogin>,
    /// Login over ssh.
    pub ssh: Option<SshKey>,
    /// URL of an HTTP or SOCKS proxy, with its credentials.
    pub proxy: Option<SecretText>,
    /// Nothing of this process' user is used: no configuration, no keys, no agent, no credential helpers.
    pub isolated: bool,
    /// Whether servers may not be at addresses of this machine or of its cloud: those of the repository, its submodules and the proxy.
    /// Redirects are refused then, since they lead to others.
    pub no_local_addresses: bool,
    /// Time limit of one call; `None`: five minutes.
    pub timeout: Option<Duration>,
    /// Size limit of a clone, in bytes; never more than 2 GiB, which is that of `None`.
    pub size_limit: Option<u64>,
}

/// A repository.
pub struct GitRemote<'g> {
    /// Its URL, without credentials.
    pub url: &'g str,
    /// How it is accessed.
    pub access: &'g GitAccess,
}

pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|c| c.is_ascii_hexdigit())
}

/// Whether git cannot mistake a name of a branch or tag for an option or a path.
#[must_use]
pub fn is_reference_name(name: &str) -> bool {
    let ok = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '/' | '-' | '+' | '@' | '#');
    !name.is_empty() && !name.starts_with(['-', '/', '.']) && !name.contains("..") && name.chars().all(ok)
}

impl GitRemote<'_> {
    /// The protocol; that of `USER@HOST:PATH` is ssh.
    fn scheme(&self) -> &str {
        self.url.split_once("://").map_or("ssh", |(scheme, _)| scheme)
    }

    /// The commit of a point. `scratch`: a directory for git's files.
    ///
    /// # Errors
    /// The repository cannot be read, or has no such commit.
    pub async fn resolve(&self, scratch: &Path, point: &GitRevision) -> Result<ResolvedCommit, GitError> {
        let servers = self.pin(&[self.url]).await?;
        let refs = self.run(scratch, scratch, &servers, &["ls-remote", "--", self.url]).await?;
        resolve(&String::from_utf8_lossy(&refs), point, self.url)
    }

    /// Checks a commit out into `scratch`, with as little history as the server allows. Returns the directory. `directories`: the only
    /// ones to check out, if there are any.
    ///
    /// # Errors
    /// The commit cannot be fetched, or is too large.
    pub async fn checkout(
        &self,
        scratch: &Path,
        found: &ResolvedCommit,
        submodules: bool,
        directories: &[String],
    ) -> Result<PathBuf, GitError> {
        let root = scratch.join("checkout");
        let (url, ResolvedCommit { commit, name }) = (self.url, found);
        let (none, servers) = (PinnedServers::default(), self.pin(&[url]).await?);
        self.run(scratch, scratch, &none, &["init", "--quiet", "checkout"]).await?;
        let shallow = ["fetch", "--quiet", "--no-tags", "--depth=1", "--", url, commit];
        if self.run(scratch, &root, &servers, &shallow).await.is_err() {
            // Servers need not serve single commits or shallow clones; the commit is in some branch or tag then.
            let all = [
                "fetch",
                "--quiet",
                "--",
                url,
                "+refs/heads/*:refs/remotes/all/*",
                "+refs/tags/*:refs/tags/*",
            ];
            let one = ["fetch", "--quiet", "--no-tags", "--", url, name];
            self.run(scratch, &root, &servers, if is_commit(name) { &all } else { &one }).await?;
        }
        let before = CheckoutSize::default();
        let size = self.check_tree(scratch, &root, (commit, name), directories, before).await?;
        if !directories.is_empty() {
            let mut args = vec!["sparse-checkout", "set", "--"];
            args.extend(directories.iter().map(String::as_str));
            self.run(scratch, &root, &none, &args).await?;
        }
        self.run(scratch, &root, &none, &["checkout", "--quiet", "--detach", commit]).await?;
        if submodules {
            self.check_out_submodules(scratch, &root, name, size).await?;
        }
        Ok(root)
    }

    /// Checks what a commit, called `name`, unpacks to, beside what was counted before: a few trees can name each other many times.
    /// Returns the size of both. `directories`: the only ones that are checked out, if there are any.
    ///
    /// # Errors
    /// There is too much.
    pub(super) async fn check_tree(
        &self,
        scratch: &Path,
        root: &Path,
        (commit, name): (&str, &str),
        directories: &[String],
        before: CheckoutSize,
    ) -> Result<CheckoutSize, GitError> {
        let args = ["ls-tree", "-r", "-l", "-z", "--full-tree", commit];
        let bound =
            |reason| GitError::Bound { verb: "checkout".to_owned(), url: self.url.to_owned(), reason };
        let listed = self.run(scratch, root, &PinnedServers::default(), &args).await;
        let listed = listed.map_err(|error| match error {
            GitError::Bound { reason, .. } => bound(format!("the list of the files of {name}: {reason}")),
            other => other,
        })?;
        before.with_tree(name.to_owned(), listed, directories, self.size_limit()).await.map_err(bound)
    }

    /// The addresses of servers, if they are to be checked.
    pub(super) async fn pin(&self, urls: &[&str]) -> Result<PinnedServers, GitError> {
        if !self.access.no_local_addresses {
            return Ok(PinnedServers::default());
        }
        let proxy = self.access.proxy.as_ref().map(|proxy| proxy.expose());
        PinnedServers::resolve(urls, proxy).await.map_err(|error| GitError::Reference(error.to_string()))
    }

    fn size_limit(&self) -> u64 {
        self.access.size_limit.map_or(MAX_CLONE, |own| own.min(MAX_CLONE))
    }

    /// Fetches a reference with the object that it names, such as an annotated tag.
    ///
    /// # Errors
    /// It cannot be fetched.
    pub async fn fetch_reference(&self, scratch: &Path, root: &Path, name: &str) -> Result<(), GitError> {
        let refspec = format!("+{name}:{name}");
        let args = ["fetch", "--quiet", "--no-tags", "--depth=1", "--", self.url, &refspec];
        let servers = self.pin(&[self.url]).await?;
        self.run(scratch, root, &servers, &args).await.map(drop)
    }

    /// An object of a checkout as git stores it, such as a commit with its signature.
    ///
    /// # Errors
    /// It does not exist.
    pub async fn object(
        &self,
        scratch: &Path,
        root: &Path,
        kind: &str,
        name: &str,
    ) -> Result<Vec<u8>, GitError> {
        self.run(scratch, root, &PinnedServers::default(), &["cat-file", kind, name]).await
    }

    fn command(
        &self,
        scratch: &Path,
        directory: &Path,
        (servers, further): (&PinnedServers, &[(String, OsString)]),
    ) -> Result<Command, GitError> {
        let scheme = self.scheme();
        let mut settings: Vec<(String, OsString)> = vec![
            ("core.hooksPath".into(), "/dev/null".into()),
            ("core.symlinks".into(), "false".into()),
            ("core.fsmonitor".into(), "false".into()),
            ("protocol.allow".into(), "never".into()),
            (format!("protocol.{scheme}.allow"), "always".into()),
            ("gc.auto".into(), "0".into()),
        ];
        let access = self.access;
        let file = |name: &str, pem: &Pem| -> Result<OsString, GitError> {
            Ok(match pem {
                Pem::File(path) => path.as_os_str().to_owned(),
                Pem::Text(text) => private_file(scratch, name, text)?.into_os_string(),
            })
        };
        // Settings for the repository's origin: submodules on other servers get none of them.
        let server = self.url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let mut own: Vec<(&str, OsString)> = Vec::new();
        if let Some(pem) = &access.tls.certificate {
            own.push(("sslCert", file("tls.crt", pem)?));
        }
        if let Some(pem) = &access.tls.key {
            own.push(("sslKey", file("tls.key", pem)?));
        }
        if access.tls.insecure {
            own.push(("sslVerify", "false".into()));
        }
        // In the environment: other users can read the command line.
        match &access.login {
            Some(GitLogin::Basic(user, password)) => {
                let pair =
                    base64::engine::general_purpose::STANDARD.encode(format!("{user}:{}", password.expose()));
                own.push(("extraHeader", format!("Authorization: Basic {pair}").into()));
            }
            Some(GitLogin::Bearer(token)) => {
                own.push(("extraHeader", format!("Authorization: Bearer {}", token.expose()).into()));
            }
            None => {}
        }
        let redirects = if access.no_local_addresses { "false" } else { "initial" };
        settings.push(("http.followRedirects".into(), redirects.into()));
        if !own.is_empty() {
            // After a redirect git sends these to the new server. The user's own setting may be for this origin too.
            own.push(("followRedirects", "false".into()));
        }
        settings.extend(own.into_iter().map(|(key, value)| (format!("http.{server}/.{key}"), value)));
        if let Some(pem) = &access.tls.ca {
            settings.push(("http.sslCAInfo".into(), file("ca.crt", pem)?));
        }
        settings.extend(servers.curl().iter().map(|pin| ("http.curloptResolve".into(), pin.into())));
        if access.isolated {
            // Each thread takes memory, and there are as many as processors.
            settings.push(("pack.threads".into(), "2".into()));
        }
        settings.extend(access.proxy.as_ref().map(|proxy| ("http.proxy".into(), proxy.expose().into())));
        settings.extend_from_slice(further);
        let mut command = Command::new("git");
        self.clear_environment(&mut command);
        command.current_dir(directory).env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "true");
        // This setting takes precedence over `protocol.allow`, so the user's must be cleared.
        command.env("GIT_ALLOW_PROTOCOL", scheme);
        command.env("LC_ALL", "C").env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (n, (key, value)) in settings.into_iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{n}"), key).env(format!("GIT_CONFIG_VALUE_{n}"), value);
        }
        if access.isolated {
            command.env("HOME", scratch).env("XDG_CONFIG_HOME", scratch);
            command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
            command.env_remove("SSH_AUTH_SOCK");
        }
        self.configure_ssh(scratch, servers, &mut command)?;
        Ok(command)
    }

    /// Removes variables that go before our settings: for the repository itself, for its own authority, and, of a source, the user's.
    fn clear_environment(&self, command: &mut Command) {
        const AUTHORITIES: [&str; 2] = ["GIT_SSL_CAINFO", "GIT_SSL_CAPATH"];
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
            command.env_remove(name);
        }
        if self.access.tls.ca.is_some() {
            for name in AUTHORITIES {
                command.env_remove(name);
            }
        }
        if self.access.isolated {
            let users = |name: &str| {
                name.starts_with("GIT_") && name != "GIT_EXEC_PATH" && !AUTHORITIES.contains(&name)
            };
            for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(users)) {
                command.env_remove(name);
            }
        }
    }

    fn configure_ssh(
        &self,
        scratch: &Path,
        servers: &PinnedServers,
        command: &mut Command,
    ) -> Result<(), GitError> {
        let config = match servers.ssh() {
            "" => "/dev/null".to_owned(),
            text => private_file(scratch, "ssh_config", text.as_bytes())?.display().to_string(),
        };
        let Some(ssh) = &self.access.ssh else {
            if self.access.isolated {
                // ssh finds the user's keys and hosts without HOME, too.
                let text = format!(
                    "ssh -F '{config}' -oBatchMode=yes -oIdentitiesOnly=yes -oIdentityFile=none -oIdentityAgent=none \
                     -oPubkeyAuthentication=no -oUserKnownHostsFile=/dev/null -oGlobalKnownHostsFile=/dev/null"
                );
                command.env("GIT_SSH_COMMAND", text);
            } else if std::env::var_os("GIT_SSH_COMMAND").is_none() && std::env::var_os("GIT_SSH").is_none() {
                command.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
            }
            return Ok(());
        };
        // ssh refuses a key whose last line does not end.
        let identity = format!("{}\n", ssh.identity.expose().trim_end());
        private_file(scratch, "identity", identity.as_bytes())?;
        private_file(scratch, "known_hosts", ssh.known_hosts.as_bytes())?;
        let mut text = format!(
            "ssh -F '{config}' -i '{0}/identity' -oIdentitiesOnly=yes -oIdentityAgent=none -oStrictHostKeyChecking=yes \
             -oUserKnownHostsFile='{0}/known_hosts' -oGlobalKnownHostsFile=/dev/null",
            scratch.display()
        );
        if ssh.password.expose().is_empty() {
            text.push_str(" -oBatchMode=yes");
        } else {
            let script =
                private_file(scratch, "askpass", b"#!/bin/sh\nprintf '%s\\n' \"$WINDLASS_SSH_PASSWORD\"\n")?;
            executable(&script)?;
            command.env("SSH_ASKPASS", script).env("SSH_ASKPASS_REQUIRE", "force");
            command.env("WINDLASS_SSH_PASSWORD", ssh.password.expose());
        }
        command.env("GIT_SSH_COMMAND", text);
        Ok(())
    }

    /// Runs a call; ends it if it exceeds a limit. `servers`: where it may go.
    ///
    /// # Errors
    /// It fails, or exceeds a limit.
    pub(super) async fn run(
        &self,
        scratch: &Path,
        directory: &Path,
        servers: &PinnedServers,
        args: &[&str],
    ) -> Result<Vec<u8>, GitError> {
        self.run_with(scratch, directory, (servers, &[]), args).await
    }

    /// The same with further settings, each a key and a value.
    ///
    /// # Errors
    /// It fails, or exceeds a limit.
    pub(super) async fn run_with(
        &self,
        scratch: &Path,
        directory: &Path,
        (servers, settings): (&PinnedServers, &[(String, OsString)]),
        args: &[&str],
    ) -> Result<Vec<u8>, GitError> {
        let verb = args.first().copied().unwrap_or_default().to_owned();
        let url = self.url.to_owned();
        let bound = |reason: String| GitError::Bound { verb: verb.clone(), url: url.clone(), reason };
        let mut command = self.command(scratch, directory, (servers, settings))?;
        command.args(args);
        let limits = Limits {
            output: MAX_OUTPUT,
            time: Some(self.access.timeout.unwrap_or(PATIENCE)),
            memory: Some((memory_limit() / 2).clamp(MEMORY.0, MEMORY.1)),
            // A user's own ssh may ask at the terminal.
            group: if self.access.isolated { Group::Own } else { Group::Shared },
        };
        let work = child_process::run_async(command, Vec::new(), limits);
        tokio::pin!(work);
        let size_limit = self.size_limit();
        let ended = loop {
            tokio::select! {
                ended = &mut work => break ended,
                () = tokio::time::sleep(LOOK) => {}
            }
            let size = measure(scratch).await;
            if size.map_err(|error| bound(error.to_string()))? > size_limit {
                return Err(bound(format!("the repository is larger than {size_limit} bytes")));
            }
        };
        let output = ended.map_err(|error| match error {
            ChildError::Start(error) | ChildError::Wait(error) => GitError::Program(error),
            ChildError::Output(_) | ChildError::Time(_) => bound(error.to_string()),
        })?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        let reason: String = lines.join("; ").chars().filter(|c| !c.is_control()).take(500).collect();
        let reason = match reason.is_empty() {
            true => output.status.to_string(),
            false if is_redirect(&reason) => {
                format!("{reason}; the redirect is not followed: use the URL that it leads to")
            }
            // git has one exit code for all failures.
            false if reason.contains("Out of memory") => {
                let limit = limits.memory.unwrap_or_default() >> 20;
                return Err(bound(format!("{reason}; git may take {limit} MiB of memory")));
            }
            false => reason,
        };
        Err(GitError::Failed { verb, url, reason, code: output.status.code() })
    }
}

/// Whether git tells that a server redirects, which it follows no further.
fn is_redirect(output: &str) -> bool {
    ["301", "302", "303", "307", "308"].iter().any(|code| output.contains(&format!("returned error: {code}")))
}

/// Writes a file for its owner only.
fn private_file(directory: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, GitError> {
    let path = directory.join(name);
    atomic_files::write(&path, bytes, 0o600)?;
    Ok(path)
}

#[cfg(unix)]
fn executable(path: &Path) -> Result<(), GitError> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?)
}

#[cfg(not(unix))]
fn executable(_: &Path) -> Result<(), GitError> {
    Ok(())
}

/// The commit of a point, from the output of `ls-remote`.
fn resolve(refs: &str, point: &GitRevision, url: &str) -> Result<ResolvedCommit, GitError> {
    let all: Vec<(&str, &str)> =
        refs.lines().filter_map(|l| l.split_once('\t')).filter(|r| is_commit(r.0)).collect();
    // An annotated tag points at its commit under a second name.
    let find = |name: &str| {
        let peeled = format!("{name}^{{}}");
        let commit = all.iter().find(|r| r.1 == peeled).or_else(|| all.iter().find(|r| r.1 == name));
        commit.map(|r| ResolvedCommit { commit: r.0.to_owned(), name: name.to_owned() })
    };
    let itself = |commit: &str| ResolvedCommit { commit: commit.to_owned(), name: commit.to_owned() };
    let missing = |what: String| GitError::Reference(format!("{url} has no {what}"));
    match point {
        GitRevision::Head => find("HEAD").ok_or_else(|| missing("commit".to_owned())),
        GitRevision::Branch(name) => {
            find(&format!("refs/heads/{name}")).ok_or_else(|| missing(format!("branch {name}")))
        }
        GitRevision::Tag(name) => {
            find(&format!("refs/tags/{name}")).ok_or_else(|| missing(format!("tag {name}")))
        }
        GitRevision::Name(name) => find(name).ok_or_else(|| missing(format!("reference {name}"))),
        GitRevision::Commit(commit) => Ok(itself(commit)),
        GitRevision::Any(name) => find(&format!("refs/heads/{name}"))
            .or_else(|| find(&format!("refs/tags/{name}")))
            .or_else(|| find(name))
            .or_else(|| is_commit(name).then(|| itself(name)))
            .ok_or_else(|| missing(format!("branch, tag or commit {name}"))),
        GitRevision::Semver(wish) => {
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

#[cfg(test)]
pub(super) mod tests;
