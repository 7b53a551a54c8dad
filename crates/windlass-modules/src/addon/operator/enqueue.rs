//! Compares the desired state of each module with what was last requested, and enqueues the difference.
//!
//! Owns whether a module is on: flags, scripts, and modules that it depends on. Of what cannot be read nothing is concluded.

use std::collections::{BTreeMap, BTreeSet};

use super::Operator;
use crate::addon::change_cause::cause;
use crate::addon::enabled_flags::Flags;
use crate::addon::values::{GLOBAL, Values};
use windlass_controller::Job;
use windlass_engine::ReleaseId;

/// Whether a module must be enabled.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    On,
    /// Why, where no flag says so: a word, and all of it.
    Off(Option<(&'static str, String)>),
    /// Nothing is known yet: it is left as it is.
    Undecided,
}

impl Operator {
    /// Compares the desired state of each module with what was last requested, and enqueues the difference; with `all` every module
    /// that is on.
    pub(super) fn enqueue_changes(&mut self, all: bool) {
        self.compare(all, true);
    }

    /// The same for what is said of modules that stay on, each alone: which ones must be enabled, and other global values, are what
    /// the converge that is under way will ask for.
    pub(super) fn enqueue_running_changes(&mut self) {
        self.compare(false, false);
    }

    fn compare(&mut self, all: bool, may_turn: bool) {
        let activation = self.activation(self.cycle.activation);
        let files = std::mem::take(&mut self.files.changed);
        let hooks = std::sync::Arc::clone(&self.hooks);
        let mut store = hooks.store();
        let decisions = self.decisions(&store.values);
        for name in self.modules.names() {
            if decisions.get(&name.name) == Some(&Decision::On) {
                self.report_rejected(&name.key);
            }
        }
        let config = &self.config_map.config;
        let broken = |section: &str| {
            let problem = config.problems.iter().find(|p| p.concerns(section));
            problem.filter(|_| !self.config_map.good.contains(section)).map(|p| p.text.clone())
        };
        let global_problem = broken(GLOBAL);
        store.enabled.clear();
        let (mut undecided, mut off) = (BTreeSet::new(), Vec::new());
        for module in &self.modules.modules {
            let name = &module.name;
            let decision = decisions.get(&name.name).unwrap_or(&Decision::Undecided);
            if *decision == Decision::Undecided {
                self.files.changed.extend(files.get(&name.name).cloned());
                undecided.insert(name.name.clone());
                continue;
            }
            let known = self.module_states.get(&name.name);
            let own = known.is_some_and(|w| {
                let values = w.values.as_ref().and_then(|v| v.get(&name.key));
                let maintenance = config.maintenance.contains(&name.key);
                values != store.values.section(&name.key)
                    || w.problem.is_some()
                    || w.maintenance != maintenance
            });
            let was_on = known.is_some_and(|w| w.enabled);
            if !may_turn && (was_on != (*decision == Decision::On) || !own) {
                self.files.changed.extend(files.get(&name.name).cloned());
                undecided.insert(name.name.clone());
                if was_on {
                    store.enabled.push(name.name.clone());
                }
                continue;
            }
            let wanted = self.module_states.entry(name.name.clone()).or_default();
            let first = wanted.values.is_none();
            let enabled = *decision == Decision::On;
            if enabled {
                store.enabled.push(name.name.clone());
            }
            let values = store.values.seen(&name.key);
            let referred = store.values.referred(&name.key);
            // Global values that were never valid may be what keeps a module from doing harm.
            let problem = broken(&name.key).or_else(|| global_problem.clone());
            let mended = wanted.problem.is_some() && problem.is_none();
            wanted.problem = problem;
            wanted.off_because = match decision {
                Decision::Off(why) => why.clone(),
                _ => None,
            };
            if wanted.values.as_ref() != Some(&values) {
                let secrets = [&wanted.referred, &referred];
                wanted.cause =
                    cause(self.config_map.writers.as_ref(), name, wanted.values.as_ref(), &values, secrets);
            }
            let dirty = files.contains(&name.name);
            if dirty && wanted.values.as_ref() == Some(&values) {
                "its files have changed".clone_into(&mut wanted.cause);
            }
            let held = wanted.maintenance || first && self.recorded.held.contains(&name.name);
            let hold_broken = config.problems.iter().any(|p| p.key == name.maintenance_key());
            let maintenance = if hold_broken { held } else { config.maintenance.contains(&name.key) };
            let turned = held != maintenance;
            if turned {
                let cause = if maintenance { "maintenance begins" } else { "maintenance is over" };
                cause.clone_into(&mut wanted.cause);
                tracing::info!(module = name.name, "{cause}");
            }
            wanted.maintenance_ends = (held || wanted.maintenance_ends) && !maintenance;
            wanted.maintenance = maintenance;
            wanted.crds_known &= enabled && !dirty;
            let changed = wanted.values.as_ref() != Some(&values)
                || wanted.enabled != enabled
                || dirty
                || turned
                || mended;
            let namespace = module.target.namespace.as_deref().unwrap_or(&self.options.namespace);
            let id = ReleaseId::new(namespace, &name.name);
            if enabled && (changed || all) {
                self.recorded.orphans.remove(&id);
                self.workers.queue.cancel_retry(&name.name);
                wanted.activation = activation;
                self.workers.queue.request(&name.name, name.order, Job::Reconcile);
            } else if !enabled && (wanted.enabled || self.recorded.orphans.remove(&id)) {
                self.workers.queue.cancel_retry(&name.name);
                self.workers.queue.request(&name.name, name.order, Job::Uninstall);
                off.push(name.name.clone());
            }
            wanted.enabled = enabled;
            wanted.values = Some(values);
            wanted.referred = referred;
            self.state.metrics.set(
                "windlass_module_enabled",
                "Whether a module is on.",
                &[("module", &name.name)],
                f64::from(u8::from(enabled)),
            );
        }
        drop(store);
        // A hook that does not come back must not keep its module on.
        off.iter().for_each(|name| self.kill_hooks(name));
        self.measure_modules();
        self.enqueue_orphans(&undecided);
    }

    /// The rest are releases of modules that no longer exist, or of undecided ones.
    fn enqueue_orphans(&mut self, undecided: &BTreeSet<String>) {
        let (undecided, gone): (BTreeSet<ReleaseId>, BTreeSet<ReleaseId>) =
            std::mem::take(&mut self.recorded.orphans)
                .into_iter()
                .partition(|id| undecided.contains(&id.name));
        self.recorded.orphans = undecided;
        for id in gone {
            let ReleaseId { namespace, name } = &id;
            tracing::info!(module = name, namespace, "the module no longer exists: uninstalling its release");
            self.report_lost_hooks(name, "hooks, if it had any,");
            let plain = *namespace == self.options.namespace && self.module(name).is_none();
            let name = if plain { name.clone() } else { id.to_string() };
            self.workers.queue.request(&name, u32::MAX, Job::Uninstall);
        }
    }

    fn decisions(&self, values: &Values) -> BTreeMap<String, Decision> {
        let mut decisions = BTreeMap::new();
        for module in &self.modules.modules {
            let name = &module.name;
            let on = |on: bool| if on { Decision::On } else { Decision::Off(None) };
            let flag_broken = self.config_map.config.problems.iter().any(|p| p.key == name.enabled_key());
            let decision = if self.scripts.undecided.contains(&name.name) {
                Decision::Undecided
            } else if flag_broken {
                // The module stays as it is, which is unknown at the start.
                self.module_states.get(&name.name).map_or(Decision::Undecided, |w| on(w.enabled))
            } else {
                let flags = Flags {
                    roots: &self.modules.values,
                    own: module.flag,
                    hooks: values.flag(name),
                    config: &self.config_map.config.enabled,
                };
                let flagged = self.options.enabling.is_on(name, &flags);
                if flagged && self.scripts.verdicts.get(&name.name) == Some(&false) {
                    let reason = self.scripts.reasons.get(&name.name).filter(|r| !r.is_empty());
                    let reason = reason.map_or_else(String::new, |r| format!(": {r}"));
                    let why = format!("its enabled script says that the module is off{reason}");
                    Decision::Off(Some(("ScriptDisabled", why)))
                } else {
                    on(flagged)
                }
            };
            decisions.insert(name.name.clone(), decision);
        }
        disable_dependents(&mut decisions, self.workers.queue.dependencies());
        decisions
    }
}

/// Takes modules for off that depend on one that is off.
fn disable_dependents(
    decisions: &mut BTreeMap<String, Decision>,
    needs: &BTreeMap<String, BTreeSet<String>>,
) {
    loop {
        let off = |name: &&String| matches!(decisions.get(*name), Some(Decision::Off(_)));
        let next = needs.iter().find_map(|(name, others)| {
            let other = others.iter().find(off)?;
            (decisions.get(name) == Some(&Decision::On)).then(|| (name.clone(), other.clone()))
        });
        let Some((name, other)) = next else { return };
        let why = format!("module {other} is off, and it depends on that one");
        decisions.insert(name, Decision::Off(Some(("DependencyOff", why))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_off_with_what_it_depends_on() {
        let off = || Decision::Off(None);
        let table = [
            ("a", off(), &["b"][..], "off"),
            ("b", Decision::On, &["off"], "module off is off, and it depends on that one"),
            ("c", Decision::On, &["b"], "module b is off, and it depends on that one"),
            ("d", Decision::On, &["on", "gone"], "on"),
            ("e", Decision::On, &["unknown"], "on"),
            ("f", Decision::Undecided, &["off"], "undecided"),
            ("off", off(), &[], "off"),
            ("on", Decision::On, &[], "on"),
            ("unknown", Decision::Undecided, &[], "undecided"),
        ];
        let mut decisions: BTreeMap<_, _> =
            table.iter().map(|(name, decision, ..)| ((*name).to_owned(), decision.clone())).collect();
        let needs = table.iter().map(|(name, _, needs, _)| {
            ((*name).to_owned(), needs.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>())
        });
        disable_dependents(&mut decisions, &needs.collect());
        for (name, _, _, expected) in &table {
            let found = match &decisions[*name] {
                Decision::On => "on",
                Decision::Undecided => "undecided",
                Decision::Off(None) => "off",
                Decision::Off(Some((_, why))) => why,
            };
            assert_eq!(found, *expected, "{name}");
        }
    }
}
