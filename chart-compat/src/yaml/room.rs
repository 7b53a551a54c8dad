//! The memory that documents may take.
//!
//! Owns the bounds on what the documents that are read together take, and on what aliases add to them, and what a node takes. Knows
//! nothing of text.
//!
//! go-yaml counts nodes. That does not bound memory: an alias copies the texts below it, and 20,000 aliases of a text of 50 kB are
//! few nodes and a gigabyte. Without any alias, a map of four bytes takes 700.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::memory::{self, Share};

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
    /// What is left for all nodes.
    nodes: AtomicUsize,
    nodes_limit: usize,
    /// Whether everything counts as one, and what aliases add has no bound of its own.
    whole: bool,
    /// What it has of the memory for all documents that are being read.
    share: Share,
    /// Whether the others left too little.
    crowded: AtomicBool,
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
    /// With others.
    #[error("all documents that are being read take more than {0} MiB of memory")]
    Together(usize),
}

impl Default for Room {
    fn default() -> Self {
        let nodes = memory::of_input();
        Self {
            left: MAX_ALIASED.into(),
            limit: MAX_ALIASED,
            nodes: nodes.into(),
            nodes_limit: nodes,
            whole: false,
            share: Share::default(),
            crowded: AtomicBool::default(),
        }
    }
}

impl Room {
    /// Room for documents as a whole, in bytes.
    #[must_use]
    pub fn whole(bytes: usize) -> Self {
        Self { left: bytes.into(), limit: bytes, whole: true, ..Self::default() }
    }

    /// Room for nodes, in bytes.
    #[cfg(test)]
    pub(super) fn of_nodes(bytes: usize) -> Self {
        Self { nodes: bytes.into(), nodes_limit: bytes, ..Self::default() }
    }

    /// Takes memory for what an alias or an anchor copies, before it is allocated.
    ///
    /// # Errors
    /// There is not as much left. From then on there is none.
    pub fn take(&self, bytes: usize) -> Result<(), OutOfRoom> {
        if take(&self.left, bytes) { self.beside_others(bytes) } else { Err(self.refusal()) }
    }

    /// What [`Self::take`] gives in all, in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Takes memory for a node that the text itself has, before it is allocated.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn take_node(&self, bytes: usize) -> Result<(), OutOfRoom> {
        if self.whole {
            return self.take(bytes);
        }
        if take(&self.nodes, bytes) {
            self.beside_others(bytes)
        } else {
            Err(OutOfRoom::Whole(self.nodes_limit >> 20))
        }
    }

    /// Takes memory from that of all documents; who reads a whole document within its own memory counts it there.
    fn beside_others(&self, bytes: usize) -> Result<(), OutOfRoom> {
        if self.whole || self.share.take(bytes) {
            return Ok(());
        }
        self.crowded.store(true, Ordering::Relaxed);
        Err(crowded())
    }

    /// Why a document was refused, if there is nothing left.
    #[must_use]
    pub fn exceeded(&self) -> Option<OutOfRoom> {
        match (self.left.load(Ordering::Relaxed), self.nodes.load(Ordering::Relaxed)) {
            _ if self.crowded.load(Ordering::Relaxed) => Some(crowded()),
            (0, _) => Some(self.refusal()),
            (_, 0) => Some(OutOfRoom::Whole(self.nodes_limit >> 20)),
            _ => None,
        }
    }

    fn refusal(&self) -> OutOfRoom {
        let mib = self.limit >> 20;
        if self.whole { OutOfRoom::Whole(mib) } else { OutOfRoom::Aliases(mib) }
    }
}

fn crowded() -> OutOfRoom {
    OutOfRoom::Together(memory::of_documents() >> 20)
}

/// Takes from what is left; whether there was as much.
fn take(left: &AtomicUsize, bytes: usize) -> bool {
    let before = left.load(Ordering::Relaxed);
    // Threads that take at the same time may take the same bytes, which makes the bound no more than twice as high.
    left.store(before.saturating_sub(bytes), Ordering::Relaxed);
    bytes <= before
}

/// The memory of a text as a value or as a key.
pub(super) const fn of_text(text: &str) -> usize {
    VALUE + text.len()
}

/// The memory of a collection without its items.
pub(super) const fn of_collection(list: bool) -> usize {
    if list { VALUE } else { MAP }
}
