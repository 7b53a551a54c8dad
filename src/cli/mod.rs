//! The command line: Helm's verbs and flags over the renderer and the engine.
//!
//! Owns flags, exit codes and what is printed. Decides nothing about releases.

mod chart;
mod compare;
mod explain;
mod failure;
mod flags;
mod get;
mod history;
mod install;
mod legacy;
mod lint;
mod list;
mod operator;
mod output;
mod output_dir;
mod post_render;
mod status;
mod template;
mod uninstall;
mod values;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::failure::Explained;
use crate::cluster::{Cluster, ConnectOptions};
use crate::release::{Engine, EngineOptions, ReleaseId};
use crate::render::parse_manifest;

/// Helm charts rendered and applied without Helm.
#[derive(Parser)]
#[command(name = "windlass", version, disable_help_subcommand = true, args_override_self = true)]
struct Cli {
    #[command(flatten)]
    globals: flags::Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Render a chart's templates and print them
    Template(Box<template::Args>),
    /// Install a chart
    Install(Box<install::InstallArgs>),
    /// Examine a chart for possible issues
    Lint(lint::Args),
    /// Look into values
    #[command(subcommand)]
    Values(explain::Command),
    /// Upgrade a release
    Upgrade(Box<install::UpgradeArgs>),
    /// Uninstall a release
    #[command(visible_aliases = ["del", "delete", "un"])]
    Uninstall(uninstall::Args),
    /// List releases
    #[command(visible_alias = "ls")]
    List(list::Args),
    /// Display the status of a release
    Status(status::Args),
    /// Fetch release history
    #[command(visible_alias = "hist")]
    History(history::Args),
    /// Download what is known of a release
    #[command(subcommand)]
    Get(get::Command),
    /// Compare with a helm of yours what both render
    Compare(Box<compare::Args>),
    /// Keep the modules of a directory released
    Operator(Box<operator::Args>),
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
    let globals = &cli.globals;
    let result = match &cli.command {
        Command::Template(args) => template::run(globals, args),
        Command::Install(args) => install::install(globals, args),
        Command::Upgrade(args) => install::upgrade(globals, args),
        Command::Lint(args) => lint::run(globals, args),
        Command::Values(command) => explain::run(globals, command),
        Command::Uninstall(args) => uninstall::run(globals, args).map_err(Explained::from),
        Command::List(args) => list::run(globals, args).map_err(Explained::from),
        Command::Status(args) => status::run(globals, args).map_err(Explained::from),
        Command::History(args) => history::run(globals, args).map_err(Explained::from),
        Command::Get(command) => get::run(globals, command).map_err(Explained::from),
        Command::Compare(args) => compare::run(globals, args).map_err(Explained::from),
        Command::Operator(args) => operator::run(globals, args).map_err(Explained::from),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Explained { text, report }) => {
            tell(&format!("Error: {text}"));
            if let Some(report) = report.filter(|_| failure::explains(globals)) {
                tell(&format!("\n{}", report.to_string().trim_end()));
            }
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

/// Connects as the flags say.
async fn cluster(globals: &flags::Globals) -> Result<Cluster, Failure> {
    // An empty KUBECONFIG means none, as kubectl takes it.
    let kubeconfig = globals.kubeconfig.clone().filter(|p| !p.as_os_str().is_empty());
    let options =
        ConnectOptions { kubeconfig, context: globals.kube_context.clone(), ..ConnectOptions::default() };
    Cluster::connect(&options).await.map_err(|e| e.to_string())
}

/// A connected engine for one command, and the namespace that the command works in.
struct Connected {
    engine: Engine,
    namespace: String,
}

impl Connected {
    fn id(&self, name: &str) -> ReleaseId {
        ReleaseId::new(&self.namespace, name)
    }
}

/// Runs a command that needs the cluster.
fn with_engine<T>(
    globals: &flags::Globals,
    work: impl AsyncFnOnce(Connected) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
    runtime.block_on(async {
        let cluster = cluster(globals).await?;
        let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
        let holder = format!("windlass-{}-{:x}", std::process::id(), jiff::Timestamp::now().as_nanosecond());
        let engine = Engine::new(cluster, parse_manifest, EngineOptions::once(&holder));
        work(Connected { engine, namespace }).await
    })
}
