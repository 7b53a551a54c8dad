//! `ImageBuild`, `windlass.dev/v1alpha1`: an image of a file of a Maven repository. Spec and status.

use api_types::{GoDuration, openapi_schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What an ImageBuild asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ImageBuildSpec {
    /// The artifact: GROUP:ARTIFACT[:EXTENSION[:CLASSIFIER]]; the extension is war if it is not given.
    #[schemars(length(min = 1, max = 512))]
    pub artifact: String,
    /// The Maven repository that has it.
    pub repository: MavenRepositoryReference,
    /// Version of the artifact: 1.2, 1.3-SNAPSHOT, a range such as [1.2,2.0), LATEST or RELEASE; RELEASE by default.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 255))]
    pub version: String,
    /// The image that the file is added to.
    #[schemars(length(min = 1, max = 500))]
    pub base: String,
    /// Path of the file in the image; with a slash at the end, of its directory.
    #[schemars(length(min = 1, max = 4096))]
    pub path: String,
    /// The image that is pushed, with a tag.
    #[schemars(length(min = 1, max = 500))]
    pub image: String,
    /// Secret of the object's namespace with the login for the registry of the base: `.dockerconfigjson`, `ca.crt`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 253))]
    pub pull_secret: String,
    /// Secret of the object's namespace with the login for the registry of the image: `.dockerconfigjson`, `ca.crt`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 253))]
    pub push_secret: String,
    /// ServiceAccount of the object's namespace whose rights the Secrets are read with.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// How often a newer artifact and another base are looked for; 10 minutes by default.
    #[serde(skip_serializing_if = "is_default")]
    pub interval: Option<GoDuration>,
    /// Stop looking and building.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
}

/// A Maven repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MavenRepositoryReference {
    /// Its URL.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// Secret of the object's namespace with the login: `username` and `password`; `ca.crt`.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<SecretName>,
}

/// A Secret of the object's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SecretName {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How far an ImageBuild is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageBuildStatus {
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Ready, Reconciling and Stalled.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(schema_with = "openapi_schema::condition_list")]
    pub conditions: Vec<Value>,
    /// What the image was built of.
    #[serde(skip_serializing_if = "is_default")]
    pub built: Option<BuiltOf>,
    /// The image, with its tag and its digest.
    #[serde(skip_serializing_if = "is_default")]
    pub image: String,
    /// When it was pushed last.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("format" = "date-time"))]
    pub last_built: String,
}

/// What an image was built of: with the same of all there is nothing to build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BuiltOf {
    /// The artifact.
    pub artifact: String,
    /// Its version.
    pub version: String,
    /// Its file.
    pub file: String,
    /// Checksum of the file.
    pub checksum: String,
    /// The base.
    pub base: String,
    /// Digest of the base.
    pub base_digest: String,
    /// Path of the file in the image.
    pub path: String,
}
