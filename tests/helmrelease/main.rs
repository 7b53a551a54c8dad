//! HelmReleases of Flux on a real control plane: installs, failures, remediation, drift, deletion, take-over from
//! helm-controller, sources and notifications.

// Helpers outside `#[test]` functions fail like the tests that they serve.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adoption;
mod apply_methods;
mod bad_sources;
mod beside_flux;
mod buckets;
mod checks;
mod commands;
mod config_map_sources;
mod git_logins;
mod helm_charts;
mod identity;
mod lifecycle;
mod nesting;
mod notifications;
mod outages;
mod override_annotation;
mod peer_cases;
mod recorded;
mod recovery;
mod reference_attempts;
mod registration;
mod release_cycles;
mod remote;
mod scale;
mod scenarios;
mod secret_masks;
mod shards;
mod source_attempts;
mod sources;
mod squatting;
mod support;
mod target_namespace;
mod tenants;
