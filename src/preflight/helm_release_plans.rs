//! What an operator would do with the HelmReleases of a cluster if it started now, and what differs from helm-controller. Writes
//! nothing, so it can run next to helm-controller.

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::doctor::Weight;
use super::object_findings::{ObjectDiagnosis, planner, sort};
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta};
use windlass_controller::ContextOptions;
use windlass_flux::helmrelease::{
    HelmReleaseOptions, HelmReleases, KIND, PassAction, PlanInputs, ReleasePlan, differences,
};

/// The Lease of helm-controller; those of its shards begin with the same name.
const LEASE: &str = "helm-controller-leader-election";
/// HelmReleases that are planned at the same time.
const AT_ONCE: usize = 8;

/// What would happen to one HelmRelease.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedHelmRelease {
    /// `NAMESPACE/NAME`.
    pub object: String,
    #[serde(flatten)]
    pub finding: PassFinding,
}

/// What a pass would do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "finding", content = "detail")]
pub enum PassFinding {
    /// It is suspended.
    Suspended,
    /// Nothing.
    Unchanged,
    /// The plan of a pass that does something.
    Change(Box<ReleasePlan>),
    /// It cannot be told.
    Failed(String),
}

impl PlannedHelmRelease {
    /// Whether an operator would do something, or fail.
    #[must_use]
    pub fn differs(&self) -> bool {
        matches!(self.finding, PassFinding::Change(_) | PassFinding::Failed(_))
    }

    /// Whether the release would get a new revision.
    #[must_use]
    pub fn has_new_revision(&self) -> bool {
        let PassFinding::Change(plan) = &self.finding else { return false };
        matches!(
            plan.action,
            PassAction::Install | PassAction::Upgrade | PassAction::Reinstall | PassAction::Rollback
        )
    }
}

/// Whose HelmReleases are planned, and how.
pub struct HelmReleaseChecks<'a> {
    pub context: &'a ContextOptions,
    pub options: HelmReleaseOptions,
    /// `None`: all namespaces.
    pub namespace: Option<&'a str>,
    /// Whether ServiceAccounts are impersonated, as the operator does.
    pub impersonates: bool,
}

/// A Lease of helm-controller that somebody holds.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct HeldControllerLease {
    /// `NAMESPACE/NAME`.
    pub lease: String,
    pub holder: String,
}

/// All findings about the HelmReleases of a cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseReport {
    /// The Leases of helm-controller that are held now.
    pub leases: Vec<HeldControllerLease>,
    pub diagnoses: Vec<ObjectDiagnosis>,
    pub releases: Vec<PlannedHelmRelease>,
}

/// Plans all HelmReleases. Writes nothing.
///
/// # Errors
/// They cannot be listed.
pub async fn plan_helm_releases(
    cluster: &Cluster,
    checks: HelmReleaseChecks<'_>,
) -> Result<Vec<PlannedHelmRelease>, ClusterError> {
    let objects = list(cluster, checks.namespace).await?;
    Ok(plans(cluster, checks, &objects).await)
}

/// Examines all HelmReleases. `controller_namespace`: where helm-controller's Lease is.
///
/// # Errors
/// They or the Lease cannot be read.
pub async fn helm_release_report(
    cluster: &Cluster,
    checks: HelmReleaseChecks<'_>,
    controller_namespace: &str,
) -> Result<HelmReleaseReport, ClusterError> {
    let leases =
        cluster.list(&Gvk::new("coordination.k8s.io/v1", "Lease"), Some(controller_namespace), "").await?;
    let objects = list(cluster, checks.namespace).await?;
    let mut diagnoses: Vec<ObjectDiagnosis> = objects
        .iter()
        .flat_map(|object| {
            differences(object).into_iter().map(|difference| ObjectDiagnosis {
                weight: if difference.refused { Weight::Breaks } else { Weight::Differs },
                object: ObjectMeta::of(object).namespaced_name(),
                text: difference.text,
            })
        })
        .collect();
    sort(&mut diagnoses);
    Ok(HelmReleaseReport {
        leases: held(&leases, Timestamp::now()),
        diagnoses,
        releases: plans(cluster, checks, &objects).await,
    })
}

async fn list(cluster: &Cluster, namespace: Option<&str>) -> Result<Vec<Value>, ClusterError> {
    let mut objects = cluster.list(&Gvk::new(KIND.0, KIND.1), namespace, "").await?;
    objects.sort_by_cached_key(|object| ObjectMeta::of(object).namespaced_name());
    Ok(objects)
}

async fn plans(
    cluster: &Cluster,
    checks: HelmReleaseChecks<'_>,
    objects: &[Value],
) -> Vec<PlannedHelmRelease> {
    let HelmReleaseChecks { context, options, impersonates, .. } = checks;
    let runner = &planner(cluster, context);
    let front_end = &HelmReleases::new(options);
    let all: Vec<_> = objects
        .iter()
        .map(|object| async move {
            let finding = if object["spec"]["suspend"] == true {
                PassFinding::Suspended
            } else {
                match front_end.plan(PlanInputs { runner, object, chart: None, impersonates }).await {
                    Ok(plan) if plan.changes() => PassFinding::Change(Box::new(plan)),
                    Ok(_) => PassFinding::Unchanged,
                    Err(error) => PassFinding::Failed(error.to_string()),
                }
            };
            PlannedHelmRelease { object: ObjectMeta::of(object).namespaced_name(), finding }
        })
        .collect();
    stream::iter(all).buffered(AT_ONCE).collect().await
}

/// The Leases of helm-controller that have not expired.
fn held(leases: &[Value], now: Timestamp) -> Vec<HeldControllerLease> {
    let is_held = |lease: &&Value| {
        let name = ObjectMeta::of(lease).name();
        let own = name.strip_prefix(LEASE).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        let spec = &lease["spec"];
        let renewed = spec["renewTime"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
        let lasts = spec["leaseDurationSeconds"].as_i64().unwrap_or(0);
        own && renewed.is_some_and(|renewed| now.as_second() < renewed.as_second().saturating_add(lasts))
            && spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty())
    };
    let found = leases.iter().filter(is_held);
    found
        .map(|lease| HeldControllerLease {
            lease: ObjectMeta::of(lease).namespaced_name(),
            holder: lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn leases_of_helm_controller_are_held_until_they_expire() {
        let lease = |name: &str, holder: &str, renewed: &str| {
            json!({
                "metadata": {"namespace": "flux-system", "name": name},
                "spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 35},
            })
        };
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let fresh = "2026-01-01T00:00:30.000000Z";
        let leases = [
            lease(LEASE, "pod-1", fresh),
            lease(&format!("{LEASE}-0a1b2c3d"), "pod-2", fresh),
            lease(&format!("{LEASE}-old"), "pod-3", "2026-01-01T00:00:00Z"),
            lease(&format!("{LEASE}-free"), "", fresh),
            lease("source-controller-leader-election", "pod-4", fresh),
        ];
        let holders: Vec<String> = held(&leases, now).into_iter().map(|lease| lease.holder).collect();
        assert_eq!(holders, ["pod-1", "pod-2"]);
    }
}
