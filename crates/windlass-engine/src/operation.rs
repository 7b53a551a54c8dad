//! The three ways to make a revision, in Helm's words. Pure.

use crate::{record::ReleaseStatus, request::HookEvent};

/// The kind of revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RevisionOperation {
    Install,
    Upgrade,
    Rollback { to: u64 },
}

impl RevisionOperation {
    pub(crate) fn pre(self) -> HookEvent {
        match self {
            Self::Install => HookEvent::PreInstall,
            Self::Upgrade => HookEvent::PreUpgrade,
            Self::Rollback { .. } => HookEvent::PreRollback,
        }
    }

    pub(crate) fn post(self) -> HookEvent {
        match self {
            Self::Install => HookEvent::PostInstall,
            Self::Upgrade => HookEvent::PostUpgrade,
            Self::Rollback { .. } => HookEvent::PostRollback,
        }
    }

    /// What Helm calls the revision's manifest.
    pub(crate) fn manifest(self) -> &'static str {
        match self {
            Self::Install => "release",
            Self::Upgrade | Self::Rollback { .. } => "new release",
        }
    }

    pub(crate) fn pending(self) -> ReleaseStatus {
        match self {
            Self::Install => ReleaseStatus::PendingInstall,
            Self::Upgrade => ReleaseStatus::PendingUpgrade,
            Self::Rollback { .. } => ReleaseStatus::PendingRollback,
        }
    }

    pub(crate) fn underway(self) -> String {
        match self {
            Self::Install => "Initial install underway".to_owned(),
            Self::Upgrade => "Preparing upgrade".to_owned(),
            Self::Rollback { to } => format!("Rollback to {to}"),
        }
    }

    pub(crate) fn done(self) -> String {
        match self {
            Self::Install => "Install complete".to_owned(),
            Self::Upgrade => "Upgrade complete".to_owned(),
            Self::Rollback { to } => format!("Rollback to {to}"),
        }
    }

    pub(crate) fn failed(self, name: &str, error: &str) -> String {
        match self {
            Self::Install => format!("Release {name:?} failed: {error}"),
            Self::Upgrade => format!("Upgrade {name:?} failed: {error}"),
            Self::Rollback { .. } => format!("Rollback {name:?} failed: {error}"),
        }
    }

    /// Helm's word for it in the ownership error.
    pub(crate) fn continued(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade | Self::Rollback { .. } => "update",
        }
    }
}
