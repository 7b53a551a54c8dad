//! What an operator would do with the HelmReleases of a cluster if it started now, and what differs from helm-controller. Writes
//! nothing, so it can run next to helm-controller.

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::object_plans::{
    AT_ONCE, PassFinding, PassPlan, PlanChecks, PlannedObject, PlansReport, diagnoses, list, plan_runner,
};
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta};
use windlass_flux::helmrelease::{
    HelmReleaseOptions, HelmReleases, KIND, PassAction, PlanInputs, ReleasePlan, differences,
};

/// The Lease of helm-controller; those of its shards begin with the same name.
const LEASE: &str = "helm-controller-leader-election";
impl PassPlan for ReleasePlan {
    fn has_new_revision(&self) -> bool {
        matches!(
            self.action,
            PassAction::Install | PassAction::Upgrade | PassAction::Reinstall | PassAction::Rollback
        )
    }
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
    /// What is found out about the objects.
    #[serde(flatten)]
    pub plans: PlansReport<ReleasePlan>,
}

/// Plans all HelmReleases. Writes nothing.
///
/// # Errors
/// They cannot be listed.
pub async fn plan_helm_releases(
    cluster: &Cluster,
    checks: PlanChecks<'_, HelmReleaseOptions>,
) -> Result<Vec<PlannedObject<ReleasePlan>>, ClusterError> {
    let objects = list(cluster, KIND, checks.namespace).await?;
    Ok(plans(cluster, checks, &objects).await)
}

/// Examines all HelmReleases. `controller_namespace`: where helm-controller's Lease is.
///
/// # Errors
/// They or the Lease cannot be read.
pub async fn helm_release_report(
    cluster: &Cluster,
    checks: PlanChecks<'_, HelmReleaseOptions>,
    controller_namespace: &str,
) -> Result<HelmReleaseReport, ClusterError> {
    let leases =
        cluster.list(&Gvk::new("coordination.k8s.io/v1", "Lease"), Some(controller_namespace), "").await?;
    let objects = list(cluster, KIND, checks.namespace).await?;
    let differences = |object: &Value| differences(object).into_iter().map(|d| (d.refused, d.text));
    let diagnoses = diagnoses(&objects, differences);
    let releases = plans(cluster, checks, &objects).await;
    Ok(HelmReleaseReport {
        leases: held(&leases, Timestamp::now()),
        plans: PlansReport { diagnoses, releases },
    })
}

async fn plans(
    cluster: &Cluster,
    checks: PlanChecks<'_, HelmReleaseOptions>,
    objects: &[Value],
) -> Vec<PlannedObject<ReleasePlan>> {
    let PlanChecks { context, options, impersonates, .. } = checks;
    let runner = &plan_runner(cluster, context);
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
            PlannedObject { object: ObjectMeta::of(object).namespaced_name(), finding }
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
