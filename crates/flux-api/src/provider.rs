//! `Provider`, `notification.toolkit.fluxcd.io/v1beta3`: a service that takes events. It has no status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::common::{LocalObjectReference, SHORT_DURATION, is_default};

/// Which service, and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.type == 'github' || self.type == 'gitlab' || self.type == 'gitea' || self.type == 'bitbucketserver' || self.type == 'bitbucket' || self.type == 'azuredevops' || !has(self.commitStatusExpr)",
    "message": "commitStatusExpr needs the type github, gitlab, gitea, bitbucketserver, bitbucket or azuredevops",
}]))]
pub struct ProviderSpec {
    /// Kind of the service.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = [
        "slack", "discord", "msteams", "rocket", "generic", "generic-hmac", "github", "gitlab", "gitea",
        "giteapullrequestcomment", "bitbucketserver", "bitbucket", "azuredevops", "googlechat", "googlepubsub", "webex",
        "sentry", "azureeventhub", "telegram", "lark", "matrix", "opsgenie", "alertmanager", "grafana", "githubdispatch",
        "githubpullrequestcomment", "gitlabmergerequestcomment", "pagerduty", "datadog", "nats", "zulip", "otel",
    ]))]
    pub provider_type: String,
    /// Deprecated: nothing reads it.
    #[serde(skip_serializing_if = "is_default")]
    pub interval: Option<GoDuration>,
    /// Channel of the service.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 2048))]
    pub channel: String,
    /// Name to post under.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 2048))]
    pub username: String,
    /// Address of the service: a URL, or a project or namespace, whatever the type has.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 2048))]
    pub address: String,
    /// Time limit of sending an event.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("pattern" = SHORT_DURATION))]
    pub timeout: Option<GoDuration>,
    /// URL of the proxy to go through. Deprecated: use `proxySecretRef`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 2048), regex(pattern = "^(http|https)://.*$"))]
    pub proxy: String,
    /// Secret with the proxy to go through: `address`, and `username` and `password` if it wants them.
    #[serde(skip_serializing_if = "is_default")]
    pub proxy_secret_ref: Option<LocalObjectReference>,
    /// Secret with credentials of the service.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<LocalObjectReference>,
    /// ServiceAccount whose identity the service takes, for the types azureeventhub, azuredevops and googlepubsub. Without it the
    /// controller's own is used.
    #[serde(skip_serializing_if = "is_default")]
    pub service_account_name: String,
    /// Secret with a client certificate (`tls.crt`, `tls.key`), a CA certificate (`ca.crt`), or both, in PEM. Its keys `certFile`,
    /// `keyFile` and `caFile` are deprecated.
    #[serde(skip_serializing_if = "is_default")]
    pub cert_secret_ref: Option<LocalObjectReference>,
    /// Send nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// CEL that makes the name of a commit status, over `event`, `provider` and `alert`. Only for types that write commit statuses.
    #[serde(skip_serializing_if = "is_default")]
    pub commit_status_expr: String,
}
