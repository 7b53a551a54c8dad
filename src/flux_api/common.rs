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

/// Why a source has failed: the message of its condition Ready if that is false. `None` while it waits for another source, too.
#[must_use]
pub fn failure_of(source: &serde_json::Value) -> Option<&str> {
    let conditions = source["status"]["conditions"].as_array()?;
    let ready =
        conditions.iter().find(|condition| condition["type"] == "Ready" && condition["status"] == "False")?;
    let message = ready["message"].as_str().unwrap_or_default();
    // A HelmChart whose repository has failed says why after a colon; one that only waits for it does not.
    let waits = ready["reason"] == NO_SOURCE_ARTIFACT && message.ends_with('\'');
    (!waits).then_some(message)
}

/// Reason of a source that is made of another source, which has no artifact.
pub const NO_SOURCE_ARTIFACT: &str = "NoSourceArtifact";
