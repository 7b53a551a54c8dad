//! Objects of which something was ready that may not be so any more.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The keys of objects whose workloads have another status than when they were looked at.
#[derive(Default)]
pub(crate) struct Rechecks(Mutex<BTreeSet<String>>);

impl Rechecks {
    /// Notes that the next pass over an object has to look.
    pub(crate) fn note(&self, key: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
    }

    /// Whether a pass has to look; true once.
    pub(crate) fn take(&self, key: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}
