//! Why a release needs a reconcile: events of its objects, records and CRDs, made by others.

use crate::{
    context::Context,
    engine::Engine,
    request::{DriftMode, ReleaseId, ReleaseKey},
    state::{
        engine_state::PendingEvents,
        expected_object::{self, DriftVerdict},
    },
};
use std::{collections::BTreeSet, fmt};
use windlass_cluster::CacheLookup;

/// The cause of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReconcileTrigger {
    /// Another writer changed its record.
    Record,
    /// An object may have been changed, and others may have been deleted; the text names one.
    Changed(String),
    /// Objects were deleted; the text names one.
    Deleted(String),
    /// The status of a workload has changed, of a release whose owner asked for that; the text names one.
    Status(String),
    /// A CRD of its `crds/` was deleted, with this name. No chart hook deletes CRDs in passing.
    Crd(String),
}

impl ReconcileTrigger {
    pub(crate) fn is_change(&self) -> bool {
        matches!(self, Self::Changed(_))
    }

    /// Whether nothing has drifted.
    #[must_use]
    pub fn is_status(&self) -> bool {
        matches!(self, Self::Status(_))
    }
}

impl fmt::Display for ReconcileTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Record => "its record was written by someone else",
            Self::Changed(text) | Self::Deleted(text) | Self::Status(text) => text,
            Self::Crd(name) => return write!(f, "CustomResourceDefinition {name} was deleted"),
        })
    }
}

impl Engine {
    /// Waits for the next release with a trigger: a changed or deleted object, or a record written by others. Needs
    /// watches; covers the releases that this engine reconciled.
    pub async fn next_trigger(&self) -> (ReleaseId, ReconcileTrigger) {
        let (key, trigger) = next(&self.context, None).await;
        (key.id, trigger)
    }

    /// As [`Engine::next_trigger`], for releases of these owners only (`ReleaseRequest::owner`): several front ends share one
    /// engine.
    pub async fn next_trigger_for(&self, owners: &BTreeSet<String>) -> (ReleaseKey, ReconcileTrigger) {
        next(&self.context, Some(owners)).await
    }
}

async fn next(context: &Context, owners: Option<&BTreeSet<String>>) -> (ReleaseKey, ReconcileTrigger) {
    loop {
        let (key, pending) = context.state.next_pending(owners).await;
        if let Some(trigger) = trigger_of(context, &key, &pending) {
            tracing::info!(release = %key.id, reason = %trigger, "reconcile triggered");
            return (key, trigger);
        }
    }
}

fn trigger_of(context: &Context, key: &ReleaseKey, pending: &PendingEvents) -> Option<ReconcileTrigger> {
    let watches = context.watches.as_ref()?;
    let mut missing = if pending.crds { context.state.missing_crds(key) } else { BTreeSet::new() };
    let missing = missing.pop_first().map(ReconcileTrigger::Crd);
    let judged = context.state.with(key, |known| {
        if pending.has_foreign_write(known) {
            return Some(ReconcileTrigger::Record);
        }
        // Changes rank first, and statuses last: a reconcile for a change re-creates deleted objects, too.
        let mut worst = None;
        let looked_at = pending.objects.iter().filter(|_| known.drift != DriftMode::Off);
        for (object, flags) in looked_at {
            let Some(expected) = known.expected.get_mut(object) else { continue };
            expected.finished |= flags.finished && expected.object.gvk.kind == "Job";
            expected.owned |= flags.owned;
            let lookup = watches.lookup(&expected.object, expected.written);
            match expected_object::judge(expected, &lookup, &key.id) {
                DriftVerdict::Missing => {
                    let text = format!("{} was deleted", expected.object);
                    worst = worst
                        .filter(|worst: &ReconcileTrigger| !worst.is_status())
                        .or(Some(ReconcileTrigger::Deleted(text)));
                }
                DriftVerdict::Suspect(why) => {
                    let text = format!("{}: {why}", expected.object);
                    worst =
                        worst.filter(ReconcileTrigger::is_change).or(Some(ReconcileTrigger::Changed(text)));
                }
                DriftVerdict::InSync => {
                    if let CacheLookup::Present(seen) = &lookup {
                        if known.watches_status && expected.has_new_status(seen) {
                            let text = format!("the status of {} has changed", expected.object);
                            worst = worst.or(Some(ReconcileTrigger::Status(text)));
                        }
                        expected.note(seen);
                    }
                }
                DriftVerdict::ExpectedDeletion(_) | DriftVerdict::Undecided | DriftVerdict::Unknown => {}
            }
        }
        worst
    });
    match judged.flatten() {
        // Objects of a deleted kind are deleted with it.
        None | Some(ReconcileTrigger::Deleted(_) | ReconcileTrigger::Status(_)) if missing.is_some() => {
            missing
        }
        judged => judged,
    }
}
