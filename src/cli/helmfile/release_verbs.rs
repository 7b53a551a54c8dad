//! `status` and `test`: what the releases of all state files are on their clusters, and whether their tests pass.
//!
//! Owns the walk over the releases. What is printed of a release is that of `windlass status` and `windlass test`.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::connections::Connections;
use super::flags::Options;
use crate::cli::flags::Globals;
use crate::cli::{Connected, Failure, status, tell, test, with_runtime};
use crate::helmfile::commands::{self, NeedsRule};
use crate::helmfile::release_options;
use crate::helmfile::state::Error;
use crate::release::{ReleaseId, TestRequest};

/// Flags of `status`.
#[derive(clap::Args)]
pub(super) struct StatusArgs {
    /// No effect: releases are asked one after the other
    #[arg(long, default_value_t = 0)]
    concurrency: usize,
}

/// Flags of `test`.
#[derive(clap::Args)]
pub(super) struct TestArgs {
    /// No effect: the annotation helm.sh/hook-delete-policy of a test says when its Pod is deleted
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    cleanup: Option<bool>,
    /// Dump the logs from test Pods, after all tests of a release and before any clean-up
    #[arg(long)]
    logs: bool,
    /// Seconds to wait for any individual Kubernetes operation
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// No effect: releases are tested one after the other
    #[arg(long, default_value_t = 0)]
    concurrency: usize,
}

pub(super) fn print_statuses(globals: &Globals, options: &Options) -> Result<(), Error> {
    let wanted = status::Wanted::default();
    each_release(globals, options, "status", async |connected, id| {
        status::print_status(globals, connected, &id, &wanted).await
    })
}

pub(super) fn run_tests(globals: &Globals, options: &Options, args: &TestArgs) -> Result<(), Error> {
    each_release(globals, options, "test", async |connected, id| {
        let request = TestRequest {
            id,
            only: Vec::new(),
            not: Vec::new(),
            timeout: Duration::from_secs(args.timeout),
            deadline: None,
            break_lock: false,
            logs: args.logs,
        };
        test::run_tests(globals, connected, &request).await
    })
}

/// Works on each release that is to be installed, in the order of needs. All releases of a state file are worked on before an error
/// ends the run.
fn each_release(
    globals: &Globals,
    options: &Options,
    command: &str,
    work: impl AsyncFn(&Connected, ReleaseId) -> Result<(), Failure>,
) -> Result<(), Error> {
    let (host, query, cwd) = (options.host(globals), options.query()?, options.cwd());
    let mut connections = Connections::new(globals);
    let mut walk = || {
        commands::with_needs(&*host, &query, &cwd, command, NeedsRule::Skip, |state, releases| {
            let mut failed = Vec::new();
            for release in releases {
                let done = Handle::current().block_on(async {
                    let connected =
                        connections.of(state, release).await.map_err(|error| error.to_string())?;
                    work(&connected, release_options::release_id(release, &connected.namespace)).await
                });
                if let Err(error) = done {
                    let name = release.text("name");
                    tell(&format!("release {name:?}: {error}"));
                    failed.push(name);
                }
            }
            match failed.as_slice() {
                [] => Ok(()),
                names => Err(format!("{} release(s) failed: {}", names.len(), names.join(", ")).into()),
            }
        })
    };
    with_runtime(async { block_in_place(&mut walk) })?
}
