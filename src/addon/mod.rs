//! Front end for addon-operator modules: finds modules, reads the operator's ConfigMap, reconciles the releases of modules.
//!
//! Turns a module and its values into a release spec, and an outcome into logs, metrics and the status of the module. It never
//! reads a manifest and never writes an object of a release.

pub(crate) mod change_cause;
mod checksum;
pub(crate) mod config;
mod debug;
pub(crate) mod dependencies;
pub(crate) mod enabled_flags;
mod events;
pub(crate) mod hooks;
pub(crate) mod module;
pub(crate) mod module_name;
pub(crate) mod operator;
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
pub(crate) use releases::config_map;
