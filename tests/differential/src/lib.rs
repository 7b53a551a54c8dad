//! Generated questions that Helm's own code and ours must answer alike, to the byte, errors included.
//!
//! Owns the generators and the comparison. It refuses to know any answer: those come from `tests/tools/go`, which runs Helm's
//! engine, its YAML library, its `--set` parser and its validator, and for Helm 3 from `tests/tools/helm3`.
//!
//! - [`choices`]: seeded choices that can be replayed and made fewer
//! - `make`: generators, one file a language
//! - [`Family`]: what kind of question a generator asks
//! - [`go`], [`ours`]: who answers
//! - [`compare`]: asks both, and makes a difference small enough to read

pub mod choices;
pub mod compare;
pub mod family;
pub mod go;
mod make;
mod order;
pub mod ours;

pub use family::{Case, Family, Kind, Way};
pub use make::damaged;

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What was printed, also before a failure; a byte that is no UTF-8 shows as U+FFFD.
    pub output: String,
    /// Why it failed.
    pub error: Option<String>,
}
