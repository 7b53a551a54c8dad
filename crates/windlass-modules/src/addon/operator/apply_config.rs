//! The ConfigMap as it comes: sections, flags, and what it refers to, read and watched.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Operator;
use super::converge::Phase;
use super::settings_verdicts::SectionVerdict;
use crate::addon::config::{Config, Problem};
use crate::addon::enabled_flags::Flags;
use crate::addon::events;
use crate::addon::module_name::ModuleName;
use crate::addon::values::GLOBAL;
use windlass_cluster::ObjectMeta;
use windlass_controller::resolve_values;
use windlass_controller::serve::runtime_config::LOG_CONFIG_MAP;

/// Stands for the ConfigMap where modules are named that something has changed for: no module is called so.
pub(super) const REFERENCES: &str = "";

impl Operator {
    /// Takes in the ConfigMap as it is now (`None`: there is none) and asks for what changed, or for all that a converge
    /// does if it is to `converge` anyway.
    pub(super) async fn configure(&mut self, object: Option<&Value>, converge: bool) {
        if let Some(object) = object.filter(|_| !converge)
            && self.hooks.is_overtaken(object).await
        {
            self.config_map.object = Some(object.clone());
            return;
        }
        if !converge {
            self.cycle.activation = "KubeConfigChanged";
        }
        // What hooks have written themselves is known before it comes back.
        while let Ok(change) = self.changes.try_recv() {
            self.on_hook_change(&change);
        }
        if self.state.runtime.value(LOG_CONFIG_MAP) == "true" {
            let version = object.map(|object| ObjectMeta::of(object).resource_version());
            let data = object.and_then(|object| object["data"].as_object()).into_iter().flatten();
            let keys: Vec<&String> = data.map(|(key, _)| key).collect();
            tracing::info!(version, ?keys, "event of the ConfigMap");
        }
        let mut config = Config::of_object(object, &self.modules.names());
        self.config_map.object = object.cloned();
        let referred = self.follow_references(&mut config).await;
        let global = self.apply_sections(&mut config, &referred);
        for problem in config.problems.iter().filter(|p| !self.config_map.problems.contains(p)) {
            self.report_problem(problem);
        }
        self.config_map.problems.clone_from(&config.problems);
        self.config_map.writers = object
            .map(|o| serde_json::json!({"metadata": {"managedFields": ObjectMeta::of(o).managed_fields()}}));
        let flags = config.enabled != self.config_map.config.enabled;
        self.config_map.config = config;
        self.hooks.store().flags.clone_from(&self.config_map.config.enabled);
        if !self.config_map.known || self.cycle.phase == Phase::Waiting {
            self.config_map.known = true;
            self.start_hooks();
        } else if global || flags || converge {
            self.converge(false);
        } else if matches!(self.cycle.phase, Phase::Before { .. }) {
            self.enqueue_running_changes();
        } else {
            self.enqueue_changes(false);
        }
        self.check_convergence();
    }

    /// Takes in the sections; one that is broken, or breaks its schema, leaves the last good one in force; returns whether the
    /// global values have changed.
    fn apply_sections(&mut self, config: &mut Config, referred: &BTreeMap<String, Value>) -> bool {
        let mut global = false;
        self.config_map.rejected.clear();
        let names: Vec<Option<ModuleName>> =
            std::iter::once(None).chain(self.modules.names().into_iter().map(Some)).collect();
        for name in names {
            let key = name.as_ref().map_or(GLOBAL, |n| &n.key).to_owned();
            if config.problems.iter().any(|p| p.concerns(&key)) {
                continue;
            }
            let section = config.section(&key);
            let from = referred.get(&key).cloned().unwrap_or_else(|| serde_json::json!({}));
            if let Some(name) = name.as_ref().filter(|name| self.is_enabled(name, config)) {
                match self.section_verdict(name, section.as_ref(), &from) {
                    SectionVerdict::Take => {}
                    SectionVerdict::Pending => continue,
                    SectionVerdict::Refuse(text) => {
                        let text = format!("key {key}: {text}");
                        config.problems.push(Problem { key: key.clone(), module: Some(key), text });
                        continue;
                    }
                }
            }
            let taken = self.hooks.store().values.set_referring(&key, section, from);
            match taken {
                Ok(changed) => {
                    global |= changed && name.is_none();
                    self.config_map.good.insert(key);
                }
                Err(text) => {
                    let text = format!("key {key}: {text}");
                    // The section of a module that is off does not matter.
                    let off = name.as_ref().is_some_and(|n| !self.is_enabled(n, config));
                    let problem = Problem { key: key.clone(), module: name.map(|n| n.key), text };
                    if off {
                        self.config_map.rejected.insert(key, problem);
                    } else {
                        config.problems.push(problem);
                    }
                }
            }
        }
        global
    }

    /// A module must be enabled: what its section says matters now, if it could not be taken in.
    pub(super) fn report_rejected(&mut self, section: &str) {
        let Some(problem) = self.config_map.rejected.remove(section) else { return };
        self.report_problem(&problem);
        self.config_map.config.problems.push(problem.clone());
        self.config_map.problems.push(problem);
    }

    /// Reports a key that cannot be used: log, metrics, and an Event on the ConfigMap.
    fn report_problem(&self, problem: &Problem) {
        tracing::warn!(key = problem.key, "ConfigMap {}: {}", self.options.config_map, problem.text);
        self.state.metrics.add(
            "windlass_config_values_errors_total",
            "Keys of the ConfigMap that could not be used.",
            &[("key", &problem.key)],
            1.0,
        );
        self.state.measures.add("config_values_errors_total", &[], 1.0);
        if let Some(object) = &self.config_map.object {
            events::invalid_config_key(&self.releases.events, object, problem);
        }
    }

    fn is_enabled(&self, name: &ModuleName, config: &Config) -> bool {
        let hooks = self.hooks.store().values.flag(name);
        let own = self.module(&name.name).and_then(|m| m.flag);
        let flags = Flags { roots: &self.modules.values, own, hooks, config: &config.enabled };
        self.options.enabling.is_on(name, &flags)
    }

    /// Reads what sections refer to, and follows it from now on; what cannot be read is a problem of its key.
    pub(super) async fn follow_references(&mut self, config: &mut Config) -> BTreeMap<String, Value> {
        self.workers.stop_watching(REFERENCES);
        if config.references.is_empty() {
            return BTreeMap::new();
        }
        let cluster = self.releases.engine().operator_client();
        let referred = resolve_values(cluster, &self.options.namespace, &config.references).await;
        self.workers.watch_answers(cluster, REFERENCES, referred.seen);
        config.take_referred(referred.lists)
    }
}
