//! Taking in module directories that have changed on disk.

use std::collections::BTreeSet;

use super::Operator;
use crate::addon::dependencies;
use crate::addon::events;
use crate::addon::module::Module;
use crate::addon::releases::config_map;
use crate::addon::reload::Found;
use windlass_controller::Job;

impl Operator {
    /// Takes in what is on disk now: modules that are gone are uninstalled, those that have changed run again.
    pub(super) async fn on_files_changed(&mut self, found: Found) {
        let Found { modules, schemas, changed, global } = found;
        if global {
            self.reload_global_hooks().await;
        }
        for text in modules.problems.iter().filter(|t| !self.modules.problems.contains(t)) {
            tracing::error!("{text}");
            self.state.measures.add("modules_discover_errors_total", &[], 1.0);
        }
        let told = |name: &str| self.module(name).and_then(|m| m.broken_files.clone());
        for Module { name, broken_files, .. } in &modules.modules {
            if let Some(text) = broken_files.as_ref().filter(|t| told(&name.name).as_ref() != Some(*t)) {
                tracing::error!(
                    module = name.name,
                    "module files are invalid, the previous ones stay in use: {text}"
                );
                self.state.measures.add("modules_discover_errors_total", &[], 1.0);
            }
        }
        let names: BTreeSet<&str> = modules.modules.iter().map(|m| m.name.name.as_str()).collect();
        let gone: Vec<Module> =
            self.modules.modules.iter().filter(|m| !names.contains(m.name.name.as_str())).cloned().collect();
        // Before the list changes: where a release lives, its module says.
        for module in gone {
            self.remove_module(&module);
        }
        if !changed.is_empty() {
            tracing::info!(modules = ?changed, "module directories have changed");
        }
        for module in modules.modules.iter().filter(|m| changed.contains(&m.name.name)) {
            if schemas.contains_key(&module.name.key) {
                self.files.broken.remove(&module.name.key);
            }
        }
        self.files.changed.extend(changed.iter().cloned());
        self.modules = modules;
        self.update_dependencies();
        self.hooks.store().values.reload(&self.modules, schemas);
        self.cycle.activation = "ModuleFilesChanged";
        let object = self.config_map.object.take();
        self.configure(object.as_ref(), true).await;
        // A hung hook must not block its own replacement.
        for module in self.modules.modules.iter().filter(|m| changed.contains(&m.name.name)) {
            if self.hooks.is_outdated(&module.name.name, module.hooks) {
                self.kill_hooks(&module.name.name);
            }
        }
    }

    /// Kills the running or next hook of a module's job, which fails then: a later job replaces it.
    pub(super) fn kill_hooks(&self, module: &str) {
        if self.workers.runs(module, |job| job != Job::CorrectDrift) {
            self.hooks.leave(module, true);
        }
    }

    /// Takes in which modules wait for which.
    pub(super) fn update_dependencies(&mut self) {
        let (dependencies, problems) = dependencies::of_modules(self.modules.annotated());
        for text in problems {
            tracing::error!("{text}");
        }
        self.workers.queue.set_dependencies(dependencies);
    }

    /// Reports that hooks which were to run at a module's deletion are gone with its directory. addon-operator says nothing of it:
    /// it finds the release at its next start and purges it.
    pub(super) fn report_lost_hooks(&self, module: &str, hooks: &str) {
        let note = format!(
            "module {module}: {hooks} went with its directory and cannot run at its deletion; what they would have cleaned up is \
             left. Switch a module off before you remove its files"
        );
        let object = config_map(&self.options.namespace, &self.options.config_map);
        events::delete_hooks_lost(&self.releases.events, &object, module, note);
    }

    /// A module's directory has vanished.
    fn remove_module(&mut self, module: &Module) {
        let name = &module.name.name;
        let id = self.release_of(name);
        let known = self.module_states.remove(name);
        self.workers.queue.cancel_retry(name);
        self.workers.stop_watching(name);
        self.files.changed.remove(name);
        self.scripts.undecided.remove(name);
        self.kill_hooks(name);
        let lost = self.hooks.delete_hooks(name);
        self.hooks.unload(name);
        self.state.metrics.remove("windlass_module_enabled", &[("module", name)]);
        if known.is_some_and(|w| w.enabled) {
            tracing::info!(module = name, "the module directory was removed: uninstalling its release");
            if !lost.is_empty() {
                self.report_lost_hooks(name, &format!("the hooks {}", lost.join(", ")));
            }
            let plain = id.namespace == self.options.namespace;
            let job = if plain { name.clone() } else { id.to_string() };
            self.workers.queue.request(&job, u32::MAX, Job::Uninstall);
        }
    }
}
