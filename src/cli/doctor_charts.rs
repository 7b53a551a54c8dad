//! `windlass doctor charts`: what would be different if Windlass took the objects of charts' kinds over from operator-sdk now.

use std::path::PathBuf;
use std::process::ExitCode;

use super::chart_flags;
use super::flags::Globals;
use super::object_checks::{ObjectChecks, context};
use super::release_findings::{Findings, ObjectPass};
use super::{Failure, with_engine};
use crate::preflight::{ChartObjectChecks, ChartObjectReport, chart_object_report};
use windlass_chartresource::{ChartResourceOptions, ChartSources, ObjectOptions};
use windlass_controller::ControllerOptions;

/// Flags of `doctor charts`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// File with kinds and their charts, as operator-sdk's Helm operator reads it [default: watches.yaml, if there is one]
    #[arg(long, env = "WINDLASS_WATCHES_FILE", value_name = "FILE")]
    watches_file: Option<PathBuf>,
    /// Directory of charts that ChartResources name by a path
    #[arg(long, env = "WINDLASS_CHARTS_DIR", value_name = "DIRECTORY")]
    charts_dir: Option<PathBuf>,
    #[command(flatten)]
    checks: ObjectChecks,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let namespace = args.checks.namespace(globals).map(str::to_owned);
    let (kinds, ignored) = chart_flags::file_kinds(args.watches_file.as_deref(), chart_flags::PERIOD)?;
    let charts_dir = args.charts_dir.as_deref().map(chart_flags::charts_dir).transpose()?;
    let report = with_engine(globals, async |s| {
        let context = context(globals, &s);
        let options = ChartResourceOptions {
            // They are read by this machine's user.
            sources: ChartSources { charts_dir: charts_dir.clone(), allow_local_addresses: true },
            objects: ObjectOptions {
                default_service_account: args.checks.default_service_account.clone(),
                ..ObjectOptions::default()
            },
            controller: ControllerOptions { namespace: namespace.clone(), ..ControllerOptions::default() },
            reserved: Vec::new(),
        };
        let impersonates = args.checks.impersonates();
        let checks = ChartObjectChecks { context: &context, kinds: kinds.clone(), options, impersonates };
        chart_object_report(s.engine.cluster(), checks).await.map_err(|e| e.to_string())
    })?;
    let found = findings(&report, ignored);
    args.checks.print(&report, &found, "object")
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
