//! What is to be done with a release: install, upgrade, resume, correct drift, or nothing. Pure.
//!
//! Owns the choice of the action, its reason and Helm's refusals. Knows no cluster, no objects and no record beyond the state of each
//! revision.

pub(crate) mod reason;

use crate::release::{
    decide::reason::ActionReason,
    error::EngineError,
    lock::lock_policy::RecordHold,
    record::ReleaseStatus,
    request::{Mode, ReleaseOptions},
};
use serde::{Deserialize, Serialize};

/// What the engine does with a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseAction {
    /// A first revision, or the first after an uninstall.
    Install,
    /// A new revision.
    Upgrade,
    /// An unfinished revision of the same state is finished.
    Resume,
    /// Everything is as it should be.
    Unchanged,
    /// No new revision; objects that were changed or deleted are as they should be again.
    Restore,
    /// A new revision that repeats an old one.
    Rollback,
    /// The release goes.
    Uninstall,
}

/// A past revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) revision: u64,
    pub(crate) status: ReleaseStatus,
    /// Its objects and hooks are those of the request.
    pub(crate) same: bool,
    /// Whose it is, if it is pending or uninstalling.
    pub(crate) hold: RecordHold,
    /// It is deployed, and so is an older one: who made it died before the last writes.
    pub(crate) unsettled: bool,
    /// It was being uninstalled, and neither it nor any before it had ever been deployed.
    pub(crate) undeployed: bool,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) action: ReleaseAction,
    pub(crate) reason: ActionReason,
    /// The revision that is written, or that stays.
    pub(crate) revision: u64,
    /// Hooks and texts of an install rather than of an upgrade.
    pub(crate) installing: bool,
    /// Revisions whose objects may be in the cluster: the last deployed and everything unfinished after it.
    pub(crate) base: Vec<u64>,
    /// Unfinished revisions that nobody will finish.
    pub(crate) abandon: Vec<u64>,
    /// Revisions that are no longer the release's: deployed ones, and those whose name is used again.
    pub(crate) supersede: Vec<u64>,
}

/// Decides. `past` is in order of revisions; superseded ones may be left out unless one is the newest.
pub(crate) fn decide(
    name: &str,
    options: &ReleaseOptions,
    past: &[History],
) -> Result<Decision, EngineError> {
    let Some(newest) = past.last() else {
        return match options.mode {
            Mode::Upgrade => Err(EngineError::NoDeployed(name.to_owned())),
            Mode::Install | Mode::UpgradeInstall => {
                Ok(Decision::new(ReleaseAction::Install, ActionReason::Absent, 1, &[]))
            }
        };
    };
    let unfinished = newest.status.is_pending() || newest.status == ReleaseStatus::Uninstalling;
    if unfinished && newest.hold == RecordHold::Theirs && !options.break_lock {
        return Err(match options.mode {
            Mode::Install => EngineError::NameInUse,
            Mode::Upgrade | Mode::UpgradeInstall => EngineError::InProgress,
        });
    }
    let next = newest.revision + 1;
    let (revision, status) = (newest.revision, newest.status);
    let after_uninstall =
        past.iter().rposition(|p| p.status == ReleaseStatus::Uninstalled).map_or(past, |at| &past[at + 1..]);
    let resumable = newest.same
        && match newest.status {
            // An install is resumed where it is one; what was deployed once keeps its name.
            status if status.is_pending() => {
                newest.hold == RecordHold::Ours || options.mode != Mode::Install || never_installed(past)
            }
            // A failed revision is tried again under its number only where requests are repeated until they hold.
            ReleaseStatus::Failed => options.skip_unchanged,
            _ => false,
        };
    let mut decision = match (options.mode, newest.status) {
        _ if resumable => {
            let reason = ActionReason::Unfinished { revision, status };
            Ok(Decision::new(ReleaseAction::Resume, reason, newest.revision, after_uninstall))
        }
        // Asked again for what was done but for calling the old revision superseded.
        (_, ReleaseStatus::Deployed) if newest.unsettled && newest.same => {
            let reason = ActionReason::Unsettled { revision };
            Ok(Decision::new(ReleaseAction::Unchanged, reason, newest.revision, after_uninstall))
        }
        (Mode::Install, ReleaseStatus::Uninstalled | ReleaseStatus::Failed) if options.replace => {
            let reason = ActionReason::Replaced { revision, status };
            Ok(Decision::new(ReleaseAction::Install, reason, next, after_uninstall))
        }
        // What was never there is installed again: its name is in use by nothing.
        (Mode::Install, _) if never_installed(past) => {
            let reason = ActionReason::NeverDeployed { revision, status };
            Ok(Decision::new(ReleaseAction::Install, reason, next, after_uninstall))
        }
        (Mode::Install, _) => Err(EngineError::NameInUse),
        (Mode::UpgradeInstall, ReleaseStatus::Uninstalled) => {
            Ok(Decision::new(ReleaseAction::Install, ActionReason::Uninstalled, next, &[]))
        }
        (Mode::Upgrade, ReleaseStatus::Uninstalled) => Err(EngineError::NoDeployed(name.to_owned())),
        (_, ReleaseStatus::Deployed) if options.skip_unchanged && newest.same => {
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
    Ok(decision)
}

/// Whether all revisions, from the first on, are installs that did not come to their end. Of those before one whose undoing
/// began some may be gone already.
pub(crate) fn never_installed(past: &[History]) -> bool {
    let (last, rest) = match past.iter().rposition(|p| p.undeployed) {
        Some(at) => (past[at].revision, &past[at + 1..]),
        None => (0, past),
    };
    let count = u64::try_from(rest.len()).unwrap_or(u64::MAX);
    past.last().is_some_and(|newest| newest.revision == last + count)
        && rest.iter().all(|p| matches!(p.status, ReleaseStatus::Failed | ReleaseStatus::PendingInstall))
}

impl Decision {
    fn new(action: ReleaseAction, reason: ActionReason, revision: u64, live: &[History]) -> Self {
        let deployed = live.iter().filter(|p| p.status == ReleaseStatus::Deployed).map(|p| p.revision).max();
        let made = |p: &&History| action == ReleaseAction::Unchanged || p.revision != revision;
        let in_base = |p: &&History| deployed.is_none_or(|d| p.revision >= d) && made(p);
        let others = || live.iter().filter(|p| p.revision != revision);
        let unfinished = |p: &&History| p.status.is_pending() || p.status == ReleaseStatus::Uninstalling;
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
