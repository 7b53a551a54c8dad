//! The operator's loop: ConfigMap, triggers of the engine, finished jobs and retries, one event at a time.
//!
//! Owns the state of each module. The order of jobs is the work queue's, the work is `releases`' and, for what runs before and
//! after, `hooks`'.

mod apply_config;
mod changed_modules;
mod converge;
mod converge_metrics;
mod enqueue;
mod global_hooks;
mod job_outcome;
mod module_crds;
mod report_status;
mod settings_verdicts;
mod state_view;
mod triggers;
mod unblock;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::Value;
use tokio::sync::mpsc;

use super::config::{Config, Problem};
use super::hooks::{self, Change, Hooks, Maintenance, ModuleRef, Ran, Readiness, RunOptions};
use super::module::{Module, Modules};
use super::operator_options::{ModuleStatus, Options};
use super::releases::{Releases, config_map};
use super::reload::{Found, Scan, Source};
use super::status::StatusWriter;
use super::values::{GLOBAL, Values};
use super::{debug, reload, status};
use crate::shell_hooks::HookEnvironment;
use converge::Cycle;
use settings_verdicts::SettingsChecks;
use windlass_base::redact;
use windlass_cluster::{Cluster, ClusterError, ObjectEvent};
use windlass_controller::serve::State;
use windlass_controller::serve::runtime_config::LOG_CONFIG_MAP;
use windlass_controller::{
    ControllerContext, Done, FailureLog, Gate, Job, MODULES, ReconcileError as Error, WorkQueue, WorkerEvent,
    Workers, until,
};
use windlass_engine::{ReconcileTrigger, ReleaseId, ReleaseKey, ReleaseRequest};

/// How often the loop shows that it lives.
const TICK: Duration = Duration::from_secs(10);

/// How often an invalid ConfigMap is counted, until it is corrected.
const COMPLAINT: Duration = Duration::from_secs(5);

type JobResult = Result<JobOutcome, Error>;

/// The result of a job that succeeded.
enum JobOutcome {
    Ran(Ran),
    Restored(Done),
    Uninstalled,
}

/// The state of one module.
#[derive(Default)]
struct ModuleState {
    enabled: bool,
    /// The values of its last request.
    values: Option<Value>,
    /// Those of them that come from references.
    referred: Value,
    /// Why it is reconciled.
    cause: String,
    /// Why its values cannot be used.
    problem: Option<String>,
    /// Why it is off, where no flag says so: reason and message.
    off_because: Option<(&'static str, String)>,
    /// Its CRDs were applied before the modules ran.
    crds_known: bool,
    /// Why its last job failed: reason and message.
    failure: Option<(&'static str, String)>,
    /// A job has ended.
    tried: bool,
    /// Revision that is deployed.
    revision: Option<u64>,
    /// It is in maintenance: its objects are not reconciled.
    maintenance: bool,
    /// Maintenance ended; the record's label is not cleared yet.
    maintenance_ends: bool,
    /// Why it runs, for metrics.
    activation: &'static str,
    /// The last request to the engine.
    request: Option<Arc<ReleaseRequest>>,
    /// A later request failed: this one is out of date.
    outdated: bool,
    /// What its readiness probe said last.
    readiness: Option<Readiness>,
}

/// What `enabled` scripts said.
#[derive(Default)]
struct Scripts {
    /// The last verdicts, by module name.
    verdicts: BTreeMap<String, bool>,
    /// Why modules are off, by name, in the words of their scripts.
    reasons: BTreeMap<String, String>,
    /// Modules whose script has said nothing yet.
    undecided: BTreeSet<String>,
    /// Failures in a row.
    failures: u32,
    /// When scripts that failed are run again.
    retry_at: Option<Instant>,
}

/// The ConfigMap as it was last read.
#[derive(Default)]
struct ConfigMapState {
    config: Config,
    /// Sections that have had a valid form, by key.
    good: BTreeSet<String>,
    /// Sections with an invalid form, of modules that were off then, by key.
    rejected: BTreeMap<String, Problem>,
    problems: Vec<Problem>,
    /// Which field manager wrote which key.
    writers: Option<Value>,
    object: Option<Value>,
    /// It was read once.
    known: bool,
}

/// Module directories on disk.
struct FilesState {
    /// Changes that the scan found.
    found: Option<mpsc::Receiver<Found>>,
    /// Modules with changed files, until they are requested.
    changed: BTreeSet<String>,
    /// Modules whose files cannot be used, and why, by key.
    broken: BTreeMap<String, String>,
}

/// Deletions of objects that a hook may have made.
struct PendingDeletions {
    /// By module, until its next run.
    deletions: BTreeMap<String, ReconcileTrigger>,
    /// When hooks that run for too long were last looked for.
    checked: Instant,
}

/// Releases found at the start.
struct RecordedReleases {
    /// Releases of ours without an enabled module.
    orphans: BTreeSet<ReleaseId>,
    /// Names of releases that were in maintenance.
    held: BTreeSet<String>,
}

/// Who shows the operator's state.
struct Reporters {
    /// Writes the status of modules.
    status: Option<StatusWriter>,
    /// Requests of the debug endpoint.
    debug: mpsc::UnboundedReceiver<debug::Look>,
}

struct Operator {
    options: Options,
    releases: Releases,
    modules: Modules,
    state: Arc<State>,
    workers: Workers<JobResult>,
    module_states: BTreeMap<String, ModuleState>,
    hooks: Arc<Hooks>,
    /// What hooks have changed.
    changes: mpsc::UnboundedReceiver<Change>,
    failures: FailureLog,
    cycle: Cycle,
    scripts: Scripts,
    config_map: ConfigMapState,
    files: FilesState,
    pending_deletions: PendingDeletions,
    recorded: RecordedReleases,
    reporters: Reporters,
    /// Sections that programs check.
    settings_checks: SettingsChecks,
}

/// Runs an operator until `stop` resolves; then waits for running jobs.
///
/// # Errors
/// The cluster cannot be reached or does not let us read what we need.
pub async fn run(
    context: ControllerContext,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    // Modules are the operator's own, and so is all that they read.
    redact::own(operate(context, options, stop)).await
}

async fn operate(
    context: ControllerContext,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    let started = Instant::now();
    let ControllerContext { runner, events, state, release_settings, .. } = context;
    let cluster = runner.engine().cluster().clone();
    let roots = options.directories.modules.clone();
    let (unnumbered, profile) = (options.directories.unnumbered_order, options.releases.profile);
    let global = options.directories.global_hooks.clone();
    let source = Source { roots: roots.clone(), global: global.clone(), unnumbered, profile };
    let found = redact::spawn_blocking(move || {
        // First the times of the files, then what is in them: what changes in between is read again.
        let scan = Scan::take(&roots, global.as_deref());
        let mut modules = Modules::discover(&roots, unnumbered, profile);
        scan.stamp(&mut modules);
        (scan, modules)
    });
    let (scan, modules) =
        found.await.map_err(|e| ClusterError::Other(format!("reading the modules failed: {e}")))?;
    for text in &modules.problems {
        tracing::error!("{text}");
        state.measures.add("modules_discover_errors_total", &[], 1.0);
    }
    if let Some(text) = modules.unread() {
        return Err(ClusterError::Other(text));
    }
    if options.directories.strict
        && let Some(path) = modules.without_values(&options.directories.modules)
    {
        let text = format!(
            "{} is missing, and values are checked strictly: write one, if need be an empty one",
            path.display()
        );
        return Err(ClusterError::Other(text));
    }
    let (values, mut broken) = Values::new(&modules, options.directories.global_hooks.as_deref());
    for text in broken.values() {
        tracing::error!("{text}");
    }
    if let Some(text) = broken.remove(GLOBAL) {
        return Err(ClusterError::Other(text));
    }
    let releases = Releases::new(runner, events, &options).with_settings(release_settings);
    let recorded = recorded_releases(&releases, &modules, &options).await?;
    let names: Vec<&str> = modules.modules.iter().map(|m| m.name.name.as_str()).collect();
    tracing::info!(modules = ?names, namespace = options.namespace, "operator starts");
    let (changes_sender, changes) = mpsc::unbounded_channel();
    let around = HookEnvironment {
        scratch: options.hooks.tmp_dir.clone(),
        keep_files: options.hooks.keep_tmp_files,
        timeout: options.hooks.timeout,
        group_metrics: options.hooks.group_metrics,
        proxy_json: options.hooks.proxy_json,
        kubeconfig: options.hooks.kubeconfig.clone(),
        own_directory: options.directories.hooks_only,
    };
    let target = config_map(&options.namespace, &options.config_map);
    let run_options = RunOptions {
        webhooks: options.hooks.webhooks.clone(),
        unblock_after: options.hooks.unblock_after,
        keeps_deckhouse_modules: options.module_status == ModuleStatus::Deckhouse,
    };
    let hooks =
        Hooks::new(cluster.clone(), around, Arc::clone(&state), values, target, run_options, changes_sender);
    let limit = hooks::limit(options.hooks.timeout, options.hooks.unblock_after);
    let global = hooks.read_global(&options.directories, limit).await;
    hooks.set_global(global.map_err(ClusterError::Other)?);
    let measured = Arc::downgrade(&hooks);
    let collect = move || {
        if let Some(hooks) = measured.upgrade() {
            hooks.measure();
        }
    };
    // An operator runs once in a process.
    state.collect.set(Box::new(collect)).unwrap_or_default();
    let found = options.directories.scan_interval.map(|every| reload::watch(source, every, scan, &modules));
    let status_writer = status::start(&cluster, &options);
    let looks = debug::open(Arc::clone(&hooks), releases.clone(), Arc::clone(&state));
    state.runtime.register(
        LOG_CONFIG_MAP,
        "Set to true to log each event of the operator's ConfigMap: its keys, not their values",
        "false",
        Box::new(|value| {
            value.parse::<bool>().map(|_| ()).map_err(|_| format!("{value:?} is neither true nor false"))
        }),
    );
    let mut workers = Workers::new(WorkQueue::new(
        if options.strict_order { Gate::Succeeded } else { Gate::Tried },
        usize::MAX,
    ));
    if !options.directories.hooks_only {
        workers = workers.with_kinds_of(&cluster);
    }
    let operator = Operator {
        options,
        releases,
        modules,
        state,
        workers,
        failures: FailureLog::default(),
        module_states: BTreeMap::new(),
        hooks,
        changes,
        cycle: Cycle::new(started),
        scripts: Scripts::default(),
        config_map: ConfigMapState::default(),
        files: FilesState { found, changed: BTreeSet::new(), broken },
        pending_deletions: PendingDeletions { deletions: BTreeMap::new(), checked: started },
        recorded,
        reporters: Reporters { status: status_writer, debug: looks },
        settings_checks: SettingsChecks::default(),
    };
    operator.work(cluster, stop).await
}

/// The releases that an operator finds at its start. One of hooks alone has none, and needs no rights to look.
async fn recorded_releases(
    releases: &Releases,
    modules: &Modules,
    options: &Options,
) -> Result<RecordedReleases, ClusterError> {
    if options.directories.hooks_only {
        return Ok(RecordedReleases { orphans: BTreeSet::new(), held: BTreeSet::new() });
    }
    let recorded = futures::future::try_join4(
        releases.owned_releases(),
        releases.inherited_releases(),
        releases.owned_elsewhere(),
        releases.held_releases(),
    );
    let (mut orphans, inherited, elsewhere, held) = match recorded.await {
        Ok(names) => names,
        Err(Error::Cluster(e)) => return Err(e),
        Err(e) => return Err(ClusterError::Other(e.to_string())),
    };
    orphans.extend(elsewhere);
    orphans.retain(|id| options.releases.ignored.as_ref() != Some(&id.name));
    for id in inherited.difference(&orphans.clone()) {
        let name = &id.name;
        if modules.modules.iter().any(|m| m.name.name == *name) {
            orphans.insert(id.clone());
        } else {
            tracing::warn!(
                release = name,
                "addon-operator created this release and it belongs to no module: it is left alone; if it is no \
                 longer needed, remove it with windlass uninstall {name} -n {}",
                options.namespace
            );
        }
    }
    Ok(RecordedReleases { orphans, held: held.into_iter().map(|id| id.name).collect() })
}

impl Operator {
    async fn work(mut self, cluster: Cluster, stop: impl Future<Output = ()>) -> Result<(), ClusterError> {
        let target = config_map(&self.options.namespace, &self.options.config_map);
        let mut config = match self.options.directories.hooks_only {
            // There is none, once and for all.
            true => {
                futures::stream::iter([Ok(ObjectEvent::Listed)]).chain(futures::stream::pending()).boxed()
            }
            false => cluster.follow(&target.gvk, target.namespace.as_deref(), &target.name).await?.boxed(),
        };
        let engine = self.releases.engine().clone();
        let owners = self.releases.owners();
        self.update_dependencies();
        let mut stop = std::pin::pin!(stop);
        let mut ticks = tokio::time::interval(TICK);
        let mut complaints = tokio::time::interval(COMPLAINT);
        complaints.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut current: Option<Value> = None;
        loop {
            self.start_jobs();
            self.state.progress.set(self.pending(), self.head());
            self.report_statuses();
            let scripts_at = self.scripts.retry_at;
            let unblock_after = self.next_unblock_check();
            let summary = self.failures.next_summary();
            tokio::select! {
                () = &mut stop => break,
                event = config.next() => match event {
                    Some(Ok(ObjectEvent::Listing)) => {
                        current = None;
                        self.hooks.forget_written().await;
                    }
                    Some(Ok(ObjectEvent::Present(object))) if self.config_map.known => self.configure(Some(&object), false).await,
                    Some(Ok(ObjectEvent::Present(object))) => current = Some(object),
                    Some(Ok(ObjectEvent::Gone(_))) => self.configure(None, false).await,
                    Some(Ok(ObjectEvent::Listed)) => self.configure(current.take().as_ref(), false).await,
                    Some(Err(error)) => return Err(error),
                    None => return Err(ClusterError::Other("the watch of the ConfigMap ended".to_owned())),
                },
                (ReleaseKey { id, .. }, touched) = engine.next_trigger_for(&owners) => {
                    if id == self.release_of(&id.name) {
                        self.on_trigger(&id.name, &touched);
                    }
                }
                Some(change) = self.changes.recv() => self.on_hook_change(&change),
                Some(step) = self.cycle.steps.join_next() => self.on_step(step),
                Some(joined) = self.settings_checks.tasks.join_next() => self.on_check_joined(joined).await,
                event = self.workers.next() => match event {
                    WorkerEvent::Finished(name, job, result) => {
                        self.finish_job(&name, job, result.unwrap_or_else(|text| Err(Error::Task(text))));
                    }
                    WorkerEvent::InputsChanged(name) if name == apply_config::REFERENCES => {
                        let object = self.config_map.object.take();
                        self.configure(object.as_ref(), false).await;
                    }
                    WorkerEvent::InputsChanged(name) => {
                        self.workers.queue.reset_failures(&name);
                        self.render_again(&name, "what its templates looked up has changed");
                    }
                    WorkerEvent::KindServed(name) => {
                        self.workers.queue.reset_failures(&name);
                        self.render_again(&name, "a kind that it needs is served");
                    }
                    WorkerEvent::RenewalDue(name) => self.render_again(&name, "a certificate needs renewal"),
                    WorkerEvent::RetriesDue | WorkerEvent::IntervalElapsed(_) | WorkerEvent::PlacesChanged => {}
                },
                Some(found) = next(&mut self.files.found), if self.config_map.known => self.on_files_changed(found).await,
                _ = ticks.tick() => self.state.measures.add("live_ticks", &[], 1.0),
                _ = complaints.tick(), if self.config_map.problems.iter().any(Problem::matters) => {
                    self.state.measures.add("config_values_errors_total", &[], 1.0);
                }
                // The requester may be gone.
                Some(look) = self.reporters.debug.recv() => drop(look.send(self.view())),
                () = until(scripts_at) => {
                    self.scripts.retry_at = None;
                    self.converge(false);
                }
                () = until(unblock_after) => self.unblock_hung_modules(),
                () = until(summary) => self.failures.summarize(MODULES, Instant::now()),
            }
        }
        tracing::info!(running = self.workers.queue.running(), "operator stops");
        self.cycle.steps.abort_all();
        self.workers.shut_down(&engine).await;
        Ok(())
    }

    fn module(&self, name: &str) -> Option<&Module> {
        self.modules.modules.iter().find(|m| m.name.name == name)
    }

    /// The release of a module, or that of `NAMESPACE/NAME` that is no module's any more.
    fn release_of(&self, name: &str) -> ReleaseId {
        if let Some((namespace, name)) = name.split_once('/') {
            return ReleaseId::new(namespace, name);
        }
        let own = self.module(name).and_then(|m| m.target.namespace.as_deref());
        ReleaseId::new(own.unwrap_or(&self.options.namespace), name)
    }

    fn order(&self, name: &str) -> u32 {
        self.module(name).map_or(u32::MAX, |m| m.name.order)
    }

    /// Requests a run whose render is out of date though chart and values are not.
    fn render_again(&mut self, name: &str, reason: &str) {
        let activation = self.activation("RenderOutdated");
        if let Some(wanted) = self.module_states.get_mut(name).filter(|w| w.enabled && !w.maintenance) {
            reason.clone_into(&mut wanted.cause);
            wanted.activation = activation;
            tracing::info!(module = name, reason, "rendering again");
            self.workers.queue.request(name, self.order(name), Job::Reconcile);
        }
    }

    fn start_jobs(&mut self) {
        self.workers.resume();
        if !self.config_map.known {
            return;
        }
        if !self.may_run_modules() {
            // Drift is corrected to what was last released, whatever the new values are.
            let ready = |w: &ModuleState| w.enabled && !w.maintenance && !w.outdated && w.request.is_some();
            for name in self
                .workers
                .queue
                .start_drift_corrections(|name| self.module_states.get(name).is_some_and(ready))
            {
                self.start_job(name, Job::CorrectDrift);
            }
            return;
        }
        // A module that cannot run ends at once, and the next ones start in the same pass.
        loop {
            let started = self.workers.queue.start();
            if started.is_empty() {
                return;
            }
            for (name, job) in started {
                self.start_job(name, job);
            }
        }
    }

    fn start_job(&mut self, name: String, job: Job) {
        let release = self.release_of(&name);
        let mut target = self.module(&name).map(|m| m.target.clone()).unwrap_or_default();
        target.namespace = Some(release.namespace);
        let mut releases = match self.releases.at(&target) {
            Ok(releases) => releases,
            Err(error) => return self.finish_job(&name, job, Err(error)),
        };
        releases.runner = releases.runner.with_slot(&self.workers.slot(&name));
        let hooks = Arc::clone(&self.hooks);
        if job == Job::Uninstall {
            let module = self.module(&name).map(ModuleRef::of);
            self.spawn(name.clone(), job, async move {
                let deleted = if name == release.name {
                    hooks.uninstall_module(&releases, &name, module.as_ref()).await?
                } else {
                    releases.uninstall(&release.name).await?
                };
                tracing::info!(module = name, deleted, "uninstalled");
                Ok(JobOutcome::Uninstalled)
            });
            return;
        }
        if job == Job::CorrectDrift
            && let Some(request) = self
                .module_states
                .get(&name)
                .filter(|w| !w.maintenance && !w.outdated)
                .and_then(|w| w.request.clone())
        {
            self.spawn(name.clone(), job, async move {
                releases.runner.correct_drift(request).await.map(JobOutcome::Restored)
            });
            return;
        }
        match self.ready(&name) {
            Err(error) => self.finish_job(&name, job, Err(error)),
            Ok(module) => {
                let work = async move { hooks.run_module(&releases, &module).await.map(JobOutcome::Ran) };
                self.spawn(name, job, work);
            }
        }
    }

    /// What a module's run needs.
    fn ready(&self, name: &str) -> Result<ModuleRef, Error> {
        let gone = || Error::Chart("the module directory no longer exists".to_owned());
        let module = self.module(name).ok_or_else(gone)?;
        if let Some(text) = self.module_states.get(name).and_then(|w| w.problem.clone()) {
            return Err(Error::Config(format!("ConfigMap: {text}")));
        }
        if let Some(text) = self.files.broken.get(&module.name.key) {
            return Err(Error::Chart(text.clone()));
        }
        let chart = module.chart.clone().map_err(Error::Chart)?;
        let Some(wanted) = self.module_states.get(name) else { return Err(gone()) };
        let maintenance = match (wanted.maintenance, wanted.maintenance_ends) {
            (true, _) => Maintenance::On,
            (false, true) => Maintenance::Ending,
            (false, false) => Maintenance::Off,
        };
        let (cause, activation) = (wanted.cause.clone(), wanted.activation);
        Ok(ModuleRef { chart, cause, maintenance, activation, ..ModuleRef::of(module) })
    }

    fn spawn(&mut self, name: String, job: Job, work: impl Future<Output = JobResult> + Send + 'static) {
        let state = Arc::clone(&self.state);
        let activation = self.module_states.get(&name).map_or("", |w| w.activation);
        let module = name.clone();
        self.workers.spawn(
            name,
            job,
            redact::own(async move {
                let began = Instant::now();
                let result = work.await;
                converge_metrics::job(&state, &module, job, activation, began, result.is_ok());
                result
            }),
        );
    }
}

/// What comes next; never anything without a receiver.
async fn next(found: &mut Option<mpsc::Receiver<Found>>) -> Option<Found> {
    match found {
        Some(found) => found.recv().await,
        None => std::future::pending().await,
    }
}
