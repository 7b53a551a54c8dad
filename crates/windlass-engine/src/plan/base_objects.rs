//! The objects of recorded revisions: what may be in the cluster, and what patches are made of. Pure.

use crate::{
    error::Result,
    objects::{
        desired_objects::{Digest, Scopes, resolve},
        served_kinds,
    },
    plan::revision_input::{RevisionInput, RevisionOperation},
    record::{Record, recorded_manifests::RecordParser},
    request::ApplyMethod,
};
use serde_json::Value;
use std::collections::BTreeMap;
use windlass_cluster::{ObjectKey, ObjectRef, ServedKinds};

/// An object of a past revision.
#[derive(Debug, Clone)]
pub(crate) struct BaseObject {
    pub(crate) object: ObjectRef,
    pub(crate) digest: Digest,
    /// Hash of what that revision wrote, if it is known.
    pub(crate) applied: Option<u64>,
    /// The object as in the manifest, if patches are made of it.
    pub(crate) body: Option<Value>,
}

/// The objects of recorded revisions that may be in the cluster.
pub(crate) fn base_objects<'r>(
    revisions: impl Iterator<Item = &'r Record>,
    input: &RevisionInput<'_>,
    parser: RecordParser,
    (kinds, scopes): (&ServedKinds, &Scopes<'_>),
    warnings: &mut Vec<String>,
) -> Result<Vec<Vec<BaseObject>>> {
    let mut base = Vec::new();
    for record in revisions {
        let mut objects = Vec::new();
        for manifest in parser.manifests_of(record) {
            let mut manifest = manifest?;
            let moved = served_kinds::to_served(std::iter::once(&mut manifest.object), kinds);
            warnings.extend(moved.into_iter().map(|t| format!("revision {}: {t}", record.version)));
            match resolve(std::iter::once((manifest.source.as_str(), &manifest.object)), input.id, scopes) {
                Ok(targets) => objects.extend(targets.into_iter().map(|target| BaseObject {
                    applied: record.extension.applied.get(&target.key.to_string()).copied(),
                    object: target.object,
                    digest: target.digest,
                    body: (input.method == ApplyMethod::Client).then_some(target.body),
                })),
                // An object of a kind that is no longer served is gone, or not accessible; an object that was
                // never valid was never applied.
                Err(error) => {
                    warnings
                        .push(format!("revision {} has an object that is skipped: {error}", record.version));
                }
            }
        }
        objects.extend(record.extension.retained.iter().map(|retained| BaseObject {
            object: retained.object(),
            digest: Digest::default(),
            applied: None,
            body: None,
        }));
        base.push(objects);
    }
    Ok(base)
}

/// The objects of past revisions of which patches are made, as with Helm: those of the deployed revision, and for a rollback those of the
/// newest.
pub(crate) fn originals(
    base: Vec<Vec<BaseObject>>,
    operation: RevisionOperation,
) -> BTreeMap<ObjectKey, Value> {
    let mut base = base;
    if matches!(operation, RevisionOperation::Rollback { .. }) {
        base.reverse();
    }
    let mut originals = BTreeMap::new();
    for old in base.into_iter().flatten() {
        let Some(body) = old.body else { continue };
        originals.entry(old.object.key()).or_insert(body);
    }
    originals
}
