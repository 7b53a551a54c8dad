//! Windlass renders and applies Helm charts without Helm.
//!
//! The way of the data, one step a folder:
//!
//! ```text
//! chart bytes → chart + values → rendered manifests → plan → apply → record → watch → …
//!   source        chart-compat       render            release (over cluster)
//! ```
//!
//! - [`source`]: chart references to charts
//! - `chart-compat`: the pure renderer, a crate of its own
//! - [`render`]: the border between the pure renderer and the engine
//! - [`cluster`]: the one door to a Kubernetes API server
//! - [`release`]: the release engine: observe, decide, plan, apply, record, watch
//! - [`hooks`]: programs of users that run at moments, on schedules and on changes of objects
//! - [`addon`]: front end for addon-operator modules
//! - [`serve`]: probes and metrics
//! - [`cli`]: the command line
//! - [`machine`]: how much memory the process may take
//! - [`causes`]: an error with its causes, in one line
//! - [`redact`]: secrets in messages, masked before they leave the process

pub mod addon;
pub mod causes;
pub mod cli;
pub mod cluster;
pub mod hooks;
pub mod machine;
pub mod redact;
pub mod release;
pub mod render;
pub mod serve;
pub mod source;
