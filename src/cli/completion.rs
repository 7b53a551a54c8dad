//! `windlass completion`: completion scripts for shells.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, Failure, print};

/// The shell.
#[derive(clap::Args)]
pub(super) struct Args {
    #[arg(value_enum)]
    shell: Shell,
    /// Taken as Helm takes it; there are no descriptions to leave out
    #[arg(long, hide = true)]
    no_descriptions: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "windlass", &mut script);
    print(&script)
}
