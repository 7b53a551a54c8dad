//! Paths as Go's `filepath` treats them.
//!
//! Owns texts alone; asks no file system.

/// Joins paths and cleans the result (`filepath.Join`).
#[must_use]
pub fn join(a: &str, b: &str) -> String {
    match (a, b) {
        ("", "") => String::new(),
        ("", one) | (one, "") => clean(one),
        (a, b) => clean(&format!("{a}/{b}")),
    }
}

/// Removes `.`, `..` and doubled slashes where that does not change the meaning (`filepath.Clean`).
#[must_use]
pub(super) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut out: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match out.last() {
                Some(&"..") => out.push(".."),
                Some(_) => drop(out.pop()),
                None if rooted => {}
                None => out.push(".."),
            },
            part => out.push(part),
        }
    }
    let joined = out.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// The last part of a path (`filepath.Base`).
#[must_use]
pub fn base(path: &str) -> String {
    if path.is_empty() {
        return ".".to_owned();
    }
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit('/').next() {
        Some("") | None => "/".to_owned(),
        Some(name) => name.to_owned(),
    }
}

/// Whether a directory is another one or lies below it.
#[must_use]
pub(super) fn is_within(directory: &str, other: &str) -> bool {
    other == "/"
        || directory == other
        || directory.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned() {
        for (path, expected) in [
            ("a//b/../c/.", "a/c"),
            ("../a/..", ".."),
            ("/../a", "/a"),
            ("", "."),
            ("a/../..", ".."),
            ("/", "/"),
        ] {
            assert_eq!(clean(path), expected, "{path}");
        }
        assert_eq!((join("", "a/../b"), join("a", "../b")), ("b".to_owned(), "b".to_owned()));
        assert!(is_within("/a/b", "/a") && !is_within("/ab", "/a") && is_within("/a", "/"));
    }
}
