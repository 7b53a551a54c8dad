//! Why a reconcile failed, and what to do about it.

use std::collections::BTreeSet;
use std::time::Duration;

use chart_compat::render;

use super::release_runner::RenderInputs;
use windlass_base::backoff;
use windlass_cluster::{ClusterError, Gvk};
use windlass_engine::{Disposition, EngineError, ReleaseId};

/// A failure that only a change can end is retried this seldom, unless the object has an interval.
pub const STALLED_DELAY: Duration = Duration::from_secs(300);
/// Failing passes of an object with a shorter interval are this far apart.
pub const SHORTEST_INTERVAL: Duration = Duration::from_secs(5);
/// An operation that another one blocks is retried after this time.
pub const WAIT_DELAY: Duration = Duration::from_secs(5);
/// A dependency whose change triggers a reconcile is checked again after this time, unless the object has an interval.
pub const DEPENDENCY_DELAY: Duration = Duration::from_secs(60);

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
    #[error("render: {error}")]
    Render {
        /// Why.
        error: Box<render::Error>,
        /// What was looked up: another answer may make the render succeed.
        inputs: Option<Box<RenderInputs>>,
    },
    /// The generated values of the release (passwords, certificates) cannot be read or stored.
    #[error("{0}")]
    Replay(String),
    #[error("{}", super::hints::engine_text(.0, super::hints::HintsFor::Operator))]
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
    /// Several releases of one object failed.
    #[error("{}", .0.iter().map(|(id, error)| format!("release {id}: {error}")).collect::<Vec<_>>().join("; "))]
    Releases(Vec<(ReleaseId, ReconcileError)>),
    /// The job's task panicked or was aborted.
    #[error("the task ended unexpectedly: {0}")]
    Task(String),
}

impl From<render::Error> for ReconcileError {
    fn from(error: render::Error) -> Self {
        Self::Render { error: Box::new(error), inputs: None }
    }
}

impl ReconcileError {
    /// Whether to retry, wait or stall.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Chart(_) | Self::Config(_) | Self::Values(_) | Self::Render { .. } => Disposition::Stall,
            Self::Engine(e) => e.disposition(),
            Self::Reason { disposition, .. } => *disposition,
            Self::Releases(all) => {
                let stalls = all.iter().all(|(_, error)| error.disposition() == Disposition::Stall);
                if stalls { Disposition::Stall } else { Disposition::Retry }
            }
            Self::Cluster(_) | Self::Task(_) | Self::Replay(_) | Self::Hook(_) => Disposition::Retry,
        }
    }

    /// How long to wait before the next try, after this many failures in a row. `interval`: how often the object is reconciled anyway.
    #[must_use]
    pub fn retry_delay(&self, failures: u32, interval: Option<Duration>) -> Duration {
        match self.disposition() {
            Disposition::Stall => interval.unwrap_or(STALLED_DELAY),
            Disposition::Wait => WAIT_DELAY,
            Disposition::Dependency { .. } => interval.unwrap_or(DEPENDENCY_DELAY),
            Disposition::Retry | Disposition::Ignore => {
                // A pass also looks for a new state of its source, as often as the object asks for.
                let interval = interval.map_or(backoff::LONGEST, |own| own.max(SHORTEST_INTERVAL));
                backoff::delay(failures).min(interval)
            }
        }
    }

    /// Whether the failure is an expected state that ends by itself: another operation runs, or a dependency is not ready yet.
    #[must_use]
    pub fn is_wait(&self) -> bool {
        matches!(self.disposition(), Disposition::Wait | Disposition::Dependency { failed: false })
    }

    /// Whether the API server forbade a request.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_forbidden(),
            Self::Cluster(error) => error.is_forbidden(),
            Self::Releases(all) => all.iter().any(|(_, error)| error.is_forbidden()),
            _ => false,
        }
    }

    /// The kinds that the API server does not serve, and without which the pass cannot succeed.
    #[must_use]
    pub fn missing_kinds(&self) -> BTreeSet<Gvk> {
        match self {
            Self::Engine(error) => error.missing_kinds(),
            Self::Cluster(ClusterError::NoKind(gvk)) => BTreeSet::from([(**gvk).clone()]),
            Self::Releases(all) => all.iter().flat_map(|(_, error)| error.missing_kinds()).collect(),
            _ => BTreeSet::new(),
        }
    }

    /// Takes out what failed renders have looked up: a change of it triggers a reconcile.
    pub fn take_inputs(&mut self) -> Option<RenderInputs> {
        match self {
            Self::Render { inputs, .. } => inputs.take().map(|inputs| *inputs),
            Self::Releases(all) => {
                let found = all.iter_mut().filter_map(|(_, error)| error.take_inputs());
                found.reduce(|one, other| one.merged(other))
            }
            _ => None,
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
            Self::Render { .. } | Self::Replay(_) => "RenderFailed",
            Self::Engine(_) | Self::Releases(_) => "ReleaseFailed",
            Self::Cluster(_) => "ClusterFailed",
            Self::Reason { reason, .. } => reason,
            Self::Task(_) => "TaskFailed",
        }
    }
}
