//! What an operator would need, do, or do differently than addon-operator: said before it runs.
//!
//! Owns `windlass rbac`, `windlass doctor`, `windlass values explain` of modules and `operator --observe` but for their flags and output. Reads files and the cluster,
//! and writes nothing.

mod doctor;
mod observe;
mod rbac;
mod values_layers;

pub use doctor::{Diagnosis, Weight, doctor};
pub use observe::{Finding, Observation, observe};
pub use rbac::{Added as AddedRules, Needs, needs};
pub use values_layers::layers;
