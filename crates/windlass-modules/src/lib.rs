//! The front end for addon-operator's modules.
//!
//! - [`shell_hooks`]: programs of users that run at moments, on schedules and on changes of objects
//! - [`addon`]: modules, values layers, the ConfigMap and converges
//! - [`openapi`]: schemas of values: validation, defaults, rules in CEL

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod addon;
pub mod openapi;
pub mod shell_hooks;
