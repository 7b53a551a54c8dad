//! Sections of the ConfigMap that programs of a module's hooks check before they are taken.
//!
//! Owns the settings that are not in force: a check of them is under way, or there is an objection. The loop does not wait: until a
//! check has ended, the last good section stays in force.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinError, JoinSet};

use super::Operator;
use crate::addon::module_name::ModuleName;
use windlass_base::backoff;
use windlass_base::redact;

/// What becomes of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SectionVerdict {
    /// It is taken, as far as programs are concerned.
    Take,
    /// A check is under way.
    Pending,
    /// It is not taken, and why.
    Refuse(String),
}

/// A check that has ended: the section's key, what was checked, and the result.
pub(super) struct EndedCheck {
    key: String,
    settings: Value,
    result: Result<Option<String>, String>,
}

/// Settings of one section that are not in force.
struct PendingSettings {
    settings: Value,
    /// Why they are not taken; `None`: nothing is known yet.
    refusal: Option<String>,
    /// How often the check itself has failed.
    failures: u32,
    /// A fingerprint of the hooks that were asked.
    files: Option<u64>,
    task: AbortHandle,
}

/// All sections that are not in force because of a check.
#[derive(Default)]
pub(super) struct SettingsChecks {
    pending: BTreeMap<String, PendingSettings>,
    pub(super) tasks: JoinSet<EndedCheck>,
}

impl SettingsChecks {
    /// Forgets the pending settings of a section.
    pub(super) fn forget(&mut self, key: &str) {
        if let Some(known) = self.pending.remove(key) {
            known.task.abort();
        }
    }
}

impl Operator {
    /// What becomes of a module's section with what it refers to. Starts a check where there is none of these settings.
    pub(super) fn section_verdict(
        &mut self,
        name: &ModuleName,
        section: Option<&Value>,
        referred: &Value,
    ) -> SectionVerdict {
        let key = name.key.as_str();
        let section = section.cloned().unwrap_or_else(|| json!({}));
        let (checked, in_force) = {
            let store = self.hooks.store();
            let checked = store.values.checked_settings(key, &section, referred);
            (checked, store.values.settings(key))
        };
        let settings = match checked {
            Ok(settings) if self.hooks.checks_settings(&name.name) => settings,
            // Without a program that checks; or the schema objects, and says so where the section is taken.
            _ => {
                self.settings_checks.forget(key);
                return SectionVerdict::Take;
            }
        };
        if settings == in_force || self.hooks.is_approved(&name.name, &settings) {
            self.settings_checks.forget(key);
            return SectionVerdict::Take;
        }
        match self.settings_checks.pending.get(key).filter(|known| known.settings == settings) {
            Some(PendingSettings { refusal: Some(text), .. }) => SectionVerdict::Refuse(text.clone()),
            Some(_) => SectionVerdict::Pending,
            None => {
                self.settings_checks.forget(key);
                self.start_check(name, settings, 0);
                SectionVerdict::Pending
            }
        }
    }

    fn start_check(&mut self, name: &ModuleName, settings: Value, failures: u32) {
        let hooks = Arc::clone(&self.hooks);
        let (module, key, checked) = (name.name.clone(), name.key.clone(), settings.clone());
        let pause = if failures == 0 { Duration::ZERO } else { backoff::delay(failures) };
        let refusal = self.settings_checks.pending.remove(&name.key).and_then(|known| known.refusal);
        let task = self.settings_checks.tasks.spawn(redact::own(async move {
            tokio::time::sleep(pause).await;
            let result = hooks.check_settings(&module, &checked).await;
            EndedCheck { key, settings: checked, result }
        }));
        // A refusal stays until the next try has another result.
        let files = self.hooks.loaded_files(&name.name);
        let pending =
            PendingSettings { settings, refusal: refusal.filter(|_| failures > 0), failures, files, task };
        self.settings_checks.pending.insert(name.key.clone(), pending);
    }

    /// Checks refused settings of a module again where other hooks of it have been loaded since.
    pub(super) fn recheck_settings(&mut self, module: &str) {
        let Some(name) = self.module(module).map(|m| m.name.clone()) else { return };
        let Some(known) = self.settings_checks.pending.get(&name.key) else { return };
        if known.files != self.hooks.loaded_files(module) {
            known.task.abort();
            let settings = known.settings.clone();
            self.start_check(&name, settings, 0);
        }
    }

    /// Takes in the result of a check. One that was cancelled has none; one that panicked has failed.
    pub(super) async fn on_check_joined(&mut self, joined: Result<EndedCheck, JoinError>) {
        let ended = joined.or_else(|error| {
            let mut pending = self.settings_checks.pending.iter();
            let of_task = |(_, pending): &(&String, &PendingSettings)| pending.task.id() == error.id();
            let (key, pending) = pending.find(of_task).filter(|_| error.is_panic()).ok_or(())?;
            let result = Err(format!("the check ended early: {error}"));
            Ok::<_, ()>(EndedCheck { key: key.clone(), settings: pending.settings.clone(), result })
        });
        if let Ok(ended) = ended {
            self.on_settings_checked(ended).await;
        }
    }

    /// Takes in the result of a check, and the ConfigMap with it.
    async fn on_settings_checked(&mut self, ended: EndedCheck) {
        let EndedCheck { key, settings, result } = ended;
        let Some(known) = self.settings_checks.pending.get_mut(&key).filter(|k| k.settings == settings)
        else {
            return;
        };
        let failed = result.is_err();
        match result {
            Ok(None) => drop(self.settings_checks.pending.remove(&key)),
            Ok(Some(objection)) => known.refusal = Some(objection),
            Err(text) => {
                known.failures += 1;
                let failures = known.failures;
                known.refusal =
                    Some(format!("the settings cannot be checked: {text}; the check is repeated"));
                let names = self.modules.names();
                if let Some(name) = names.iter().find(|name| name.key == key) {
                    self.start_check(name, settings.clone(), failures);
                }
            }
        }
        tracing::debug!(key, failed, "settings are checked");
        let object = self.config_map.object.take();
        self.configure(object.as_ref(), false).await;
    }
}
