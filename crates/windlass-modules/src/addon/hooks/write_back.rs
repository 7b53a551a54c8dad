//! What hooks write into the operator's ConfigMap.

use std::time::Duration;

use chart_compat::yaml;
use serde_json::{Value, json};

use super::{Change, Hooks};
use crate::addon::config::section;
use crate::addon::values::{ConfigChange, Patched};
use crate::shell_hooks::apply_operations::MANAGER;
use crate::shell_hooks::values_patch::Root;
use windlass_cluster::{ClusterError, ObjectMeta};
use windlass_render::{from_json, to_json};

/// How often a write is tried that others are faster with.
const TRIES: u32 = 10;
/// How long to wait before the next try.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the news of the ConfigMap wait for a write that is under way.
const UNDER_WAY: Duration = Duration::from_secs(5);

/// What a hook wants of the ConfigMap.
pub(super) struct ConfigPatch<'h> {
    /// Whose hook it is; empty for a global one.
    pub(super) module: &'h str,
    pub(super) root: Root<'h>,
    pub(super) patch: &'h [u8],
    /// The config values that the hook was given.
    pub(super) seen: &'h Value,
}

impl Hooks {
    /// Brings a patch of config values into the ConfigMap, on top of what it says now: edits that have not reached us yet
    /// stay. What it changes is in force before it is written: the write comes back to us as a change that changes nothing.
    ///
    /// # Errors
    /// The patch cannot be applied, breaks a schema, changes what someone has edited since the hook read it, or the ConfigMap
    /// cannot be read or written: nothing has changed then.
    pub(super) async fn write_back(&self, hook: &ConfigPatch<'_>, reload: bool) -> Result<Patched, String> {
        let mut tries = 0;
        // The module's settings that its programs have no objection to.
        let mut approved: Option<Value> = None;
        loop {
            let mut version = self.writing.lock().await;
            tries += 1;
            let name = &self.config_map.name;
            let failed = |e: ClusterError| format!("ConfigMap {name}: {e}");
            let live = self.cluster.get(&self.config_map).await.map_err(failed)?;
            let now = |key: &str| now(live.as_ref(), key);
            let change = self.store().values.config_patch(hook.root, hook.patch, hook.seen, now);
            let change = change.map_err(|text| format!("config values: {text}"))?;
            if change.is_empty() {
                return Ok(Patched::default());
            }
            if let Some(settings) = self.unchecked_settings(hook, &change, approved.as_ref()) {
                // A check may take long: other modules write meanwhile.
                drop(version);
                if let Some(objection) = self.check_settings(hook.module, &settings).await? {
                    return Err(format!("config values: {objection}"));
                }
                approved = Some(settings);
                continue;
            }
            let texts = texts(&change)?;
            let mut data = live.as_ref().map_or_else(|| json!({}), |l| l["data"].clone());
            if !data.is_object() {
                data = json!({});
            }
            for (key, text) in &texts {
                match (text, data.as_object_mut()) {
                    (Some(text), Some(data)) => drop(data.insert(key.clone(), text.clone().into())),
                    (None, Some(data)) => drop(data.remove(key)),
                    (_, None) => {}
                }
            }
            let (patched, before) = self.apply_sections_to(&change);
            self.tell(Change {
                module: hook.module.to_owned(),
                flags: patched.flags,
                reload: reload && patched.values,
                ..Change::default()
            });
            let written = self.write_config_map(live, data).await;
            match written {
                Ok(object) => {
                    *version = resource_version(&object).unwrap_or_default();
                    return Ok(patched);
                }
                Err(e) => {
                    self.take_back(before);
                    let faster = e.is_conflict() || e.is_already_exists();
                    if !faster || tries >= TRIES {
                        return Err(failed(e));
                    }
                }
            }
            drop(version);
            tokio::time::sleep(PAUSE * tries).await;
        }
    }

    /// Writes the ConfigMap with these data; where it is there, with the version that was read: the server refuses it where somebody was
    /// faster.
    async fn write_config_map(&self, live: Option<Value>, data: Value) -> Result<Value, ClusterError> {
        let Some(mut live) = live else {
            let metadata = json!({"name": self.config_map.name, "namespace": self.config_map.namespace});
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
            return self.cluster.create(&self.config_map, &body, MANAGER).await;
        };
        live["data"] = data;
        self.cluster.replace(&self.config_map, &live, MANAGER).await
    }

    /// The settings that a change makes of the hook's module, where programs of the module have to check them first.
    fn unchecked_settings(
        &self,
        hook: &ConfigPatch<'_>,
        change: &ConfigChange,
        approved: Option<&Value>,
    ) -> Option<Value> {
        let Root::Module(key) = hook.root else { return None };
        if !self.checks_settings(hook.module) {
            return None;
        }
        let section = change.get(key)?.clone().unwrap_or_else(|| json!({}));
        let settings = {
            let store = self.store();
            let referred = store.values.referred_section(key);
            // It was held against the schema when the change was made.
            store.values.checked_settings(key, &section, &referred).ok()?
        };
        let known = approved == Some(&settings) || self.is_approved(hook.module, &settings);
        (!known).then_some(settings)
    }

    /// Whether hooks have written the ConfigMap since it was as the watch tells: news of that are on their way, and what is
    /// in force already is not taken back for a moment.
    pub(in crate::addon) async fn is_overtaken(&self, object: &Value) -> bool {
        let written =
            tokio::time::timeout(UNDER_WAY, self.writing.lock()).await.map_or(0, |version| *version);
        resource_version(object).is_some_and(|version| version < written)
    }

    /// The watch begins anew: it tells what there is, whatever its version.
    pub(in crate::addon) async fn forget_written(&self) {
        if let Ok(mut version) = tokio::time::timeout(UNDER_WAY, self.writing.lock()).await {
            *version = 0;
        }
    }

    /// Puts a change in force; gives what it changed, and what was there before.
    fn apply_sections_to(&self, change: &ConfigChange) -> (Patched, Before) {
        let mut store = self.store();
        let mut patched = Patched::default();
        let mut before = Before { flags: store.flags.clone(), sections: Vec::new() };
        for (key, value) in change {
            if store.values.section(key).is_some() {
                let old = store.values.config_section(key);
                before.sections.push((key.clone(), old));
                // It was checked when the change was made.
                patched.values |= store.values.set_config(key, value.clone()).unwrap_or_default();
            } else if let Some(module) = key.strip_suffix("Enabled") {
                patched.flags = true;
                match value.as_ref().and_then(on) {
                    Some(flag) => drop(store.flags.insert(module.to_owned(), flag)),
                    None => drop(store.flags.remove(module)),
                }
            }
        }
        (patched, before)
    }

    fn take_back(&self, before: Before) {
        let mut store = self.store();
        store.flags = before.flags;
        for (key, old) in before.sections {
            store.values.set_config(&key, Some(old)).unwrap_or_default();
        }
    }
}

/// What a change that could not be written has overwritten.
struct Before {
    flags: std::collections::BTreeMap<String, bool>,
    sections: Vec<(String, Value)>,
}

/// What a key of the ConfigMap says.
fn now(live: Option<&Value>, key: &str) -> Result<Option<Value>, String> {
    let Some(text) = live.and_then(|l| l["data"][key].as_str()) else { return Ok(None) };
    if key.ends_with("Enabled") {
        return Ok(text.trim().parse().ok().map(Value::Bool));
    }
    let read = section(key, text)
        .map_err(|e| format!("{e}; correct it first: the hook's change was not written"))?;
    Ok(Some(to_json(&read)))
}

/// The version of an object, as a number that grows.
fn resource_version(object: &Value) -> Option<u64> {
    ObjectMeta::of(object).version_number()
}

/// A flag as hooks write it.
fn on(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

type Texts = std::collections::BTreeMap<String, Option<String>>;

/// Keys of the ConfigMap with what they are to be.
fn texts(change: &ConfigChange) -> Result<Texts, String> {
    let text = |(key, value): (&String, &Option<Value>)| {
        let text = match value {
            None => None,
            Some(value) => match on(value).filter(|_| key.ends_with("Enabled")) {
                Some(flag) => Some(flag.to_string()),
                None => Some(yaml::to_string(&from_json(value)).map_err(|e| format!("key {key}: {e}"))?),
            },
        };
        Ok((key.clone(), text))
    };
    change.iter().map(text).collect()
}
