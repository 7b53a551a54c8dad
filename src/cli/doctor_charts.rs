//! `windlass doctor charts`: what would be different if Windlass took the objects of charts' kinds over from operator-sdk now.

use std::path::PathBuf;
use std::process::ExitCode;

use super::chart_flags;
use super::flags::Globals;
use super::output::{Format, structured};
use super::release_findings::{Findings, ObjectPass};
use super::{Failure, print, with_engine};
use crate::preflight::{ChartObjectChecks, ChartObjectReport, chart_object_report};
use windlass_base::redact;
use windlass_chartresource::{ChartResourceOptions, ChartSources, ObjectOptions};
use windlass_controller::{AccountName, ContextOptions, ControllerOptions};

/// Flags of `doctor charts`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// File with kinds and their charts, as operator-sdk's Helm operator reads it [default: watches.yaml, if there is one]
    #[arg(long, env = "WINDLASS_WATCHES_FILE", value_name = "FILE")]
    watches_file: Option<PathBuf>,
    /// Directory of charts that ChartResources name by a path
    #[arg(long, env = "WINDLASS_CHARTS_DIR", value_name = "DIRECTORY")]
    charts_dir: Option<PathBuf>,
    /// Check the objects of all namespaces; also without --namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// The operator's --default-service-account
    #[arg(long, env = "WINDLASS_DEFAULT_SERVICE_ACCOUNT")]
    default_service_account: Option<AccountName>,
    /// Use your own rights instead of those of the ServiceAccounts
    #[arg(long)]
    no_impersonation: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let namespace = globals.namespace.clone().filter(|_| !args.all_namespaces);
    let (kinds, ignored) = chart_flags::file_kinds(args.watches_file.as_deref(), chart_flags::PERIOD)?;
    let charts_dir = args.charts_dir.as_deref().map(chart_flags::charts_dir).transpose()?;
    let report = with_engine(globals, async |s| {
        let context = ContextOptions {
            storage: s.engine.storage().clone(),
            render_bounds: globals.render_bounds(),
            crds_as_operator: false,
        };
        let options = ChartResourceOptions {
            // They are read by this machine's user.
            sources: ChartSources { charts_dir: charts_dir.clone(), allow_local_addresses: true },
            objects: ObjectOptions {
                default_service_account: args.default_service_account.clone(),
                ..ObjectOptions::default()
            },
            controller: ControllerOptions { namespace: namespace.clone(), ..ControllerOptions::default() },
            reserved: Vec::new(),
        };
        let impersonates = !args.no_impersonation;
        let checks = ChartObjectChecks { context: &context, kinds: kinds.clone(), options, impersonates };
        chart_object_report(s.engine.cluster(), checks).await.map_err(|e| e.to_string())
    })?;
    let found = findings(&report, ignored);
    let out = match args.output {
        Format::Table => found.text(),
        format => structured(&report, format)?,
    };
    print(redact::mask(&out).as_bytes())?;
    found.status("object")
}

fn findings(report: &ChartObjectReport, first: Vec<String>) -> Findings<'_> {
    Findings {
        kinds: "objects of charts' kinds",
        idle: "not managed",
        first,
        diagnoses: &report.diagnoses,
        objects: report.releases.iter().map(|one| ObjectPass::of(one, "", false)).collect(),
    }
}
