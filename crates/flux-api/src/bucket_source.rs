//! `Bucket`, `source.toolkit.fluxcd.io/v1`: files of an object storage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::common::{LocalObjectReference, SHORT_DURATION, SourceArtifact, StatusCondition, is_default};

/// Which files of which bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.provider == 'aws' || self.provider == 'generic' || !has(self.sts)",
        "message": "sts needs the provider aws or generic",
    },
    {
        "rule": "self.provider != 'aws' || !has(self.sts) || self.sts.provider == 'aws'",
        "message": "with the provider aws, sts.provider must be aws",
    },
    {
        "rule": "self.provider != 'generic' || !has(self.sts) || self.sts.provider == 'ldap'",
        "message": "with the provider generic, sts.provider must be ldap",
    },
    {
        "rule": "!has(self.sts) || self.sts.provider != 'aws' || !has(self.sts.secretRef)",
        "message": "sts.secretRef cannot be set if sts.provider is aws",
    },
    {
        "rule": "!has(self.sts) || self.sts.provider != 'aws' || !has(self.sts.certSecretRef)",
        "message": "sts.certSecretRef cannot be set if sts.provider is aws",
    },
    {
        "rule": "self.provider != 'generic' || !has(self.serviceAccountName)",
        "message": "serviceAccountName cannot be set if the provider is generic",
    },
    {
        "rule": "!has(self.secretRef) || !has(self.serviceAccountName)",
        "message": "secretRef and serviceAccountName cannot both be set",
    },
]))]
pub struct BucketSpec {
    /// Whose storage it is; `generic` has the API of S3.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["generic", "aws", "gcp", "azure"], "x-default" = "generic"))]
    pub provider: String,
    /// Name of the bucket.
    pub bucket_name: String,
    /// Address of the storage.
    pub endpoint: String,
    /// Security Token Service that gives temporary credentials. Only if the provider is `aws` or `generic`.
    #[serde(skip_serializing_if = "is_default")]
    pub sts: Option<BucketSts>,
    /// Use HTTP without TLS.
    #[serde(skip_serializing_if = "is_default")]
    pub insecure: bool,
    /// Region of the bucket.
    #[serde(skip_serializing_if = "is_default")]
    pub region: String,
    /// Only files whose names begin with this.
    #[serde(skip_serializing_if = "is_default")]
    pub prefix: String,
    /// Secret with credentials of the storage.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<LocalObjectReference>,
    /// ServiceAccount whose identity the storage takes. Not if the provider is `generic`.
    #[serde(skip_serializing_if = "is_default")]
    pub service_account_name: String,
    /// Secret with a client certificate (`tls.crt`, `tls.key`), a CA certificate (`ca.crt`), or both, in PEM. Only if the provider
    /// is `generic`.
    #[serde(skip_serializing_if = "is_default")]
    pub cert_secret_ref: Option<LocalObjectReference>,
    /// Secret with the proxy to go through: `address`, and `username` and `password` if it wants them.
    #[serde(skip_serializing_if = "is_default")]
    pub proxy_secret_ref: Option<LocalObjectReference>,
    /// How often the bucket is looked at. Jitter may be added.
    pub interval: Option<GoDuration>,
    /// Time limit of fetching the files.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("pattern" = SHORT_DURATION, "x-default" = "60s"))]
    pub timeout: Option<GoDuration>,
    /// Files to leave out, in the form of `.gitignore`, in place of the defaults.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore: Option<String>,
    /// Stop looking at the bucket.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
}

/// A Security Token Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BucketSts {
    /// Kind of the service.
    #[schemars(extend("enum" = ["aws", "ldap"]))]
    pub provider: String,
    /// Address of the service, over HTTP or HTTPS.
    #[schemars(regex(pattern = "^(http|https)://.*$"))]
    pub endpoint: String,
    /// Secret with `username` and `password` for the service. Only if the provider is `ldap`.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<LocalObjectReference>,
    /// Secret with a client certificate (`tls.crt`, `tls.key`), a CA certificate (`ca.crt`), or both, in PEM. Only if the provider
    /// is `ldap`.
    #[serde(skip_serializing_if = "is_default")]
    pub cert_secret_ref: Option<LocalObjectReference>,
}

/// Status of the bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BucketStatus {
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Conditions of the bucket.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<StatusCondition>,
    /// Address of the newest file. `artifact.url` is the exact one.
    #[serde(skip_serializing_if = "is_default")]
    pub url: String,
    /// The files that were fetched last.
    #[serde(skip_serializing_if = "is_default")]
    pub artifact: Option<SourceArtifact>,
    /// `spec.ignore` of the artifact.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_ignore: Option<String>,
    /// The value of the annotation `reconcile.fluxcd.io/requestedAt` that was handled last.
    #[serde(skip_serializing_if = "is_default")]
    pub last_handled_reconcile_at: String,
}
