//! Remediation of a failed release: a rollback, or an uninstall. Either ends the pass.

use std::collections::BTreeMap;

use super::actions::{Ended, ReleasePass};
use super::release_conditions::{REMEDIATED, Truth};
use super::release_state as state;
use super::snapshot;
use super::unrecorded::{remediation_cause, rollback_verdict};
use super::{event_annotations, options};
use crate::controller::{EventType, ReconcileError};
use crate::flux_api::helm_release::HelmReleaseSpec;
use crate::release::{ReleaseId, RollbackRequest, UninstallRequest};

impl ReleasePass<'_> {
    pub(super) async fn rollback(&mut self, to: u64) -> Result<Ended, ReconcileError> {
        let ignore = self.ignores_tests();
        snapshot::truncate(&mut self.status.history, ignore);
        let Some(target) = self.status.history.iter().find(|known| known.version == to).cloned() else {
            return Ok(Ended::Stop(self.stall("MissingRollbackTarget")?));
        };
        let request = RollbackRequest {
            id: self.id.clone(),
            revision: to,
            options: options::rollback_options(self.spec),
            description: None,
            cause: remediation_cause(self.status.history.first()),
        };
        let result = self.runner.engine().rollback(&request).await;
        if let Some(record) = self.history().await?.newest()
            && self.status.history.first().is_none_or(|known| known.version < record.version)
        {
            // Without the OCI digest, as helm-controller has it.
            let shot = snapshot::observe(record, "", "rollback", Some(&target.config_digest));
            self.status.history.insert(0, shot);
        }
        let failure = result.err();
        self.status.failures += i64::from(failure.is_some());
        let (truth, reason, text) = rollback_verdict(&target, failure.as_ref());
        let event_type = if failure.is_some() { EventType::Warning } else { EventType::Normal };
        let about = event_annotations::of_chart(
            &target.chart_version,
            &self.config_digest,
            &target.app_version,
            &target.oci_digest,
        );
        self.remediated((truth, event_type, reason, text), about).await
    }

    /// Uninstalls a failed release, or finishes an uninstall.
    pub(super) async fn uninstall(&mut self) -> Result<Ended, ReconcileError> {
        let current = self.status.history.first().cloned().unwrap_or_default();
        let request = uninstall_request(self.spec, self.id.clone());
        let result = self.runner.uninstall(&request).await;
        if let Ok(done) = &result
            && let Some(record) = &done.record
            && let Some(latest) = self.status.history.first_mut()
        {
            let config = latest.config_digest.clone();
            *latest = snapshot::observe(record, &latest.oci_digest, "uninstall-remediation", Some(&config));
        }
        let (release, chart) = (current.release(), current.chart());
        let verdict = match result {
            Ok(_) => {
                let text =
                    format!("Helm uninstall remediation for release {release} with chart {chart} succeeded");
                (Truth::True, EventType::Normal, "UninstallSucceeded", text)
            }
            Err(error) => {
                let text = format!(
                    "Helm uninstall remediation for release {release} with chart {chart} failed: {error}"
                );
                self.status.failures += 1;
                (Truth::False, EventType::Warning, "UninstallFailed", text)
            }
        };
        self.remediated(verdict, event_annotations::of_snapshot(&current)).await
    }

    /// A remediation ends a pass.
    async fn remediated(
        &mut self,
        (truth, event_type, reason, text): (Truth, EventType, &'static str, String),
        about: BTreeMap<String, String>,
    ) -> Result<Ended, ReconcileError> {
        self.conditions().set(REMEDIATED, truth, reason, &text);
        self.event(event_type, reason, &text, about);
        self.summarize();
        let active = state::active(&self.status, self.spec);
        let again = active.is_none_or(|active| !active.is_exhausted() || active.is_uninstall_after_upgrade());
        if again || state::active_retry(&self.status, self.spec).is_some() {
            return Ok(Ended::Stop(self.requeue_soon()));
        }
        Ok(Ended::Stop(self.stall("RetriesExceeded")?))
    }
}

/// The uninstall of a release as its HelmRelease wants it.
pub(super) fn uninstall_request(spec: &HelmReleaseSpec, id: ReleaseId) -> UninstallRequest {
    let uninstall = &spec.uninstall;
    UninstallRequest {
        keep_history: uninstall.keep_history,
        ignore_not_found: true,
        run_hooks: !uninstall.disable_hooks,
        propagation: options::propagation(uninstall.deletion_propagation.as_deref()),
        wait: !uninstall.disable_wait,
        timeout: options::timeout_of(spec, uninstall.timeout.as_ref()),
        ..UninstallRequest::new(id)
    }
}
