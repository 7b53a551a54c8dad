//! An address in its parts.
//!
//! Owns the grammar, and which file of what was fetched an address means. Fetches nothing.

use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::error::HelmfileError;
use helmfile_compat::paths;
use windlass_base::causes::of_the_system;
use windlass_fetch::location::Location;

/// Most paths that a part of a pattern may match.
const MAX_MATCHES: usize = 1000;

/// An address in its parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Address {
    /// The word before `::`.
    pub getter: Option<String>,
    /// What is fetched, without the file and the query.
    pub location: Location,
    /// The directory of the repository or archive that the file is in; may be a pattern with one match.
    pub subdirectory: String,
    /// The file or directory; empty for all that was fetched.
    pub file: String,
    /// Whether an `@` separates the file.
    pub selects: bool,
    /// The parameters as they are written.
    query: Vec<(String, String)>,
}

impl Address {
    /// Parses an address. With a getter, a single `@` in the path ends what is fetched. Otherwise the last element is the file.
    ///
    /// # Errors
    /// The text is not a URL.
    pub fn parse(text: &str) -> Result<Self, HelmfileError> {
        let (getter, url) = match text.split_once("::") {
            Some((getter, url)) => (Some(getter.to_owned()), url),
            None => (None, text),
        };
        let detected = getter.as_deref().filter(|getter| *getter == "git");
        let detected = detected.and_then(|_| paths::detected_repository(url));
        let mut location = Location::parse(detected.as_deref().unwrap_or(url))
            .map_err(|_| HelmfileError::Address("invalid URL".to_owned()))?;
        let query = location.query.take().unwrap_or_default();
        let query = query.split('&').filter(|pair| !pair.is_empty());
        let query = query.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let query = query.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let path = location.path.clone();
        let selector = path.split_once('@').filter(|(_, file)| getter.is_some() && !file.contains('@'));
        let (directory, file) = match selector {
            Some((directory, file)) => (directory, file.trim_start_matches('/')),
            None => path.rsplit_once('/').unwrap_or(("", &path)),
        };
        let (fetched, subdirectory) = match &getter {
            Some(_) => directory.split_once("//").unwrap_or((directory, "")),
            None => (directory, ""),
        };
        location.path = fetched.to_owned();
        let (subdirectory, file, selects) = (subdirectory.to_owned(), file.to_owned(), selector.is_some());
        Ok(Self { getter, location, subdirectory, file, selects, query })
    }

    /// The address for messages: without login and query.
    #[must_use]
    pub fn without_login(&self) -> String {
        let getter = self.getter.as_ref().map(|getter| format!("{getter}::")).unwrap_or_default();
        let subdirectory =
            if self.subdirectory.is_empty() { String::new() } else { format!("//{}", self.subdirectory) };
        let mark = if self.selects { '@' } else { '/' };
        format!("{getter}{}{subdirectory}{mark}{}", self.location, self.file)
    }

    /// The location of the file itself: for addresses without `@`.
    #[must_use]
    pub fn whole(&self) -> Location {
        if self.selects {
            return self.location.clone();
        }
        let path = &self.location.path;
        let path = if self.subdirectory.is_empty() {
            path.clone()
        } else {
            format!("{path}//{}", self.subdirectory)
        };
        self.location.with_path(format!("{path}/{}", self.file))
    }

    /// The value of a parameter, decoded.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<String> {
        let (_, value) = self.query.iter().find(|(key, _)| key == name)?;
        Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
    }

    /// The names of the parameters.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.query.iter().map(|(key, _)| key.as_str())
    }

    /// The query without some parameters, as it is written; `None` if nothing is left.
    #[must_use]
    pub fn query_without(&self, names: &[&str]) -> Option<String> {
        let pairs = self.query.iter().filter(|(key, _)| !names.contains(&key.as_str()));
        let query = pairs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&");
        Some(query).filter(|query| !query.is_empty())
    }

    /// The path of the file below the root of what was fetched.
    ///
    /// # Errors
    /// It leaves the root, or the pattern of the directory does not match exactly one.
    pub fn below(&self, root: &Path) -> Result<String, HelmfileError> {
        for part in [&self.subdirectory, &self.file] {
            let stays = |part| matches!(part, Component::Normal(_) | Component::CurDir);
            if !Path::new(part).components().all(stays) {
                return Err(HelmfileError::Address(format!("{part:?} leaves what is fetched")));
            }
        }
        let directory = single_match(root, &self.subdirectory)?;
        let path = if self.file.is_empty() { directory } else { directory.join(&self.file) };
        Ok(path.to_string_lossy().into_owned())
    }
}

/// The one directory below `root` that a pattern matches. Symbolic links match nothing: those of an archive may lead to a directory above
/// them, and every part of the pattern would then multiply the matches.
fn single_match(root: &Path, pattern: &str) -> Result<PathBuf, HelmfileError> {
    if !pattern.contains(['*', '?', '[', '\\']) {
        return Ok(root.join(pattern));
    }
    let failed =
        |error: std::io::Error| HelmfileError::Address(format!("{pattern:?}: {}", of_the_system(&error)));
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for directory in found.iter().filter(|path| path.is_dir()) {
            for entry in std::fs::read_dir(directory).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                if entry.file_type().map_err(failed)?.is_symlink()
                    || !chart_compat::chart::matches(part, &entry.file_name().to_string_lossy())
                        .map_err(HelmfileError::Address)?
                {
                    continue;
                }
                if next.len() == MAX_MATCHES {
                    return Err(HelmfileError::Address(format!(
                        "{pattern:?} matches more than {MAX_MATCHES} paths"
                    )));
                }
                next.push(entry.path());
            }
        }
        found = next;
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(HelmfileError::Address(format!("{pattern:?} matches no directory"))),
        _ => Err(HelmfileError::Address(format!("{pattern:?} matches several directories"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split() {
        for (text, url, subdirectory, file) in [
            ("git::https://h/o/r@a/b.yaml?ref=x", "https://h/o/r", "", "a/b.yaml"),
            ("git::https://h/o/r//s@b.yaml", "https://h/o/r", "s", "b.yaml"),
            ("git::https://h/o/r//s@/b.yaml", "https://h/o/r", "s", "b.yaml"),
            ("git::https://u:p@h/o/r/b.yaml", "https://h/o/r", "", "b.yaml"),
            ("git::ssh://git@h/r@b.yaml", "ssh://h/r", "", "b.yaml"),
            ("git::github.com/o/r/s@b.yaml", "https://github.com/o/r.git", "s", "b.yaml"),
            ("http::https://h/a.tgz//s/*@b.yaml", "https://h/a.tgz", "s/*", "b.yaml"),
            ("https://h/a@b/c//d.yaml", "https://h/a@b/c/", "", "d.yaml"),
            ("s3://bucket/a/b.yaml", "s3://bucket/a", "", "b.yaml"),
        ] {
            let address = Address::parse(text).unwrap();
            let parts = (address.location.to_string(), address.subdirectory.as_str(), address.file.as_str());
            assert_eq!(parts, (url.to_owned(), subdirectory, file), "{text}");
        }
        let address = Address::parse("https://u:p@h/a/b.yaml?x=%20&y=a%2Bb").unwrap();
        assert_eq!(address.whole().to_string(), "https://h/a/b.yaml");
        assert_eq!(
            (address.without_login(), address.parameter("y")),
            ("https://h/a/b.yaml".into(), Some("a+b".into()))
        );
        assert_eq!(address.query_without(&["y"]).as_deref(), Some("x=%20"));
    }

    #[test]
    fn files_stay_within_what_is_fetched() {
        for text in ["git::https://h/r@../x", "git::https://h/r@a/../../x", "git::https://h/r//../s@x"] {
            let address = Address::parse(text).unwrap();
            assert!(address.below(Path::new("/copy")).unwrap_err().to_string().contains("leaves"), "{text}");
        }
        let address = Address::parse("git::https://h/r//a@b/c").unwrap();
        assert_eq!(address.below(Path::new("/copy")).unwrap(), "/copy/a/b/c");
    }

    #[test]
    fn patterns_of_directories_have_one_match() {
        let root = tempfile::tempdir().unwrap();
        for directory in ["charts-1.0/x", "charts-1.0/y"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        let below = |pattern: &str| {
            Address::parse(&format!("http::https://h/a.tgz//{pattern}@f")).unwrap().below(root.path())
        };
        assert_eq!(below("charts-*/x").unwrap(), root.path().join("charts-1.0/x/f").to_string_lossy());
        assert!(below("charts-*/[xy]").unwrap_err().to_string().contains("several"));
        assert!(below("other-*").unwrap_err().to_string().contains("matches no directory"));
    }

    #[test]
    fn patterns_follow_no_links_and_have_few_matches() {
        let root = tempfile::tempdir().unwrap();
        let below = |pattern: &str| single_match(root.path(), pattern);
        let directory = root.path().join("d");
        std::fs::create_dir(&directory).unwrap();
        for name in ["a", "b"] {
            std::os::unix::fs::symlink(".", directory.join(name)).unwrap();
        }
        // With links followed there would be 2^40 matches.
        assert!(
            below(&format!("d{}", "/*".repeat(40))).unwrap_err().to_string().contains("matches no directory")
        );
        for at in 0..=MAX_MATCHES {
            std::fs::create_dir(directory.join(at.to_string())).unwrap();
        }
        assert!(below("d/*").unwrap_err().to_string().contains("more than 1000 paths"));
        assert_eq!(below("d/100?").unwrap(), directory.join("1000"));
    }
}
