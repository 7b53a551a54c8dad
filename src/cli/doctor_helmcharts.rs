//! `windlass doctor helmcharts`: what would be different if Windlass took HelmCharts over from k3s or RKE2 now.

use std::collections::BTreeSet;
use std::process::ExitCode;

use super::flags::Globals;
use super::output::{Format, structured};
use super::plan::CHANGES;
use super::{Failure, doctor, hints, print, with_engine};
use crate::preflight::{
    ChartFinding, HelmChartChecks, HelmChartReport, PlannedHelmChart, Weight, helmchart_report,
};
use windlass_base::redact;
use windlass_controller::{AccountName, ContextOptions};
use windlass_engine::DriftPolicy;
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
        let checks = HelmChartChecks { context: &context, options, namespace, impersonates };
        helmchart_report(s.engine.cluster(), checks).await.map_err(|e| e.to_string())
    })?;
    let out = match args.output {
        Format::Table => text(&report),
        format => structured(&report, format)?,
    };
    print(redact::mask(&out).as_bytes())?;
    match broken(&report) {
        0 if report.releases.iter().any(PlannedHelmChart::has_new_revision) => Ok(ExitCode::from(CHANGES)),
        0 => Ok(ExitCode::SUCCESS),
        count => Err(format!("{count} HelmChart(s) do not work here")),
    }
}

/// The number of HelmCharts that are refused or cannot be planned.
fn broken(report: &HelmChartReport) -> usize {
    let refused = report.diagnoses.iter().filter(|d| d.weight == Weight::Breaks).map(|d| d.object.as_str());
    let failed = report.releases.iter().filter(|r| matches!(r.finding, ChartFinding::Failed(_)));
    refused.chain(failed.map(|release| release.object.as_str())).collect::<BTreeSet<_>>().len()
}

/// The report: what does not work first.
fn text(report: &HelmChartReport) -> String {
    let mut out = String::new();
    for job in &report.jobs {
        out.push_str(&format!("job: {job} of k3s runs: wait until it has ended\n"));
    }
    for diagnosis in report.diagnoses.iter().filter(|d| d.weight == Weight::Breaks) {
        out.push_str(&format!("breaks: {}: {}\n", diagnosis.object, diagnosis.text));
    }
    for PlannedHelmChart { object, finding } in &report.releases {
        match finding {
            ChartFinding::Failed(why) => out.push_str(&format!("cannot tell: {object}: {why}\n")),
            ChartFinding::Change(preview) => {
                let preview = hints::with_flags(preview, hints::OPERATOR_FLAGS);
                let first = preview.text(false, false);
                let head = first.lines().next().unwrap_or_default();
                out.push_str(&format!("would change: {object}: {head}\n"));
            }
            ChartFinding::NotManaged(why) => out.push_str(&format!("not managed: {object}: {why}\n")),
            ChartFinding::Unchanged => {}
        }
    }
    for diagnosis in report.diagnoses.iter().filter(|d| d.weight != Weight::Breaks) {
        let word = doctor::word(diagnosis.weight);
        out.push_str(&format!("{word}: {}: {}\n", diagnosis.object, diagnosis.text));
    }
    let count =
        |holds: &dyn Fn(&PlannedHelmChart) -> bool| report.releases.iter().filter(|r| holds(r)).count();
    out.push_str(&format!(
        "{} HelmCharts: {} unchanged, {} would get a new revision, {} not managed, {} do not work here\n",
        report.releases.len(),
        count(&|r| matches!(r.finding, ChartFinding::Unchanged)),
        count(&PlannedHelmChart::has_new_revision),
        count(&|r| matches!(r.finding, ChartFinding::NotManaged(_))),
        broken(report)
    ));
    out
}

/// What would happen to each HelmChart, with the changes of those that would change.
pub(super) fn plans_text(found: &[PlannedHelmChart], painted: bool) -> String {
    let mut out = String::new();
    for PlannedHelmChart { object, finding } in found {
        match finding {
            ChartFinding::NotManaged(why) => {
                out.push_str(&format!("HelmChart {object}: not managed: {why}\n"));
            }
            ChartFinding::Unchanged => out.push_str(&format!("HelmChart {object}: unchanged\n")),
            ChartFinding::Failed(why) => out.push_str(&format!("HelmChart {object}: cannot tell: {why}\n")),
            ChartFinding::Change(preview) => {
                out.push_str(&format!("HelmChart {object}: would change:\n"));
                let preview = hints::with_flags(preview, hints::OPERATOR_FLAGS);
                preview.text(false, painted).lines().for_each(|line| out.push_str(&format!("  {line}\n")));
            }
        }
    }
    let differing = found.iter().filter(|release| release.differs()).count();
    out.push_str(&format!("{differing} of {} HelmCharts would change\n", found.len()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::HelmChartDiagnosis;

    fn release(object: &str, finding: ChartFinding) -> PlannedHelmChart {
        PlannedHelmChart { object: object.to_owned(), finding }
    }

    #[test]
    fn what_does_not_work_comes_first() {
        let diagnosis = |weight, object: &str, text: &str| HelmChartDiagnosis {
            weight,
            object: object.to_owned(),
            text: text.to_owned(),
        };
        let report = HelmChartReport {
            jobs: vec!["kube-system/helm-install-web".to_owned()],
            diagnoses: vec![
                diagnosis(Weight::Breaks, "apps/db", "spec.driver: no"),
                diagnosis(Weight::Differs, "apps/web", "spec.jobImage: no effect"),
            ],
            releases: vec![
                release("apps/db", ChartFinding::Failed("spec.driver: no".to_owned())),
                release("apps/dns", ChartFinding::Unchanged),
                release("apps/other", ChartFinding::NotManaged("rke2 manages it".to_owned())),
                release("apps/web", ChartFinding::Failed("no chart".to_owned())),
            ],
        };
        let expected = "\
job: kube-system/helm-install-web of k3s runs: wait until it has ended
breaks: apps/db: spec.driver: no
cannot tell: apps/db: spec.driver: no
not managed: apps/other: rke2 manages it
cannot tell: apps/web: no chart
differs: apps/web: spec.jobImage: no effect
4 HelmCharts: 1 unchanged, 0 would get a new revision, 1 not managed, 2 do not work here
";
        assert_eq!(text(&report), expected);
        assert!(plans_text(&report.releases, false).ends_with("2 of 4 HelmCharts would change\n"));
    }
}
