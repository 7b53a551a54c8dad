//! `HelmRelease`, `helm.toolkit.fluxcd.io/v2`: the spec.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::GoDuration;
use super::common::{LocalObjectReference, SecretKeyReference, integer, is_default};
use super::helm_release_actions::{Install, Rollback, Test, Uninstall, Upgrade};

/// Kinds that `chartRef` may name.
const CHART_REF_KINDS: [&str; 3] = ["OCIRepository", "HelmChart", "ExternalArtifact"];
/// Kinds that the source of a chart may be of.
const SOURCE_REF_KINDS: [&str; 3] = ["HelmRepository", "GitRepository", "Bucket"];

/// What a HelmRelease asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.chart) && !has(self.chartRef)) || (!has(self.chart) && has(self.chartRef))",
    "message": "set one of chart and chartRef",
}]))]
pub struct HelmReleaseSpec {
    /// Template of the HelmChart that is created for the release.
    #[serde(skip_serializing_if = "is_default")]
    pub chart: Option<ChartTemplate>,
    /// The object that has the chart.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(transform = of_kinds(&CHART_REF_KINDS))]
    pub chart_ref: Option<ObjectReference>,
    /// How often the release is reconciled.
    pub interval: Option<GoDuration>,
    /// Kubeconfig of the cluster to install in. A ServiceAccount of `serviceAccountName` is one of that cluster then.
    #[serde(skip_serializing_if = "is_default")]
    pub kube_config: Option<KubeConfigReference>,
    /// Stop reconciling. What has begun goes on.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// Name of the release; by default `[TARGETNAMESPACE-]NAME`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 53))]
    pub release_name: Option<String>,
    /// Namespace of the release; by default that of the HelmRelease.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 63))]
    pub target_namespace: Option<String>,
    /// Namespace of the release's records; by default that of the HelmRelease.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 63))]
    pub storage_namespace: Option<String>,
    /// HelmReleases that must be ready before this one.
    #[serde(skip_serializing_if = "is_default")]
    pub depends_on: Vec<Dependency>,
    /// Timeout of each action that has none of its own; 5 minutes.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: Option<GoDuration>,
    /// Revisions kept; 5, 0 keeps all.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "integer")]
    pub max_history: Option<usize>,
    /// ServiceAccount of the HelmRelease's namespace whose rights the release is applied with.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Keep discovered kinds of the cluster from one action to the next; true by default.
    #[serde(skip_serializing_if = "is_default")]
    pub persistent_client: Option<bool>,
    /// What is done about objects that differ from the release.
    #[serde(skip_serializing_if = "is_default")]
    pub drift_detection: DriftDetection,
    /// Options of installs.
    #[serde(skip_serializing_if = "is_default")]
    pub install: Install,
    /// Options of upgrades.
    #[serde(skip_serializing_if = "is_default")]
    pub upgrade: Upgrade,
    /// Options of the chart's tests.
    #[serde(skip_serializing_if = "is_default")]
    pub test: Test,
    /// Options of rollbacks.
    #[serde(skip_serializing_if = "is_default")]
    pub rollback: Rollback,
    /// Options of uninstalls.
    #[serde(skip_serializing_if = "is_default")]
    pub uninstall: Uninstall,
    /// ConfigMaps and Secrets with values, in the HelmRelease's namespace. Later ones win, and `values` wins over all that have no
    /// target path.
    #[serde(skip_serializing_if = "is_default")]
    pub values_from: Vec<ValuesReference>,
    /// Values of the chart.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub values: Option<Value>,
    /// Labels and annotations of all objects of the release. They win over the chart's.
    #[serde(skip_serializing_if = "is_default")]
    pub common_metadata: Option<CommonMetadata>,
    /// Post-renderers, in this order.
    #[serde(skip_serializing_if = "is_default")]
    pub post_renderers: Option<Vec<PostRenderer>>,
    /// What is done with hooks: they are not post-rendered (`nohooks`), together with the other objects (`combined`, the default) or
    /// on their own (`separate`).
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["nohooks", "combined", "separate"]))]
    pub post_render_strategy: Option<String>,
    /// How readiness is determined.
    #[serde(skip_serializing_if = "is_default")]
    pub wait_strategy: Option<WaitStrategy>,
    /// Readiness of custom resources, in CEL. Only while an action waits, by the strategy `poller`.
    #[serde(skip_serializing_if = "is_default")]
    pub health_check_exprs: Vec<HealthCheckExpr>,
}

/// Names the kinds that a reference may be of.
fn of_kinds(kinds: &'static [&'static str]) -> impl FnMut(&mut Schema) {
    move |schema| {
        if let Some(Value::Object(kind)) = schema.pointer_mut("/properties/kind") {
            kind.insert("enum".to_owned(), json!(kinds));
        }
    }
}

/// A key of a Secret or ConfigMap that holds values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ValuesReference {
    /// Kind of the object: `Secret` or `ConfigMap`.
    #[schemars(extend("enum" = ["Secret", "ConfigMap"]))]
    pub kind: String,
    /// The object's name, in the namespace of the HelmRelease.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key of its data; `values.yaml` by default.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = r"^[\-._a-zA-Z0-9]+$"))]
    pub values_key: String,
    /// Where the text goes, as `--set-literal` takes a path; absent: the text is a map of values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 250), regex(pattern = r"^([a-zA-Z0-9_\-.\\\/]|\[[0-9]{1,5}\])+$"))]
    pub target_path: Option<String>,
    /// The object or its key may be absent.
    #[serde(skip_serializing_if = "is_default")]
    pub optional: bool,
    /// The text is one string at the target path, whatever it contains.
    #[serde(skip_serializing_if = "is_default")]
    pub literal: bool,
}

impl Default for ValuesReference {
    fn default() -> Self {
        Self {
            kind: String::new(),
            name: String::new(),
            values_key: "values.yaml".to_owned(),
            target_path: None,
            optional: false,
            literal: false,
        }
    }
}

/// Template of a HelmChart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ChartTemplate {
    /// Labels and annotations of the HelmChart.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: CommonMetadata,
    /// The spec of the HelmChart, but for its source's namespace.
    pub spec: ChartTemplateSpec,
}

/// Spec of a template of a HelmChart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ChartTemplateSpec {
    /// Name of the chart in a HelmRepository, or its path in a GitRepository or Bucket.
    #[schemars(length(min = 1, max = 2048))]
    pub chart: String,
    /// Version or range of versions; `*` is the newest. Charts of a GitRepository or Bucket have the one of their files.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-default" = "*"))]
    pub version: Option<String>,
    /// The source that has the chart.
    #[schemars(transform = of_kinds(&SOURCE_REF_KINDS))]
    pub source_ref: ObjectReference,
    /// How often the source is looked at; by default as often as the release is reconciled.
    #[serde(skip_serializing_if = "is_default")]
    pub interval: Option<GoDuration>,
    /// What makes a new package: `ChartVersion` is another version of the chart, `Revision` any other revision of the source.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["ChartVersion", "Revision"], "x-default" = "ChartVersion"))]
    pub reconcile_strategy: Option<String>,
    /// Files of values that take the place of the chart's `values.yaml`, with paths in the source. Later ones win. `values.yaml`
    /// itself counts only if it is named.
    #[serde(skip_serializing_if = "is_default")]
    pub values_files: Vec<String>,
    /// Pass over files of values that do not exist.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_missing_values_files: bool,
    /// Signatures that the chart must have. Only for charts of registries; dependencies that are not packed into the chart are not
    /// verified.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "ChartTemplateVerification")]
    pub verify: Option<Value>,
}

/// Signatures of a chart in a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ChartTemplateVerification {
    /// Tool that signed it.
    #[schemars(extend("enum" = ["cosign", "notation"], "x-default" = "cosign"))]
    pub provider: String,
    /// Secret with the keys that are trusted.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<LocalObjectReference>,
}

/// An object of another kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// API version of the object.
    #[serde(skip_serializing_if = "is_default")]
    pub api_version: Option<String>,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the object; by default that of the HelmRelease.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Where the kubeconfig of a cluster is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.configMapRef) || has(self.secretRef)",
        "message": "set one of configMapRef and secretRef",
    },
    {
        "rule": "!has(self.configMapRef) || !has(self.secretRef)",
        "message": "configMapRef and secretRef cannot both be set",
    },
]))]
pub struct KubeConfigReference {
    /// ConfigMap that says how a cloud gives access: `provider` (aws, azure, gcp or generic), `cluster`, `address`, `ca.crt`,
    /// `audiences` and `serviceAccountName`. `generic` needs `address`, the others `cluster` unless `address` and `ca.crt` are there.
    #[serde(skip_serializing_if = "is_default")]
    pub config_map_ref: Option<LocalObjectReference>,
    /// Secret with a kubeconfig, under `value` if no key is named. It must hold its credentials itself: programs that fetch them are
    /// not run.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<SecretKeyReference>,
}

/// A HelmRelease that must be ready before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Dependency {
    /// Name of the HelmRelease.
    pub name: String,
    /// Namespace of the HelmRelease; by default that of this one.
    #[serde(skip_serializing_if = "is_default")]
    pub namespace: Option<String>,
    /// CEL over `self` and `dep` that tells whether it is ready, in place of its condition Ready.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_expr: Option<String>,
}

/// What is done about drift.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DriftDetection {
    /// `enabled` corrects drift, `warn` reports it, `disabled`, the default, does not look.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["enabled", "warn", "disabled"]))]
    pub mode: Option<String>,
    /// Fields that are not drift.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore: Vec<IgnoreRule>,
}

/// Fields that are not drift.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IgnoreRule {
    /// JSON pointers; an empty one ignores the object.
    pub paths: Vec<String>,
    /// The objects; all by default.
    #[serde(skip_serializing_if = "is_default")]
    pub target: Option<Selector>,
}

/// Selects objects: anchored regular expressions and Kubernetes' selectors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Regular expression of the group.
    #[serde(skip_serializing_if = "is_default")]
    pub group: String,
    /// Regular expression of the version.
    #[serde(skip_serializing_if = "is_default")]
    pub version: String,
    /// Regular expression of the kind.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: String,
    /// Regular expression of the namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub namespace: String,
    /// Regular expression of the name.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// Selector of annotations, in the form of label selectors.
    #[serde(skip_serializing_if = "is_default")]
    pub annotation_selector: String,
    /// Label selector.
    #[serde(skip_serializing_if = "is_default")]
    pub label_selector: String,
}

/// Labels and annotations of all objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CommonMetadata {
    /// Annotations to add.
    #[serde(skip_serializing_if = "is_default")]
    pub annotations: BTreeMap<String, String>,
    /// Labels to add.
    #[serde(skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
}

/// One post-renderer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PostRenderer {
    /// Changes as kustomize makes them.
    #[serde(skip_serializing_if = "is_default")]
    pub kustomize: Option<Kustomize>,
}

/// The kustomize part of a post-renderer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Kustomize {
    /// Strategic merge patches and JSON patches.
    #[serde(skip_serializing_if = "is_default")]
    pub patches: Vec<Patch>,
    /// Other images, tags and digests.
    #[serde(skip_serializing_if = "is_default")]
    pub images: Vec<Image>,
}

/// A strategic merge patch or a JSON patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Patch {
    /// The patch: an object, or a list of the operations of JSON Patch, in YAML.
    pub patch: String,
    /// The objects to patch. A JSON patch needs it; a strategic merge patch names its object otherwise.
    #[serde(skip_serializing_if = "is_default")]
    pub target: Option<Selector>,
}

/// Another image, tag or digest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// Image to replace, without its tag.
    pub name: String,
    /// The image in its place.
    #[serde(skip_serializing_if = "is_default")]
    pub new_name: String,
    /// The tag in place of its own.
    #[serde(skip_serializing_if = "is_default")]
    pub new_tag: String,
    /// The digest in place of a tag. It wins over `newTag`.
    #[serde(skip_serializing_if = "is_default")]
    pub digest: String,
}

/// Rules of readiness.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitStrategy {
    /// `poller`, the default, goes by the status of every object as kstatus does, `legacy` by the rules of Helm 3.
    #[schemars(extend("enum" = ["poller", "legacy"]))]
    pub name: String,
}

/// Readiness of custom resources, in CEL.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheckExpr {
    /// API version of the resources.
    pub api_version: String,
    /// Kind of the resources.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: String,
    /// CEL that is true of a resource that is ready.
    pub current: String,
    /// CEL that is true of a resource that is not ready yet.
    #[serde(skip_serializing_if = "is_default")]
    pub in_progress: Option<String>,
    /// CEL that is true of a resource that has failed.
    #[serde(skip_serializing_if = "is_default")]
    pub failed: Option<String>,
}

impl HelmReleaseSpec {
    /// Reads a spec; null fields are absent ones.
    ///
    /// # Errors
    /// A field has a value of the wrong type.
    pub fn read(spec: &Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(without_nulls(spec))
    }
}

/// A spec without null fields; free JSON keeps its own.
fn without_nulls(spec: &Value) -> Value {
    match spec {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            let own = |(key, value): (&String, &Value)| {
                let value = if key == "values" { value.clone() } else { without_nulls(value) };
                (key.clone(), value)
            };
            Value::Object(kept.map(own).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}
