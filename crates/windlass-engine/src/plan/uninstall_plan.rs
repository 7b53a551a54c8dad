//! What an uninstall deletes and keeps, in its order, and whether hooks run. Pure.

use crate::{
    error::Result,
    objects::{
        ObservedObjects,
        desired_objects::{self, DocumentError, Scopes},
        kind_sorter::uninstall_rank,
        ownership, served_kinds,
    },
    plan::{Deletion, deletion_groups},
    record::{Record, RetainedConfig, recorded_manifests::RecordParser},
    request::{ReleaseId, UninstallRequest},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use windlass_cluster::{Gvk, ObjectKey, ObjectMeta, ObjectRef, Propagation, ServedKinds};

/// The objects that recorded revisions name, in Helm's uninstall order.
#[derive(Debug, Default)]
pub(crate) struct RecordedObjects {
    /// Only names: whole objects of a large release would take most of the memory.
    pub(crate) named: Vec<ObjectRef>,
    /// Kept by the policy in the manifest.
    kept: Vec<ObjectRef>,
    errors: Vec<String>,
    /// There are objects of kinds that the server does not tell of at the moment.
    unserved: bool,
}

impl RecordedObjects {
    pub(crate) fn of(
        records: &[&Record],
        id: &ReleaseId,
        parser: RecordParser,
        kinds: &ServedKinds,
    ) -> Result<Self> {
        let scopes = Scopes::new(kinds, &[], std::iter::empty());
        let mut found = Self::default();
        let mut seen = BTreeSet::new();
        let retained = records.iter().flat_map(|record| &record.extension.retained);
        let mut named: BTreeMap<ObjectKey, ObjectRef> =
            retained.map(RetainedConfig::object).map(|object| (object.key(), object)).collect();
        for manifest in records.iter().flat_map(|record| parser.manifests_of(record)) {
            let mut manifest = manifest?;
            for moved in served_kinds::to_served(std::iter::once(&mut manifest.object), kinds) {
                tracing::warn!(release = %id, "{moved}");
            }
            if Record::keeps(&manifest.object) {
                let kept = named_by(&manifest.object, id);
                found.kept.extend(kept.filter(|object| seen.insert(object.key())));
                continue;
            }
            for object in desired_objects::items(&manifest.object).filter(|o| !desired_objects::is_empty(o)) {
                match desired_objects::reference(&manifest.source, object, &id.namespace, |gvk| {
                    scopes.namespaced(gvk)
                }) {
                    Ok(object) => drop(named.insert(object.key(), object)),
                    // The objects of a kind are deleted with it.
                    Err(DocumentError::NoKind { .. }) if kinds.stale.is_empty() => {}
                    Err(error) => {
                        found.unserved |= matches!(error, DocumentError::NoKind { .. });
                        found.errors.push(error.to_string());
                    }
                }
            }
        }
        found.named = named.into_values().collect();
        for objects in [&mut found.named, &mut found.kept] {
            objects.sort_by(|a, b| uninstall_rank(&a.gvk.kind).cmp(&uninstall_rank(&b.gvk.kind)));
        }
        Ok(found)
    }
}

/// The steps of an uninstall.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UninstallPlan {
    /// The hooks of the deletion run before and after it.
    pub(crate) run_hooks: bool,
    /// Groups one after the other.
    pub(crate) deletions: Vec<Vec<Deletion>>,
    /// What happens to the dependents of the objects.
    pub(crate) propagation: Propagation,
    /// Objects kept by their resource policy.
    pub(crate) kept: Vec<ObjectRef>,
    /// Objects that belong to others.
    pub(crate) foreign: Vec<ObjectRef>,
    /// Documents that name no object.
    pub(crate) errors: Vec<String>,
    /// Some of these are of kinds that the server does not tell of at the moment.
    pub(crate) unserved: bool,
}

impl UninstallPlan {
    pub(crate) fn new(
        recorded: RecordedObjects,
        seen: &ObservedObjects,
        request: &UninstallRequest,
        run_hooks: bool,
    ) -> Self {
        let RecordedObjects { named, mut kept, errors, unserved } = recorded;
        let (mut deletions, mut foreign) = (Vec::new(), Vec::new());
        for object in named {
            let Some(Some(found)) = seen.get(&object.key()) else { continue };
            if ownership::check(found, &request.id).is_err() {
                foreign.push(object);
            } else if ownership::is_kept(found.resource_policy.as_deref()) {
                kept.push(object);
            } else {
                deletions.push(Deletion { object, uid: found.uid.clone() });
            }
        }
        let (deletions, propagation) = (deletion_groups(deletions), request.propagation);
        Self { run_hooks, deletions, propagation, kept, foreign, errors, unserved }
    }
}

/// The reference of an object by its manifest, whether its kind is served or not.
fn named_by(manifest: &Value, id: &ReleaseId) -> Option<ObjectRef> {
    let meta = ObjectMeta::of(manifest);
    let namespace = meta.namespace().filter(|text| !text.is_empty()).unwrap_or(&id.namespace);
    Some(ObjectRef::new(Gvk::of(manifest)?, Some(namespace), meta.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_cluster::ObservedMeta;

    #[test]
    fn an_uninstall_deletes_what_is_the_releases_in_helms_order() {
        let object = |kind: &str, name: &str| ObjectRef::new(Gvk::new("v1", kind), Some("ns"), name);
        let named = ["mine", "others", "gone", "live-policy"].map(|name| object("ConfigMap", name));
        let recorded = RecordedObjects {
            named: named.into_iter().chain([object("Service", "mine")]).collect(),
            kept: vec![object("ConfigMap", "policy")],
            errors: Vec::new(),
            unserved: false,
        };
        let seen = |name: &str| ObservedMeta {
            managed_by: Some("Helm".into()),
            release_name: Some(if name == "others" { "other" } else { "web" }.into()),
            release_namespace: Some("ns".into()),
            resource_policy: (name == "live-policy").then(|| "keep".into()),
            ..ObservedMeta::default()
        };
        let there = |object: &ObjectRef| (object.name != "gone").then(|| seen(&object.name));
        let seen = recorded.named.iter().map(|object| (object.key(), there(object))).collect();
        let request = UninstallRequest::new(ReleaseId::new("ns", "web"));
        let plan = UninstallPlan::new(recorded, &seen, &request, true);
        let names = |objects: &[ObjectRef]| objects.iter().map(ToString::to_string).collect::<Vec<_>>();
        let deleted: Vec<ObjectRef> = plan.deletions.into_iter().flatten().map(|d| d.object).collect();
        assert_eq!(names(&deleted), ["Service ns/mine", "ConfigMap ns/mine"]);
        assert_eq!(names(&plan.foreign), ["ConfigMap ns/others"]);
        assert_eq!(names(&plan.kept), ["ConfigMap ns/policy", "ConfigMap ns/live-policy"]);
    }
}
