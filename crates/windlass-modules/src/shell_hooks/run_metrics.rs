//! Metrics of hooks under shell-operator's and addon-operator's names: runs as they end, and the state of queues and watches at a
//! scrape.
//!
//! Owns names and labels. The owner of the hooks says when something is counted.

use std::collections::BTreeMap;
use std::time::Instant;

use super::config::MAIN_QUEUE;
use super::process::Usage;
use super::queues::{QueueView, Run};
use super::{Hook, HookSet, Scope, WatchedView};
use windlass_controller::serve::State;
use windlass_controller::serve::addon_operator_metrics::Measures;

/// Counts a run that has ended; `activation` is why it ran, in addon-operator's words.
pub fn count(
    measures: &Measures,
    (hook, binding, activation): (&Hook, &str, &str),
    run: &Run,
    usage: Option<Usage>,
    worked: bool,
) {
    let queue = run.queue.as_str();
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

/// Counts a start of the watches of a set's hooks: it `began` then, and worked or failed.
pub fn count_watches(measures: &Measures, set: &HookSet, began: Instant, worked: bool) {
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
pub fn count_wait(measures: &Measures, run: &Run, binding: &str) {
    if run.failures > 0 {
        return;
    }
    let labels = [
        ("module", run.hook.module.as_str()),
        ("hook", run.hook.name.as_str()),
        ("binding", binding),
        ("queue", run.queue.as_str()),
    ];
    measures.add("task_wait_in_queue_seconds_total", &labels, run.since.elapsed().as_secs_f64());
}

/// Sets the lengths and heads of all queues; the operator's own tasks are in its progress.
pub fn measure_queues(state: &State, queues: &[QueueView]) {
    let measures = &state.measures;
    for name in ["tasks_queue_length", "tasks_queue_head_info"] {
        measures.clear(name);
    }
    // addon-operator has one queue of a name, shared by all owners.
    let mut lengths = BTreeMap::from([(MAIN_QUEUE.to_owned(), state.progress.tasks())]);
    if let Some((module, kind)) = state.progress.head() {
        let labels = [("queue", MAIN_QUEUE), ("module", &module), ("task_type", kind), ("hook", "")];
        measures.set("tasks_queue_head_info", &labels, 1.0);
    }
    for queue in queues {
        *lengths.entry(queue.name.clone()).or_default() += queue.tasks.len();
        let labels = [("module", queue.owner.as_str()), ("queue", queue.name.as_str())];
        let help = "Runs of hooks in a queue, the one under way included.";
        state.metrics.set("windlass_queue_length", help, &labels, queue.tasks.len() as f64);
        if let Some(head) = queue.tasks.first() {
            let labels = [
                ("queue", queue.name.as_str()),
                ("module", queue.owner.as_str()),
                ("task_type", queue.task_type()),
                ("hook", head.hook.as_str()),
            ];
            measures.set("tasks_queue_head_info", &labels, 1.0);
        }
    }
    for (queue, length) in lengths {
        measures.set("tasks_queue_length", &[("queue", &queue)], length as f64);
    }
}

/// Sets the numbers of bindings and of objects in snapshots; `sets` are all hooks by module, the global ones with the empty name.
pub fn measure_sets<'s>(measures: &Measures, sets: impl IntoIterator<Item = (&'s str, &'s HookSet)>) {
    for name in ["binding_count", "kube_snapshot_objects"] {
        measures.clear(name);
    }
    for (module, set) in sets {
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
}
