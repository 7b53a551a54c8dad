//! Drift as users see it: a log line, an Event at the object, and metrics that name the field and who changed it.

use crate::cluster::{Cluster, ObjectRef};
use crate::release::{Drift, DriftMode, ReleaseOutcome};
use crate::serve::State;
use crate::serve::metrics::Metrics;

use super::events;

/// Annotation of a module's chart: what is done about drift of its release.
const MODE: &str = "windlass.dev/drift";
/// The same: fields that are no drift, one rule a line or separated by commas.
const IGNORE: &str = "windlass.dev/drift-ignore";

/// What is done about drift.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Put right, told only, or not looked at.
    pub mode: DriftMode,
    /// Fields that are no drift: `PATH`, `Kind:PATH` or `Kind/name:PATH`.
    pub ignore: Vec<String>,
}

impl Policy {
    /// The policy of one module: what its chart's annotations say, over the operator's. A mode that cannot be read is an
    /// error in words.
    pub(super) fn of_chart(&self, annotations: Option<&[(String, String)]>) -> Result<Self, String> {
        let mut own = self.clone();
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
}

/// Tells what an outcome found.
pub(super) fn tell(cluster: &Cluster, state: &State, module: &str, outcome: &ReleaseOutcome) {
    let metrics = &state.metrics;
    let left = outcome.drift.iter().filter(|drift| !drift.corrected).count();
    metrics.set(
        "windlass_drifted_objects",
        "Objects that differ from what is deployed, and are left so.",
        &[("module", module)],
        u32::try_from(left).map_or(f64::MAX, f64::from),
    );
    for drift in outcome.drift.iter().filter(|drift| !drift.known || drift.corrected) {
        count(metrics, module, drift);
        if drift.deleted {
            let ObjectRef { gvk, namespace, name } = &drift.object;
            let resource = format!("{}/{}/{name}", namespace.as_deref().unwrap_or_default(), gvk.kind);
            let labels = [("module", module), ("resource", resource.as_str())];
            state.measures.add("modules_absent_resources_total", &labels, 1.0);
        }
        let (reason, done) = if drift.corrected {
            ("DriftCorrected", "put right")
        } else {
            ("DriftDetected", "left as it is")
        };
        tracing::warn!(module, corrected = drift.corrected, "drift: {drift}");
        let note = format!("{drift}: {done}");
        let (cluster, object) = (cluster.clone(), drift.object.clone());
        tokio::spawn(async move { events::about(&cluster, &object, reason, &note).await });
    }
}

/// Counts each field with its manager; a deleted object has neither.
fn count(metrics: &Metrics, module: &str, drift: &Drift) {
    let corrected = if drift.corrected { "true" } else { "false" };
    let kind = drift.object.gvk.kind.as_str();
    let add = |field: &str, manager: &str| {
        metrics.add(
            "windlass_drift_total",
            "Fields (or, with an empty field, whole objects) that were found changed.",
            &[
                ("module", module),
                ("kind", kind),
                ("field", field),
                ("manager", manager),
                ("corrected", corrected),
            ],
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

    #[test]
    fn charts_speak_for_their_releases() {
        let operators = Policy { mode: DriftMode::Report, ignore: vec!["spec.replicas".into()] };
        let annotation = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let of = |annotations: &[(String, String)]| operators.of_chart(Some(annotations));
        assert_eq!(operators.of_chart(None).unwrap().mode, DriftMode::Report);
        let own =
            of(&[annotation(MODE, "correct"), annotation(IGNORE, "Deployment:spec.paused, data\nspec.x")]);
        let own = own.unwrap();
        assert_eq!(own.mode, DriftMode::Correct);
        assert_eq!(own.ignore, ["spec.replicas", "Deployment:spec.paused", "data", "spec.x"]);
        let wrong = of(&[annotation(MODE, "never")]).unwrap_err();
        assert!(wrong.contains("\"never\" is no mode of drift"), "{wrong}");
    }
}
