//! The operator runtime: keyed work, triggers, and the way from a release spec to an outcome.
//!
//! Owns when a release is reconciled and what a front end need not do itself. Knows no custom resource and no ConfigMap of a
//! front end: those bring what to watch, how an object becomes a request, and how an outcome becomes a status.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answer_watch;
mod busy_releases;
mod compact_object;
mod conditions;
mod controller_context;
mod crds;
mod custom_kind;
pub mod dependencies;
mod drift_policy;
mod error;
mod events;
mod failure_log;
mod finalizer;
mod front_end;
mod hints;
mod image_values;
mod keel_block;
mod kept_requests;
mod kind_events;
mod log_progress;
mod missing_rights;
mod namespace_turns;
mod object_rights;
mod pull_secrets;
mod pushed_images;
mod reconcile_loop;
mod reconcile_pass;
mod related_objects;
mod release_claims;
mod release_runner;
mod release_settings;
mod render_revision;
mod rights;
mod secret_data;
pub mod serve;
mod shared_changes;
mod target;
mod tenant_account;
mod unread_records;
mod values_from;
mod work_queue;
mod worker_slot;
mod workers;

pub use busy_releases::{BusyRelease, BusyReleases};
pub use conditions::{Condition, Phase, ReadyState, set_conditions};
pub use controller_context::{ContextOptions, ControllerContext};
pub use crds::contains;
pub use crds::{crd_files, report_kept_crds};
pub use custom_kind::{register_absent_kind, register_kind};
pub use drift_policy::{MAX_IGNORE_RULES, drift_policy_of, report_drift};
pub use error::ReconcileError;
pub use error::{DEPENDENCY_DELAY, SHORTEST_INTERVAL, STALLED_DELAY, WAIT_DELAY};
pub use events::{EventNote, EventRecorder, EventSink, EventType};
pub use failure_log::{FailureLog, MODULES, PassFailure};
pub use failure_log::{OWN_LINES, REPEAT, WINDOW};
pub use front_end::{
    Dependencies, DurationMetric, FrontEnd, Reconciled, References, RelatedObjects, Report, Requeue, jittered,
};
pub use hints::{HintsFor, engine_text};
pub use image_values::{
    IMAGE_OVERRIDES, IMAGE_VALUES, ImageAnnotations, ImageOverride, ImageOverrides, ImagePaths, ImageValue,
    ImageValues, MAX_IMAGES,
};
pub use missing_rights::{
    ChartArguments, MISSING_RIGHTS, MissingRights, account_of, missing_rights, missing_rights_error,
    release_rights, user_lacks,
};
pub use namespace_turns::NamespaceTurns;
pub use object_rights::{
    NAMED_VERBS, OBJECT_VERBS, PlacedObject, UNNAMED_VERBS, object_rights, record_rights,
};
pub use pull_secrets::{AccountState, PullSecretOwner, PullSecretState};
pub use pushed_images::{PushedImages, PushedRepository};
pub use reconcile_loop::DEPENDENCY_INTERVAL;
pub use reconcile_loop::{ControllerOptions, run};
pub use reconcile_pass::ReconcilePass;
pub use related_objects::RelatedWatch;
pub use release_runner::{Done, PostRender, ReleaseRunner, ReleaseSpec, RenderInputs, capabilities};
pub use release_settings::{AllReleaseSettings, ChangedSettings, ReleaseSettings, ValueSettings};
pub use render_revision::RevisionView;
pub use rights::{RBAC_GROUP, Right, RightScope, RightSet};
pub use secret_data::{SecretData, SecretReadError};
pub use target::{ReleaseActor, ReleaseTarget, ServiceAccountRef, is_dns_label};
pub use tenant_account::{AccountName, TenantAccount};
pub use values_from::{
    MissingText, ResolvedValues, ValuesReference, check_kind as check_values_kind, resolve as resolve_values,
};
pub use work_queue::{Gate, Job, QueuedJob, WorkQueue};
pub use worker_slot::WorkerSlot;
pub use workers::until;
pub use workers::{WorkerEvent, Workers};

pub use windlass_engine::Disposition;

/// Field manager of statuses, finalizers, Events and the definitions of our own kinds.
pub const STATUS_MANAGER: &str = "windlass-status";
