//! Where the values of one render live.
//!
//! Owns their memory and the record of whether templates changed what they all share. Knows nothing of what the values are.

use std::cell::{Cell, RefCell};
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
    changes: Cell<u64>,
    /// Changes by time that no later one of an older map stands before: number of the change, number of the map.
    oldest: RefCell<Vec<(u64, usize)>>,
    volatile_reads: Cell<usize>,
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
        let change = self.changes.get() + 1;
        self.changes.set(change);
        let mut oldest = self.oldest.borrow_mut();
        while oldest.pop_if(|last| last.1 >= number).is_some() {}
        oldest.push((change, number));
    }

    /// Takes note that somebody looked into a map that is another one for each template.
    pub(super) fn note_volatile_read(&self) {
        self.volatile_reads.set(self.volatile_reads.get() + 1);
    }

    pub(super) fn note_watched_read(&self) {
        self.watched_read.set(true);
    }

    /// Whether a watched entry of a map was read.
    #[must_use]
    pub fn has_watched_read(&self) -> bool {
        self.watched_read.get()
    }

    /// How many maps were made. They have the numbers below.
    #[must_use]
    pub fn maps(&self) -> usize {
        self.maps.get()
    }

    /// How often maps were changed.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Whether one of the first `maps` maps was changed after so many `changes`.
    #[must_use]
    pub fn changed_since(&self, changes: u64, maps: usize) -> bool {
        let oldest = self.oldest.borrow();
        let from = oldest.partition_point(|c| c.0 <= changes);
        oldest.get(from).is_some_and(|c| c.1 < maps)
    }

    /// How often somebody looked into a map that is another one for each template.
    #[must_use]
    pub fn volatile_reads(&self) -> usize {
        self.volatile_reads.get()
    }

    /// Whether the map of that number is shared by all templates.
    #[must_use]
    pub fn is_shared(&self, number: usize) -> bool {
        number < self.shared.get()
    }

    /// Says that all maps made so far are shared by the templates that run from now on.
    pub fn share(&self) {
        self.shared.set(self.maps.get());
    }

    /// The memory that was taken so far, in bytes.
    #[must_use]
    pub fn taken_bytes(&self) -> usize {
        let notes = self.oldest.borrow().len() * size_of::<(u64, usize)>();
        self.bump.allocated_bytes() - self.bump.chunk_capacity() + notes
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
