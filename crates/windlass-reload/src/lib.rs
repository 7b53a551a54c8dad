//! Rolls out workloads when the configuration that they use changes, and mounts collected configuration into them.
//!
//! Owns the kinds of workloads, which ConfigMaps, Secrets and SecretProviderClasses each of them follows, and how it is rolled out. Knows
//! no release: it writes annotations under a field manager of its own, which the releases of other managers do not have.
//!
//! - `pod_references`: what the containers of a Pod template use
//! - `reload_annotations`: what a workload asks for, with Reloader's annotations
//! - `collected_configuration`: what is mounted into a directory of workloads that ask for a collection
//! - `configuration_digest`: the digest of an object's data
//! - `followed_objects`: what is kept of workloads and of configuration
//! - `observed_configuration`: what a workload follows now
//! - `reload_decision`: digests that were recorded and those of now: what has changed
//! - `rollout_write`: the writes; `reload_controller`: when

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(missing_docs)]

mod collected_configuration;
mod configuration_digest;
mod followed_objects;
mod observed_configuration;
mod pod_references;
mod reload_annotations;
mod reload_controller;
mod reload_decision;
mod rollout_write;

pub use followed_objects::{CONFIGURATION_KINDS, WORKLOAD_KINDS};
pub use reload_controller::{ReloadOptions, run};
pub use rollout_write::{COLLECTION_MANAGER, MANAGER, RELOADED_FROM};
