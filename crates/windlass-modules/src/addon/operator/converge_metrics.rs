//! What is measured of modules and converges, under addon-operator's names.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Operator;
use windlass_controller::Job;
use windlass_controller::serve::State;

/// The word for the first converge.
const STARTUP: &str = "OperatorStartup";

/// What a converge is measured with.
pub(super) struct Measurement {
    began: Instant,
    activation: &'static str,
}

impl Operator {
    /// The activation label: the start, until the first converge is done.
    pub(super) fn activation(&self, word: &'static str) -> &'static str {
        if self.state.converged.load(Ordering::Acquire) { word } else { STARTUP }
    }

    /// A converge begins, or what one is about has grown.
    pub(super) fn converge_begins(&mut self) {
        let activation = self.activation(self.cycle.activation);
        self.cycle.measured.get_or_insert_with(|| Measurement { began: Instant::now(), activation });
    }

    /// All of it is done.
    pub(super) fn converge_ends(&mut self) {
        let Some(Measurement { began, activation }) = self.cycle.measured.take() else { return };
        let labels = [("activation", activation)];
        self.state.measures.add("convergence_seconds", &labels, began.elapsed().as_secs_f64());
        self.state.measures.add("convergence_total", &labels, 1.0);
    }

    /// What is true of modules now.
    pub(super) fn measure_modules(&self) {
        let measures = &self.state.measures;
        for name in ["mm_module_info", "mm_module_enabled", "mm_module_maintenance"] {
            measures.clear(name);
        }
        for module in &self.modules.modules {
            let name = module.name.name.as_str();
            let wanted = self.module_states.get(name);
            let enabled = wanted.is_some_and(|w| w.enabled);
            let on = if enabled { "true" } else { "false" };
            // Modules of one number wait for each other here as critical ones do there.
            measures.set("mm_module_info", &[("module", name), ("enabled", on), ("critical", "true")], 1.0);
            if enabled && let Ok(Some(chart)) = &module.chart {
                let version = chart.chart().metadata.version.as_str();
                measures.set("mm_module_enabled", &[("module", name), ("version", version)], 1.0);
            }
            if wanted.is_some_and(|w| w.maintenance) {
                let labels = [("module", name), ("state", "NoResourceReconciliation")];
                measures.set("mm_module_maintenance", &labels, 1.0);
            }
        }
    }
}

/// Counts a job that has ended.
pub(super) fn job(
    state: &Arc<State>,
    module: &str,
    job: Job,
    activation: &str,
    began: Instant,
    worked: bool,
) {
    let measures = &state.measures;
    if job != Job::Uninstall {
        let labels = [("module", module), ("activation", activation)];
        measures.observe("module_run_seconds", &labels, began.elapsed());
    }
    match job {
        _ if worked => {}
        Job::Uninstall => measures.add("module_delete_errors_total", &[("module", module)], 1.0),
        Job::Reconcile | Job::CorrectDrift => {
            measures.add("module_run_errors_total", &[("module", module)], 1.0);
        }
    }
}
