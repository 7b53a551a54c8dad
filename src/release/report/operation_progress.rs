//! What an operation tells while it runs, for those who watch it on a terminal.

use crate::cluster::ObjectRef;
use crate::release::request::{HookEvent, ReleaseId};
use std::sync::Arc;

/// A step of an operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum OperationProgress<'a> {
    Applied {
        object: &'a ObjectRef,
        created: bool,
        changed: bool,
    },
    Deleted(&'a ObjectRef),
    /// A hook begins.
    Hook {
        event: HookEvent,
        kind: &'a str,
        name: &'a str,
    },
    /// What a container of a hook wrote, where the hook asks for it to be shown.
    HookLog {
        pod: &'a str,
        container: &'a str,
        text: &'a str,
    },
    /// An object that is waited for is not ready yet, and why.
    Waiting {
        object: &'a ObjectRef,
        reason: &'a str,
    },
    Ready(&'a ObjectRef),
    /// What the operation goes on without: a right that it would have used.
    Warning(&'a str),
    /// What there is to see of an object that does not get ready: states, warnings, logs.
    Diagnosis {
        object: &'a ObjectRef,
        lines: &'a [String],
    },
}

/// Takes steps as they happen; must be quick.
pub type ProgressListener = Arc<dyn Fn(&ReleaseId, &OperationProgress<'_>) + Send + Sync>;

/// Tells the steps of one operation.
#[derive(Clone, Copy)]
pub(crate) struct ProgressReporter<'a> {
    pub(crate) id: &'a ReleaseId,
    pub(crate) listener: Option<&'a ProgressListener>,
    /// Someone wants to know why things do not get ready, which costs requests.
    pub(crate) diagnoses: bool,
}

impl ProgressReporter<'_> {
    pub(crate) fn report(&self, step: &OperationProgress<'_>) {
        if let Some(listener) = self.listener {
            listener(self.id, step);
        }
    }
}
