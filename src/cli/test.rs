//! `windlass test`: runs the tests of a release.

use std::time::Duration;

use super::flags::{Globals, duration};
use super::output::Format;
use super::status::Shown;
use super::{Connected, Failure, print, status, with_engine};
use windlass_engine::{HookEvent, TestRequest};

/// Flags of `test`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The release
    name: String,
    /// Time to wait for any individual Kubernetes operation
    #[arg(long, default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// Time limit of all tests
    #[arg(long, value_parser = duration)]
    deadline: Option<Duration>,
    /// Test a release that another process has locked
    #[arg(long)]
    break_lock: bool,
    /// Dump the logs from test Pods, after all tests and before any clean-up
    #[arg(long)]
    logs: bool,
    /// Run only tests of this name (name=NAME), or all others (!name=NAME)
    #[arg(long, value_delimiter = ',')]
    filter: Vec<String>,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let (mut only, mut not) = (Vec::new(), Vec::new());
    for filter in &args.filter {
        if let Some(name) = filter.strip_prefix("name=") {
            only.push(name.to_owned());
        } else if let Some(name) = filter.strip_prefix("!name=").or_else(|| filter.strip_prefix("! name=")) {
            not.push(name.to_owned());
        }
    }
    with_engine(globals, async |s| {
        let s = s.located(&args.name).await?;
        let request = TestRequest {
            id: s.id(&args.name),
            only,
            not,
            timeout: args.timeout,
            deadline: args.deadline,
            break_lock: args.break_lock,
            logs: args.logs,
        };
        run_tests(globals, &s, &request).await
    })
}

/// Runs the tests of a release, and prints their results.
pub(super) async fn run_tests(
    globals: &Globals,
    connected: &Connected,
    request: &TestRequest,
) -> Result<(), Failure> {
    let tested = connected.run(connected.engine.test(request)).await?;
    let shown = Shown { fresh: false, ..Shown::after(globals, true) };
    status::show(&tested.record, Format::Table, shown)?;
    if request.logs {
        print(b"\n")?;
        for log in &tested.logs {
            print(format!("POD LOGS: {} ({})\n{}\n", log.pod, log.container, log.text).as_bytes())?;
        }
    }
    let failure = tested.failure.map(|error| format!("{} hooks failed: {error}", HookEvent::Test));
    let errors: Vec<String> = failure.into_iter().chain(tested.log_errors).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}
