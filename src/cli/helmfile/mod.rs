//! `windlass helmfile`: helmfile's commands with helmfile's flags.
//!
//! Owns flags, exit codes and what goes to which stream. Evaluation and texts are in `helmfile`.
//!
//! helmfile's flags of every command have short names that ours have too, so its command line is parsed on its own.

pub(super) mod bundle_command;
pub(super) mod bundle_place;
mod cache_verbs;
mod chart_copies;
mod connections;
mod dependency_lock;
mod deploy;
mod deploy_flags;
mod deploy_session;
mod flags;
mod post_renderer;
mod reading;
mod release_lint;
mod release_verbs;
mod repository_check;
mod template;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use super::flags::Globals;
use super::{Failure, arguments, tell};
use helmfile_compat::Error;

/// The words after `helmfile`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct RawArgs {
    /// Flags of every command, a command, and its flags; try `windlass helmfile --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

/// Deploy the releases of a helmfile, without helmfile, helm and plugins.
#[derive(Parser)]
#[command(name = "helmfile", bin_name = "windlass helmfile", version, disable_help_subcommand = true)]
struct CommandLine {
    #[command(flatten)]
    options: flags::Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Deploy the releases that differ from the cluster, and uninstall those that are to go
    Apply(Box<deploy::ChangeArgs>),
    /// Print the merged state files
    Build(reading::BuildArgs),
    /// Show and clean up what runs leave on this machine
    #[command(subcommand)]
    Cache(cache_verbs::CacheCommand),
    /// Update the dependencies of local charts, and write lock files with the versions of the other charts
    Deps(dependency_lock::Args),
    /// Uninstall the releases
    Destroy(Box<deploy_session::Shared>),
    /// Show what `apply` would change
    Diff(Box<deploy::ChangeArgs>),
    /// Write the charts of the releases into a directory
    Fetch(chart_copies::Args),
    /// Check that nothing else is needed
    Init(cache_verbs::InitArgs),
    /// Lint the charts of the releases
    Lint(Box<release_lint::Args>),
    /// List the releases
    List(reading::ListArgs),
    /// Print the environment's values
    PrintEnv(reading::PrintEnvArgs),
    /// Check that the repositories and registries can be reached
    Repos(repository_check::Args),
    /// Print the releases in the order of their needs
    ShowDag(reading::ShowDagArgs),
    /// Print the status of the releases
    Status(release_verbs::StatusArgs),
    /// Deploy all releases, whether they differ or not
    Sync(Box<deploy_session::Shared>),
    /// Render the charts of the releases
    Template(Box<template::Args>),
    /// Run the tests of the releases
    Test(release_verbs::TestArgs),
    /// Write the values of each release to a file
    WriteValues(reading::WriteValuesArgs),
}

pub(super) fn run(globals: &Globals, words: &RawArgs) -> Result<ExitCode, Failure> {
    let words = std::iter::once(OsString::from("windlass helmfile")).chain(words.words.iter().cloned());
    let words = arguments::plain(&CommandLine::command(), words);
    let CommandLine { options, command } = match CommandLine::try_parse_from(words) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help goes to standard output and is not a failure.
            drop(error.print());
            return Ok(ExitCode::from(u8::from(error.use_stderr())));
        }
    };
    let done =
        options.opened(globals).and_then(|(globals, options)| run_command(&globals, &options, &command));
    match done {
        Ok(status) => Ok(status),
        Err(Error::NoMatch(text)) => {
            tell(&text);
            Ok(ExitCode::from(if options.allow_no_matching_release { 0 } else { 3 }))
        }
        Err(error) => {
            tell(&error.to_string());
            Ok(ExitCode::FAILURE)
        }
    }
}

fn run_command(globals: &Globals, options: &flags::Options, command: &Command) -> Result<ExitCode, Error> {
    let read = |done: Result<(), Error>| done.map(|()| ExitCode::SUCCESS);
    match command {
        Command::Apply(args) => deploy::apply(globals, options, args),
        Command::Destroy(args) => deploy::destroy(globals, options, args),
        Command::Diff(args) => deploy::diff(globals, options, args),
        Command::Sync(args) => deploy::sync(globals, options, args),
        Command::Build(args) => read(reading::build(globals, options, args)),
        Command::Cache(command) => read(cache_verbs::cache(globals, command)),
        Command::Deps(_) => read(dependency_lock::run(globals, options)),
        Command::Fetch(args) => read(chart_copies::run(globals, options, args)),
        Command::Init(_) => read(cache_verbs::init()),
        Command::Repos(_) => read(repository_check::run(globals, options)),
        Command::Lint(args) => read(release_lint::run(globals, options, args)),
        Command::List(args) => read(reading::list(globals, options, args)),
        Command::PrintEnv(args) => read(reading::print_env(globals, options, args)),
        Command::ShowDag(_) => read(reading::show_dag(globals, options)),
        Command::Status(_) => release_verbs::print_statuses(globals, options),
        Command::Template(args) => read(template::run(globals, options, args)),
        Command::Test(args) => release_verbs::run_tests(globals, options, args),
        Command::WriteValues(args) => read(reading::write_values(globals, options, args)),
    }
}
