//! kustomize's patches and transformers in pure Rust: manifests in, manifests out.
//!
//! This crate owns what happens to manifests between the files of a kustomization and its output. It refuses to know the file
//! system, the network, processes, the environment and the clock.
//!
//! - [`kustomization`]: the file; [`load`]: what a build reads, and what the caller must give
//! - [`target`]: one kustomization with all that it names, to manifests
//! - [`resource`]: one object and its identity; streams of objects
//! - [`format`](mod@format): objects as kustomize prints them
//! - [`selector`]: which objects a patch changes
//! - [`patch`]: strategic merge patches and JSON patches; [`schema`]: the lists that are merged by key
//! - [`fieldspec`]: the fields that transformers change
//! - [`generate`]: ConfigMaps and Secrets
//! - [`transform`]: images, labels, annotations, namespace, names, replicas, replacements
//! - [`refs`]: names of objects in other objects, and vars
//! - [`order`]: the order of the output
//! - [`build`]: one stream with patches and images
//! - [`error`]: why a step fails, in kustomize's words
//!
#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod build;
mod decode;
pub mod error;
pub mod fieldspec;
pub mod format;
pub mod generate;
pub mod kustomization;
pub mod load;
pub mod order;
pub mod patch;
pub mod refs;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod target;
pub mod transform;

pub use error::Error;
