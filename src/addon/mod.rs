//! The operator for addon-operator modules: finds them, reads its ConfigMap, keeps their releases true.
//!
//! A thin front end: it turns a module and its values into a release request and an outcome into logs and metrics. It
//! never looks into a manifest and never writes an object of a release.

pub(crate) mod change_cause;
mod checksum;
pub(crate) mod config;
mod debug;
pub(crate) mod dependencies;
mod drift;
pub(crate) mod enabled_flags;
mod events;
pub(crate) mod hooks;
pub(crate) mod module;
pub(crate) mod module_name;
pub(crate) mod operator;
pub(crate) mod references;
pub(crate) mod releases;
mod reload;
mod status;
mod target;
pub mod values;

pub use config::{Config, Problem};
pub use enabled_flags::{Enabling, Flags};
pub use module::{Module, Modules};
pub use module_name::{ModuleName, UNNUMBERED_ORDER};
pub use operator::{DirectoryOptions, HookOptions, ModuleReleaseOptions, Options, run};
pub use references::{Shown as ShownReference, shown as shown_references};
pub(crate) use releases::config_map;
