//! Work of a fetch on disk: how many files and bytes it may write, and whether anybody still waits for it.
//!
//! Owns both counts and the end. A thread cannot be ended from outside: it looks at each file whether it goes on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_base::redact;

/// The most files and directories of a source.
pub(super) const MAX_FILES: usize = 200_000;
/// The most bytes of all files together.
pub(super) const MAX_BYTES: u64 = 2 << 30;

/// Whether a fetch has ended, for the threads that work for it.
#[derive(Clone, Debug, Default)]
pub(super) struct FetchEnd(Arc<AtomicBool>);

impl FetchEnd {
    /// # Errors
    /// The fetch has ended: nobody waits for this work.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(io::Error::other("the fetch ended before its work on files"));
        }
        Ok(())
    }
}

/// Ends a fetch when it is dropped.
struct EndOnDrop(FetchEnd);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Does work on disk, off the threads that wait. Dropped before its end, the work learns of it. What the work owns, such as its
/// directory, lives until its thread is done.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&FetchEnd) -> T + Send + 'static,
) -> Result<T, tokio::task::JoinError> {
    let end = FetchEnd::default();
    let guard = EndOnDrop(end.clone());
    let done = redact::spawn_blocking(move || work(&end)).await;
    drop(guard);
    done
}

/// The files and bytes that are left to write, while the fetch goes on.
#[derive(Debug)]
pub(super) struct FileBounds {
    files: usize,
    bytes: u64,
    end: FetchEnd,
}

impl FileBounds {
    /// Those of a source.
    pub(super) fn new(end: &FetchEnd) -> Self {
        Self { files: MAX_FILES, bytes: MAX_BYTES, end: end.clone() }
    }

    /// Counts a directory, or a file of so many bytes.
    ///
    /// # Errors
    /// There are too many, or nobody waits for them.
    pub(super) fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.end.check()?;
        let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        let many = || wrong(format!("more than {MAX_FILES} files and directories"));
        self.files = self.files.checked_sub(1).ok_or_else(many)?;
        let large = || wrong(format!("the files have more than {MAX_BYTES} bytes"));
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(large)?;
        Ok(())
    }

    /// The end of the fetch.
    pub(super) fn end(&self) -> &FetchEnd {
        &self.end
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The end of a fetch that has ended.
    pub(in super::super) fn ended() -> FetchEnd {
        FetchEnd(Arc::new(AtomicBool::new(true)))
    }

    #[tokio::test]
    async fn a_thread_learns_that_its_fetch_ended_and_keeps_its_directory_until_then() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let ((begun, has_begun), (go, goes)) = (mpsc::channel(), mpsc::channel());
        let (seen, sees) = mpsc::channel();
        let mut work = Box::pin(blocking(move |end| {
            begun.send(end.check().is_ok()).unwrap();
            goes.recv().unwrap();
            seen.send((end.check().is_err(), directory.path().is_dir())).unwrap();
            drop(directory);
            seen.send((true, true)).unwrap();
        }));
        assert!(futures::poll!(&mut work).is_pending());
        assert!(has_begun.recv().unwrap());
        drop(work);
        go.send(()).unwrap();
        assert_eq!(sees.recv().unwrap(), (true, true));
        sees.recv().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn files_and_bytes_are_counted_until_the_end() {
        let mut bounds = FileBounds::new(&FetchEnd::default());
        bounds.take(MAX_BYTES).unwrap();
        let told = bounds.take(1).unwrap_err().to_string();
        assert_eq!(told, "the files have more than 2147483648 bytes");
        let mut bounds = FileBounds { files: 1, ..FileBounds::new(&FetchEnd::default()) };
        bounds.take(0).unwrap();
        assert_eq!(bounds.take(0).unwrap_err().to_string(), "more than 200000 files and directories");
        assert!(FileBounds::new(&ended()).take(0).is_err());
    }
}
