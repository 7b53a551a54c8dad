//! The only access to a Kubernetes API server: connections, discovery, objects and watches.
//!
//! The only user of the Kubernetes client. Knows nothing of releases, charts or Helm beyond the ownership metadata
//! that it reads from an object.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod access_review;
mod api_client;
mod api_time;
mod discovery;
mod error;
mod follow_named;
mod kind_watch;
mod kubeconfig_list;
mod leader_election;
mod lease;
mod list_pages;
mod logs_and_events;
mod managed_fields;
mod metadata_cache;
mod nesting_bound;
mod object_api;
mod object_meta;
mod object_ref;
mod object_stream;
mod object_write;
mod observed_meta;
mod remote_kubeconfig;
mod request_limits;
mod request_metrics;
mod retry;
mod service_proxy;
mod subresource;

pub use access_review::AccessQuery;
pub use api_client::{Cluster, ConnectOptions};
pub use api_time::{api_now, api_time};
pub use discovery::{ServedKinds, ServedResource};
pub use error::{ApiStatus, ClusterError, Result, StatusCause};
pub use follow_named::{Followed, POLL};
pub use kind_watch::KindWatch;
pub use leader_election::LEASE_DURATION as LEADER_LEASE;
pub use leader_election::{Election, Leadership};
pub use lease::{
    HeldLease, MANAGER as LEASE_MANAGER, Pace, SettledPace, body as lease_body, duration as lease_duration,
    holder as lease_holder,
};
pub use managed_fields::{Folded, fold_managers, needs_folding, without_orphans};
pub use metadata_cache::{CacheEvent, CacheLookup, WatchScope, Watches};
pub use nesting_bound::{MAX_NESTING, has_omitted_values};
pub use object_api::{Applied, ApplyOptions, DeleteOptions, Deleted, Listed, Propagation, Validation};
pub use object_meta::ObjectMeta;
pub use object_ref::{Gvk, ObjectKey, ObjectRef};
pub use object_stream::ObjectEvent;
pub use object_write::WriteOptions;
pub use observed_meta::{ObservedMeta, drift_of};
pub use request_metrics::{CompletedRequest, RequestObserver};
pub use subresource::PatchKind;
