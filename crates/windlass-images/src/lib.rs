//! Rolls out workloads when their images have newer tags or other digests.
//!
//! Owns which images are followed, by which policy, what was rolled out, and how a failed rollout is taken back. Knows no chart: it patches
//! images under a field manager of its own, which the engine leaves alone while the release asks for the same image, or notes them on the
//! object of a release, whose front end sets them over its values. Owns as well
//! when an image of a file of a Maven repository is built anew.
//!
//! - `image_reference`: images as Docker writes them
//! - `update_policy`, `time_window`: which tag comes next, and when it may
//! - `flux_policy`, `tag_filter`: Flux's ImagePolicy and ImageRepository as a policy
//! - `image_annotations`: what a workload asks for, with keel's annotations and labels
//! - [`rollout_record`]: what was rolled out, and what waits: the annotation that commands read
//! - `image_decision`: what follows; `record_changes`: how that changes the record
//! - `image_workload`: what is read of a workload; `pull_logins`, `cloud_logins`, `image_mirrors`, `registry_answers`:
//!   what registries say, asked once for all
//! - `value_check`: one check of the images that the values of a release name, set over them as a new revision (`value_rollout`)
//! - `image_check`: one check of a release's workloads (`checked_workload`), with its writes; `images_controller`: when;
//!   `push_hints`: when a webhook wakes them
//! - [`image_build_api`], [`image_build_definition`]: `ImageBuild`; `build_request`: a checked spec with its logins; `image_builds`: its front
//!   end; `build_places`: builds at a time

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(missing_docs)]

mod build_places;
mod build_request;
mod checked_workload;
mod cloud_logins;
mod flux_policy;
mod image_annotations;
pub mod image_build_api;
pub mod image_build_definition;
mod image_builds;
mod image_check;
mod image_decision;
mod image_mirrors;
mod image_reference;
mod image_workload;
mod images_controller;
#[cfg(test)]
mod keel_cases;
mod poll_schedule;
mod pull_logins;
mod push_hints;
mod record_changes;
mod registry_answers;
pub mod rollout_record;
mod tag_filter;
mod time_window;
mod update_policy;
mod value_check;
mod value_rollout;

pub use cloud_logins::CloudRegistries;
pub use image_builds::{ImageBuildOptions, ImageBuilds};
pub use image_mirrors::ImageMirrors;
pub use image_reference::image_location;
pub use image_workload::IMAGE_WORKLOAD_KINDS;
pub use images_controller::{ImagesOptions, run};
pub use pull_logins::OperatorSecret;
pub use windlass_engine::IMAGE_MANAGER;
