//! Whether the objects of a release that is deployed are ready.
//!
//! Owns the wait outside of a revision: one that ends without success changes no record. The rules are `execute/readiness`'s.

use crate::{
    engine::Engine,
    error::Result,
    execute::readiness::status_wait,
    objects::desired_objects::{Scopes, resolve},
    observe::observed_objects::kinds_for,
    request::{ReleaseId, ReleaseOptions, RenderedRelease},
};

impl Engine {
    /// Waits until the objects of a release are ready, by the rules and within the time of `options`. Writes nothing.
    ///
    /// # Errors
    /// An object is not ready in time, or has failed; the objects cannot be read.
    pub async fn await_ready(
        &self,
        id: &ReleaseId,
        rendered: &RenderedRelease,
        options: &ReleaseOptions,
    ) -> Result<()> {
        let context = &self.context;
        let kinds = kinds_for(&context.cluster, rendered.objects(), &rendered.crds).await?;
        let scopes = Scopes::new(&kinds, &rendered.crds, rendered.objects());
        let targets = resolve(rendered.documents(), id, &scopes)?;
        let progress = context.progress_of(id);
        tokio::select! {
            ready = status_wait::all_ready(&context.cluster, targets.iter(), options, progress) => ready,
            error = context.deadline.given_up() => Err(error),
        }
    }
}
