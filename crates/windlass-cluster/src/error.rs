//! Errors of the API client, as far as callers distinguish them.

use super::object_ref::Gvk;
use serde::Deserialize;

pub type Result<T, E = ClusterError> = std::result::Result<T, E>;

/// The reason of a failure whose text is too large to be read: nothing follows from it but its code.
pub(super) const OVERSIZED: &str = "AnswerTooLarge";

/// A failure of talking to a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No kubeconfig, no in-cluster environment, or a broken one.
    #[error("Kubernetes cluster unreachable: {0}")]
    Config(String),
    /// A failure on our side.
    #[error("{0}")]
    Other(String),
    /// The request never got an answer.
    #[error("Kubernetes cluster unreachable: {request}: {reason}")]
    Unreachable { request: String, reason: String },
    /// The server did not answer in time.
    #[error("{request}: no answer within {seconds}s")]
    Timeout { request: String, seconds: u64 },
    /// The server answered with a failure; the text is the server's own.
    #[error("{}", .0.message)]
    Api(Box<ApiStatus>),
    /// The server kept throttling the request.
    #[error("{request}: the API server throttled requests for {seconds}s: {}", .status.message)]
    Throttled { request: String, seconds: u64, status: Box<ApiStatus> },
    /// A name or namespace that no object can have, and that would change the path of the request.
    #[error("{kind}: {name:?} is not a name of an object or namespace")]
    Name { kind: String, name: String },
    /// The cluster serves no such kind.
    #[error("no matches for kind \"{}\" in version \"{}\"", .0.kind, .0.api_version())]
    NoKind(Box<Gvk>),
    /// The answer violates the API.
    #[error("{path}: unexpected answer: {reason}")]
    Answer { path: String, reason: String },
    /// The answer is larger than what is read of it.
    #[error("{path}: unexpected answer: more than {most}")]
    TooLarge { path: String, most: String },
    /// A wait for a condition ran out of time.
    #[error("timed out waiting for {what}")]
    WaitTimeout { what: String },
}

/// The `Status` object of a failed request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ApiStatus {
    pub code: u16,
    pub reason: String,
    pub message: String,
    pub details: StatusDetails,
}

/// Details of a failure: the causes name fields and managers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusDetails {
    pub causes: Vec<StatusCause>,
    pub retry_after_seconds: u64,
}

/// One cause: for apply conflicts `field` is a path and `message` names the manager.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

impl ClusterError {
    fn status(&self) -> Option<&ApiStatus> {
        match self {
            Self::Api(status) | Self::Throttled { status, .. } => Some(status),
            _ => None,
        }
    }

    pub fn code(&self) -> Option<u16> {
        self.status().map(|s| s.code)
    }

    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|s| s.code == 409 && s.reason == "AlreadyExists")
    }

    /// Another writer was faster, or owns a field that we apply.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|s| s.code == 409 && s.reason != "AlreadyExists" && s.reason != OVERSIZED)
    }

    /// Server-side apply met fields of another manager.
    pub fn is_apply_conflict(&self) -> bool {
        self.is_conflict()
            && self
                .status()
                .is_some_and(|s| s.details.causes.iter().any(|c| c.reason == "FieldManagerConflict"))
    }

    /// The causes of the server's error, one by one: for apply conflicts the fields.
    pub fn causes(&self) -> &[StatusCause] {
        self.status().map_or(&[], |s| s.details.causes.as_slice())
    }

    pub fn is_invalid(&self) -> bool {
        self.code() == Some(422)
    }

    /// Server-side apply could not read the object: unknown fields, or duplicate list keys. The code is a server
    /// error's; only the text identifies it.
    pub fn is_malformed(&self) -> bool {
        self.status().is_some_and(|s| s.message.starts_with("failed to create typed patch object"))
    }

    pub fn is_forbidden(&self) -> bool {
        matches!(self.code(), Some(401 | 403))
    }

    /// A list was requested at a resource version that the server has not reached in time.
    pub fn is_version_of_the_future(&self) -> bool {
        self.causes().iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
    }

    /// A temporary refusal: a quota that was updated at the same time, a namespace whose service account does not
    /// exist yet, for which the server has a text alone.
    pub fn is_settling(&self) -> bool {
        let account = |s: &ApiStatus| s.code == 403 && s.message.contains("error looking up service account");
        self.is_conflict() || self.status().is_some_and(account)
    }

    /// A namespace that is being deleted accepts no new objects.
    pub fn is_terminating(&self) -> bool {
        self.code() == Some(403) && self.causes().iter().any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// A retry may succeed without any change.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Throttled { .. }
            | Self::WaitTimeout { .. } => true,
            Self::Api(s) => {
                let code = matches!(s.code, 408 | 409 | 410 | 429 | 500..) && !self.is_malformed();
                (code && s.reason != OVERSIZED) || self.is_terminating()
            }
            Self::Config(_)
            | Self::Other(_)
            | Self::Name { .. }
            | Self::NoKind(_)
            | Self::Answer { .. }
            | Self::TooLarge { .. } => false,
        }
    }
}
