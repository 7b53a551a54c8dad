//! The command line: Helm's verbs and flags over the renderer and the engine.
//!
//! Owns flags, exit codes and output. Decides nothing about releases.

mod addon_operator_env;
mod arguments;
mod build;
mod build_image;
mod build_kustomization;
mod chart;
mod chart_flags;
mod compare;
mod completion;
mod cosign;
mod crd;
mod crds;
mod create;
mod debug;
mod dependency;
mod doctor;
mod doctor_charts;
mod doctor_helmcharts;
mod doctor_helmreleases;
mod doctor_records;
mod env;
mod environment;
mod explain;
mod failure;
mod fetch;
mod flags;
mod flux;
mod get;
mod go_template;
mod helmfile;
mod hints;
mod history;
mod hook_lines;
mod image_flags;
mod images;
mod init;
mod install;
mod jq;
mod jsonpath;
mod kustomize_release;
mod legacy;
mod lint;
mod list;
mod module_files;
mod object_checks;
mod observe;
mod operator;
mod operator_flags;
mod output;
mod output_dir;
mod package;
mod plan;
mod plan_helmrelease;
mod plan_markdown;
mod plugin;
mod post_render;
mod progress;
mod prompt;
mod pull;
mod rbac;
mod rbac_chart;
mod registry;
mod release_findings;
mod release_flags;
mod release_location;
mod reload_flags;
mod repo;
mod resources;
mod rollback;
mod schemas;
mod search;
mod search_hub;
mod selector;
mod shell_operator;
mod show;
mod status;
mod storage;
mod template;
mod template_command;
mod test;
mod uninstall;
mod usage;
mod values;
mod verify;
mod version;
mod webhook_flags;
mod why;
mod why_workload;

use std::ffi::OsString;
use std::io::{ErrorKind, IoSlice, Write};
use std::process::ExitCode;

use chart_compat::go::slog;
use clap::{CommandFactory as _, Parser, Subcommand};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use self::failure::Explained;
use windlass_base::{blocking, redact};
use windlass_cluster::{Cluster, ConnectOptions};
use windlass_engine::record::Storage;
use windlass_engine::{Engine, EngineError, EngineOptions, ReleaseId};
use windlass_render::parse_manifest;

/// Helm charts rendered and applied without Helm.
#[derive(Parser)]
#[command(name = "windlass", version, args_override_self = true)]
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
    /// Build a kustomization and print its manifests
    Build(Box<build_kustomization::Args>),
    /// Deploy the releases of a helmfile
    Helmfile(helmfile::RawArgs),
    /// Pack a helmfile with all that it reads and fetches into one artifact
    Bundle(helmfile::RawArgs),
    /// Install a chart
    Install(Box<install::InstallArgs>),
    /// Create a new chart with the given name
    Create(create::Args),
    /// Write a new repository
    #[command(subcommand)]
    Init(init::Command),
    /// Examine a chart for possible issues
    Lint(lint::Args),
    /// Explain values
    #[command(subcommand)]
    Values(Box<explain::Command>),
    /// Upgrade a release
    Upgrade(Box<install::UpgradeArgs>),
    /// Show what an upgrade (or install) would do to each object, and why
    #[command(visible_alias = "diff")]
    Plan(Box<plan::PlanArgs>),
    /// Execute a saved plan if it still applies
    Apply(plan::ApplyArgs),
    /// Uninstall a release
    #[command(visible_aliases = ["del", "delete", "un"])]
    Uninstall(uninstall::Args),
    /// Roll back a release to a previous revision
    Rollback(rollback::Args),
    /// Run tests for a release
    Test(test::Args),
    /// List releases
    #[command(visible_alias = "ls")]
    List(list::Args),
    /// Display the status of a release
    Status(status::Args),
    /// Show the cause of each revision: its author, and what differs
    Why(why::Args),
    /// Show the images that the operator follows: what runs, what is newer, and why it waits
    Images(images::Args),
    /// Approve the image that waits in a workload
    Approve(images::ApproveArgs),
    /// Build and push an image of a file of a Maven repository on a base image
    BuildImage(Box<build_image::Args>),
    /// Fetch release history
    #[command(visible_alias = "hist")]
    History(history::Args),
    /// Download extended information of a release
    #[command(subcommand)]
    Get(get::Command),
    /// Add, list, remove, update, and index chart repositories
    #[command(subcommand)]
    Repo(repo::Command),
    /// Search for a keyword in charts
    #[command(subcommand)]
    Search(search::Command),
    /// Download a chart from a repository and (optionally) unpack it in local directory
    #[command(visible_alias = "fetch")]
    Pull(Box<pull::Args>),
    /// Show information of a chart
    #[command(subcommand, visible_alias = "inspect")]
    Show(Box<show::Command>),
    /// Manage a chart's dependencies
    #[command(subcommand, visible_aliases = ["dep", "dependencies"])]
    Dependency(dependency::Command),
    /// Login to or logout from a registry
    #[command(subcommand)]
    Registry(registry::Command),
    /// Push a chart to remote
    Push(Box<registry::Push>),
    /// Verify that a chart at the given path has been signed and is valid
    Verify(verify::Args),
    /// Package a chart directory into a chart archive
    Package(Box<package::Args>),
    /// Print the version
    Version(version::Args),
    /// Print the variables that are in use
    Env(env::Args),
    /// Compare the output of a helm binary with ours
    Compare(Box<compare::Args>),
    /// Print a script that completes commands and flags in a shell
    Completion(completion::Args),
    /// HelmReleases and sources of Flux: get, reconcile, suspend, resume, events, export, tree, trace, diff
    #[command(subcommand)]
    Flux(Box<flux::Command>),
    /// Print the RBAC rules that an operator needs for its controllers, or for a chart
    Rbac(Box<rbac::Args>),
    /// Print the CustomResourceDefinition of a chart: a kind whose spec is the chart's values
    Crd(Box<crd::Args>),
    /// Print CustomResourceDefinitions
    #[command(subcommand)]
    Crds(crds::Command),
    /// Report what works differently with Windlass
    #[command(subcommand)]
    Doctor(doctor::Command),
    /// Run the operator: reconcile modules, HelmReleases or both
    #[command(visible_alias = "start")]
    Operator(Box<operator_flags::Args>),
    /// Show the queues of a running operator
    Queue(debug::QueueArgs),
    /// Show and set runtime parameters of a running operator
    Config(debug::ConfigArgs),
    /// Show global values and snapshots of global hooks of a running operator
    Global(debug::GlobalArgs),
    /// Show modules of a running operator: values, renders, snapshots of hooks; render, test and check modules on disk
    Module(Box<debug::ModuleArgs>),
    /// Show hooks of a running operator
    Hook(debug::HookArgs),
    /// Request a path of a running operator's debug endpoint
    Raw(debug::RawArgs),
    /// Filter JSON as jq does, for hooks
    Jq(jq::Raw),
}

/// A failed command: the text after `Error: `.
type Failure = String;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    windlass_render::bound_input();
    if let Some(status) = jq::asked() {
        return status;
    }
    let args: Vec<OsString> = std::env::args_os().collect();
    let cli = match template_command::parse(args.clone()) {
        Ok(cli) => cli,
        Err(error) => return usage::end(&Cli::command(), &args, &error),
    };
    if !matches!(cli.command, Command::Operator(_)) {
        redact::claim_process();
    }
    let globals = &cli.globals.with_environment(&environment::process());
    if !storage::is_known(&globals.driver) {
        tell(&slog::line("INFO", &format!("unknown driver {:?}", globals.driver), &[]));
        return ExitCode::FAILURE;
    }
    let mut status = ExitCode::SUCCESS;
    let result = match &cli.command {
        Command::Template(args) => template::run(globals, args),
        Command::Helmfile(words) => {
            helmfile::run(globals, words).map(|code| status = code).map_err(Explained::from)
        }
        Command::Bundle(words) => {
            helmfile::bundle_command::run(globals, words).map(|code| status = code).map_err(Explained::from)
        }
        Command::Build(args) => build_kustomization::run(globals, args).map_err(Explained::from),
        Command::Install(args) => install::install(globals, args),
        Command::Upgrade(args) => install::upgrade(globals, args),
        Command::Plan(args) => plan::plan(globals, args).map(|code| status = code),
        Command::Apply(args) => plan::apply(globals, args).map_err(Explained::from),
        Command::Create(args) => create::run(globals, args).map_err(Explained::from),
        Command::Init(command) => init::run(globals, command),
        Command::Lint(args) => lint::run(globals, args),
        Command::Values(command) => explain::run(globals, command),
        Command::Uninstall(args) => uninstall::run(globals, args).map_err(Explained::from),
        Command::Rollback(args) => rollback::run(globals, args).map_err(Explained::from),
        Command::Test(args) => test::run(globals, args).map_err(Explained::from),
        Command::Completion(args) => completion::run(args).map_err(Explained::from),
        Command::List(args) => list::run(globals, args).map_err(Explained::from),
        Command::Status(args) => status::run(globals, args).map_err(Explained::from),
        Command::Why(args) => why::run(globals, args).map_err(Explained::from),
        Command::Images(args) => images::run(globals, args).map_err(Explained::from),
        Command::Approve(args) => images::approve(globals, args).map_err(Explained::from),
        Command::BuildImage(args) => build_image::run(globals, args).map_err(Explained::from),
        Command::History(args) => history::run(globals, args).map_err(Explained::from),
        Command::Get(command) => get::run(globals, command).map_err(Explained::from),
        Command::Repo(command) => repo::run(globals, command).map_err(Explained::from),
        Command::Search(command) => search::run(globals, command).map_err(Explained::from),
        Command::Pull(args) => pull::run(globals, args).map_err(Explained::from),
        Command::Show(command) => show::run(globals, command),
        Command::Dependency(command) => dependency::run(globals, command).map_err(Explained::from),
        Command::Registry(command) => registry::run(globals, command).map_err(Explained::from),
        Command::Push(args) => registry::push(globals, args).map_err(Explained::from),
        Command::Verify(args) => verify::run(args).map_err(Explained::from),
        Command::Package(args) => package::run(globals, args),
        Command::Version(args) => version::run(globals, args).map_err(Explained::from),
        Command::Env(args) => env::run(globals, args).map_err(Explained::from),
        Command::Compare(args) => compare::run(globals, args).map_err(Explained::from),
        Command::Flux(command) => {
            flux::run(globals, command).map(|code| status = code).map_err(Explained::from)
        }
        Command::Rbac(args) => rbac::run(globals, args),
        Command::Crd(args) => crd::run(globals, args),
        Command::Crds(command) => crds::run(command).map_err(Explained::from),
        Command::Doctor(command) => {
            doctor::run(globals, command).map(|code| status = code).map_err(Explained::from)
        }
        Command::Operator(args) => {
            operator::run(globals, args).map(|code| status = code).map_err(Explained::from)
        }
        Command::Queue(args) => debug::queue(args).map_err(Explained::from),
        Command::Config(args) => debug::config(args).map_err(Explained::from),
        Command::Global(args) => debug::global(args).map_err(Explained::from),
        Command::Module(args) => debug::module(globals, args),
        Command::Hook(args) => debug::hook(args).map_err(Explained::from),
        Command::Raw(args) => debug::raw(args).map_err(Explained::from),
        Command::Jq(_) => Err(Explained::from("jq must be the first argument".to_owned())),
    };
    match result {
        Ok(()) => status,
        Err(Explained { text, report }) => {
            tell(&format!("Error: {text}"));
            if let Some(report) = report.filter(|_| failure::explains(globals)) {
                tell(&format!("\n{}", report.to_string().trim_end()));
            }
            ExitCode::FAILURE
        }
    }
}

/// Prints to stdout; a closed pipe ends the output silently.
fn print(bytes: &[u8]) -> Result<(), Failure> {
    print_pieces(&[bytes])
}

/// Like [`print`], from several pieces without copying them.
fn print_pieces(pieces: &[&[u8]]) -> Result<(), Failure> {
    let mut slices: Vec<IoSlice<'_>> =
        pieces.iter().filter(|p| !p.is_empty()).map(|p| IoSlice::new(p)).collect();
    let mut out = std::io::stdout().lock();
    let mut write = |mut rest: &mut [IoSlice<'_>]| {
        while !rest.is_empty() {
            match out.write_vectored(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => IoSlice::advance_slices(&mut rest, n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        out.flush()
    };
    match write(&mut slices) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write to stdout: {e}")),
        _ => Ok(()),
    }
}

/// Prints a line to stderr, with the data of Secrets masked.
fn tell(line: &str) {
    let line = redact::mask_log(line);
    // Errors of stderr are ignored.
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}

/// How to reach the cluster that the flags select.
fn connect_options(globals: &flags::Globals) -> ConnectOptions {
    ConnectOptions {
        kubeconfig: globals.kubeconfig.clone(),
        context: globals.kube_context.clone(),
        server: globals.kube_apiserver.clone(),
        token: globals.kube_token.clone().map(Into::into),
        tls_server_name: globals.kube_tls_server_name.clone(),
        ca_file: globals.kube_ca_file.clone(),
        insecure_skip_tls_verify: globals.kube_insecure_skip_tls_verify,
        as_user: globals.kube_as_user.clone(),
        as_groups: globals.kube_as_groups.clone(),
        request_timeout: globals.request_timeout,
    }
}

/// Connects to the cluster that the flags select.
async fn cluster(globals: &flags::Globals) -> Result<Cluster, Failure> {
    Cluster::connect(&connect_options(globals)).await.map_err(|e| e.to_string())
}

/// A connected engine for one command, and the namespace that the command works in.
struct Connected {
    engine: Engine,
    namespace: String,
    cancel: watch::Sender<bool>,
}

impl Connected {
    fn id(&self, name: &str) -> ReleaseId {
        ReleaseId::new(&self.namespace, name)
    }

    /// The cause of a revision, for its record.
    fn cause(&self, verb: &str) -> String {
        let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
        match user.filter(|user| !user.is_empty()) {
            Some(user) => format!("windlass {verb} by {user}"),
            None => format!("windlass {verb}"),
        }
    }

    /// Runs an operation of the engine. The first signal cancels it, a second one exits at once.
    async fn try_run<T, E: From<EngineError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        // Without signal handlers the first signal ends the process. The next command then repairs the release, as after a crash.
        let Ok(mut ended) = ShutdownSignal::listen() else { return work.await };
        tokio::pin!(work);
        tokio::select! {
            result = &mut work => return result,
            () = ended.next() => {}
        }
        tell("windlass: stopping; a second signal stops at once");
        self.cancel.send_replace(true);
        tokio::select! {
            result = &mut work => result,
            () = ended.next() => Err(EngineError::Cancelled.into()),
        }
    }

    /// Like [`Self::try_run`], with the error as text and hints.
    async fn run<T>(&self, work: impl Future<Output = Result<T, EngineError>>) -> Result<T, Failure> {
        self.try_run(work).await.map_err(|e| hints::engine_text(&e))
    }
}

/// A listener for SIGINT and SIGTERM.
struct ShutdownSignal {
    interrupted: Signal,
    terminated: Signal,
}

impl ShutdownSignal {
    /// # Errors
    /// The system registers no signal handlers.
    fn listen() -> Result<Self, Failure> {
        let hear = |kind| signal(kind).map_err(|e| format!("cannot listen for signals: {e}"));
        Ok(Self { interrupted: hear(SignalKind::interrupt())?, terminated: hear(SignalKind::terminate())? })
    }

    /// Resolves when a signal has arrived since the last call.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
        }
    }
}

/// Runs a future on the runtime of the process.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    Ok(blocking::runtime().map_err(|e| format!("cannot start: {e}"))?.block_on(work))
}

/// Runs a command that needs the cluster.
fn with_engine<T>(
    globals: &flags::Globals,
    work: impl AsyncFnOnce(Connected) -> Result<T, Failure>,
) -> Result<T, Failure> {
    block_on(async { work(connect(globals).await?).await })?
}

/// Connects to the cluster of the flags.
async fn connect(globals: &flags::Globals) -> Result<Connected, Failure> {
    let storage = storage::storage(&globals.driver)?;
    let cluster = match cluster(globals).await {
        // Records in memory need no cluster.
        Err(_) if matches!(storage, Storage::Memory(_)) => {
            Cluster::of_this_machine().map_err(|e| e.to_string())?
        }
        connected => connected?,
    };
    let namespace = globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned());
    let holder = format!("windlass-{}-{:x}", std::process::id(), jiff::Timestamp::now().as_nanosecond());
    let options = EngineOptions { storage, ..EngineOptions::once(&holder) };
    let (cancel, flag) = watch::channel(false);
    let engine = Engine::new(cluster, parse_manifest, options)
        .with_cancel(flag)
        .with_progress(progress::listener(globals), failure::explains(globals));
    Ok(Connected { engine, namespace, cancel })
}
