//! Helm's chart rendering in pure Rust: bytes and values in, manifests out.
//!
//! This crate owns everything between a chart's bytes and the rendered manifests, and does not access the file system, the
//! network, the environment, the clock or randomness: a render accesses the outside through a `World` that the caller
//! passes.
//!
//! Folders:
//!
//! - [`chart`]: files to a chart: loading, `.helmignore`, metadata, dependencies (`alias_tree`), coalescing of values
//! - [`values`]: values on a command line (`--set`); [`path`]: the path to one of them
//! - [`render`]: a chart and values to manifests, hooks, CRDs and notes, `values.schema.json`; [`profile`]: Helm 3 or Helm 4;
//!   [`world`]: the interface to clock, randomness and cluster
//! - [`explain`], [`lint`]: the origin of values, the context of errors, findings in a chart; [`analysis`]: the values that decide what
//!   templates write
//! - [`template`]: Go's `text/template`; [`yaml`], [`json`]: the formats, as Go decodes and encodes them; [`data`]: their values
//! - [`kyaml`]: manifests as kustomize's library serializes them, for post-renderers
//! - [`functions`]: sprig's functions, for templates that are not charts
//! - [`certificate`]: certificates as sprig generates them, for servers outside of charts
//! - [`tar_reader`]: tar archives, read within limits; [`memory`]: how much an input may take
//! - [`go`]: Go's values and the parts of its standard library that templates expose
//!
#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod analysis;
pub mod certificate;
pub mod chart;
pub mod data;
pub mod explain;
pub mod functions;
pub mod go;
pub mod json;
pub mod kyaml;
pub mod lint;
pub mod memory;
pub mod path;
pub mod profile;
pub mod render;
mod sprig;
pub mod tar_reader;
pub mod template;
pub mod values;
pub mod world;
pub mod yaml;

pub use bytes::Bytes;
