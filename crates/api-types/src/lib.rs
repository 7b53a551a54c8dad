//! What the types of custom resources have in common.
//!
//! Owns structural schemas of Rust types and CustomResourceDefinitions with them, durations in Go's form, and label selectors. Knows no kind.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod go_duration;
mod kind_definition;
mod label_selector;
pub mod openapi_schema;

pub use go_duration::GoDuration;
pub use kind_definition::KindDefinition;
pub use label_selector::{LabelRequirement, LabelSelector};
