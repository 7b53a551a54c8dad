//! The status of modules, as `kubectl get modules.windlass.dev` shows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Operator;
use super::converge::Phase;
use crate::addon::Module;
use crate::addon::status::{Phase as ModulePhase, Status};
use crate::addon::values::GLOBAL;
use windlass_controller::Job;
use windlass_controller::ReconcileError as Error;

impl Operator {
    /// Reports the statuses of all modules, if something has happened since the last time.
    pub(super) fn report_statuses(&mut self) {
        let Some(status_writer) = &self.reporters.status else { return };
        if !self.config_map.known {
            return;
        }
        let mut jobs: BTreeMap<String, (Job, bool)> = BTreeMap::new();
        for task in self.workers.queue.jobs() {
            // The job that runs comes first.
            jobs.entry(task.key).or_insert((task.job, task.running));
        }
        let status = |module: &Module| {
            let name = &module.name.name;
            let job = jobs.get(name).copied();
            (name.clone(), self.status(module, job))
        };
        let statuses: BTreeMap<String, Status> = self.modules.modules.iter().map(status).collect();
        status_writer.send_if_modified(|told| {
            let other = **told != statuses;
            if other {
                *told = Arc::new(statuses);
            }
            other
        });
    }

    /// Called for each module after each event: nothing is searched for among all modules here.
    fn status(&self, module: &Module, job: Option<(Job, bool)>) -> Status {
        let (name, files) = (&module.name.name, module.broken_files.clone());
        let Some(wanted) = self.module_states.get(name) else {
            let flag = module.name.enabled_key();
            let waits = self.cycle.phase == Phase::Waiting;
            let problem =
                self.config_map.problems.iter().find(|p| p.key == flag || waits && p.concerns(GLOBAL));
            let error = problem.map(|p| p.text.clone());
            return Status {
                phase: ModulePhase::Pending,
                reason: "Undecided",
                error,
                files,
                ..Status::default()
            };
        };
        let error = wanted.failure.as_ref();
        let readiness = wanted.readiness.as_ref().filter(|_| self.hooks.has_probe(name));
        let (phase, reason) = match (job, error) {
            (Some((Job::Uninstall, _)), _) => (ModulePhase::Deleting, "SwitchedOff"),
            // A running retry has not succeeded yet, and a drift correction does not change the status.
            (_, Some((reason, _))) => (ModulePhase::Failed, *reason),
            (Some((Job::Reconcile, true)), None) => (ModulePhase::Running, "AtWork"),
            (Some((Job::Reconcile, false)), None) => (ModulePhase::Pending, "Waiting"),
            _ if !wanted.enabled => {
                (ModulePhase::Disabled, wanted.off_because.as_ref().map_or("SwitchedOff", |why| why.0))
            }
            _ if wanted.maintenance => (ModulePhase::Ready, "Maintenance"),
            _ if !wanted.tried => (ModulePhase::Pending, "Waiting"),
            _ if self.hooks.has_probe(name) && wanted.readiness.is_none() => {
                (ModulePhase::Running, "ReadinessUnknown")
            }
            _ if readiness.is_some_and(|found| !found.ready) => {
                (ModulePhase::NotReady, "ReadinessProbeFailed")
            }
            _ => (ModulePhase::Ready, if wanted.revision.is_some() { "Released" } else { "HooksRan" }),
        };
        Status {
            enabled: wanted.enabled,
            phase,
            revision: wanted.revision,
            reason,
            error: error.map(|(_, text)| text.clone()),
            off_because: match &wanted.off_because {
                Some((_, why)) if phase == ModulePhase::Disabled => why.clone(),
                _ => String::new(),
            },
            files,
            maintenance: wanted.maintenance,
            config: self.refused_section(&module.name.key),
            not_ready: match phase {
                ModulePhase::NotReady => readiness.map(|found| found.message.clone()).unwrap_or_default(),
                _ => String::new(),
            },
        }
    }
}

impl Operator {
    /// Why the section of a module is not taken, if it is not.
    fn refused_section(&self, key: &str) -> Option<String> {
        let problem = self.config_map.problems.iter().find(|problem| problem.concerns(key))?;
        Some(problem.text.clone())
    }
}

/// One word for a failure.
pub(super) fn reason(error: &Error) -> &'static str {
    match error {
        Error::Chart(_) => "ModuleInvalid",
        other => other.reason(),
    }
}
