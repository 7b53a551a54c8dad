//! Front end for Flux's HelmReleases: the API of helm-controller on this project's engine.
//!
//! Owns the state machine of a HelmRelease, its status and its digests, equal to helm-controller's. Charts come from the artifacts
//! of Flux's sources, which a source-controller provides. Knows no manifest and no object of a release.

mod actions;
pub mod api;
mod artifact;
mod conditions;
mod dependency;
mod digest;
mod front_end;
mod names;
mod options;
mod snapshot;
mod state;
mod values;

pub use front_end::{HelmReleaseOptions, HelmReleases, KIND};
