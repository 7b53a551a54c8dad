//! `HelmRelease`, `helm.toolkit.fluxcd.io/v2`: the spec.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::duration::GoDuration;
use crate::controller::ValuesReference;

/// What a HelmRelease asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmReleaseSpec {
    /// Template of the HelmChart that is created for the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartTemplate>,
    /// The object that has the chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart_ref: Option<ObjectReference>,
    /// How often the release is reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<GoDuration>,
    /// Kubeconfig of the cluster to install in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<Value>,
    pub suspend: bool,
    pub release_name: Option<String>,
    pub target_namespace: Option<String>,
    pub storage_namespace: Option<String>,
    pub depends_on: Vec<Dependency>,
    /// Timeout of each action that has none of its own; 5 minutes.
    pub timeout: Option<GoDuration>,
    /// Revisions kept; 5, 0 keeps all.
    pub max_history: Option<usize>,
    pub service_account_name: Option<String>,
    pub persistent_client: Option<bool>,
    pub drift_detection: DriftDetection,
    pub install: Install,
    pub upgrade: Upgrade,
    pub test: Test,
    pub rollback: Rollback,
    pub uninstall: Uninstall,
    /// Of the HelmRelease's namespace.
    pub values_from: Vec<ValuesReference>,
    /// Free JSON.
    pub values: Option<Value>,
    pub common_metadata: Option<CommonMetadata>,
    pub post_renderers: Option<Vec<PostRenderer>>,
    pub post_render_strategy: Option<String>,
    pub wait_strategy: Option<WaitStrategy>,
    pub health_check_exprs: Vec<HealthCheckExpr>,
}

/// Template of a HelmChart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChartTemplate {
    pub metadata: CommonMetadata,
    /// The spec of the HelmChart, but for its source's namespace.
    pub spec: ChartTemplateSpec,
}

/// Spec of a template of a HelmChart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChartTemplateSpec {
    pub chart: String,
    pub version: Option<String>,
    pub source_ref: ObjectReference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<GoDuration>,
    pub reconcile_strategy: Option<String>,
    pub values_files: Vec<String>,
    pub ignore_missing_values_files: bool,
    pub verify: Option<Value>,
}

/// An object of another kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    pub kind: String,
    pub name: String,
    /// `None`: the HelmRelease's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A HelmRelease that must be ready before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Dependency {
    pub name: String,
    pub namespace: Option<String>,
    /// CEL over `self` and `dep`.
    pub ready_expr: Option<String>,
}

/// What is done about drift.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DriftDetection {
    /// `enabled`, `warn` or `disabled`.
    pub mode: Option<String>,
    pub ignore: Vec<IgnoreRule>,
}

/// Fields that are not drift.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IgnoreRule {
    /// JSON pointers; an empty one ignores the object.
    pub paths: Vec<String>,
    pub target: Option<Selector>,
}

/// Selects objects: anchored regular expressions and Kubernetes' selectors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub annotation_selector: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
}

impl Selector {
    /// Whether it selects by one kind, and perhaps one name, without patterns.
    fn is_plain(&self) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let others =
            [&self.group, &self.version, &self.namespace, &self.annotation_selector, &self.label_selector];
        !self.kind.is_empty()
            && self.kind.chars().chain(self.name.chars()).all(plain)
            && others.iter().all(|text| text.is_empty())
    }
}

/// What an install or upgrade does after a failure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionStrategy {
    /// `RemediateOnFailure` or `RetryOnFailure`.
    pub name: String,
    pub retry_interval: Option<GoDuration>,
}

/// Remediation of a failed install or upgrade.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Remediation {
    /// Negative: without end.
    pub retries: i64,
    pub ignore_test_failures: Option<bool>,
    pub remediate_last_failure: Option<bool>,
    /// `rollback` or `uninstall`; upgrades only.
    pub strategy: Option<String>,
}

/// Options of an install.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Install {
    pub timeout: Option<GoDuration>,
    pub strategy: Option<ActionStrategy>,
    pub remediation: Option<Remediation>,
    pub disable_take_ownership: bool,
    pub disable_wait: bool,
    pub disable_wait_for_jobs: bool,
    pub disable_hooks: bool,
    #[serde(rename = "disableOpenAPIValidation")]
    pub disable_open_api_validation: bool,
    pub disable_schema_validation: bool,
    pub replace: bool,
    pub create_namespace: bool,
    /// `Skip`, `Create` or `CreateReplace`.
    pub crds: Option<String>,
    #[serde(rename = "skipCRDs")]
    pub skip_crds: bool,
    pub server_side_apply: Option<bool>,
}

/// Options of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Upgrade {
    pub timeout: Option<GoDuration>,
    pub strategy: Option<ActionStrategy>,
    pub remediation: Option<Remediation>,
    pub disable_take_ownership: bool,
    pub disable_wait: bool,
    pub disable_wait_for_jobs: bool,
    pub disable_hooks: bool,
    #[serde(rename = "disableOpenAPIValidation")]
    pub disable_open_api_validation: bool,
    pub disable_schema_validation: bool,
    pub force: bool,
    pub preserve_values: bool,
    pub cleanup_on_fail: bool,
    pub crds: Option<String>,
    pub server_side_apply: Option<String>,
    /// `Reinstall` or `InPlaceUpdate`.
    pub chart_name_change_strategy: Option<String>,
}

/// Options of tests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Test {
    pub enable: bool,
    pub timeout: Option<GoDuration>,
    pub ignore_failures: bool,
    pub filters: Vec<TestFilter>,
}

/// A test that is run, or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TestFilter {
    pub name: String,
    pub exclude: bool,
}

/// Options of a rollback.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollback {
    pub timeout: Option<GoDuration>,
    pub disable_wait: bool,
    pub disable_wait_for_jobs: bool,
    pub disable_hooks: bool,
    pub recreate: bool,
    pub force: bool,
    pub cleanup_on_fail: bool,
    pub server_side_apply: Option<String>,
}

/// Options of an uninstall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Uninstall {
    pub timeout: Option<GoDuration>,
    pub disable_hooks: bool,
    pub keep_history: bool,
    pub disable_wait: bool,
    /// `background`, `foreground` or `orphan`.
    pub deletion_propagation: Option<String>,
}

/// Labels and annotations of all objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CommonMetadata {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// One post-renderer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PostRenderer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<Kustomize>,
}

/// The kustomize part of a post-renderer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Kustomize {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

/// A strategic merge patch or a JSON patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Patch {
    pub patch: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Selector>,
}

/// Another image, tag or digest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub new_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub new_tag: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

/// Rules of readiness.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitStrategy {
    /// `poller` or `legacy`.
    pub name: String,
}

/// Readiness of custom resources, in CEL.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheckExpr {
    pub api_version: String,
    pub kind: String,
    pub current: String,
    pub in_progress: Option<String>,
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

    /// Refuses fields that would have to be ignored.
    ///
    /// # Errors
    /// The text names the field.
    pub fn refuse_unsupported(&self) -> Result<(), String> {
        let fields = [
            ("kubeConfig", self.kube_config.is_some()),
            ("healthCheckExprs", !self.health_check_exprs.is_empty()),
            (
                "driftDetection.ignore.target other than a plain kind and name",
                self.drift_detection
                    .ignore
                    .iter()
                    .filter_map(|rule| rule.target.as_ref())
                    .any(|t| !t.is_plain()),
            ),
            (
                "driftDetection.ignore.paths with the index of a list",
                self.drift_detection.ignore.iter().flat_map(|rule| &rule.paths).any(|path| has_index(path)),
            ),
        ];
        match fields.iter().find(|(_, used)| *used) {
            Some((field, _)) => Err(format!(
                "spec.{field} is not supported: remove it, or leave this object to helm-controller"
            )),
            None => Ok(()),
        }
    }
}

/// Whether a JSON pointer goes through a list: drift rules name fields.
fn has_index(pointer: &str) -> bool {
    let index = |part: &str| part == "-" || (!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    pointer.split('/').any(index)
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
