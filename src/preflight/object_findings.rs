//! Findings about custom resources whose objects are releases: what a pass would do, and what differs from the tool before.

use serde::Serialize;

use super::doctor::Weight;
use windlass_cluster::Cluster;
use windlass_controller::{ContextOptions, ReleaseRunner};
use windlass_engine::{Engine, EngineOptions, Preview, ReleaseAction};
use windlass_render::parse_manifest;

/// What would happen to one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedRelease {
    /// `NAMESPACE/NAME`, with the kind where there are several.
    pub object: String,
    #[serde(flatten)]
    pub finding: ReleaseFinding,
}

/// What a pass would do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "finding", content = "detail")]
pub enum ReleaseFinding {
    /// It is not managed by this operator; the text says why.
    NotManaged(String),
    /// Nothing.
    Unchanged,
    /// The changes of a pass that does something.
    Change(Box<Preview>),
    /// It cannot be told.
    Failed(String),
}

impl ReleaseFinding {
    /// What a preview says.
    #[must_use]
    pub fn of(preview: Box<Preview>) -> Self {
        if preview.keeps() { Self::Unchanged } else { Self::Change(preview) }
    }
}

impl PlannedRelease {
    /// Whether an operator would do something, or fail.
    #[must_use]
    pub fn differs(&self) -> bool {
        matches!(self.finding, ReleaseFinding::Change(_) | ReleaseFinding::Failed(_))
    }

    /// Whether the release would get a new revision.
    #[must_use]
    pub fn has_new_revision(&self) -> bool {
        let ReleaseFinding::Change(preview) = &self.finding else { return false };
        matches!(preview.action, ReleaseAction::Install | ReleaseAction::Upgrade)
    }
}

/// A difference from the tool before.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ObjectDiagnosis {
    pub weight: Weight,
    /// `NAMESPACE/NAME`, with the kind where there are several.
    pub object: String,
    pub text: String,
}

/// Those that break first.
pub(super) fn sort(diagnoses: &mut [ObjectDiagnosis]) {
    diagnoses.sort_by(|a, b| (a.weight, &a.object).cmp(&(b.weight, &b.object)));
}

/// A runner that plans and writes nothing.
pub(super) fn planner(cluster: &Cluster, context: &ContextOptions) -> ReleaseRunner {
    let options =
        EngineOptions { storage: context.storage.clone(), ..EngineOptions::once("windlass-observe") };
    let engine = Engine::new(cluster.clone(), parse_manifest, options);
    ReleaseRunner::new(engine, context.render_bounds, context.crds_as_operator)
}
