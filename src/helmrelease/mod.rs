//! Front end for Flux's HelmReleases: the API of helm-controller on this project's engine.
//!
//! Owns the state machine of a HelmRelease, its status and its digests, equal to helm-controller's. Charts come from the artifacts
//! of Flux's sources, which a source-controller provides. Knows no manifest and no object of a release.

mod actions;
mod chart_artifact;
mod dependency;
mod digest;
mod drift_rules;
mod helm_releases;
mod names;
mod options;
mod register;
mod release_conditions;
mod release_state;
mod snapshot;
mod values;

pub use chart_artifact::LocalArtifacts;
pub use helm_releases::{HelmReleaseOptions, HelmReleases, KIND};
pub use register::register;
