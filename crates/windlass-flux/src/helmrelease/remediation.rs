//! Remediation of a failed release: a rollback, or an uninstall. Either ends the pass.

use super::actions::{ActionOutcome, ReleasePass};
use super::release_conditions::{REMEDIATED, Truth};
use super::release_state as state;
use super::snapshot;
use super::unrecorded::{remediation_cause, rollback_verdict};
use super::{event_annotations, options};
use flux_api::helm_release::HelmReleaseSpec;
use windlass_controller::{EventType, ReconcileError};
use windlass_engine::record::{Record, ReleaseStatus};
use windlass_engine::{ReleaseId, RollbackRequest, UninstallRequest};

/// What a record says of an uninstall until it is over.
const UNINSTALLING: &str = "Deletion in progress (or silently failed)";

impl ReleasePass<'_> {
    pub(super) async fn rollback(&mut self, to: u64) -> Result<ActionOutcome, ReconcileError> {
        let ignore = self.ignores_tests();
        snapshot::truncate(&mut self.status.history, ignore);
        let Some(target) = self.status.history.iter().find(|known| known.version == to).cloned() else {
            return Ok(ActionOutcome::Stop(self.stall("MissingRollbackTarget")?));
        };
        let request = RollbackRequest {
            id: self.id.clone(),
            revision: to,
            options: options::rollback_options(self.spec),
            description: None,
            cause: remediation_cause(self.status.history.first()),
        };
        let result = self.runner.engine().rollback(&request).await;
        let newest = self.history().await?.newest().cloned();
        if let Some(record) = newest
            && self.status.history.first().is_none_or(|known| known.version < record.version)
        {
            for known in &mut self.status.history {
                let stored = self.runner.engine().records().record(&self.id, known.version).await?;
                if let Some(record) = stored.filter(|record| record.info.status.as_str() != known.status) {
                    snapshot::rewrite(known, &record, "rollback");
                }
            }
            // Without the OCI digest, as helm-controller has it.
            let shot = snapshot::observe(&record, "", "rollback", Some(&target.config_digest));
            self.status.history.insert(0, shot);
            self.take_inventory(&record).await?;
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
        self.conditions().set(REMEDIATED, truth, reason, &text);
        self.event(event_type, reason, &text, about);
        self.summarize();
        self.remediated()
    }

    /// Uninstalls a failed release, or finishes an uninstall.
    pub(super) async fn uninstall(&mut self) -> Result<ActionOutcome, ReconcileError> {
        let current = self.status.history.first().cloned().unwrap_or_default();
        let request = uninstall_request(self.spec, self.id.clone());
        let result = self.runner.uninstall(&request).await;
        if let Ok(done) = &result
            && let Some(record) = &done.record
            && let Some(latest) = self.status.history.first_mut()
        {
            let mut record = Record::clone(record);
            if !request.keep_history {
                // As it was written last, before it was deleted.
                record.info.status = ReleaseStatus::Uninstalling;
                record.info.description = UNINSTALLING.to_owned();
            }
            snapshot::rewrite(latest, &record, "uninstall-remediation");
        }
        let (release, chart) = (current.release(), current.chart());
        let (truth, event_type, reason, text) = match result {
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
        self.conditions().set(REMEDIATED, truth, reason, &text);
        self.event(event_type, reason, &text, event_annotations::of_snapshot(&current));
        // Ready still reports the failure before.
        self.remediated()
    }

    /// A remediation ends a pass.
    fn remediated(&mut self) -> Result<ActionOutcome, ReconcileError> {
        let active = state::active(&self.status, self.spec);
        let again = active.is_none_or(|active| !active.is_exhausted() || active.is_uninstall_after_upgrade());
        if again || state::active_retry(&self.status, self.spec).is_some() {
            return Ok(ActionOutcome::Stop(self.requeue_soon()));
        }
        Ok(ActionOutcome::Stop(self.stall("RetriesExceeded")?))
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
