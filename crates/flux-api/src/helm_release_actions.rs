//! `HelmRelease`, `helm.toolkit.fluxcd.io/v2`: options of its actions.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::GoDuration;
use super::common::{integer, is_default};

/// What an install or upgrade does after a failure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ActionStrategy {
    /// `RemediateOnFailure`, the default, does what `remediation` says, `RetryOnFailure` upgrades again.
    #[schemars(extend("enum" = ["RemediateOnFailure", "RetryOnFailure"]))]
    pub name: String,
    /// How long after a failure `RetryOnFailure` tries again; 5 minutes.
    #[serde(skip_serializing_if = "is_default")]
    pub retry_interval: Option<GoDuration>,
}

/// Remediation of a failed install or upgrade.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Remediation {
    /// How often it is tried again, with a remediation before each time; 0, and without end if negative.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "integer")]
    pub retries: i64,
    /// Failed tests are no failure; `test.ignoreFailures` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_test_failures: Option<bool>,
    /// Remediate the failure after the last retry as well. Installs do not by default, upgrades do if they have retries.
    #[serde(skip_serializing_if = "is_default")]
    pub remediate_last_failure: Option<bool>,
    /// `rollback`, the default, goes back to the last revision that was good, `uninstall` begins anew.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["rollback", "uninstall"]))]
    pub strategy: Option<String>,
}

/// Installs have one way of remediation.
fn without_strategy(schema: &mut Schema) {
    if let Some(Value::Object(properties)) = schema.pointer_mut("/properties") {
        properties.remove("strategy");
    }
}

/// Options of an install.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Install {
    /// Timeout of the install; `spec.timeout` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: Option<GoDuration>,
    /// What is done after a failure.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!has(self.retryInterval) || self.name != 'RemediateOnFailure'",
        "message": "retryInterval cannot be set if the name is RemediateOnFailure",
    }]))]
    pub strategy: Option<ActionStrategy>,
    /// Remediation of a failed install, which is an uninstall. None by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(transform = without_strategy)]
    pub remediation: Option<Remediation>,
    /// Fail if an object exists already and belongs to nobody or to another release.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_take_ownership: bool,
    /// Do not wait until the objects are ready.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_wait: bool,
    /// Do not wait until Jobs are complete.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_wait_for_jobs: bool,
    /// Run no hooks.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_hooks: bool,
    /// Do not check objects against the schemas of the API server.
    #[serde(rename = "disableOpenAPIValidation", skip_serializing_if = "is_default")]
    pub disable_open_api_validation: bool,
    /// Do not check values against the schema of the chart.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_schema_validation: bool,
    /// Take the name of a release that was uninstalled and whose history was kept.
    #[serde(skip_serializing_if = "is_default")]
    pub replace: bool,
    /// Create the target namespace if it does not exist. An uninstall leaves it.
    #[serde(skip_serializing_if = "is_default")]
    pub create_namespace: bool,
    /// What is done with CRDs of the chart's directory `crds`: nothing (`Skip`), those that do not exist are created (`Create`, the
    /// default), and the others replaced (`CreateReplace`). None is deleted.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["Skip", "Create", "CreateReplace"]))]
    pub crds: Option<String>,
    /// Deprecated: use `crds`.
    #[serde(rename = "skipCRDs", skip_serializing_if = "is_default")]
    pub skip_crds: bool,
    /// Use server-side apply; true by default.
    #[serde(skip_serializing_if = "is_default")]
    pub server_side_apply: Option<bool>,
}

/// Options of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Upgrade {
    /// Timeout of the upgrade; `spec.timeout` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: Option<GoDuration>,
    /// What is done after a failure.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!has(self.retryInterval) || self.name == 'RetryOnFailure'",
        "message": "retryInterval needs the name RetryOnFailure",
    }]))]
    pub strategy: Option<ActionStrategy>,
    /// Remediation of a failed upgrade. None by default.
    #[serde(skip_serializing_if = "is_default")]
    pub remediation: Option<Remediation>,
    /// Fail if an object exists already and belongs to nobody or to another release.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_take_ownership: bool,
    /// Do not wait until the objects are ready.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_wait: bool,
    /// Do not wait until Jobs are complete.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_wait_for_jobs: bool,
    /// Run no hooks.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_hooks: bool,
    /// Do not check objects against the schemas of the API server.
    #[serde(rename = "disableOpenAPIValidation", skip_serializing_if = "is_default")]
    pub disable_open_api_validation: bool,
    /// Do not check values against the schema of the chart.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_schema_validation: bool,
    /// Replace objects in place of patching them. Server-side apply ignores it.
    #[serde(skip_serializing_if = "is_default")]
    pub force: bool,
    /// Merge the values over those of the last release. The HelmRelease does not tell all values then.
    #[serde(skip_serializing_if = "is_default")]
    pub preserve_values: bool,
    /// Delete what a failed upgrade has created.
    #[serde(skip_serializing_if = "is_default")]
    pub cleanup_on_fail: bool,
    /// What is done with CRDs of the chart's directory `crds`: nothing (`Skip`), those that do not exist are created (`Create`), and
    /// the others replaced (`CreateReplace`). None is deleted.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["Skip", "Create", "CreateReplace"]))]
    pub crds: Option<String>,
    /// Whether server-side apply is used; `auto`, the default, does as the last revision did.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["enabled", "disabled", "auto"]))]
    pub server_side_apply: Option<String>,
    /// What is done if the chart has another name: `Reinstall`, the default, uninstalls first, `InPlaceUpdate` upgrades.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["InPlaceUpdate", "Reinstall"]))]
    pub chart_name_change_strategy: Option<String>,
}

/// Options of tests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Test {
    /// Run the chart's tests after each install and upgrade.
    #[serde(skip_serializing_if = "is_default")]
    pub enable: bool,
    /// Timeout of a test; `spec.timeout` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: Option<GoDuration>,
    /// Failed tests are no failure of the install or upgrade, unless its remediation says otherwise.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_failures: bool,
    /// Tests that are run, or not.
    #[serde(skip_serializing_if = "is_default")]
    pub filters: Vec<TestFilter>,
}

/// A test that is run, or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TestFilter {
    /// Name of the test.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Run all but this one.
    #[serde(skip_serializing_if = "is_default")]
    pub exclude: bool,
}

/// Options of a rollback.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollback {
    /// Timeout of the rollback; `spec.timeout` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: Option<GoDuration>,
    /// Do not wait until the objects are ready.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_wait: bool,
    /// Do not wait until Jobs are complete.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_wait_for_jobs: bool,
    /// Run no hooks.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_hooks: bool,
    /// Deprecated: it does nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub recreate: bool,
    /// Replace objects in place of patching them. Server-side apply ignores it.
    #[serde(skip_serializing_if = "is_default")]
    pub force: bool,
    /// Delete what a failed rollback has created.
    #[serde(skip_serializing_if = "is_default")]
    pub cleanup_on_fail: bool,
    /// Whether server-side apply is used; `auto`, the default, does as the revision did that is rolled back to.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["enabled", "disabled", "auto"]))]
    pub server_side_apply: Option<String>,
}

/// Options of an uninstall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Uninstall {
    /// Timeout of the uninstall; `spec.timeout` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: Option<GoDuration>,
    /// Run no hooks.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_hooks: bool,
    /// Delete the objects, but keep the records.
    #[serde(skip_serializing_if = "is_default")]
    pub keep_history: bool,
    /// Do not wait until the objects are gone.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_wait: bool,
    /// How what the objects own is deleted.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["background", "foreground", "orphan"], "x-default" = "background"))]
    pub deletion_propagation: Option<String>,
}
