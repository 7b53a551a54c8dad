//! Front end for addon-operator modules: finds modules, reads the operator's ConfigMap, reconciles the releases of modules.
//!
//! Turns a module and its values into a release spec, and an outcome into logs, metrics and the status of the module. It never
//! reads a manifest and never writes an object of a release.

pub mod change_cause;
mod checksum;
pub mod config;
mod debug;
pub mod dependencies;
pub mod enabled_flags;
mod events;
pub mod hooks;
pub mod module;
pub mod module_directory;
pub mod module_name;
pub mod operator;
mod operator_options;
pub mod releases;
mod reload;
mod status;
mod target;
pub mod values;

pub use config::{Config, Problem};
pub use enabled_flags::{Enabling, Flags};
pub use module::{Module, Modules};
pub use module_name::{ModuleName, UNNUMBERED_ORDER};
pub use operator::run;
pub use operator_options::{DirectoryOptions, HookOptions, ModuleReleaseOptions, ModuleStatus, Options};
pub use releases::config_map;
pub use status::{DECKHOUSE_CRD, OWN_CRD};
