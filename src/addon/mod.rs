//! The operator for addon-operator modules: finds them, reads its ConfigMap, keeps their releases true.
//!
//! A thin front end: it turns a module and its values into a release request and an outcome into logs and metrics. It
//! never looks into a manifest and never writes an object of a release.

mod cause;
pub(crate) mod config;
mod debug;
pub(crate) mod dependencies;
mod drift;
pub(crate) mod enabling;
mod events;
pub(crate) mod hooks;
mod layers;
pub(crate) mod module;
mod name;
pub(crate) mod operator;
pub(crate) mod references;
pub(crate) mod releases;
mod reload;
mod status;
mod target;
pub mod values;

pub use config::{Config, Problem};
pub use enabling::{Enabling, Flags};
pub use layers::layers;
pub use module::{Module, Modules};
pub use name::{ModuleName, UNNUMBERED_ORDER};
pub use operator::{DirectoryOptions, HookOptions, ModuleReleaseOptions, Options, run};
pub use references::{Shown as ShownReference, shown as shown_references};
pub(crate) use releases::config_map;
