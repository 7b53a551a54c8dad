//! What is to be done with a release: install, upgrade, resume, correct drift, or nothing. Pure.
//!
//! Owns the choice of the action, its reason and Helm's refusals. Knows no cluster, no objects and no record beyond the state of each
//! revision.

pub(crate) mod reason;

use crate::{
    decide::reason::ActionReason,
    error::EngineError,
    lock::lock_policy::{self, RecordHold},
    observe::release_history::History,
    record::{Record, ReleaseStatus, StoredRecord},
    request::{ApplyMethod, Immutable, Mode, ReleaseOptions},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The engine's action on a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseAction {
    /// A first revision, or the first after an uninstall.
    Install,
    /// A new revision.
    Upgrade,
    /// Finishes an unfinished revision of the same state.
    Resume,
    /// Nothing: the deployed revision is the desired state.
    Unchanged,
    /// Corrects drift without creating a revision.
    Restore,
    /// A new revision that repeats an old one.
    Rollback,
    /// The release is deleted.
    Uninstall,
}

/// A past revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RevisionState {
    pub(crate) revision: u64,
    pub(crate) status: ReleaseStatus,
    /// Its objects and hooks are those of the request.
    pub(crate) same: bool,
    /// Whose it is, if it is pending or uninstalling.
    pub(crate) hold: RecordHold,
    /// It is deployed, and so is an older revision: its writer crashed before the last writes.
    pub(crate) unsettled: bool,
    /// Its uninstall began, and neither it nor an earlier revision was ever deployed.
    pub(crate) undeployed: bool,
}

/// The chosen action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) action: ReleaseAction,
    pub(crate) reason: ActionReason,
    /// The revision that is written or stays deployed.
    pub(crate) revision: u64,
    /// Runs the hooks of an install and writes its texts, not those of an upgrade.
    pub(crate) installing: bool,
    /// Revisions whose objects may be in the cluster: the last deployed one and all unfinished ones after it.
    pub(crate) base: Vec<u64>,
    /// Abandoned revisions: unfinished, without a running operation.
    pub(crate) abandon: Vec<u64>,
    /// Revisions to mark as superseded: earlier deployed ones, a failed one in their place, and those whose name is reused.
    pub(crate) supersede: Vec<u64>,
}

/// Chooses the action. `history` is ordered by revision; superseded revisions may be missing unless one is the
/// newest.
pub(crate) fn decide(
    name: &str,
    options: &ReleaseOptions,
    revisions: &[RevisionState],
) -> Result<Decision, EngineError> {
    let Some(newest) = revisions.last() else {
        return match options.mode {
            Mode::Upgrade => Err(EngineError::NoDeployed(name.to_owned())),
            Mode::Install | Mode::UpgradeInstall => {
                Ok(Decision::new(ReleaseAction::Install, ActionReason::Absent, 1, &[]))
            }
        };
    };
    let unfinished = newest.status.is_pending() || newest.status == ReleaseStatus::Uninstalling;
    if unfinished && newest.hold == RecordHold::Theirs && !options.revisions.break_lock {
        return Err(match options.mode {
            Mode::Install => EngineError::NameInUse,
            Mode::Upgrade | Mode::UpgradeInstall => EngineError::InProgress,
        });
    }
    let next = newest.revision + 1;
    let (revision, status) = (newest.revision, newest.status);
    let after_uninstall = revisions
        .iter()
        .rposition(|p| p.status == ReleaseStatus::Uninstalled)
        .map_or(revisions, |at| &revisions[at + 1..]);
    let resumable = newest.same
        && match newest.status {
            // Only an install resumes an install; a revision that was deployed keeps its number.
            status if status.is_pending() => {
                newest.hold == RecordHold::Ours || options.mode != Mode::Install || never_installed(revisions)
            }
            // A failed revision is retried under its number only where requests are repeated until they succeed.
            ReleaseStatus::Failed => options.revisions.skip_unchanged,
            _ => false,
        };
    let mut decision = match (options.mode, newest.status) {
        _ if resumable => {
            let reason = ActionReason::Unfinished { revision, status };
            Ok(Decision::new(ReleaseAction::Resume, reason, newest.revision, after_uninstall))
        }
        // The same request again, after everything but the update of the superseded revision.
        (_, ReleaseStatus::Deployed) if newest.unsettled && newest.same => {
            let reason = ActionReason::Unsettled { revision };
            Ok(Decision::new(ReleaseAction::Unchanged, reason, newest.revision, after_uninstall))
        }
        (Mode::Install, ReleaseStatus::Uninstalled | ReleaseStatus::Failed) if options.revisions.replace => {
            let reason = ActionReason::Replaced { revision, status };
            Ok(Decision::new(ReleaseAction::Install, reason, next, after_uninstall))
        }
        // A name without a deployed revision is free for an install.
        (Mode::Install, _) if never_installed(revisions) => {
            let reason = ActionReason::NeverDeployed { revision, status };
            Ok(Decision::new(ReleaseAction::Install, reason, next, after_uninstall))
        }
        (Mode::Install, _) => Err(EngineError::NameInUse),
        (Mode::UpgradeInstall, ReleaseStatus::Uninstalled) => {
            Ok(Decision::new(ReleaseAction::Install, ActionReason::Uninstalled, next, &[]))
        }
        (Mode::Upgrade, ReleaseStatus::Uninstalled) => Err(EngineError::NoDeployed(name.to_owned())),
        (_, ReleaseStatus::Deployed) if options.revisions.skip_unchanged && newest.same => {
            let reason = ActionReason::Same { revision };
            Ok(Decision::new(ReleaseAction::Unchanged, reason, newest.revision, after_uninstall))
        }
        (_, ReleaseStatus::Deployed) => {
            let reason = match newest.same {
                true => ActionReason::Repeated { revision },
                false => ActionReason::Differs { revision },
            };
            Ok(Decision::new(ReleaseAction::Upgrade, reason, next, after_uninstall))
        }
        _ => {
            let reason = ActionReason::NotDeployed { revision, status };
            Ok(Decision::new(ReleaseAction::Upgrade, reason, next, after_uninstall))
        }
    }?;
    decision.installing |=
        decision.action == ReleaseAction::Resume && newest.status == ReleaseStatus::PendingInstall;
    if decision.action == ReleaseAction::Install
        && matches!(newest.status, ReleaseStatus::Uninstalled | ReleaseStatus::Failed)
    {
        decision.supersede.push(newest.revision);
    }
    // As in Helm, an upgrade replaces the last failed revision where none is deployed.
    if decision.action == ReleaseAction::Upgrade
        && newest.status == ReleaseStatus::Failed
        && revisions.iter().all(|p| p.status != ReleaseStatus::Deployed)
    {
        decision.supersede.push(newest.revision);
    }
    Ok(decision)
}

/// Whether all revisions, from the first, are unfinished installs. Earlier ones may be deleted already if an
/// uninstall began.
pub(crate) fn never_installed(revisions: &[RevisionState]) -> bool {
    let (last, rest) = match revisions.iter().rposition(|p| p.undeployed) {
        Some(at) => (revisions[at].revision, &revisions[at + 1..]),
        None => (0, revisions),
    };
    let count = u64::try_from(rest.len()).unwrap_or(u64::MAX);
    revisions.last().is_some_and(|newest| newest.revision == last + count)
        && rest.iter().all(|p| matches!(p.status, ReleaseStatus::Failed | ReleaseStatus::PendingInstall))
}

/// By whom, and when, the recorded revisions are judged.
#[derive(Clone, Copy)]
pub(crate) struct Observer<'a> {
    /// Identifies this process.
    pub(crate) holder: &'a str,
    /// The operator that owns the release.
    pub(crate) owner: Option<&'a str>,
    /// No other operation runs on the release.
    pub(crate) free: bool,
    pub(crate) now: Timestamp,
}

/// The recorded revisions, as [`decide`] takes them. `same`: whether a revision has the objects and hooks of the request.
pub(crate) fn revision_states(
    history: &History,
    observer: Observer<'_>,
    same: impl Fn(&Record) -> bool,
) -> Vec<RevisionState> {
    let Observer { holder, owner, free, now } = observer;
    let unsettled = free && history.has_two_deployed();
    let newest = history.newest().map(|newest| newest.version);
    let row = |stored: &StoredRecord| RevisionState {
        revision: stored.record.version,
        status: stored.record.info.status,
        same: same(&stored.record),
        hold: lock_policy::judge(&stored.record, holder, owner, free, now),
        unsettled: unsettled && newest == Some(stored.record.version),
        undeployed: stored.record.extension.undeployed
            && stored.record.info.status != ReleaseStatus::Uninstalled,
    };
    history.records.iter().map(row).collect()
}

/// How a request's objects are written. Without a new revision as the deployed one's, whatever the request chooses.
pub(crate) fn method(options: &ReleaseOptions, decision: &Decision, history: &History) -> ApplyMethod {
    if decision.installing {
        return options.apply.method(None);
    }
    let newest = history.newest().map(|record| record.apply_method.as_str());
    let deployed = history.records.iter().find(|stored| stored.record.version == decision.revision);
    match deployed.map(|stored| stored.record.apply_method.as_str()) {
        // A record of Helm 3 names none: the request chooses.
        Some(known) if decision.action == ReleaseAction::Unchanged && !known.is_empty() => {
            ApplyMethod::of_record(known)
        }
        _ => options.apply.method(newest),
    }
}

/// # Errors
/// Objects cannot be replaced as a whole by server-side apply.
pub(crate) fn refuse_replace(options: &ReleaseOptions, method: ApplyMethod) -> Result<(), EngineError> {
    match (options.objects.immutable, method) {
        (Immutable::Replace, ApplyMethod::Server) => Err(EngineError::ReplaceOnServer),
        _ => Ok(()),
    }
}

impl Decision {
    fn new(action: ReleaseAction, reason: ActionReason, revision: u64, live: &[RevisionState]) -> Self {
        let deployed = live.iter().filter(|p| p.status == ReleaseStatus::Deployed).map(|p| p.revision).max();
        let made = |p: &&RevisionState| action == ReleaseAction::Unchanged || p.revision != revision;
        let in_base = |p: &&RevisionState| deployed.is_none_or(|d| p.revision >= d) && made(p);
        let others = || live.iter().filter(|p| p.revision != revision);
        let unfinished =
            |p: &&RevisionState| p.status.is_pending() || p.status == ReleaseStatus::Uninstalling;
        let installing = match action {
            ReleaseAction::Install => true,
            ReleaseAction::Resume => others().next().is_none(),
            _ => false,
        };
        Self {
            action,
            reason,
            revision,
            installing,
            base: live.iter().filter(in_base).map(|p| p.revision).collect(),
            abandon: others().filter(unfinished).map(|p| p.revision).collect(),
            supersede: others().filter(|p| p.status == ReleaseStatus::Deployed).map(|p| p.revision).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
