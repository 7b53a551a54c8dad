//! `windlass doctor helmreleases`: what would be different if Windlass took HelmReleases over from helm-controller now.

use std::process::ExitCode;

use super::flags::Globals;
use super::output::Format;
use super::plans_report::PlanTexts;
use super::{Failure, plan_helmrelease, with_engine};
use crate::preflight::{HeldControllerLease, PlanChecks, helm_release_report};
use windlass_controller::{AccountName, ContextOptions};
use windlass_flux::helmrelease::{HelmReleaseOptions, ReleasePlan};

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
        let checks = PlanChecks { context: &context, options, namespace, impersonates };
        let report = helm_release_report(s.engine.cluster(), checks, &args.helm_controller_namespace).await;
        report.map_err(|e| e.to_string())
    })?;
    TEXTS.print(&report.plans, (&report, &leases_text(&report.leases)), args.output)
}

fn leases_text(leases: &[HeldControllerLease]) -> String {
    let line = |HeldControllerLease { lease, holder }: &HeldControllerLease| {
        format!("lease: {holder} holds {lease}: an operator waits until helm-controller is stopped\n")
    };
    leases.iter().map(line).collect()
}

/// How plans of HelmReleases are printed.
pub(super) const TEXTS: PlanTexts<ReleasePlan> = PlanTexts {
    kind: "HelmRelease",
    failures_once: true,
    left_alone: "suspended",
    head: |_, plan| plan_helmrelease::head(plan).trim_end().to_owned(),
    change: |_, plan, painted| plan_helmrelease::text(plan, false, painted),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::{ObjectDiagnosis, PassFinding, PlannedObject, PlansReport, Weight};
    use windlass_flux::helmrelease::PassAction;

    fn release(object: &str, finding: PassFinding<ReleasePlan>) -> PlannedObject<ReleasePlan> {
        PlannedObject { object: object.to_owned(), finding }
    }

    #[test]
    fn what_does_not_work_comes_first() {
        let plan = ReleasePlan {
            object: "apps/web".to_owned(),
            release: "apps/web".to_owned(),
            chart: "demo@1.0.0".to_owned(),
            current_chart: None,
            action: PassAction::Upgrade,
            reason: "changed: values".to_owned(),
            plans: Vec::new(),
            notes: Vec::new(),
        };
        let diagnosis = |weight, object: &str, text: &str| ObjectDiagnosis {
            weight,
            object: object.to_owned(),
            text: text.to_owned(),
        };
        let mut report = PlansReport {
            diagnoses: vec![
                diagnosis(Weight::Breaks, "apps/remote", "spec.kubeConfig is not supported"),
                diagnosis(Weight::Differs, "apps/web", "force: less"),
            ],
            releases: vec![
                release("apps/asleep", PassFinding::Suspended),
                release("apps/db", PassFinding::Unchanged),
                release("apps/remote", PassFinding::Failed("spec.kubeConfig is not supported".to_owned())),
                release("apps/late", PassFinding::Failed("the source is not ready".to_owned())),
                release("apps/web", PassFinding::Change(Box::new(plan))),
            ],
        };
        let expected = "\
breaks: apps/remote: spec.kubeConfig is not supported
cannot tell: apps/late: the source is not ready
would change: HelmRelease apps/web: upgrade (changed: values)
differs: apps/web: force: less
5 HelmReleases: 1 unchanged, 1 would get a new revision, 1 suspended, 2 do not work here
";
        assert_eq!(TEXTS.report(&report), expected);
        let lease = HeldControllerLease { lease: "flux-system/l".to_owned(), holder: "pod".to_owned() };
        let expected = "lease: pod holds flux-system/l: an operator waits until helm-controller is stopped\n";
        assert_eq!(leases_text(&[lease]), expected);
        assert_eq!(report.broken(), 2);
        report.diagnoses.clear();
        report.releases.drain(2..4);
        assert_eq!(report.broken(), 0);
        assert!(TEXTS.plans(&report.releases, false).ends_with("1 of 3 HelmReleases would change\n"));
    }
}
