//! Progress of releases as log lines.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::failure_log::{FailureLog, News};
use windlass_base::redact::Masked;
use windlass_engine::{OperationProgress, ProgressListener};

/// A listener that logs why objects do not become ready, when that changes, and what chart hooks print.
#[must_use]
pub(super) fn log_progress() -> ProgressListener {
    let diagnoses = Mutex::new(FailureLog::default());
    Arc::new(move |release, step| match step {
        OperationProgress::Ready(object) => {
            diagnoses.lock().unwrap_or_else(PoisonError::into_inner).clear(&object.to_string());
        }
        OperationProgress::Diagnosis { object, lines } => {
            let now = Instant::now();
            let mut log = diagnoses.lock().unwrap_or_else(PoisonError::into_inner);
            let text = Masked::for_log(&lines.join("\n"));
            let news = log.classify(&object.to_string(), ("", &text), now);
            for (text, objects) in log.due(now) {
                let count = objects.len();
                tracing::warn!(count, "more objects are not ready for the same reason: {text}");
            }
            drop(log);
            for line in lines.iter().filter(|_| news == News::Reason) {
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
