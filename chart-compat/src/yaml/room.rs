//! The memory that documents may take.
//!
//! Owns the bound on what aliases add to the documents that are read together, and what a node takes. Knows nothing of text.
//!
//! go-yaml counts nodes. That does not bound memory: an alias copies the texts below it, and 20,000 aliases of a text of 50 kB are
//! few nodes and a gigabyte.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that aliases may add to the documents that are read together.
const MAX_ALIASED: usize = 32 << 20;

/// The memory of a value, in bytes.
const VALUE: usize = 32;
/// The memory of a map: a tree of the standard library takes room for eleven entries at once.
const MAP: usize = 704;

/// The memory that is left for documents that are read together, such as the files of one chart.
#[derive(Debug)]
pub struct Room {
    left: AtomicUsize,
    limit: usize,
    /// Whether everything counts, and not only what aliases add.
    whole: bool,
}

/// The documents take more memory than they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfRoom {
    /// Through their aliases.
    #[error("the aliases add more than {0} MiB to the document: repeat smaller values, or fewer of them")]
    Aliases(usize),
    /// As a whole.
    #[error("the document takes more than {0} MiB of memory")]
    Whole(usize),
}

impl Default for Room {
    fn default() -> Self {
        Self { left: MAX_ALIASED.into(), limit: MAX_ALIASED, whole: false }
    }
}

impl Room {
    /// Room for documents as a whole, in bytes.
    #[must_use]
    pub fn whole(bytes: usize) -> Self {
        Self { left: bytes.into(), limit: bytes, whole: true }
    }

    /// Whether everything counts, and not only what aliases add.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Takes memory, before it is allocated.
    ///
    /// # Errors
    /// There is not as much left. From then on there is none.
    pub fn take(&self, bytes: usize) -> Result<(), OutOfRoom> {
        let left = self.left.load(Ordering::Relaxed);
        // Threads that take at the same time may take the same bytes, which makes the bound no more than twice as high.
        self.left.store(left.saturating_sub(bytes), Ordering::Relaxed);
        if bytes <= left { Ok(()) } else { Err(self.refusal()) }
    }

    /// Why a document was refused, if there is nothing left.
    #[must_use]
    pub fn exceeded(&self) -> Option<OutOfRoom> {
        (self.left.load(Ordering::Relaxed) == 0).then(|| self.refusal())
    }

    fn refusal(&self) -> OutOfRoom {
        let mib = self.limit >> 20;
        if self.whole { OutOfRoom::Whole(mib) } else { OutOfRoom::Aliases(mib) }
    }
}

/// The memory of a text as a value or as a key.
pub(super) const fn of_text(text: &str) -> usize {
    VALUE + text.len()
}

/// The memory of a collection without its items.
pub(super) const fn of_collection(list: bool) -> usize {
    if list { VALUE } else { MAP }
}
