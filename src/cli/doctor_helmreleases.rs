//! `windlass doctor helmreleases`: what would be different if Windlass took HelmReleases over from helm-controller now.

use std::process::ExitCode;

use super::flags::Globals;
use super::output::{Format, structured};
use super::plan::CHANGES;
use super::{Failure, doctor, plan_helmrelease, print, with_engine};
use crate::preflight::{
    HelmReleaseChecks, HelmReleaseReport, PassFinding, PlannedHelmRelease, Weight, helm_release_report,
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
    let out = match args.output {
        Format::Table => text(&report),
        format => structured(&report, format)?,
    };
    print(redact::mask(&out).as_bytes())?;
    match broken(&report) {
        0 if report.releases.iter().any(PlannedHelmRelease::has_new_revision) => Ok(ExitCode::from(CHANGES)),
        0 => Ok(ExitCode::SUCCESS),
        count => Err(format!("{count} HelmRelease(s) do not work here")),
    }
}

/// The number of HelmReleases that are refused or cannot be planned.
fn broken(report: &HelmReleaseReport) -> usize {
    let refused = report.diagnoses.iter().filter(|d| d.weight == Weight::Breaks).map(|d| d.object.as_str());
    let failed = report.releases.iter().filter(|r| matches!(r.finding, PassFinding::Failed(_)));
    refused
        .chain(failed.map(|release| release.object.as_str()))
        .collect::<std::collections::BTreeSet<_>>()
        .len()
}

/// The report: what does not work first.
fn text(report: &HelmReleaseReport) -> String {
    let mut out = String::new();
    for held in &report.leases {
        out.push_str(&format!(
            "lease: {} holds {}: an operator waits until helm-controller is stopped\n",
            held.holder, held.lease
        ));
    }
    let refused: Vec<&str> =
        report.diagnoses.iter().filter(|d| d.weight == Weight::Breaks).map(|d| d.object.as_str()).collect();
    for diagnosis in report.diagnoses.iter().filter(|d| d.weight == Weight::Breaks) {
        out.push_str(&format!("breaks: {}: {}\n", diagnosis.object, diagnosis.text));
    }
    for release in &report.releases {
        match &release.finding {
            // The diagnosis says more.
            PassFinding::Failed(_) if refused.contains(&release.object.as_str()) => {}
            PassFinding::Failed(why) => out.push_str(&format!("cannot tell: {}: {why}\n", release.object)),
            PassFinding::Change(plan) => {
                out.push_str(&format!("would change: {}", plan_helmrelease::head(plan)));
            }
            PassFinding::Unchanged | PassFinding::Suspended => {}
        }
    }
    for diagnosis in report.diagnoses.iter().filter(|d| d.weight != Weight::Breaks) {
        out.push_str(&format!(
            "{}: {}: {}\n",
            doctor::word(diagnosis.weight),
            diagnosis.object,
            diagnosis.text
        ));
    }
    let count =
        |holds: &dyn Fn(&PlannedHelmRelease) -> bool| report.releases.iter().filter(|r| holds(r)).count();
    out.push_str(&format!(
        "{} HelmReleases: {} unchanged, {} would get a new revision, {} suspended, {} do not work here\n",
        report.releases.len(),
        count(&|r| matches!(r.finding, PassFinding::Unchanged)),
        count(&PlannedHelmRelease::has_new_revision),
        count(&|r| matches!(r.finding, PassFinding::Suspended)),
        broken(report)
    ));
    out
}

/// What would happen to each HelmRelease, with the plans of those that would change.
pub(super) fn plans_text(found: &[PlannedHelmRelease], painted: bool) -> String {
    let mut out = String::new();
    for PlannedHelmRelease { object, finding } in found {
        match finding {
            PassFinding::Suspended => out.push_str(&format!("HelmRelease {object}: suspended\n")),
            PassFinding::Unchanged => out.push_str(&format!("HelmRelease {object}: unchanged\n")),
            PassFinding::Failed(why) => out.push_str(&format!("HelmRelease {object}: cannot tell: {why}\n")),
            PassFinding::Change(plan) => out.push_str(&plan_helmrelease::text(plan, false, painted)),
        }
    }
    let differing = found.iter().filter(|release| release.differs()).count();
    out.push_str(&format!("{differing} of {} HelmReleases would change\n", found.len()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::{HeldControllerLease, HelmReleaseDiagnosis};
    use windlass_flux::helmrelease::{PassAction, ReleasePlan};

    fn release(object: &str, finding: PassFinding) -> PlannedHelmRelease {
        PlannedHelmRelease { object: object.to_owned(), finding }
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
        let diagnosis = |weight, object: &str, text: &str| HelmReleaseDiagnosis {
            weight,
            object: object.to_owned(),
            text: text.to_owned(),
        };
        let mut report = HelmReleaseReport {
            leases: vec![HeldControllerLease { lease: "flux-system/l".to_owned(), holder: "pod".to_owned() }],
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
lease: pod holds flux-system/l: an operator waits until helm-controller is stopped
breaks: apps/remote: spec.kubeConfig is not supported
cannot tell: apps/late: the source is not ready
would change: HelmRelease apps/web: upgrade (changed: values)
differs: apps/web: force: less
5 HelmReleases: 1 unchanged, 1 would get a new revision, 1 suspended, 2 do not work here
";
        assert_eq!(text(&report), expected);
        assert_eq!(broken(&report), 2);
        report.diagnoses.clear();
        report.releases.drain(2..4);
        assert_eq!(broken(&report), 0);
        assert!(plans_text(&report.releases, false).ends_with("1 of 3 HelmReleases would change\n"));
    }
}
