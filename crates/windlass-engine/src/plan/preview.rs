//! A plan as it is shown and stored: the change of each object, and why. Plain data.

use crate::{
    decide::ReleaseAction,
    objects::{field_conflicts::Conflict, field_diff::FieldChange},
    request::HookEvent,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};
use windlass_cluster::ObjectRef;

/// What would happen to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeVerb {
    Create,
    Update,
    /// Deleted and created again.
    Recreate,
    /// It exists, and the release takes it over.
    Adopt,
    Delete,
    /// It leaves the release and is kept, or exists and is not changed.
    Skip,
    Unchanged,
    /// The server would reject it.
    Blocked,
}

/// An option of the request that decides about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidingOption {
    /// [`ReleaseOptions::create_namespace`].
    CreateNamespace,
    /// [`ReleaseOptions::adoption`] as [`Adoption::Any`].
    TakeOwnership,
    /// [`MovedCrds::Keep`](crate::MovedCrds::Keep).
    KeepMovedCrds,
}

/// The planned change of one object, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedChange {
    pub verb: ChangeVerb,
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// Path of its template; empty for objects that are not in the chart.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub path: String,
    pub reason: String,
    /// The option that allows the change, or would allow a blocked one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub option: Option<DecidingOption>,
    /// The objects that are deleted with a CRD.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub objects: Option<DeletedObjects>,
    /// Changed fields; values of Secrets are hidden.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub fields: Vec<FieldChange>,
    /// Field manager of the last write that was not ours.
    #[serde(skip)]
    pub writer: Option<String>,
    /// Fields of other managers, whatever the policy is.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub conflicts: Vec<Conflict>,
}

/// A hook that would run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedHook {
    pub event: HookEvent,
    pub kind: String,
    pub name: String,
}

/// The result of a dry run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    pub release: String,
    pub namespace: String,
    pub action: ReleaseAction,
    pub reason: String,
    /// The revision that would be created.
    pub revision: u64,
    pub changes: Vec<PlannedChange>,
    pub hooks: Vec<PlannedHook>,
    /// Whether the hooks differ from those of the newest revision.
    #[serde(rename = "hooksDiffer", default)]
    pub hooks_differ: bool,
    pub warnings: Vec<String>,
    /// Digest of the whole plan, values of Secrets included, and of the newest record: equal plans have equal
    /// digests.
    pub digest: String,
}

/// API version, kind, namespace, name.
type Identity = (String, String, Option<String>, String);

impl Preview {
    /// The number of objects with a verb.
    pub fn count(&self, verb: ChangeVerb) -> usize {
        self.changes.iter().filter(|c| c.verb == verb).count()
    }

    /// Whether any object would change, or the hooks differ.
    pub fn changes_anything(&self) -> bool {
        self.hooks_differ
            || self.changes.iter().any(|c| !matches!(c.verb, ChangeVerb::Skip | ChangeVerb::Unchanged))
    }

    /// Whether nothing would happen: no revision, no object.
    pub fn keeps(&self) -> bool {
        self.action == ReleaseAction::Unchanged && !self.changes_anything()
    }

    /// The first difference of two plans of the same request, as text.
    pub(crate) fn difference(&self, other: &Self) -> String {
        if (self.action, self.revision) != (other.action, other.revision) {
            return format!(
                "it was {:?} to revision {}, and is {}",
                self.action, self.revision, other.reason
            );
        }
        let name = |c: &PlannedChange| format!("{} {}", c.kind, c.name);
        let index = |preview: &'_ Self| -> BTreeMap<Identity, usize> {
            preview.changes.iter().enumerate().map(|(i, c)| (c.identity(), i)).collect()
        };
        let (planned, now) = (index(self), index(other));
        for a in &self.changes {
            match now.get(&a.identity()).map(|i| &other.changes[*i]) {
                None => return format!("{} is no longer in the plan", name(a)),
                Some(b) if a.verb != b.verb => {
                    return format!("{} was planned as {:?} and is now {:?}", name(a), a.verb, b.verb);
                }
                // A saved plan has no writers.
                Some(b) if *a != (PlannedChange { writer: a.writer.clone(), ..b.clone() }) => {
                    return format!("{} is not as it was", name(a));
                }
                Some(_) => {}
            }
        }
        match other.changes.iter().find(|b| !planned.contains_key(&b.identity())) {
            Some(new) => format!("{} was not in the plan", name(new)),
            None => "an object or the release's record was changed".to_owned(),
        }
    }
}

impl PlannedChange {
    pub fn new(verb: ChangeVerb, object: &ObjectRef, path: &str, reason: &str) -> Self {
        Self {
            verb,
            api_version: object.gvk.api_version(),
            kind: object.gvk.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            path: path.to_owned(),
            reason: reason.to_owned(),
            option: None,
            objects: None,
            fields: Vec::new(),
            writer: None,
            conflicts: Vec::new(),
        }
    }

    fn identity(&self) -> Identity {
        (self.api_version.clone(), self.kind.clone(), self.namespace.clone(), self.name.clone())
    }
}

/// The objects that are deleted with a CRD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletedObjects {
    /// Their kind.
    pub kind: String,
    /// Their number; `None` if they cannot be counted.
    pub count: Option<usize>,
    /// There are more than were counted.
    pub at_least: bool,
}

impl DeletedObjects {
    pub(crate) fn is_none(&self) -> bool {
        self.count == Some(0) && !self.at_least
    }
}

/// The sentence that follows the reason of the deletion.
impl fmt::Display for DeletedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = &self.kind;
        match (self.count, self.at_least) {
            (Some(0), false) => write!(f, "there are no objects of kind {kind}"),
            (Some(1), false) => write!(f, "1 object of kind {kind} is deleted with it"),
            (Some(count), false) => write!(f, "{count} objects of kind {kind} are deleted with it"),
            (Some(count), true) => write!(f, "{count} or more objects of kind {kind} are deleted with it"),
            (None, _) => write!(f, "all objects of kind {kind} are deleted with it, which cannot be counted"),
        }
    }
}
