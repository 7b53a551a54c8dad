//! `windlass uninstall`.

use std::time::Duration;

use super::flags::{Globals, duration};
use super::{Failure, print, tell, with_engine};
use crate::cluster::Propagation;
use crate::release::{EngineError, UninstallRequest};
use crate::render::replay::store;

/// How dependents of deleted objects go.
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
    /// If set, will wait until all the resources are deleted before returning
    #[arg(long)]
    wait: bool,
    /// Selects the deletion cascading strategy for the dependents
    #[arg(long, value_enum, default_value_t)]
    cascade: Cascade,
    /// Time to wait for any individual Kubernetes operation
    #[arg(long, default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// Add a custom description
    #[arg(long)]
    description: Option<String>,
    /// Take over a release that someone else left in the middle of an operation
    #[arg(long)]
    break_lock: bool,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    with_engine(globals, async |s| {
        for name in &args.names {
            let request = UninstallRequest {
                keep_history: args.keep_history,
                ignore_not_found: args.ignore_not_found,
                run_hooks: !args.no_hooks,
                propagation: match args.cascade {
                    Cascade::Background => Propagation::Background,
                    Cascade::Foreground => Propagation::Foreground,
                    Cascade::Orphan => Propagation::Orphan,
                },
                wait: args.wait,
                timeout: args.timeout,
                dry_run: args.dry_run,
                break_lock: args.break_lock,
                description: args.description.clone(),
                ..UninstallRequest::new(s.id(name))
            };
            let done = s.engine.uninstall(&request).await.map_err(|e| match e {
                EngineError::NotFound => format!("uninstall: Release not loaded: {name}: release: not found"),
                other => other.to_string(),
            })?;
            if !done.kept.is_empty() {
                let kept: String = done.kept.iter().map(|k| format!("{k}\n")).collect();
                print(format!("These resources were kept due to the resource policy:\n{kept}").as_bytes())?;
            }
            for foreign in &done.foreign {
                tell(&format!("{foreign} belongs to someone else and was not deleted"));
            }
            if !done.errors.is_empty() {
                return Err(format!(
                    "uninstallation completed with {} error(s): {}",
                    done.errors.len(),
                    done.errors.join("; ")
                ));
            }
            if !args.keep_history && !args.dry_run {
                // The release is gone; what its templates made by chance is of use to nobody.
                if let Err(e) = store::forget(s.engine.cluster(), &s.namespace, name).await {
                    tell(&format!("level=WARN msg=\"what --replay kept of {name} was not deleted: {e}\""));
                }
            }
            print(format!("release \"{name}\" uninstalled\n").as_bytes())?;
        }
        Ok(())
    })
}
