//! The allocator of one render's values.
//!
//! Owns the memory of values, and records changes to maps that several templates share. Knows nothing of the values.

use std::cell::Cell;
use std::ops::Deref;

use bumpalo::Bump;

/// The allocator of one render; dereferences to [`Bump`]. Values are not dropped individually: all memory is freed when the
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

    /// A number for a new map.
    pub(super) fn number(&self) -> usize {
        let number = self.maps.get();
        self.maps.set(number + 1);
        number
    }

    /// Records a change to the map with this number.
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

    /// Marks all existing maps as shared by the templates that run after this call.
    pub fn share(&self) {
        self.shared.set(self.maps.get());
    }

    /// The allocated memory, in bytes.
    #[must_use]
    pub fn taken_bytes(&self) -> usize {
        self.bump.allocated_bytes() - self.bump.chunk_capacity()
    }

    /// Whether a shared map was changed, which later templates can observe.
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
