//! What metrics and the debug endpoint show of hooks: names, snapshots, runs, queues.

use std::sync::{Arc, PoisonError};

use serde_json::{Map, Value, json};

use super::Hooks;
use super::module_hooks::ModuleHooks;
use crate::shell_hooks::queues::QueueView;
use crate::shell_hooks::{Changes, HookSet, RunView, WatchedView, run_metrics};

impl Hooks {
    fn all_modules(&self) -> Vec<Arc<ModuleHooks>> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Names of the global hooks.
    pub(in crate::addon) fn global_names(&self) -> Vec<String> {
        self.global_set().as_deref().map(names).unwrap_or_default()
    }

    /// Names of all hooks that are loaded, the global ones first.
    pub(in crate::addon) fn all_names(&self) -> Vec<String> {
        let mut all = self.global_names();
        all.extend(self.all_modules().iter().flat_map(|m| m.set.get().map(names).unwrap_or_default()));
        all
    }

    /// Snapshots of an owner's hooks, by hook and binding; the global hooks have the empty name.
    pub(in crate::addon) fn snapshots_of(&self, owner: &str) -> Value {
        if owner.is_empty() {
            return self.global_set().as_deref().map_or_else(|| json!({}), snapshots);
        }
        let module = self.module(owner);
        module.and_then(|m| m.set.get().map(snapshots)).unwrap_or_else(|| json!({}))
    }

    /// Snapshots of one hook by binding; `None` if there is no such hook.
    pub(in crate::addon) fn snapshots_of_hook(&self, hook: &str) -> Option<Value> {
        self.in_sets(|set| set.hooks().iter().any(|h| h.name == hook).then(|| snapshots(set)[hook].take()))
    }

    /// How the last runs of a hook went, the oldest first; `None` if there is no such hook.
    pub(in crate::addon) fn runs_of_hook(&self, hook: &str) -> Option<Vec<RunView>> {
        self.in_sets(|set| set.hooks().iter().find(|h| h.name == hook).map(|h| h.runs()))
    }

    /// What is found first in the sets of all owners, the global hooks before the others.
    fn in_sets<T>(&self, find: impl Fn(&HookSet) -> Option<T>) -> Option<T> {
        let global = self.global_set();
        let found = global.as_deref().and_then(&find);
        found.or_else(|| self.all_modules().iter().find_map(|m| m.set.get().and_then(&find)))
    }

    /// Sets the metrics of bindings, snapshots and queues.
    pub(in crate::addon) fn measure(&self) {
        let (global, modules) = (self.global_set(), self.all_modules());
        let global = global.as_deref().map(|set| ("", set));
        let sets = modules.iter().filter_map(|m| Some((m.name.as_str(), m.set.get()?)));
        run_metrics::measure_sets(&self.state.measures, global.into_iter().chain(sets));
        run_metrics::measure_queues(&self.state, &self.queues.view());
    }

    /// All queues of hooks as they are now.
    pub(in crate::addon) fn queues(&self) -> Vec<QueueView> {
        self.queues.view()
    }
}

fn names(set: &HookSet) -> Vec<String> {
    set.hooks().iter().map(|h| h.name.clone()).collect()
}

/// In the shape of addon-operator's `SnapshotsDump`.
fn snapshots(set: &HookSet) -> Value {
    let mut all: Map<String, Value> = set.hooks().iter().map(|h| (h.name.clone(), json!({}))).collect();
    for WatchedView { hook, binding, objects, changes, .. } in set.watched() {
        let objects: Vec<Value> = objects.iter().map(|o| o.to_value()).collect();
        let count = objects.len();
        let counts = |changes: Changes| {
            let Changes { added, modified, deleted } = changes;
            json!({"count": count, "added": added, "modified": modified, "deleted": deleted, "cleaned": 0})
        };
        let operations = json!({"sinceStart": counts(changes.0), "sinceLastExecution": counts(changes.1)});
        if let Some(of_hook) = all.get_mut(&hook) {
            of_hook[&binding] = json!({"snapshot": objects, "operations": operations});
        }
    }
    Value::Object(all)
}
