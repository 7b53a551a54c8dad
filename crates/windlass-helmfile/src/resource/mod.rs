//! The `Helmfile` resource: a helmfile that is kept deployed.
//!
//! Owns the API type, the mapping from an object to the releases of its state files, and the mapping from outcomes to its status. When
//! a pass is due is `controller`'s; state files are `helmfile::state`'s. Knows no manifest.
//!
//! - [`api`]: spec and status; [`definition`]: the CustomResourceDefinition
//! - `object_inputs`: Secrets that an object refers to; `confined_host`: what its state files may ask of the outside
//! - `evaluation`: from the spec to the releases, in order; `deployment`: the releases, deployed and pruned
//! - [`helmfiles`]: the front end; [`custom_kinds`]: kinds of users that stand for Helmfiles

pub mod api;
mod confined_host;
pub mod custom_kinds;
pub mod definition;
mod deployment;
mod evaluation;
pub mod helmfiles;
mod object_inputs;

pub use custom_kinds::{CustomKind, KindsFile};
pub use helmfiles::{DefaultBundle, HelmfileOptions, Helmfiles};
