//! The operator's loop: ConfigMap, releases that want a look, finished jobs and retries, one event at a time.
//!
//! Owns what is wanted of each module. The turn order is `queue`'s, the work is `run`'s and, for
//! what runs before and after, `hooks`'.

mod ask;
mod config;
mod converge;
mod crds;
mod drift;
mod files;
mod global_hooks;
mod look;
mod measure;
mod outcome;
mod patience;
mod tell;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chart_compat::profile::Profile;
use futures::StreamExt as _;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::config::{Config, Problem};
use super::drift::Policy;
use super::enabling::Enabling;
use super::hooks::{self, Change, Hooks, Maintenance, ModuleRef, Ran};
use super::lookups::Watch;
use super::module::{Module, Modules};
use super::queue::{Job, Queue};
use super::reload::{Found, Scan, Source};
use super::run::{Done, Error, Shared, config_map};
use super::status::Teller;
use super::values::{GLOBAL, Values};
use super::{UNNUMBERED_ORDER, debug, progress, reload, status};
use crate::cluster::{Cluster, ClusterError, ObjectEvent};
use crate::hooks::{Surroundings, webhooks};
use crate::release::record::Storage;
use crate::release::{Adoption, Engine, EngineOptions, ReconcileTrigger, ReleaseId, ReleaseRequest};
use crate::render::RenderBounds;
use crate::render::parse_manifest;
use crate::serve::State;
use crate::serve::runtime::LOG_CONFIG_MAP;
use converge::{Phase, Step};

/// How long running jobs may take to end after a stop was asked for.
const GRACE: Duration = Duration::from_secs(25);
/// How often the loop shows that it lives.
const TICK: Duration = Duration::from_secs(10);

/// How often it is counted that the ConfigMap is broken, until it is mended.
const COMPLAINT: Duration = Duration::from_secs(5);

/// What an operator works on.
#[derive(Clone, Debug)]
pub struct Options {
    /// Roots of modules, a colon-separated list.
    pub modules_dir: String,
    /// Directory of global hooks and of the schemas of global values, if there is one.
    pub global_hooks_dir: Option<PathBuf>,
    /// Namespace of the ConfigMap and of all releases.
    pub namespace: String,
    /// Name of the ConfigMap.
    pub config_map: String,
    /// Order of module directories without a number.
    pub unnumbered_order: u32,
    /// Revisions kept of each release.
    pub history_max: usize,
    /// Bound of each wait of a release.
    pub timeout: Duration,
    /// Which Helm to be equal to.
    pub profile: Profile,
    /// What is done about objects that someone changed or deleted.
    pub drift: Policy,
    /// Where hooks get their files.
    pub tmp_dir: PathBuf,
    /// Files of hooks stay after the run.
    pub keep_tmp_files: bool,
    /// After this time a run of a hook is killed, unless the hook says another; `None`: never.
    pub hook_timeout: Option<Duration>,
    /// Modules of higher numbers wait no longer for one whose hook runs for so long.
    pub hook_patience: Duration,
    /// Lines of JSON that hooks print are written as they are.
    pub proxy_json: bool,
    /// A root or module without `values.yaml` is not taken.
    pub strict: bool,
    /// Modules of a number start when all of the lower ones have worked, as with the peer; otherwise when they were tried.
    pub strict_order: bool,
    /// A release that is never uninstalled.
    pub ignored_release: Option<String>,
    /// Where releases are recorded.
    pub storage: Storage,
    /// Which flags say whether a module is on.
    pub enabling: Enabling,
    /// Labels that every object of a release gets.
    pub extra_labels: BTreeMap<String, String>,
    /// Beginnings of names of files in `crds/` that are no CRDs.
    pub crd_filters: Vec<String>,
    /// What one render may take.
    pub render_bounds: RenderBounds,
    /// Which objects that exist modules take over.
    pub adoption: Adoption,
    /// CRDs are applied with the operator's own rights, also for modules with a ServiceAccount.
    pub crds_as_operator: bool,
    /// Metrics of hooks without a group begin anew in each run, as with the peer.
    pub group_metrics: bool,
    /// How webhooks of hooks are served.
    pub webhooks: webhooks::Options,
    /// What modules are like is told as objects of the cluster.
    pub module_status: bool,
    /// How often the files of modules are looked at; `None`: at the start only.
    pub scan_interval: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            modules_dir: "modules".to_owned(),
            global_hooks_dir: None,
            namespace: "default".to_owned(),
            config_map: "addon-operator".to_owned(),
            unnumbered_order: UNNUMBERED_ORDER,
            history_max: 10,
            timeout: Duration::from_secs(20 * 60),
            profile: Profile::default(),
            drift: Policy::default(),
            tmp_dir: std::env::temp_dir().join("addon-operator"),
            keep_tmp_files: false,
            hook_timeout: None,
            hook_patience: Duration::from_secs(300),
            proxy_json: false,
            strict: false,
            strict_order: false,
            ignored_release: None,
            storage: Storage::default(),
            enabling: Enabling::default(),
            extra_labels: BTreeMap::from([("heritage".to_owned(), "addon-operator".to_owned())]),
            crd_filters: vec!["doc-".to_owned(), "_".to_owned()],
            render_bounds: RenderBounds::default(),
            adoption: Adoption::Unowned,
            crds_as_operator: false,
            group_metrics: false,
            webhooks: webhooks::Options::default(),
            module_status: true,
            scan_interval: Some(Duration::from_secs(2)),
        }
    }
}

type JobResult = Result<Finished, Error>;

/// What a job that worked has to tell.
enum Finished {
    Ran(Ran),
    Restored(Done),
    Uninstalled,
}

/// What is known of one module.
#[derive(Default)]
struct Wanted {
    enabled: bool,
    /// The values that it was last asked to run with.
    values: Option<Value>,
    /// What of them came from where they refer to.
    referred: Value,
    /// Why it is to be released anew.
    cause: String,
    /// Why its values cannot be used.
    problem: Option<String>,
    /// Why it is off, where no flag says so: a word, and all of it.
    off_because: Option<(&'static str, String)>,
    /// Its CRDs have been brought before the modules ran.
    crds_known: bool,
    /// Why its last job failed: a word, and all of it.
    failure: Option<(&'static str, String)>,
    /// A job has had an outcome.
    tried: bool,
    /// Revision that is deployed.
    revision: Option<u64>,
    /// Its objects are left as they are.
    maintenance: bool,
    /// They were until now, and its record says so still.
    maintenance_ends: bool,
    /// What brought about that it runs, for metrics.
    activation: &'static str,
    /// What was last asked of the engine.
    request: Option<Arc<ReleaseRequest>>,
    /// Something else was to be asked since then, and failed: the request says nothing any more.
    outdated: bool,
    /// The watch of what its templates looked up.
    lookups: Option<Watch>,
}

struct Operator {
    options: Options,
    shared: Shared,
    modules: Modules,
    state: Arc<State>,
    queue: Queue,
    wanted: BTreeMap<String, Wanted>,
    hooks: Arc<Hooks>,
    /// What hooks have changed.
    changes: mpsc::UnboundedReceiver<Change>,
    /// How far the current converge is.
    phase: Phase,
    /// The hooks before all modules have worked once since they were loaded.
    prepared: bool,
    /// Whether `afterAll` hooks that fail are left for a new converge.
    leave_after: watch::Sender<bool>,
    /// Converges in a row that `afterAll` hooks brought about.
    repeats: u32,
    /// Work of global hooks, one at a time.
    steps: JoinSet<Step>,
    /// The ConfigMap as it was last read.
    config: Config,
    /// Modules that cannot be used as they are on disk, and why, by key.
    broken: BTreeMap<String, String>,
    /// Sections that the ConfigMap has had a good form of, by key.
    good: BTreeSet<String>,
    /// Sections that could not be taken in, of modules that were off then, by key.
    rejected: BTreeMap<String, Problem>,
    problems: Vec<Problem>,
    /// What `enabled` scripts said last, by module name.
    scripted: BTreeMap<String, bool>,
    /// Why modules are off, by name, in the words of their scripts.
    script_reasons: BTreeMap<String, String>,
    /// Modules whose script has said nothing yet.
    undecided: BTreeSet<String>,
    script_failures: u32,
    /// When scripts that failed are to be asked again.
    scripts_at: Option<Instant>,
    /// Who wrote which key of the ConfigMap.
    writers: Option<Value>,
    /// The ConfigMap as it was last seen.
    object: Option<Value>,
    /// The watch of what the ConfigMap refers to.
    references: Option<Watch>,
    jobs: JoinSet<(String, Job, JobResult)>,
    /// What each task of `jobs` does, for the one that breaks down.
    running: BTreeMap<tokio::task::Id, (String, Job)>,
    retries: BTreeMap<String, (Instant, Job)>,
    /// Deletions that a hook may have made, by module, until its next run.
    deletions: BTreeMap<String, ReconcileTrigger>,
    /// When modules have certificates to renew.
    renewals: BTreeMap<String, Instant>,
    /// Modules whose lookups would find something else now.
    outdated: mpsc::UnboundedReceiver<String>,
    outdated_sender: mpsc::UnboundedSender<String>,
    /// Releases of ours without an enabled module, found at the start.
    /// Module directories that have changed.
    found: Option<mpsc::Receiver<Found>>,
    /// Modules whose files are others, until they are asked to run.
    files: BTreeSet<String>,
    /// Releases that were left alone when the process began.
    held: BTreeSet<String>,
    /// Where the statuses of modules are told.
    teller: Option<Teller>,
    /// What happened last, for metrics.
    activation: &'static str,
    /// The converge that is under way.
    converge: Option<measure::Converge>,
    /// Who wants to see the state.
    looks: mpsc::UnboundedReceiver<debug::Look>,
    orphans: BTreeSet<ReleaseId>,
    configured: bool,
    started: Instant,
    /// When it was last looked for modules whose hooks do not come back.
    looked: Instant,
}

/// Runs an operator until `stop` resolves; then lets running jobs end.
///
/// # Errors
/// The cluster cannot be reached or does not let us read what we need.
pub async fn run(
    cluster: Cluster,
    options: Options,
    state: Arc<State>,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    let started = Instant::now();
    let roots = options.modules_dir.clone();
    let (unnumbered, profile) = (options.unnumbered_order, options.profile);
    let global = options.global_hooks_dir.clone();
    let source = Source { roots: roots.clone(), global: global.clone(), unnumbered, profile };
    let found = tokio::task::spawn_blocking(move || {
        // First the times of the files, then what is in them: what changes in between is read again.
        let scan = Scan::take(&roots, global.as_deref());
        let mut modules = Modules::discover(&roots, unnumbered, profile);
        scan.stamp(&mut modules);
        (scan, modules)
    });
    let holder = format!("windlass-operator-{:x}", jiff::Timestamp::now().as_nanosecond());
    let engine_options =
        EngineOptions { storage: options.storage.clone(), ..EngineOptions::watching(&holder) };
    let engine = Engine::new(cluster.clone(), parse_manifest, engine_options)
        .with_progress(progress::listener(), true);
    let (scan, modules) =
        found.await.map_err(|e| ClusterError::Other(format!("reading the modules failed: {e}")))?;
    for text in &modules.problems {
        tracing::error!("{text}");
        state.measures.add("modules_discover_errors_total", &[], 1.0);
    }
    if let Some(text) = modules.unread() {
        return Err(ClusterError::Other(text));
    }
    if options.strict
        && let Some(path) = modules.without_values(&options.modules_dir)
    {
        let text = format!(
            "{} is missing, and values are checked strictly: write one, if need be an empty one",
            path.display()
        );
        return Err(ClusterError::Other(text));
    }
    let (values, mut broken) = Values::new(&modules, options.global_hooks_dir.as_deref());
    for text in broken.values() {
        tracing::error!("{text}");
    }
    if let Some(text) = broken.remove(GLOBAL) {
        return Err(ClusterError::Other(text));
    }
    let shared = Shared::new(engine, &options);
    let releases = futures::future::try_join4(
        shared.owned_releases(),
        shared.inherited_releases(),
        shared.owned_elsewhere(),
        shared.held_releases(),
    );
    let (mut orphans, inherited, elsewhere, held) = match releases.await {
        Ok(names) => names,
        Err(Error::Cluster(e)) => return Err(e),
        Err(e) => return Err(ClusterError::Other(e.to_string())),
    };
    orphans.extend(elsewhere);
    orphans.retain(|id| options.ignored_release.as_ref() != Some(&id.name));
    for id in inherited.difference(&orphans.clone()) {
        let name = &id.name;
        if modules.modules.iter().any(|m| m.name.name == *name) {
            orphans.insert(id.clone());
        } else {
            tracing::warn!(
                release = name,
                "addon-operator made this release and there is no such module: it is left alone; if nobody wants it any \
                 more, remove it with windlass uninstall {name} -n {}",
                options.namespace
            );
        }
    }
    let names: Vec<&str> = modules.modules.iter().map(|m| m.name.name.as_str()).collect();
    tracing::info!(modules = ?names, namespace = options.namespace, "operator starts");
    let (outdated_sender, outdated) = mpsc::unbounded_channel();
    let (changes_sender, changes) = mpsc::unbounded_channel();
    let around = Surroundings {
        scratch: options.tmp_dir.clone(),
        keep_files: options.keep_tmp_files,
        timeout: options.hook_timeout,
        group_metrics: options.group_metrics,
        proxy_json: options.proxy_json,
    };
    let target = config_map(&options.namespace, &options.config_map);
    let served = (options.webhooks.clone(), options.hook_patience);
    let hooks =
        Hooks::new(cluster.clone(), around, Arc::clone(&state), values, target, served, changes_sender);
    let limit = hooks::limit(options.hook_timeout, options.hook_patience);
    let global = Hooks::read_global(options.global_hooks_dir.as_deref(), limit).await;
    hooks.set_global(global.map_err(ClusterError::Other)?);
    let measured = (Arc::downgrade(&hooks), Arc::downgrade(&state));
    let collect = move || {
        if let (Some(hooks), Some(state)) = (measured.0.upgrade(), measured.1.upgrade()) {
            hooks.measure(&state.progress);
        }
    };
    // An operator runs once in a process.
    state.collect.set(Box::new(collect)).unwrap_or_default();
    let found = options.scan_interval.map(|every| reload::watch(source, every, scan, &modules));
    let teller = options
        .module_status
        .then(|| status::start(cluster.clone(), &options.namespace, &options.config_map));
    let looks = debug::open(Arc::clone(&hooks), shared.clone(), Arc::clone(&state));
    state.runtime.register(
        LOG_CONFIG_MAP,
        "Set to true to log each event of the operator's ConfigMap: its keys, not their values",
        "false",
        Box::new(|value| {
            value.parse::<bool>().map(|_| ()).map_err(|_| format!("{value:?} is neither true nor false"))
        }),
    );
    let strict_order = options.strict_order;
    let operator = Operator {
        options,
        shared,
        hooks,
        changes,
        phase: Phase::Starting,
        prepared: false,
        leave_after: watch::Sender::new(false),
        repeats: 0,
        steps: JoinSet::new(),
        config: Config::default(),
        modules,
        state,
        queue: Queue::new(strict_order),
        wanted: BTreeMap::new(),
        broken,
        good: BTreeSet::new(),
        rejected: BTreeMap::new(),
        problems: Vec::new(),
        scripted: BTreeMap::new(),
        script_reasons: BTreeMap::new(),
        undecided: BTreeSet::new(),
        script_failures: 0,
        scripts_at: None,
        writers: None,
        object: None,
        references: None,
        jobs: JoinSet::new(),
        running: BTreeMap::new(),
        retries: BTreeMap::new(),
        deletions: BTreeMap::new(),
        renewals: BTreeMap::new(),
        outdated,
        outdated_sender,
        orphans,
        found,
        files: BTreeSet::new(),
        held: held.into_iter().map(|id| id.name).collect(),
        teller,
        activation: "KubeConfigChanged",
        converge: None,
        looks,
        configured: false,
        started,
        looked: started,
    };
    operator.work(cluster, stop).await
}

impl Operator {
    async fn work(mut self, cluster: Cluster, stop: impl Future<Output = ()>) -> Result<(), ClusterError> {
        let target = config_map(&self.options.namespace, &self.options.config_map);
        let mut config = cluster.follow(&target.gvk, target.namespace.as_deref(), &target.name).await?;
        let engine = self.shared.engine.clone();
        self.take_waits();
        let mut stop = std::pin::pin!(stop);
        let mut ticks = tokio::time::interval(TICK);
        let mut complaints = tokio::time::interval(COMPLAINT);
        complaints.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut current: Option<Value> = None;
        loop {
            self.start_jobs();
            self.state.progress.set(self.pending(), self.head());
            self.tell_statuses();
            let retry_at = self
                .retries
                .values()
                .map(|r| r.0)
                .chain(self.renewals.values().copied())
                .chain(self.scripts_at)
                .min();
            let patience = self.patience_ends();
            tokio::select! {
                () = &mut stop => break,
                event = config.next() => match event {
                    Some(Ok(ObjectEvent::Listing)) => {
                        current = None;
                        self.hooks.forget_written().await;
                    }
                    Some(Ok(ObjectEvent::Present(object))) if self.configured => self.configure(Some(&object), false).await,
                    Some(Ok(ObjectEvent::Present(object))) => current = Some(object),
                    Some(Ok(ObjectEvent::Gone(_))) => self.configure(None, false).await,
                    Some(Ok(ObjectEvent::Listed)) => self.configure(current.take().as_ref(), false).await,
                    Some(Err(error)) => return Err(error),
                    None => return Err(ClusterError::Other("the watch of the ConfigMap ended".to_owned())),
                },
                (id, trigger) = engine.next_trigger() => {
                    if id == self.release_of(&id.name) {
                        self.look_again(&id.name, &trigger);
                    }
                }
                Some(change) = self.changes.recv() => self.take_change(&change),
                Some(step) = self.steps.join_next() => self.take_step(step),
                Some(name) = self.outdated.recv() => if name == config::REFERENCES {
                    let object = self.object.take();
                    self.configure(object.as_ref(), false).await;
                } else {
                    self.render_again(&name, "what its templates looked up has changed");
                },
                Some(done) = self.jobs.join_next() => self.finish(done),
                Some(found) = next(&mut self.found), if self.configured => self.take_files(found).await,
                _ = ticks.tick() => self.state.measures.add("live_ticks", &[], 1.0),
                _ = complaints.tick(), if self.problems.iter().any(Problem::matters) => {
                    self.state.measures.add("config_values_errors_total", &[], 1.0);
                }
                // Whoever asked may have gone.
                Some(look) = self.looks.recv() => drop(look.send(self.view())),
                () = until(retry_at) => self.retry_due(),
                () = until(patience) => self.lose_patience(),
            }
        }
        tracing::info!(running = self.queue.running(), "operator stops");
        self.steps.abort_all();
        let rest = async {
            while self.jobs.join_next().await.is_some() {}
            engine.settle().await;
        };
        if tokio::time::timeout(GRACE, rest).await.is_err() {
            tracing::warn!("jobs still run; the next start resumes them");
        }
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
        let own = self.module(name).and_then(|m| m.place.namespace.as_deref());
        ReleaseId::new(own.unwrap_or(&self.options.namespace), name)
    }

    fn order(&self, name: &str) -> u32 {
        self.module(name).map_or(u32::MAX, |m| m.name.order)
    }

    /// A module's render is out of date though its chart and values are not.
    fn render_again(&mut self, name: &str, reason: &str) {
        let activation = self.activation("RenderOutdated");
        if let Some(wanted) = self.wanted.get_mut(name).filter(|w| w.enabled && !w.maintenance) {
            reason.clone_into(&mut wanted.cause);
            wanted.activation = activation;
            tracing::info!(module = name, reason, "rendering again");
            self.queue.want(name, self.order(name), Job::Run);
        }
    }

    fn retry_due(&mut self) {
        let now = Instant::now();
        if self.scripts_at.is_some_and(|at| at <= now) {
            self.scripts_at = None;
            self.converge(false);
        }
        let renewals: Vec<String> =
            self.renewals.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect();
        for name in renewals {
            self.renewals.remove(&name);
            self.render_again(&name, "a certificate is to be renewed");
        }
        let due: Vec<(String, Job)> =
            self.retries.iter().filter(|(_, r)| r.0 <= now).map(|(n, r)| (n.clone(), r.1)).collect();
        for (name, job) in due {
            self.retries.remove(&name);
            self.queue.retry(&name, job);
        }
    }

    fn start_jobs(&mut self) {
        if !self.configured {
            return;
        }
        if !self.modules_run() {
            // What is put right is as it was last released, whatever values are to be.
            let ready = |w: &Wanted| w.enabled && !w.maintenance && !w.outdated && w.request.is_some();
            for name in self.queue.start_restores(|name| self.wanted.get(name).is_some_and(ready)) {
                self.start_job(name, Job::Restore);
            }
            return;
        }
        // A module that cannot run has its outcome at once, and the next ones get their turn in the same pass.
        loop {
            let started = self.queue.start();
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
        let mut place = self.module(&name).map(|m| m.place.clone()).unwrap_or_default();
        place.namespace = Some(release.namespace);
        let shared = match self.shared.at(&place) {
            Ok(shared) => shared,
            Err(error) => return self.finish_job(&name, job, Err(error)),
        };
        let hooks = Arc::clone(&self.hooks);
        if job == Job::Uninstall {
            let module = self.module(&name).map(ModuleRef::of);
            self.spawn(name.clone(), job, async move {
                let deleted = if name == release.name {
                    hooks.uninstall_module(&shared, &name, module.as_ref()).await?
                } else {
                    shared.uninstall(&release.name).await?
                };
                tracing::info!(module = name, deleted, "uninstalled");
                Ok(Finished::Uninstalled)
            });
            return;
        }
        if job == Job::Restore
            && let Some(request) = self
                .wanted
                .get(&name)
                .filter(|w| !w.maintenance && !w.outdated)
                .and_then(|w| w.request.clone())
        {
            self.spawn(
                name.clone(),
                job,
                async move { shared.restore(request).await.map(Finished::Restored) },
            );
            return;
        }
        match self.ready(&name) {
            Err(error) => self.finish_job(&name, job, Err(error)),
            Ok(module) => {
                let work = async move { hooks.run_module(&shared, &module).await.map(Finished::Ran) };
                self.spawn(name, job, work);
            }
        }
    }

    /// What a module is to be run from.
    fn ready(&self, name: &str) -> Result<ModuleRef, Error> {
        let gone = || Error::Module("it is not on disk any more".to_owned());
        let module = self.module(name).ok_or_else(gone)?;
        if let Some(text) = self.wanted.get(name).and_then(|w| w.problem.clone()) {
            return Err(Error::Config(text));
        }
        if let Some(text) = self.broken.get(&module.name.key) {
            return Err(Error::Module(text.clone()));
        }
        let chart = module.chart.clone().map_err(Error::Module)?;
        let Some(wanted) = self.wanted.get(name) else { return Err(gone()) };
        let maintenance = match (wanted.maintenance, wanted.maintenance_ends) {
            (true, _) => Maintenance::On,
            (false, true) => Maintenance::Ending,
            (false, false) => Maintenance::Off,
        };
        let (cause, activation) = (wanted.cause.clone(), wanted.activation);
        Ok(ModuleRef { chart, cause, maintenance, activation, ..ModuleRef::of(module) })
    }

    fn spawn(&mut self, name: String, job: Job, work: impl Future<Output = JobResult> + Send + 'static) {
        let key = (name.clone(), job);
        let state = Arc::clone(&self.state);
        let activation = self.wanted.get(&name).map_or("", |w| w.activation);
        let task = self.jobs.spawn(async move {
            let began = Instant::now();
            let result = work.await;
            measure::job(&state, &name, job, activation, began, result.is_ok());
            (name, job, result)
        });
        self.running.insert(task.id(), key);
    }
}

/// What comes next; never anything without a receiver.
async fn next(found: &mut Option<mpsc::Receiver<Found>>) -> Option<Found> {
    match found {
        Some(found) => found.recv().await,
        None => std::future::pending().await,
    }
}

/// Resolves at a moment; never without one.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
