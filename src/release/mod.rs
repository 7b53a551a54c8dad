//! The release engine: brings a release in a cluster to what a request says, and remembers it as Helm does.
//!
//! observe → decide → plan → apply → record → watch; one file each. `decide`, `plan`, `order`, `ownership`, `ready`,
//! `drift` and the record's encoding are pure. Knows nothing of charts, values, templates, YAML or custom resources:
//! a request carries rendered objects, an outcome says what was done.

mod error;
mod order;
mod outcome;
mod ownership;
pub mod record;
mod request;

pub use error::{Disposition, EngineError, Result};
pub use outcome::{Outcome, Uninstalled};
pub use request::*;
