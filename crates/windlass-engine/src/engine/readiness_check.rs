//! Whether the objects of a release that is deployed are ready.
//!
//! Owns the wait outside of a revision: one that ends without success changes no record. The rules are `execute/readiness`'s.

use crate::{
    engine::Engine,
    error::Result,
    execute::readiness::status_wait,
    objects::desired_objects::{Scopes, resolve},
    observe::observed_objects::kinds_for,
    record::Record,
    report::status_resources,
    request::{ReleaseId, ReleaseOptions, RenderedRelease},
};

/// Whose objects a check of readiness is about.
#[derive(Clone, Copy)]
pub enum CheckedObjects<'a> {
    /// Those that were rendered.
    Rendered(&'a RenderedRelease),
    /// Those of a recorded revision. Kinds that are not served are left out, with a log line.
    Recorded(&'a Record),
}

impl Engine {
    /// Waits until objects of a release are ready, by the rules and within the time of `options`. Writes nothing.
    ///
    /// # Errors
    /// [`EngineError::NotReady`](crate::EngineError::NotReady) names the objects that are not ready in time; an object has failed; the
    /// objects cannot be read; the caller cancelled the wait.
    pub async fn await_ready(
        &self,
        id: &ReleaseId,
        objects: CheckedObjects<'_>,
        options: &ReleaseOptions,
    ) -> Result<()> {
        let context = &self.context;
        let targets = match objects {
            CheckedObjects::Rendered(rendered) => {
                let kinds = kinds_for(&context.cluster, rendered.objects(), &rendered.crds).await?;
                let scopes = Scopes::new(&kinds, &rendered.crds, rendered.objects());
                resolve(rendered.documents(), id, &scopes)?
            }
            CheckedObjects::Recorded(record) => status_resources::targets(context, id, record).await?,
        };
        let progress = context.progress_of(id);
        tokio::select! {
            ready = status_wait::all_ready(&context.cluster, targets.iter(), options, progress) => ready,
            error = context.deadline.given_up() => Err(error),
        }
    }
}
