//! URLs of repositories, as kustomize's `RepoSpec` reads them.
//!
//! Owns the grammar; fetches nothing.

use std::time::Duration;

use super::path::clean;
use crate::error::Error;

/// A repository and a directory in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The URL as it is written.
    pub raw: String,
    /// Scheme, user and host, such as `https://github.com/`.
    pub host: String,
    /// The path of the repository on the host.
    pub path: String,
    /// The directory in the repository; empty for its root.
    pub directory: String,
    /// A branch, tag or commit; empty for the default branch.
    pub reference: String,
    /// Whether submodules are fetched.
    pub submodules: bool,
    /// How long fetching may take.
    pub timeout: Duration,
}

const SCHEMES: [&str; 4] = ["ssh://", "https://", "http://", "file://"];
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(27);

/// Whether a path is the URL of a file.
#[must_use]
pub fn is_remote_file(path: &str) -> bool {
    let Some((scheme, rest)) = path.split_once(':') else { return false };
    matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https")
        && !rest.chars().any(|c| c.is_control() || c == ' ')
}

impl Repository {
    /// Parses a URL.
    ///
    /// # Errors
    /// It is not that of a repository.
    pub fn parse(url: &str) -> Result<Self, Error> {
        if url.starts_with('/') {
            return Err(Error::text(format!("uri looks like abs path: {url}")));
        }
        let (rest, query) = url.split_once('?').unwrap_or((url, ""));
        let query = Query::parse(query);
        let (host, rest) = extract_host(rest)?;
        let (path, directory) = split_path(&rest, host.starts_with("file://"))
            .filter(|(path, _)| !path.is_empty())
            .ok_or_else(|| Error::text("failed to parse repo path segment"))?;
        if clean(directory.trim_start_matches('/')).split('/').next() == Some("..") {
            return Err(Error::text(format!("url path exits repo: {rest}")));
        }
        Ok(Self {
            raw: url.to_owned(),
            host,
            path,
            directory: directory.strip_prefix('/').unwrap_or(&directory).to_owned(),
            reference: query.reference,
            submodules: query.submodules,
            timeout: query.timeout,
        })
    }

    /// What is cloned.
    #[must_use]
    pub fn clone_spec(&self) -> String {
        format!("{}{}", self.host, self.path)
    }

    /// What kustomize says of a prefix that it ignores.
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        strip_ignoring_case(&self.raw, "git::").map(|_| {
            "Warning: Forcing the git protocol using the 'git::' URL prefix is not supported. Kustomize currently strips this invalid prefix, but will stop doing so in a future release. Please remove the 'git::' prefix from your configuration."
        })
    }
}

struct Query {
    reference: String,
    submodules: bool,
    timeout: Duration,
}

impl Query {
    fn parse(text: &str) -> Self {
        let mut query = Self { reference: String::new(), submodules: true, timeout: DEFAULT_TIMEOUT };
        // Go refuses semicolons and bad escapes, and takes the defaults then.
        let mut pairs = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match (part.contains(';'), unescape(key), unescape(value)) {
                (false, Some(key), Some(value)) => pairs.push((key, value)),
                _ => return query,
            }
        }
        let get = |key: &str| {
            let found = pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
            found.unwrap_or_default()
        };
        query.reference = if get("ref").is_empty() { get("version") } else { get("ref") };
        if let Some(timeout) = timeout(&get("timeout")) {
            query.timeout = timeout;
        }
        match get("submodules").as_str() {
            "0" | "f" | "F" | "false" | "FALSE" | "False" => query.submodules = false,
            _ => {}
        }
        query
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

/// Seconds, or a duration with units.
fn timeout(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<i64>() {
        return u64::try_from(seconds).ok().filter(|n| *n > 0).map(Duration::from_secs);
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let factor = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
        rest = after;
    }
    Duration::try_from_secs_f64(total).ok().filter(|d| !d.is_zero())
}

fn strip_ignoring_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| text.get(prefix.len()..).unwrap_or_default())
}

fn extract_user(text: &str) -> (&str, &str) {
    let Some((user, rest)) = text.split_once('@') else { return ("", text) };
    let first = user.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if first && user.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return (text.get(..=user.len()).unwrap_or_default(), rest);
    }
    ("", text)
}

/// Scheme, user and host, and what follows.
fn extract_host(text: &str) -> Result<(String, String), Error> {
    let text = strip_ignoring_case(text, "git::").unwrap_or(text);
    let found = SCHEMES.iter().find_map(|s| strip_ignoring_case(text, s).map(|rest| (*s, rest)));
    let (scheme, rest) = found.unwrap_or(("", text));
    let (user, rest) = extract_user(rest);
    let lower = rest.to_lowercase();
    let github = lower.starts_with("github.com/") || lower.starts_with("github.com:");
    let scp = scheme.is_empty() && (!user.is_empty() || github);
    if scheme.is_empty() && !scp {
        return Err(Error::text("failed to parse scheme"));
    }
    if scheme == "file://" {
        return Ok((scheme.to_owned(), format!("{user}{rest}")));
    }
    let slash = rest.find('/');
    let colon = rest.find(':').filter(|_| scp);
    let separator = match (slash, colon) {
        (None, colon) => colon,
        (Some(slash), Some(colon)) if colon > 0 && colon < slash => Some(colon),
        (slash, _) => slash,
    };
    let (host, rest) = separator.map_or((rest, ""), |at| rest.split_at(at + 1));
    if github {
        let host = if scheme == "ssh://" || !user.is_empty() {
            format!("{user}github.com:")
        } else {
            "https://github.com/".to_owned()
        };
        return Ok((host, rest.to_owned()));
    }
    if host.is_empty() {
        return Err(Error::text("failed to parse host segment"));
    }
    Ok((format!("{scheme}{user}{host}"), rest.to_owned()))
}

/// The path of the repository, and that of the directory in it.
fn split_path(text: &str, is_file: bool) -> Option<(String, String)> {
    if let Some(at) = text.find("_git/") {
        let (before, after) = text.split_at(at + "_git/".len());
        let (repository, directory) = after.split_once('/').unwrap_or((after, ""));
        return Some((format!("{before}{repository}"), directory.to_owned()));
    }
    if let Some((repository, directory)) = text.split_once("//") {
        return Some((repository.to_owned(), directory.to_owned()));
    }
    if let Some(at) = text.find(".git") {
        let (repository, directory) = text.split_at(at + ".git".len());
        return Some((repository.to_owned(), directory.to_owned()));
    }
    if is_file {
        return Some((text.to_owned(), String::new()));
    }
    let parts: Vec<&str> = text.split('/').collect();
    (parts.len() >= 2).then(|| {
        let (repository, directory) = parts.split_at(2);
        (repository.join("/"), directory.join("/"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split() {
        let table = [
            (
                "https://github.com/org/repo//deploy/base?ref=v1",
                "https://github.com/ org/repo deploy/base v1",
            ),
            ("github.com/org/repo/deploy?version=v2", "https://github.com/ org/repo deploy v2"),
            ("git@github.com:org/repo.git//a", "git@github.com: org/repo.git a "),
            ("ssh://git@example.com:22/org/repo.git/a?ref=b", "ssh://git@example.com:22/ org/repo.git a b"),
            ("git::https://example.com/org/repo.git?ref=a", "https://example.com/ org/repo.git  a"),
            (
                "https://dev.azure.com/org/project/_git/repo/a/b",
                "https://dev.azure.com/ org/project/_git/repo a/b ",
            ),
            ("file:///srv/repo.git//a", "file:// /srv/repo.git a "),
            ("user@host.org:path/to/repo//x", "user@host.org: path/to/repo x "),
        ];
        for (url, expected) in table {
            let Repository { host, path, directory, reference, .. } = Repository::parse(url).unwrap();
            assert_eq!(format!("{host} {path} {directory} {reference}"), expected, "{url}");
        }
        for url in [
            "../base",
            "base",
            "/abs",
            "https://github.com/org",
            "https://example.com/a/b//../../c",
            "a.yaml",
        ] {
            assert!(Repository::parse(url).is_err(), "{url}");
        }
        let repository = Repository::parse("https://github.com/a/b?timeout=1m30s&submodules=false").unwrap();
        assert_eq!((repository.timeout, repository.submodules), (Duration::from_secs(90), false));
    }
}
