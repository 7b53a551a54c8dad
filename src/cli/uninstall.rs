//! `windlass uninstall`: deletes releases.

use std::time::Duration;

use super::flags::{Globals, duration};
use super::plan::Planned;
use super::release_flags::{WaitFor, wait_for};
use super::{Failure, hints, print, tell, with_engine};
use windlass_cluster::{ObjectRef, Propagation};
use windlass_engine::{EngineError, UninstallRequest};
use windlass_render::replay::store;

/// The deletion policy for dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Cascade {
    #[default]
    Background,
    Foreground,
    Orphan,
}

/// Flags of `uninstall`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The releases
    #[arg(required = true)]
    names: Vec<String>,
    /// Remove all associated resources and mark the release as deleted, but retain the release history
    #[arg(long)]
    keep_history: bool,
    /// Treat "release not found" as a successful uninstall
    #[arg(long)]
    ignore_not_found: bool,
    /// Prevent hooks from running during uninstallation
    #[arg(long)]
    no_hooks: bool,
    /// Simulate a uninstall
    #[arg(long)]
    dry_run: bool,
    /// Also delete objects that hooks created, which Helm keeps
    #[arg(long)]
    delete_hooks: bool,
    /// If set, will wait until all the resources are deleted before returning
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "watcher", value_parser = wait_for)]
    wait: Option<WaitFor>,
    /// Selects the deletion cascading strategy for the dependents
    #[arg(long, value_enum, default_value_t)]
    cascade: Cascade,
    /// Time to wait for any individual Kubernetes operation
    #[arg(long, default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// Time limit of the whole operation for a release, including waits and hooks
    #[arg(long, value_parser = duration)]
    deadline: Option<Duration>,
    /// Add a custom description
    #[arg(long)]
    description: Option<String>,
    /// Take over a release that another process left in an unfinished operation
    #[arg(long)]
    break_lock: bool,
    #[command(flatten)]
    planned: Planned,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    with_engine(globals, async |s| {
        for name in &args.names {
            let (engine, id) = s.locate(name).await?;
            let request = UninstallRequest {
                keep_history: args.keep_history,
                ignore_not_found: args.ignore_not_found,
                run_hooks: !args.no_hooks,
                propagation: match args.cascade {
                    Cascade::Background => Propagation::Background,
                    Cascade::Foreground => Propagation::Foreground,
                    Cascade::Orphan => Propagation::Orphan,
                },
                wait: !matches!(args.wait, None | Some(WaitFor::HookOnly)),
                timeout: args.timeout,
                deadline: args.deadline,
                dry_run: args.dry_run,
                break_lock: args.break_lock,
                delete_hooks: args.delete_hooks,
                description: args.description.clone(),
                ..UninstallRequest::new(id.clone())
            };
            if args.planned.only() {
                args.planned.show(globals, &s.run(engine.plan_uninstall(&request)).await?)?;
                continue;
            }
            let done = s.try_run(engine.uninstall(&request)).await.map_err(|e| match e {
                EngineError::NotFound if !args.dry_run => {
                    format!("uninstall: Release not loaded: {name}: {e}")
                }
                e => hints::engine_text(&e),
            })?;
            // Helm's dry run prints only kept objects.
            let foreign = if args.dry_run { &[][..] } else { &done.foreign[..] };
            let info = left_behind(&done.kept, foreign);
            if !info.is_empty() {
                print(format!("{info}\n").as_bytes())?;
            }
            // Helm's dry run does not print failed deletions either.
            if !done.errors.is_empty() && !args.dry_run {
                return Err(format!(
                    "uninstallation completed with {} error(s): {}",
                    done.errors.len(),
                    done.errors.join("; ")
                ));
            }
            if !args.keep_history && !args.dry_run {
                // The release is deleted, so its stored random values are no longer needed.
                if let Err(e) = store::forget(engine.cluster(), engine.storage_namespace_of(&id), name).await
                {
                    tell(&format!("level=WARN msg=\"what --replay kept of {name} was not deleted: {e}\""));
                }
            }
            print(format!("release \"{name}\" uninstalled\n").as_bytes())?;
        }
        Ok(())
    })
}

/// The kept objects, with Helm's text.
fn left_behind(kept: &[ObjectRef], foreign: &[ObjectRef]) -> String {
    let line = |one: &ObjectRef| format!("[{}] {}\n", one.gvk.kind, one.name);
    let lines = |all: &[ObjectRef]| all.iter().map(line).collect::<String>();
    let mut text = String::new();
    if !kept.is_empty() {
        text.push_str(&format!("These resources were kept due to the resource policy:\n{}", lines(kept)));
    }
    if !foreign.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!(
            "{} resource(s) were not deleted because they are not owned by this release:\n{}",
            foreign.len(),
            lines(foreign)
        ));
    }
    text
}
