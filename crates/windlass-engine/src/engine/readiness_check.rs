//! Whether the objects of a release that is deployed are ready.
//!
//! Owns the wait outside of a revision: one that ends without success changes no record; and which objects need no look, since nobody
//! has written them since they were seen ready. The rules are `execute/readiness`'s.

use crate::{
    context::Context,
    engine::Engine,
    error::Result,
    execute::readiness::status_wait::{self, SeenReady},
    objects::desired_objects::{DesiredObject, Scopes, resolve},
    observe::observed_objects::kinds_for,
    record::Record,
    report::status_resources,
    request::{ReleaseId, ReleaseOptions, RenderedRelease},
    state::engine_state::CachedRelease,
};
use std::collections::BTreeSet;
use windlass_cluster::ObjectKey;

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
        let known = seen_ready(context, id);
        let needs_look = |target: &&DesiredObject| {
            !known.contains(&target.key) || !status_wait::is_by_status(&target.object.gvk, options)
        };
        let (targets, mut ready) = (targets.iter().filter(needs_look), SeenReady::new());
        let result = tokio::select! {
            result = status_wait::all_ready(&context.cluster, targets, options, progress, &mut ready) => result,
            error = context.deadline.given_up() => Err(error),
        };
        note_ready(context, id, options, ready);
        result
    }
}

/// The objects of a release that are as they were when they were seen ready, as the watches have them.
fn seen_ready(context: &Context, id: &ReleaseId) -> BTreeSet<ObjectKey> {
    let Some(watches) = &context.watches else { return BTreeSet::new() };
    let of = |known: &mut CachedRelease| {
        let expected = known.expected.iter();
        let ready = expected.filter(|(_, e)| e.is_seen_ready(&watches.lookup(&e.object, e.written)));
        ready.map(|(key, _)| key.clone()).collect()
    };
    context.state.with(&context.key(id), of).unwrap_or_default()
}

/// Remembers the versions at which objects were ready.
fn note_ready(context: &Context, id: &ReleaseId, options: &ReleaseOptions, ready: SeenReady) {
    context.state.with(&context.key(id), |known| {
        for (object, version) in ready {
            let expected = known.expected.get_mut(&object.key());
            if let Some(expected) = expected.filter(|_| status_wait::is_by_status(&object.gvk, options)) {
                expected.ready_at = Some(version);
            }
        }
    });
}
