//! The release engine: reconciles a release in a cluster with a request, and records it as Helm does.
//!
//! observe → decide → plan → execute → record → watch. [`observe`] reads what there is; `decide` chooses the action; `plan`
//! orders the steps and shows them before they are made; `execute` writes; `drift` compares live objects with the
//! recorded manifest and corrects them; `lock` admits one operation at a time; `record` stores Helm's release records; `report`
//! explains results to people. `decide`, `plan` (but for its dry run), `lock_policy` and the encoding of records are pure.
//! Knows nothing of charts, values, templates, YAML or custom resources: a request carries rendered objects, an outcome lists
//! what was done.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod client_apply;
mod decide;
mod desired_objects;
mod drift;
mod engine;
mod engine_state;
mod error;
mod execute;
mod lock;
mod observe;
mod operation;
mod outcome;
mod plan;
mod reconcile_trigger;
pub mod record;
mod report;
mod request;

pub use decide::ReleaseAction;
pub use decide::reason::{ActionReason, KeptReason};
pub use drift::drift_diff::{Drift, DriftedField};
pub use engine::{Engine, EngineOptions};
pub use error::{Disposition, EngineError, Result, Unready};
pub use execute::crds::departure::DeletedObjects;
pub use execute::crds::require_crds;
pub use execute::release_testing::{PodLog, TestRequest, Tested};
pub use outcome::{ReleaseOutcome, Uninstalled};
pub use plan::dry_run::{ChangeVerb, DecidingOption, PlannedChange, PlannedHook, Preview};
pub use plan::field_conflicts::Conflict;
pub use plan::field_diff::FieldChange;
pub use reconcile_trigger::ReconcileTrigger;
pub use record::record_namespace::{Evidence, MisnamedRecord};
pub use record::release_history::History;
pub use report::operation_progress::{OperationProgress, ProgressListener, WaitListener};
pub use report::plan_text::{field_line, verb_style};
pub use report::revision_report::{ManifestChange, RevisionReport, value_changes};
pub use report::status_resources::Resources;
pub use request::*;
