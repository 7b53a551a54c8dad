//! What releases tell while they are worked on, as log lines.

use std::sync::Arc;

use crate::release::{Progress, ProgressListener};

/// A listener that writes to the log: why something does not get ready, and what hooks want to be shown.
pub(super) fn listener() -> ProgressListener {
    Arc::new(|release, step| match step {
        Progress::Diagnosis { object, lines } => {
            for line in *lines {
                tracing::warn!(%release, %object, "not ready: {line}");
            }
        }
        Progress::HookLog { pod, container, text } => {
            for line in text.lines() {
                tracing::info!(%release, pod, container, "{line}");
            }
        }
        _ => {}
    })
}
