//! `ExternalArtifact`, `source.toolkit.fluxcd.io/v1`: an artifact that another controller has made.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{NamespacedObjectKindReference, SourceArtifact, StatusCondition, is_default};

/// Whose artifact it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalArtifactSpec {
    /// The object that the artifact is made of.
    #[serde(skip_serializing_if = "is_default")]
    pub source_ref: Option<NamespacedObjectKindReference>,
}

/// The artifact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalArtifactStatus {
    /// The artifact that was made last.
    #[serde(skip_serializing_if = "is_default")]
    pub artifact: Option<SourceArtifact>,
    /// Conditions of the artifact.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<StatusCondition>,
}
