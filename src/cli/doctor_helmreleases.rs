//! `windlass doctor helmreleases`: what would be different if Windlass took HelmReleases over from helm-controller now.

use std::process::ExitCode;

use super::flags::Globals;
use super::object_checks::{ObjectChecks, context};
use super::release_findings::{Findings, ObjectPass, Pass};
use super::{Failure, plan_helmrelease, with_engine};
use crate::preflight::{
    HeldControllerLease, HelmReleaseChecks, HelmReleaseReport, PassFinding, PlannedHelmRelease,
    helm_release_report,
};
use windlass_flux::helmrelease::HelmReleaseOptions;

/// Flags of `doctor helmreleases`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    checks: ObjectChecks,
    /// Namespace of helm-controller, where its leader election Lease is
    #[arg(long, env = "WINDLASS_HELM_CONTROLLER_NAMESPACE", default_value = "flux-system")]
    helm_controller_namespace: String,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let namespace = args.checks.namespace(globals);
    let report = with_engine(globals, async |s| {
        let context = context(globals, &s);
        let options = HelmReleaseOptions {
            default_service_account: args.checks.default_service_account.clone(),
            ..HelmReleaseOptions::default()
        };
        let impersonates = args.checks.impersonates();
        let checks = HelmReleaseChecks { context: &context, options, namespace, impersonates };
        let report = helm_release_report(s.engine.cluster(), checks, &args.helm_controller_namespace).await;
        report.map_err(|e| e.to_string())
    })?;
    let found = findings(&report);
    args.checks.print(&report, &found, "HelmRelease")
}

fn findings(report: &HelmReleaseReport) -> Findings<'_> {
    let held = |held: &HeldControllerLease| {
        format!(
            "lease: {} holds {}: an operator waits until helm-controller is stopped",
            held.holder, held.lease
        )
    };
    Findings {
        kinds: "HelmReleases",
        idle: "suspended",
        first: report.leases.iter().map(held).collect(),
        diagnoses: &report.diagnoses,
        objects: passes(&report.releases, false),
    }
}

/// The HelmReleases as they are printed.
pub(super) fn passes(found: &[PlannedHelmRelease], painted: bool) -> Vec<ObjectPass> {
    let pass = |planned: &PlannedHelmRelease| match &planned.finding {
        PassFinding::Suspended => Pass::Idle("suspended", None),
        PassFinding::Unchanged => Pass::Unchanged,
        PassFinding::Failed(why) => Pass::Failed(why.clone()),
        PassFinding::Change(plan) => Pass::Change {
            head: plan_helmrelease::head(plan).trim_end().to_owned(),
            whole: plan_helmrelease::text(plan, false, painted),
            new_revision: planned.has_new_revision(),
        },
    };
    found.iter().map(|one| ObjectPass { object: one.object.clone(), pass: pass(one) }).collect()
}
