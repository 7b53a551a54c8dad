//! A converge: global hooks before, all modules, global hooks after. And what hooks change in between.
//!
//! Owns when the global hooks run and when a change of values makes modules run again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Operator;
use super::converge_metrics::Measurement;
use crate::addon::enabled_flags::Flags;
use crate::addon::hooks::{Candidate, Change, Verdicts, has_script};
use crate::addon::module_name::ModuleName;
use crate::addon::values::GLOBAL;
use crate::shell_hooks::Moment;
use windlass_base::backoff;
use windlass_base::redact;
use windlass_controller::Job;

/// How often in a row changes by `afterAll` hooks may start another converge.
const MAX_REPEATS: u32 = 5;

/// How far a converge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nobody knows yet what the global values are, for the ConfigMap's have been broken since the start: what would read
    /// them waits.
    Waiting,
    /// Global hooks come up.
    Starting,
    /// `beforeAll` hooks and `enabled` scripts run; then `all` modules are requested, or those that changed.
    Before { all: bool, again: bool },
    /// CRDs of new modules are applied.
    Crds { all: bool, again: bool },
    /// Modules run.
    Modules,
    /// `afterAll` hooks run; `again`: something has changed meanwhile.
    After { again: bool },
    /// All is done.
    Idle,
}

/// The current converge, and what is kept from one to the next.
pub(super) struct Cycle {
    pub(super) phase: Phase,
    /// The hooks before all modules have worked once since they were loaded.
    pub(super) prepared: bool,
    /// Whether `afterAll` hooks that fail are left for a new converge.
    pub(super) leave_after: watch::Sender<bool>,
    /// Converges in a row that `afterAll` hooks started.
    pub(super) repeats: u32,
    /// Work of global hooks, one at a time.
    pub(super) steps: JoinSet<Step>,
    /// What happened last, for metrics.
    pub(super) activation: &'static str,
    /// The measurement of the converge.
    pub(super) measured: Option<Measurement>,
    /// When the operator started.
    pub(super) started: Instant,
}

impl Cycle {
    pub(super) fn new(started: Instant) -> Self {
        Self {
            phase: Phase::Starting,
            prepared: false,
            leave_after: watch::Sender::new(false),
            repeats: 0,
            steps: JoinSet::new(),
            activation: "KubeConfigChanged",
            measured: None,
            started,
        }
    }
}

impl Phase {
    /// Whether the modules of a converge are not requested yet.
    pub(super) fn precedes_modules(self) -> bool {
        matches!(self, Self::Waiting | Self::Starting | Self::Before { .. } | Self::Crds { .. })
    }
}

/// Work of global hooks that is done.
pub(super) enum Step {
    Started,
    /// What the scripts said.
    Before(Verdicts),
    Crds,
    /// Whether the global values have changed.
    After(bool),
}

impl Operator {
    /// The ConfigMap is known: the global hooks may start, and modules after them.
    pub(super) fn start_hooks(&mut self) {
        if (self.hooks.has_global() || self.cycle.phase == Phase::Waiting) && self.waits_for_global_values() {
            return;
        }
        if self.cycle.phase == Phase::Waiting {
            tracing::info!("the global values are valid: resuming");
            self.cycle.phase = Phase::Starting;
        }
        if !self.hooks.has_global() {
            return self.converge(false);
        }
        let hooks = Arc::clone(&self.hooks);
        self.cycle.steps.spawn(redact::own(async move {
            hooks.start_global().await;
            Step::Started
        }));
    }

    /// Whether the ConfigMap's global section has been broken since the start; if so, this is what is waited for. Hooks and
    /// scripts cannot be run with values that leave out what the user wrote; once it has been good, its last good form holds.
    fn waits_for_global_values(&mut self) -> bool {
        if self.config_map.good.contains(GLOBAL) {
            return false;
        }
        let Some(problem) = self.config_map.problems.iter().find(|p| p.concerns(GLOBAL)) else {
            return false;
        };
        if self.cycle.phase != Phase::Waiting {
            tracing::warn!("hooks and modules wait until the global values can be used: {}", problem.text);
        }
        self.cycle.phase = Phase::Waiting;
        true
    }

    /// Whether modules run: not before the global hooks have set what values are to be, once. Later `beforeAll` hooks hold up
    /// only what their converge asks for; nothing of that is queued yet.
    pub(super) fn may_run_modules(&self) -> bool {
        match self.cycle.phase {
            Phase::Before { .. } => self.cycle.prepared,
            phase => !phase.precedes_modules(),
        }
    }

    /// Asks for what changed; with `all` for every module. Global hooks come first, if there are any for that.
    pub(super) fn converge(&mut self, all: bool) {
        match &mut self.cycle.phase {
            Phase::Before { again, .. } | Phase::Crds { again, .. } => *again = true,
            Phase::After { again } => {
                *again = true;
                self.cycle.leave_after.send_replace(true);
            }
            Phase::Starting if self.cycle.steps.is_empty() => self.begin(all),
            // The first converge comes when the hooks are up.
            Phase::Starting | Phase::Waiting => {}
            Phase::Modules | Phase::Idle => self.begin(all),
        }
    }

    fn begin(&mut self, all: bool) {
        let enabling = self.options.enabling.clone();
        let scripts = enabling.asks_scripts() && self.modules.modules.iter().any(|m| has_script(&m.path));
        if scripts && self.waits_for_global_values() {
            return;
        }
        self.converge_begins();
        self.scripts.retry_at = None;
        if !scripts && !self.hooks.has_global_at(Moment::BeforeAll) {
            self.scripts.verdicts.clear();
            self.scripts.reasons.clear();
            self.scripts.undecided.clear();
            return self.begin_modules(all);
        }
        self.cycle.phase = Phase::Before { all, again: false };
        let hooks = Arc::clone(&self.hooks);
        let (fixed, config) = (self.modules.values.clone(), self.config_map.config.enabled.clone());
        let modules: Vec<_> =
            self.modules.modules.iter().map(|m| (m.name.clone(), m.path.clone(), m.flag)).collect();
        let (before, reasons) = (self.scripts.verdicts.clone(), self.scripts.reasons.clone());
        self.cycle.steps.spawn(redact::own(async move {
            hooks.run_global(Moment::BeforeAll, None).await;
            if !scripts {
                return Step::Before(Verdicts::default());
            }
            let candidate = |(name, path, own): (ModuleName, PathBuf, Option<bool>)| {
                let flag = hooks.store().values.flag(&name);
                let flags = Flags { roots: &fixed, own, hooks: flag, config: &config };
                Candidate {
                    flagged: enabling.is_on(&name, &flags),
                    before: before.get(&name.name).copied(),
                    reason: reasons.get(&name.name).cloned().unwrap_or_default(),
                    name: name.name,
                    key: name.key,
                    path,
                }
            };
            let candidates: Vec<Candidate> = modules.into_iter().map(candidate).collect();
            Step::Before(hooks.ask_scripts(&candidates).await)
        }));
    }

    /// Applies the verdicts of scripts; failed scripts are retried with backoff.
    fn apply_verdicts(&mut self, verdicts: Verdicts) {
        self.scripts.verdicts = verdicts.on;
        self.scripts.reasons = verdicts.reasons;
        self.scripts.undecided = verdicts.undecided;
        self.scripts.failures = if verdicts.failed { self.scripts.failures + 1 } else { 0 };
        self.scripts.retry_at =
            verdicts.failed.then(|| Instant::now() + backoff::delay(self.scripts.failures));
    }

    pub(super) fn on_step(&mut self, step: Result<Step, tokio::task::JoinError>) {
        match (step, self.cycle.phase) {
            (Ok(Step::Started), _) => self.begin(false),
            (Ok(Step::Before(_)), Phase::Before { again: true, all }) => self.begin(all),
            (Ok(Step::Before(verdicts)), Phase::Before { all, .. }) => {
                self.apply_verdicts(verdicts);
                self.begin_modules(all);
            }
            (Ok(Step::Crds), Phase::Crds { again: true, all }) => self.begin(all),
            (Ok(Step::Crds), Phase::Crds { .. }) => self.cycle.phase = Phase::Modules,
            (Ok(Step::After(changed)), Phase::After { again }) => {
                self.cycle.repeats = if changed { self.cycle.repeats + 1 } else { 0 };
                if changed && self.cycle.repeats > MAX_REPEATS {
                    tracing::warn!(
                        "afterAll hooks change values in every converge; that stays until something else changes"
                    );
                }
                self.cycle.phase = Phase::Idle;
                if again || changed && self.cycle.repeats <= MAX_REPEATS {
                    self.begin(false);
                }
            }
            (Ok(_), _) => {}
            (Err(error), _) => {
                tracing::error!("global hooks ended unexpectedly: {error}");
                self.cycle.phase = Phase::Idle;
                self.begin(true);
            }
        }
        self.check_convergence();
    }

    /// A hook has changed something.
    pub(super) fn on_hook_change(&mut self, change: &Change) {
        if change.synchronized {
            return self.retry_now(&change.module);
        }
        if let Some(readiness) = &change.readiness {
            if let Some(wanted) = self.module_states.get_mut(&change.module) {
                wanted.readiness = Some(readiness.clone());
            }
            return;
        }
        if change.flags {
            let flags = self.hooks.store().flags.clone();
            self.config_map.config.enabled = flags;
        }
        self.cycle.activation =
            if change.module.is_empty() { "GlobalValuesChanged" } else { "ModuleValuesChanged" };
        if change.module.is_empty() {
            // Changes before the modules are requested are picked up then.
            let early = matches!(self.cycle.phase, Phase::Starting | Phase::Before { .. });
            if !early && (change.reload || change.flags) {
                self.converge(false);
            }
            return;
        }
        let Some(module) = self.module(&change.module) else { return };
        let (name, order) = (module.name.name.clone(), module.name.order);
        let values = self.hooks.store().values.seen(&module.name.key);
        let activation = self.activation(self.cycle.activation);
        let Some(wanted) = self.module_states.get_mut(&name) else { return };
        wanted.values = Some(values);
        "a hook changed its values".clone_into(&mut wanted.cause);
        wanted.activation = activation;
        if change.reload && wanted.enabled {
            tracing::info!(module = name, "a hook has changed its values: it runs again");
            self.workers.queue.request(&name, order, Job::Reconcile);
        }
        if change.flags {
            self.converge(false);
        }
    }

    /// Repeats a failed run of a module at once.
    fn retry_now(&mut self, name: &str) {
        let order = self.order(name);
        let queue = &mut self.workers.queue;
        if let Some(job) = queue.take_retry(name) {
            tracing::info!(module = name, "the hook that it waited for has succeeded: it runs again");
            queue.reset_failures(name);
            queue.request(name, order, job);
        }
    }

    /// Goes on to what comes after the modules, once each has had an outcome.
    pub(super) fn check_convergence(&mut self) {
        if !self.config_map.known || self.cycle.phase.precedes_modules() || !self.workers.queue.all_tried() {
            return;
        }
        if self.cycle.phase == Phase::Modules {
            self.cycle.phase = Phase::Idle;
            if self.hooks.has_global_at(Moment::AfterAll) {
                self.cycle.phase = Phase::After { again: false };
                let hooks = Arc::clone(&self.hooks);
                self.cycle.leave_after.send_replace(false);
                let leave = self.cycle.leave_after.subscribe();
                self.cycle.steps.spawn(redact::own(async move {
                    Step::After(hooks.run_global(Moment::AfterAll, Some(leave)).await)
                }));
            }
        }
        if self.cycle.phase == Phase::Idle {
            self.hooks.settle_webhooks();
            self.converge_ends();
        }
        if self.cycle.phase == Phase::Idle && !self.state.converged.swap(true, Ordering::AcqRel) {
            let seconds = self.cycle.started.elapsed().as_secs_f64();
            let help = "Seconds from the start to the first outcome of every module.";
            self.state.metrics.set("windlass_first_converge_seconds", help, &[], seconds);
            let failed = self.module_states.iter().filter(|(_, module)| module.failure.is_some());
            let failed: Vec<&str> = failed.map(|(name, _)| name.as_str()).collect();
            match failed.is_empty() {
                true => tracing::info!(seconds, "converged"),
                false => tracing::warn!(seconds, ?failed, "converged except for modules that failed"),
            }
        }
    }
}
