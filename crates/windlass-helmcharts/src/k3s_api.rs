//! `HelmChart` and `HelmChartConfig`, `helm.cattle.io/v1`: specs and status.
//!
//! The fields are those of k3s' helm-controller. Those of its Job are accepted and have no effect.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use api_types::GoDuration;

/// API version of both kinds.
pub const API_VERSION: &str = "helm.cattle.io/v1";
/// The kind of charts.
pub const CHART_KIND: &str = "HelmChart";
/// The kind of what is configured beside a chart.
pub const CONFIG_KIND: &str = "HelmChartConfig";

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn any_fields(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn numbers_or_texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": true,
        },
    })
}

/// The name of an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LocalName {
    /// Its name.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
}

/// Keys of a Secret that hold values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ValuesSecret {
    /// Name of the Secret, in the object's namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// Its keys, in ascending precedence. Without any the Secret is not used.
    #[serde(skip_serializing_if = "is_default")]
    pub keys: Vec<String>,
    /// The Secret may be absent, and its changes trigger nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_updates: bool,
}

/// What a HelmChart asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "oldSelf.hasValue() ? (has(self.driver) ? self.driver : 'secret') == (has(oldSelf.value().driver) ? oldSelf.value().driver : 'secret') : true",
    "message": "driver is immutable",
    "optionalOldSelf": true,
}]))]
pub struct HelmChartSpec {
    /// Namespace of the release; that of the object by default.
    #[serde(skip_serializing_if = "is_default")]
    pub target_namespace: String,
    /// Create the namespace if it is absent.
    #[serde(skip_serializing_if = "is_default")]
    pub create_namespace: bool,
    /// Name of the chart in `repo`, its address (`oci://`, `https://`), or `stable/NAME`. `%{KUBERNETES_API}%` stands for host and port
    /// of the API server.
    #[serde(skip_serializing_if = "is_default")]
    pub chart: String,
    /// Version or range of the chart; the newest by default.
    #[serde(skip_serializing_if = "is_default")]
    pub version: String,
    /// URL of the chart's repository.
    #[serde(skip_serializing_if = "is_default")]
    pub repo: String,
    /// Certificates in PEM that the server's is checked against.
    #[serde(rename = "repoCA", skip_serializing_if = "is_default")]
    pub repo_ca: String,
    /// A ConfigMap whose values are certificates, beside `repoCA`.
    #[serde(rename = "repoCAConfigMap", skip_serializing_if = "is_default")]
    pub repo_ca_config_map: Option<LocalName>,
    /// Single values by their paths, over all others.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "numbers_or_texts")]
    pub set: BTreeMap<String, Value>,
    /// Values, over `valuesContent`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "any_fields")]
    pub values: Map<String, Value>,
    /// Values as the text of a YAML file.
    #[serde(skip_serializing_if = "is_default")]
    pub values_content: String,
    /// Values in Secrets, over `values`.
    #[serde(skip_serializing_if = "is_default")]
    pub values_secrets: Vec<ValuesSecret>,
    /// `v3`, or empty.
    #[serde(skip_serializing_if = "is_default")]
    pub helm_version: String,
    /// The cluster needs the chart before others: it is deployed first.
    #[serde(skip_serializing_if = "is_default")]
    pub bootstrap: bool,
    /// A packaged chart in base64, in place of `chart` and `version`.
    #[serde(skip_serializing_if = "is_default")]
    pub chart_content: String,
    /// No effect: there is no Job.
    #[serde(skip_serializing_if = "is_default")]
    pub job_image: String,
    /// Failed tries in a row after which condition Failed is true; 1000 by default. Tries go on.
    #[serde(skip_serializing_if = "is_default")]
    pub back_off_limit: Option<u32>,
    /// Time limit of each wait; 5 minutes by default.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: Option<GoDuration>,
    /// What happens to a release whose newest revision has failed: `retry` tries it again, `reinstall` as well and creates objects anew
    /// that cannot be changed, `abort` leaves it as it is; `reinstall` by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["reinstall", "abort", "retry"]))]
    pub failure_policy: String,
    /// Secret with `username` and `password`, or `tls.crt` and `tls.key`, for the repository.
    #[serde(skip_serializing_if = "is_default")]
    pub auth_secret: Option<LocalName>,
    /// The login goes to the servers that the repository names, too.
    #[serde(skip_serializing_if = "is_default")]
    pub auth_pass_credentials: bool,
    /// The server's certificate is not verified.
    #[serde(rename = "insecureSkipTLSVerify", skip_serializing_if = "is_default")]
    pub insecure_skip_tls_verify: bool,
    /// The registry has no TLS.
    #[serde(rename = "plainHTTP", skip_serializing_if = "is_default")]
    pub plain_http: bool,
    /// Secret of the type `kubernetes.io/dockerconfigjson` with logins of registries.
    #[serde(skip_serializing_if = "is_default")]
    pub docker_registry_secret: Option<LocalName>,
    /// No effect: there is no Pod.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "any_fields")]
    pub pod_security_context: Map<String, Value>,
    /// No effect: there is no container.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "any_fields")]
    pub security_context: Map<String, Value>,
    /// Take over objects that belong to other releases.
    #[serde(skip_serializing_if = "is_default")]
    pub take_ownership: bool,
    /// Take over fields of other field managers; true by default.
    #[serde(skip_serializing_if = "is_default")]
    pub force_conflicts: Option<bool>,
    /// Whether objects are applied by the server; `auto` by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["true", "false", "auto"]))]
    pub server_side: String,
    /// Where release records are: `secret` by default. It cannot be changed.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["secret", "configmap"]))]
    pub driver: String,
}

/// What is configured beside the HelmChart of the same name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmChartConfigSpec {
    /// Values, over `valuesContent`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "any_fields")]
    pub values: Map<String, Value>,
    /// Values as the text of a YAML file, over those of the HelmChart.
    #[serde(skip_serializing_if = "is_default")]
    pub values_content: String,
    /// Values in Secrets, over `values`.
    #[serde(skip_serializing_if = "is_default")]
    pub values_secrets: Vec<ValuesSecret>,
    /// In place of the HelmChart's.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["reinstall", "abort", "retry"]))]
    pub failure_policy: String,
    /// In place of the HelmChart's.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["true", "false", "auto"]))]
    pub server_side: String,
    /// In place of the HelmChart's.
    #[serde(skip_serializing_if = "is_default")]
    pub force_conflicts: Option<bool>,
}

/// How far a HelmChart is. k3s' own definition has `jobName` and `conditions` without times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmChartStatus {
    /// Never set: there is no Job.
    #[serde(skip_serializing_if = "is_default")]
    pub job_name: String,
    /// JobCreated, Failed and Ready.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<HelmChartCondition>,
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// The deployed revision.
    #[serde(skip_serializing_if = "is_default")]
    pub revision: u64,
    /// Version of the deployed chart.
    #[serde(skip_serializing_if = "is_default")]
    pub chart_version: String,
}

/// A condition of a HelmChart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmChartCondition {
    /// Its name.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word that says why.
    #[serde(skip_serializing_if = "is_default")]
    pub reason: String,
    /// The same for people.
    #[serde(skip_serializing_if = "is_default")]
    pub message: String,
    /// When the status changed last.
    #[serde(skip_serializing_if = "is_default")]
    pub last_transition_time: String,
    /// The generation that it is about.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
}
