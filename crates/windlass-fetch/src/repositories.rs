//! `repositories.yaml`: the repositories that the user has named, in Helm's file and format.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use chart_compat::data::{Data, Map};
use chart_compat::yaml;

use super::atomic_files;
use super::http::{Credentials, Pem, Tls};
use windlass_base::redact::SecretText;

/// Size limit of the file.
const MAX_FILE: u64 = 16 << 20;

/// A repository (`repo.Entry`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The URL of its `index.yaml`.
    pub url: String,
    /// User.
    pub username: String,
    /// Password; never shown.
    pub password: SecretText,
    /// File of the client certificate.
    pub cert_file: String,
    /// File of its key.
    pub key_file: String,
    /// File of trusted certificates.
    pub ca_file: String,
    /// Whether the server's certificate is not verified.
    pub insecure_skip_tls_verify: bool,
    /// Whether user, password and client certificate also go to other servers that the index names.
    pub pass_credentials_all: bool,
}

impl Entry {
    /// User and password, if both are set.
    #[must_use]
    pub fn credentials(&self) -> Option<Credentials> {
        credentials(&self.username, &self.password)
    }

    /// Its TLS flags.
    #[must_use]
    pub fn tls(&self) -> Tls {
        let pem = |path: &str| (!path.is_empty()).then(|| Pem::File(PathBuf::from(path)));
        Tls {
            ca: pem(&self.ca_file),
            certificate: pem(&self.cert_file),
            key: pem(&self.key_file),
            insecure: self.insecure_skip_tls_verify,
        }
    }

    fn read(data: &Data) -> Option<Self> {
        let map = data.as_map()?;
        let text = |key: &str| map.get(key).and_then(Data::as_str).unwrap_or_default().to_owned();
        let flag = |key: &str| map.get(key).and_then(Data::as_bool).unwrap_or_default();
        Some(Self {
            name: text("name"),
            url: text("url"),
            username: text("username"),
            password: SecretText::new(text("password")),
            cert_file: text("certFile"),
            key_file: text("keyFile"),
            ca_file: text("caFile"),
            insecure_skip_tls_verify: flag("insecure_skip_tls_verify"),
            pass_credentials_all: flag("pass_credentials_all"),
        })
    }

    fn data(&self) -> Data {
        let mut out = Map::new();
        for (key, text) in [
            ("name", self.name.as_str()),
            ("url", &self.url),
            ("username", &self.username),
            ("password", self.password.expose()),
            ("certFile", &self.cert_file),
            ("keyFile", &self.key_file),
            ("caFile", &self.ca_file),
        ] {
            out.insert(key.to_owned(), text.into());
        }
        out.insert("insecure_skip_tls_verify".to_owned(), self.insecure_skip_tls_verify.into());
        out.insert("pass_credentials_all".to_owned(), self.pass_credentials_all.into());
        out.into()
    }
}

/// User and password as Helm uses them: both or none.
pub(super) fn credentials(username: &str, password: &SecretText) -> Option<Credentials> {
    let given = !username.is_empty() && !password.is_empty();
    given.then(|| Credentials::Basic(username.to_owned(), password.clone()))
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RepositoriesError {
    /// It cannot be read or written.
    #[error("couldn't load repositories file ({path}): {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not YAML, or malformed.
    #[error("couldn't load repositories file ({path}): {reason}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The file's content.
#[derive(Clone, Debug, Default)]
pub struct Repositories {
    api_version: String,
    generated: String,
    /// The repositories in the order in which they were added.
    pub entries: Vec<Entry>,
}

impl Repositories {
    /// Reads the file; `None` if it does not exist.
    ///
    /// # Errors
    /// It cannot be read, or is not in Helm's format.
    pub fn load(path: &Path) -> Result<Option<Self>, RepositoriesError> {
        let io = |source| RepositoriesError::Io { path: path.to_owned(), source };
        let wrong = |reason: String| RepositoriesError::Wrong { path: path.to_owned(), reason };
        let Some(bytes) = atomic_files::read(path, MAX_FILE).map_err(io)? else { return Ok(None) };
        let data =
            yaml::from_slice(&bytes).map_err(|e| wrong(format!("error converting YAML to JSON: {e}")))?;
        let mut out = Self::default();
        let map = match &data {
            Data::Null => return Ok(Some(out)),
            Data::Map(map) => map,
            _ => return Err(wrong("it is not a map".to_owned())),
        };
        let text = |key: &str| map.get(key).and_then(Data::as_str).unwrap_or_default().to_owned();
        out.api_version = text("apiVersion");
        out.generated = text("generated");
        match map.get("repositories") {
            None | Some(Data::Null) => {}
            Some(Data::List(list)) => {
                let entries: Option<Vec<Entry>> =
                    list.iter().filter(|d| **d != Data::Null).map(Entry::read).collect();
                out.entries = entries.ok_or_else(|| wrong("an entry is not a map".to_owned()))?;
            }
            Some(_) => return Err(wrong("repositories is not a list".to_owned())),
        }
        Ok(Some(out))
    }

    /// The repository of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// Adds a repository, or replaces the one with its name.
    pub fn update(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|e| e.name == entry.name) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    /// Removes a repository. Returns whether it existed.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|e| e.name != name);
        self.entries.len() != before
    }

    /// Writes the file, readable by its owner only.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), RepositoriesError> {
        // Go's zero time, which Helm writes if none is set.
        let generated =
            Some(self.generated.as_str()).filter(|g| !g.is_empty()).unwrap_or("0001-01-01T00:00:00Z");
        let entries = [
            ("apiVersion", Data::from(self.api_version.as_str())),
            ("generated", generated.into()),
            ("repositories", Data::List(self.entries.iter().map(Entry::data).collect())),
        ];
        let map: Map = entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let wrong = |reason: String| RepositoriesError::Wrong { path: path.to_owned(), reason };
        let text = yaml::to_string(&map.into()).map_err(|e| wrong(e.to_string()))?;
        atomic_files::write(path, text.as_bytes(), 0o600)
            .map_err(|source| RepositoriesError::Io { path: path.to_owned(), source })
    }

    /// Locks the file against other processes, Helm's included, until the lock is dropped.
    ///
    /// # Errors
    /// It stays locked for 30 seconds, or its directory cannot be written.
    pub fn lock(path: &Path) -> Result<File, RepositoriesError> {
        let lock = atomic_files::lock_path(path);
        atomic_files::lock(&lock).map_err(|source| RepositoriesError::Io { path: lock.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_written_as_helm_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("helm/repositories.yaml");
        let mut all = Repositories::default();
        all.update(Entry { name: "a".into(), url: "https://h/a".into(), ..Entry::default() });
        all.update(Entry { name: "a".into(), url: "https://h/b".into(), ..Entry::default() });
        all.save(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let want = "apiVersion: \"\"\ngenerated: \"0001-01-01T00:00:00Z\"\nrepositories:\n- caFile: \"\"\n  certFile: \"\"\n  \
                    insecure_skip_tls_verify: false\n  keyFile: \"\"\n  name: a\n  pass_credentials_all: false\n  password: \"\"\n  \
                    url: https://h/b\n  username: \"\"\n";
        assert_eq!(text, want);
        let read = Repositories::load(&path).unwrap().unwrap();
        assert_eq!(read.entries, all.entries);
        assert!(!format!("{:?}", SecretText::new("x")).contains('x'));
    }
}
