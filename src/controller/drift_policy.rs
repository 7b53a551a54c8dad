//! What is done about drift, and how it is reported: a log line, an Event on the object, and metrics that name the field and
//! the field manager that changed it.

use super::events::EventRecorder;
use crate::release::{Drift, DriftMode, ReleaseOutcome};
use crate::serve::State;
use crate::serve::metrics::Metrics;

/// What is done about drift.
#[derive(Debug, Clone, Default)]
pub struct DriftPolicy {
    /// Correct, report or ignore.
    pub mode: DriftMode,
    /// Fields that are not drift: `PATH`, `Kind:PATH` or `Kind/name:PATH`.
    pub ignore: Vec<String>,
}

/// Reports the drift of an outcome. `key` is the metric label that names the release to its front end, with its value.
pub fn report_drift(recorder: &EventRecorder, state: &State, key: (&str, &str), outcome: &ReleaseOutcome) {
    let metrics = &state.metrics;
    let left = outcome.drift.iter().filter(|drift| !drift.corrected).count();
    metrics.set(
        "windlass_drifted_objects",
        "Objects that differ from what is deployed, and are left so.",
        &[key],
        u32::try_from(left).map_or(f64::MAX, f64::from),
    );
    for drift in outcome.drift.iter().filter(|drift| !drift.known || drift.corrected) {
        count(metrics, key, drift);
        let (reason, done) = if drift.corrected {
            ("DriftCorrected", "corrected")
        } else {
            ("DriftDetected", "not corrected")
        };
        tracing::warn!(release = key.1, corrected = drift.corrected, "drift: {drift}");
        recorder.warn_object(&drift.object, reason, format!("{drift}: {done}"));
    }
}

/// Counts each field with its manager; a deleted object has neither.
fn count(metrics: &Metrics, key: (&str, &str), drift: &Drift) {
    let corrected = if drift.corrected { "true" } else { "false" };
    let kind = drift.object.gvk.kind.as_str();
    let add = |field: &str, manager: &str| {
        metrics.add(
            "windlass_drift_total",
            "Fields (or, with an empty field, whole objects) that were found changed.",
            &[key, ("kind", kind), ("field", field), ("manager", manager), ("corrected", corrected)],
            1.0,
        );
    };
    if drift.fields.is_empty() {
        add("", "");
    }
    for field in &drift.fields {
        add(&field.change.path, field.manager.as_deref().unwrap_or_default());
    }
}
