//! The directory for work in progress of one process, beside the artifacts.
//!
//! Owns what processes leave behind that ended early. Several may share the place: each holds a lock as long as it has a directory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::{NamedTempFile, TempDir};

/// A directory of this process, which is removed with it.
#[derive(Debug)]
pub(super) struct ScratchDirectories {
    path: PathBuf,
    /// Locked as long as the directory is in use, and removed after it.
    _lock: NamedTempFile,
}

impl ScratchDirectories {
    /// Removes the directories of processes that are gone, and makes one for this process.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn open(place: &Path) -> io::Result<Self> {
        fs::create_dir_all(place)?;
        for entry in fs::read_dir(place)?.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir())
                && let Err(error) = remove_unused(&entry.path())
            {
                let path = entry.path();
                tracing::warn!(path = %path.display(), "a directory of an earlier process cannot be removed: {error}");
            }
        }
        let lock = tempfile::Builder::new().prefix("process-").suffix(".lock").tempfile_in(place)?;
        // Without locks of the file system no process removes what has one.
        if let Err(error) = lock.as_file().lock() {
            tracing::warn!("directories of earlier processes are not removed: {error}");
        }
        let path = lock.path().with_extension("");
        fs::create_dir(&path)?;
        Ok(Self { path, _lock: lock })
    }

    /// A new directory for one piece of work.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn scratch(&self) -> io::Result<TempDir> {
        fs::create_dir_all(&self.path)?;
        tempfile::Builder::new().prefix("source-").tempdir_in(&self.path)
    }
}

impl Drop for ScratchDirectories {
    fn drop(&mut self) {
        // The next process removes what is left.
        drop(fs::remove_dir_all(&self.path));
    }
}

/// The longest fetch: a directory without a lock may be the work of an earlier version, which locked none, and is removed after it.
const LONGEST_FETCH: Duration = Duration::from_secs(60 * 60);

/// Removes a directory that no process has locked.
fn remove_unused(directory: &Path) -> io::Result<()> {
    let lock_file = directory.with_extension("lock");
    let lock = match File::open(&lock_file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let changed = fs::metadata(directory)?.modified()?;
            if !changed.elapsed().is_ok_and(|age| age > LONGEST_FETCH) {
                return Ok(());
            }
            None
        }
        file => Some(file?),
    };
    if lock.as_ref().is_some_and(|lock| lock.try_lock().is_err()) {
        return Ok(());
    }
    // A process that ends now does the same.
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    gone(fs::remove_dir_all(directory))?;
    if lock.is_some() { gone(fs::remove_file(lock_file)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn directories_of_processes_that_are_gone_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join(".work");
        for left in ["source-a/x", "process-b/source-c/y"] {
            fs::create_dir_all(place.join(left)).unwrap();
        }
        fs::write(place.join("process-b.lock"), "").unwrap();
        let old = SystemTime::now() - 2 * LONGEST_FETCH;
        File::open(place.join("source-a")).unwrap().set_modified(old).unwrap();
        fs::create_dir_all(place.join("source-d")).unwrap();
        let first = ScratchDirectories::open(&place).unwrap();
        let names = || fs::read_dir(&place).unwrap().count();
        assert!(place.join("source-d").is_dir(), "an earlier version may be at work there");
        fs::remove_dir(place.join("source-d")).unwrap();
        assert_eq!(names(), 2, "a directory and its lock");
        let scratch = first.scratch().unwrap();
        let second = ScratchDirectories::open(&place).unwrap();
        assert!(scratch.path().is_dir(), "another process is at work there");
        assert_eq!(names(), 4);
        drop((first, second));
        assert_eq!(names(), 0);
        assert!(!scratch.path().exists());
    }
}
