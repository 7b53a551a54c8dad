//! addon-operator's metrics, with its names and labels and a configurable prefix.
//!
//! Owns their list. Callers create the series; a change of an unknown metric is dropped.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::metric_store::Kind::{self, Counter, Gauge, Histogram};
use super::metric_store::{Change, MetricStore, labels};

/// addon-operator's default prefix.
pub const PREFIX: &str = "addon_operator_";

/// Upper bounds of the buckets of all histograms, in seconds.
const BOUNDS: [f64; 14] = [0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

/// Name without prefix, kind, labels, help. Sorted by name.
const FAMILIES: [(&str, Kind, &[&str], &str); 58] = [
    ("binding_count", Gauge, &["module", "hook"], "Bindings of a hook."),
    (
        "binding_monitor_missing_total",
        Counter,
        &["binding"],
        "Bindings that lost their watch; ours are kept up.",
    ),
    ("config_values_errors_total", Counter, &[], "Keys of the ConfigMap that could not be used."),
    ("convergence_seconds", Counter, &["activation"], "Seconds that converges took."),
    ("convergence_total", Counter, &["activation"], "Converges that are done."),
    ("factory_informer_dead_total", Counter, &["gvr", "namespace"], "Watches that died; ours are kept up."),
    ("global_hook_allowed_errors_total", Counter, GLOBAL, "Failed runs of hooks with allowFailure."),
    ("global_hook_errors_total", Counter, GLOBAL, "Runs that failed."),
    ("global_hook_run_allowed_errors_total", Counter, GLOBAL, "The same under its documented name."),
    ("global_hook_run_errors_total", Counter, GLOBAL, "The same under its documented name."),
    ("global_hook_run_max_rss_bytes", Gauge, GLOBAL, "Most memory that the last run had at once."),
    ("global_hook_run_seconds", Histogram, GLOBAL, "How long runs took."),
    ("global_hook_run_success_total", Counter, GLOBAL, "The same under its documented name."),
    ("global_hook_run_sys_cpu_seconds", Histogram, GLOBAL, "Time of the kernel for runs."),
    ("global_hook_run_user_cpu_seconds", Histogram, GLOBAL, "Time of the processor for runs."),
    ("global_hook_success_total", Counter, GLOBAL, "Runs that worked."),
    (
        "helm_fallback_total",
        Counter,
        &["module", "operation", "error_type"],
        "There is one engine here: always empty.",
    ),
    (
        "helm_operation_seconds",
        Histogram,
        &["module", "activation", "operation"],
        "How long renders (template), looks (check-upgrade) and releases (upgrade) took.",
    ),
    (
        "hook_enable_kubernetes_bindings_errors_total",
        Counter,
        &["hook"],
        "Times that watches of a hook could not be started.",
    ),
    (
        "hook_enable_kubernetes_bindings_seconds",
        Gauge,
        &["hook"],
        "How long watches of a hook took to start.",
    ),
    (
        "hook_enable_kubernetes_bindings_success",
        Gauge,
        &["hook"],
        "1 once the watches of a hook have been started, else 0.",
    ),
    ("hook_run_allowed_errors_total", Counter, HOOK, "Failed runs of hooks with allowFailure, of all hooks."),
    ("hook_run_errors_total", Counter, HOOK, "Runs that failed, of all hooks."),
    ("hook_run_max_rss_bytes", Gauge, HOOK, "Most memory that the last run had at once, of all hooks."),
    ("hook_run_seconds", Histogram, HOOK, "How long runs took, of all hooks."),
    ("hook_run_success_total", Counter, HOOK, "Runs that worked, of all hooks."),
    ("hook_run_sys_cpu_seconds", Histogram, HOOK, "Time of the kernel for runs, of all hooks."),
    ("hook_run_user_cpu_seconds", Histogram, HOOK, "Time of the processor for runs, of all hooks."),
    (
        "kube_event_duration_seconds",
        Histogram,
        BINDING,
        "How long changes of watched objects took to be taken in.",
    ),
    ("kube_jq_filter_duration_seconds", Histogram, BINDING, "How long filters took on watched objects."),
    ("kube_snapshot_objects", Gauge, BINDING, "Objects in snapshots."),
    (
        "kubernetes_client_request_latency_seconds",
        Histogram,
        &["component", "verb", "url"],
        "How long requests to the API server took until their answers began.",
    ),
    (
        "kubernetes_client_request_result_total",
        Counter,
        &["component", "code", "method", "host"],
        "Requests to the API server.",
    ),
    (
        "kubernetes_client_watch_errors_total",
        Counter,
        &["error_type"],
        "Watches of hooks that could not go on.",
    ),
    ("live_ticks", Counter, &[], "Grows every 10 seconds while the operator's loop lives."),
    ("mm_module_enabled", Gauge, &["module", "version"], "Modules that are on, with their charts' versions."),
    ("mm_module_info", Gauge, &["module", "enabled", "critical"], "All modules."),
    ("mm_module_maintenance", Gauge, &["module", "state"], "Modules in maintenance."),
    ("module_delete_errors_total", Counter, &["module"], "Uninstalls that failed."),
    ("module_helm_seconds", Histogram, &["module", "activation"], "How long render and release took."),
    ("module_hook_allowed_errors_total", Counter, MODULE, "Failed runs of hooks with allowFailure."),
    ("module_hook_errors_total", Counter, MODULE, "Runs that failed."),
    ("module_hook_run_allowed_errors_total", Counter, MODULE, "The same under its documented name."),
    ("module_hook_run_errors_total", Counter, MODULE, "The same under its documented name."),
    ("module_hook_run_max_rss_bytes", Gauge, MODULE, "Most memory that the last run had at once."),
    ("module_hook_run_seconds", Histogram, MODULE, "How long runs took."),
    ("module_hook_run_success_total", Counter, MODULE, "The same under its documented name."),
    ("module_hook_run_sys_cpu_seconds", Histogram, MODULE, "Time of the kernel for runs."),
    ("module_hook_run_user_cpu_seconds", Histogram, MODULE, "Time of the processor for runs."),
    ("module_hook_success_total", Counter, MODULE, "Runs that worked."),
    ("module_run_errors_total", Counter, &["module"], "Runs of modules that failed."),
    ("module_run_seconds", Histogram, &["module", "activation"], "How long runs of modules took."),
    ("modules_absent_resources_total", Counter, &["module", "resource"], "Objects that were found gone."),
    ("modules_discover_errors_total", Counter, &[], "Module directories and scripts that could not be used."),
    ("modules_helm_release_redeployed_total", Counter, &["module"], "Releases that were put right."),
    (
        "task_wait_in_queue_seconds_total",
        Counter,
        &["module", "hook", "binding", "queue"],
        "Seconds that runs of hooks waited for their turn.",
    ),
    (
        "tasks_queue_head_info",
        Gauge,
        &["queue", "module", "task_type", "hook"],
        "The first task of each queue that has one.",
    ),
    ("tasks_queue_length", Gauge, &["queue"], "Tasks in queues."),
];

const GLOBAL: &[&str] = &["hook", "binding", "queue", "activation"];
const MODULE: &[&str] = &["module", "hook", "binding", "queue", "activation"];
const HOOK: &[&str] = &["hook", "binding", "queue"];
const BINDING: &[&str] = &["module", "hook", "binding", "queue", "kind"];

/// The metrics of [`FAMILIES`].
#[derive(Debug)]
pub struct Measures {
    prefix: String,
    store: Mutex<MetricStore>,
}

impl Default for Measures {
    fn default() -> Self {
        Self::new(PREFIX)
    }
}

impl Measures {
    /// All families, without series. Their names start with `prefix`.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        let mut store = MetricStore::default();
        for (name, kind, _, help) in FAMILIES {
            store.declare(&format!("{prefix}{name}"), kind, help);
        }
        Self { prefix: prefix.to_owned(), store: Mutex::new(store) }
    }

    fn store(&self) -> MutexGuard<'_, MetricStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, name: &str, pairs: &[(&str, &str)], change: Change<'_>) {
        let name = format!("{}{name}", self.prefix);
        if let Err(error) = self.store().change(&name, None, labels(pairs), change) {
            tracing::debug!(%error, "metric not changed");
        }
    }

    /// Adds to a counter.
    pub fn add(&self, name: &str, pairs: &[(&str, &str)], amount: f64) {
        self.change(name, pairs, Change::Add(amount));
    }

    /// Sets a gauge.
    pub fn set(&self, name: &str, pairs: &[(&str, &str)], value: f64) {
        self.change(name, pairs, Change::Set(value));
    }

    /// Observes a duration in a histogram, in seconds.
    pub fn observe(&self, name: &str, pairs: &[(&str, &str)], time: std::time::Duration) {
        self.change(name, pairs, Change::Observe(time.as_secs_f64(), &BOUNDS));
    }

    /// Removes all series of a metric, before the current ones are set.
    pub fn clear(&self, name: &str) {
        self.store().clear(&format!("{}{name}", self.prefix));
    }

    /// The response to a scrape.
    #[must_use]
    pub fn text(&self) -> String {
        self.store().text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// addon-operator's metrics: name, labels. `MODULE` means the labels of a module hook, which global hooks have without the
    /// module.
    const TABLE: [(&str, &str); 46] = [
        ("live_ticks", ""),
        ("config_values_errors_total", ""),
        ("modules_discover_errors_total", ""),
        ("binding_count", "module,hook"),
        ("module_run_seconds", "module,activation"),
        ("convergence_seconds", "activation"),
        ("convergence_total", "activation"),
        ("module_run_errors_total", "module"),
        ("module_delete_errors_total", "module"),
        ("modules_helm_release_redeployed_total", "module"),
        ("modules_absent_resources_total", "module,resource"),
        ("module_helm_seconds", "module,activation"),
        ("helm_operation_seconds", "module,activation,operation"),
        ("helm_fallback_total", "module,operation,error_type"),
        ("mm_module_info", "module,enabled,critical"),
        ("mm_module_enabled", "module,version"),
        ("mm_module_maintenance", "module,state"),
        ("module_hook_run_seconds", "module,hook,binding,queue,activation"),
        ("module_hook_run_user_cpu_seconds", "module,hook,binding,queue,activation"),
        ("module_hook_run_sys_cpu_seconds", "module,hook,binding,queue,activation"),
        ("module_hook_run_max_rss_bytes", "module,hook,binding,queue,activation"),
        ("module_hook_success_total", "module,hook,binding,queue,activation"),
        ("module_hook_errors_total", "module,hook,binding,queue,activation"),
        ("module_hook_allowed_errors_total", "module,hook,binding,queue,activation"),
        ("module_hook_run_errors_total", "module,hook,binding,queue,activation"),
        ("tasks_queue_length", "queue"),
        ("tasks_queue_head_info", "queue,module,task_type,hook"),
        ("task_wait_in_queue_seconds_total", "module,hook,binding,queue"),
        ("kube_snapshot_objects", "module,hook,binding,queue,kind"),
        ("kube_jq_filter_duration_seconds", "module,hook,binding,queue,kind"),
        ("kube_event_duration_seconds", "module,hook,binding,queue,kind"),
        ("kubernetes_client_watch_errors_total", "error_type"),
        ("kubernetes_client_request_result_total", "component,code,method,host"),
        ("kubernetes_client_request_latency_seconds", "component,verb,url"),
        ("hook_run_seconds", "hook,binding,queue"),
        ("hook_run_errors_total", "hook,binding,queue"),
        ("hook_run_allowed_errors_total", "hook,binding,queue"),
        ("hook_run_success_total", "hook,binding,queue"),
        ("hook_run_user_cpu_seconds", "hook,binding,queue"),
        ("hook_run_sys_cpu_seconds", "hook,binding,queue"),
        ("hook_run_max_rss_bytes", "hook,binding,queue"),
        ("hook_enable_kubernetes_bindings_seconds", "hook"),
        ("hook_enable_kubernetes_bindings_errors_total", "hook"),
        ("hook_enable_kubernetes_bindings_success", "hook"),
        ("binding_monitor_missing_total", "binding"),
        ("factory_informer_dead_total", "gvr,namespace"),
    ];

    #[test]
    fn every_metric_of_the_peer_has_its_name_and_labels() {
        let measures = Measures::new("x_");
        let text = measures.text();
        for (name, labels) in TABLE {
            let family = FAMILIES.iter().find(|f| f.0 == name).unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!(family.2.join(","), labels, "{name}");
            assert!(text.contains(&format!("# TYPE x_{name} ")), "{name}");
            let Some(rest) = name.strip_prefix("module_hook_") else { continue };
            let global = format!("global_hook_{rest}");
            let family = FAMILIES.iter().find(|f| f.0 == global).unwrap_or_else(|| panic!("{global}"));
            assert_eq!(format!("module,{}", family.2.join(",")), labels, "{global}");
        }
        assert!(FAMILIES.is_sorted_by_key(|f| f.0), "names are looked up by halves");
    }

    #[test]
    fn counters_grow_gauges_change_and_histograms_count() {
        let measures = Measures::new("x_");
        measures.add("module_run_errors_total", &[("module", "a")], 1.0);
        measures.add("module_run_errors_total", &[("module", "a")], 1.0);
        measures.set("tasks_queue_length", &[("queue", "main")], 3.0);
        measures.set("tasks_queue_length", &[("queue", "main")], 2.0);
        let labels = [("module", "a"), ("activation", "OperatorStartup")];
        measures.observe("module_run_seconds", &labels, Duration::from_millis(150));
        measures.add("nobody_knows_this", &[], 1.0);
        let text = measures.text();
        for line in [
            "x_module_run_errors_total{module=\"a\"} 2",
            "x_tasks_queue_length{queue=\"main\"} 2",
            "x_module_run_seconds_bucket{module=\"a\",activation=\"OperatorStartup\",le=\"0.1\"} 0",
            "x_module_run_seconds_bucket{module=\"a\",activation=\"OperatorStartup\",le=\"0.2\"} 1",
            "x_module_run_seconds_bucket{module=\"a\",activation=\"OperatorStartup\",le=\"+Inf\"} 1",
            "x_module_run_seconds_count{module=\"a\",activation=\"OperatorStartup\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!text.contains("nobody_knows_this"));
        measures.clear("tasks_queue_length");
        assert!(!measures.text().contains("x_tasks_queue_length{"));
    }
}
