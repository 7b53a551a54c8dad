//! Secrets of this machine: variables, files, and files that sops encrypted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};

use super::secret_reference::Reference;
use crate::error::HelmfileError;
use crate::sops::{self, Keys};
use helmfile_compat::paths;
use helmfile_compat::value::{Map, Value};
use windlass_base::bounded_read;
use windlass_base::causes::of_the_system;
use windlass_fetch::confined_files;

/// The maximal size of a file with secrets, in bytes.
const MAX_FILE: u64 = 16 << 20;
/// The maximal size of a text with variables, in bytes.
const MAX_TEXT: usize = 16 << 20;
/// How deep a map may be nested that a path makes.
pub(super) const MAX_DEPTH: usize = 100;

/// Variables, files and keys: of this process' user, or of a tenant.
#[derive(Clone, Debug, Default)]
pub struct LocalSecrets {
    /// The variables; `None`: those of this process.
    pub variables: Option<BTreeMap<String, String>>,
    /// The directory of all files, without symbolic links in its path; `None`: any.
    pub root: Option<PathBuf>,
    /// Keys that decrypt files.
    pub keys: Keys,
}

impl LocalSecrets {
    /// A variable of the environment.
    pub(super) fn variable(&self, path: &str) -> Result<String, HelmfileError> {
        self.found(path.trim_end_matches('/'))
            .ok_or_else(|| HelmfileError::Secret("the variable is not set".to_owned()))
    }

    fn found(&self, name: &str) -> Option<String> {
        match &self.variables {
            Some(variables) => variables.get(name).cloned(),
            None => std::env::var(name).ok(),
        }
    }

    /// The text of a file, relative to a folder.
    pub(super) fn file(&self, dir: &str, path: &str) -> Result<String, HelmfileError> {
        let bytes = self.read(&paths::within(dir, path.trim_end_matches('/')))?;
        String::from_utf8(bytes).map_err(|_| HelmfileError::Secret("the file is not UTF-8 text".to_owned()))
    }

    /// The bytes of a file.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>, HelmfileError> {
        match &self.root {
            Some(root) => read(&confined_files::resolve(root, Path::new(path))?),
            None => read(Path::new(path)),
        }
    }

    /// A file, decrypted.
    pub(super) fn decrypt(&self, path: &str, format: sops::Format) -> Result<Vec<u8>, HelmfileError> {
        sops::decrypt(&self.read(path)?, format, &self.keys)
    }

    /// What sops encrypted: a file, or the path itself in base64 (`key_type=base64`).
    pub(super) fn encrypted(&self, dir: &str, reference: &Reference) -> Result<String, HelmfileError> {
        let (bytes, name) = match reference.parameter("key_type").as_deref() {
            None | Some("filepath") => {
                (self.read(&paths::within(dir, &reference.path))?, reference.path.as_str())
            }
            Some("base64") => {
                let bytes =
                    URL_SAFE.decode(&reference.path).or_else(|_| URL_SAFE_NO_PAD.decode(&reference.path));
                (bytes.map_err(|_| HelmfileError::Secret("the path is not base64".to_owned()))?, "")
            }
            Some(_) => return Err(HelmfileError::Secret("key_type is filepath or base64".to_owned())),
        };
        // With keys vals reads YAML, of which JSON is a part.
        let format = match reference.parameter("format") {
            Some(format) => sops::Format::parse(&format)?,
            None if !reference.keys.is_empty() => sops::Format::Yaml,
            None => sops::Format::of_file(name),
        };
        let text = sops::decrypt(&bytes, format, &self.keys)?;
        String::from_utf8(text)
            .map_err(|_| HelmfileError::Secret("the decrypted file is not UTF-8 text".to_owned()))
    }

    /// Replaces `$NAME`, `${NAME}`, `${NAME:-default}` and `${NAME-default}`.
    ///
    /// # Errors
    /// The result is larger than 16 MiB.
    pub(super) fn substituted(&self, text: &str) -> Result<String, HelmfileError> {
        let variable = |name: &str| self.found(name);
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find('$') {
            if out.len() > MAX_TEXT {
                return Err(HelmfileError::Secret(format!("the text is larger than {} MiB", MAX_TEXT >> 20)));
            }
            out.push_str(rest.get(..start).unwrap_or_default());
            rest = rest.get(start + 1..).unwrap_or_default();
            if let Some((inner, tail)) = rest.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
                let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
                let (name, operator) = inner.split_at_checked(end).unwrap_or((inner, ""));
                let value = match (operator.strip_prefix(":-"), operator.strip_prefix('-')) {
                    (Some(default), _) => {
                        variable(name).filter(|v| !v.is_empty()).unwrap_or_else(|| default.to_owned())
                    }
                    (None, Some(default)) => variable(name).unwrap_or_else(|| default.to_owned()),
                    (None, None) => variable(name).unwrap_or_default(),
                };
                out.push_str(&value);
                rest = tail;
                continue;
            }
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (name, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
            if name.is_empty() {
                out.push('$');
            } else {
                out.push_str(&variable(name).unwrap_or_default());
            }
            rest = tail;
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// The bytes of a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, HelmfileError> {
    bounded_read::read_file(path, MAX_FILE).map_err(|error| HelmfileError::Machine(of_the_system(&error)))
}

/// A text in base64, decoded.
pub(super) fn from_base64(text: &str) -> Result<String, HelmfileError> {
    let bytes =
        STANDARD.decode(text).map_err(|_| HelmfileError::Secret("the secret is not base64".to_owned()))?;
    String::from_utf8(bytes)
        .map_err(|_| HelmfileError::Secret("the decoded secret is not UTF-8 text".to_owned()))
}

/// `a/b/c` as the map `{a: {b: c}}`.
pub(super) fn echoed(path: &str) -> Result<Map, HelmfileError> {
    let path = path.trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').collect();
    let Some((last, keys)) = parts.split_last().filter(|(_, keys)| !keys.is_empty()) else {
        return Err(HelmfileError::Secret(format!(
            "key must have two or more components separated by \"/\": got {path:?}"
        )));
    };
    if keys.len() > MAX_DEPTH {
        return Err(HelmfileError::Secret(format!("the path has more than {MAX_DEPTH} components")));
    }
    let whole = keys.iter().rev().fold(Value::String((*last).to_owned()), |value, key| {
        Value::Map(Map::from([((*key).to_owned(), value)]))
    });
    match whole {
        Value::Map(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_substituted() {
        let own = LocalSecrets::default();
        assert_eq!(own.substituted("a$WINDLASS_NO_SUCH-${WINDLASS_NO_SUCH:-d}$").unwrap(), "a-d$");
        let variables = Some(BTreeMap::from([("A".to_owned(), "x".repeat(1 << 20))]));
        let tenant = LocalSecrets { variables, ..LocalSecrets::default() };
        assert!(tenant.substituted(&"$A".repeat(1000)).unwrap_err().to_string().contains("16 MiB"));
        assert!(echoed(&"a/".repeat(500_000)).unwrap_err().to_string().contains("components"));
    }
}
