//! The share of the machine's memory that one input may take: documents, or the files of a chart.
//!
//! Owns one number, which a program sets once as it starts, and the count of what all documents take that are being read. This crate has
//! no way to ask the machine.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The share of a process that did not choose, in bytes.
const DEFAULT: usize = 1 << 30;

static INPUT: AtomicUsize = AtomicUsize::new(DEFAULT);

/// The most bytes of memory that documents take which are read together, or the files of a chart, and that the build of a kustomization
/// adds to what it read.
#[must_use]
pub fn of_input() -> usize {
    INPUT.load(Ordering::Relaxed)
}

/// The most bytes of memory that all documents take together that are being read at a time: half as much again as [`of_input`], so that a render,
/// large answers and they fit into the memory of a small Pod together.
#[must_use]
pub(crate) fn of_documents() -> usize {
    of_input().saturating_add(of_input() / 2)
}

/// Chooses that number for all that is read from now on.
pub fn limit_input(bytes: usize) {
    INPUT.store(bytes, Ordering::Relaxed);
}

/// What is taken by all documents that are being read, in bytes.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// A part of the memory for all documents that are being read, which is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    taken: AtomicUsize,
    /// What of it is not used yet.
    unused: AtomicUsize,
}

/// How many bytes are taken at once: every node counts, and there are millions.
const STEP: usize = 64 << 10;

/// What each has beside that, in bytes: small documents are read whatever the others do.
const FREE: usize = 1 << 20;

impl Default for Share {
    fn default() -> Self {
        Self { taken: AtomicUsize::new(0), unused: AtomicUsize::new(FREE) }
    }
}

impl Share {
    /// Takes bytes, if all that are being read have no more than [`of_documents`].
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let unused = self.unused.load(Ordering::Relaxed);
        if let Some(left) = unused.checked_sub(bytes) {
            self.unused.store(left, Ordering::Relaxed);
            return true;
        }
        let step = bytes.max(STEP);
        if TAKEN.fetch_add(step, Ordering::Relaxed).saturating_add(step) > of_documents() {
            TAKEN.fetch_sub(step, Ordering::Relaxed);
            return false;
        }
        self.taken.fetch_add(step, Ordering::Relaxed);
        self.unused.fetch_add(step - bytes, Ordering::Relaxed);
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        TAKEN.fetch_sub(*self.taken.get_mut(), Ordering::Relaxed);
    }
}
