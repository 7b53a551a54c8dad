//! The state of a release, and the action that follows from it, as helm-controller decides them. Pure.

use std::time::Duration;

use chart_compat::chart::Metadata;

use super::options;
use super::release_inputs::is_of_chart;
use super::snapshot;
use flux_api::GoDuration;
use flux_api::helm_release::HelmReleaseSpec;
use flux_api::helm_release_actions::Remediation;
use flux_api::helm_release_status::HelmReleaseStatus;
use windlass_engine::record::{Record, ReleaseStatus};

/// What a pass wants the release to be.
pub(super) struct DesiredRelease<'a> {
    pub(super) spec: &'a HelmReleaseSpec,
    pub(super) generation: i64,
    pub(super) chart_name: &'a str,
    pub(super) chart_version: &'a str,
    pub(super) config_digest: &'a str,
    /// Digests of post-renderers and common metadata; empty without any.
    pub(super) post_renderers_digest: String,
    pub(super) common_metadata_digest: String,
    /// An annotation asks for a release action, whatever the state.
    pub(super) force: bool,
}

impl<'a> DesiredRelease<'a> {
    pub(super) fn new(
        spec: &'a HelmReleaseSpec,
        generation: i64,
        chart: &'a Metadata,
        config_digest: &'a str,
        force: bool,
    ) -> Self {
        Self {
            spec,
            generation,
            chart_name: &chart.name,
            chart_version: &chart.version,
            config_digest,
            post_renderers_digest: options::post_renderers_digest(spec),
            common_metadata_digest: options::common_metadata_digest(spec),
            force,
        }
    }
}

/// The state of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseState {
    Absent,
    /// Its newest revision is pending: its writer crashed, or is at work.
    Locked,
    /// Somebody else wrote its newest revision.
    Unmanaged,
    Failed,
    OutOfSync,
    Untested,
    /// As desired, as far as the record shows.
    InSync,
    /// An uninstall did not end.
    Uninstalling,
    Unknown(ReleaseStatus),
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Install,
    Upgrade,
    /// Finishes or replaces a pending revision.
    Resume,
    Test,
    /// Rolls back to this revision.
    Rollback(u64),
    UninstallFailed,
    /// Finishes an uninstall.
    Uninstall,
    /// Compares objects, and corrects them if asked for.
    CheckDrift,
    /// Nothing more may be done until something changes.
    Stall(&'static str),
    StateError(ReleaseStatus),
}

/// Determines the state by the newest record.
pub(super) fn determine(
    newest: Option<&Record>,
    status: &HelmReleaseStatus,
    desired: &DesiredRelease<'_>,
) -> ReleaseState {
    let Some(record) = newest else { return ReleaseState::Absent };
    let stored = record.info.status;
    if stored.is_pending() {
        return ReleaseState::Locked;
    }
    if stored == ReleaseStatus::Uninstalling {
        return ReleaseState::Uninstalling;
    }
    let Some(latest) = status.history.first() else {
        return match stored {
            ReleaseStatus::Uninstalled => ReleaseState::Absent,
            _ => ReleaseState::Unmanaged,
        };
    };
    if !snapshot::shows(latest, record) {
        return ReleaseState::Unmanaged;
    }
    match stored {
        ReleaseStatus::Failed => return ReleaseState::Failed,
        ReleaseStatus::Uninstalled => return ReleaseState::Absent,
        ReleaseStatus::Deployed => {}
        other => return ReleaseState::Unknown(other),
    }
    let same_chart = is_of_chart(record, desired.chart_name, desired.chart_version);
    if !same_chart || latest.config_digest != desired.config_digest {
        return ReleaseState::OutOfSync;
    }
    if status.observed_generation != Some(desired.generation)
        && (status.observed_post_renderers_digest != desired.post_renderers_digest
            || status.observed_common_metadata_digest != desired.common_metadata_digest)
    {
        return ReleaseState::OutOfSync;
    }
    if desired.spec.test.enable {
        if !latest.was_tested() {
            return ReleaseState::Untested;
        }
        let ignored = active(status, desired.spec).is_none_or(|active| active.ignores_tests(desired.spec));
        if !ignored && latest.has_failed_test() {
            return ReleaseState::Failed;
        }
    }
    ReleaseState::InSync
}

/// The remediation of the last release action, and how often that has failed.
#[derive(Clone, Copy)]
pub(super) struct ActiveRemediation<'a> {
    remediation: Option<&'a Remediation>,
    install: bool,
    failures: i64,
}

/// The remediation of the action that was tried last; `None` before the first one.
pub(super) fn active<'a>(
    status: &HelmReleaseStatus,
    spec: &'a HelmReleaseSpec,
) -> Option<ActiveRemediation<'a>> {
    match status.last_attempted_release_action.as_str() {
        "install" => Some(of_install(status, spec)),
        "upgrade" => Some(of_upgrade(status, spec)),
        _ => None,
    }
}

/// Whether a failed test does not count as a failure.
pub(super) fn ignores_tests(status: &HelmReleaseStatus, spec: &HelmReleaseSpec) -> bool {
    active(status, spec).map_or(spec.test.ignore_failures, |active| active.ignores_tests(spec))
}

pub(super) fn of_install<'a>(status: &HelmReleaseStatus, spec: &'a HelmReleaseSpec) -> ActiveRemediation<'a> {
    ActiveRemediation {
        remediation: spec.install.remediation.as_ref(),
        install: true,
        failures: status.install_failures,
    }
}

pub(super) fn of_upgrade<'a>(status: &HelmReleaseStatus, spec: &'a HelmReleaseSpec) -> ActiveRemediation<'a> {
    ActiveRemediation {
        remediation: spec.upgrade.remediation.as_ref(),
        install: false,
        failures: status.upgrade_failures,
    }
}

impl ActiveRemediation<'_> {
    fn retries(self) -> i64 {
        self.remediation.map_or(0, |r| r.retries)
    }

    pub(super) fn failures(self) -> i64 {
        self.failures
    }

    pub(super) fn is_exhausted(self) -> bool {
        self.retries() >= 0 && self.failures > self.retries()
    }

    pub(super) fn ignores_tests(self, spec: &HelmReleaseSpec) -> bool {
        self.remediation.and_then(|r| r.ignore_test_failures).unwrap_or(spec.test.ignore_failures)
    }

    fn remediates_last_failure(self) -> bool {
        let default = !self.install && self.retries() > 0;
        self.remediation.and_then(|r| r.remediate_last_failure).unwrap_or(default)
    }

    fn uninstalls(self) -> bool {
        self.install || self.remediation.and_then(|r| r.strategy.as_deref()) == Some("uninstall")
    }

    /// Whether an upgrade's remediation is an uninstall: an install follows.
    pub(super) fn is_uninstall_after_upgrade(self) -> bool {
        !self.install && self.uninstalls()
    }
}

/// The time after which a failed action is tried again, if its strategy says so.
pub(super) fn active_retry(status: &HelmReleaseStatus, spec: &HelmReleaseSpec) -> Option<Duration> {
    let strategy = match status.last_attempted_release_action.as_str() {
        "install" => spec.install.strategy.as_ref(),
        "upgrade" => spec.upgrade.strategy.as_ref(),
        _ => None,
    }?;
    let default = Duration::from_secs(300);
    let shortest = Duration::from_secs(1);
    let interval = || strategy.retry_interval.as_ref().map_or(default, GoDuration::get).max(shortest);
    (strategy.name == "RetryOnFailure").then(interval)
}

/// The action that follows from a state. `verified`: whether a revision is stored as its snapshot shows it.
pub(super) fn next_action(
    state: ReleaseState,
    status: &HelmReleaseStatus,
    desired: &DesiredRelease<'_>,
    verified: impl FnOnce(u64) -> bool,
) -> Action {
    let spec = desired.spec;
    let unless_exhausted = |active: ActiveRemediation<'_>, action| {
        if active.is_exhausted() && !desired.force { Action::Stall("RetriesExceeded") } else { action }
    };
    match state {
        ReleaseState::Absent => unless_exhausted(of_install(status, spec), Action::Install),
        ReleaseState::Locked => Action::Resume,
        ReleaseState::Uninstalling => Action::Uninstall,
        ReleaseState::Unmanaged => Action::Upgrade,
        ReleaseState::OutOfSync => unless_exhausted(of_upgrade(status, spec), Action::Upgrade),
        ReleaseState::Untested => Action::Test,
        ReleaseState::InSync if desired.force => Action::Upgrade,
        ReleaseState::InSync => Action::CheckDrift,
        ReleaseState::Unknown(other) => Action::StateError(other),
        ReleaseState::Failed => {
            let Some(active) = active(status, spec) else { return Action::Upgrade };
            // Without failures, what failed has changed since.
            if active_retry(status, spec).is_some() || active.failures <= 0 || desired.force {
                return Action::Upgrade;
            }
            if active.is_exhausted() && !active.remediates_last_failure() {
                return Action::Stall("RetriesExceeded");
            }
            if active.uninstalls() {
                return Action::UninstallFailed;
            }
            match snapshot::previous(&status.history, active.ignores_tests(spec)) {
                None => Action::Stall("MissingRollbackTarget"),
                Some(previous) if verified(previous.version) => Action::Rollback(previous.version),
                Some(_) => Action::Upgrade,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helmrelease::digest::{config_digest, record_values};
    use serde_json::{Value, json};

    fn record(version: u64, status: &str) -> Record {
        serde_json::from_value(json!({
            "name": "web", "namespace": "ns", "version": version, "config": {"a": 1}, "manifest": "m",
            "chart": {"metadata": {"name": "demo", "version": "1.0.0"}},
            "info": {"status": status, "first_deployed": "2026-01-02T03:04:05Z"},
        }))
        .unwrap()
    }

    /// The history of these records, the newest first, and fields of a status.
    fn status(records: &[Record], fields: Value) -> HelmReleaseStatus {
        let mut status: HelmReleaseStatus = serde_json::from_value(fields).unwrap();
        status.history = records.iter().map(|r| snapshot::observe(r, "", "install", None)).collect();
        status
    }

    fn spec(fields: Value) -> HelmReleaseSpec {
        serde_json::from_value(fields).unwrap()
    }

    fn desired<'a>(spec: &'a HelmReleaseSpec, digest: &'a str, force: bool) -> DesiredRelease<'a> {
        DesiredRelease {
            spec,
            generation: 2,
            chart_name: "demo",
            chart_version: "1.0.0",
            config_digest: digest,
            post_renderers_digest: String::new(),
            common_metadata_digest: String::new(),
            force,
        }
    }

    #[test]
    fn states_follow_from_record_history_and_spec() {
        let digest = config_digest(&record_values(&record(1, "deployed")));
        let deployed = || vec![record(1, "deployed")];
        let tests = json!({"test": {"enable": true}});
        type Row = (&'static str, Option<Record>, HelmReleaseStatus, HelmReleaseSpec, ReleaseState);
        let plain = || spec(json!({}));
        let rows: Vec<Row> = vec![
            ("nothing", None, status(&[], json!({})), plain(), ReleaseState::Absent),
            (
                "pending",
                Some(record(1, "pending-upgrade")),
                status(&deployed(), json!({})),
                plain(),
                ReleaseState::Locked,
            ),
            (
                "uninstalling",
                Some(record(1, "uninstalling")),
                status(&deployed(), json!({})),
                plain(),
                ReleaseState::Uninstalling,
            ),
            (
                "uninstalled before",
                Some(record(1, "uninstalled")),
                status(&[], json!({})),
                plain(),
                ReleaseState::Absent,
            ),
            (
                "somebody else's",
                Some(record(1, "deployed")),
                status(&[], json!({})),
                plain(),
                ReleaseState::Unmanaged,
            ),
            (
                "changed by somebody",
                Some(record(2, "deployed")),
                status(&deployed(), json!({})),
                plain(),
                ReleaseState::Unmanaged,
            ),
            (
                "failed",
                Some(record(1, "failed")),
                status(&[record(1, "failed")], json!({})),
                plain(),
                ReleaseState::Failed,
            ),
            (
                "in sync",
                Some(record(1, "deployed")),
                status(&deployed(), json!({})),
                plain(),
                ReleaseState::InSync,
            ),
            (
                "superseded",
                Some(record(1, "superseded")),
                status(&[record(1, "superseded")], json!({})),
                plain(),
                ReleaseState::Unknown(ReleaseStatus::Superseded),
            ),
            (
                "untested",
                Some(record(1, "deployed")),
                status(&deployed(), json!({})),
                spec(tests),
                ReleaseState::Untested,
            ),
            (
                "post-renderers of an older generation",
                Some(record(1, "deployed")),
                status(&deployed(), json!({"observedGeneration": 1, "observedPostRenderersDigest": "old"})),
                plain(),
                ReleaseState::OutOfSync,
            ),
            (
                "the same, observed",
                Some(record(1, "deployed")),
                status(&deployed(), json!({"observedGeneration": 2, "observedPostRenderersDigest": "old"})),
                plain(),
                ReleaseState::InSync,
            ),
        ];
        for (what, newest, status, spec, expected) in rows {
            let found = determine(newest.as_ref(), &status, &desired(&spec, &digest, false));
            assert_eq!(found, expected, "{what}");
        }
        let newest = record(1, "deployed");
        let (status, spec) = (status(&deployed(), json!({})), plain());
        let other = DesiredRelease { chart_version: "1.0.1", ..desired(&spec, &digest, false) };
        assert_eq!(determine(Some(&newest), &status, &other), ReleaseState::OutOfSync);
        let other = desired(&spec, "sha256:other", false);
        assert_eq!(determine(Some(&newest), &status, &other), ReleaseState::OutOfSync);
    }

    #[test]
    fn actions_follow_from_states() {
        let failed_upgrade = || [record(2, "failed"), record(1, "superseded")];
        let upgraded =
            |failures: i64| json!({"lastAttemptedReleaseAction": "upgrade", "upgradeFailures": failures});
        let installed =
            |failures: i64| json!({"lastAttemptedReleaseAction": "install", "installFailures": failures});
        let retries = |n: i64| json!({"upgrade": {"remediation": {"retries": n}}, "install": {"remediation": {"retries": n}}});
        let retry = json!({"upgrade": {"strategy": {"name": "RetryOnFailure"}}});
        let uninstall = json!({"upgrade": {"remediation": {"retries": 1, "strategy": "uninstall"}}});
        type Row = (&'static str, ReleaseState, HelmReleaseStatus, Value, bool, Action);
        let rows: Vec<Row> = vec![
            (
                "first install",
                ReleaseState::Absent,
                status(&[], json!({})),
                json!({}),
                false,
                Action::Install,
            ),
            (
                "install again",
                ReleaseState::Absent,
                status(&[], installed(1)),
                retries(1),
                false,
                Action::Install,
            ),
            (
                "out of retries",
                ReleaseState::Absent,
                status(&[], installed(1)),
                json!({}),
                false,
                Action::Stall("RetriesExceeded"),
            ),
            ("forced", ReleaseState::Absent, status(&[], installed(1)), json!({}), true, Action::Install),
            (
                "without end",
                ReleaseState::Absent,
                status(&[], installed(9)),
                retries(-1),
                false,
                Action::Install,
            ),
            (
                "upgrade out of retries",
                ReleaseState::OutOfSync,
                status(&[], upgraded(1)),
                json!({}),
                false,
                Action::Stall("RetriesExceeded"),
            ),
            ("in sync", ReleaseState::InSync, status(&[], json!({})), json!({}), false, Action::CheckDrift),
            (
                "forced in sync",
                ReleaseState::InSync,
                status(&[], json!({})),
                json!({}),
                true,
                Action::Upgrade,
            ),
            (
                "never tried",
                ReleaseState::Failed,
                status(&failed_upgrade(), json!({})),
                json!({}),
                false,
                Action::Upgrade,
            ),
            (
                "inputs changed",
                ReleaseState::Failed,
                status(&failed_upgrade(), upgraded(0)),
                retries(1),
                false,
                Action::Upgrade,
            ),
            (
                "retry strategy",
                ReleaseState::Failed,
                status(&failed_upgrade(), upgraded(3)),
                retry,
                false,
                Action::Upgrade,
            ),
            (
                "no remediation",
                ReleaseState::Failed,
                status(&failed_upgrade(), upgraded(1)),
                json!({}),
                false,
                Action::Stall("RetriesExceeded"),
            ),
            (
                "rollback",
                ReleaseState::Failed,
                status(&failed_upgrade(), upgraded(1)),
                retries(1),
                false,
                Action::Rollback(1),
            ),
            (
                "last failure too",
                ReleaseState::Failed,
                status(&failed_upgrade(), upgraded(2)),
                retries(1),
                false,
                Action::Rollback(1),
            ),
            (
                "no target",
                ReleaseState::Failed,
                status(&[record(1, "failed")], upgraded(1)),
                retries(1),
                false,
                Action::Stall("MissingRollbackTarget"),
            ),
            (
                "uninstall",
                ReleaseState::Failed,
                status(&failed_upgrade(), upgraded(1)),
                uninstall,
                false,
                Action::UninstallFailed,
            ),
            (
                "failed install",
                ReleaseState::Failed,
                status(&[record(1, "failed")], installed(1)),
                retries(1),
                false,
                Action::UninstallFailed,
            ),
        ];
        for (what, state, status, fields, force, expected) in rows {
            let spec = spec(fields);
            let found = next_action(state, &status, &desired(&spec, "", force), |_| true);
            assert_eq!(found, expected, "{what}");
        }
        // A target that somebody changed is not rolled back to.
        let (status, spec) = (status(&failed_upgrade(), upgraded(1)), spec(retries(1)));
        let found = next_action(ReleaseState::Failed, &status, &desired(&spec, "", false), |_| false);
        assert_eq!(found, Action::Upgrade);
    }
}
