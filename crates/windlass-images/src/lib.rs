//! Rolls out workloads when their images have newer tags or other digests.
//!
//! Owns which images are followed, by which policy, what was rolled out, and how a failed rollout is taken back. Knows no chart and no values:
//! it patches images under a field manager of its own, which the engine leaves alone while the release asks for the same image. Owns as well
//! when an image of a file of a Maven repository is built anew.
//!
//! - `image_reference`: images as Docker writes them
//! - `update_policy`, `time_window`: which tag comes next, and when it may
//! - `image_annotations`: what a workload asks for, with keel's annotations and labels
//! - [`rollout_record`]: what was rolled out, and what waits: the annotation that commands read
//! - `image_decision`: what follows; `record_changes`: how that changes the record
//! - `image_workload`: what is read of a workload; `pull_logins`, `registry_answers`: what registries say, asked once for all
//! - `image_check`: one check of a release's workloads (`checked_workload`), with its writes; `images_controller`: when;
//!   `push_hints`: when a webhook wakes them
//! - [`image_build_api`], [`image_build_definition`]: `ImageBuild`; `build_request`: a checked spec with its logins; `image_builds`: its front
//!   end; `build_places`: builds at a time

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(missing_docs)]

mod build_places;
mod build_request;
mod checked_workload;
mod image_annotations;
pub mod image_build_api;
pub mod image_build_definition;
mod image_builds;
mod image_check;
mod image_decision;
mod image_reference;
mod image_workload;
mod images_controller;
mod pull_logins;
mod push_hints;
mod record_changes;
mod registry_answers;
pub mod rollout_record;
mod time_window;
mod update_policy;

pub use image_builds::{ImageBuildOptions, ImageBuilds};
pub use image_reference::image_location;
pub use image_workload::IMAGE_WORKLOAD_KINDS;
pub use images_controller::{ImagesOptions, run};
pub use pull_logins::OperatorSecret;
pub use windlass_engine::IMAGE_MANAGER;
