//! What plans of HelmReleases and of HelmCharts have in common: whose objects are planned, and what is found out about each.
//!
//! Owns the listing, the engine of a plan and the order of diagnoses. Knows no kind.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::doctor::Weight;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta};
use windlass_controller::{ContextOptions, ReleaseRunner};
use windlass_engine::{Engine, EngineOptions};
use windlass_render::parse_manifest;

/// Objects that are planned at the same time.
pub(super) const AT_ONCE: usize = 8;

/// Whose objects are planned, and how. `O`: the options of their front end.
pub struct PlanChecks<'a, O> {
    /// Storage and bounds.
    pub context: &'a ContextOptions,
    /// Options of the front end.
    pub options: O,
    /// `None`: all namespaces.
    pub namespace: Option<&'a str>,
    /// Whether ServiceAccounts are impersonated, as the operator does.
    pub impersonates: bool,
}

/// The plan of a pass that does something.
pub trait PassPlan {
    /// Whether the release would get a new revision.
    fn has_new_revision(&self) -> bool;
}

/// What a pass would do. `P`: its plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "finding", content = "detail")]
pub enum PassFinding<P> {
    /// The object is suspended.
    Suspended,
    /// It is not managed by this operator; the text says why.
    NotManaged(String),
    /// Nothing.
    Unchanged,
    /// The plan of a pass that does something.
    Change(Box<P>),
    /// It cannot be told.
    Failed(String),
}

/// What would happen to one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedObject<P> {
    /// `NAMESPACE/NAME`.
    pub object: String,
    /// What its pass would do.
    #[serde(flatten)]
    pub finding: PassFinding<P>,
}

impl<P: PassPlan> PlannedObject<P> {
    /// Whether an operator would do something, or fail.
    #[must_use]
    pub fn differs(&self) -> bool {
        matches!(self.finding, PassFinding::Change(_) | PassFinding::Failed(_))
    }

    /// Whether the release would get a new revision.
    #[must_use]
    pub fn has_new_revision(&self) -> bool {
        matches!(&self.finding, PassFinding::Change(plan) if plan.has_new_revision())
    }
}

/// A difference from another controller.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ObjectDiagnosis {
    /// How bad it is.
    pub weight: Weight,
    /// `NAMESPACE/NAME`.
    pub object: String,
    /// What is different.
    pub text: String,
}

/// What is found out about the objects of a kind.
#[derive(Debug, Serialize)]
pub struct PlansReport<P> {
    /// The worst first.
    pub diagnoses: Vec<ObjectDiagnosis>,
    /// All objects, by name.
    pub releases: Vec<PlannedObject<P>>,
}

impl<P> PlansReport<P> {
    /// The number of objects that are refused or cannot be planned.
    #[must_use]
    pub fn broken(&self) -> usize {
        let refused = self.diagnoses.iter().filter(|d| d.weight == Weight::Breaks).map(|d| &d.object);
        let failed = self.releases.iter().filter(|r| matches!(r.finding, PassFinding::Failed(_)));
        refused.chain(failed.map(|release| &release.object)).collect::<BTreeSet<_>>().len()
    }
}

/// The objects of a kind, by name.
pub(super) async fn list(
    cluster: &Cluster,
    (api_version, kind): (&str, &str),
    namespace: Option<&str>,
) -> Result<Vec<Value>, ClusterError> {
    let mut objects = cluster.list(&Gvk::new(api_version, kind), namespace, "").await?;
    objects.sort_by_cached_key(|object| ObjectMeta::of(object).namespaced_name());
    Ok(objects)
}

/// The diagnoses of objects: whether a difference refuses its object, and what it is.
pub(super) fn diagnoses<I: IntoIterator<Item = (bool, String)>>(
    objects: &[Value],
    differences: impl Fn(&Value) -> I,
) -> Vec<ObjectDiagnosis> {
    let of_object = |object| {
        differences(object).into_iter().map(|(refused, text)| ObjectDiagnosis {
            weight: if refused { Weight::Breaks } else { Weight::Differs },
            object: ObjectMeta::of(object).namespaced_name(),
            text,
        })
    };
    let mut all: Vec<_> = objects.iter().flat_map(of_object).collect();
    all.sort_by(|a, b| (a.weight, &a.object).cmp(&(b.weight, &b.object)));
    all
}

/// Runs plans, and nothing else.
pub(super) fn plan_runner(cluster: &Cluster, context: &ContextOptions) -> ReleaseRunner {
    let options =
        EngineOptions { storage: context.storage.clone(), ..EngineOptions::once("windlass-observe") };
    let engine = Engine::new(cluster.clone(), parse_manifest, options);
    ReleaseRunner::new(engine, context.render_bounds, context.crds_as_operator)
}
