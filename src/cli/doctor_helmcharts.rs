//! `windlass doctor helmcharts`: what would be different if Windlass took HelmCharts over from k3s or RKE2 now.

use std::process::ExitCode;

use super::flags::Globals;
use super::object_checks::{ObjectChecks, context};
use super::release_findings::{Findings, ObjectPass};
use super::{Failure, with_engine};
use crate::preflight::{HelmChartChecks, HelmChartReport, helmchart_report};
use windlass_engine::DriftPolicy;
use windlass_helmcharts::{DEFAULT_MANAGER, HelmChartOptions, ReinstallMode, STABLE_REPOSITORY};

/// Flags of `doctor helmcharts`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    checks: ObjectChecks,
    /// The operator's --managed-by
    #[arg(long, env = "WINDLASS_MANAGED_BY", default_value = DEFAULT_MANAGER)]
    managed_by: String,
    /// The operator's --stable-repo-url
    #[arg(long, env = "STABLE_REPO_URL", default_value = STABLE_REPOSITORY)]
    stable_repo_url: String,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let namespace = args.checks.namespace(globals);
    let report = with_engine(globals, async |s| {
        let context = context(globals, &s);
        let options = HelmChartOptions {
            managed_by: args.managed_by.clone(),
            default_service_account: args.checks.default_service_account.clone(),
            // They are read by this machine's user.
            allow_local_addresses: true,
            stable_repository: args.stable_repo_url.clone(),
            drift: DriftPolicy::default(),
            reinstall: ReinstallMode::default(),
            keeps_own_status: false,
        };
        let impersonates = args.checks.impersonates();
        let checks = HelmChartChecks { context: &context, options, namespace, impersonates };
        helmchart_report(s.engine.cluster(), checks).await.map_err(|e| e.to_string())
    })?;
    let found = findings(&report);
    args.checks.print(&report, &found, "HelmChart")
}

fn findings(report: &HelmChartReport) -> Findings<'_> {
    let job = |job: &String| format!("job: {job} of k3s runs: wait until it has ended");
    Findings {
        kinds: "HelmCharts",
        idle: "not managed",
        first: report.jobs.iter().map(job).collect(),
        diagnoses: &report.diagnoses,
        objects: report.releases.iter().map(|one| ObjectPass::of(one, "HelmChart", false)).collect(),
    }
}
