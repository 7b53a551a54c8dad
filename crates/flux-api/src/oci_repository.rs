//! `OCIRepository`, `source.toolkit.fluxcd.io/v1`: an artifact of a registry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::common::{
    LocalObjectReference, OidcIdentityMatch, SHORT_DURATION, SourceArtifact, StatusCondition, is_default,
};

/// Which artifact, and what of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OciRepositorySpec {
    /// URL of the repository in the registry, without a tag.
    #[schemars(regex(pattern = "^oci://.*$"))]
    pub url: String,
    /// Which tag or digest; the tag `latest` by default.
    #[serde(rename = "ref", skip_serializing_if = "is_default")]
    pub reference: Option<OciRepositoryRef>,
    /// Which layer, and what is done with it; the first one is extracted by default.
    #[serde(skip_serializing_if = "is_default")]
    pub layer_selector: Option<OciLayerSelector>,
    /// Whose credentials the registry takes; `generic` are those of `secretRef`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["generic", "aws", "azure", "gcp"], "x-default" = "generic"))]
    pub provider: String,
    /// Secret of the type `kubernetes.io/dockerconfigjson` with credentials of the registry.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<LocalObjectReference>,
    /// Signatures that the artifact must have.
    #[serde(skip_serializing_if = "is_default")]
    pub verify: Option<OciRepositoryVerification>,
    /// ServiceAccount whose image pull Secrets are used, or whose identity the provider takes.
    #[serde(skip_serializing_if = "is_default")]
    pub service_account_name: String,
    /// Secret with a client certificate (`tls.crt`, `tls.key`), a CA certificate (`ca.crt`), or both, in PEM.
    #[serde(skip_serializing_if = "is_default")]
    pub cert_secret_ref: Option<LocalObjectReference>,
    /// Secret with the proxy to go through: `address`, and `username` and `password` if it wants them.
    #[serde(skip_serializing_if = "is_default")]
    pub proxy_secret_ref: Option<LocalObjectReference>,
    /// How often the registry is looked at. Jitter may be added.
    pub interval: Option<GoDuration>,
    /// Time limit of requests to the registry.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("pattern" = SHORT_DURATION, "x-default" = "60s"))]
    pub timeout: Option<GoDuration>,
    /// Files to leave out, in the form of `.gitignore`, in place of the defaults.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore: Option<String>,
    /// Use HTTP without TLS.
    #[serde(skip_serializing_if = "is_default")]
    pub insecure: bool,
    /// Stop looking at the registry.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
}

/// A tag or digest. Of several fields the first of these wins: digest, semver, tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OciRepositoryRef {
    /// Digest, `sha256:HASH`. It wins over a range.
    #[serde(skip_serializing_if = "is_default")]
    pub digest: String,
    /// Range of versions, of which the newest tag is taken. It wins over a tag.
    #[serde(skip_serializing_if = "is_default")]
    pub semver: String,
    /// Regular expression that tags of the range must match.
    #[serde(skip_serializing_if = "is_default")]
    pub semver_filter: String,
    /// Tag; `latest` if no other field is set.
    #[serde(skip_serializing_if = "is_default")]
    pub tag: String,
}

/// A layer of an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OciLayerSelector {
    /// Media type of the layer; the first one that has it is taken.
    #[serde(skip_serializing_if = "is_default")]
    pub media_type: String,
    /// `extract`, the default, takes the files of the layer, `copy` the layer as it is.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["extract", "copy"]))]
    pub operation: String,
}

/// Signatures of an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OciRepositoryVerification {
    /// Tool that signed it.
    #[schemars(extend("enum" = ["cosign", "notation"], "x-default" = "cosign"))]
    pub provider: String,
    /// Secret with the keys that are trusted.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<LocalObjectReference>,
    /// Who may have signed it with cosign and without a key; one that matches is enough.
    #[serde(rename = "matchOIDCIdentity", skip_serializing_if = "is_default")]
    pub match_oidc_identity: Vec<OidcIdentityMatch>,
    /// Secret whose `trusted_root.json` describes a Sigstore of your own.
    #[serde(skip_serializing_if = "is_default")]
    pub trusted_root_secret_ref: Option<LocalObjectReference>,
}

/// Status of the artifact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OciRepositoryStatus {
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Conditions of the repository.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<StatusCondition>,
    /// Address of the newest file. `artifact.url` is the exact one.
    #[serde(skip_serializing_if = "is_default")]
    pub url: String,
    /// What was fetched last.
    #[serde(skip_serializing_if = "is_default")]
    pub artifact: Option<SourceArtifact>,
    /// `spec.ignore` of the artifact.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_ignore: Option<String>,
    /// `spec.layerSelector` of the artifact.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_layer_selector: Option<OciLayerSelector>,
    /// The value of the annotation `reconcile.fluxcd.io/requestedAt` that was handled last.
    #[serde(skip_serializing_if = "is_default")]
    pub last_handled_reconcile_at: String,
}
