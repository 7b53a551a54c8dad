//! The real control plane that tests, benches and the quick start run on.
//!
//! It owns the pinned tools of `tests/tools`, the processes that make a cluster of them, and the few helpers with
//! which a test talks to it. It refuses to know Windlass: nothing here depends on the code under test.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = windlass_testing::shared()?; // one for all tests of a process
//! let namespace = cluster.namespace("web")?; // tests keep apart by namespace
//! cluster.helm4(["install", "shop", "./chart", "-n", namespace.name()])?;
//! let mark = cluster.audit_mark()?;
//! // … the code under test, with KUBECONFIG = cluster.kubeconfig() …
//! assert_eq!(cluster.writes_since(mark)?, []);
//! # Ok(())
//! # }
//! ```
//!
//! - [`Tool`]: builds the pinned Go programs once and says where they are
//! - [`ControlPlane`], [`Options`]: starts a cluster; dropping it, or the death of this process, takes it away
//! - [`shared`], [`control_plane`]: the one control plane of this process, or the cluster that the user points at
//! - [`AuditEvent`], [`AuditMark`]: what was asked of the API server, and by whom
//! - [`Namespace`]: a namespace of one test
//! - [`RegistryServer`]: the reference registry of OCI artifacts
//! - [`SshServer`]: Git over SSH, and keys for it
//! - [`wait_until`]: polls a condition
//! - [`write_file`]: writes a file, with the directories above it

mod audit;
mod clients;
mod control_plane;
mod error;
mod files;
mod namespace;
mod processes;
mod progress;
mod registry_server;
mod scratch;
mod ssh_server;
mod tools;
mod wait;

pub use audit::{AuditEvent, AuditMark};
pub use control_plane::{ControlPlane, Options, control_plane, shared};
pub use error::{Error, Result};
pub use namespace::Namespace;
pub use registry_server::RegistryServer;
pub use scratch::write_file;
pub use ssh_server::SshServer;
pub use tools::Tool;
pub use wait::wait_until;
