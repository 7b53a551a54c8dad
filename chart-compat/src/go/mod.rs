//! Go's ways with values, where their text shows: what other modules need of Go's standard library.
//!
//! Knows no template, no YAML and no chart.

pub mod strconv;
pub mod unicode;
