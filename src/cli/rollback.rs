//! `windlass rollback`: repeats an old revision.

use super::flags::{Globals, whole};
use super::plan::Planned;
use super::release_flags::{DryRun, OperationFlags, exclusive, lenient};
use super::{Failure, environment, print, tell, with_engine};
use windlass_engine::{ReleaseOptions, RollbackRequest};

/// Helm's limit, for `list` and `history`.
const LONGEST_DESCRIPTION: usize = 256;

/// Flags of `rollback`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The release
    name: String,
    /// The revision; 0 or omitted: the previous one
    revision: Option<String>,
    /// Simulates the operation: client or server
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "unset")]
    dry_run: Option<String>,
    /// Allow deletion of new resources created in this rollback when rollback fails
    #[arg(long)]
    cleanup_on_fail: bool,
    /// Limit the maximum number of revisions saved per release. Use 0 for no limit
    #[arg(long, default_value_t = environment::max_history(), value_parser = whole, allow_negative_numbers = true)]
    history_max: i64,
    /// Add a custom description for the rollback (max 256 characters)
    #[arg(long)]
    description: Option<String>,
    #[command(flatten)]
    planned: Planned,
    #[command(flatten)]
    operation: OperationFlags,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    exclusive(&args.operation)?;
    let operation = args.operation.options()?;
    let revision = match args.revision.as_deref() {
        None => 0,
        Some(text) => match text.parse::<i64>() {
            Ok(number) => u64::try_from(number).map_err(|_| "invalid release revision".to_owned())?,
            Err(_) => {
                return Err(format!(
                    "could not convert revision to a number: strconv.Atoi: parsing {text:?}: invalid syntax"
                ));
            }
        },
    };
    let length = args.description.as_deref().map_or(0, |text| text.chars().count());
    if length > LONGEST_DESCRIPTION {
        return Err(format!("description must be {LONGEST_DESCRIPTION} characters or less, got {length}"));
    }
    let dry_run = DryRun::read(args.dry_run.as_deref(), globals.profile())?.is_dry();
    let mut options = ReleaseOptions { dry_run, ..lenient(operation, globals.profile()) };
    options.failure.cleanup = args.cleanup_on_fail;
    options.revisions.max = usize::try_from(args.history_max).unwrap_or_default();
    with_engine(globals, async |s| {
        let description = args.description.clone().filter(|text| !text.is_empty());
        let cause = s.cause("rollback");
        let s = s.located(&args.name).await?;
        let request = RollbackRequest { id: s.id(&args.name), revision, options, description, cause };
        if args.planned.only() {
            return args.planned.show(globals, &s.run(s.engine.plan_rollback(&request)).await?);
        }
        let outcome = s.run(s.engine.rollback(&request)).await?;
        for warning in &outcome.warnings {
            tell(&format!("level=WARN msg={warning:?}"));
        }
        print(b"Rollback was a success! Happy Helming!\n")
    })
}
