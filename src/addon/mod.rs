//! The operator for addon-operator modules: finds them, reads its ConfigMap, keeps their releases true.
//!
//! A thin front end: it turns a module and its values into a release request and an outcome into logs and metrics. It
//! never looks into a manifest and never writes an object of a release.

mod cause;
mod config;
mod debug;
mod doctor;
mod drift;
mod enabling;
mod events;
mod hooks;
mod layers;
mod lookups;
mod module;
mod name;
mod needs;
mod observe;
mod operator;
mod place;
mod progress;
mod queue;
mod rbac;
mod references;
mod reload;
mod run;
mod status;
pub mod values;

pub use config::{Config, Problem};
pub use doctor::{Diagnosis, Weight, doctor};
pub use drift::Policy as DriftPolicy;
pub use enabling::{Enabling, Flags};
pub use layers::layers;
pub use module::{Module, Modules};
pub use name::{ModuleName, UNNUMBERED_ORDER};
pub use observe::{Finding, Observation, observe};
pub use operator::{Options, run};
pub use place::Place;
pub use rbac::{Added as AddedRules, Needs, needs};
pub use references::{Shown as ShownReference, shown as shown_references};
pub(crate) use run::{capabilities, config_map};
