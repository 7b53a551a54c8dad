//! Progress of an operation, for a listener such as a terminal.

use crate::request::{HookEvent, ReleaseId};
use futures::future::BoxFuture;
use std::sync::Arc;
use windlass_cluster::ObjectRef;

/// A step of an operation.
#[derive(Debug)]
pub enum OperationProgress<'a> {
    Applied {
        object: &'a ObjectRef,
        created: bool,
        changed: bool,
    },
    Deleted(&'a ObjectRef),
    /// A hook starts.
    Hook {
        event: HookEvent,
        kind: &'a str,
        name: &'a str,
    },
    /// Output of a hook's container, if the hook's log policy asks for it.
    HookLog {
        pod: &'a str,
        container: &'a str,
        text: &'a str,
    },
    /// An object that is not ready yet, and why.
    Waiting {
        object: &'a ObjectRef,
        reason: &'a str,
    },
    Ready(&'a ObjectRef),
    /// A right that is missing, and what is done without it.
    Warning(&'a str),
    /// Diagnosis of an object that is not ready: states, warnings, logs.
    Diagnosis {
        object: &'a ObjectRef,
        lines: &'a [String],
    },
}

/// Receives steps as they happen; must return quickly.
pub type ProgressListener = Arc<dyn Fn(&ReleaseId, &OperationProgress<'_>) + Send + Sync>;

/// Called when an operation waits for the cluster: for readiness, hooks or deletions. It needs no worker meanwhile.
pub trait WaitListener: Send + Sync {
    /// A wait begins; it may be dropped without an end.
    fn begins(&self);

    /// A wait is over. Resolves when the operation may go on.
    fn ended(&self) -> BoxFuture<'_, ()>;
}

/// Reports the steps of one operation.
#[derive(Clone, Copy)]
pub(crate) struct ProgressReporter<'a> {
    pub(crate) id: &'a ReleaseId,
    pub(crate) listener: Option<&'a ProgressListener>,
    /// The listener wants diagnoses, which cost requests.
    pub(crate) diagnoses: bool,
    pub(crate) waits: Option<&'a Arc<dyn WaitListener>>,
}

impl ProgressReporter<'_> {
    pub(crate) fn report(&self, step: &OperationProgress<'_>) {
        if let Some(listener) = self.listener {
            listener(self.id, step);
        }
    }

    /// Runs a wait, between a call of each kind to the listener for waits.
    pub(crate) async fn wait<T>(&self, wait: impl Future<Output = T>) -> T {
        let Some(listener) = self.waits else { return wait.await };
        listener.begins();
        let result = wait.await;
        listener.ended().await;
        result
    }
}
