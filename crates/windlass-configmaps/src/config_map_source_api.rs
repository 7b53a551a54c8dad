//! `ConfigMapSource`, `windlass.dev/v1alpha1`: ConfigMaps of the files of a source. Spec and status.

use std::collections::BTreeMap;

use api_types::{GoDuration, openapi_schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What a ConfigMapSource asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ConfigMapSourceSpec {
    /// The source whose files become ConfigMaps.
    pub source_ref: SourceReference,
    /// Directory of the files in the source; its root by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 1024))]
    pub path: String,
    /// Patterns of the files that are taken, in the syntax of a .gitignore file, from `path`; all files by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 100))]
    pub include: Vec<String>,
    /// Patterns of the files that are left out.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 100))]
    pub exclude: Vec<String>,
    /// Which ConfigMaps are made of the files.
    #[serde(skip_serializing_if = "is_default")]
    pub config_maps: ConfigMapsSpec,
    /// ServiceAccount of the object's namespace whose rights the ConfigMaps are applied with.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// How often the ConfigMaps are compared if nothing changes; 10 minutes by default. Changes of the source and of the ConfigMaps are
    /// handled at once.
    #[serde(skip_serializing_if = "is_default")]
    pub interval: Option<GoDuration>,
    /// Stop reconciling.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
}

/// A source of Flux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SourceReference {
    /// Its kind.
    #[schemars(extend("enum" = ["GitRepository", "OCIRepository", "Bucket"]))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace; that of the ConfigMapSource by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 63))]
    pub namespace: String,
}

/// Which files become a ConfigMap together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilesTogether {
    /// Those of a directory, without those of its directories.
    #[default]
    Directory,
    /// Each for itself.
    File,
    /// All.
    All,
}

/// The ConfigMaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ConfigMapsSpec {
    /// What becomes one ConfigMap: the files of a directory, a file, or all files; Directory by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "String", extend("enum" = ["Directory", "File", "All"]))]
    pub per: FilesTogether,
    /// Name of the ConfigMap of `path`, and what the names of the others begin with; the object's name by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 253))]
    pub name: String,
    /// Labels of all of them.
    #[serde(skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of all of them.
    #[serde(skip_serializing_if = "is_default")]
    pub annotations: BTreeMap<String, String>,
}

/// How far a ConfigMapSource is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMapSourceStatus {
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Ready, Reconciling and Stalled.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "openapi_schema::condition_list")]
    pub conditions: Vec<Value>,
    /// Name of the release that has the ConfigMaps, from before the first of them was applied.
    #[serde(skip_serializing_if = "is_default")]
    pub release: String,
    /// Revision of the source whose files were applied last.
    #[serde(skip_serializing_if = "is_default")]
    pub last_applied_revision: String,
    /// How many ConfigMaps there are.
    #[serde(skip_serializing_if = "is_default")]
    pub config_maps: usize,
}
