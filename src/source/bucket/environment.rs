//! Bucket credentials in variables and files, within limits.

use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::super::atomic_files;
use super::super::location::Location;
use super::BucketError;

/// Characters that are not escaped in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// The largest file of credentials, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The largest answer of a credentials server, in bytes.
pub(super) const MAX_ANSWER: u64 = 1 << 20;

/// The first of these variables that is set and not empty.
pub(super) fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
}

/// The content of a credentials file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>, BucketError> {
    let bytes = atomic_files::read(path, MAX_FILE);
    let bytes = bytes.map_err(|source| BucketError::File { path: path.display().to_string(), source })?;
    Ok(bytes.map(|b| String::from_utf8_lossy(&b).into_owned()))
}

/// Fields as the body of a form.
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let pair =
        |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    fields.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// The key of a bucket's URL, escaped.
pub(super) fn key(bucket: &Location) -> String {
    utf8_percent_encode(bucket.path.trim_start_matches('/'), PATH).to_string()
}
