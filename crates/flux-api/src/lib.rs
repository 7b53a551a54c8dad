//! Types of Flux's API with the field names of the JSON, and the CustomResourceDefinitions that are made of them.
//!
//! Owns the spec and status of each kind, and what the API server checks of them. Knows nothing of what controllers do with an
//! object. Reading is lenient: a field that is absent has its empty value, for the API server has checked what is required. A
//! field without `skip_serializing_if` is one that the CRD requires.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod alert;
pub mod api_names;
pub mod bucket_source;
pub mod common;
pub mod crds;
pub mod external_artifact;
pub mod git_repository;
pub mod helm_chart;
pub mod helm_release;
pub mod helm_release_actions;
pub mod helm_release_status;
pub mod helm_repository;
pub mod oci_repository;
pub mod provider;
pub mod receiver;
pub mod status_conditions;

pub use api_types::GoDuration;
