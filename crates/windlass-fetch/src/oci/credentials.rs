//! Registry credentials in Docker's files: Helm's own first, then Docker's, with their credential helpers.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::super::atomic_files;
use super::super::helm_paths::user_home;
use windlass_base::bounded_json;
use windlass_base::child_process::{self, ChildError, Group, Limits};
use windlass_base::redact::{SecretScope, SecretText};

/// Size limit of a configuration.
const MAX_FILE: u64 = 16 << 20;
/// The limits of a credential helper. It may ask its user.
const HELPER_LIMITS: Limits =
    Limits { output: 1 << 20, time: Some(Duration::from_secs(30)), memory: None, group: Group::Shared };
/// Docker's name for its own registry.
const DOCKER: &str = "https://index.docker.io/v1/";

/// Credentials for a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// User and password.
    Basic(String, SecretText),
    /// A token that is exchanged for others.
    Identity(SecretText),
}

/// Why credentials cannot be read or stored. Never contains one.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not in Docker's format.
    #[error("{path}: invalid config format: {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A credential helper failed.
    #[error("docker-credential-{helper}: {reason}")]
    Helper {
        /// Its name.
        helper: String,
        /// Why.
        reason: String,
    },
    /// There are no credentials.
    #[error("not logged in")]
    NotLoggedIn,
}

/// Why a text is not in Docker's format. Never quotes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigTextError {
    /// The text is not JSON.
    #[error("line {line}, column {column}: it is not JSON")]
    NotJson {
        /// Where, from 1.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// The text is another value than an object.
    #[error("it is not an object")]
    NotObject,
}

/// Where the credentials are.
#[derive(Clone)]
pub enum Credentials {
    /// In Helm's file, and in Docker's after it.
    Files {
        /// Helm's file.
        own: PathBuf,
        /// Docker's file.
        docker: PathBuf,
    },
    /// In the text of a file of Docker's, out of Secrets. No credential helper runs. Whoever takes a login out of it, the scope that it was
    /// read in knows it: the operator's own passwords mask no text of a tenant.
    Config(Map<String, Value>, SecretScope),
}

impl Credentials {
    /// Helm's file, and Docker's after it.
    #[must_use]
    pub fn of_files(own: &Path) -> Self {
        let set = std::env::var_os("DOCKER_CONFIG").filter(|v| !v.is_empty()).map(PathBuf::from);
        let docker = set.unwrap_or_else(|| user_home().join(".docker")).join("config.json");
        Self::Files { own: own.to_owned(), docker }
    }

    /// No credentials.
    #[must_use]
    pub fn none() -> Self {
        Self::Config(Map::new(), SecretScope::default())
    }

    /// The credentials of a Secret of type `kubernetes.io/dockerconfigjson`.
    ///
    /// # Errors
    /// The text is not in Docker's format; the error does not quote it.
    pub fn of_config(text: &[u8]) -> Result<Self, ConfigTextError> {
        match bounded_json::from_slice(text) {
            Ok(Value::Object(top)) => Ok(Self::Config(top, SecretScope::current())),
            Ok(_) => Err(ConfigTextError::NotObject),
            Err(e) => Err(ConfigTextError::NotJson { line: e.line(), column: e.column() }),
        }
    }

    /// User and password for one registry.
    #[must_use]
    pub fn of_login(registry: &str, user: &str, password: &str) -> Self {
        let entry = json!({ "username": user, "password": password });
        let auths = json!({ key(registry): entry });
        Self::Config(Map::from_iter([("auths".to_owned(), auths)]), SecretScope::current())
    }

    /// The same with those of another text; credentials in files are left as they are.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        if let (Self::Config(own, _), Self::Config(other, _)) = (&mut self, other)
            && let Some(Value::Object(auths)) = other.get("auths")
            && let Value::Object(all) = own.entry("auths").or_insert_with(|| json!({}))
        {
            all.extend(auths.clone());
        }
        self
    }

    /// Whether there are credentials for a registry in the text of a Secret.
    #[must_use]
    pub fn has(&self, registry: &str) -> bool {
        matches!(self, Self::Config(top, scope) if scope.run(|| plain(top, registry)).is_some())
    }

    /// Whether they are in the user's files, which `registry login` writes.
    pub(super) fn are_in_files(&self) -> bool {
        matches!(self, Self::Files { .. })
    }

    /// Helm's file, which is written.
    fn own(&self) -> Result<&Path, CredentialsError> {
        match self {
            Self::Files { own, .. } => Ok(own),
            Self::Config(..) => Err(CredentialsError::NotLoggedIn),
        }
    }

    /// The credentials for a registry, if there are any.
    ///
    /// # Errors
    /// A file or a credential helper fails.
    pub async fn get(&self, registry: &str) -> Result<Option<Login>, CredentialsError> {
        let (own, docker) = match self {
            Self::Config(top, scope) => return Ok(scope.run(|| plain(top, registry))),
            Self::Files { own, docker } => (own, docker),
        };
        for path in [own, docker] {
            let config = Config::load(path)?;
            let found = match config.helper(registry) {
                Some(helper) => from_helper(&helper, registry).await?,
                None => plain(&config.top, registry),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Stores credentials in Helm's file, or by its credential helper.
    ///
    /// # Errors
    /// They cannot be stored.
    pub async fn put(&self, registry: &str, user: &str, password: &str) -> Result<(), CredentialsError> {
        let (_lock, mut config) = Config::lock(self.own()?)?;
        if let Some(helper) = config.helper(registry) {
            let input = json!({ "ServerURL": key(registry), "Username": user, "Secret": password });
            return ask(&helper, "store", &input.to_string()).await.map(drop);
        }
        // A token without a user is what Docker calls an identity token.
        let entry = if user.is_empty() {
            json!({ "auth": STANDARD.encode(":"), "identitytoken": password })
        } else {
            json!({ "auth": STANDARD.encode(format!("{user}:{password}")) })
        };
        config.auths()?.insert(key(registry).to_owned(), entry);
        config.save()
    }

    /// Deletes credentials.
    ///
    /// # Errors
    /// There are none, or they cannot be deleted.
    pub async fn remove(&self, registry: &str) -> Result<(), CredentialsError> {
        let (_lock, mut config) = Config::lock(self.own()?)?;
        if let Some(helper) = config.helper(registry) {
            return ask(&helper, "erase", key(registry)).await.map(drop);
        }
        if config.auths()?.remove(key(registry)).is_none() {
            return Err(CredentialsError::NotLoggedIn);
        }
        config.save()
    }
}

fn key(registry: &str) -> &str {
    if matches!(registry, "docker.io" | "registry-1.docker.io" | "index.docker.io") {
        DOCKER
    } else {
        registry
    }
}

/// One file.
struct Config {
    path: PathBuf,
    top: Map<String, Value>,
}

impl Config {
    fn load(path: &Path) -> Result<Self, CredentialsError> {
        let failed = |source| CredentialsError::File { path: path.to_owned(), source };
        let wrong = |reason: String| CredentialsError::Form { path: path.to_owned(), reason };
        let top = match atomic_files::read(path, MAX_FILE).map_err(failed)? {
            None => Map::new(),
            // Omits the parser's error, which might quote a secret.
            Some(bytes) => match bounded_json::from_slice(&bytes) {
                Ok(Value::Object(top)) => top,
                Ok(_) => return Err(wrong("it is not an object".to_owned())),
                Err(e) => return Err(wrong(format!("line {}, column {}", e.line(), e.column()))),
            },
        };
        Ok(Self { path: path.to_owned(), top })
    }

    /// The file, locked against other processes of ours.
    fn lock(path: &Path) -> Result<(std::fs::File, Self), CredentialsError> {
        let lock = atomic_files::lock_path(path);
        let held =
            atomic_files::lock(&lock).map_err(|source| CredentialsError::File { path: lock, source })?;
        Ok((held, Self::load(path)?))
    }

    fn save(&self) -> Result<(), CredentialsError> {
        let failed = |source| CredentialsError::File { path: self.path.clone(), source };
        let text = serde_json::to_vec_pretty(&self.top).map_err(|e| failed(e.into()))?;
        atomic_files::write(&self.path, &text, 0o600).map_err(failed)
    }

    fn auths(&mut self) -> Result<&mut Map<String, Value>, CredentialsError> {
        let wrong = || CredentialsError::Form {
            path: self.path.clone(),
            reason: "auths is not an object".to_owned(),
        };
        self.top.entry("auths").or_insert_with(|| json!({})).as_object_mut().ok_or_else(wrong)
    }

    fn helper(&self, registry: &str) -> Option<String> {
        let helpers = self.top.get("credHelpers").and_then(Value::as_object);
        let own = helpers.and_then(|h| h.get(key(registry)).or_else(|| h.get(registry)));
        let name = own.or_else(|| self.top.get("credsStore"))?.as_str()?;
        // The name becomes part of a program's name.
        let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        (!name.is_empty() && name.chars().all(ok)).then(|| name.to_owned())
    }
}

/// The credentials for a registry that stand in a configuration.
fn plain(top: &Map<String, Value>, registry: &str) -> Option<Login> {
    let auths = top.get("auths")?.as_object()?;
    let host = |key: &str| {
        let bare = key.trim_start_matches("https://").trim_start_matches("http://");
        bare.split('/').next().unwrap_or_default().to_owned()
    };
    let entry = auths
        .get(key(registry))
        .or_else(|| auths.iter().find(|(k, _)| host(k) == registry).map(|(_, v)| v))?;
    let text = |name: &str| entry.get(name).and_then(Value::as_str).filter(|s| !s.is_empty());
    if let Some(token) = text("identitytoken") {
        return Some(Login::Identity(token.into()));
    }
    if let (Some(user), Some(password)) = (text("username"), text("password")) {
        return Some(Login::Basic(user.to_owned(), password.into()));
    }
    let decoded = String::from_utf8(STANDARD.decode(text("auth")?).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    Some(Login::Basic(user.to_owned(), password.trim_end_matches('\0').into()))
}

async fn from_helper(helper: &str, registry: &str) -> Result<Option<Login>, CredentialsError> {
    let Some(answer) = ask(helper, "get", key(registry)).await? else { return Ok(None) };
    let answer: BTreeMap<String, Value> = bounded_json::from_slice(&answer).map_err(|_| {
        CredentialsError::Helper { helper: helper.to_owned(), reason: "its answer is not JSON".to_owned() }
    })?;
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (user, secret) = (text("Username"), text("Secret"));
    Ok(Some(if user == "<token>" {
        Login::Identity(secret.into())
    } else {
        Login::Basic(user, secret.into())
    }))
}

/// Runs a credential helper. `None` if it has no credentials.
async fn ask(helper: &str, verb: &str, input: &str) -> Result<Option<Vec<u8>>, CredentialsError> {
    let failed = |reason: String| CredentialsError::Helper { helper: helper.to_owned(), reason };
    let mut command = Command::new(format!("docker-credential-{helper}"));
    command.arg(verb);
    let output = child_process::run_async(command, input.as_bytes().to_vec(), HELPER_LIMITS).await;
    let output = output.map_err(|error| match error {
        ChildError::Time(_) => failed("it does not answer".to_owned()),
        other => failed(other.to_string()),
    })?;
    if output.status.success() {
        return Ok(Some(output.stdout));
    }
    // A helper, a foreign program, says it in words of its own: there is no exit code for it.
    let text = String::from_utf8_lossy(&output.stdout).to_lowercase();
    if verb == "get" && (text.contains("not found") || text.contains("no credentials")) {
        return Ok(None);
    }
    Err(failed(format!("{verb} failed ({})", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (tempfile::TempDir, Credentials) {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("registry/config.json");
        let docker = dir.path().join("docker.json");
        (dir, Credentials::Files { own, docker })
    }

    fn basic(user: &str, password: &str) -> Option<Login> {
        Some(Login::Basic(user.into(), password.into()))
    }

    #[tokio::test]
    async fn what_was_kept_is_found_and_forgotten() {
        let (_dir, all) = files();
        assert!(all.get("h:5000").await.unwrap().is_none());
        all.put("h:5000", "me", "s:cret").await.unwrap();
        all.put("docker.io", "", "token").await.unwrap();
        assert!(all.get("h:5000").await.unwrap() == basic("me", "s:cret"));
        assert!(all.get("docker.io").await.unwrap() == Some(Login::Identity("token".into())));
        let text = std::fs::read_to_string(all.own().unwrap()).unwrap();
        assert!(text.contains("https://index.docker.io/v1/"), "{text}");
        all.remove("h:5000").await.unwrap();
        assert!(all.get("h:5000").await.unwrap().is_none());
        assert!(matches!(all.remove("h:5000").await, Err(CredentialsError::NotLoggedIn)));
    }

    #[tokio::test]
    async fn docker_is_asked_after_helm_and_errors_hold_no_secret() {
        let (_dir, all) = files();
        let Credentials::Files { docker, .. } = &all else { panic!("no files") };
        std::fs::write(docker, r#"{"auths": {"https://h/v2/": {"auth": "bWU6cHc="}}, "other": 1}"#).unwrap();
        assert!(all.get("h").await.unwrap() == basic("me", "pw"));
        all.put("h", "own", "x").await.unwrap();
        assert!(all.get("h").await.unwrap() == basic("own", "x"));
        std::fs::write(docker, r#"{"auths": {"g": {"auth": "c2VjcmV0"#).unwrap();
        let e = all.get("g").await.err().unwrap().to_string();
        assert!(e.contains("invalid config format: line 1") && !e.contains("c2Vj"), "{e}");
    }
}
