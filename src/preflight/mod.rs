//! Checks before an operator runs: what it needs, what it would do, and what differs from addon-operator.
//!
//! Owns `windlass rbac`, `windlass doctor`, `windlass values explain` of modules and `operator --observe`, except for their flags
//! and output. Reads files and the cluster. Writes nothing.

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
