//! What hooks write into the operator's ConfigMap.

use std::time::Duration;

use chart_compat::yaml;
use serde_json::{Value, json};

use super::{Change, Hooks};
use crate::addon::values::{ConfigChange, Patched, Root};
use crate::hooks::carry_out::MANAGER;
use crate::render::from_json;

/// How often a write is tried that others are faster with.
const TRIES: u32 = 10;
/// How long a change of the ConfigMap may take to reach us.
const PAUSE: Duration = Duration::from_millis(200);

impl Hooks {
    /// Brings a patch of config values into the ConfigMap. What it changes is in force before it is written: the write
    /// comes back to us as a change that changes nothing.
    ///
    /// # Errors
    /// The patch cannot be applied, breaks a schema, or the ConfigMap cannot be written: nothing has changed then.
    pub(super) async fn write_back(
        &self,
        module: &str,
        root: Root<'_>,
        patch: &[u8],
        reload: bool,
    ) -> Result<Patched, String> {
        let _alone = self.writing.lock().await;
        let mut tries = 0;
        loop {
            tries += 1;
            let failed = |e: crate::cluster::ClusterError| format!("ConfigMap {}: {e}", self.config_map.name);
            let live = self.cluster.get(&self.config_map).await.map_err(failed)?;
            let change = {
                let store = self.store();
                store.values.config_patch(root, &store.flags, patch)?
            };
            if change.is_empty() {
                return Ok(Patched::default());
            }
            let texts = texts(&change)?;
            let now = |key: &str| live.as_ref().and_then(|l| l["data"][key].as_str());
            let behind = {
                let store = self.store();
                texts.keys().any(|key| now(key) != store.data.get(key).map(String::as_str))
            };
            if behind && tries < TRIES {
                // Someone has just edited the same key: their change comes first.
                tokio::time::sleep(PAUSE).await;
                continue;
            }
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
            let (patched, before) = self.take_in(&change, &texts);
            self.tell(Change {
                module: module.to_owned(),
                flags: patched.flags,
                reload: reload && patched.values,
            });
            let written = match live {
                Some(mut live) => {
                    live["data"] = data;
                    self.cluster.replace(&self.config_map, &live, MANAGER).await
                }
                None => {
                    let metadata =
                        json!({"name": self.config_map.name, "namespace": self.config_map.namespace});
                    let body =
                        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
                    self.cluster.create(&self.config_map, &body, MANAGER).await
                }
            };
            match written {
                Ok(_) => return Ok(patched),
                Err(e) => {
                    self.take_back(before);
                    let faster = e.is_conflict() || e.is_already_exists();
                    if !faster || tries >= TRIES {
                        return Err(failed(e));
                    }
                }
            }
        }
    }

    /// Puts a change in force; gives what it changed, and what was there before.
    fn take_in(&self, change: &ConfigChange, texts: &Texts) -> (Patched, Before) {
        let mut store = self.store();
        let mut patched = Patched::default();
        let before = Before { flags: store.flags.clone(), data: store.data.clone(), sections: Vec::new() };
        let mut before = before;
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
        for (key, text) in texts {
            match text {
                Some(text) => drop(store.data.insert(key.clone(), text.clone())),
                None => drop(store.data.remove(key)),
            }
        }
        (patched, before)
    }

    fn take_back(&self, before: Before) {
        let mut store = self.store();
        store.flags = before.flags;
        store.data = before.data;
        for (key, old) in before.sections {
            store.values.set_config(&key, Some(old)).unwrap_or_default();
        }
    }
}

/// What a change that could not be written has overwritten.
struct Before {
    flags: std::collections::BTreeMap<String, bool>,
    data: std::collections::BTreeMap<String, String>,
    sections: Vec<(String, Value)>,
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
