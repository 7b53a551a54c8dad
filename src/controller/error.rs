//! Why a reconcile failed, and what to do about it.

use std::time::Duration;

use chart_compat::render;

use crate::backoff;
use crate::cluster::ClusterError;
use crate::release::{Disposition, EngineError};
use crate::render::replay;

/// A failure that only a change can end is retried this seldom.
const STALLED_DELAY: Duration = Duration::from_secs(300);
/// A failure that ends by itself is retried after this time.
const WAIT_DELAY: Duration = Duration::from_secs(5);

/// Why a job of a release failed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The chart cannot be loaded or used.
    #[error("{0}")]
    Chart(String),
    /// The configuration of the release cannot be used; the text names the object.
    #[error("{0}")]
    Config(String),
    /// The values do not satisfy their schema.
    #[error("values: {0}")]
    Values(String),
    /// A shell hook failed; the text names it.
    #[error("{0}")]
    Hook(String),
    #[error("render: {0}")]
    Render(#[from] render::Error),
    /// The generated values of the release (passwords, certificates) cannot be read or stored.
    #[error("{0}")]
    Replay(String),
    #[error("{}", super::hints::engine_text(.0))]
    Engine(#[from] EngineError),
    #[error("cluster: {0}")]
    Cluster(#[from] ClusterError),
    /// A failure with a reason of the front end's own.
    #[error("{text}")]
    Reason {
        /// One CamelCase word.
        reason: &'static str,
        /// What failed, for people.
        text: String,
        /// What to do about it.
        disposition: Disposition,
    },
    /// The job's task panicked or was aborted.
    #[error("the task ended unexpectedly: {0}")]
    Task(String),
}

impl From<replay::Error> for ReconcileError {
    fn from(error: replay::Error) -> Self {
        match error {
            replay::Error::Render(e) => Self::Render(e),
            other @ replay::Error::GeneratedValues(_) => Self::Replay(other.to_string()),
        }
    }
}

impl ReconcileError {
    /// Whether to retry, wait or stall.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Chart(_) | Self::Config(_) | Self::Values(_) | Self::Render(_) => Disposition::Stall,
            Self::Engine(e) => e.disposition(),
            Self::Reason { disposition, .. } => *disposition,
            Self::Cluster(_) | Self::Task(_) | Self::Replay(_) | Self::Hook(_) => Disposition::Retry,
        }
    }

    /// How long to wait before the next try, after this many failures in a row.
    #[must_use]
    pub fn retry_delay(&self, failures: u32) -> Duration {
        match self.disposition() {
            Disposition::Stall => STALLED_DELAY,
            Disposition::Wait => WAIT_DELAY,
            Disposition::Retry | Disposition::Ignore => backoff::delay(failures),
        }
    }

    /// One CamelCase word for a condition.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Chart(_) => "ChartInvalid",
            Self::Config(_) => "ConfigInvalid",
            Self::Values(_) => "ValuesInvalid",
            Self::Hook(_) => "HookFailed",
            Self::Render(_) | Self::Replay(_) => "RenderFailed",
            Self::Engine(_) => "ReleaseFailed",
            Self::Cluster(_) => "ClusterFailed",
            Self::Reason { reason, .. } => reason,
            Self::Task(_) => "TaskFailed",
        }
    }
}
