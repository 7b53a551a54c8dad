//! Tracks the CRDs of `crds/` by name, since they carry no ownership metadata. Deleted CRDs are re-created.

use crate::{
    engine::Engine,
    request::{CrdFile, ReleaseId, ReleaseKey},
};
use std::collections::{BTreeMap, BTreeSet};
use windlass_cluster::Gvk;

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

/// Names of the CRDs in files.
pub(crate) fn names(files: &[CrdFile]) -> BTreeSet<String> {
    let crds =
        files.iter().flat_map(|file| &file.objects).filter(|o| o["kind"] == "CustomResourceDefinition");
    crds.filter_map(|crd| crd["metadata"]["name"].as_str()).map(str::to_owned).collect()
}

/// The files, reduced to CRDs with these names.
pub(crate) fn only(files: &[CrdFile], names: &BTreeSet<String>) -> Vec<CrdFile> {
    let is_named = |name: Option<&str>| name.is_some_and(|name| names.contains(name));
    let one = |file: &CrdFile| {
        let mut file = file.clone();
        file.objects.retain(|o| is_named(o["metadata"]["name"].as_str()));
        file
    };
    files.iter().map(one).collect()
}

impl Engine {
    /// Tracks the CRDs of a release that the engine does not reconcile, for an owner that gets its triggers.
    pub async fn watch_crds_for(&self, id: &ReleaseId, owner: &str, files: &[CrdFile]) {
        self.state.set_owner(&self.key(id), owner);
        self.watch_crds(id, files).await;
    }

    /// Watches the CRDs of a release, or of a module without one: a deletion triggers a reconcile. Only for engines
    /// that watch.
    pub(crate) async fn watch_crds(&self, id: &ReleaseId, files: &[CrdFile]) {
        let Some(watches) = &self.crds else { return };
        let names = names(files);
        let none = names.is_empty();
        self.state.track_crds(&self.key(id), names);
        if !none {
            watches.watch([(Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition"), None)]).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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

    #[test]
    fn files_are_reduced_to_what_is_missing() {
        let crd = |name: &str| json!({"kind": "CustomResourceDefinition", "metadata": {"name": name}});
        let file = |objects| CrdFile { name: "f".into(), text: String::new(), objects };
        let files = [file(vec![crd("a"), json!(null), crd("b")]), file(vec![json!({"kind": "X"})])];
        assert_eq!(names(&files).into_iter().collect::<Vec<_>>(), ["a", "b"]);
        let left = only(&files, &BTreeSet::from(["b".to_owned()]));
        assert_eq!(left.iter().map(|f| f.objects.len()).collect::<Vec<_>>(), [1, 0]);
    }
}
