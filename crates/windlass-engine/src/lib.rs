//! The release engine: reconciles a release in a cluster with a request, and records it as Helm does.
//!
//! observe → decide → plan → execute → record → watch. [`Engine`] has an entry for each operation. Knows nothing of charts, values,
//! templates, YAML or custom resources: a request carries rendered objects, an outcome lists what was done.
//!
//! A folder uses those above it in this list, and no other (`tests/tidy.rs` has the table):
//!
//! - `request` – what a front end requests; `client_apply` – patches; `progress` – what is reported meanwhile
//! - `objects` – identity, owner, order and differences of objects; pure
//! - `record` – Helm's release records and where they are stored
//! - `error` – the errors of all below
//! - `state` – what the engine remembers of releases; `deadline`, `context` – clients, options and caches
//! - `lock` – one operation at a time on a release
//! - `observe` – what there is: objects and the recorded history
//! - `operation` – opens and closes an operation: guard, lock, history, deadline
//! - `decide` – which action, and why; pure
//! - `plan` – which steps, in which order, and how they are shown; pure
//! - `outcome` – what was done; `prepared_plan` – from a decision to a plan, by what is observed
//! - `execute` – writes
//! - `dry_run` – the same writes as server-side dry runs
//! - `drift` – compares live objects with the recorded manifest and corrects them
//! - `report` – releases for people
//! - `engine` – the operations: each puts the steps in order

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod client_apply;
mod context;
mod deadline;
mod decide;
mod drift;
mod dry_run;
mod engine;
mod error;
mod execute;
mod lock;
mod objects;
mod observe;
mod operation;
mod outcome;
mod plan;
mod prepared_plan;
mod progress;
pub mod record;
mod report;
mod request;
mod state;

pub use context::EngineOptions;
pub use decide::ReleaseAction;
pub use decide::reason::{ActionReason, KeptReason};
pub use drift::unchanged::UnchangedRelease;
pub use engine::Engine;
pub use engine::readiness_check::CheckedObjects;
pub use engine::reconcile_trigger::ReconcileTrigger;
pub use engine::release_testing::{PodLog, TestRequest, Tested};
pub use error::{Disposition, EngineError, Result, Unready};
pub use execute::crds::require_crds;
pub use objects::desired_objects::DocumentError;
pub use objects::field_conflicts::Conflict;
pub use objects::field_diff::FieldChange;
pub use objects::followed_images::{IMAGE_MANAGER, REQUESTED_IMAGES};
pub use observe::release_history::History;
pub use outcome::object_drift::{Drift, DriftedField};
pub use outcome::{ReleaseOutcome, Uninstalled};
pub use plan::preview::{ChangeVerb, DecidingOption, DeletedObjects, PlannedChange, PlannedHook, Preview};
pub use progress::operation_progress::{OperationProgress, ProgressListener, WaitListener};
pub use report::plan_text::{field_line, verb_style};
pub use report::record_namespace::{Evidence, MisnamedRecord};
pub use report::release_records::ReleaseRecords;
pub use report::revision_report::{ManifestChange, RevisionReport, value_changes};
pub use report::status_resources::Resources;
pub use request::*;
