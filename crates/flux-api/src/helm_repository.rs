//! `HelmRepository`, `source.toolkit.fluxcd.io/v1`: a server of charts, with an index or a registry.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::common::{LocalObjectReference, SHORT_DURATION, SourceArtifact, StatusCondition, is_default};

/// Where charts come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmRepositorySpec {
    /// URL of the repository, with its scheme.
    #[schemars(regex(pattern = "^(http|https|oci)://.*$"))]
    pub url: String,
    /// Secret with credentials: `username` and `password`, or a Docker configuration if the type is `oci`. Its keys `certFile`,
    /// `keyFile` and `caFile` are deprecated; use `certSecretRef`.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<LocalObjectReference>,
    /// Secret with a client certificate (`tls.crt`, `tls.key`), a CA certificate (`ca.crt`), or both, in PEM. It wins over
    /// certificates of `secretRef`.
    #[serde(skip_serializing_if = "is_default")]
    pub cert_secret_ref: Option<LocalObjectReference>,
    /// Send the credentials to other hosts too, if the index names charts there. Those hosts, and who can answer for them, learn
    /// the credentials.
    #[serde(skip_serializing_if = "is_default")]
    pub pass_credentials: bool,
    /// How often the index is fetched. Jitter may be added.
    #[serde(skip_serializing_if = "is_default")]
    pub interval: Option<GoDuration>,
    /// Use HTTP without TLS. Only if the type is `oci`.
    #[serde(skip_serializing_if = "is_default")]
    pub insecure: bool,
    /// Time limit of fetching the index, or a chart from a registry; 60s.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("pattern" = SHORT_DURATION))]
    pub timeout: Option<GoDuration>,
    /// Stop fetching.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// Namespaces that may refer to this object. Provisional: nothing reads it.
    #[serde(skip_serializing_if = "is_default")]
    pub access_from: Option<AccessFrom>,
    /// `default` has an index, `oci` is a registry and needs a URL that begins with `oci://`.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["default", "oci"]))]
    pub repository_type: String,
    /// Whose credentials a registry takes; `generic` are those of `secretRef`. Only if the type is `oci`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["generic", "aws", "azure", "gcp"], "x-default" = "generic"))]
    pub provider: String,
}

/// Namespaces that may refer to an object of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessFrom {
    /// Selectors of namespaces; one that matches is enough.
    pub namespace_selectors: Vec<NamespaceSelector>,
}

/// Selects namespaces by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceSelector {
    /// Labels that the namespace must have, all of them. None selects every namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub match_labels: BTreeMap<String, String>,
}

/// Status of the repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmRepositoryStatus {
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Conditions of the repository.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<StatusCondition>,
    /// Address of the newest index. `artifact.url` is the exact one.
    #[serde(skip_serializing_if = "is_default")]
    pub url: String,
    /// The index that was fetched last.
    #[serde(skip_serializing_if = "is_default")]
    pub artifact: Option<SourceArtifact>,
    /// The value of the annotation `reconcile.fluxcd.io/requestedAt` that was handled last.
    #[serde(skip_serializing_if = "is_default")]
    pub last_handled_reconcile_at: String,
}
