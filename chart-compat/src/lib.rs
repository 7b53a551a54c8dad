//! Helm's chart rendering in pure Rust: bytes and values in, manifests out.
//!
//! This crate owns everything between a chart's bytes and the rendered manifests, and refuses to know the file system, the
//! network, the environment, the clock and randomness: what a render may ask of the outside comes through a `World` that the
//! caller hands in.
//!
//! One step a folder:
//!
//! - [`chart`]: files to a chart: loading, `.helmignore`, metadata, dependencies, values of charts
//! - [`values`]: how users spell values on a command line; [`path`]: the way to one of them
//! - [`render`]: a chart and values to manifests, hooks, CRDs and notes; [`profile`]: as which Helm; [`world`]: what it may ask
//! - [`explain`], [`lint`]: where values come from, what stands behind an error, what is wrong with a chart
//! - [`template`]: Go's `text/template`; [`yaml`], [`json`]: the text formats, as Go reads and writes them; [`data`]: what they hold
//! - [`kyaml`]: manifests through kustomize's library, for what post-renderers make of them
//! - [`certificate`]: certificates as charts make them, for servers outside of charts
//! - [`go`]: Go's values and the parts of its libraries that charts can see
//!
#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

pub mod certificate;
pub mod chart;
pub mod data;
pub mod explain;
pub mod go;
pub mod json;
pub mod kyaml;
pub mod lint;
pub mod path;
pub mod profile;
pub mod render;
mod sprig;
pub mod template;
pub mod values;
pub mod world;
pub mod yaml;

pub use bytes::Bytes;
