//! Parts that several kinds share: references, conditions, artifacts, and how fields are checked.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Durations of operations that have no hours.
pub(super) const SHORT_DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$";

/// Go's `omitempty`: a field with its empty value is left away.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The schema of Go's `int`, which has no format.
pub(super) fn integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer"})
}

/// An object of a known kind in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalObjectReference {
    /// Name of the object.
    pub name: String,
}

/// A key of a Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretKeyReference {
    /// Name of the Secret.
    pub name: String,
    /// Key of its data. Who reads it has a default.
    #[serde(skip_serializing_if = "is_default")]
    pub key: String,
}

/// An object of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespacedObjectKindReference {
    /// API version of the object; by default the one that the API server prefers.
    #[serde(skip_serializing_if = "is_default")]
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object; by default the one of who refers to it.
    #[serde(skip_serializing_if = "is_default")]
    pub namespace: String,
}

/// Objects of one of Flux's kinds: one by its name, or several by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CrossNamespaceObjectReference {
    /// API version of the objects.
    #[serde(skip_serializing_if = "is_default")]
    pub api_version: String,
    /// Kind of the objects.
    #[schemars(extend("enum" = [
        "Bucket", "GitRepository", "Kustomization", "HelmRelease", "HelmChart", "HelmRepository", "ImageRepository",
        "ImagePolicy", "ImageUpdateAutomation", "OCIRepository", "ArtifactGenerator", "ExternalArtifact",
    ]))]
    pub kind: String,
    /// Name of the object; `*` for all of the namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the objects; by default the one of who refers to them.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 253))]
    pub namespace: String,
    /// Labels that the objects must have, all of them. They need `*` as the name.
    #[serde(skip_serializing_if = "is_default")]
    pub match_labels: BTreeMap<String, String>,
}

/// A condition, as Kubernetes' API conventions define it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusCondition {
    /// What is said of the object, in CamelCase; names outside of Kubernetes have a domain before them.
    #[serde(rename = "type")]
    #[schemars(length(max = 316), regex(pattern = CONDITION_TYPE))]
    pub condition_type: String,
    /// Whether it holds: `True`, `False` or `Unknown`.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// The `metadata.generation` that the condition is about. Older than the object's: the condition is out of date.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 0))]
    pub observed_generation: i64,
    /// When the condition changed last.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// Why it changed last, as a word for programs.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Details for people. May be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
}

/// A qualified name of Kubernetes.
const CONDITION_TYPE: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
);

/// What a source has fetched, as a file that can be downloaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceArtifact {
    /// Digest of the file: `ALGORITHM:CHECKSUM`.
    #[schemars(regex(pattern = r"^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$"))]
    pub digest: String,
    /// Path of the file below the root of the controller's storage.
    pub path: String,
    /// Address where the controller serves the file, over HTTP.
    pub url: String,
    /// Revision in the source's own terms: a commit, a tag, the version of a chart.
    pub revision: String,
    /// When the file was written last.
    #[schemars(extend("format" = "date-time"))]
    pub last_update_time: String,
    /// Size of the file in bytes.
    #[serde(skip_serializing_if = "is_default")]
    pub size: Option<i64>,
    /// What the source says of it, such as annotations of an OCI artifact.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: BTreeMap<String, String>,
}

/// Who must have signed an artifact without a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OidcIdentityMatch {
    /// Regular expression of Go that the issuer in the certificate matches.
    pub issuer: String,
    /// Regular expression of Go that the subject in the certificate matches.
    pub subject: String,
}

/// Conditions that say why a source has no new artifact, and the status that says so.
const FAILURES: [(&str, &str); 5] = [
    ("FetchFailed", "True"),
    ("BuildFailed", "True"),
    ("StorageOperationFailed", "True"),
    ("IncludeUnavailable", "True"),
    ("SourceVerified", "False"),
];

/// Why the present generation of a source has failed. `None` while it waits for another source, too. Its condition Ready does not say:
/// that is Unknown during each new try.
#[must_use]
pub fn failure_of(source: &serde_json::Value) -> Option<&str> {
    let is_failure = |condition: &&serde_json::Value| {
        condition["observedGeneration"] == source["metadata"]["generation"]
            && FAILURES
                .iter()
                .any(|(kind, status)| condition["type"] == *kind && condition["status"] == *status)
    };
    let failure = source["status"]["conditions"].as_array()?.iter().find(is_failure)?;
    let message = failure["message"].as_str().unwrap_or_default();
    // A HelmChart whose repository has failed says why after a colon; one that only waits for it does not.
    let waits = failure["reason"] == NO_SOURCE_ARTIFACT && message.ends_with('\'');
    (!waits).then_some(message)
}

/// What of [`failure_of`] is the same from try to try: texts quote ports and times.
#[must_use]
pub fn failure_state(source: &serde_json::Value) -> Option<String> {
    failure_of(source).map(|text| text.replace(|c: char| c.is_ascii_digit(), ""))
}

/// Reason of a source that is made of another source, which has no artifact.
pub const NO_SOURCE_ARTIFACT: &str = "NoSourceArtifact";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_source_that_is_tried_again_has_still_failed() {
        for (kind, status, reason, message, generation, expected) in [
            ("FetchFailed", "True", "Failed", "dial 127.0.0.1:80: refused", 2, Some("dial ...:: refused")),
            ("SourceVerified", "False", "VerificationError", "no signature", 2, Some("no signature")),
            ("SourceVerified", "True", "Succeeded", "verified", 2, None),
            ("FetchFailed", "True", "Failed", "of an older spec", 1, None),
            ("FetchFailed", "True", NO_SOURCE_ARTIFACT, "no artifact available for source 'web'", 2, None),
            (
                "FetchFailed",
                "True",
                NO_SOURCE_ARTIFACT,
                "no artifact for 'web': refused",
                2,
                Some("no artifact for 'web': refused"),
            ),
        ] {
            let source = json!({
                "metadata": {"generation": 2},
                "status": {"conditions": [
                    {"type": "Reconciling", "status": "True", "reason": "Progressing", "observedGeneration": 2},
                    {"type": "Ready", "status": "Unknown", "reason": "Progressing", "observedGeneration": 2},
                    {"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": generation},
                ]},
            });
            assert_eq!(failure_state(&source).as_deref(), expected, "{message}");
        }
        assert_eq!(failure_state(&json!({})), None);
    }
}
