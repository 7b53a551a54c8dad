//! `Helmfile`, `apps.mumoshu.github.io/v1alpha1`: spec and status.
//!
//! The fields `source`, `version`, `image`, `values`, `envvars`, `valuesFiles` and `environment` are those of helmfile-operator.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use api_types::GoDuration;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The schema of an object with any fields.
fn any_fields(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// What a Helmfile asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!(has(self.source) && has(self.state))",
    "message": "set one of source and state",
}]))]
pub struct HelmfileSpec {
    /// Address of a state file or of a directory of them, such as `git::https://HOST/REPOSITORY//DIRECTORY@FILE?ref=BRANCH`. By default
    /// the bundle of the operator.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 2048))]
    pub source: String,
    /// A branch, tag or commit: short for `?ref=` at the end of the source.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 255))]
    pub version: String,
    /// The text of a state file, in place of a source. It is a template, as a file `helmfile.yaml.gotmpl`.
    #[serde(skip_serializing_if = "is_default")]
    pub state: String,
    /// No effect: the operator deploys the releases itself.
    #[serde(skip_serializing_if = "is_default")]
    pub image: Option<Image>,
    /// Values of the state files, over all others.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "any_fields")]
    pub values: Map<String, Value>,
    /// Files with values of the state files, relative to the state file.
    #[serde(skip_serializing_if = "is_default")]
    pub values_files: Vec<String>,
    /// Environment variables that state files read with `env` and `requiredEnv`. They see no others.
    #[serde(skip_serializing_if = "is_default")]
    pub envvars: BTreeMap<String, String>,
    /// The environment of the state files; `default` by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 253))]
    pub environment: String,
    /// How often the source is read and the releases are compared; 1 minute by default. Changes of the object and of the cluster are
    /// handled at once.
    #[serde(skip_serializing_if = "is_default")]
    pub interval: Option<GoDuration>,
    /// Stop reconciling. What has begun goes on.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// Uninstall releases that are not in the state files any more; true by default.
    #[serde(skip_serializing_if = "is_default")]
    pub prune: Option<bool>,
    /// Prune also when the state files have no release at all.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_empty: bool,
    /// Secrets of the object's namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_refs: SecretReferences,
    /// ServiceAccount of the object's namespace whose rights the releases are deployed with.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// What happens to the releases when the object is deleted: `destroy` uninstalls them, `orphan` leaves them; `destroy` by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["destroy", "orphan"]))]
    pub deletion_policy: Option<String>,
    /// Write nothing but the status, which says what would change.
    #[serde(skip_serializing_if = "is_default")]
    pub dry_run: bool,
}

/// An image of helmfile-operator's applier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// Its repository.
    #[serde(skip_serializing_if = "is_default")]
    pub repository: String,
    /// Its tag.
    #[serde(skip_serializing_if = "is_default")]
    pub tag: String,
}

/// Names of Secrets in the object's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretReferences {
    /// Login for the server of `source`: `username` and `password`, or `bearerToken`; `ca.crt`. It goes to no other server.
    #[serde(skip_serializing_if = "is_default")]
    pub git: Option<String>,
    /// SSH key for the server of `source`: `identity`, `known_hosts`, and `password` of an encrypted key.
    #[serde(skip_serializing_if = "is_default")]
    pub ssh: Option<String>,
    /// Logins of registries, of the type `kubernetes.io/dockerconfigjson`.
    #[serde(skip_serializing_if = "is_default")]
    pub registry: Option<String>,
    /// Keys that decrypt files of sops: age keys under names that end in `.agekey`, OpenPGP keys under names that end in `.asc`.
    #[serde(skip_serializing_if = "is_default")]
    pub sops: Option<String>,
    /// Environment variables, over `envvars`.
    #[serde(skip_serializing_if = "is_default")]
    pub env: Option<String>,
}

/// How far a Helmfile is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmfileStatus {
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Ready, Reconciling and Stalled.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<ObjectCondition>,
    /// What the source was resolved to: commits of Git repositories, each after the repository's address.
    #[serde(skip_serializing_if = "is_default")]
    pub resolved_revision: String,
    /// Digest of what was evaluated last: the commits of the source, and the names and versions of charts.
    #[serde(skip_serializing_if = "is_default")]
    pub last_attempted_digest: String,
    /// The same of the last pass in which all releases were deployed.
    #[serde(skip_serializing_if = "is_default")]
    pub last_applied_digest: String,
    /// The releases, in the order in which they are deployed. They are what is uninstalled with the object.
    #[serde(skip_serializing_if = "is_default")]
    pub releases: Vec<ReleaseStatus>,
    /// What a dry run would change.
    #[serde(skip_serializing_if = "is_default")]
    pub changes: Option<ChangeCounts>,
}

/// A condition of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectCondition {
    /// Its name.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word that says why.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// When the status changed last.
    pub last_transition_time: String,
    /// The generation that it is about.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
}

/// How far a release is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReleaseStatus {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The newest revision that was deployed; 0: none.
    #[serde(skip_serializing_if = "is_default")]
    pub revision: u64,
    /// The chart's name.
    #[serde(skip_serializing_if = "is_default")]
    pub chart: String,
    /// The chart's version.
    #[serde(skip_serializing_if = "is_default")]
    pub version: String,
    /// `pending`, `deployed`, `failed`, `waiting` for a release that it needs, or `pruning`.
    pub status: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "is_default")]
    pub error: String,
}

/// Numbers of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ChangeCounts {
    /// Releases that would be installed, upgraded or uninstalled.
    pub releases: usize,
    /// Objects that would be created.
    pub create: usize,
    /// Objects that would be changed.
    pub update: usize,
    /// Objects that would be deleted.
    pub delete: usize,
}
