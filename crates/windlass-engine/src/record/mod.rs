//! Helm's release records: their fields, their encoding and the objects that store them.
//!
//! The JSON is Helm's, so that Helm reads our records and we read those of Helm 3 and 4. Our own data
//! (`RecordExtension`) is stored beside it, in a key that Helm ignores.

mod encode;
mod prune;
mod record_store;
pub(crate) mod recorded_manifests;

pub use encode::{decode_secret, encode_secret, secret_name, split_manifest};
pub use prune::{Revision, to_prune};
pub use record_store::{Horizon, RecordHead, RecordStore, Storage, StoredRecord};
pub(crate) use record_store::{RecordRooms, is_relevant};

use crate::{
    objects::ownership,
    request::{ChartHook, HookDeletePolicy, HookEvent, HookOutputLogPolicy},
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt};
use windlass_cluster::{ClusterError, Gvk, ObjectMeta, ObjectRef};

/// Label of the record with the operator that owns the release.
pub const OWNER_LABEL: &str = "windlass.dev/owner";
/// Labels that Helm sets itself.
pub(crate) const SYSTEM_LABELS: [&str; 6] = ["name", "owner", "status", "version", "createdAt", "modifiedAt"];

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("release record {name}: {reason}")]
    Decode { name: String, reason: String },
    #[error("release record {name}: manifest: {reason}")]
    Manifest { name: String, reason: String },
    #[error("release record {0} already exists")]
    Exists(String),
    #[error("release record {0} was changed by someone else")]
    Changed(String),
    #[error("release record {name} is too large: {bytes} bytes")]
    TooLarge { name: String, bytes: usize },
    #[error(
        "release record {name}: it takes more than {bytes} bytes, alone or with the records of its release that are read before it: \
         give the process more memory, or delete records that failed"
    )]
    TooManyBytes { name: String, bytes: u64 },
    #[error("release record {0}: parts of its manifest are missing")]
    Parts(String),
    #[error("records in memory are for reading only: nothing is installed, changed or deleted with them")]
    ReadOnly,
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl RecordError {
    /// Whether what is stored cannot be decoded, or is not whole.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, Self::Decode { .. } | Self::Manifest { .. } | Self::Parts(_))
    }
}

/// Status of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseStatus {
    Deployed,
    Uninstalled,
    Superseded,
    Failed,
    Uninstalling,
    PendingInstall,
    PendingUpgrade,
    PendingRollback,
    #[default]
    #[serde(other)]
    Unknown,
}

impl ReleaseStatus {
    pub fn is_pending(self) -> bool {
        matches!(self, Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Deployed => "deployed",
            Self::Uninstalled => "uninstalled",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
            Self::Uninstalling => "uninstalling",
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
        }
    }

    /// The status with this name.
    pub fn named(name: &str) -> Self {
        let all = [
            Self::Deployed,
            Self::Uninstalled,
            Self::Superseded,
            Self::Failed,
            Self::Uninstalling,
            Self::PendingInstall,
            Self::PendingUpgrade,
            Self::PendingRollback,
        ];
        all.into_iter().find(|s| s.as_str() == name).unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for ReleaseStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A revision of a release, as Helm stores it. Unknown fields are preserved.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    pub name: String,
    pub info: Info,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub chart: Value,
    #[serde(skip_serializing_if = "is_empty")]
    pub config: Value,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub hooks: Vec<RecordedHook>,
    #[serde(skip_serializing_if = "is_zero")]
    pub version: u64,
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub apply_method: String,
    /// Labels of the Secret that are not Helm's own.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
    /// Helm's own labels of the Secret, as read.
    #[serde(skip)]
    pub system: BTreeMap<String, String>,
    /// Our own data.
    #[serde(skip)]
    pub extension: RecordExtension,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Times and state. Times are RFC 3339 text; none is empty (Helm 3) or missing (Helm 4).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub first_deployed: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub last_deployed: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub deleted: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub status: ReleaseStatus,
    #[serde(skip_serializing_if = "is_zero")]
    pub rollback_revision: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A hook and its last run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedHook {
    pub name: String,
    pub kind: String,
    pub path: String,
    pub manifest: String,
    #[serde(deserialize_with = "known")]
    pub events: Vec<HookEvent>,
    pub last_run: HookRun,
    #[serde(skip_serializing_if = "is_zero_weight")]
    pub weight: i64,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "known")]
    pub delete_policies: Vec<HookDeletePolicy>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "known")]
    pub output_log_policies: Vec<HookOutputLogPolicy>,
    /// UID of the object that the current run created; not recorded.
    #[serde(skip)]
    pub created_uid: String,
}

/// When a hook last ran and how it ended: `phase` is "", Unknown, Running, Succeeded or Failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookRun {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub started_at: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub completed_at: String,
    pub phase: String,
}

/// Our data on a revision, beside Helm's record; lost when Helm rewrites the Secret. No operation needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordExtension {
    /// Hash of the fields that we applied, for each object, by its key as text.
    pub applied: BTreeMap<String, u64>,
    /// The process that works, or worked, on this revision.
    pub holder: String,
    /// Digest of the CRDs of the revision.
    pub crds: String,
    /// Events whose hooks all succeeded in this revision: they are not run again when it is resumed.
    pub hooks_done: Vec<HookEvent>,
    /// Keys of objects with fields that were left to their owners: applied again each time, as the policy may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// The cause of this revision, in the requester's words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// No revision up to this one was ever deployed when its uninstall began: the name is free for another install.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undeployed: bool,
    /// The API server forbade each write of this revision: nothing of it is in the cluster.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// ConfigMaps and Secrets that left the manifest and stay as long as workloads refer to them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retained: Vec<RetainedConfig>,
    /// ConfigMaps and Secrets that leave the manifest stay as long as workloads refer to them: a rollback does the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retains: bool,
    /// Superseded revisions whose objects may still be in the cluster: those that failed rollbacks were to replace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub displaced: Vec<u64>,
    /// Number of the parts of a record that is too large for one object. The manifest's stub names it, since Helm
    /// drops the rest of this.
    #[serde(skip)]
    pub parts: usize,
    /// Digest of all parts.
    #[serde(skip)]
    pub parts_digest: String,
    /// Name of the record whose parts they are.
    #[serde(skip)]
    pub parts_of: String,
}

/// A ConfigMap or Secret that left the manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetainedConfig {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl From<&ObjectRef> for RetainedConfig {
    fn from(object: &ObjectRef) -> Self {
        Self {
            kind: object.gvk.kind.clone(),
            namespace: object.namespace.clone().unwrap_or_default(),
            name: object.name.clone(),
        }
    }
}

impl RetainedConfig {
    pub(crate) fn object(&self) -> ObjectRef {
        ObjectRef::new(Gvk::new("v1", &self.kind), Some(&self.namespace), &self.name)
    }
}

impl From<&ChartHook> for RecordedHook {
    fn from(hook: &ChartHook) -> Self {
        Self {
            name: hook.name.clone(),
            kind: hook.kind.clone(),
            path: hook.path.clone(),
            manifest: hook.text.clone(),
            events: hook.events.clone(),
            last_run: HookRun::default(),
            weight: hook.weight,
            delete_policies: hook.delete_policies.clone(),
            output_log_policies: hook.output_log_policies.clone(),
            created_uid: String::new(),
        }
    }
}

impl Record {
    /// The operator that owns the release.
    pub fn owner(&self) -> Option<&str> {
        self.labels.get(OWNER_LABEL).map(String::as_str)
    }

    /// The metadata of the chart, as `Chart.yaml` has it; null if the record has none.
    pub fn chart_metadata(&self) -> &Value {
        &self.chart["metadata"]
    }

    /// A text of the chart's metadata, such as `name`; empty without one.
    pub fn chart_text(&self, field: &str) -> &str {
        self.chart_metadata()[field].as_str().unwrap_or_default()
    }

    /// Resource policy in a stored manifest: whether the object is kept.
    pub fn keeps(object: &Value) -> bool {
        ownership::is_kept(ObjectMeta::of(object).annotation("helm.sh/resource-policy"))
    }
}

/// The time now, as Go prints it in JSON: with the offset of the local zone.
pub fn now() -> String {
    in_json(&jiff::Zoned::now())
}

fn in_json(time: &jiff::Zoned) -> String {
    match time.offset().seconds() {
        0 => time.timestamp().to_string(),
        _ => time.strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string(),
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_zero_weight(number: &i64) -> bool {
    *number == 0
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

/// Reads null as the default.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A list without unknown entries.
fn known<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    let all = Option::<Vec<Value>>::deserialize(from)?.unwrap_or_default();
    Ok(all.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect())
}
