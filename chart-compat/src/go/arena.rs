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
    changed: Cell<bool>,
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
            self.changed.set(true);
        }
    }

    /// Says that all maps made so far are shared by the templates that run from now on.
    pub fn share(&self) {
        self.shared.set(self.maps.get());
    }

    /// Whether a shared map was changed: templates that run later may see it.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed.get()
    }
}

impl Deref for Arena {
    type Target = Bump;

    fn deref(&self) -> &Bump {
        &self.bump
    }
}
