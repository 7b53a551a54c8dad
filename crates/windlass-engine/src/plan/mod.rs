//! The steps from the observed state of a release to the desired one, or to none. Pure.
//!
//! Owns what is written, left and deleted, in which order (dependencies, waves), the ownership checks, and how a plan is shown. Knows
//! nothing of locks and clusters, nor how a step is made.

pub(crate) mod base_objects;
pub(crate) mod dependency_graph;
pub(crate) mod preview;
pub(crate) mod revision_input;
pub(crate) mod uninstall_plan;

use crate::{
    decide::reason::KeptReason,
    error::EngineError,
    objects::{
        ObservedObjects,
        desired_objects::{DesiredObject, is_crd},
        kind_sorter, ownership,
    },
    plan::{
        base_objects::BaseObject,
        dependency_graph::{Order, Wave},
    },
    request::{ApplyMethod, OwnershipOptions, ReleaseId},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use windlass_cluster::{ObjectKey, ObjectRef, ObservedMeta};

/// A write of one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlanStep {
    /// Index of the desired object.
    pub(crate) target: usize,
    pub(crate) before: Option<ObservedMeta>,
    /// A past revision has it.
    pub(crate) known: bool,
}

/// A deletion of one object with its UID.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Deletion {
    pub(crate) object: ObjectRef,
    pub(crate) uid: String,
}

/// Steps in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plan {
    /// Waves one after the other.
    pub(crate) waves: BTreeMap<Wave, Vec<PlanStep>>,
    /// The objects that must be ready before each object.
    pub(crate) awaits: Vec<BTreeSet<usize>>,
    /// Objects that need no write.
    pub(crate) unchanged: Vec<PlanStep>,
    /// Groups one after the other.
    pub(crate) prune: Vec<Vec<Deletion>>,
    /// Objects that left the chart and are kept, with the reason.
    pub(crate) kept: Vec<(ObjectRef, KeptReason)>,
    /// Objects as in the manifest before, of which patches are made.
    pub(crate) originals: BTreeMap<ObjectKey, Value>,
}

/// Refuses objects that exist and belong to others.
pub(crate) fn check_ownership(
    targets: &[DesiredObject],
    base: &[Vec<BaseObject>],
    seen: &ObservedObjects,
    id: &ReleaseId,
    ownership: &OwnershipOptions,
    operation: &'static str,
) -> Result<(), EngineError> {
    let ours: BTreeSet<ObjectKey> = base.iter().flatten().map(|o| o.object.key()).collect();
    let mut foreign = Vec::new();
    for target in targets {
        let Some(Some(found)) = seen.get(&target.key) else { continue };
        // Our own object may have lost its ownership metadata, but may not have another release's.
        let lost = found.release_name.is_none() || found.release_namespace.is_none();
        if ours.contains(&target.key) && lost {
            continue;
        }
        if let Some(reason) = ownership::refusal(found, id, ownership.adoption_of(&target.object)) {
            if ours.contains(&target.key) && found.release_name.as_deref() == Some(&id.name) {
                continue;
            }
            let namespace = target.object.namespace.as_deref().unwrap_or("");
            let object =
                format!("{} {:?} in namespace {namespace:?}", target.object.gvk.kind, target.object.name);
            foreign.push((object, reason));
        }
    }
    let mut foreign = foreign.into_iter();
    let Some((object, reason)) = foreign.next() else { return Ok(()) };
    Err(EngineError::Ownership { operation, object, reason, others: foreign.collect() })
}

/// Plans. `order` is that of the objects. `base`: the objects of the last deployed revision and of each unfinished
/// one after it. `kept_crds`: names of the CRDs that stay although they left the manifest.
pub(crate) fn plan(
    targets: &[DesiredObject],
    order: Order,
    base: &[Vec<BaseObject>],
    seen: &ObservedObjects,
    id: &ReleaseId,
    (method, kept_crds): (ApplyMethod, &BTreeSet<String>),
) -> Plan {
    let mut plan = Plan { awaits: order.awaits, ..Plan::default() };
    // The recorded state is the cluster's only if no unfinished revision follows it.
    let deployed: BTreeMap<ObjectKey, &BaseObject> = match base {
        [only] => only.iter().map(|o| (o.object.key(), o)).collect(),
        _ => BTreeMap::new(),
    };
    let ours: BTreeSet<ObjectKey> = base.iter().flatten().map(|o| o.object.key()).collect();
    for (index, target) in targets.iter().enumerate() {
        let before = seen.get(&target.key).cloned().flatten();
        let unchanged = before.as_ref().is_some_and(|before| {
            deployed.get(&target.key).is_some_and(|old| {
                let same = old.digest == target.digest && old.object.gvk == target.object.gvk;
                same && old.applied.is_some()
                    && old.applied == method.written_of(before)
                    && !before.deleting
                    && !(before.helm_updates && method == ApplyMethod::Server)
                    && ownership::check(before, id).is_ok()
            })
        });
        let step = PlanStep { target: index, before, known: ours.contains(&target.key) };
        if unchanged {
            plan.unchanged.push(step);
        } else {
            plan.waves.entry(order.waves[index]).or_default().push(step);
        }
    }
    let kept: BTreeSet<&ObjectKey> = targets.iter().map(|t| &t.key).collect();
    let mut gone: BTreeMap<ObjectKey, &ObjectRef> = BTreeMap::new();
    for old in base.iter().flatten() {
        let key = old.object.key();
        if !kept.contains(&key) {
            gone.insert(key, &old.object);
        }
    }
    let mut deletions: Vec<Deletion> = Vec::new();
    for (key, object) in gone {
        let Some(Some(found)) = seen.get(&key) else { continue };
        // First: where `crds/` is applied already, the CRD has lost its ownership metadata.
        if is_crd(object) && kept_crds.contains(&object.name) {
            plan.kept.push((object.clone(), KeptReason::InCrdsDir));
        } else if ownership::check(found, id).is_err() {
            plan.kept.push((object.clone(), KeptReason::NotOwned));
        } else if ownership::is_kept(found.resource_policy.as_deref()) {
            plan.kept.push((object.clone(), KeptReason::Policy));
        } else {
            deletions.push(Deletion { object: object.clone(), uid: found.uid.clone() });
        }
    }
    plan.prune = deletion_groups(deletions);
    plan
}

/// Deletions in groups: phases in reverse, and each in Helm's uninstall order.
pub(crate) fn deletion_groups(mut deletions: Vec<Deletion>) -> Vec<Vec<Deletion>> {
    let phase = |d: &Deletion| kind_sorter::phase(&d.object.gvk.group, &d.object.gvk.kind);
    deletions.sort_by(|a, b| {
        let rank = |d: &Deletion| kind_sorter::uninstall_rank(&d.object.gvk.kind).0;
        phase(b).cmp(&phase(a)).then(rank(a).cmp(&rank(b))).then_with(|| a.object.cmp(&b.object))
    });
    let mut groups: Vec<Vec<Deletion>> = Vec::new();
    for deletion in deletions {
        match groups.last_mut() {
            Some(group) if group.first().is_some_and(|first| phase(first) == phase(&deletion)) => {
                group.push(deletion);
            }
            _ => groups.push(vec![deletion]),
        }
    }
    groups
}

#[cfg(test)]
mod tests;
