//! Tracks the CRDs of `crds/` by name, since they carry no ownership metadata. Deleted CRDs are re-created.

use crate::request::ReleaseKey;
use std::collections::{BTreeMap, BTreeSet};

/// The CRDs of each release, and which of them were deleted.
#[derive(Debug, Default)]
pub(crate) struct CrdTracker {
    crds_of: BTreeMap<ReleaseKey, BTreeSet<String>>,
    /// Deleted while watched, and not seen since.
    deleted: BTreeSet<String>,
}

impl CrdTracker {
    /// Sets the CRDs of a release.
    pub(crate) fn set(&mut self, key: &ReleaseKey, names: BTreeSet<String>) {
        if names.is_empty() {
            self.crds_of.remove(key);
        } else {
            self.crds_of.insert(key.clone(), names);
        }
    }

    /// Whether a release has CRDs.
    pub(crate) fn tracks(&self, key: &ReleaseKey) -> bool {
        self.crds_of.contains_key(key)
    }

    /// Records a deletion; returns the releases that have the CRD.
    pub(crate) fn mark_deleted(&mut self, name: &str) -> Vec<ReleaseKey> {
        let ids: Vec<ReleaseKey> =
            self.crds_of.iter().filter(|(_, names)| names.contains(name)).map(|(id, _)| id.clone()).collect();
        if !ids.is_empty() {
            self.deleted.insert(name.to_owned());
        }
        ids
    }

    /// Records that a CRD exists.
    pub(crate) fn mark_present(&mut self, name: &str) {
        self.deleted.remove(name);
    }

    /// The deleted CRDs of a release.
    pub(crate) fn missing(&self, key: &ReleaseKey) -> BTreeSet<String> {
        self.crds_of
            .get(key)
            .into_iter()
            .flatten()
            .filter(|name| self.deleted.contains(*name))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ReleaseId;

    #[test]
    fn what_is_deleted_is_missed_by_those_who_brought_it() {
        let key = |name: &str| ReleaseKey::new(&ReleaseId::new("ns", name), "ns");
        let (one, two) = (key("one"), key("two"));
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
        let mut crd_tracker = CrdTracker::default();
        crd_tracker.set(&one, set(&["a", "b"]));
        crd_tracker.set(&two, set(&["b"]));
        assert_eq!(crd_tracker.mark_deleted("c"), []);
        assert_eq!(crd_tracker.mark_deleted("b"), [one.clone(), two.clone()]);
        assert_eq!(crd_tracker.mark_deleted("a"), std::slice::from_ref(&one));
        assert_eq!((crd_tracker.missing(&one), crd_tracker.missing(&two)), (set(&["a", "b"]), set(&["b"])));
        crd_tracker.mark_present("b");
        assert_eq!((crd_tracker.missing(&one), crd_tracker.missing(&two)), (set(&["a"]), set(&[])));
        crd_tracker.set(&one, set(&[]));
        assert_eq!(crd_tracker.missing(&one), set(&[]));
    }
}
