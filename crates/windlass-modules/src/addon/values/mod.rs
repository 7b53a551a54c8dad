//! Values of the global section and of each module: every layer that makes them, and what hooks patch.
//!
//! Owns what a value is at any moment; refuses to know where ConfigMaps live, how hooks run and what charts do with values.
//! The layers are addon-operator's (`values_storage.go`): files, defaults of the schema of config values, the ConfigMap's
//! section, defaults of the schema of values, patches. Nothing that breaks a schema gets in: the section before stays.

use std::collections::BTreeMap;
use std::path::Path;

use chart_compat::data::{Data, Map};
use serde_json::{Map as Object, Value, json};

use super::module::{Module, Modules};
use super::module_name::ModuleName;
use crate::openapi::{Schemas, as_map};
use crate::shell_hooks::values_patch::{Patch, Root};
use windlass_base::redact;
use windlass_render::to_json;

/// The key of the section that all modules see.
pub const GLOBAL: &str = "global";

/// How deep maps are merged.
pub(super) const MAX_DEPTH: usize = 32;

/// The layers of one section.
#[derive(Default)]
struct Section {
    /// From the files of roots and module.
    fixed: Value,
    /// From what the ConfigMap refers to.
    referred: Value,
    /// From the ConfigMap, alone.
    config: Value,
    /// From hooks, for as long as the operator runs.
    patch: Patch,
    schemas: Schemas,
    /// The merged values.
    result: Value,
}

/// What a patch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patched {
    /// The values of the hook's section have changed.
    pub values: bool,
    /// A flag that enables or disables a module has changed.
    pub flags: bool,
}

/// A hook's change of the ConfigMap: keys with their new values, `None` for a key to delete.
pub type ConfigChange = BTreeMap<String, Option<Value>>;

/// All sections.
pub struct Values {
    sections: BTreeMap<String, Section>,
    /// `…Enabled` flags that global hooks have set.
    flags: Object<String, Value>,
    flag_patch: Patch,
}

impl Values {
    /// Takes the files of modules and of their roots, and the schemas below `openapi` of each module and of `global`, the
    /// directory of global hooks. Gives what could not be used too, each text with its file, by module key.
    pub fn new(modules: &Modules, global: Option<&Path>) -> (Self, BTreeMap<String, String>) {
        let mut problems = BTreeMap::new();
        let mut sections = BTreeMap::new();
        let mut add = |key: &str, fixed: Value, directory: Option<&Path>| {
            let schemas =
                directory.map_or_else(|| Ok(Schemas::default()), |d| Schemas::read(&d.join("openapi")));
            let schemas = schemas.unwrap_or_else(|text| {
                problems.insert(key.to_owned(), text);
                Schemas::default()
            });
            let empty = || json!({});
            let mut section =
                Section { fixed, referred: empty(), config: empty(), schemas, ..Section::default() };
            let result = section.merged(&section.config, &section.patch, key).unwrap_or_default();
            section.take(result);
            sections.insert(key.to_owned(), section);
        };
        add(GLOBAL, of_roots(modules, GLOBAL), global);
        for module in &modules.modules {
            add(&module.name.key, fixed_of(modules, module), Some(&module.path));
        }
        (Self { sections, flags: Object::new(), flag_patch: Patch::default() }, problems)
    }

    /// Takes modules as they are on disk now, with the schemas of those that are new or have changed. The ConfigMap's sections
    /// of new ones are to be set; patches of hooks stay; returns whether the global values have changed.
    pub(crate) fn reload(&mut self, modules: &Modules, mut schemas: BTreeMap<String, Schemas>) -> bool {
        let mut fixed = BTreeMap::from([(GLOBAL.to_owned(), of_roots(modules, GLOBAL))]);
        fixed.extend(modules.modules.iter().map(|m| (m.name.key.clone(), fixed_of(modules, m))));
        self.sections.retain(|key, _| fixed.contains_key(key));
        let mut global = false;
        for (key, fixed) in fixed {
            let section = self
                .sections
                .entry(key.clone())
                .or_insert_with(|| Section { config: json!({}), ..Section::default() });
            section.fixed = fixed;
            if let Some(schemas) = schemas.remove(&key) {
                section.schemas = schemas;
            }
            // A patch that leads nowhere any more leaves the values as they were until its hook runs again.
            if let Ok(result) = section.merged(&section.config, &section.patch, &key) {
                global |= section.take(result) && key == GLOBAL;
            }
        }
        global
    }

    /// Sets a section of the ConfigMap; returns whether the values have changed.
    ///
    /// # Errors
    /// The section violates its schema; the previous one stays.
    pub fn set_config(&mut self, key: &str, config: Option<Value>) -> Result<bool, String> {
        let Some(section) = self.sections.get_mut(key) else { return Ok(false) };
        let config = config.unwrap_or_else(|| json!({}));
        section.note_secrets(&config);
        section.check_config(key, &config)?;
        let result = section.merged(&config, &section.patch, key).map_err(|e| {
            format!(
                "values set by hooks do not fit: {e}; give them the structure of the module's values.yaml"
            )
        })?;
        section.config = config;
        Ok(section.take(result))
    }

    /// Takes a section of the ConfigMap together with what it refers to, which comes below it; as [`Self::set_config`].
    ///
    /// # Errors
    /// The two together violate the schema; the previous ones stay.
    pub fn set_referring(
        &mut self,
        key: &str,
        config: Option<Value>,
        referred: Value,
    ) -> Result<bool, String> {
        let Some(section) = self.sections.get_mut(key) else { return Ok(false) };
        redact::add_all(&referred);
        let before = std::mem::replace(&mut section.referred, referred);
        let set = self.set_config(key, config);
        if set.is_err()
            && let Some(section) = self.sections.get_mut(key)
        {
            section.referred = before;
        }
        set
    }

    /// The settings that a section of the ConfigMap makes with what it refers to, over the defaults of its schema; nothing is taken.
    ///
    /// # Errors
    /// They violate the schema.
    pub fn checked_settings(&self, key: &str, config: &Value, referred: &Value) -> Result<Value, String> {
        let Some(section) = self.sections.get(key) else { return Ok(config.clone()) };
        redact::add_all(referred);
        section.note_secrets(config);
        section.check_referring(key, config, referred)?;
        Ok(section.settings(config, referred))
    }

    /// The settings in force.
    pub fn settings(&self, key: &str) -> Value {
        self.sections.get(key).map_or_else(|| json!({}), |s| s.settings(&s.config, &s.referred))
    }

    /// The referenced part of [`Self::seen`], which may be secret.
    pub fn referred(&self, key: &str) -> Value {
        self.of(key, |s| &s.referred)
    }

    /// What a section of the ConfigMap refers to, which may be secret.
    pub fn referred_section(&self, key: &str) -> Value {
        self.sections.get(key).map_or_else(|| json!({}), |s| s.referred.clone())
    }

    /// The values of a section.
    pub fn section(&self, key: &str) -> Option<&Value> {
        self.sections.get(key).map(|s| &s.result)
    }

    /// What the ConfigMap says of a section.
    pub fn config_section(&self, key: &str) -> Value {
        self.sections.get(key).map_or_else(|| json!({}), |s| s.config.clone())
    }

    /// All that a module's chart and hooks see: `global` and its own section.
    pub fn seen(&self, key: &str) -> Value {
        self.of(key, |s| &s.result)
    }

    /// Values as hooks and scripts read them: `global`, with the modules that are on, and the module's own section.
    pub fn for_hook(&self, key: &str, enabled: &[String]) -> Value {
        let mut values = self.seen(key);
        if let Some(Value::Object(global)) = values.get_mut(GLOBAL) {
            global.insert("enabledModules".to_owned(), json!(enabled));
        }
        values
    }

    /// What the ConfigMap alone says, as hooks and scripts read it.
    pub fn config_for_hook(&self, key: &str) -> Value {
        self.of(key, |s| &s.config)
    }

    fn of(&self, key: &str, layer: impl Fn(&Section) -> &Value) -> Value {
        let keys = [GLOBAL, key];
        let found =
            keys.iter().filter_map(|key| Some(((*key).to_owned(), layer(self.sections.get(*key)?).clone())));
        Value::Object(found.collect())
    }

    /// Values that a module's chart is rendered with.
    ///
    /// # Errors
    /// They break the schema, or lack what it says that charts cannot do without.
    pub fn for_chart(&self, key: &str) -> Result<Map, String> {
        for key in [GLOBAL, key] {
            if let Some(section) = self.sections.get(key)
                && let Some(schema) = section.schemas.helm.as_ref().or(section.schemas.config.as_ref())
            {
                schema.check(key, &section.result, None)?;
            }
        }
        Ok(self.unchecked(key))
    }

    /// The same, whatever the schema says.
    pub fn unchecked(&self, key: &str) -> Map {
        as_map(&self.seen(key))
    }

    /// Applies what a hook wrote to `VALUES_JSON_PATCH_PATH`; it holds until the operator ends or the module is off.
    ///
    /// # Errors
    /// The patch may not do what it does, leads nowhere, or the values break their schema; nothing is changed then.
    pub fn patch(&mut self, root: Root<'_>, bytes: &[u8]) -> Result<Patched, String> {
        let patch = Patch::read(bytes, root).map_err(|e| format!("VALUES_JSON_PATCH_PATH: {e}"))?;
        let mut patched = Patched::default();
        if patch.is_empty() {
            return Ok(patched);
        }
        let mut flags = Value::Object(self.flags.clone());
        let mut flag_patch = Patch::default();
        let mut own = None;
        for key in patch.roots() {
            let part = patch.below(&key);
            match self.sections.get(&key) {
                Some(section) => own = Some((section.patched(&key, &part)?, part, key)),
                None => {
                    part.apply(&mut flags, false)?;
                    flag_patch.add(&part);
                }
            }
        }
        let Value::Object(flags) = flags else { return Ok(patched) };
        if let Some((key, value)) = flags.iter().find(|(_, value)| flag(value).is_none()) {
            return Err(not_a_flag(key, value));
        }
        if let Some((result, part, key)) = own
            && let Some(section) = self.sections.get_mut(&key)
        {
            section.patch.add(&part);
            patched.values = section.take(result);
        }
        self.flag_patch.add(&flag_patch);
        patched.flags = self.flags != flags;
        self.flags = flags;
        Ok(patched)
    }

    /// What a hook that wrote to `CONFIG_VALUES_JSON_PATCH_PATH` wants the ConfigMap to be, checked against the schema:
    /// its patch on top of what the ConfigMap says now, as `now` reads it, key by key. Nothing is changed yet: the
    /// ConfigMap is.
    ///
    /// # Errors
    /// As [`Self::patch`]; or what the patch changes is not what the hook has `seen` of the ConfigMap any more: it decided
    /// on what is no longer so, and has to run again.
    pub fn config_patch(
        &self,
        root: Root<'_>,
        bytes: &[u8],
        seen: &Value,
        now: impl Fn(&str) -> Result<Option<Value>, String>,
    ) -> Result<ConfigChange, String> {
        let patch = Patch::read(bytes, root).map_err(|e| format!("CONFIG_VALUES_JSON_PATCH_PATH: {e}"))?;
        let mut change = ConfigChange::new();
        for key in patch.roots() {
            let part = patch.below(&key);
            let section = self.sections.get(&key);
            let old = now(&key)?.or_else(|| section.map(|_| json!({})));
            let mut document = json!({});
            if let Some(old) = &old {
                document[&key] = old.clone();
            }
            let before = document.clone();
            part.apply(&mut document, true)?;
            let new = document.get(&key).cloned();
            if let Some(section) = section {
                if let Some(path) = part.overwrites(seen, &before, &document) {
                    return Err(format!(
                        "path {path:?}: the ConfigMap's key {key} was edited there since the hook read it; the edit stays, and the \
                         hook has to decide anew"
                    ));
                }
                section.note_secrets(new.as_ref().unwrap_or(&Value::Null));
                section.check_config(&key, new.as_ref().unwrap_or(&json!({})))?;
            } else if let Some(value) = &new
                && flag(value).is_none()
            {
                return Err(not_a_flag(&key, value));
            }
            if new != old {
                change.insert(key, new);
            }
        }
        Ok(change)
    }

    /// What hooks say about whether a module is on.
    pub fn flag(&self, module: &ModuleName) -> Option<bool> {
        self.flags.get(&module.enabled_key()).and_then(flag)
    }

    /// Drops what the hooks of a module have patched: it is off.
    pub fn forget(&mut self, key: &str) {
        if let Some(section) = self.sections.get_mut(key) {
            section.patch = Patch::default();
            if let Ok(result) = section.merged(&section.config, &section.patch, key) {
                section.result = result;
            }
        }
    }

    /// The same for what global hooks patched: global values, and flags of modules.
    pub fn forget_global(&mut self) {
        self.flags = Object::new();
        self.flag_patch = Patch::default();
        self.forget(GLOBAL);
    }

    /// The patches that hold in a section, as the debug endpoints show them.
    pub fn patches(&self, key: &str) -> Value {
        let mut all = self.sections.get(key).map_or_else(|| json!([]), |s| s.patch.to_json());
        if key == GLOBAL
            && let (Value::Array(all), Value::Array(flags)) = (&mut all, self.flag_patch.to_json())
        {
            all.extend(flags);
        }
        all
    }
}

impl Section {
    /// All layers over each other.
    fn merged(&self, config: &Value, patch: &Patch, key: &str) -> Result<Value, String> {
        let mut values = self.fixed.clone();
        if let Some(schema) = &self.schemas.config {
            schema.apply_defaults(&mut values);
        }
        values = merge(values, self.referred.clone(), MAX_DEPTH);
        values = merge(values, config.clone(), MAX_DEPTH);
        if let Some(schema) = &self.schemas.config {
            // Maps from the ConfigMap have defaults below them, too.
            schema.apply_defaults(&mut values);
        }
        if let Some(schema) = &self.schemas.values {
            schema.apply_defaults(&mut values);
        }
        if patch.is_empty() {
            return Ok(values);
        }
        let mut document = json!({});
        document[key] = values;
        patch.apply(&mut document, false)?;
        Ok(document[key].take())
    }

    /// What may be quoted from these values must not show what a schema marks as secret, whether it is taken in or not.
    fn note_secrets(&self, values: &Value) {
        let schemas = [&self.schemas.config, &self.schemas.values];
        schemas.into_iter().flatten().for_each(|schema| schema.note_secrets(values));
    }

    fn check_config(&self, key: &str, config: &Value) -> Result<(), String> {
        self.check_referring(key, config, &self.referred)
    }

    fn check_referring(&self, key: &str, config: &Value, referred: &Value) -> Result<(), String> {
        let Some(schema) = &self.schemas.config else { return Ok(()) };
        let before = self.settings(&self.config, referred);
        schema.check(key, &self.settings(config, referred), Some(&before))
    }

    /// What the ConfigMap says with what it refers to, over the defaults of the schema.
    fn settings(&self, config: &Value, referred: &Value) -> Value {
        let mut settings = merge(referred.clone(), config.clone(), MAX_DEPTH);
        if let Some(schema) = &self.schemas.config {
            schema.apply_defaults(&mut settings);
        }
        settings
    }

    /// What a new patch makes of the section.
    fn patched(&self, key: &str, part: &Patch) -> Result<Value, String> {
        let mut document = json!({});
        document[key] = self.result.clone();
        let applied = part.apply(&mut document, true);
        self.note_secrets(&document[key]);
        applied?;
        let mut kept = self.patch.clone();
        kept.add(part);
        let result = self.merged(&self.config, &kept, key)?;
        self.note_secrets(&result);
        if let Some(schema) = &self.schemas.values {
            schema.check(key, &result, Some(&self.result))?;
        }
        Ok(result)
    }

    /// Puts a new result in force; returns whether it is another one.
    fn take(&mut self, result: Value) -> bool {
        self.note_secrets(&result);
        let changed = self.result != result;
        self.result = result;
        changed
    }
}

/// A section of the roots' files.
fn of_roots(modules: &Modules, key: &str) -> Value {
    match modules.values.get(key) {
        Some(data @ (Data::Map(_) | Data::List(_))) => to_json(data),
        _ => json!({}),
    }
}

/// What files say of a module.
pub(super) fn fixed_of(modules: &Modules, module: &Module) -> Value {
    let own = to_json(&Data::Map(module.values.clone()));
    merge(of_roots(modules, &module.name.key), own, MAX_DEPTH)
}

/// `true` and `false`, as hooks write them.
fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(on) => Some(*on),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn not_a_flag(key: &str, value: &Value) -> String {
    format!("path \"/{key}\": {value} is neither true nor false")
}

/// Lays one value over another: maps are merged, anything else is replaced.
pub(super) fn merge(under: Value, over: Value, depth: usize) -> Value {
    match (under, over) {
        (Value::Object(mut under), Value::Object(over)) if depth > 0 => {
            for (key, value) in over {
                let merged = match under.remove(&key) {
                    Some(below) => merge(below, value, depth - 1),
                    None => value,
                };
                under.insert(key, merged);
            }
            Value::Object(under)
        }
        // A section that the ConfigMap leaves empty says nothing.
        (under, Value::Null) if depth == MAX_DEPTH => under,
        (_, over) => over,
    }
}

#[cfg(test)]
mod tests;
