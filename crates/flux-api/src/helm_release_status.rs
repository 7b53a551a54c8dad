//! `HelmRelease`, `helm.toolkit.fluxcd.io/v2`: the status.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::common::{StatusCondition, integer, is_default};

/// How far a HelmRelease is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmReleaseStatus {
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: Option<i64>,
    /// The value of the annotation `reconcile.fluxcd.io/requestedAt` that was handled last.
    #[serde(skip_serializing_if = "is_default")]
    pub last_handled_reconcile_at: String,
    /// The value of the annotation `reconcile.fluxcd.io/forceAt` that was handled last.
    #[serde(skip_serializing_if = "is_default")]
    pub last_handled_force_at: String,
    /// The value of the annotation `reconcile.fluxcd.io/resetAt` that was handled last.
    #[serde(skip_serializing_if = "is_default")]
    pub last_handled_reset_at: String,
    /// Conditions of the HelmRelease.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<StatusCondition>,
    /// `NAMESPACE/NAME` of the HelmChart.
    #[serde(skip_serializing_if = "is_default")]
    pub helm_chart: String,
    /// Namespace of the release's records.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 63))]
    pub storage_namespace: String,
    /// Revisions of the release, newest first.
    #[serde(skip_serializing_if = "is_default")]
    pub history: Vec<Snapshot>,
    /// The objects of the release.
    #[serde(skip_serializing_if = "is_default")]
    pub inventory: Option<Inventory>,
    /// The `metadata.generation` of the last attempt.
    #[serde(skip_serializing_if = "is_default")]
    pub last_attempted_generation: i64,
    /// Version of the chart of the last attempt, with a part of its digest if it is of an OCIRepository.
    #[serde(skip_serializing_if = "is_default")]
    pub last_attempted_revision: String,
    /// Digest of the chart of the last attempt, if it is of an OCIRepository.
    #[serde(skip_serializing_if = "is_default")]
    pub last_attempted_revision_digest: String,
    /// Digest of the values of the last attempt.
    #[serde(skip_serializing_if = "is_default")]
    pub last_attempted_config_digest: String,
    /// What the last attempt was: `install` or `upgrade`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["install", "upgrade"]))]
    pub last_attempted_release_action: String,
    /// How long the last attempt took.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "String")]
    pub last_attempted_release_action_duration: Option<GoDuration>,
    /// Failures since the last success, or since what is asked for changed.
    #[serde(skip_serializing_if = "is_default")]
    pub failures: i64,
    /// Failed installs among them.
    #[serde(skip_serializing_if = "is_default")]
    pub install_failures: i64,
    /// Failed upgrades among them.
    #[serde(skip_serializing_if = "is_default")]
    pub upgrade_failures: i64,
    /// Digest of the post-renderers of the last success.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_post_renderers_digest: String,
    /// Digest of the common metadata of the last success.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_common_metadata_digest: String,
    /// Deprecated: use `lastAttemptedConfigDigest`. It is removed when the status is written.
    #[serde(skip_deserializing, skip_serializing_if = "is_default")]
    pub last_attempted_values_checksum: String,
    /// Deprecated: use `history`. It is removed when the status is written.
    #[serde(skip_deserializing, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "integer")]
    pub last_release_revision: i64,
}

/// A revision as it was observed in its record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    /// Version of this form. Others have digests that cannot be checked.
    #[serde(skip_serializing_if = "is_default")]
    pub api_version: String,
    /// Digest of the record.
    pub digest: String,
    /// Name of the release.
    pub name: String,
    /// Namespace of the release.
    pub namespace: String,
    /// Number of the revision.
    #[schemars(schema_with = "integer")]
    pub version: u64,
    /// Status of the revision.
    pub status: String,
    /// What made the revision: `install`, `upgrade`, `rollback`, `uninstall` or `uninstall-remediation`.
    #[serde(skip_serializing_if = "is_default")]
    pub action: String,
    /// Name of the chart.
    pub chart_name: String,
    /// Version of the chart.
    pub chart_version: String,
    /// Version of the application, as the chart tells it.
    #[serde(skip_serializing_if = "is_default")]
    pub app_version: String,
    /// Digest of the values.
    pub config_digest: String,
    /// When the release was installed.
    #[schemars(extend("format" = "date-time"))]
    pub first_deployed: String,
    /// When the revision was made.
    #[schemars(extend("format" = "date-time"))]
    pub last_deployed: String,
    /// When the release was uninstalled.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("format" = "date-time"))]
    pub deleted: String,
    /// The chart's tests by name. Absent: never tested.
    #[serde(skip_serializing_if = "is_default")]
    pub test_hooks: Option<BTreeMap<String, TestHook>>,
    /// Digest of the chart, if it is of an OCIRepository.
    #[serde(skip_serializing_if = "is_default")]
    pub oci_digest: String,
}

impl Snapshot {
    /// `NAMESPACE/NAME.vREVISION`.
    #[must_use]
    pub fn release(&self) -> String {
        format!("{}/{}.v{}", self.namespace, self.name, self.version)
    }

    /// `NAME@VERSION` of its chart.
    #[must_use]
    pub fn chart(&self) -> String {
        format!("{}@{}", self.chart_name, self.chart_version)
    }

    /// Whether a test has failed.
    #[must_use]
    pub fn has_failed_test(&self) -> bool {
        self.test_hooks.iter().flatten().any(|(_, run)| run.phase == "Failed")
    }

    /// Whether its tests were run, or it has none to run. After one that failed the others are not.
    #[must_use]
    pub fn was_tested(&self) -> bool {
        self.test_hooks.is_some()
    }

    /// Whether it was deployed, and its tests did not fail unless they are ignored.
    #[must_use]
    pub fn succeeded(&self, ignore_tests: bool) -> bool {
        matches!(self.status.as_str(), "deployed" | "superseded") && (ignore_tests || !self.has_failed_test())
    }
}

/// The last run of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TestHook {
    /// When it began.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("format" = "date-time"))]
    pub last_started: String,
    /// When it ended.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("format" = "date-time"))]
    pub last_completed: String,
    /// How it ended.
    #[serde(skip_serializing_if = "is_default")]
    pub phase: String,
}

/// The objects of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inventory {
    /// One entry an object.
    pub entries: Vec<InventoryEntry>,
}

/// An object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InventoryEntry {
    /// `NAMESPACE_NAME_GROUP_KIND` of the object.
    pub id: String,
    /// API version of the object.
    pub v: String,
}
