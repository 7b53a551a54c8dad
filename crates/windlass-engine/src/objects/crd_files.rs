//! The files of a chart's `crds/`: names and digests of their CRDs. Pure.

use crate::{
    objects::desired_objects::{self, Digest},
    request::{CrdFile, CrdPolicy},
};
use std::collections::BTreeSet;
use windlass_cluster::ObjectMeta;

/// Digest of all CRD files, to tell whether they changed.
pub(crate) fn digest(files: &[CrdFile]) -> Digest {
    desired_objects::state_digest(files.iter().flat_map(|file| &file.objects), std::iter::empty())
}

/// The digest under a policy: without updates, changes of CRDs do not count.
pub(crate) fn kept_digest(policy: CrdPolicy, files: &[CrdFile]) -> Digest {
    match policy {
        CrdPolicy::Skip | CrdPolicy::Create => Digest::default(),
        CrdPolicy::CreateMissing | CrdPolicy::Apply => digest(files),
    }
}

/// Names of the CRDs in files.
pub(crate) fn names(files: &[CrdFile]) -> BTreeSet<String> {
    let crds =
        files.iter().flat_map(|file| &file.objects).filter(|o| o["kind"] == "CustomResourceDefinition");
    crds.map(|crd| ObjectMeta::of(crd).name().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// The files, reduced to CRDs with these names.
pub(crate) fn only(files: &[CrdFile], names: &BTreeSet<String>) -> Vec<CrdFile> {
    let one = |file: &CrdFile| {
        let mut file = file.clone();
        file.objects.retain(|o| names.contains(ObjectMeta::of(o).name()));
        file
    };
    files.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
