//! State files of helmfile, evaluated: files and settings in, releases with their final fields out.
//!
//! Owns everything that helmfile decides from files alone, bug for bug where files depend on it. Pure over a [`Host`], which
//! answers for files, environment variables, programs, addresses and secrets. Does not render charts and knows no cluster.
//!
//! - [`visit`]: which files a run has, nested helmfiles and what they inherit
//! - [`load`]: one file: parts, bases, environments; [`hcl`]: values in HCL; [`policy`]: the order of keys
//! - [`release`]: inherited templates, expressions, labels, conditions; [`release_values`]: a release's values
//! - [`selector`], [`needs`]: which releases, in which order; [`lock`]: locked versions
//! - [`hooks`]: programs at moments of a run
//! - [`template`]: helmfile's template functions; [`secret_references`]: secret references
//! - [`schema`], [`state_fields`], [`record`]: the typed fields, their merges and their text; [`value`], [`merge`]: untyped values
//! - [`document`], [`timestamp`]: YAML as go-yaml v3 decodes it; [`paths`]: paths as Go computes them

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod document;
pub mod environment_values;
pub mod error;
pub mod hcl;
pub mod hooks;
pub mod host;
pub mod load;
pub mod lock;
pub mod merge;
pub mod needs;
pub mod paths;
pub mod policy;
pub mod record;
pub mod release;
pub mod release_values;
pub mod schema;
pub mod secret_references;
pub mod selector;
pub mod state_fields;
pub mod template;
pub mod timestamp;
pub mod value;
pub mod visit;

pub use error::Error;
pub use host::Host;
