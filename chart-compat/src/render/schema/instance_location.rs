//! The instance location of the current value, as Helm's validator stores it: one slice that grows in place.
//!
//! A failed `propertyNames` keeps that slice and not a copy (`verr.InstanceLocation = vd.vloc`), so it is finally reported at
//! the location written there last. Go's map order is random, so any entry of a map may be the last one checked: if the failure's own
//! entry may be, it is reported at its own location.

use std::cell::{Cell, RefCell};

use super::failure::{Failure, Form};
use super::uri;

/// The capacity of the first slice, in steps; each growth doubles it.
const ROOM: usize = 8;

/// The contents of one slice.
pub(super) struct InstanceLocation {
    /// The number of steps copied from the previous slice, which are not overwritten.
    kept: usize,
    room: usize,
    steps: RefCell<Vec<Step>>,
    turns: Cell<u32>,
}

/// The entries last checked at one depth in one turn.
struct Step {
    turn: u32,
    tokens: Vec<String>,
}

impl InstanceLocation {
    pub(super) fn new() -> Self {
        Self { kept: 0, room: ROOM, steps: RefCell::default(), turns: Cell::new(0) }
    }

    /// The slice for a step at this depth, if it needs a new one.
    pub(super) fn grown(&self, depth: usize) -> Option<Self> {
        (depth == self.room).then(|| Self { kept: depth + 1, room: 2 * self.room, ..Self::new() })
    }

    /// The number of a turn, for entries that are checked in random order.
    pub(super) fn turn(&self) -> u32 {
        self.turns.set(self.turns.get() + 1);
        self.turns.get()
    }

    /// Writes the step at this depth.
    pub(super) fn write(&self, depth: usize, token: &str, turn: u32) {
        let Some(at) = depth.checked_sub(self.kept) else { return };
        let mut steps = self.steps.borrow_mut();
        if steps.len() <= at {
            steps.resize_with(at + 1, || Step { turn, tokens: Vec::new() });
        }
        let step = &mut steps[at];
        if step.turn != turn {
            step.tokens.clear();
        }
        step.turn = turn;
        step.tokens.push(uri::escape(token));
    }

    /// Sets the location of failures of names to the final contents of the slice.
    pub(super) fn settle(&self, failures: &mut [Failure]) {
        for failure in failures {
            self.settle(&mut failure.causes);
            if failure.form == Form::Name {
                failure.form = Form::Plain;
                failure.at = self.now(&failure.at);
            }
        }
    }

    fn now(&self, pointer: &str) -> String {
        let steps = self.steps.borrow();
        let mut out = String::new();
        for (depth, own) in pointer.split('/').skip(1).enumerate() {
            let step = depth.checked_sub(self.kept).and_then(|at| steps.get(at));
            let last = step.filter(|s| !s.tokens.iter().any(|t| t == own)).and_then(|s| s.tokens.last());
            out.push('/');
            out.push_str(last.map_or(own, String::as_str));
        }
        out
    }
}
