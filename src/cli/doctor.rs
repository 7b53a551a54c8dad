//! `windlass doctor`: what works differently here, for a directory of modules, for the objects of a cluster and for their records.

use std::path::PathBuf;
use std::process::ExitCode;

use super::flags::Globals;
use super::output::{Format, structured};
use super::{
    Failure, block_on, doctor_charts, doctor_helmcharts, doctor_helmreleases, doctor_records, print,
};
use crate::preflight::{self, Diagnosis, Weight};
use windlass_modules::addon;

/// Subcommands of `doctor`.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Check modules of addon-operator, and list the hooks in their programs; asks hooks for their configuration
    Modules(Modules),
    /// Check HelmReleases of helm-controller before the switch: exit status 1 if something does not work here, 2 if a release would
    /// get a new revision
    #[command(name = "helmreleases", visible_alias = "hr")]
    HelmReleases(doctor_helmreleases::Args),
    /// Check HelmCharts of k3s and RKE2 before the switch: exit status 1 if something does not work here, 2 if a release would get a
    /// new revision
    #[command(name = "helmcharts", visible_alias = "hc")]
    HelmCharts(doctor_helmcharts::Args),
    /// Check objects of charts' kinds before the switch from operator-sdk's Helm operator: exit status 1 if something does not work here, 2
    /// if a release would get a new revision
    Charts(doctor_charts::Args),
    /// Find release records of HelmReleases that name the wrong namespace, and repair them with --fix: exit status 2 if there are any
    Records(doctor_records::Args),
}

/// Flags of `doctor modules`.
#[derive(clap::Args)]
pub(super) struct Modules {
    /// Directories of modules, separated by colons
    #[arg(env = "MODULES_DIR")]
    modules_dir: String,
    /// Directory of global hooks
    #[arg(long, env = "GLOBAL_HOOKS_DIR")]
    global_hooks_dir: Option<PathBuf>,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(globals: &Globals, command: &Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Modules(args) => modules(args).map(|()| ExitCode::SUCCESS),
        Command::HelmReleases(args) => doctor_helmreleases::run(globals, args),
        Command::HelmCharts(args) => doctor_helmcharts::run(globals, args),
        Command::Charts(args) => doctor_charts::run(globals, args),
        Command::Records(args) => doctor_records::run(globals, args),
    }
}

fn modules(args: &Modules) -> Result<(), Failure> {
    let look =
        preflight::doctor(&args.modules_dir, args.global_hooks_dir.as_deref(), addon::UNNUMBERED_ORDER);
    let found = block_on(look)?;
    let text = match args.output {
        Format::Table => text(&found),
        format => structured(&found, format)?,
    };
    print(text.as_bytes())?;
    match found.iter().filter(|d| d.weight == Weight::Breaks).count() {
        0 => Ok(()),
        count => Err(format!("{count} thing(s) do not work here")),
    }
}

/// The word of a weight.
pub(super) fn word(weight: Weight) -> &'static str {
    match weight {
        Weight::Breaks => "breaks",
        Weight::Differs => "differs",
        Weight::Needs => "needs",
        Weight::Holds => "holds",
    }
}

fn text(found: &[Diagnosis]) -> String {
    let mut out = String::new();
    for Diagnosis { weight, module, path, text } in found {
        let weight = word(*weight);
        let module = if module.is_empty() { String::new() } else { format!(" module {module}:") };
        let path = if path.as_os_str().is_empty() { String::new() } else { format!(" {}:", path.display()) };
        out.push_str(&format!("{weight}:{module}{path} {text}\n"));
    }
    out.push_str(&match found.iter().filter(|d| d.weight != Weight::Holds).count() {
        0 => "nothing works otherwise here\n".to_owned(),
        count => format!("{count} thing(s) to know\n"),
    });
    out
}
