//! Front ends for Flux's objects.
//!
//! Owns what specs mean, artifacts, events and status. Objects are reconciled by `windlass-controller`, and their types are in `flux-api`.
//!
//! - [`gotk_metrics`]: the metrics that Flux's controllers have
//! - [`helmrelease`]: releases that HelmReleases ask for
//! - [`sources`]: GitRepositories, OCIRepositories, Buckets, HelmRepositories, HelmCharts
//! - [`notifications`]: Alerts, Providers, Receivers and events

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod condition_setter;
mod error;
pub mod gotk_metrics;
pub mod helmrelease;
pub mod notifications;
pub mod sources;

pub use error::FluxError;
