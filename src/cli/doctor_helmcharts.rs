//! `windlass doctor helmcharts`: what would be different if Windlass took HelmCharts over from k3s or RKE2 now.

use std::process::ExitCode;

use super::flags::Globals;
use super::output::Format;
use super::plans_report::PlanTexts;
use super::{Failure, hints, with_engine};
use crate::preflight::{PlanChecks, helmchart_report};
use windlass_controller::{AccountName, ContextOptions};
use windlass_engine::{DriftPolicy, Preview};
use windlass_helmcharts::{DEFAULT_MANAGER, HelmChartOptions, ReinstallMode, STABLE_REPOSITORY};

/// Flags of `doctor helmcharts`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Check the HelmCharts of all namespaces; also without --namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// The operator's --managed-by
    #[arg(long, env = "WINDLASS_MANAGED_BY", default_value = DEFAULT_MANAGER)]
    managed_by: String,
    /// The operator's --default-service-account
    #[arg(long, env = "WINDLASS_DEFAULT_SERVICE_ACCOUNT")]
    default_service_account: Option<AccountName>,
    /// Use your own rights instead of those of the ServiceAccounts
    #[arg(long)]
    no_impersonation: bool,
    /// The operator's --stable-repo-url
    #[arg(long, env = "STABLE_REPO_URL", default_value = STABLE_REPOSITORY)]
    stable_repo_url: String,
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
        let options = HelmChartOptions {
            managed_by: args.managed_by.clone(),
            default_service_account: args.default_service_account.clone(),
            // They are read by this machine's user.
            allow_local_addresses: true,
            stable_repository: args.stable_repo_url.clone(),
            drift: DriftPolicy::default(),
            reinstall: ReinstallMode::default(),
            keeps_own_status: false,
        };
        let impersonates = !args.no_impersonation;
        let checks = PlanChecks { context: &context, options, namespace, impersonates };
        helmchart_report(s.engine.cluster(), checks).await.map_err(|e| e.to_string())
    })?;
    TEXTS.print(&report.plans, (&report, &jobs_text(&report.jobs)), args.output)
}

fn jobs_text(jobs: &[String]) -> String {
    jobs.iter().map(|job| format!("job: {job} of k3s runs: wait until it has ended\n")).collect()
}

/// How plans of HelmCharts are printed.
pub(super) const TEXTS: PlanTexts<Preview> = PlanTexts {
    kind: "HelmChart",
    failures_once: false,
    left_alone: "not managed",
    head: |object, preview| {
        let text = hints::with_flags(preview, hints::OPERATOR_FLAGS).text(false, false);
        format!("{object}: {}", text.lines().next().unwrap_or_default())
    },
    change: |object, preview, painted| {
        let text = hints::with_flags(preview, hints::OPERATOR_FLAGS).text(false, painted);
        let lines: String = text.lines().map(|line| format!("  {line}\n")).collect();
        format!("HelmChart {object}: would change:\n{lines}")
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::{ObjectDiagnosis, PassFinding, PlannedObject, PlansReport, Weight};

    fn release(object: &str, finding: PassFinding<Preview>) -> PlannedObject<Preview> {
        PlannedObject { object: object.to_owned(), finding }
    }

    #[test]
    fn what_does_not_work_comes_first() {
        let diagnosis = |weight, object: &str, text: &str| ObjectDiagnosis {
            weight,
            object: object.to_owned(),
            text: text.to_owned(),
        };
        let report = PlansReport {
            diagnoses: vec![
                diagnosis(Weight::Breaks, "apps/db", "spec.driver: no"),
                diagnosis(Weight::Differs, "apps/web", "spec.jobImage: no effect"),
            ],
            releases: vec![
                release("apps/db", PassFinding::Failed("spec.driver: no".to_owned())),
                release("apps/dns", PassFinding::Unchanged),
                release("apps/other", PassFinding::NotManaged("rke2 manages it".to_owned())),
                release("apps/web", PassFinding::Failed("no chart".to_owned())),
            ],
        };
        let expected = "\
breaks: apps/db: spec.driver: no
cannot tell: apps/db: spec.driver: no
not managed: apps/other: rke2 manages it
cannot tell: apps/web: no chart
differs: apps/web: spec.jobImage: no effect
4 HelmCharts: 1 unchanged, 0 would get a new revision, 1 not managed, 2 do not work here
";
        assert_eq!(TEXTS.report(&report), expected);
        let jobs = jobs_text(&["kube-system/helm-install-web".to_owned()]);
        assert_eq!(jobs, "job: kube-system/helm-install-web of k3s runs: wait until it has ended\n");
        assert!(TEXTS.plans(&report.releases, false).ends_with("2 of 4 HelmCharts would change\n"));
    }
}
