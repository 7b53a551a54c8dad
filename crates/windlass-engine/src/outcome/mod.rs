//! What a reconcile or an uninstall did, and why. Plain data.

pub(crate) mod object_drift;

use crate::{
    decide::{
        ReleaseAction,
        reason::{ActionReason, KeptReason},
    },
    outcome::object_drift::Drift,
    record::Record,
};
use std::sync::Arc;
use windlass_cluster::ObjectRef;

/// What a reconcile did.
#[derive(Debug, Clone)]
pub struct ReleaseOutcome {
    pub action: ReleaseAction,
    /// Why this action.
    pub reason: ActionReason,
    pub revision: u64,
    /// The record as written; `None` if none was written.
    pub record: Option<Arc<Record>>,
    /// Objects that were created.
    pub created: Vec<ObjectRef>,
    /// Objects that were changed.
    pub changed: Vec<ObjectRef>,
    /// Number of objects that were left unchanged.
    pub unchanged: usize,
    /// Pruned objects: they left the chart and were deleted.
    pub pruned: Vec<ObjectRef>,
    /// Objects that left the chart and were not deleted, each with the reason.
    pub kept: Vec<(ObjectRef, KeptReason)>,
    /// Warnings of the server and of the engine.
    pub warnings: Vec<String>,
    /// Objects that had drifted.
    pub drift: Vec<Drift>,
}

impl ReleaseOutcome {
    pub(crate) fn new(action: ReleaseAction, reason: ActionReason, revision: u64) -> Self {
        Self {
            action,
            reason,
            revision,
            record: None,
            created: Vec::new(),
            changed: Vec::new(),
            unchanged: 0,
            pruned: Vec::new(),
            kept: Vec::new(),
            warnings: Vec::new(),
            drift: Vec::new(),
        }
    }

    /// Whether anything in the cluster was written.
    pub fn wrote(&self) -> bool {
        self.record.is_some()
            || !(self.created.is_empty() && self.changed.is_empty() && self.pruned.is_empty())
    }
}

/// What an uninstall did.
#[derive(Debug, Clone, Default)]
pub struct Uninstalled {
    /// The newest record as it was left; `None` if there was no release.
    pub record: Option<Arc<Record>>,
    pub deleted: Vec<ObjectRef>,
    /// Objects kept by their resource policy. For kinds that are no longer served only kind and name are certain.
    pub kept: Vec<ObjectRef>,
    /// Objects that were not deleted because they belong to others.
    pub foreign: Vec<ObjectRef>,
    /// Deletions and hooks that failed.
    pub errors: Vec<String>,
    /// Objects are left, and so are the records ([`UninstallRequest::keep_incomplete`](crate::UninstallRequest)).
    pub incomplete: bool,
}
