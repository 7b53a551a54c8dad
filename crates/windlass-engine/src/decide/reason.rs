//! Why the engine chose an action: a sentence for each reason. Plain data.

use crate::record::ReleaseStatus;
use std::fmt;

/// Why an action was taken. [`fmt::Display`] gives the sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionReason {
    /// There is no release of the name.
    Absent,
    /// The release was uninstalled, and its history kept.
    Uninstalled,
    /// The newest revision has the desired state and is unfinished.
    Unfinished { revision: u64, status: ReleaseStatus },
    /// The newest revision has the desired state; its writer crashed before the last writes.
    Unsettled { revision: u64 },
    /// The newest revision failed or was uninstalled, and its name may be reused.
    Replaced { revision: u64, status: ReleaseStatus },
    /// No revision was ever deployed.
    NeverDeployed { revision: u64, status: ReleaseStatus },
    /// The newest revision has the desired state.
    Same { revision: u64 },
    /// The newest revision has the desired state, and a new one was requested.
    Repeated { revision: u64 },
    /// The newest revision has another state.
    Differs { revision: u64 },
    /// The newest revision is not deployed.
    NotDeployed { revision: u64, status: ReleaseStatus },
    /// A rollback was requested.
    RolledBack { to: u64 },
    /// Nothing changed since the revision was deployed, neither the request nor the cluster.
    UpToDate { revision: u64 },
    /// The deployed revision is the desired state.
    Deployed { revision: u64 },
    /// This many objects had drifted from the revision.
    Drifted { revision: u64, objects: usize },
}

impl fmt::Display for ActionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Absent => write!(f, "the release does not exist"),
            Self::Uninstalled => write!(f, "the release was uninstalled"),
            Self::Unfinished { revision, status } => {
                write!(f, "revision {revision} of the same state is {status}")
            }
            Self::Unsettled { revision } => {
                write!(f, "revision {revision} of the same state was deployed, but its writer crashed")
            }
            Self::Replaced { revision, status } => {
                write!(f, "revision {revision} is {status} and may be replaced")
            }
            Self::NeverDeployed { revision, status } => {
                write!(f, "revision {revision} is {status}, and no earlier one was ever deployed")
            }
            Self::Same { revision } => write!(f, "revision {revision} has the same objects and hooks"),
            Self::Repeated { revision } => {
                write!(f, "a new revision was asked for from revision {revision}")
            }
            Self::Differs { revision } => write!(f, "objects or hooks differ from revision {revision}"),
            Self::NotDeployed { revision, status } => write!(f, "revision {revision} is {status}"),
            Self::RolledBack { to } => write!(f, "a rollback to revision {to} was asked for"),
            Self::UpToDate { revision } => {
                write!(f, "revision {revision} has the same objects and hooks, and nothing moved")
            }
            Self::Deployed { revision } => write!(f, "revision {revision} is deployed"),
            Self::Drifted { revision, objects } => {
                write!(f, "{objects} objects were not as revision {revision} has them")
            }
        }
    }
}

/// Why an object that left the chart, or whose release is uninstalled, is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptReason {
    /// Its ownership metadata names another release, or none.
    NotOwned,
    /// `helm.sh/resource-policy: keep`.
    Policy,
    /// A live workload refers to it; deleted by a later request.
    Referenced,
    /// A CRD that the chart has in `crds/` now: it is no longer deleted with the release.
    InCrdsDir,
}

impl fmt::Display for KeptReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOwned => "it is not owned by this release",
            Self::Policy => "its resource policy says keep",
            Self::Referenced => "live workloads refer to it",
            Self::InCrdsDir => "crds/ of the chart has it, and it is kept with its objects",
        })
    }
}
