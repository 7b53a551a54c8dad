//! Helmfile: state files and what they make of a cluster.
//!
//! Owns helmfile's commands over the pure evaluation in [`state`]. Knows flags of no command line.
//!
//! - [`state`]: state files, evaluated; pure
//! - [`commands`]: which releases a command takes, in which order, with which hooks; [`output`]: what reading commands print
//! - [`local_host`]: files, variables and programs of this machine; [`secret_store`]: secret references

pub mod commands;
pub mod local_host;
pub mod output;
pub mod patched_chart;
pub mod secret_store;
pub mod state;
