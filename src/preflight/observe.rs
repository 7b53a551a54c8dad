//! The changes that an operator would make if it started now. Writes nothing, so it can run next to an addon-operator.
//!
//! Owns one pass over all modules. Runs hooks only with `--config`, and no `enabled` scripts: a module with hooks gets the values
//! of its deployed release, and a module with a script counts as enabled if its release exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use chart_compat::data::Data;
use serde::Serialize;
use serde_json::json;

use super::object_findings::planner;
use windlass_cluster::{Cluster, ClusterError};
use windlass_controller::dependencies::Dependencies;
use windlass_controller::{
    ContextOptions, EventRecorder, ReconcileError as Error, contains as covers, resolve_values,
};
use windlass_engine::record::ReleaseStatus;
use windlass_engine::{Preview, ReleaseId};
use windlass_modules::addon::Options;
use windlass_modules::addon::config::{Config, Problem};
use windlass_modules::addon::dependencies;
use windlass_modules::addon::enabled_flags::{Enabling, Flags};
use windlass_modules::addon::hooks::{global_directory, limit};
use windlass_modules::addon::module::{Module, Modules};
use windlass_modules::addon::releases::{Releases, config_map};
use windlass_modules::addon::values::{GLOBAL, Values};
use windlass_modules::shell_hooks::webhooks::{self, PlannedRegistration};
use windlass_modules::shell_hooks::{Hook, HookSet, Scope};
use windlass_render::from_json;

/// The observation of one module.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// The module's name.
    pub module: String,
    #[serde(flatten)]
    pub finding: Finding,
    /// Other planned writes: CRDs of a module without a chart, webhooks of its hooks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub besides: Vec<String>,
    /// Parts that could not be checked, and other remarks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The planned change of a module.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "finding", content = "detail")]
pub enum Finding {
    /// It is disabled, and has no release.
    Off,
    /// It has no chart, only hooks.
    HooksOnly,
    /// Its release is up to date.
    Unchanged,
    /// The changes of a new revision.
    Change(Box<Preview>),
    /// It is disabled or was removed, and its release would be uninstalled.
    Uninstall,
    /// The check failed.
    Failed(String),
}

impl Observation {
    fn new(module: &str, finding: Finding, notes: Vec<String>) -> Self {
        Self { module: module.to_owned(), finding, besides: Vec::new(), notes }
    }

    /// Whether an operator would change something for the module, or fail.
    #[must_use]
    pub fn differs(&self) -> bool {
        !self.besides.is_empty()
            || matches!(self.finding, Finding::Change(_) | Finding::Uninstall | Finding::Failed(_))
    }
}

/// Checks all modules. Also returns the problems of the ConfigMap and of the directories.
///
/// # Errors
/// The cluster cannot be reached, or a required read is forbidden.
pub async fn observe(
    cluster: Cluster,
    context: &ContextOptions,
    options: &Options,
) -> Result<(Vec<Observation>, Vec<String>), ClusterError> {
    let (roots, order, profile) =
        (options.directories.modules.clone(), options.directories.unnumbered_order, options.releases.profile);
    let found = tokio::task::spawn_blocking(move || Modules::discover(&roots, order, profile)).await;
    let modules = found.map_err(|e| ClusterError::Other(format!("reading the modules failed: {e}")))?;
    if let Some(text) = modules.unread() {
        return Err(ClusterError::Other(text));
    }
    let (mut values, broken) = Values::new(&modules, options.directories.global_hooks.as_deref());
    let mut problems: Vec<String> = modules.problems.iter().chain(broken.values()).cloned().collect();
    let runner = planner(&cluster, context);
    let releases = Releases::new(runner, EventRecorder::new(cluster.clone()), options);
    let target = config_map(&options.namespace, &options.config_map);
    let config = cluster.get(&target).await?;
    let mut config = Config::of_object(config.as_ref(), &modules.names());
    apply_sections_to(&cluster, options, &modules, &mut values, &mut config).await;
    problems.extend(config.problems.iter().map(|p| p.text.clone()));
    let hooked = options.directories.global_hooks.is_some();
    let mut observations = Vec::new();
    let failed = |e: Error| match e {
        Error::Cluster(e) => e,
        other => ClusterError::Other(other.to_string()),
    };
    let (ours, inherited) = (
        releases.owned_releases().await.map_err(failed)?,
        releases.inherited_releases().await.map_err(failed)?,
    );
    let observer = Observer {
        releases: &releases,
        values: &values,
        modules: &modules,
        config: &config,
        broken: &broken,
        enabling: &options.enabling,
        dependencies: &dependencies::of_modules(modules.annotated()).0,
        hooked,
    };
    for module in &modules.modules {
        observations.push(observer.one(module).await);
    }
    let limit = limit(options.hooks.timeout, options.hooks.unblock_after);
    let mut bound = Bound { limit, ..Bound::default() };
    for (module, observation) in modules.modules.iter().zip(&mut observations) {
        bound.module(module, observation).await;
    }
    if let Some(directory) = &options.directories.global_hooks
        && let Err(text) = bound.load("", &global_directory(directory), "", Scope::Global).await
    {
        problems.push(text);
    }
    let Bound { hooks, unknown, .. } = bound;
    let found = webhooks::preview_registration(
        &cluster,
        &options.namespace,
        &options.hooks.webhooks,
        &hooks,
        &unknown,
    )
    .await?;
    add_registration_findings(found, &mut observations);
    let known = |id: &&ReleaseId| modules.modules.iter().any(|m| m.name.name == id.name);
    for id in ours.iter().filter(|id| !known(id)) {
        let notes = vec![NO_MODULE.to_owned()];
        match observations.iter_mut().find(|o| o.module == id.name) {
            Some(observation) => observation.finding = Finding::Uninstall,
            None => observations.push(Observation::new(&id.name, Finding::Uninstall, notes)),
        }
    }
    for id in inherited.difference(&ours).filter(|id| !known(id)) {
        let notes =
            vec!["addon-operator created this release; it belongs to no module and is left alone".to_owned()];
        observations.push(Observation::new(&id.name, Finding::Off, notes));
    }
    Ok((observations, problems))
}

/// The note on an owner of webhooks that has no module.
const NO_MODULE: &str = "there is no such module any more";
/// The name of the global hooks in a list of modules.
const GLOBAL_HOOKS: &str = "global hooks";

/// Hooks with a readable configuration, by owner.
#[derive(Default)]
struct Bound {
    /// Time limit of one `--config`.
    limit: std::time::Duration,
    hooks: BTreeMap<String, Vec<Arc<Hook>>>,
    /// Owners for which it is unknown whether they are enabled, or which bindings their hooks have.
    unknown: BTreeSet<String>,
}

impl Bound {
    async fn module(&mut self, module: &Module, observation: &mut Observation) {
        match &observation.finding {
            Finding::Off | Finding::Uninstall => {}
            Finding::Failed(_) => drop(self.unknown.insert(module.name.name.clone())),
            Finding::HooksOnly | Finding::Unchanged | Finding::Change(_) => {
                let directory = module.path.file_name().unwrap_or_default().to_string_lossy();
                let prefix = format!("{directory}/hooks/");
                let below = module.path.join("hooks");
                if let Err(text) = self.load(&module.name.name, &below, &prefix, Scope::Module).await {
                    observation.finding = Finding::Failed(text);
                }
            }
        }
    }

    async fn load(
        &mut self,
        owner: &str,
        directory: &Path,
        prefix: &str,
        scope: Scope,
    ) -> Result<(), String> {
        match HookSet::load(directory, owner, prefix, scope, self.limit).await {
            Ok((set, _)) => drop(self.hooks.insert(owner.to_owned(), set.hooks().to_vec())),
            Err(e) => {
                self.unknown.insert(owner.to_owned());
                return Err(e.to_string());
            }
        }
        Ok(())
    }
}

/// Adds the planned writes for webhooks to the modules of their hooks.
fn add_registration_findings(found: Vec<PlannedRegistration>, observations: &mut Vec<Observation>) {
    for PlannedRegistration { owner, text } in found {
        let name = if owner.is_empty() { GLOBAL_HOOKS } else { &owner };
        match observations.iter_mut().find(|o| o.module == name) {
            Some(observation) => observation.besides.push(text),
            None => {
                let (finding, notes) = match owner.as_str() {
                    "" => (Finding::HooksOnly, Vec::new()),
                    _ => (Finding::Off, vec![NO_MODULE.to_owned()]),
                };
                let mut observation = Observation::new(name, finding, notes);
                observation.besides.push(text);
                observations.push(observation);
            }
        }
    }
}

/// Merges the ConfigMap's sections over the values of files.
async fn apply_sections_to(
    cluster: &Cluster,
    options: &Options,
    modules: &Modules,
    values: &mut Values,
    config: &mut Config,
) {
    let read = resolve_values(cluster, &options.namespace, &config.references).await;
    let failed: BTreeSet<String> =
        read.lists.iter().filter(|(_, list)| list.is_err()).map(|(key, _)| key.clone()).collect();
    let referred = config.take_referred(read.lists);
    let names: Vec<String> = modules.modules.iter().map(|m| m.name.key.clone()).collect();
    for key in std::iter::once(GLOBAL.to_owned()).chain(names).filter(|key| !failed.contains(key)) {
        let from = referred.get(&key).cloned().unwrap_or_else(|| json!({}));
        if let Err(text) = values.set_referring(&key, config.section(&key), from) {
            let text = format!("key {key}: {text}");
            config.problems.push(Problem { key: key.clone(), module: Some(key), text });
        }
    }
}

/// The context of an observation.
struct Observer<'a> {
    releases: &'a Releases,
    values: &'a Values,
    modules: &'a Modules,
    config: &'a Config,
    broken: &'a BTreeMap<String, String>,
    enabling: &'a Enabling,
    /// The dependencies between modules.
    dependencies: &'a Dependencies,
    /// Whether there are global hooks.
    hooked: bool,
}

impl Observer<'_> {
    async fn one(&self, module: &Module) -> Observation {
        let mut notes = Vec::new();
        let failed = |e: Error| Finding::Failed(e.to_string());
        let finding = self.look(module, &mut notes).await.unwrap_or_else(failed);
        let mut observation = Observation::new(&module.name.name, finding, notes);
        if matches!(observation.finding, Finding::HooksOnly) {
            let foreseen = async { self.releases.at(&module.target)?.preview_crds(&module.crds).await };
            match foreseen.await {
                Ok(besides) => observation.besides = besides,
                Err(e) => observation.finding = failed(e),
            }
        }
        observation
    }

    /// The first direct or indirect dependency of a module that is certainly disabled.
    fn off_before(&self, name: &str) -> Option<&str> {
        self.dependencies.get(name).into_iter().flatten().find_map(|other| {
            let module = self.modules.modules.iter().find(|m| m.name.name == *other)?;
            let config = &self.config.enabled;
            let flags = Flags { roots: &self.modules.values, own: module.flag, hooks: None, config };
            let unknown = self.hooked && !config.contains_key(&module.name.key)
                || self.config.problems.iter().any(|p| p.key == module.name.enabled_key());
            let off = !unknown && !self.enabling.is_on(&module.name, &flags);
            if off { Some(other.as_str()) } else { self.off_before(other) }
        })
    }

    async fn look(&self, module: &Module, notes: &mut Vec<String>) -> Result<Finding, Error> {
        let Self { releases, values, modules, config, broken, enabling, hooked, .. } = *self;
        let name = &module.name;
        let own = releases.at(&module.target)?;
        let newest = own.engine().records().newest(&ReleaseId::new(&own.namespace, &name.name)).await?;
        let newest = newest.filter(|r| r.info.status != ReleaseStatus::Uninstalled);
        if let Some(problem) = config.problems.iter().find(|p| p.key == name.enabled_key()) {
            return Err(Error::Config(format!("ConfigMap: {}", problem.text)));
        }
        let flags = Flags { roots: &modules.values, own: module.flag, hooks: None, config: &config.enabled };
        let mut on = enabling.is_on(name, &flags);
        if hooked && !on && newest.is_some() && !config.enabled.contains_key(&name.key) {
            notes.push("it is taken for switched on by a global hook, as its release exists".to_owned());
            on = true;
        }
        if on && enabling.asks_scripts() && module.path.join("enabled").is_file() {
            notes.push("its enabled script was not run: it is on if its release exists".to_owned());
            on = newest.is_some();
        }
        if let Some(other) = self.off_before(&name.name).filter(|_| on) {
            notes.push(format!("module {other} is off, and it depends on that one"));
            on = false;
        }
        if !on {
            return Ok(if newest.is_some() { Finding::Uninstall } else { Finding::Off });
        }
        if let Some(text) = broken.get(&name.key) {
            return Err(Error::Chart(text.clone()));
        }
        if let Some(problem) = config.problems.iter().find(|p| p.concerns(&name.key) || p.concerns(GLOBAL)) {
            return Err(Error::Config(format!("ConfigMap: {}", problem.text)));
        }
        let Some(chart) = module.chart.clone().map_err(Error::Chart)? else { return Ok(Finding::HooksOnly) };
        let recorded = newest.as_ref().map(|r| &r.config).filter(|c| c.is_object());
        let values = match recorded {
            Some(recorded) if hooked || module.path.join("hooks").is_dir() => {
                let computed = values.seen(&name.key);
                // Hooks usually add values and rarely remove them.
                if !covers(recorded, &computed) {
                    let text = "its values are those of its release, with what hooks made of them; values files and \
                            ConfigMap say otherwise by now";
                    notes.push(text.to_owned());
                }
                match from_json(recorded) {
                    Data::Map(map) => map,
                    _ => {
                        return Err(Error::Values(
                            "its release was made with values that are not a map".to_owned(),
                        ));
                    }
                }
            }
            _ => values.for_chart(&name.key).map_err(Error::Values)?,
        };
        let request = own.preview(&name.name, (chart, &module.crds), values.into()).await?;
        let preview = own.engine().plan(&request).await?;
        Ok(if preview.keeps() { Finding::Unchanged } else { Finding::Change(Box::new(preview)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hooks_add_is_no_difference() {
        let computed = json!({"global": {}, "web": {"a": 1, "b": {"c": [1]}}});
        assert!(covers(&json!({"global": {"x": 1}, "web": {"a": 1, "b": {"c": [1], "d": 2}}}), &computed));
        assert!(!covers(&json!({"global": {}, "web": {"a": 2, "b": {"c": [1]}}}), &computed));
        assert!(!covers(&json!({"global": {}}), &computed));
    }
}
