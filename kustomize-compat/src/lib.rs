//! kustomize's patches and transformers in pure Rust: manifests in, manifests out.
//!
//! This crate owns what happens to manifests between the files of a kustomization and its output. It refuses to know the file
//! system, the network, processes, the environment and the clock.
//!
//! - [`resource`]: one object and its identity; streams of objects
//! - [`format`](mod@format): objects as kustomize prints them
//! - [`selector`]: which objects a patch changes
//! - [`patch`]: strategic merge patches and JSON patches; [`schema`]: the lists that are merged by key
//! - [`transform`]: images, labels, annotations
//! - [`build`]: the steps of one kustomization in their order
//! - [`error`]: why a step fails, in kustomize's words
//!
#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

pub mod build;
pub mod error;
pub mod format;
pub mod patch;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod transform;

pub use error::Error;
