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
//! - `kustomize-compat`: kustomizations to manifests, pure too
//! - [`kustomize`]: kustomizations on disk: their files, repositories and charts
//! - [`render`]: the border between the pure renderer and the engine
//! - [`cluster`]: the one door to a Kubernetes API server
//! - [`release`]: the release engine: observe, decide, plan, apply, record, watch
//! - [`controller`]: the operator runtime: work queue, triggers, release runs
//! - [`shell_hooks`]: programs of users that run at moments, on schedules and on changes of objects
//! - [`addon`]: front end for addon-operator modules
//! - [`openapi`]: OpenAPI schemas of values: validation, defaults, rules in CEL
//! - [`flux_api`]: types and CustomResourceDefinitions of Flux's API
//! - [`flux_source`]: front ends for Flux's sources
//! - [`flux_notify`]: Flux's events, Alerts, Providers and Receivers
//! - [`helmrelease`]: front end for Flux's HelmReleases
//! - [`helmfile`]: state files of helmfile, their releases, and the front end of the Helmfile resource
//! - [`preflight`]: what an operator needs and would do, before it runs
//! - [`serve`]: probes and metrics
//! - [`runtime`]: which controllers run in a process, and whether it leads
//! - [`cli`]: the command line
//! - [`cel_expression`]: expressions in CEL that tenants write
//! - [`bounded_read`]: files and streams that are read within a limit
//! - [`backoff`]: how long to wait before another try
//! - [`machine`]: how much memory the process may take
//! - [`causes`]: an error with its causes, in one line
//! - [`child_process`]: programs that are started and waited for, within limits
//! - [`redact`]: secrets in messages, masked before they leave the process

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod addon;
pub mod backoff;
pub mod bounded_read;
pub mod causes;
pub mod cel_expression;
pub mod child_process;
pub mod cli;
pub mod cluster;
pub mod controller;
pub mod flux_api;
pub mod flux_notify;
pub mod flux_source;
pub mod helmfile;
pub mod helmrelease;
pub mod kustomize;
pub mod machine;
pub mod openapi;
pub mod preflight;
pub mod redact;
pub mod release;
pub mod render;
pub mod runtime;
pub mod serve;
pub mod shell_hooks;
pub mod source;
