//! `HelmChart`, `source.toolkit.fluxcd.io/v1`: one chart of a source, as a package.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::common::{LocalObjectReference, OidcIdentityMatch, SourceArtifact, StatusCondition, is_default};

/// Which chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.verify) || self.sourceRef.kind == 'HelmRepository'",
    "message": "verify needs a sourceRef of the kind HelmRepository",
}]))]
pub struct HelmChartSpec {
    /// Name of the chart in a HelmRepository, or its path in a GitRepository or Bucket.
    pub chart: String,
    /// Version or range of versions; `*` is the newest. Charts of a GitRepository or Bucket have the one of their files.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-default" = "*"))]
    pub version: String,
    /// The source that has the chart.
    pub source_ref: LocalChartSource,
    /// How often the source is looked at. Jitter may be added.
    pub interval: Option<GoDuration>,
    /// What makes a new package: `ChartVersion` is another version of the chart, `Revision` any other revision of the source.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["ChartVersion", "Revision"], "x-default" = "ChartVersion"))]
    pub reconcile_strategy: String,
    /// Files of values that take the place of the chart's `values.yaml`, with paths in the source. Later ones win. `values.yaml`
    /// itself counts only if it is named.
    #[serde(skip_serializing_if = "is_default")]
    pub values_files: Vec<String>,
    /// Pass over files of values that do not exist.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_missing_values_files: bool,
    /// Stop looking at the source.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// Signatures that the chart must have. Only for a HelmRepository of the type `oci`; dependencies that are not packed into the
    /// chart are not verified.
    #[serde(skip_serializing_if = "is_default")]
    pub verify: Option<HelmChartVerification>,
}

/// A source of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalChartSource {
    /// API version of the source.
    #[serde(skip_serializing_if = "is_default")]
    pub api_version: String,
    /// Kind of the source.
    #[schemars(extend("enum" = ["HelmRepository", "GitRepository", "Bucket"]))]
    pub kind: String,
    /// Name of the source.
    pub name: String,
}

/// Signatures of a chart in a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmChartVerification {
    /// Tool that signed it.
    #[schemars(extend("enum" = ["cosign", "notation"], "x-default" = "cosign"))]
    pub provider: String,
    /// Secret with the keys that are trusted.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<LocalObjectReference>,
    /// Who may have signed it with cosign and without a key; one that matches is enough.
    #[serde(rename = "matchOIDCIdentity", skip_serializing_if = "is_default")]
    pub match_oidc_identity: Vec<OidcIdentityMatch>,
}

/// Status of the chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmChartStatus {
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Revision of the source's artifact that was looked at last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_source_artifact_revision: String,
    /// Name of the chart as its `Chart.yaml` has it.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_chart_name: String,
    /// Files of values that the package was made with.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_values_files: Vec<String>,
    /// Conditions of the chart.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<StatusCondition>,
    /// Address of the newest package. `artifact.url` is the exact one.
    #[serde(skip_serializing_if = "is_default")]
    pub url: String,
    /// The package that was made last.
    #[serde(skip_serializing_if = "is_default")]
    pub artifact: Option<SourceArtifact>,
    /// The value of the annotation `reconcile.fluxcd.io/requestedAt` that was handled last.
    #[serde(skip_serializing_if = "is_default")]
    pub last_handled_reconcile_at: String,
}
