//! The one door to a Kubernetes API server: connections, discovery, objects and watches.
//!
//! The only user of the Kubernetes client. Knows nothing of releases, charts or Helm beyond the ownership marks that
//! it copies out of an object's metadata.

mod client;
mod counted;
mod discovery;
mod error;
mod follow;
mod inspect;
mod leader;
mod lease;
mod manage;
mod objects;
mod parts;
mod refs;
mod retry;
mod seen;
mod wait;
mod watch;

pub use client::{Cluster, ConnectOptions};
pub use counted::{Exchange, Observer};
pub use discovery::{Kinds, Resource};
pub use error::{ApiStatus, ClusterError, Result, StatusCause};
pub(crate) use follow::{Followed, POLL};
pub use leader::{Election, Leadership};
pub(crate) use lease::{
    Held, MANAGER as LEASE_MANAGER, Pace, body as lease_body, duration as lease_duration,
    holder as lease_holder,
};
pub use manage::{fold_managers, is_helm_manager, needs_folding, without_orphans};
pub use objects::{Applied, ApplyOptions, DeleteOptions, Deleted, Listed, Propagation, Validation};
pub use parts::PatchKind;
pub use refs::{Gvk, Key, ObjectRef};
pub use seen::{Seen, drift_of};
pub use wait::Event as ObjectEvent;
pub use watch::{Change, Lookup, WatchScope, Watches};
