//! Status and Events of HelmCharts. Pure.
//!
//! Owns the conditions that k3s' users know, JobCreated and Failed, and Ready beside them. k3s' own definition of the kind keeps neither
//! times nor fields of ours: they are left out where the definition would drop them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::managed_chart::{ManagedChart, UNSUPPORTED_VERSION};
use windlass_cluster::api_now;
use windlass_controller::{Condition, EventNote, EventType, ReconcileError, Report, set_conditions};
use windlass_engine::{Disposition, ReleaseAction, ReleaseId};

/// Reason of a release whose objects are not ready.
const NOT_READY: &str = "NotReady";

/// What a status is written for.
pub(crate) struct StatusOf<'s> {
    pub(crate) chart: &'s ManagedChart,
    /// The status as it is.
    pub(crate) before: &'s Value,
    /// Whether the definition of the kind has our fields.
    pub(crate) keeps_own: bool,
}

/// A revision that is deployed.
#[derive(Clone, Debug)]
pub(crate) struct DeployedChart {
    pub(crate) id: ReleaseId,
    pub(crate) revision: u64,
    pub(crate) chart: String,
    pub(crate) version: String,
}

/// Whether the objects of a release are ready.
#[derive(Clone, Debug)]
pub(crate) enum ObjectReadiness {
    Ready,
    Waiting,
    NotReady(String),
}

fn condition(
    condition_type: &'static str,
    status: Option<bool>,
    reason: &'static str,
    message: impl Into<String>,
) -> Condition {
    Condition { condition_type, status, reason, message: message.into() }
}

/// The release is being made. k3s creates a Job for it.
fn job_created() -> Condition {
    condition("JobCreated", Some(true), "ReleaseStarted", "the release is made without a Job")
}

impl StatusOf<'_> {
    /// The status with conditions; those of other types stay as they are.
    fn with(&self, conditions: &[Condition], fields: Value) -> Value {
        let generation = self.chart.generation;
        let mut list = set_conditions(&self.before["conditions"], conditions, Some(generation), &api_now());
        let mut status = if self.keeps_own { fields } else { json!({}) };
        if self.keeps_own {
            status["observedGeneration"] = generation.into();
        } else {
            let dropped = ["lastTransitionTime", "observedGeneration"];
            for condition in list.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                dropped.iter().for_each(|field| drop(condition.remove(*field)));
            }
        }
        status["conditions"] = list;
        status["jobName"] = Value::Null;
        status
    }

    /// A generation is being reconciled.
    pub(crate) fn progressing(&self) -> Value {
        let ready = condition("Ready", None, "Progressing", "the release is being reconciled");
        self.with(&[job_created(), ready], json!({}))
    }

    /// A revision is deployed.
    pub(crate) fn deployed(&self, deployed: &DeployedChart, readiness: &ObjectReadiness) -> Value {
        let DeployedChart { id, revision, chart, version } = deployed;
        let text = format!("release {id}: revision {revision} of {chart}-{version} is deployed");
        let ready = match readiness {
            ObjectReadiness::Ready => condition("Ready", Some(true), "Deployed", text.as_str()),
            ObjectReadiness::Waiting => {
                condition("Ready", None, "Progressing", format!("{text}; its objects are not ready yet"))
            }
            ObjectReadiness::NotReady(why) => condition(
                "Ready",
                Some(false),
                NOT_READY,
                format!("{text}; its objects are not ready: {why}"),
            ),
        };
        let failed = condition("Failed", Some(false), "Deployed", text.as_str());
        let fields = json!({"revision": revision, "chartVersion": version});
        self.with(&[job_created(), failed, ready], fields)
    }

    /// A pass failed. `failures`: in a row.
    fn failed(&self, error: &ReconcileError, failures: u32) -> Value {
        let text = error.to_string();
        let ready = condition("Ready", Some(false), error.reason(), text.as_str());
        if error.is_wait() {
            return self.with(&[ready], json!({}));
        }
        let is_final = error.disposition() == Disposition::Stall || failures >= self.chart.back_off_limit();
        let reason = match error.reason() {
            // k3s' word, which is not one of CamelCase.
            UNSUPPORTED_VERSION => "Unsupported version",
            reason if is_final => reason,
            _ => "Retrying",
        };
        self.with(&[condition("Failed", Some(is_final), reason, text.as_str()), ready], json!({}))
    }

    /// The status of a report.
    pub(crate) fn of(&self, report: &Report<'_>) -> Value {
        match report {
            // Another controller's.
            Report::Suspended => json!({}),
            Report::Progressing => self.progressing(),
            Report::DependencyNotReady(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let text = format!("waits for HelmChart {}", names.join(", "));
                self.with(&[condition("Ready", Some(false), "DependencyNotReady", text)], json!({}))
            }
            // Drift was corrected, or there was none: what the pass wrote still holds.
            Report::Released(outcome) if !is_new_revision(outcome.action) => json!({}),
            Report::Released(outcome) => {
                let metadata = outcome.record.as_ref().map(|record| &record.chart["metadata"]);
                let text = |field: &str| {
                    metadata.and_then(|metadata| metadata[field].as_str()).unwrap_or_default().to_owned()
                };
                let deployed = DeployedChart {
                    id: self.chart.release(),
                    revision: outcome.revision,
                    chart: text("name"),
                    version: text("version"),
                };
                self.deployed(&deployed, &ObjectReadiness::Ready)
            }
            Report::Failed { error, failures, .. } => self.failed(error, *failures),
        }
    }
}

/// Whether an action made a revision.
pub(crate) fn is_new_revision(action: ReleaseAction) -> bool {
    !matches!(action, ReleaseAction::Unchanged | ReleaseAction::Restore)
}

/// An Event.
pub(crate) fn note(event_type: EventType, reason: &'static str, note: String) -> EventNote {
    EventNote { event_type, reason, action: "Reconcile", note, annotations: BTreeMap::new() }
}

/// The Event of a report.
pub(crate) fn event_of(report: &Report<'_>) -> Option<EventNote> {
    match report {
        Report::Released(outcome) if is_new_revision(outcome.action) => {
            let text = format!("revision {} is deployed", outcome.revision);
            Some(note(EventType::Normal, "Deployed", text))
        }
        Report::Failed { error, .. } if !error.is_wait() => {
            Some(note(EventType::Warning, error.reason(), error.to_string()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn chart(spec: &Value) -> ManagedChart {
        let metadata = json!({"name": "web", "namespace": "apps", "generation": 3});
        ManagedChart::read(&json!({"metadata": metadata, "spec": spec}), "helm-controller")
    }

    fn shown(status: &Value) -> Vec<String> {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        conditions
            .map(|c| format!("{} {} {}", text(&c["type"]), text(&c["status"]), text(&c["reason"])))
            .collect()
    }

    #[test]
    fn the_status_of_k3s_gets_no_fields_that_it_drops() {
        let chart = chart(&json!({"chart": "web"}));
        let before = json!({"jobName": "helm-install-web", "conditions": [
            {"type": "Other", "status": "True"}, {"type": "Failed", "status": "True", "reason": "x", "message": "y"},
        ]});
        let of = |keeps_own| {
            let deployed = DeployedChart {
                id: chart.release(),
                revision: 4,
                chart: "web".to_owned(),
                version: "1.2.3".to_owned(),
            };
            StatusOf { chart: &chart, before: &before, keeps_own }
                .deployed(&deployed, &ObjectReadiness::Ready)
        };
        let theirs = of(false);
        let fields: Vec<&String> = theirs.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["conditions", "jobName"]);
        assert_eq!(theirs["jobName"], Value::Null);
        let ready = &theirs["conditions"][3];
        assert_eq!(ready.as_object().unwrap().len(), 4, "{ready}");
        assert_eq!(ready["message"], "release apps/web: revision 4 of web-1.2.3 is deployed");
        let expected =
            ["Other True ", "Failed False Deployed", "JobCreated True ReleaseStarted", "Ready True Deployed"];
        assert_eq!(shown(&theirs), expected);
        let own = of(true);
        assert_eq!((&own["observedGeneration"], &own["revision"]), (&json!(3), &json!(4)));
        assert_eq!(own["chartVersion"], "1.2.3");
        assert_eq!(own["conditions"][3]["observedGeneration"], 3);
    }

    #[test]
    fn a_chart_has_failed_when_no_try_helps() {
        let chart = chart(&json!({"chart": "web", "backOffLimit": 3}));
        let status = StatusOf { chart: &chart, before: &Value::Null, keeps_own: false };
        let retry = || ReconcileError::Hook("it failed".to_owned());
        let stall = || ReconcileError::Chart("it is no chart".to_owned());
        for (error, failures, expected) in [
            (retry(), 1, "Failed False Retrying"),
            (retry(), 2, "Failed False Retrying"),
            (retry(), 3, "Failed True HookFailed"),
            (stall(), 1, "Failed True ChartInvalid"),
        ] {
            let report = Report::Failed { error: &error, retry_in: Duration::ZERO, failures };
            let found = shown(&status.of(&report));
            assert_eq!(found[0], expected);
            assert!(found[1].starts_with("Ready False "), "{found:?}");
            assert!(event_of(&report).is_some());
        }
        assert_eq!(status.of(&Report::Suspended), json!({}));
    }
}
