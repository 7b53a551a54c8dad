//! Progress of releases as log lines.

use std::sync::Arc;

use crate::release::{OperationProgress, ProgressListener};

/// A listener that logs why objects do not become ready, and what chart hooks print.
#[must_use]
pub(super) fn log_progress() -> ProgressListener {
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
