//! Settings of modules, put to the programs of their hooks before they are taken.
//!
//! Owns which settings were found good last, and that a warning is reported once. Who waits for a check is its caller's.

use std::sync::PoisonError;

use serde_json::Value;

use super::module_hooks::ModuleHooks;
use super::Hooks;
use crate::addon::events;
use crate::shell_hooks::HookSet;

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
}
