//! The share of the machine's memory that one input may take: documents, or the files of a chart.
//!
//! Owns one number, which a program sets once as it starts. This crate has no way to ask the machine.

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

/// Chooses that number for all that is read from now on.
pub fn limit_input(bytes: usize) {
    INPUT.store(bytes, Ordering::Relaxed);
}
