//! Helmfile: state files and what they make of a cluster.
//!
//! Owns helmfile's commands over the pure evaluation in [`state`]. Knows flags of no command line.
//!
//! - [`state`]: state files, evaluated; pure
//! - [`commands`]: which releases a command takes, in which order, with which hooks; [`output`]: what reading commands print
//! - [`release_chart`]: the chart and values of a release, from a [`chart_store`]; [`chart_fetcher`] is one; [`patched_chart`]: manifests,
//!   kustomizations and patched charts as charts
//! - [`deploy_plan`], [`deploy_order`]: which releases are deployed, in which order; [`release_options`], [`release_spec`]: what the
//!   engine gets of them
//! - [`lock_file`]: the lock file of a state
//! - [`resource`]: the front end of the `Helmfile` resource
//! - [`bundle`]: all that a helmfile reads and fetches, as one artifact
//! - [`local_host`]: files, variables and programs of this machine; [`secrets`]: secret references; [`sops`]: encrypted files
//! - [`addresses`]: what addresses mean; [`remote_files`]: what they name, fetched once
//! - [`error`]: why the outside of an evaluation fails

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod addresses;
pub mod bundle;
pub mod chart_fetcher;
pub mod chart_store;
pub mod commands;
pub mod deploy_order;
pub mod deploy_plan;
pub mod error;
pub mod helm_arguments;
pub mod local_host;
pub mod lock_file;
pub mod output;
pub mod patched_chart;
pub mod release_chart;
pub mod release_options;
pub mod release_spec;
pub mod remote_files;
pub mod resource;
pub mod secrets;
pub mod sops;
