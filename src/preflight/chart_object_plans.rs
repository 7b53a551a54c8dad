//! What an operator would do with the objects of charts' kinds if it started now, and what differs from operator-sdk's Helm operator.
//! Writes nothing, so it can run next to that one.

use futures::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::Value;

use super::doctor::Weight;
use super::object_findings::{ObjectDiagnosis, PlannedRelease, ReleaseFinding, planner, sort};
use windlass_chartresource::chart_resource_definition::KIND;
use windlass_chartresource::object_plan::{ObjectPlanInputs, PlannedKind, PlannedObject, plan_kind};
use windlass_chartresource::{ChartObjects, ChartResourceOptions, KindSettings, LoadedChart};
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta};
use windlass_controller::{ContextOptions, ReleaseRunner};

/// Objects that are planned at the same time.
const AT_ONCE: usize = 8;

/// Whose objects are planned, and how.
pub struct ChartObjectChecks<'a> {
    pub context: &'a ContextOptions,
    /// The kinds of operator-sdk's file, each with its chart.
    pub kinds: Vec<(KindSettings, LoadedChart)>,
    pub options: ChartResourceOptions,
    /// Whether ServiceAccounts are impersonated, as the operator does.
    pub impersonates: bool,
}

/// All findings about the objects of charts' kinds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartObjectReport {
    pub diagnoses: Vec<ObjectDiagnosis>,
    pub releases: Vec<PlannedRelease>,
}

/// Plans all objects of the kinds of the file and of those that ChartResources register. Writes nothing.
///
/// # Errors
/// Objects cannot be listed.
pub async fn chart_object_report(
    cluster: &Cluster,
    checks: ChartObjectChecks<'_>,
) -> Result<ChartObjectReport, ClusterError> {
    let ChartObjectChecks { context, kinds, mut options, impersonates } = checks;
    let mut report = ChartObjectReport { diagnoses: Vec::new(), releases: Vec::new() };
    let runner = planner(cluster, context);
    options.reserved = kinds.iter().map(|(settings, _)| settings.gvk.clone()).collect();
    let mut all = kinds;
    for resource in list(cluster, &Gvk::new(KIND.0, KIND.1), None, "").await?.unwrap_or_default() {
        let object = format!("ChartResource {}", ObjectMeta::of(&resource).name());
        match plan_kind(cluster, &options, &resource).await {
            Ok(PlannedKind { settings, chart, is_registered }) => {
                if !is_registered {
                    let text = format!("{} of {} would be registered", settings.gvk.kind, settings.gvk.group);
                    report.diagnoses.push(ObjectDiagnosis { weight: Weight::Needs, object, text });
                }
                all.push((settings, chart));
            }
            Err(error) => {
                let finding = ReleaseFinding::Failed(error.to_string());
                report.releases.push(PlannedRelease { object, finding });
            }
        }
    }
    for (settings, chart) in all {
        of_kind(cluster, &runner, (settings, chart), &options, impersonates, &mut report).await?;
    }
    sort(&mut report.diagnoses);
    Ok(report)
}

/// The objects of a kind; `None` if it is not served.
async fn list(
    cluster: &Cluster,
    gvk: &Gvk,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Option<Vec<Value>>, ClusterError> {
    let mut objects = match cluster.list(gvk, namespace, selector).await {
        Err(ClusterError::NoKind(_)) => return Ok(None),
        found => found?,
    };
    objects.sort_by_cached_key(|object| ObjectMeta::of(object).namespaced_name());
    Ok(Some(objects))
}

async fn of_kind(
    cluster: &Cluster,
    runner: &ReleaseRunner,
    (settings, chart): (KindSettings, LoadedChart),
    options: &ChartResourceOptions,
    impersonates: bool,
    report: &mut ChartObjectReport,
) -> Result<(), ClusterError> {
    let gvk = settings.gvk.clone();
    let controller = settings.controller(&options.controller);
    let namespaces: Vec<Option<&str>> = match &controller.namespace {
        Some(first) => {
            std::iter::once(first).chain(&controller.further_namespaces).map(|n| Some(n.as_str())).collect()
        }
        None => vec![None],
    };
    let front_end = &ChartObjects::new(settings, chart, options.objects.clone());
    for namespace in namespaces {
        let Some(objects) = list(cluster, &gvk, namespace, &controller.selector).await? else {
            return Ok(());
        };
        let plans: Vec<_> = objects
            .iter()
            .map(|object| async {
                let name = format!("{}.{} {}", gvk.kind, gvk.group, ObjectMeta::of(object).namespaced_name());
                (name, front_end.plan(ObjectPlanInputs { runner, object, impersonates }).await)
            })
            .collect();
        let plans: Vec<_> = stream::iter(plans).buffered(AT_ONCE).collect().await;
        for (object, plan) in plans {
            let finding = match plan {
                Ok(PlannedObject::NotManaged(why)) => ReleaseFinding::NotManaged(why),
                Ok(PlannedObject::Release { preview, notes }) => {
                    let diagnosis =
                        |text| ObjectDiagnosis { weight: Weight::Differs, object: object.clone(), text };
                    report.diagnoses.extend(notes.into_iter().map(diagnosis));
                    ReleaseFinding::of(preview)
                }
                Err(error) => ReleaseFinding::Failed(error.to_string()),
            };
            report.releases.push(PlannedRelease { object, finding });
        }
    }
    Ok(())
}
