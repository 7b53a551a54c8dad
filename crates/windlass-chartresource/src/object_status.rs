//! The status of an object: operator-sdk's conditions, and what is deployed, in a few fields.
//!
//! Owns which conditions go with which state. Never has the manifest: an object with it outgrows what an editor or etcd takes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::chart_rollout::RolloutCandidate;
use super::failed_attempts::FailedAttempt;
use windlass_base::redact;
use windlass_cluster::api_now;
use windlass_controller::{Condition, set_conditions};
use windlass_engine::Unready;

/// Objects that the status names as not ready, at most.
const MAX_UNREADY: usize = 10;
/// Longest text about one of them, in characters.
const MAX_TEXT: usize = 256;

/// What a status says beside its conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectStatus {
    pub(crate) observed_generation: i64,
    pub(crate) deployed_release: Option<DeployedRelease>,
    /// The revision that is deployed.
    pub(crate) revision: Option<u64>,
    pub(crate) chart: Option<String>,
    pub(crate) version: Option<String>,
    /// Digest of the chart, the values and the capabilities that it was rendered from.
    pub(crate) digest: Option<String>,
    pub(crate) chart_digest: Option<String>,
    /// The pull secret that the ServiceAccount `default` has for the object.
    pub(crate) pull_secret: Option<String>,
    /// When a certificate in it has to be renewed, in seconds since 1970.
    pub(crate) renew_at: Option<i64>,
    pub(crate) failed_attempt: Option<FailedAttempt>,
    pub(crate) not_ready: Option<Vec<String>>,
    #[serde(skip_serializing)]
    pub(crate) conditions: Vec<Value>,
}

/// The release, as operator-sdk's status names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DeployedRelease {
    pub(crate) name: String,
}

/// The state of an object, as its conditions show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectState<'s> {
    /// A pass runs, or waits for something that ends by itself.
    Progressing(&'s str),
    /// Deployed. `notes`: those of the chart, if they are known.
    Deployed { notes: Option<&'s str>, ready: bool },
    /// It stays at the chart that it has.
    WaitsForRollout(&'s str),
    /// A step failed.
    Failed { step: Step, text: &'s str, stalled: Option<&'static str> },
    /// The chart of the kind cannot be fetched: what is deployed stays. `ready`: that is what the object asks for, and is ready.
    ChartMissing { text: &'s str, ready: bool },
    /// Nothing is done.
    Paused(&'s str),
    /// Uninstalled, and waiting until its objects are gone.
    Uninstalling,
}

/// A step of a pass, with the condition and the reason of its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Client,
    Rights,
    Values,
    PullSecret,
    ReleaseState,
    Reconcile,
    Install,
    Upgrade,
    Uninstall,
}

impl Step {
    /// The condition that is true where it failed, and its reason.
    fn failure(self) -> (&'static str, &'static str) {
        match self {
            Self::Client => (IRRECONCILABLE, "ErrorGettingClient"),
            Self::Rights => (IRRECONCILABLE, "MissingRights"),
            Self::Values => (IRRECONCILABLE, "ErrorGettingValues"),
            Self::PullSecret => (IRRECONCILABLE, "PullSecretUnavailable"),
            Self::ReleaseState => (IRRECONCILABLE, "ErrorGettingReleaseState"),
            Self::Reconcile => (IRRECONCILABLE, "ReconcileError"),
            Self::Install => (RELEASE_FAILED, "InstallError"),
            Self::Upgrade => (RELEASE_FAILED, "UpgradeError"),
            Self::Uninstall => (RELEASE_FAILED, "UninstallError"),
        }
    }

    /// Whether a failure in it leaves the release as it was.
    pub(crate) fn precedes_release(self) -> bool {
        matches!(self, Self::Client | Self::Rights | Self::Values | Self::PullSecret | Self::ReleaseState)
    }

    /// The reason of its failure.
    pub(crate) fn reason(self) -> &'static str {
        self.failure().1
    }
}

/// Reason of objects whose chart cannot be fetched.
pub(crate) const CHART_UNAVAILABLE: &str = "ChartUnavailable";
const READY: &str = "Ready";
const STALLED: &str = "Stalled";
const INITIALIZED: &str = "Initialized";
const DEPLOYED: &str = "Deployed";
const RELEASE_FAILED: &str = "ReleaseFailed";
const IRRECONCILABLE: &str = "Irreconcilable";
const PAUSED: &str = "Paused";

impl ObjectStatus {
    fn condition(&self, name: &str) -> Option<&Value> {
        self.conditions.iter().find(|condition| condition["type"] == name)
    }

    /// Whether the condition Ready holds.
    pub(crate) fn is_ready(&self) -> bool {
        self.condition(READY).is_some_and(|ready| ready["status"] == "True")
    }

    /// Whether a failure is shown that only a change ends.
    pub(crate) fn is_stalled(&self) -> bool {
        self.condition(STALLED).is_some_and(|stalled| stalled["status"] == "True")
    }

    /// What a rollout has to know of the object. One that was ready before its last change counts as ready: a change of many objects
    /// together with the chart is no way past the rollout.
    pub(crate) fn candidate(&self) -> RolloutCandidate<'_> {
        let current = self.chart_digest.as_deref().unwrap_or_default();
        RolloutCandidate { current, is_ready: self.is_ready() }
    }

    /// Notes objects that are not ready.
    pub(crate) fn note_unready(&mut self, unready: &[Unready]) {
        let line = |one: &Unready| {
            let text = redact::mask(&format!("{}: {}", one.object, one.message)).into_owned();
            text.chars().take(MAX_TEXT).collect::<String>()
        };
        let mut lines: Vec<String> = unready.iter().take(MAX_UNREADY).map(line).collect();
        if let Some(more) = unready.len().checked_sub(MAX_UNREADY).filter(|more| *more > 0) {
            lines.push(format!("and {more} more"));
        }
        self.not_ready = (!lines.is_empty()).then_some(lines);
    }

    /// The whole status in a state, where it was `before`. `generation`: that of the object.
    pub(crate) fn in_state(&self, before: &Value, generation: i64, state: ObjectState<'_>) -> Value {
        let mut status = json!(Self { observed_generation: generation, ..self.clone() });
        if !before["deployedRelease"]["manifest"].is_null() && self.deployed_release.is_some() {
            // operator-sdk's status has it.
            status["deployedRelease"]["manifest"] = Value::Null;
        }
        let (conditions, removed) = self.conditions_of(state);
        let list = set_conditions(&before["conditions"], &conditions, Some(generation), &api_now());
        let kept = |condition: &&Value| !removed.iter().any(|name| condition["type"] == *name);
        status["conditions"] = list.as_array().into_iter().flatten().filter(kept).cloned().collect();
        status
    }

    /// The conditions of a state, and those that it does not have.
    fn conditions_of(&self, state: ObjectState<'_>) -> (Vec<Condition>, &'static [&'static str]) {
        let of = |condition_type, status, reason, message: &str| Condition {
            condition_type,
            status,
            reason,
            message: message.to_owned(),
        };
        let mut conditions = vec![of(INITIALIZED, Some(true), "Initialized", "")];
        let removed: &[&str] = match state {
            ObjectState::Progressing(text) => {
                if !self.is_ready() {
                    conditions.push(of(READY, None, "Progressing", text));
                }
                &[PAUSED]
            }
            ObjectState::Deployed { notes, ready } => {
                let reason = if self.revision.is_some_and(|revision| revision > 1) {
                    "UpgradeSuccessful"
                } else {
                    "InstallSuccessful"
                };
                if notes.is_some() || self.condition(DEPLOYED).is_none_or(|known| known["status"] != "True") {
                    conditions.push(of(DEPLOYED, Some(true), reason, notes.unwrap_or_default()));
                }
                conditions.push(match &self.not_ready {
                    None if ready => of(READY, Some(true), "Ready", "all objects of the release are ready"),
                    unready => {
                        let lines = unready.as_deref().unwrap_or_default().join("; ");
                        of(READY, Some(false), "NotReady", &lines)
                    }
                });
                &[RELEASE_FAILED, IRRECONCILABLE, STALLED, PAUSED]
            }
            ObjectState::WaitsForRollout(text) => {
                conditions.push(of(READY, Some(false), "WaitsForRollout", text));
                &[RELEASE_FAILED, IRRECONCILABLE, STALLED, PAUSED]
            }
            ObjectState::Failed { step, text, stalled } => {
                let (condition, reason) = step.failure();
                conditions.push(of(condition, Some(true), reason, text));
                conditions.push(of(READY, Some(false), reason, text));
                if let Some(why) = stalled {
                    conditions.push(of(STALLED, Some(true), why, text));
                }
                match (stalled.is_some(), condition == RELEASE_FAILED) {
                    (true, true) => &[IRRECONCILABLE, PAUSED],
                    (true, false) => &[RELEASE_FAILED, PAUSED],
                    (false, true) => &[IRRECONCILABLE, STALLED, PAUSED],
                    (false, false) => &[RELEASE_FAILED, STALLED, PAUSED],
                }
            }
            ObjectState::ChartMissing { text, ready } => {
                conditions.push(of(IRRECONCILABLE, Some(true), CHART_UNAVAILABLE, text));
                if !ready {
                    conditions.push(of(READY, Some(false), CHART_UNAVAILABLE, text));
                }
                &[STALLED, PAUSED]
            }
            ObjectState::Paused(why) => {
                conditions.push(of(PAUSED, Some(true), "Suspended", why));
                &[]
            }
            ObjectState::Uninstalling => {
                let text = "uninstalled; its objects are still being deleted";
                conditions.push(of(DEPLOYED, Some(false), "UninstallSuccessful", text));
                conditions.push(of(READY, Some(false), "UninstallSuccessful", text));
                &[RELEASE_FAILED, IRRECONCILABLE, STALLED, PAUSED]
            }
        };
        (conditions, removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_cluster::{Gvk, ObjectRef};

    fn shown(status: &Value) -> Vec<String> {
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let all = status["conditions"].as_array().unwrap().iter();
        let mut all: Vec<String> = all
            .map(|one| format!("{} {} {}", text(one, "type"), text(one, "status"), text(one, "reason")))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn conditions_are_operator_sdks() {
        let mut before = Value::Null;
        let revised = |revision| ObjectStatus { revision: Some(revision), ..ObjectStatus::default() };
        let deployed = ObjectState::Deployed { notes: Some("hello"), ready: true };
        let failed = |step, stalled| ObjectState::Failed { step, text: "refused", stalled };
        for (revision, state, expected) in [
            (
                0,
                ObjectState::Progressing("deploys"),
                &["Initialized True Initialized", "Ready Unknown Progressing"][..],
            ),
            (
                1,
                deployed,
                &["Deployed True InstallSuccessful", "Initialized True Initialized", "Ready True Ready"],
            ),
            (
                1,
                failed(Step::Upgrade, None),
                &[
                    "Deployed True InstallSuccessful",
                    "Initialized True Initialized",
                    "Ready False UpgradeError",
                    "ReleaseFailed True UpgradeError",
                ],
            ),
            (
                1,
                failed(Step::Values, Some("ErrorGettingValues")),
                &[
                    "Deployed True InstallSuccessful",
                    "Initialized True Initialized",
                    "Irreconcilable True ErrorGettingValues",
                    "Ready False ErrorGettingValues",
                    "Stalled True ErrorGettingValues",
                ],
            ),
            (
                1,
                failed(Step::Client, None),
                &[
                    "Deployed True InstallSuccessful",
                    "Initialized True Initialized",
                    "Irreconcilable True ErrorGettingClient",
                    "Ready False ErrorGettingClient",
                ],
            ),
            (
                2,
                deployed,
                &["Deployed True UpgradeSuccessful", "Initialized True Initialized", "Ready True Ready"],
            ),
            (
                2,
                ObjectState::Paused("windlass.dev/suspend"),
                &[
                    "Deployed True UpgradeSuccessful",
                    "Initialized True Initialized",
                    "Paused True Suspended",
                    "Ready True Ready",
                ],
            ),
            (
                2,
                ObjectState::ChartMissing { text: "no server", ready: true },
                &[
                    "Deployed True UpgradeSuccessful",
                    "Initialized True Initialized",
                    "Irreconcilable True ChartUnavailable",
                    "Ready True Ready",
                ],
            ),
            (
                2,
                ObjectState::ChartMissing { text: "no server", ready: false },
                &[
                    "Deployed True UpgradeSuccessful",
                    "Initialized True Initialized",
                    "Irreconcilable True ChartUnavailable",
                    "Ready False ChartUnavailable",
                ],
            ),
            (
                2,
                ObjectState::Uninstalling,
                &[
                    "Deployed False UninstallSuccessful",
                    "Initialized True Initialized",
                    "Ready False UninstallSuccessful",
                ],
            ),
        ] {
            let status: ObjectStatus = serde_json::from_value(before.clone()).unwrap_or_default();
            let status = ObjectStatus { revision: revised(revision).revision, ..status };
            before = status.in_state(&before, 3, state);
            assert_eq!(shown(&before), expected, "{state:?}");
            assert_eq!(before["observedGeneration"], 3);
        }
        let message =
            before["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Initialized");
        assert!(message.is_some());
    }

    #[test]
    fn the_manifest_goes_and_fields_are_removed_by_null() {
        let before = json!({"deployedRelease": {"name": "web", "manifest": "---"}, "digest": "x"});
        let status: ObjectStatus = serde_json::from_value(before.clone()).unwrap();
        assert_eq!(status.digest.as_deref(), Some("x"));
        let made = status.in_state(&before, 1, ObjectState::Progressing("deploys"));
        assert_eq!(made["deployedRelease"], json!({"name": "web", "manifest": null}));
        assert!(made.as_object().unwrap().contains_key("failedAttempt") && made["failedAttempt"].is_null());
    }

    #[test]
    fn a_status_names_some_objects_that_are_not_ready() {
        let mut status = ObjectStatus::default();
        let unready = |name: usize| Unready {
            object: ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("shop"), &format!("web{name}")),
            failed: false,
            message: "x".repeat(1000),
        };
        let all: Vec<Unready> = (0..25).map(unready).collect();
        status.note_unready(&all);
        let lines = status.not_ready.clone().unwrap();
        assert_eq!((lines.len(), lines[10].as_str()), (11, "and 15 more"));
        assert!(lines.iter().all(|line| line.chars().count() <= MAX_TEXT));
        let made = status.in_state(&Value::Null, 1, ObjectState::Deployed { notes: None, ready: false });
        assert!(shown(&made).contains(&"Ready False NotReady".to_owned()));
        status.note_unready(&[]);
        assert_eq!(status.not_ready, None);
    }
}
