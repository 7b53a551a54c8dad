//! Helm's chart rendering in pure Rust: bytes and values in, manifests out.
//!
//! This crate owns everything between a chart's bytes and the rendered manifests, and refuses to know the file system, the
//! network, the environment, the clock and randomness: what a render may ask of the outside comes through a `World` that the
//! caller hands in.
#![deny(missing_docs)]

pub mod chart;
pub mod data;
pub mod explain;
pub mod go;
pub mod json;
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
