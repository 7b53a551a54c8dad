//! The command line: Helm's verbs and flags over the renderer and the engine.
//!
//! Owns flags, exit codes and what is printed. Decides nothing about releases.

mod chart;
mod flags;
mod output_dir;
mod template;
mod values;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Helm charts rendered and applied without Helm.
#[derive(Parser)]
#[command(name = "windlass", version, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    globals: flags::Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Render a chart's templates and print them
    Template(template::Args),
}

/// A failed command: what is printed after `Error: `.
type Failure = String;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let code = u8::from(e.use_stderr());
            // Nothing can be done when the terminal is gone.
            drop(e.print());
            return ExitCode::from(code);
        }
    };
    let result = match cli.command {
        Command::Template(args) => template::run(&cli.globals, &args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            tell(&format!("Error: {text}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints to stdout; a reader that went away ends the output silently, as pipes want it.
fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("cannot write to stdout: {e}")),
        _ => Ok(()),
    }
}

/// Prints a line to stderr.
fn tell(line: &str) {
    // Nothing can be done when stderr is gone.
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}
