//! Slash-separated paths (`path`, and `path/filepath` on Unix).

use std::borrow::Cow;

/// The last element; `.` for an empty path, `/` for a path of only slashes (`path.Base`).
#[must_use]
pub(crate) fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |n| n + 1);
    if end == 0 {
        return b"/";
    }
    let start = path[..end].iter().rposition(|b| *b == b'/').map_or(0, |n| n + 1);
    &path[start..end]
}

/// All but the last element, cleaned (`path.Dir`).
#[must_use]
pub(crate) fn dir(path: &[u8]) -> Cow<'_, [u8]> {
    clean(&path[..path.iter().rposition(|b| *b == b'/').map_or(0, |n| n + 1)])
}

/// The suffix of the last element, starting at its last dot (`path.Ext`).
#[must_use]
pub(crate) fn ext(path: &[u8]) -> &[u8] {
    let start = path.iter().rposition(|b| *b == b'/').map_or(0, |n| n + 1);
    match path[start..].iter().rposition(|b| *b == b'.') {
        Some(dot) => &path[start + dot..],
        None => b"",
    }
}

/// Whether the path starts at the root (`path.IsAbs`).
#[must_use]
pub(crate) fn is_abs(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
}

/// The shortest equivalent path (`path.Clean`).
#[must_use]
pub(crate) fn clean(path: &[u8]) -> Cow<'_, [u8]> {
    if path.is_empty() {
        return Cow::Borrowed(b".");
    }
    let rooted = is_abs(path);
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|p| *p != b"..") => {
                parts.pop();
            }
            b".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => Cow::Owned([b"/", &joined[..]].concat()),
        (false, true) => Cow::Borrowed(b"."),
        (false, false) => Cow::Owned(joined),
    }
}
