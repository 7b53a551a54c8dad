//! What releases tell while they are worked on, as log lines.

use std::sync::Arc;

use crate::release::{OperationProgress, ProgressListener};

/// A listener that writes to the log: why something does not get ready, and what hooks want to be shown.
pub(super) fn listener() -> ProgressListener {
    Arc::new(|release, step| match step {
        OperationProgress::Diagnosis { object, lines } => {
            for line in *lines {
                tracing::warn!(%release, %object, "not ready: {line}");
            }
        }
        OperationProgress::HookLog { pod, container, text } => {
            for line in text.lines() {
                tracing::info!(%release, pod, container, "{line}");
            }
        }
        _ => {}
    })
}
