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

/// Most rules of one release's author for fields to ignore: each is looked up in each drifted object.
pub const MAX_IGNORE_RULES: usize = 256;
const DRIFT_TOTAL: &str = "windlass_drift_total";
const DRIFT_HELP: &str =
    "Fields (or, with an empty field, whole objects and further fields) that were found changed.";
/// Longest field and manager, together, that a series names.
const MAX_FIELD_BYTES: usize = 512;
/// Most series of drifted fields of one release, and of all: the cluster chooses the names of fields.
const MAX_FIELD_SERIES: usize = 50;
const MAX_ALL_FIELD_SERIES: usize = 10_000;

/// The drift policy for one chart: its annotations over `policy`.
///
/// # Errors
/// An unknown mode, or too many rules; the text names the annotation.
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
                let found = rules.clone().count();
                if found > MAX_IGNORE_RULES {
                    return Err(format!(
                        "Chart.yaml: annotation {IGNORE}: {found} rules, and at most {MAX_IGNORE_RULES} are allowed: \
                         name a field above several others"
                    ));
                }
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

/// The series of a release are forgotten with it.
pub(crate) fn forget_drift(metrics: &Metrics, key: (&str, &str)) {
    metrics.remove("windlass_drifted_objects", &[key]);
    metrics.remove_starting_with(DRIFT_TOTAL, key);
}

/// Counts each field with its manager; a deleted object has neither. Fields past [`MAX_FIELD_SERIES`] have no name.
fn count(metrics: &Metrics, key: (&str, &str), drift: &Drift) {
    let corrected = if drift.corrected { "true" } else { "false" };
    let kind = drift.object.gvk.kind.as_str();
    let unnamed = |fields: usize| {
        let labels = [key, ("kind", kind), ("field", ""), ("manager", ""), ("corrected", corrected)];
        metrics.add(DRIFT_TOTAL, DRIFT_HELP, &labels, fields as f64);
    };
    let add = |field: &str, manager: &str| {
        let labels = [key, ("kind", kind), ("field", field), ("manager", manager), ("corrected", corrected)];
        let fits = field.len() + manager.len() <= MAX_FIELD_BYTES;
        let most = (MAX_FIELD_SERIES, MAX_ALL_FIELD_SERIES);
        if !(fits && metrics.add_within(DRIFT_TOTAL, DRIFT_HELP, &labels, 1.0, most)) {
            unnamed(1);
        }
    };
    if drift.fields.is_empty() && drift.further_fields == 0 {
        add("", "");
    }
    for field in &drift.fields {
        add(&field.change.path, field.manager.as_deref().unwrap_or_default());
    }
    if drift.further_fields > 0 {
        unnamed(drift.further_fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_cluster::{Gvk, ObjectRef};
    use windlass_engine::{DriftMode, DriftedField, FieldChange};

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
        let many = of(&[annotation(IGNORE, &"a,".repeat(MAX_IGNORE_RULES + 1))]).unwrap_err();
        assert!(many.contains("annotation windlass.dev/drift-ignore: 257 rules"), "{many}");
        let wrong = of(&[annotation(MODE, "never")]).unwrap_err();
        assert!(wrong.contains("\"never\" is not a drift mode"), "{wrong}");
    }

    #[test]
    fn series_of_drifted_fields_are_bounded() {
        let metrics = Metrics::default();
        let object = ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some("ns"), "c");
        let field = |path: String| DriftedField {
            change: FieldChange { path, before: None, after: None, sensitive: false },
            manager: Some("somebody".into()),
        };
        let mut fields: Vec<DriftedField> = (0..1_000).map(|i| field(format!("data.k{i}"))).collect();
        fields.push(field("x".repeat(2_000)));
        let drift =
            Drift { object, deleted: false, fields, further_fields: 7, corrected: true, known: false };
        for release in ["a", "b"] {
            count(&metrics, ("object", release), &drift);
        }
        let series =
            |text: &str| text.lines().filter(|line| line.starts_with("windlass_drift_total{")).count();
        let text = metrics.text();
        assert_eq!(series(&text), 2 * (MAX_FIELD_SERIES + 1), "{text}");
        assert!(
            text.contains(
                "{object=\"a\",kind=\"ConfigMap\",field=\"\",manager=\"\",corrected=\"true\"} 958\n"
            )
        );
        forget_drift(&metrics, ("object", "a"));
        let text = metrics.text();
        assert!(series(&text) == MAX_FIELD_SERIES + 1 && !text.contains("object=\"a\""), "{text}");
    }
}
