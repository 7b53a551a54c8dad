//! What an operator would do with the HelmCharts of a cluster if it started now, and what differs from k3s' helm-controller. Writes
//! nothing, so it can run next to k3s.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::Value;

use super::doctor::Weight;
use super::object_findings::{ObjectDiagnosis, PlannedRelease, ReleaseFinding, planner, sort};
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta};
use windlass_controller::ContextOptions;
use windlass_helmcharts::k3s_api::{API_VERSION, CHART_KIND, CONFIG_KIND};
use windlass_helmcharts::{ChartPlanInputs, HelmChartOptions, HelmCharts, PlannedChart, differences};

/// HelmCharts that are planned at the same time.
const AT_ONCE: usize = 8;
/// The label of k3s' Jobs: the name of the HelmChart.
const JOB_LABEL: &str = "helmcharts.helm.cattle.io/chart";

/// Whose HelmCharts are planned, and how.
pub struct HelmChartChecks<'a> {
    pub context: &'a ContextOptions,
    pub options: HelmChartOptions,
    /// `None`: all namespaces.
    pub namespace: Option<&'a str>,
    /// Whether ServiceAccounts are impersonated, as the operator does.
    pub impersonates: bool,
}

/// All findings about the HelmCharts of a cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmChartReport {
    /// Jobs of k3s that run now, as `NAMESPACE/NAME`.
    pub jobs: Vec<String>,
    pub diagnoses: Vec<ObjectDiagnosis>,
    pub releases: Vec<PlannedRelease>,
}

/// Plans all HelmCharts. Writes nothing.
///
/// # Errors
/// They cannot be listed.
pub async fn plan_helmcharts(
    cluster: &Cluster,
    checks: HelmChartChecks<'_>,
) -> Result<Vec<PlannedRelease>, ClusterError> {
    let objects = list(cluster, CHART_KIND, checks.namespace).await?;
    plans(cluster, checks, &objects).await
}

/// Examines all HelmCharts.
///
/// # Errors
/// They or the Jobs of k3s cannot be read.
pub async fn helmchart_report(
    cluster: &Cluster,
    checks: HelmChartChecks<'_>,
) -> Result<HelmChartReport, ClusterError> {
    let jobs = cluster.list(&Gvk::new("batch/v1", "Job"), checks.namespace, JOB_LABEL).await?;
    let objects = list(cluster, CHART_KIND, checks.namespace).await?;
    let manager = checks.options.managed_by.clone();
    let mut diagnoses: Vec<ObjectDiagnosis> = objects
        .iter()
        .flat_map(|object| {
            differences(object, &manager).into_iter().map(|difference| ObjectDiagnosis {
                weight: if difference.refused { Weight::Breaks } else { Weight::Differs },
                object: ObjectMeta::of(object).namespaced_name(),
                text: difference.text,
            })
        })
        .collect();
    sort(&mut diagnoses);
    let jobs = jobs.iter().filter(|job| is_running(job));
    Ok(HelmChartReport {
        jobs: jobs.map(|job| ObjectMeta::of(job).namespaced_name()).collect(),
        diagnoses,
        releases: plans(cluster, checks, &objects).await?,
    })
}

/// Whether a Job has neither completed nor failed.
fn is_running(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    let mut ended =
        conditions.filter(|condition| condition["type"] == "Complete" || condition["type"] == "Failed");
    !ended.any(|condition| condition["status"] == "True")
}

async fn list(cluster: &Cluster, kind: &str, namespace: Option<&str>) -> Result<Vec<Value>, ClusterError> {
    let mut objects = cluster.list(&Gvk::new(API_VERSION, kind), namespace, "").await?;
    objects.sort_by_cached_key(|object| ObjectMeta::of(object).namespaced_name());
    Ok(objects)
}

async fn plans(
    cluster: &Cluster,
    checks: HelmChartChecks<'_>,
    objects: &[Value],
) -> Result<Vec<PlannedRelease>, ClusterError> {
    let HelmChartChecks { context, options, impersonates, namespace } = checks;
    let configs = match list(cluster, CONFIG_KIND, namespace).await {
        Err(ClusterError::NoKind(_)) => Vec::new(),
        configs => configs?,
    };
    let configs: BTreeMap<String, &Value> =
        configs.iter().map(|config| (ObjectMeta::of(config).namespaced_name(), config)).collect();
    let configs = &configs;
    let runner = &planner(cluster, context);
    let front_end = &HelmCharts::new(options);
    let all: Vec<_> = objects
        .iter()
        .map(|object| async move {
            let name = ObjectMeta::of(object).namespaced_name();
            let config = configs.get(&name).copied();
            let finding = match front_end.plan(ChartPlanInputs { runner, object, config, impersonates }).await
            {
                Ok(PlannedChart::NotManaged(why)) => ReleaseFinding::NotManaged(why),
                Ok(PlannedChart::Release(preview)) => ReleaseFinding::of(preview),
                Err(error) => ReleaseFinding::Failed(error.to_string()),
            };
            PlannedRelease { object: name, finding }
        })
        .collect();
    Ok(stream::iter(all).buffered(AT_ONCE).collect().await)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn jobs_run_until_they_have_ended() {
        for (conditions, expected) in [
            (json!(null), true),
            (json!([{"type": "Complete", "status": "True"}]), false),
            (json!([{"type": "Failed", "status": "True"}]), false),
            (json!([{"type": "Suspended", "status": "True"}, {"type": "Failed", "status": "False"}]), true),
        ] {
            assert_eq!(is_running(&json!({"status": {"conditions": conditions}})), expected, "{conditions}");
        }
    }
}
