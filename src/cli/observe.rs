//! `windlass operator --observe`: reports what an operator would change, and writes nothing.

use std::process::ExitCode;

use super::hints;
use super::output::{Format, structured};
use super::release_findings::{ObjectPass, passes_text};
use super::{Failure, doctor_helmreleases, print};
use crate::preflight::{
    self, ChartObjectChecks, Finding, HelmChartChecks, HelmReleaseChecks, Observation, PlannedHelmRelease,
    PlannedRelease,
};
use crate::runtime::{ChartProcess, HelmChartProcess};
use windlass_base::redact;
use windlass_cluster::Cluster;
use windlass_controller::ContextOptions;
use windlass_flux::helmrelease::HelmReleaseOptions;
use windlass_modules::addon;

/// Exit status if something would change.
const CHANGES: u8 = 2;

/// What is observed.
pub(super) struct Observed<'a> {
    /// Options of the modules, if they are reconciled.
    pub(super) modules: Option<&'a addon::Options>,
    /// Options of the HelmReleases, if they are reconciled.
    pub(super) helm_releases: Option<HelmReleaseOptions>,
    /// How HelmCharts are reconciled, if they are.
    pub(super) helmcharts: Option<HelmChartProcess>,
    /// How objects of charts' kinds are reconciled, if they are.
    pub(super) charts: Option<ChartProcess>,
}

pub(super) async fn run(
    cluster: Cluster,
    context: &ContextOptions,
    observed: Observed<'_>,
    format: Format,
    painted: bool,
) -> Result<ExitCode, Failure> {
    let (mut out, mut values, mut differs) = (String::new(), serde_json::Map::new(), false);
    if let Some(options) = observed.helm_releases {
        let checks = HelmReleaseChecks { context, options, namespace: None, impersonates: true };
        let found = preflight::plan_helm_releases(&cluster, checks).await.map_err(|e| e.to_string())?;
        differs |= found.iter().any(PlannedHelmRelease::differs);
        let passes = doctor_helmreleases::passes(&found, painted);
        out.push_str(&passes_text(&passes, "HelmRelease", "HelmReleases"));
        values.insert("helmReleases".to_owned(), json(&found)?);
    }
    if let Some(HelmChartProcess { options, controller }) = observed.helmcharts {
        let namespace = controller.namespace.as_deref();
        let checks = HelmChartChecks { context, options, namespace, impersonates: true };
        let found = preflight::plan_helmcharts(&cluster, checks).await.map_err(|e| e.to_string())?;
        differs |= found.iter().any(PlannedRelease::differs);
        let passes: Vec<_> = found.iter().map(|one| ObjectPass::of(one, "HelmChart", painted)).collect();
        out.push_str(&passes_text(&passes, "HelmChart", "HelmCharts"));
        values.insert("helmCharts".to_owned(), json(&found)?);
    }
    if let Some(ChartProcess { kinds, options }) = observed.charts {
        let checks = ChartObjectChecks { context, kinds, options, impersonates: true };
        let report = preflight::chart_object_report(&cluster, checks).await.map_err(|e| e.to_string())?;
        differs |= report.releases.iter().any(PlannedRelease::differs);
        for diagnosis in &report.diagnoses {
            out.push_str(&format!("{}: {}\n", diagnosis.object, diagnosis.text));
        }
        let passes: Vec<_> = report.releases.iter().map(|one| ObjectPass::of(one, "", painted)).collect();
        out.push_str(&passes_text(&passes, "", "objects of charts' kinds"));
        values.insert("charts".to_owned(), json(&report)?);
    }
    if let Some(options) = observed.modules {
        let (mut observations, problems) =
            preflight::observe(cluster, context, options).await.map_err(|e| e.to_string())?;
        for observation in &mut observations {
            if let Finding::Change(preview) = &mut observation.finding {
                **preview = hints::with_flags(preview, hints::OPERATOR_FLAGS);
            }
        }
        differs |= observations.iter().any(Observation::differs) || !problems.is_empty();
        out.push_str(&text(&observations, &problems, painted));
        values.insert("modules".to_owned(), json(&observations)?);
        values.insert("problems".to_owned(), json(&problems)?);
    }
    if format != Format::Table {
        out = structured(&values, format)?;
    }
    print(redact::mask(&out).as_bytes())?;
    Ok(if differs { ExitCode::from(CHANGES) } else { ExitCode::SUCCESS })
}

fn json(value: &impl serde::Serialize) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(value).map_err(|e| format!("cannot print: {e}"))
}

fn text(observations: &[Observation], problems: &[String], painted: bool) -> String {
    let mut out = String::new();
    for problem in problems {
        out.push_str(&format!("problem: {problem}\n"));
    }
    let mut differing = 0;
    for observation in observations {
        let Observation { module, finding, besides, notes } = observation;
        let told = match finding {
            Finding::Off => "off".to_owned(),
            Finding::HooksOnly => "on, without a chart".to_owned(),
            Finding::Unchanged => "unchanged".to_owned(),
            Finding::Change(_) => "would change:".to_owned(),
            Finding::Uninstall => "would be uninstalled".to_owned(),
            Finding::Failed(text) => format!("cannot tell: {text}"),
        };
        out.push_str(&format!("{module}: {told}\n"));
        for text in besides {
            out.push_str(&format!("  {text}\n"));
        }
        for note in notes {
            out.push_str(&format!("  note: {note}\n"));
        }
        if let Finding::Change(preview) = finding {
            for line in preview.text(false, painted).lines() {
                out.push_str(&format!("  {line}\n"));
            }
        }
        differing += usize::from(observation.differs());
    }
    out.push_str(&format!("{differing} of {} modules would change\n", observations.len()));
    out
}
