//! Files that tests write.

use std::fs;
use std::path::Path;

/// Writes a file, with the directories above it.
///
/// # Panics
/// It cannot be written.
#[allow(clippy::panic, reason = "helpers of tests fail like the tests")]
pub fn write_file(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let path = path.as_ref();
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, content));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
