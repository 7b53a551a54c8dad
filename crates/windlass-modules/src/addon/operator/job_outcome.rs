//! Outcomes of module jobs: metrics, logs, retries, and the state of each module.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::{JobOutcome, JobResult, Operator, report_status};
use windlass_cluster::ObjectRef;
use windlass_controller::{Done, Job, MODULES, PassFailure, report_drift, report_kept_crds};
use windlass_engine::{ReleaseAction, ReleaseOutcome, ReleaseRequest};

impl Operator {
    pub(super) fn finish_job(&mut self, name: &str, job: Job, result: JobResult) {
        self.hooks.leave(name, false);
        let failures = self.workers.queue.done(name, result.is_ok());
        let outcome = if result.is_ok() { "ok" } else { "error" };
        if let Some(wanted) = self.module_states.get_mut(name) {
            wanted.tried = true;
            wanted.failure = result.as_ref().err().map(|e| (report_status::reason(e), e.to_string()));
            if matches!(result, Ok(JobOutcome::Ran(_))) {
                wanted.maintenance_ends = false;
                self.pending_deletions.deletions.remove(name);
            }
        }
        self.state.metrics.add(
            "windlass_module_runs_total",
            "Jobs of modules that ended.",
            &[("module", name), ("result", outcome)],
            1.0,
        );
        if result.is_ok() {
            self.workers.wait_for_kinds(name, BTreeSet::new());
            if self.failures.clear(name) {
                tracing::info!(module = name, "reconciled after failures");
            }
        }
        match result {
            Ok(JobOutcome::Ran(ran)) => {
                if let Some(done) = ran.done {
                    self.record_done(name, done);
                }
                self.recheck_settings(name);
                // What hooks of the module changed on the way is in force already.
                if let Some(wanted) = self.module_states.get_mut(name) {
                    wanted.values = Some(ran.values);
                }
            }
            Ok(JobOutcome::Restored(done)) => self.record_done(name, done),
            Ok(JobOutcome::Uninstalled) => {
                self.state.metrics.remove("windlass_release_revision", &[("module", name)]);
                self.workers.stop_watching(name);
                if let Some(wanted) = self.module_states.get_mut(name) {
                    wanted.request = None;
                    wanted.revision = None;
                    wanted.readiness = None;
                }
            }
            Err(mut error) => {
                if job == Job::Reconcile
                    && let Some(wanted) = self.module_states.get_mut(name)
                {
                    wanted.outdated = true;
                }
                let retry_in = error.retry_delay(failures, None);
                let failure = PassFailure { error: &error, retry_in, failures };
                self.failures.note(MODULES, name, &failure, Instant::now());
                if let Some(inputs) = error.take_inputs().filter(|inputs| !inputs.lookups.is_empty()) {
                    self.workers.watch_inputs(name, inputs);
                }
                self.workers.wait_for_kinds(name, error.missing_kinds());
                if !self.workers.queue.is_busy(name) {
                    self.workers.queue.retry_at(name, job, Instant::now() + retry_in);
                }
            }
        }
        self.check_convergence();
    }

    fn record_done(&mut self, name: &str, done: Done) {
        if let Some(inputs) = done.inputs {
            self.workers.watch_inputs(name, inputs);
        }
        self.record_outcome(name, &done.outcome, done.request);
    }

    fn record_outcome(&mut self, name: &str, outcome: &ReleaseOutcome, request: Arc<ReleaseRequest>) {
        for text in &outcome.warnings {
            tracing::warn!(module = name, "{text}");
        }
        report_drift(&self.releases.events, &self.state, ("module", name), outcome);
        report_kept_crds(&self.releases.events, outcome);
        for drift in outcome.drift.iter().filter(|d| d.deleted && (!d.known || d.corrected)) {
            let ObjectRef { gvk, namespace, name: object } = &drift.object;
            let resource = format!("{}/{}/{object}", namespace.as_deref().unwrap_or_default(), gvk.kind);
            let labels = [("module", name), ("resource", resource.as_str())];
            self.state.measures.add("modules_absent_resources_total", &labels, 1.0);
        }
        match outcome.action {
            ReleaseAction::Unchanged => tracing::debug!(module = name, reason = %outcome.reason, "unchanged"),
            action => tracing::info!(
                module = name,
                ?action,
                revision = outcome.revision,
                created = outcome.created.len(),
                changed = outcome.changed.len(),
                pruned = outcome.pruned.len(),
                reason = %outcome.reason,
                "released"
            ),
        }
        let revision = u32::try_from(outcome.revision).map_or(f64::MAX, f64::from);
        self.state.metrics.set(
            "windlass_release_revision",
            "Revision that is deployed.",
            &[("module", name)],
            revision,
        );
        if outcome.action == ReleaseAction::Restore {
            self.state.metrics.add(
                "windlass_restores_total",
                "Drift corrections without a new revision.",
                &[("module", name)],
                1.0,
            );
            self.state.measures.add("modules_helm_release_redeployed_total", &[("module", name)], 1.0);
        }
        if let Some(wanted) = self.module_states.get_mut(name) {
            wanted.request = Some(request);
            wanted.outdated = false;
            wanted.revision = Some(outcome.revision);
        }
    }
}
