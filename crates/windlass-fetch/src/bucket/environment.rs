//! Bucket credentials in variables and files, within limits.

use std::path::Path;

use percent_encoding::utf8_percent_encode;

use super::super::atomic_files;
use super::super::location::{Location, PATH};
use super::BucketError;

/// The largest file of credentials, in bytes.
const MAX_FILE: u64 = 1 << 20;

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

/// The key of a bucket's URL, escaped.
pub(super) fn key(bucket: &Location) -> String {
    utf8_percent_encode(bucket.path.trim_start_matches('/'), PATH).to_string()
}
