//! What an operator needs, would do, and would do differently than addon-operator, before it runs.
//!
//! Owns `windlass rbac`, `windlass doctor`, `windlass values explain` of modules and `operator --observe`, except for their flags and
//! output. Reads files and the cluster, and writes nothing.

mod doctor;
mod observe;
mod rbac;
mod referred_values;
mod values_layers;

pub use doctor::{Diagnosis, Weight, doctor};
pub use observe::{Finding, Observation, observe};
pub use rbac::{Added as AddedRules, Needs, needs};
pub use referred_values::{ReferredValues, referred_values};
pub use values_layers::layers;
