//! What is done about drift, and how it is reported: a log line, an Event on the object, and metrics that name the field and
//! the field manager that changed it.

use super::events::EventRecorder;
use crate::serve::State;
use crate::serve::metrics::Metrics;
use windlass_engine::{Drift, DriftPolicy, ReleaseOutcome};

/// Annotation of a chart: its drift mode.
const MODE: &str = "windlass.dev/drift";
/// Annotation of a chart: fields to ignore, one rule a line or separated by commas.
const IGNORE: &str = "windlass.dev/drift-ignore";

/// The drift policy for one chart: its annotations over `policy`.
///
/// # Errors
/// An unknown mode; the text names the annotation.
pub fn drift_policy_of(
    policy: &DriftPolicy,
    annotations: Option<&[(String, String)]>,
) -> Result<DriftPolicy, String> {
    let mut own = policy.clone();
    for (name, text) in annotations.unwrap_or_default() {
        match name.as_str() {
            MODE => own.mode = text.parse().map_err(|e| format!("Chart.yaml: annotation {MODE}: {e}"))?,
            IGNORE => {
                let rules = text.split([',', '\n']).map(str::trim).filter(|rule| !rule.is_empty());
                own.ignore.extend(rules.map(str::to_owned));
            }
            _ => {}
        }
    }
    Ok(own)
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

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::DriftMode;

    #[test]
    fn annotations_of_charts_come_first() {
        let operators = DriftPolicy { mode: DriftMode::Report, ignore: vec!["spec.replicas".into()] };
        let annotation = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let of = |annotations: &[(String, String)]| drift_policy_of(&operators, Some(annotations));
        assert_eq!(drift_policy_of(&operators, None).unwrap().mode, DriftMode::Report);
        let own =
            of(&[annotation(MODE, "correct"), annotation(IGNORE, "Deployment:spec.paused, data\nspec.x")]);
        let own = own.unwrap();
        assert_eq!(own.mode, DriftMode::Correct);
        assert_eq!(own.ignore, ["spec.replicas", "Deployment:spec.paused", "data", "spec.x"]);
        let wrong = of(&[annotation(MODE, "never")]).unwrap_err();
        assert!(wrong.contains("\"never\" is not a drift mode"), "{wrong}");
    }
}
