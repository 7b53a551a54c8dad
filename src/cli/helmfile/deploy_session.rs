//! A run on the releases of all state files: what is chosen, its order, its clusters and its hooks.
//!
//! Owns the walk that verbs on clusters share. Releases that are worked on side by side have a thread each: reading their charts and
//! running their hooks blocks. What is done with a release is the verb's.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

use super::connections::Connections;
use super::deploy_flags::{FieldFlags, WithoutEffect};
use super::flags::Options;
use super::post_renderer::PostRendererFlags;
use super::template::Needs;
use crate::cli::flags::Globals;
use crate::cli::post_render::PostRenderer;
use crate::cli::schemas::Schemas;
use crate::cli::{Connected, Failure, ShutdownSignal, block_on, tell};
use helmfile_compat::hooks::{self, Event};
use helmfile_compat::load::State;
use helmfile_compat::visit::Query;
use helmfile_compat::{Error, visit};
use windlass_controller::{ReleaseRunner, ReleaseSpec};
use windlass_engine::record::{Record as ReleaseRecord, ReleaseStatus};
use windlass_engine::{CrdPolicy, ReleaseId};
use windlass_helmfile::commands;
use windlass_helmfile::deploy_order::Scope;
use windlass_helmfile::deploy_plan::{DeployPlan, PlanOptions, PlannedRelease};
use windlass_helmfile::release_chart::ReleaseCharts;
use windlass_helmfile::release_options;
use windlass_helmfile::release_spec::{SpecContext, release_spec, reuse_values};

/// The most releases that are handled at a time: each has a thread, requests and waits of its own.
const MAX_CONCURRENCY: usize = 16;

/// Flags that all of these commands share.
#[derive(clap::Args, Default)]
pub(super) struct Shared {
    #[command(flatten)]
    needs: Needs,
    /// Where `needs` may lead: all (releases of all files) or file (those of the same file, as in helmfile)
    #[arg(long = "needs", value_enum, default_value_t = NeedsScope::All, value_name = "SCOPE")]
    needs_scope: NeedsScope,
    /// Further `--set` values for every chart
    #[arg(long)]
    set: Vec<String>,
    /// Further values files for every chart
    #[arg(long)]
    values: Vec<String>,
    #[command(flatten)]
    post_renderer: PostRendererFlags,
    /// Releases of a step that are handled at a time; 0 for 16, and for as many comparisons as there are processors
    #[arg(long, default_value_t = 0)]
    concurrency: usize,
    #[command(flatten)]
    fields: FieldFlags,
    #[command(flatten)]
    without_effect: WithoutEffect,
}

impl Shared {
    /// Releases that are deployed at a time. Most of that is waiting.
    pub(super) fn deployed_at_once(&self) -> usize {
        self.at_once(MAX_CONCURRENCY)
    }

    /// Releases that are compared at a time: each needs a processor, and has all its objects in memory.
    pub(super) fn compared_at_once(&self) -> usize {
        self.at_once(std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
    }

    fn at_once(&self, unless_given: usize) -> usize {
        let number = if self.concurrency == 0 { unless_given } else { self.concurrency };
        number.min(MAX_CONCURRENCY)
    }
}

/// Where `needs` may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum NeedsScope {
    /// Releases of all files
    #[default]
    All,
    /// Releases of the same file
    File,
}

/// A run on one or more clusters.
pub(super) struct Session<'s> {
    pub(super) globals: &'s Globals,
    pub(super) options: &'s Options,
    pub(super) charts: ReleaseCharts<'s>,
    pub(super) shared: &'s Shared,
    pub(super) command: &'static str,
    states: Vec<State>,
    pub(super) plan: DeployPlan,
    /// Releases that have run `prepare` and not yet `cleanup`.
    uncleaned: Mutex<BTreeSet<usize>>,
    connections: Connections<'s>,
    /// One permit for each render that may run now, whatever the number of releases and clusters.
    renders: Arc<Semaphore>,
    /// Whether a signal asked to stop.
    interrupted: Arc<AtomicBool>,
}

/// Evaluates the states, orders their releases, and works on them within their hooks.
pub(super) fn run(
    globals: &Globals,
    options: &Options,
    shared: &Shared,
    command: &'static str,
    work: impl AsyncFnOnce(&mut Session<'_>) -> Result<ExitCode, Error>,
) -> Result<ExitCode, Error> {
    let (host, store) = (options.host(globals), options.store(globals));
    let query = options.query()?;
    let mut session = Session {
        globals,
        options,
        charts: options.charts(globals, &*host, &store),
        shared,
        command,
        states: visit::states(&*host, &query, &options.cwd())?,
        plan: DeployPlan::default(),
        uncleaned: Mutex::default(),
        connections: Connections::new(globals),
        renders: Arc::new(Semaphore::new(globals.render_bounds().at_once())),
        interrupted: Arc::default(),
    };
    let done = session.prepare(&query).and_then(|()| {
        block_on(async {
            let interrupted = Arc::clone(&session.interrupted);
            let listener = tokio::spawn(async move {
                let Ok(mut ended) = ShutdownSignal::listen() else { return };
                ended.next().await;
                interrupted.store(true, Ordering::Relaxed);
            });
            let done = work(&mut session).await;
            listener.abort();
            done
        })?
    });
    session.end(done)
}

impl Session<'_> {
    /// Runs the `prepare` hooks, chooses the releases and puts them in order.
    fn prepare(&mut self, query: &Query) -> Result<(), Error> {
        let options = PlanOptions {
            command: self.command,
            rule: self.shared.needs.rule(),
            scope: match self.shared.needs_scope {
                NeedsScope::All => Scope::All,
                NeedsScope::File => Scope::File,
            },
            prepares_uninstalled: false,
            most: usize::MAX,
            change: &|release| self.shared.fields.apply(release),
        };
        let done = self.plan.prepare(self.charts.host, &mut self.states, &options);
        self.uncleaned().clone_from(&self.plan.prepared);
        done?;
        if self.plan.releases.is_empty() { Err(commands::no_match(query)) } else { Ok(()) }
    }

    pub(super) fn uncleaned(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.uncleaned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on each release that is to be installed, in order. All are worked on before an error ends the run.
    pub(super) async fn each_installed(
        &mut self,
        work: impl AsyncFn(&Connected, ReleaseId) -> Result<(), Failure>,
    ) -> Result<ExitCode, Error> {
        let mut failed = Vec::new();
        for at in self.plan.steps.clone().into_iter().flatten() {
            let target = self.target(at)?;
            if !target.installed {
                continue;
            }
            let (release, name) = (target.release.clone(), target.name.clone());
            self.check_interrupted()?;
            let done = match self.connection(at).await {
                Ok(connected) => {
                    let id = release_options::release_id(&release, &connected.namespace);
                    work(&connected, id).await
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = done {
                tell(&format!("release {name:?}: {error}"));
                failed.push(name);
            }
        }
        failures(&failed).map(|()| ExitCode::SUCCESS)
    }

    /// Fails if a signal asked to stop.
    pub(super) fn check_interrupted(&self) -> Result<(), Error> {
        match self.interrupted.load(Ordering::Relaxed) {
            true => Err("interrupted: the remaining releases are unchanged".to_owned().into()),
            false => Ok(()),
        }
    }

    /// The cluster of a release.
    pub(super) async fn connection(&mut self, target: usize) -> Result<Arc<Connected>, Error> {
        self.check_interrupted()?;
        let missing = || Error::Command(format!("there is no release {target}"));
        let target = self.plan.releases.get(target).ok_or_else(missing)?;
        let state = self.states.get(target.state).ok_or_else(missing)?;
        self.connections.of(state, &target.release).await
    }

    /// Releases with their clusters.
    pub(super) async fn connected(&mut self, all: &[usize]) -> Result<Vec<(usize, Arc<Connected>)>, Error> {
        let mut out = Vec::with_capacity(all.len());
        for at in all {
            out.push((*at, self.connection(*at).await?));
        }
        Ok(out)
    }

    pub(super) fn target(&self, at: usize) -> Result<&PlannedRelease, Error> {
        self.plan.releases.get(at).ok_or_else(|| Error::Command(format!("there is no release {at}")))
    }

    pub(super) fn state(&self, target: &PlannedRelease) -> Result<&State, Error> {
        self.states.get(target.state).ok_or_else(|| Error::Command("there is no such state".to_owned()))
    }

    /// The release as the engine gets it.
    fn spec(&self, at: usize, connected: &Connected) -> Result<ReleaseSpec, Error> {
        let target = self.target(at)?;
        let state = self.state(target)?;
        let (release, globals) = (&target.release, self.globals);
        let program = self.shared.post_renderer.of(state, release).find(globals)?;
        let files: Vec<String> =
            self.shared.values.iter().map(|path| self.options.given_path(path)).collect();
        let context = SpecContext {
            charts: &self.charts,
            set: &self.shared.set,
            arguments: &self.shared.fields.args,
            files: &files,
            warn: tell,
            default_namespace: &connected.namespace,
            owner: "",
            cause: &connected.cause(&format!("helmfile {}", self.command)),
            record_labels: &BTreeMap::new(),
        };
        let mut spec = release_spec(&context, state, release, program.map(PostRenderer::into_program))?;
        if self.shared.fields.skip_crds {
            spec.options.crds = CrdPolicy::Skip;
        }
        Ok(spec)
    }

    /// The release as the engine gets it, with the deployed revision's values if it reuses them.
    pub(super) async fn spec_of_next_revision(
        &self,
        at: usize,
        connected: &Connected,
    ) -> Result<ReleaseSpec, Error> {
        // Charts are fetched by a runtime of their own.
        let mut spec = block_in_place(|| self.spec(at, connected))?;
        if self.target(at)?.reuses_values {
            let past = connected.engine.history_of(&spec.id).await.map_err(|error| error.to_string())?;
            if let Some(base) = past.upgrade_base() {
                reuse_values(&mut spec, base)?;
            }
        }
        Ok(spec)
    }

    pub(super) fn runner(&self, connected: &Connected) -> ReleaseRunner {
        ReleaseRunner::new(connected.engine.clone(), self.globals.render_bounds(), false)
            .with_renders(Arc::clone(&self.renders))
            .with_documents(Arc::new(Schemas::new(self.globals)))
    }

    /// Works on releases side by side, `at_once` at a time. Results are in the order of the releases.
    pub(super) fn side_by_side<T: Send>(
        &self,
        all: &[(usize, Arc<Connected>)],
        at_once: usize,
        work: impl AsyncFn(usize, &Connected) -> T + Sync,
    ) -> Vec<T> {
        let runtime = Handle::current();
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(all.len())));
        let worker = || loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((at, connected)) = all.get(number) else { break };
            let result = runtime.block_on(work(*at, connected));
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
        };
        block_in_place(|| {
            std::thread::scope(|scope| {
                for _ in 1..at_once.min(all.len()) {
                    // With fewer threads it takes longer.
                    drop(std::thread::Builder::new().spawn_scoped(scope, worker));
                }
                worker();
            });
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, result)| result).collect()
    }

    /// Triggers an event of some releases.
    pub(super) fn each_hook(&self, targets: &[usize], name: &str) -> Result<(), Error> {
        for at in targets {
            let target = self.target(*at)?;
            let event = Event { name, error: None, command: self.command };
            hooks::trigger(self.charts.host, self.state(target)?, Some(&target.release), event)?;
        }
        Ok(())
    }

    /// Runs the `cleanup` hooks that have not run: of releases, then of state files.
    fn end<T>(&self, mut done: Result<T, Error>) -> Result<T, Error> {
        let failure = done.as_ref().err().map(ToString::to_string);
        let event = || Event { name: "cleanup", error: failure.as_deref(), command: self.command };
        let uncleaned = self.uncleaned().clone();
        for target in uncleaned.iter().filter_map(|at| self.plan.releases.get(*at)) {
            if let Some(state) = self.states.get(target.state) {
                let hook = hooks::trigger(self.charts.host, state, Some(&target.release), event());
                done = with_hook(done, hook);
            }
        }
        for state in self.states.iter().take(self.plan.prepared_states) {
            done = with_hook(done, hooks::trigger(self.charts.host, state, None, event()));
        }
        done
    }
}

/// The newest revision of a release that is not uninstalled.
pub(super) async fn newest(connected: &Connected, id: &ReleaseId) -> Result<Option<ReleaseRecord>, Error> {
    let newest = connected.engine.records().newest(id).await.map_err(|error| error.to_string())?;
    Ok(newest.filter(|newest| newest.info.status != ReleaseStatus::Uninstalled))
}

/// An error if there are names of failed releases.
pub(super) fn failures(names: &[String]) -> Result<(), Error> {
    match names {
        [] => Ok(()),
        names => Err(format!("{} release(s) failed: {}", names.len(), names.join(", ")).into()),
    }
}

/// A result with that of a hook that ran after it: an earlier error stays, and the hook's is reported.
pub(super) fn with_hook<T>(done: Result<T, Error>, hook: Result<(), Error>) -> Result<T, Error> {
    match (done, hook) {
        (Ok(_), Err(error)) => Err(error),
        (Err(error), Err(hook)) => {
            tell(&hook.to_string());
            Err(error)
        }
        (done, Ok(())) => done,
    }
}
