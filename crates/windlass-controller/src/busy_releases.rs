//! The releases on which passes of this process work.
//!
//! Owns the exclusion between passes over different objects that ask for one release. Whose the release is, its record says.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_engine::ReleaseId;

/// Releases on which a pass of this process works: another one does not take the name meanwhile.
#[derive(Clone, Debug, Default)]
pub struct BusyReleases(Arc<Mutex<BTreeSet<ReleaseId>>>);

/// Ends the work on a release when it is dropped.
#[derive(Debug)]
pub struct BusyRelease {
    all: BusyReleases,
    id: ReleaseId,
}

impl BusyReleases {
    /// Begins to work on a release; `None` if another pass does.
    #[must_use]
    pub fn begin(&self, id: &ReleaseId) -> Option<BusyRelease> {
        let new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        new.then(|| BusyRelease { all: self.clone(), id: id.clone() })
    }
}

impl Drop for BusyRelease {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_worked_on_by_one_pass() {
        let all = BusyReleases::default();
        let shared = all.clone();
        let (web, other) = (ReleaseId::new("shop", "web"), ReleaseId::new("shop", "other"));
        let first = all.begin(&web);
        assert!(first.is_some() && all.begin(&other).is_some() && shared.begin(&web).is_none());
        drop(first);
        assert!(all.begin(&web).is_some());
    }
}
