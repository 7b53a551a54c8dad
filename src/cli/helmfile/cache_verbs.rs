//! `cache` and `init`, which have little to do here: no directory outlives a run, and no other program is needed.

use crate::cli::flags::Globals;
use crate::cli::{print, tell};
use helmfile_compat::Error;

/// Subcommands of `cache`.
#[derive(clap::Subcommand)]
pub(super) enum CacheCommand {
    /// Print where fetched files are kept
    Info,
    /// Nothing to do: what a run fetches from addresses is deleted at its end
    Cleanup,
}

/// Flags of `init`.
#[derive(clap::Args)]
pub(super) struct InitArgs {
    /// No effect: nothing is installed
    #[arg(long)]
    force: bool,
}

pub(super) fn cache(globals: &Globals, command: &CacheCommand) -> Result<(), Error> {
    let charts = globals.home().content;
    let charts = charts.display();
    match command {
        CacheCommand::Info => {
            let text = format!(
                "Files of addresses are fetched in each run and deleted at its end. Charts of repositories and registries are in \
                 Helm's cache: {charts}\n"
            );
            print(text.as_bytes())?;
        }
        CacheCommand::Cleanup => tell(&format!(
            "Nothing is deleted: no file of an address outlives a run. Helm's cache of charts is {charts}"
        )),
    }
    Ok(())
}

pub(super) fn init() -> Result<(), Error> {
    Ok(print(b"helmfile, helm and plugins are not needed: nothing is installed.\n")?)
}
