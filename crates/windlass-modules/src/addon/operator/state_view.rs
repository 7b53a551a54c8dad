//! The loop's state as others may see it: for the debug endpoint and the status of modules.

use super::Operator;
use super::converge::Phase;
use crate::addon::debug::{ModuleView, View};
use crate::addon::hooks::ModuleRef;
use crate::shell_hooks::queues::OperatorTasks;
use windlass_cluster::ObjectMeta;
use windlass_controller::Job;
use windlass_engine::ReleaseRequest;

/// addon-operator's word for what comes before new modules.
const ENSURE_CRDS: &str = "ModuleEnsureCRDs";

impl Operator {
    /// All of it at this moment.
    pub(super) fn view(&self) -> View {
        View { tasks: self.tasks(), modules: self.module_views() }
    }

    /// How many things are still to be done for the current converge.
    pub(super) fn pending(&self) -> usize {
        usize::from(!self.config_map.known || self.step().is_some()) + self.workers.queue.owing()
    }

    /// Module and kind of the task that comes first.
    pub(super) fn head(&self) -> Option<(String, &'static str)> {
        match self.step() {
            Some(ENSURE_CRDS) => Some((String::new(), ENSURE_CRDS)),
            Some(_) => Some((String::new(), "GlobalHookRun")),
            None => self.workers.queue.head().map(|(module, job)| (module.to_owned(), kind(job))),
        }
    }

    fn step(&self) -> Option<&'static str> {
        match self.cycle.phase {
            Phase::Starting if !self.config_map.known => Some("reading the ConfigMap"),
            Phase::Waiting => Some("waiting for global values that can be used"),
            Phase::Starting => Some("onStartup"),
            Phase::Before { .. } => Some("beforeAll"),
            Phase::Crds { .. } => Some(ENSURE_CRDS),
            Phase::After { .. } => Some("afterAll"),
            Phase::Modules | Phase::Idle => None,
        }
    }

    fn tasks(&self) -> OperatorTasks {
        let mut tasks = OperatorTasks::default();
        self.step().into_iter().for_each(|step| tasks.add_step(step));
        let mut add = |module: &str, job: Job, running: bool, failures: u32| {
            let state = self.module_states.get(module);
            let cause = match job {
                Job::Reconcile => state.map_or("", |s| s.cause.as_str()),
                Job::CorrectDrift => "objects differ from what is deployed",
                Job::Uninstall => "the module is off",
            };
            let error = state.and_then(|s| s.failure.as_ref()).map_or("", |(_, text)| text.as_str());
            tasks.add_job((kind(job), module, cause), running, failures, error);
        };
        let queue = &self.workers.queue;
        queue.jobs().iter().for_each(|job| add(&job.key, job.job, job.running, job.failures));
        queue.retries().for_each(|(module, job)| add(module, job, false, queue.failures(module)));
        tasks
    }

    fn module_views(&self) -> Vec<ModuleView> {
        let view = |module: &crate::addon::Module| {
            let name = &module.name.name;
            let wanted = self.module_states.get(name);
            let problem = match &module.chart {
                Err(text) => Some(text.clone()),
                Ok(_) => self.files.broken.get(&module.name.key).cloned(),
            };
            let chart = module.chart.clone().ok().flatten();
            ModuleView {
                module: ModuleRef { chart, ..ModuleRef::of(module) },
                order: module.name.order,
                enabled: wanted.is_some_and(|w| w.enabled),
                target: module.target.clone(),
                problem,
                objects: wanted.and_then(|w| w.request.as_deref()).map(objects),
            }
        };
        self.modules.modules.iter().map(view).collect()
    }
}

/// addon-operator's word for a job.
fn kind(job: Job) -> &'static str {
    if job == Job::Uninstall { "ModuleDelete" } else { "ModuleRun" }
}

/// The objects of a release as `namespace/Kind/name`.
fn objects(request: &ReleaseRequest) -> Vec<String> {
    let id = |object: &serde_json::Value| {
        let (meta, kind) = (ObjectMeta::of(object), object["kind"].as_str().unwrap_or_default());
        format!("{}/{kind}/{}", meta.namespace().unwrap_or_default(), meta.name())
    };
    let manifests = request.rendered.manifests.iter().filter(|m| !m.object.is_null());
    manifests.map(|m| id(&m.object)).collect()
}
