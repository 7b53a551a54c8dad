//! Atomic writes and locks of files that other processes read and write.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use windlass_base::bounded_read;

/// Time limit of a wait for another process's lock; Helm's.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// A temporary file in the directory of `path`: renamed to `path` when it is complete, deleted if dropped before.
pub(super) fn temporary_file_for(path: &Path) -> io::Result<NamedTempFile> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(directory)?;
    tempfile::Builder::new().prefix(".windlass-").tempfile_in(directory)
}

/// Sets the mode of a complete file and renames it.
pub(super) fn persist(file: NamedTempFile, path: &Path, mode: u32) -> io::Result<()> {
    set_mode(file.as_file(), mode)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Writes a file atomically.
pub(super) fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = temporary_file_for(path)?;
    file.write_all(bytes)?;
    persist(file, path, mode)
}

#[cfg(unix)]
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

/// Holds a lock file until it is dropped: the same `flock` that Helm uses.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(e)) => return Err(e),
            Err(TryLockError::WouldBlock) if begin.elapsed() > LOCK_PATIENCE => {
                let text = format!("{} is locked by another process", path.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The path of a file's lock file, with the extension `lock`.
pub(super) fn lock_path(path: &Path) -> PathBuf {
    if path.extension().is_some() {
        return path.with_extension("lock");
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Reads a file of bounded size; `None` if it does not exist.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    match bounded_read::read_file(path, limit) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
