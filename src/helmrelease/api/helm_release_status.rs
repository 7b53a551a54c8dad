//! `HelmRelease`, `helm.toolkit.fluxcd.io/v2`: the status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::duration::GoDuration;

/// How far a HelmRelease is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmReleaseStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reconcile_at: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_force_at: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_handled_reset_at: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<StatusCondition>,
    /// `NAMESPACE/NAME` of the HelmChart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub helm_chart: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_namespace: String,
    /// Newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Snapshot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    #[serde(skip_serializing_if = "is_zero")]
    pub last_attempted_generation: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_revision: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_revision_digest: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_config_digest: String,
    /// `install` or `upgrade`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_attempted_release_action: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_release_action_duration: Option<GoDuration>,
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub install_failures: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub upgrade_failures: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_post_renderers_digest: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observed_common_metadata_digest: String,
}

/// A condition, as Kubernetes' API conventions define it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusCondition {
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    pub last_transition_time: String,
    pub reason: String,
    pub message: String,
}

/// A revision as it was observed in its record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    pub digest: String,
    pub name: String,
    pub namespace: String,
    pub version: u64,
    pub status: String,
    /// `install`, `upgrade`, `rollback`, `uninstall` or `uninstall-remediation`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    pub chart_name: String,
    pub chart_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    pub config_digest: String,
    pub first_deployed: String,
    pub last_deployed: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deleted: String,
    /// `None`: never tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_hooks: Option<BTreeMap<String, TestHook>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub oci_digest: String,
}

/// The last run of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TestHook {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_started: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_completed: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

/// The objects of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    pub entries: Vec<InventoryEntry>,
}

/// An object: `NAMESPACE_NAME_GROUP_KIND` and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryEntry {
    pub id: String,
    pub v: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}
