//! The status of a source: its artifact and its conditions, and what they say after success and failure. Pure.
//!
//! The fields and conditions are source-controller's, for all kinds alike; what a kind observed of its spec is beside them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use flux_api::common::{SourceArtifact, StatusCondition};
use flux_api::status_conditions::{self as conditions, READY, RECONCILING, STALLED, Truth};

/// The source cannot be fetched.
pub(super) const FETCH_FAILED: &str = "FetchFailed";
/// A chart cannot be built from the source.
pub(super) const BUILD_FAILED: &str = "BuildFailed";
/// The artifact cannot be stored.
pub(super) const STORAGE_OPERATION_FAILED: &str = "StorageOperationFailed";
/// A GitRepository that is included has no artifact.
pub(super) const INCLUDE_UNAVAILABLE: &str = "IncludeUnavailable";
/// The signature of the source is valid, or not.
pub(super) const SOURCE_VERIFIED: &str = "SourceVerified";
const ARTIFACT_IN_STORAGE: &str = "ArtifactInStorage";
const ARTIFACT_OUTDATED: &str = "ArtifactOutdated";

/// Conditions that are there only while something fails.
const FAILURES: [&str; 5] =
    [FETCH_FAILED, BUILD_FAILED, STORAGE_OPERATION_FAILED, INCLUDE_UNAVAILABLE, ARTIFACT_OUTDATED];

/// Why a source has no new artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceError {
    /// Type of the condition that says so.
    pub(super) condition: &'static str,
    /// Its reason.
    pub(super) reason: &'static str,
    /// Its message. Secrets are masked when it is set.
    pub(super) text: String,
    /// Only a change of the object, or of what it refers to, can help.
    pub(super) stalls: bool,
    /// The source that it refers to is expected to become ready.
    pub(super) waits: bool,
}

impl SourceError {
    /// A failure that may pass.
    pub(super) fn new(condition: &'static str, reason: &'static str, text: impl Into<String>) -> Self {
        Self { condition, reason, text: text.into(), stalls: false, waits: false }
    }

    /// A failure to fetch.
    pub(super) fn fetch(reason: &'static str, text: impl Into<String>) -> Self {
        Self::new(FETCH_FAILED, reason, text)
    }

    /// A failure of the storage.
    pub(super) fn storage(reason: &'static str, error: &std::io::Error) -> Self {
        Self::new(STORAGE_OPERATION_FAILED, reason, format!("unable to save artifact to storage: {error}"))
    }

    /// The same failure, which lasts until something changes.
    pub(super) fn stalling(self) -> Self {
        Self { stalls: true, ..self }
    }
}

/// What a pass over a source ended with.
#[derive(Debug)]
pub(super) struct Fetched {
    /// The artifact, new or as before.
    pub(super) artifact: SourceArtifact,
    /// Reason of the condition ArtifactInStorage.
    pub(super) reason: &'static str,
    /// Its message.
    pub(super) message: String,
    /// Fields of the status beside those of all kinds; null removes one.
    pub(super) observed: Map<String, Value>,
    /// What was verified: the message of the condition SourceVerified. `None`: nothing had to be.
    pub(super) verified: Option<String>,
    /// Message of the Event, if the artifact is new.
    pub(super) note: String,
    /// File name of the address that always leads to the newest artifact.
    pub(super) latest: Option<&'static str>,
}

/// The status of a source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SourceStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) conditions: Vec<StatusCondition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) artifact: Option<SourceArtifact>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) last_handled_reconcile_at: String,
    /// What the kind observed of its spec.
    #[serde(flatten)]
    pub(super) observed: Map<String, Value>,
}

impl SourceStatus {
    /// Reads a status; what cannot be read is written anew.
    pub(super) fn read(status: &Value) -> Self {
        serde_json::from_value(status.clone()).unwrap_or_default()
    }

    pub(super) fn get(&self, condition: &str) -> Option<&StatusCondition> {
        conditions::get(&self.conditions, condition)
    }

    fn set(&mut self, kind: &str, truth: Truth, said: (&str, &str), generation: i64) {
        crate::condition_setter::set(&mut self.conditions, kind, truth, said, generation);
    }

    fn delete(&mut self, kind: &str) {
        conditions::delete(&mut self.conditions, kind);
    }

    /// A new generation is being reconciled, or there is no artifact yet.
    pub(super) fn progressing(&mut self, generation: i64) {
        let text = match self.observed_generation {
            Some(before) if before != generation && before > 0 => {
                format!("processing object: new generation {before} -> {generation}")
            }
            _ => "building artifact".to_owned(),
        };
        self.set(RECONCILING, Truth::True, ("Progressing", &text), generation);
        self.set(READY, Truth::Unknown, ("Progressing", &text), generation);
    }

    /// The artifact is as the spec wants it. Returns whether the artifact is new, and whether a failure is over.
    pub(super) fn succeeded(&mut self, fetched: &Fetched, generation: i64) -> (bool, bool) {
        let new = self.artifact.as_ref().is_none_or(|before| before.digest != fetched.artifact.digest);
        let recovered = FAILURES.iter().any(|kind| self.get(kind).is_some());
        self.artifact = Some(fetched.artifact.clone());
        for (key, value) in &fetched.observed {
            if value.is_null() {
                self.observed.remove(key);
            } else {
                self.observed.insert(key.clone(), value.clone());
            }
        }
        for kind in FAILURES {
            self.delete(kind);
        }
        self.delete(RECONCILING);
        self.delete(STALLED);
        match &fetched.verified {
            Some(text) => self.set(SOURCE_VERIFIED, Truth::True, ("Succeeded", text), generation),
            None => self.delete(SOURCE_VERIFIED),
        }
        let (reason, message) = (fetched.reason, fetched.message.as_str());
        self.set(ARTIFACT_IN_STORAGE, Truth::True, (reason, message), generation);
        self.set(READY, Truth::True, (reason, message), generation);
        self.observed_generation = Some(generation);
        (new, recovered)
    }

    /// The source has failed; the former artifact stays.
    pub(super) fn failed(&mut self, error: &SourceError, generation: i64) {
        let said = (error.reason, error.text.as_str());
        let truth = if error.condition == SOURCE_VERIFIED { Truth::False } else { Truth::True };
        for kind in [FETCH_FAILED, BUILD_FAILED, STORAGE_OPERATION_FAILED, INCLUDE_UNAVAILABLE] {
            if kind != error.condition {
                self.delete(kind);
            }
        }
        if self.artifact.is_none() {
            self.delete(ARTIFACT_IN_STORAGE);
        }
        self.set(error.condition, truth, said, generation);
        self.set(READY, Truth::False, said, generation);
        if error.stalls {
            self.set(STALLED, Truth::True, said, generation);
            self.observed_generation = Some(generation);
        } else {
            self.set(RECONCILING, Truth::True, ("ProgressingWithRetry", &error.text), generation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fetched(digest: &str) -> Fetched {
        Fetched {
            artifact: SourceArtifact { digest: digest.to_owned(), ..SourceArtifact::default() },
            reason: "Succeeded",
            message: "stored artifact".to_owned(),
            observed: Map::from_iter([("observedIgnore".to_owned(), json!("x"))]),
            verified: None,
            note: String::new(),
            latest: None,
        }
    }

    fn words(status: &SourceStatus) -> Vec<String> {
        status.conditions.iter().map(|c| format!("{} {} {}", c.condition_type, c.status, c.reason)).collect()
    }

    #[test]
    fn conditions_follow_success_and_failure() {
        let mut status = SourceStatus::default();
        status.progressing(1);
        assert_eq!(words(&status), ["Ready Unknown Progressing", "Reconciling True Progressing"]);
        assert_eq!(status.succeeded(&fetched("a"), 1), (true, false));
        assert_eq!(words(&status), ["Ready True Succeeded", "ArtifactInStorage True Succeeded"]);
        assert_eq!((status.observed_generation, &status.observed["observedIgnore"]), (Some(1), &json!("x")));

        status.failed(&SourceError::fetch("Failed", "no route"), 1);
        assert_eq!(
            words(&status),
            [
                "Ready False Failed",
                "ArtifactInStorage True Succeeded",
                "FetchFailed True Failed",
                "Reconciling True ProgressingWithRetry"
            ]
        );
        assert!(status.artifact.is_some(), "the last good artifact stays");
        assert_eq!(status.succeeded(&fetched("a"), 1), (false, true));

        let stalled = SourceError::fetch("URLInvalid", "no URL").stalling();
        status.failed(&stalled, 2);
        assert_eq!(status.observed_generation, Some(2));
        assert!(words(&status).contains(&"Stalled True URLInvalid".to_owned()));
        let unsigned = SourceError::new(SOURCE_VERIFIED, "VerificationError", "no signature");
        status.failed(&unsigned, 2);
        let all = words(&status);
        assert!(all.contains(&"SourceVerified False VerificationError".to_owned()));
        assert!(!all.iter().any(|c| c.starts_with("FetchFailed") || c.starts_with("Stalled")), "{all:?}");
    }
}
