//! `windlass doctor helmreleases`: what would be different if Windlass took HelmReleases over from helm-controller now.

use std::process::ExitCode;

use super::flags::Globals;
use super::output::{Format, structured};
use super::release_findings::{Findings, ObjectPass, Pass};
use super::{Failure, plan_helmrelease, print, with_engine};
use crate::preflight::{
    HeldControllerLease, HelmReleaseChecks, HelmReleaseReport, PassFinding, PlannedHelmRelease,
    helm_release_report,
};
use windlass_base::redact;
use windlass_controller::{AccountName, ContextOptions};
use windlass_flux::helmrelease::HelmReleaseOptions;

/// Flags of `doctor helmreleases`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Check the HelmReleases of all namespaces; also without --namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Namespace of helm-controller, where its leader election Lease is
    #[arg(long, env = "WINDLASS_HELM_CONTROLLER_NAMESPACE", default_value = "flux-system")]
    helm_controller_namespace: String,
    /// ServiceAccount of HelmReleases that name none
    #[arg(long, env = "WINDLASS_DEFAULT_SERVICE_ACCOUNT")]
    default_service_account: Option<AccountName>,
    /// Use your own rights instead of those of the HelmReleases' ServiceAccounts
    #[arg(long)]
    no_impersonation: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let namespace = globals.namespace.as_deref().filter(|_| !args.all_namespaces);
    let report = with_engine(globals, async |s| {
        let context = ContextOptions {
            storage: s.engine.storage().clone(),
            render_bounds: globals.render_bounds(),
            crds_as_operator: false,
        };
        let options = HelmReleaseOptions {
            default_service_account: args.default_service_account.clone(),
            ..HelmReleaseOptions::default()
        };
        let impersonates = !args.no_impersonation;
        let checks = HelmReleaseChecks { context: &context, options, namespace, impersonates };
        let report = helm_release_report(s.engine.cluster(), checks, &args.helm_controller_namespace).await;
        report.map_err(|e| e.to_string())
    })?;
    let found = findings(&report);
    let out = match args.output {
        Format::Table => found.text(),
        format => structured(&report, format)?,
    };
    print(redact::mask(&out).as_bytes())?;
    found.status("HelmRelease")
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
