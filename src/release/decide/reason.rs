//! Why the engine does what it does: one of a few reasons, each with its sentence. Plain data.

use crate::release::record::ReleaseStatus;
use std::fmt;

/// Why an action was taken. [`fmt::Display`] gives the sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionReason {
    /// There is no release of the name.
    Absent,
    /// The release was uninstalled, and its history kept.
    Uninstalled,
    /// The newest revision has the state that is asked for, and did not come to its end.
    Unfinished { revision: u64, status: ReleaseStatus },
    /// The newest revision has the state that is asked for; whoever deployed it died before the last writes.
    Unsettled { revision: u64 },
    /// The newest revision failed or was uninstalled, and its name may be used again.
    Replaced { revision: u64, status: ReleaseStatus },
    /// No revision was ever deployed.
    NeverDeployed { revision: u64, status: ReleaseStatus },
    /// The newest revision has the state that is asked for.
    Same { revision: u64 },
    /// The newest revision has the state that is asked for, and a new one was wanted.
    Repeated { revision: u64 },
    /// The newest revision has another state.
    Differs { revision: u64 },
    /// The newest revision is not deployed.
    NotDeployed { revision: u64, status: ReleaseStatus },
    /// An old revision is wanted back.
    RolledBack { to: u64 },
    /// Nothing changed since the revision was deployed, and nothing moved in the cluster.
    Quiet { revision: u64 },
    /// The deployed revision is what the cluster is to have.
    Deployed { revision: u64 },
    /// So many objects were not as the revision has them.
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
                write!(f, "revision {revision} of the same state was deployed by who died then")
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
            Self::Quiet { revision } => {
                write!(f, "revision {revision} has the same objects and hooks, and nothing moved")
            }
            Self::Deployed { revision } => write!(f, "revision {revision} is deployed"),
            Self::Drifted { revision, objects } => {
                write!(f, "{objects} objects were not as revision {revision} has them")
            }
        }
    }
}

/// Why an object that left the chart, or whose release is uninstalled, stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptReason {
    /// Its ownership marks name someone else, or nobody.
    NotOwned,
    /// `helm.sh/resource-policy: keep`.
    Policy,
}

impl fmt::Display for KeptReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOwned => "it is not owned by this release",
            Self::Policy => "its resource policy says keep",
        })
    }
}
