//! ConfigMaps that are made of the files of a source of Flux: of a Git repository, a bucket or an OCI artifact.
//!
//! Owns what a ConfigMapSource means: which files become which ConfigMap. The ConfigMaps are the manifest of a release, so that the engine
//! applies and prunes them, corrects drift and records revisions. How sources are fetched is their controllers'.
//!
//! - [`config_map_source_api`], [`config_map_source_definition`]: `ConfigMapSource`
//! - `file_patterns`: which files are taken
//! - `config_map_manifests`: the ConfigMaps of files
//! - `config_map_sources`: the front end

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(missing_docs)]

mod config_map_manifests;
pub mod config_map_source_api;
pub mod config_map_source_definition;
mod config_map_sources;
mod file_patterns;

pub use config_map_sources::{ConfigMapSourceOptions, ConfigMapSources};
