//! What is measured of hooks: runs as they end, and what is true of queues and watches at the moment of a scrape.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::Hooks;
use crate::serve::Progress;
use crate::serve::addon_operator_metrics::Measures;
use crate::shell_hooks::config::MAIN_QUEUE;
use crate::shell_hooks::process::Usage;
use crate::shell_hooks::queues::Run;
use crate::shell_hooks::{Hook, HookSet, Scope, WatchedView};

impl Hooks {
    /// The binding type of a run, in addon-operator's words.
    fn activation(&self, run: &Run) -> &'static str {
        if self.state.converged.load(std::sync::atomic::Ordering::Acquire) {
            run.kind
        } else {
            "OperatorStartup"
        }
    }

    /// Counts a run.
    pub(super) fn count(&self, hook: &Hook, binding: &str, run: &Run, usage: Option<Usage>, worked: bool) {
        let measures = &self.state.measures;
        let (queue, activation) = (run.queue.as_str(), self.activation(run));
        let all = [
            ("module", hook.module.as_str()),
            ("hook", hook.name.as_str()),
            ("binding", binding),
            ("queue", queue),
            ("activation", activation),
        ];
        let (start, labels) = match hook.scope {
            Scope::Global => ("global_hook", &all[1..]),
            Scope::Module => ("module_hook", &all[..]),
        };
        let outcome = match (worked, run.allow_failure) {
            (true, _) => "success_total",
            (false, false) => "errors_total",
            (false, true) => "allowed_errors_total",
        };
        measures.add(&format!("{start}_{outcome}"), labels, 1.0);
        // shell-operator's names beside addon-operator's: dashboards of both work.
        let plain = &all[1..4];
        for (start, labels) in [(start, labels), ("hook", plain)] {
            measures.add(&format!("{start}_run_{outcome}"), labels, 1.0);
            let Some(usage) = usage else { continue };
            for (name, time) in [
                ("run_seconds", usage.took),
                ("run_user_cpu_seconds", usage.user),
                ("run_sys_cpu_seconds", usage.system),
            ] {
                measures.observe(&format!("{start}_{name}"), labels, time);
            }
            measures.set(&format!("{start}_run_max_rss_bytes"), labels, usage.max_rss_bytes as f64);
        }
    }

    /// Counts a start of the watches of a set's hooks, which `began` then and has worked or not.
    pub(super) fn count_watches(&self, set: &HookSet, began: Instant, worked: bool) {
        let measures = &self.state.measures;
        for hook in set.hooks().iter().filter(|h| !h.config.kubernetes.is_empty()) {
            let labels = [("hook", hook.name.as_str())];
            measures.set("hook_enable_kubernetes_bindings_success", &labels, f64::from(u8::from(worked)));
            if worked {
                let took = began.elapsed().as_secs_f64();
                measures.set("hook_enable_kubernetes_bindings_seconds", &labels, took);
            } else {
                measures.add("hook_enable_kubernetes_bindings_errors_total", &labels, 1.0);
            }
        }
    }

    /// Counts how long a run has waited for its first try.
    pub(super) fn count_wait(&self, run: &Run, binding: &str) {
        if run.failures > 0 {
            return;
        }
        let labels = [
            ("module", run.hook.module.as_str()),
            ("hook", run.hook.name.as_str()),
            ("binding", binding),
            ("queue", run.queue.as_str()),
        ];
        self.state.measures.add(
            "task_wait_in_queue_seconds_total",
            &labels,
            run.since.elapsed().as_secs_f64(),
        );
    }

    /// Sets what is true now of bindings, snapshots and queues; `progress` knows the operator's own tasks.
    pub(in crate::addon) fn measure(&self, progress: &Progress) {
        let measures = &self.state.measures;
        for name in ["binding_count", "kube_snapshot_objects", "tasks_queue_length", "tasks_queue_head_info"]
        {
            measures.clear(name);
        }
        if let Some(set) = self.global_set() {
            measure_set(measures, "", &set);
        }
        let modules: Vec<Arc<super::module::ModuleHooks>> =
            self.modules.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for module in &modules {
            if let Some(set) = module.set.get() {
                measure_set(measures, &module.name, set);
            }
        }
        // addon-operator has one queue of a name, shared by all owners.
        let mut lengths = std::collections::BTreeMap::from([(MAIN_QUEUE.to_owned(), progress.tasks())]);
        if let Some((module, kind)) = progress.head() {
            let labels = [("queue", MAIN_QUEUE), ("module", &module), ("task_type", kind), ("hook", "")];
            measures.set("tasks_queue_head_info", &labels, 1.0);
        }
        for queue in self.queues.view() {
            *lengths.entry(queue.name.clone()).or_default() += queue.tasks.len();
            let labels = [("module", queue.owner.as_str()), ("queue", queue.name.as_str())];
            let help = "Runs of hooks in a queue, the one under way included.";
            self.state.metrics.set("windlass_queue_length", help, &labels, queue.tasks.len() as f64);
            if let Some(head) = queue.tasks.first() {
                let kind = if queue.owner.is_empty() { "GlobalHookRun" } else { "ModuleHookRun" };
                let labels = [
                    ("queue", queue.name.as_str()),
                    ("module", queue.owner.as_str()),
                    ("task_type", kind),
                    ("hook", head.hook.as_str()),
                ];
                measures.set("tasks_queue_head_info", &labels, 1.0);
            }
        }
        for (queue, length) in lengths {
            measures.set("tasks_queue_length", &[("queue", &queue)], length as f64);
        }
    }
}

fn measure_set(measures: &Measures, module: &str, set: &HookSet) {
    for hook in set.hooks() {
        let count = hook.config.count();
        measures.set("binding_count", &[("module", module), ("hook", &hook.name)], count as f64);
    }
    for WatchedView { hook, binding, queue, kind, objects, .. } in set.watched() {
        let labels = [
            ("module", module),
            ("hook", hook.as_str()),
            ("binding", binding.as_str()),
            ("queue", queue.as_str()),
            ("kind", kind.as_str()),
        ];
        measures.set("kube_snapshot_objects", &labels, objects.len() as f64);
    }
}
