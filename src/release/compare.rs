//! What a request would change, object by object: the server is asked to apply it without doing so.
//!
//! Needs the right to patch, and runs the webhooks that a real apply would run.

use super::{
    carry_out::CarryOut,
    engine::Engine,
    error::{EngineError, Result},
    observe,
    outcome::Outcome,
    request::ReleaseRequest,
    targets::Target,
};
use crate::cluster::{ApplyOptions, ClusterError, ObjectRef};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

const AT_ONCE: usize = 16;

/// An object as it is and as it would be.
#[derive(Debug, Clone)]
pub struct Difference {
    pub object: ObjectRef,
    /// Path of its template; empty for what is no longer in the chart.
    pub path: String,
    /// `None`: it would be created.
    pub live: Option<Value>,
    /// `None`: it would be deleted.
    pub wanted: Option<Value>,
}

impl Engine {
    /// Compares a request with the cluster; objects that would not change are left out.
    pub async fn compare(&self, request: &ReleaseRequest) -> Result<Vec<Difference>> {
        let past = observe::records(self.store(), &request.id).await?;
        let (decision, work) = self.decide(request, &past.records)?;
        let mut outcome = Outcome::new(decision.action, decision.reason.clone(), decision.revision);
        let operation = CarryOut { engine: self, work: &work };
        let (targets, plan) = operation.prepare(&decision, &past, &mut outcome).await?;
        let force = request.options.force_conflicts;
        let steps = plan.phases.values().flatten();
        let compared: Vec<Option<Difference>> = stream::iter(steps)
            .map(|step| self.compare_one(&targets[step.target], force))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let mut differences: Vec<Difference> = compared.into_iter().flatten().collect();
        for deletion in plan.prune.into_iter().flatten() {
            let live = self.cluster.get(&deletion.object).await?.map(without_bookkeeping);
            differences.push(Difference { object: deletion.object, path: String::new(), live, wanted: None });
        }
        Ok(differences)
    }

    async fn compare_one(&self, target: &Target, force: bool) -> Result<Option<Difference>> {
        let wrap = |source| EngineError::Object {
            action: "comparing",
            object: target.object.to_string(),
            path: target.path.clone(),
            source,
        };
        let live = match self.cluster.get(&target.object).await {
            // A kind that comes with this release.
            Err(ClusterError::NoKind(_)) => None,
            other => other.map_err(wrap)?,
        };
        let manager = &self.options.field_manager;
        let options = ApplyOptions {
            manager,
            force,
            validation: crate::cluster::Validation::Warn,
            dry_run: true,
            whole: true,
        };
        let wanted = match self.cluster.apply(&target.object, &target.body, options).await {
            Ok(applied) => applied.object,
            // A kind or a namespace that is not there yet: nothing can be said of defaults.
            Err(ClusterError::NoKind(_)) => target.body.clone(),
            Err(error) if error.is_not_found() => target.body.clone(),
            Err(error) => return Err(wrap(error)),
        };
        let (live, wanted) = (live.map(without_bookkeeping), without_bookkeeping(wanted));
        let differs = live.as_ref() != Some(&wanted);
        Ok(differs.then(|| Difference {
            object: target.object.clone(),
            path: target.path.clone(),
            live,
            wanted: Some(wanted),
        }))
    }
}

/// The object without what changes at every write.
fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"] {
            metadata.remove(field);
        }
    }
    object
}
