//! Paths as Go's `path/filepath` computes them on Unix.
//!
//! Owns the arithmetic on texts; does not access files.

/// The shortest equal path (`filepath.Clean`).
#[must_use]
pub fn clean(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&"..") | None if absolute && parts.is_empty() => {}
                Some(&"..") | None => parts.push(".."),
                Some(_) => {
                    parts.pop();
                }
            },
            part => parts.push(part),
        }
    }
    match (absolute, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

/// Two paths as one (`filepath.Join`).
#[must_use]
pub fn join(base: &str, path: &str) -> String {
    match (base.is_empty(), path.is_empty()) {
        (true, true) => String::new(),
        (true, false) => clean(path),
        (false, true) => clean(base),
        (false, false) => clean(&format!("{base}/{path}")),
    }
}

/// A path that is relative to `base` unless it is absolute.
#[must_use]
pub fn within(base: &str, path: &str) -> String {
    if path.starts_with('/') { clean(path) } else { join(base, path) }
}

/// All but the last element (`filepath.Dir`).
#[must_use]
pub fn dir(path: &str) -> String {
    match path.rfind('/') {
        Some(at) => clean(path.get(..=at).unwrap_or("/")),
        None => ".".to_owned(),
    }
}

/// The last element (`filepath.Base`).
#[must_use]
pub fn base(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    match (path.is_empty(), trimmed.is_empty()) {
        (true, _) => ".".to_owned(),
        (false, true) => "/".to_owned(),
        (false, false) => trimmed.rsplit('/').next().unwrap_or(trimmed).to_owned(),
    }
}

/// The extension with its dot, or nothing (`filepath.Ext`).
#[must_use]
pub fn ext(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rfind('.').and_then(|at| name.get(at..)).unwrap_or_default()
}

/// Whether a chart is a path (`isLocalChart`): neither an address nor `REPOSITORY/CHART`.
#[must_use]
pub fn is_local_chart(chart: &str) -> bool {
    if chart.starts_with("./") || chart.starts_with("../") {
        return true;
    }
    if chart.contains("://") {
        return false;
    }
    chart.is_empty() || chart.starts_with('/') || !matches!(chart.split('/').count(), 2 | 3)
}

/// The path of a local chart from the state file's folder; other charts stay as they are (`normalizeChart`).
#[must_use]
pub fn normalize_chart(base: &str, chart: &str) -> String {
    if !is_local_chart(chart) || chart.starts_with('/') { chart.to_owned() } else { join(base, chart) }
}

/// Repository and name of a chart in a repository (`resolveRemoteChart`).
#[must_use]
pub fn repository_chart(chart: &str) -> Option<(&str, &str)> {
    if is_local_chart(chart) || chart.contains("://") { None } else { chart.split_once('/') }
}

/// Whether a text is an address to fetch from, and no path.
#[must_use]
pub fn is_remote(address: &str) -> bool {
    if address.starts_with('/') {
        return false;
    }
    let rest = match address.split_once("::") {
        Some(("git", rest)) if detected_repository(rest).is_some() => return true,
        Some((_, rest)) if !rest.contains("::") => rest,
        Some(_) => return false,
        None => address,
    };
    let Some((scheme, _)) = rest.split_once(':') else { return false };
    let mut letters = scheme.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        && match address.split_once("://") {
            // Without a getter, only protocols that fetch one file count.
            Some((scheme, _)) if !address.contains("::") => matches!(scheme, "s3" | "http" | "https" | "ftp"),
            _ => true,
        }
}

/// The URL of a repository that is named without a scheme: `github.com/OWNER/NAME[/DIRECTORY]` and the like, `git@HOST:PATH`. What
/// follows it, a file after `@` and a query, stays.
#[must_use]
pub fn detected_repository(text: &str) -> Option<String> {
    if let Some((host, path)) = text.strip_prefix("git@").and_then(|rest| rest.split_once(':')) {
        let named = !host.is_empty() && !host.contains('/') && !path.is_empty();
        return named.then(|| format!("ssh://git@{host}/{}", path.trim_start_matches('/')));
    }
    let end = text.find(['@', '?']).unwrap_or(text.len());
    let (repository, rest) = text.split_at_checked(end)?;
    let mut parts = repository.splitn(4, '/');
    let host = parts.next().filter(|host| matches!(*host, "github.com" | "gitlab.com" | "bitbucket.org"))?;
    let (owner, name) = (parts.next()?, parts.next().filter(|name| !name.is_empty())?);
    let directory = parts.next().map(|directory| format!("//{directory}")).unwrap_or_default();
    Some(format!("https://{host}/{owner}/{}.git{directory}{rest}", name.trim_end_matches(".git")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_go() {
        for (path, expected) in
            [("", "."), ("a/./b/", "a/b"), ("../a/../..", "../.."), ("/../a//b", "/a/b"), ("a/..", ".")]
        {
            assert_eq!(clean(path), expected, "{path}");
        }
        assert_eq!(
            (join(".", "../x"), join("/a", "b"), join("", "b")),
            ("../x".into(), "/a/b".into(), "b".into())
        );
        assert_eq!((dir("a/b"), dir("a"), dir("/a")), ("a".into(), ".".into(), "/".into()));
        assert_eq!((ext("a.b/c"), ext("a/b.yaml.gotmpl")), ("", ".gotmpl"));
    }

    #[test]
    fn charts_are_local_or_in_a_repository() {
        let local = ["", "./a/b", "../a/b", "/a/b", "a", "a/b/c/d"];
        let other = ["a/b", "a/b/c", "oci://a/b", "https://a/b.tgz"];
        assert!(local.iter().all(|chart| is_local_chart(chart)));
        assert!(!other.iter().any(|chart| is_local_chart(chart)));
        assert_eq!(repository_chart("a/b/c"), Some(("a", "b/c")));
    }

    #[test]
    fn repositories_are_detected() {
        for (text, url) in [
            ("github.com/o/r", "https://github.com/o/r.git"),
            ("gitlab.com/o/r.git/a/b@f?ref=x", "https://gitlab.com/o/r.git//a/b@f?ref=x"),
            ("bitbucket.org/o/r@f", "https://bitbucket.org/o/r.git@f"),
            ("git@h:o/r.git//d@f?ref=x", "ssh://git@h/o/r.git//d@f?ref=x"),
        ] {
            assert_eq!(detected_repository(text).as_deref(), Some(url), "{text}");
        }
        for text in ["https://github.com/o/r", "github.com/o", "example.com/o/r", "me@h:r", "git@h"] {
            assert_eq!(detected_repository(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_are_told_from_paths() {
        for address in [
            "git::https://host/repo@file?ref=x",
            "https://host/file",
            "s3://bucket/key",
            "git::ssh://h/r",
            "git::github.com/o/r@f",
            "git::git@h:o/r.git@f",
        ] {
            assert!(is_remote(address), "{address}");
        }
        for path in ["a/b.yaml", "/a", "oci://h/r", "a b", "../x", "github.com/o/r@f", "hg::github.com/o/r@f"]
        {
            assert!(!is_remote(path), "{path}");
        }
    }
}
