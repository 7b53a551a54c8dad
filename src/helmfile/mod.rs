//! Helmfile: state files and what they make of a cluster.
//!
//! Owns helmfile's commands over the pure evaluation in [`state`]. Knows flags of no command line.
//!
//! - [`state`]: state files, evaluated; pure
//! - [`commands`]: which releases a command takes, in which order, with which hooks; [`output`]: what reading commands print
//! - [`patched_chart`]: manifests, kustomizations and patched charts as charts
//! - [`deploy_order`], [`release_options`]: in which order releases are deployed, and what their fields mean for the engine
//! - [`local_host`]: files, variables and programs of this machine; [`secrets`]: secret references; [`sops`]:
//!   encrypted files
//! - [`addresses`]: what addresses mean; [`remote_files`]: what they name, fetched once

pub mod addresses;
pub mod commands;
pub mod deploy_order;
pub mod local_host;
pub mod output;
mod own_thread;
pub mod patched_chart;
pub mod release_options;
pub mod remote_files;
pub mod secrets;
pub mod sops;
pub mod state;
