//! The end of a successful revision: it becomes deployed, and the older ones superseded.
//!
//! Owns the order of these writes. Touches no object of the release.

use crate::{
    decide::{Decision, ReleaseAction},
    error::Result,
    execute::{RevisionExecution, rejection::TRIES},
    outcome::ReleaseOutcome,
    record::{RecordError, ReleaseStatus, StoredRecord},
    state::expected_object::ExpectedObject,
};
use futures::{StreamExt as _, stream};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use windlass_cluster::ObjectKey;

impl RevisionExecution<'_> {
    /// Marks the new revision as deployed first and supersedes the old ones then: after a crash in between two are
    /// deployed, and every reader takes the later one.
    pub(super) async fn finish(
        &self,
        mut current: StoredRecord,
        others: Vec<StoredRecord>,
        decision: &Decision,
        expected: BTreeMap<ObjectKey, ExpectedObject>,
        mut outcome: ReleaseOutcome,
    ) -> Result<ReleaseOutcome> {
        let (context, input) = (self.context, self.input);
        let store = context.store();
        current.record.info.status = ReleaseStatus::Deployed;
        current.record.info.description =
            input.description.map_or_else(|| input.operation.done(), str::to_owned);
        current.record.extension.applied =
            expected.iter().filter_map(|(key, e)| Some((key.to_string(), e.applied?))).collect();
        let extension = &mut current.record.extension;
        extension.applied.retain(|key, _| !extension.left.contains(key));
        extension.displaced.clear();
        store.update(&mut current).await?;
        let old: BTreeSet<u64> = decision.supersede.iter().copied().collect();
        let superseding = others.into_iter().filter(|r| old.contains(&r.record.version));
        let superseding: Vec<_> = superseding.map(|stored| self.supersede(stored, decision.action)).collect();
        let superseding = stream::iter(superseding).buffer_unordered(4);
        for result in superseding.collect::<Vec<Result<(), RecordError>>>().await {
            // The next reconcile corrects it.
            if let Err(error) = result {
                tracing::warn!(release = %input.id, %error, "an old revision still has the status deployed");
            }
        }
        context.state.set(&context.key(input.id), input.cached(&current, expected));
        outcome.record = Some(Arc::new(current.record));
        Ok(outcome)
    }

    /// Retries the update of an old revision: two deployed revisions confuse readers.
    async fn supersede(&self, mut stored: StoredRecord, action: ReleaseAction) -> Result<(), RecordError> {
        let store = self.context.store();
        let mut tries = 0;
        loop {
            tries += 1;
            let reused =
                action == ReleaseAction::Install && stored.record.info.status != ReleaseStatus::Deployed;
            stored.record.info.status = ReleaseStatus::Superseded;
            if reused {
                stored.record.info.description = "superseded by new release".to_owned();
            }
            let Err(error) = store.update(&mut stored).await else { return Ok(()) };
            if tries >= TRIES {
                return Err(error);
            }
            match store.get(self.input.id, stored.record.version).await {
                Ok(Some(found)) if found.record.info.status == ReleaseStatus::Superseded => return Ok(()),
                Ok(Some(found)) => stored = found,
                Ok(None) => return Ok(()),
                // The next write may succeed.
                Err(_) => {}
            }
        }
    }
}
