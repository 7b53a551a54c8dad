//! `status` and `test`: what the releases of all state files are on their clusters, and whether their tests pass.
//!
//! The walk over the releases is that of `deploy_session`, and what is printed of a release is that of `windlass status` and `windlass test`.

use std::process::ExitCode;
use std::time::Duration;

use super::deploy_session;
use super::flags::Options;
use crate::cli::flags::Globals;
use crate::cli::{Connected, status, test};
use helmfile_compat::Error;
use windlass_engine::TestRequest;

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

pub(super) fn print_statuses(globals: &Globals, options: &Options) -> Result<ExitCode, Error> {
    let flags = status::StatusFlags::default();
    deploy_session::run(globals, options, &deploy_session::Shared::default(), "status", async |session| {
        let print =
            async |connected: &Connected, id| status::print_status(globals, connected, &id, &flags).await;
        session.each_installed(print).await
    })
}

pub(super) fn run_tests(globals: &Globals, options: &Options, args: &TestArgs) -> Result<ExitCode, Error> {
    deploy_session::run(globals, options, &deploy_session::Shared::default(), "test", async |session| {
        let test = async |connected: &Connected, id| {
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
        };
        session.each_installed(test).await
    })
}
