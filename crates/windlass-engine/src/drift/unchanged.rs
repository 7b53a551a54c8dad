//! Answers a request from the caches alone: the same request succeeded before, and no watch saw a change since.

use crate::{
    context::Context,
    decide::{ReleaseAction, reason::ActionReason},
    objects::crd_files,
    outcome::ReleaseOutcome,
    request::{DriftMode, ReleaseId, ReleaseRequest},
    state::{
        engine_state::CachedRelease,
        expected_object::{self, DriftVerdict, ExpectedObject, Tolerated},
    },
};
use windlass_cluster::CacheLookup;

/// A release of which no watch saw a change since it was last reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnchangedRelease {
    /// The deployed revision.
    pub revision: u64,
    /// How many objects it has.
    pub objects: usize,
    /// Its workloads are as they were when they were last seen ready.
    pub seen_ready: bool,
}

/// The release, if no watch saw a change of it since it was last reconciled with this drift mode; makes no request.
pub(crate) fn release(context: &Context, id: &ReleaseId, drift: DriftMode) -> Option<UnchangedRelease> {
    unchanged(context, id, |known| known.drift == drift)
}

/// The outcome without a request to the server, if nothing changed.
pub(crate) fn outcome(context: &Context, request: &ReleaseRequest) -> Option<ReleaseOutcome> {
    let checksum = &request.rendered.checksum;
    if !request.options.revisions.skip_unchanged || request.options.dry_run || checksum.is_empty() {
        return None;
    }
    let crds = crd_files::kept_digest(request.options.crds, &request.rendered.crds);
    let drift = request.options.drift.mode;
    let as_asked =
        |known: &CachedRelease| *checksum == known.checksum && crds == known.crds && drift == known.drift;
    let UnchangedRelease { revision, objects, .. } = unchanged(context, &request.id, as_asked)?;
    let reason = ActionReason::UpToDate { revision };
    let mut outcome = ReleaseOutcome::new(ReleaseAction::Unchanged, reason, revision);
    outcome.unchanged = objects;
    Some(outcome)
}

/// A release whose record and objects did not change.
fn unchanged(
    context: &Context,
    id: &ReleaseId,
    as_asked: impl Fn(&CachedRelease) -> bool,
) -> Option<UnchangedRelease> {
    let (watches, records) = (context.watches.as_ref()?, context.records.as_ref()?);
    if !context.state.missing_crds(&context.key(id)).is_empty() {
        return None;
    }
    let store = context.store();
    context.state.with(&context.key(id), |known| {
        let record = |revision: u64| store.reference(id, revision);
        let current = match records.lookup(&record(known.revision), None) {
            CacheLookup::Present(seen) => seen.resource_version == known.record_version,
            _ => false,
        };
        let last = matches!(records.lookup(&record(known.revision + 1), None), CacheLookup::Absent);
        let reported = |e: &ExpectedObject| e.tolerated == Some(Tolerated::Reported);
        if known.retains || !as_asked(known) || known.expected.values().any(reported) || !current || !last {
            return None;
        }
        let fine = known.drift == DriftMode::Off
            || known.expected.values().all(|expected| {
                let lookup = watches.lookup(&expected.object, expected.written);
                matches!(
                    expected_object::judge(expected, &lookup, id),
                    DriftVerdict::InSync | DriftVerdict::ExpectedDeletion(_) | DriftVerdict::Undecided
                )
            });
        fine.then(|| UnchangedRelease {
            revision: known.revision,
            objects: known.expected.len(),
            seen_ready: known
                .expected
                .values()
                .filter(|expected| expected.is_workload())
                .all(|expected| expected.is_seen_ready(&watches.lookup(&expected.object, expected.written))),
        })
    })?
}
