//! `ChartResource`, `windlass.dev/v1alpha1`: a kind whose objects are releases of a chart. Spec and status.

use api_types::{GoDuration, LabelSelector, openapi_schema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The schema of an object with any fields.
fn any_fields(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// What a ChartResource asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ChartResourceSpec {
    /// The chart of the kind's objects.
    pub chart: ChartLocation,
    /// Names of the kind. Those that are not set are made of the chart's name.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: KindNamesSpec,
    /// Values of the chart over those of objects; null removes.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "any_fields")]
    pub override_values: Map<String, Value>,
    /// The schema of the objects' spec.
    #[serde(skip_serializing_if = "is_default")]
    pub schema: SchemaSpec,
    /// Which objects of the kind are reconciled; all by default.
    #[serde(skip_serializing_if = "is_default")]
    pub selector: LabelSelector,
    /// ServiceAccount of an object's namespace whose rights its release is applied with.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// How objects name the Secret with which their images are pulled.
    #[serde(skip_serializing_if = "is_default")]
    pub pull_secrets: PullSecretsSpec,
    /// How often an object is reconciled if nothing changes; 1 minute by default.
    #[serde(skip_serializing_if = "is_default")]
    pub reconcile_period: Option<GoDuration>,
    /// How objects get another version of the chart.
    #[serde(skip_serializing_if = "is_default")]
    pub rollout: RolloutSpec,
    /// Stop reconciling the kind and its objects.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
}

/// Where a chart is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ChartLocation {
    /// `oci://HOST/PATH`, the URL of a package, `git+https://…`, the name of a chart in `repo`, or a path below the operator's `--charts-dir`.
    #[schemars(length(min = 1, max = 2048))]
    pub name: String,
    /// A version or a range of versions; the newest by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 255))]
    pub version: String,
    /// URL of a chart repository.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 2048))]
    pub repo: String,
    /// Secret with the login for the server of the chart: `username` and `password`, or `.dockerconfigjson`; `ca.crt`.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<SecretLocation>,
    /// How often a newer version is looked for; 10 minutes by default.
    #[serde(skip_serializing_if = "is_default")]
    pub interval: Option<GoDuration>,
}

/// A Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SecretLocation {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Names of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KindNamesSpec {
    /// The API group; `charts.windlass.dev` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub group: Option<String>,
    /// The version; `v1alpha1` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub version: Option<String>,
    /// The kind; the chart's name in UpperCamelCase by default.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: Option<String>,
    /// The resource; the plural of the kind by default.
    #[serde(skip_serializing_if = "is_default")]
    pub plural: Option<String>,
    /// Short names for kubectl.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 8))]
    pub short_names: Vec<String>,
}

/// The schema of objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SchemaSpec {
    /// Merged over the schema that the chart gives; null removes.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "any_fields")]
    pub overlay: Map<String, Value>,
}

/// Pull secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PullSecretsSpec {
    /// Path of the value that names an object's pull secret; `image.pullSecret` by default, where `schema.overlay` adds that field.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 256))]
    pub values_path: Option<String>,
}

/// A rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RolloutSpec {
    /// Objects that may be unavailable at a time; 1 by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_unavailable: Option<u32>,
}

/// How far a ChartResource is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ChartResourceStatus {
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Ready and Stalled.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "openapi_schema::condition_list")]
    pub conditions: Vec<Value>,
    /// The kind that is registered.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: Option<RegisteredNames>,
    /// Name of the chart.
    #[serde(skip_serializing_if = "is_default")]
    pub chart: String,
    /// Version of the chart.
    #[serde(skip_serializing_if = "is_default")]
    pub version: String,
    /// Digest of the chart.
    #[serde(skip_serializing_if = "is_default")]
    pub digest: String,
    /// Numbers of objects of the kind.
    #[serde(skip_serializing_if = "is_default")]
    pub objects: Option<ObjectNumbers>,
    /// The object whose failed upgrade keeps the chart from others of its namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub paused: Option<StoppedAt>,
    /// The object at which the rollout of the chart stopped.
    #[serde(skip_serializing_if = "is_default")]
    pub stopped: Option<StoppedAt>,
}

/// A registered kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RegisteredNames {
    /// Its API group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Its resource.
    pub plural: String,
}

/// Numbers of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectNumbers {
    /// All.
    pub total: usize,
    /// Those that are ready.
    pub ready: usize,
    /// Those whose retries have ended.
    pub failed: usize,
    /// Those that have the chart of the status.
    pub updated: usize,
}

/// Where a rollout stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StoppedAt {
    /// `NAMESPACE/NAME` of the object.
    pub object: String,
    /// Why its upgrade failed.
    pub message: String,
}
