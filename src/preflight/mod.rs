//! What an operator would need, do, or do differently than addon-operator: said before it runs.
//!
//! Owns `windlass rbac`, `windlass doctor` and `operator --observe` but for their flags and output. Reads files and the cluster,
//! and writes nothing.

mod doctor;
mod observe;
mod rbac;

pub use doctor::{Diagnosis, Weight, doctor};
pub use observe::{Finding, Observation, observe};
pub use rbac::{Added as AddedRules, Needs, needs};
