//! Settings of modules, put to the programs of their hooks before they are taken.
//!
//! Owns which settings were found good last, and that a warning is reported once. Who waits for a check is its caller's.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use futures::StreamExt as _;
use serde_json::Value;

use super::module_hooks::ModuleHooks;
use super::{Hooks, ModuleRef};
use crate::addon::events;
use crate::shell_hooks::discover::discover;
use crate::shell_hooks::{HookSet, HookSource, Scope, is_native};

/// How many programs are asked for their hooks before their modules run, at a time.
const ASKED_AT_ONCE: usize = 4;
/// How many texts are kept that were reported.
const MAX_NOTED: usize = 1_000;

impl ModuleHooks {
    fn is_approved(&self, settings: &Value) -> bool {
        self.approved.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(settings)
    }
}

impl Hooks {
    /// Whether the loaded hooks of a module check its settings.
    pub(in crate::addon) fn checks_settings(&self, module: &str) -> bool {
        let has = |set: &HookSet| !set.checks().is_empty();
        self.module(module).is_some_and(|known| known.set.get().is_some_and(has))
    }

    /// A fingerprint of the files of a module's hooks, if they are loaded.
    pub(in crate::addon) fn loaded_files(&self, module: &str) -> Option<u64> {
        self.module(module).map(|known| known.print)
    }

    /// Whether a module's programs had no objection to these settings when they were put to them last.
    pub(in crate::addon) fn is_approved(&self, module: &str, settings: &Value) -> bool {
        self.module(module).is_some_and(|known| known.is_approved(settings))
    }

    /// Puts settings to the programs of a module; gives their objection, if they have one.
    ///
    /// # Errors
    /// A check itself fails.
    pub(in crate::addon) async fn check_settings(
        &self,
        module: &str,
        settings: &Value,
    ) -> Result<Option<String>, String> {
        match self.module(module) {
            Some(known) => self.check(&known, settings).await,
            None => Ok(None),
        }
    }

    /// Checks the settings in force, where the hooks of the module are new.
    ///
    /// # Errors
    /// There is an objection, or the check itself fails.
    pub(super) async fn check_current(&self, module: &ModuleHooks) -> Result<(), String> {
        let settings = self.store().values.settings(&module.key);
        match self.check(module, &settings).await? {
            None => Ok(()),
            Some(objection) => Err(format!("ConfigMap: key {}: {objection}", module.key)),
        }
    }

    async fn check(&self, module: &ModuleHooks, settings: &Value) -> Result<Option<String>, String> {
        let Some(set) = module.set.get().filter(|set| !set.checks().is_empty()) else { return Ok(None) };
        if module.is_approved(settings) {
            return Ok(None);
        }
        for check in set.checks() {
            let verdict = check.run(&self.around, settings).await?;
            for text in verdict.warnings {
                self.warn_once(
                    &module.name,
                    &format!("settings: {text} (warning of hook check, {})", check.name()),
                );
            }
            if let Some(objection) = verdict.objection {
                return Ok(Some(format!("{objection} (by hook check, {})", check.name())));
            }
        }
        *module.approved.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings.clone());
        Ok(None)
    }

    /// Reports a warning in the log and as an Event of the ConfigMap, unless it was reported.
    fn warn_once(&self, module: &str, text: &str) {
        let text = format!("module {module}: {text}");
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= MAX_NOTED {
            noted.clear();
        }
        if noted.insert(text.clone()) {
            events::settings_warning(&self.events, &self.config_map, module, text);
        }
    }

    /// Asks the native programs of modules that are about to run for their hooks, several at a time: the modules of higher numbers need
    /// not wait for each in turn. Failures are those of the modules' own runs.
    pub(in crate::addon) fn prefetch_configs(&self, modules: Vec<ModuleRef>) {
        let outdated =
            |module: &ModuleRef| self.module(&module.name).is_none_or(|known| known.print != module.hooks);
        let modules: Vec<ModuleRef> = modules.into_iter().filter(outdated).collect();
        if modules.is_empty() {
            return;
        }
        let (configs, limit) = (Arc::clone(&self.configs), self.limit());
        tokio::spawn(async move {
            let found = tokio::task::spawn_blocking(move || modules.into_iter().flat_map(programs).collect());
            let found: Vec<(ModuleRef, PathBuf)> = found.await.unwrap_or_default();
            let asked = found.into_iter().map(|(module, path)| {
                let configs = Arc::clone(&configs);
                async move {
                    let root = module.path.parent().unwrap_or(&module.path);
                    let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                    let (module, files) = (module.name.as_str(), module.hooks);
                    let source = HookSource { path: &path, name: &name, module, scope: Scope::Module, limit };
                    configs.prefetch(&source, files).await;
                }
            });
            futures::stream::iter(asked).buffer_unordered(ASKED_AT_ONCE).collect::<()>().await;
        });
    }
}

/// The native programs among the hooks of a module.
fn programs(module: ModuleRef) -> impl Iterator<Item = (ModuleRef, PathBuf)> {
    let files = discover(&module.path.join("hooks"), Scope::Module).hooks.into_iter();
    let native = files.filter(|path| path.extension().is_none() && is_native(path));
    native.map(move |path| (module.clone(), path))
}
