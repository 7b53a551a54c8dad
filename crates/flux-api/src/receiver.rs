//! `Receiver`, `notification.toolkit.fluxcd.io/v1`: a webhook that lets objects be reconciled at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::common::{CrossNamespaceObjectReference, LocalObjectReference, StatusCondition, is_default};

/// Who calls the webhook, and which objects are reconciled then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.type != 'generic-oidc' || (has(self.oidcProviders) && size(self.oidcProviders) > 0)",
        "message": "the type generic-oidc needs oidcProviders",
    },
    {
        "rule": "self.type == 'generic-oidc' || !has(self.oidcProviders) || size(self.oidcProviders) == 0",
        "message": "oidcProviders needs the type generic-oidc",
    },
    {
        "rule": "self.type != 'generic-oidc' || !has(self.secretRef)",
        "message": "secretRef cannot be set if the type is generic-oidc",
    },
    {
        "rule": "self.type == 'generic-oidc' || has(self.secretRef)",
        "message": "every type but generic-oidc needs secretRef",
    },
]))]
pub struct ReceiverSpec {
    /// Who calls: how a request is checked and read.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = [
        "generic", "generic-hmac", "generic-oidc", "github", "gitlab", "bitbucket", "harbor", "dockerhub", "quay", "gcr",
        "nexus", "acr", "cdevents",
    ]))]
    pub receiver_type: String,
    /// How often the Secrets are read again.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-default" = "10m"))]
    pub interval: Option<GoDuration>,
    /// Events of the caller that count, such as `push` of GitHub.
    #[serde(skip_serializing_if = "is_default")]
    pub events: Vec<String>,
    /// The objects that are reconciled.
    pub resources: Vec<ReceiverResource>,
    /// CEL that tells for each object whether it is reconciled, over `res` (the object's metadata), `req` (the request's body) and,
    /// for the type generic-oidc, `claims`. An expression that is wrong stops the Receiver.
    #[serde(skip_serializing_if = "is_default")]
    pub resource_filter: String,
    /// Secret whose `token` requests are checked with. The type gcr needs `email` and `audience` too. Every type needs it but
    /// generic-oidc, which has none.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<LocalObjectReference>,
    /// OpenID Connect providers whose tokens requests may have. Only for the type generic-oidc; the token's `iss` chooses one.
    #[serde(rename = "oidcProviders", skip_serializing_if = "is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["issuerURL"]))]
    pub oidc_providers: Vec<OidcProvider>,
    /// Ignore requests.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
}

/// Objects of one of Flux's kinds: one by its name, or several by labels, less what a filter refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReceiverResource {
    /// The objects.
    #[serde(flatten)]
    pub reference: CrossNamespaceObjectReference,
    /// CEL as that of `resourceFilter`, for these objects alone. Both must be true.
    #[serde(skip_serializing_if = "is_default")]
    pub filter: String,
}

/// An OpenID Connect provider, and what its tokens must say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OidcProvider {
    /// URL of the issuer, as the token's `iss` has it. The provider is discovered there.
    #[serde(rename = "issuerURL")]
    #[schemars(regex(pattern = "^https?://"))]
    pub issuer_url: String,
    /// The token's `aud`; `notification-controller` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub audience: String,
    /// Parts that validations share, computed in this order. An expression sees `claims` and the variables before it.
    #[serde(skip_serializing_if = "is_default")]
    pub variables: Vec<OidcVariable>,
    /// What must be true of a token. A signature says only that the provider made it, and public ones make tokens for anybody: name
    /// the claims of who may call.
    #[schemars(length(min = 1))]
    pub validations: Vec<OidcValidation>,
}

/// A part that validations share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OidcVariable {
    /// Name, an identifier of CEL; expressions see it as `vars.NAME`.
    pub name: String,
    /// CEL that makes the value.
    pub expression: String,
}

/// What must be true of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OidcValidation {
    /// CEL over `claims` and `vars`.
    pub expression: String,
    /// Message of the error if the expression is false.
    pub message: String,
}

/// Status of the webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReceiverStatus {
    /// The value of the annotation `reconcile.fluxcd.io/requestedAt` that was handled last.
    #[serde(skip_serializing_if = "is_default")]
    pub last_handled_reconcile_at: String,
    /// Conditions of the webhook.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<StatusCondition>,
    /// Path of the webhook: `/hook/` and the SHA-256 of token, name and namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub webhook_path: String,
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
}
