//! Front end for Flux's HelmReleases: the API of helm-controller on this project's engine.
//!
//! Owns the state machine of a HelmRelease, its status and its digests, equal to helm-controller's. Charts come from the artifacts
//! of Flux's sources, which a source-controller provides. Knows no manifest and no object of a release.

mod actions;
mod chart_artifact;
mod chart_object;
mod controller_differences;
mod dependency;
mod digest;
mod drift_rules;
mod event_annotations;
mod helm_releases;
mod names;
mod object;
mod options;
mod pass_inputs;
mod record_repair;
mod release_conditions;
mod release_inputs;
mod release_ownership;
mod release_plan;
mod release_state;
mod remediation;
mod remote_cluster;
mod remote_identity;
mod repository_chart;
mod snapshot;
mod stored_release;
mod unrecorded;
mod values;
mod values_lookup;

pub use controller_differences::{Difference, differences};
pub use helm_releases::{HelmReleaseOptions, HelmReleases, KIND};
pub use record_repair::{acts_in, misnamed_records, origin_of};
pub use release_plan::{CHART_UNAVAILABLE, PassAction, PlanInputs, ReleasePlan};
pub use stored_release::{StoredRelease, drift_plan};
