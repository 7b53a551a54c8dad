//! How much a build has made beyond what it read.
//!
//! Owns the bound: a prefix of a megabyte on ten thousand names, or a label of one on as many objects, is a small kustomization. The count
//! belongs to the thread of the build, since what changes a node knows neither the build nor its other objects.

use std::cell::Cell;

use chart_compat::memory;

use crate::error::Error;

/// The most bytes that a build makes, where the machine has them.
const MAX_GROWTH: usize = 512 << 20;

thread_local! {
    /// What the build on this thread has made, in bytes; `None`: there is none.
    static MADE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A build on this thread, until it is dropped.
pub(crate) struct Growth {
    /// The count of the build around it.
    outer: Option<usize>,
}

impl Growth {
    /// Begins a build.
    pub(crate) fn begin() -> Self {
        Self { outer: MADE.replace(Some(0)) }
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        MADE.set(self.outer);
    }
}

/// Notes that something becomes larger or smaller, in bytes, before it does.
///
/// # Errors
/// The build makes too much.
pub(crate) fn change(before: usize, after: usize) -> Result<(), Error> {
    let Some(made) = MADE.get() else { return Ok(()) };
    let made = made.saturating_add(after).saturating_sub(before);
    MADE.set(Some(made));
    let most = MAX_GROWTH.min(memory::of_input());
    if made > most {
        let mib = most >> 20;
        return Err(Error::Text(format!(
            "patches and transformers make objects larger by more than {mib} MiB"
        )));
    }
    Ok(())
}

/// What the build on this thread has made so far.
pub(crate) fn made() -> Option<usize> {
    MADE.get()
}

/// Forgets what was noted since [`made`] said so.
pub(crate) fn forget_since(made: Option<usize>) {
    MADE.set(made);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_counts_for_itself() {
        assert!(change(0, usize::MAX).is_ok(), "nothing is built");
        let outer = Growth::begin();
        assert!(change(0, MAX_GROWTH).is_ok());
        {
            let _inner = Growth::begin();
            assert!(change(100, MAX_GROWTH).is_ok());
            assert!(change(0, 1).is_ok());
            assert!(change(0, MAX_GROWTH).is_err());
        }
        assert_eq!(made(), Some(MAX_GROWTH));
        assert!(change(10, 11).is_err());
        assert!(change(10, 0).is_ok());
        drop(outer);
        assert_eq!(made(), None);
    }
}
