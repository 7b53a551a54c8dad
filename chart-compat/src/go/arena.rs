//! Where the values of one render live.
//!
//! Owns their memory and the record of whether templates changed what they all share. Knows nothing of what the values are.

use std::cell::Cell;
use std::ops::Deref;

use bumpalo::Bump;

/// What one render allocates from, a [`Bump`] by way of `Deref`. Nothing in it is dropped on its own: it is freed whole when the
/// render ends.
#[derive(Default)]
pub struct Arena {
    bump: Bump,
    maps: Cell<usize>,
    shared: Cell<usize>,
    is_changed: Cell<bool>,
    watched_read: Cell<bool>,
}

impl Arena {
    /// An empty arena.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of a new map.
    pub(super) fn number(&self) -> usize {
        let number = self.maps.get();
        self.maps.set(number + 1);
        number
    }

    /// Takes note that the map of that number was changed.
    pub(super) fn note_change(&self, number: usize) {
        if number < self.shared.get() {
            self.is_changed.set(true);
        }
    }

    pub(super) fn note_watched_read(&self) {
        self.watched_read.set(true);
    }

    /// Whether a watched entry of a map was read.
    #[must_use]
    pub fn has_watched_read(&self) -> bool {
        self.watched_read.get()
    }

    /// Says that all maps made so far are shared by the templates that run from now on.
    pub fn share(&self) {
        self.shared.set(self.maps.get());
    }

    /// The memory that was taken so far, in bytes.
    #[must_use]
    pub fn taken_bytes(&self) -> usize {
        self.bump.allocated_bytes() - self.bump.chunk_capacity()
    }

    /// Whether a shared map was changed: templates that run later may see it.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.is_changed.get()
    }
}

impl Deref for Arena {
    type Target = Bump;

    fn deref(&self) -> &Bump {
        &self.bump
    }
}
