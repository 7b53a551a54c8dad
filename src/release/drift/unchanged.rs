//! Answers a request from the caches alone: the same request succeeded before, and no watch saw a change since.

use crate::cluster::CacheLookup;
use crate::release::{
    decide::{ReleaseAction, reason::ActionReason},
    drift::{self, DriftVerdict, ExpectedObject, Tolerated},
    engine::Engine,
    execute::crds,
    outcome::ReleaseOutcome,
    request::{DriftMode, ReleaseRequest},
};

impl Engine {
    /// The outcome without a request to the server, if nothing changed.
    pub(crate) fn unchanged_by_caches(&self, request: &ReleaseRequest) -> Option<ReleaseOutcome> {
        let (watches, records) = (self.watches.as_ref()?, self.records.as_ref()?);
        let checksum = &request.rendered.checksum;
        if !request.options.revisions.skip_unchanged || request.options.dry_run || checksum.is_empty() {
            return None;
        }
        if !self.missing_crds(&request.id).is_empty() {
            return None;
        }
        let crds = crds::kept_digest(request.options.crds, &request.rendered.crds);
        self.state.with(&request.id, |known| {
            let record = |revision: u64| self.options.storage.reference(&request.id, revision);
            let current = match records.lookup(&record(known.revision), None) {
                CacheLookup::Present(seen) => seen.resource_version == known.record_version,
                _ => false,
            };
            let last = matches!(records.lookup(&record(known.revision + 1), None), CacheLookup::Absent);
            let reported = |e: &ExpectedObject| e.tolerated == Some(Tolerated::Reported);
            let as_asked = *checksum == known.checksum
                && crds == known.crds
                && request.options.drift.mode == known.drift
                && !known.expected.values().any(reported);
            if !as_asked || !current || !last {
                return None;
            }
            let fine = known.drift == DriftMode::Off
                || known.expected.values().all(|expected| {
                    let lookup = watches.lookup(&expected.object, expected.written);
                    matches!(
                        drift::judge(expected, &lookup, &request.id),
                        DriftVerdict::InSync | DriftVerdict::ExpectedDeletion(_) | DriftVerdict::Undecided
                    )
                });
            fine.then(|| {
                let reason = ActionReason::UpToDate { revision: known.revision };
                let mut outcome = ReleaseOutcome::new(ReleaseAction::Unchanged, reason, known.revision);
                outcome.unchanged = known.expected.len();
                outcome
            })
        })?
    }
}
