//! What the types of custom resources have in common.
//!
//! Owns structural schemas of Rust types, as CustomResourceDefinitions take them, and durations in Go's form. Knows no kind.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod go_duration;
pub mod openapi_schema;

pub use go_duration::GoDuration;
