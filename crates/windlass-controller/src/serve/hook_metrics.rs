//! Metrics of hooks. Hooks choose names, labels and groups.
//!
//! Owns the effects of one run's operations. `hooks::metrics` parses a hook's metrics file.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::metric_store::{Change, MetricStore};

/// One operation on a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The metric's name. Empty for `Expire` of a whole group.
    pub name: String,
    /// The group. A run that contains operations of a group replaces all its series.
    pub group: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub action: Action,
}

/// The effect of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Adds to a counter.
    Add(f64),
    /// Sets a gauge.
    Set(f64),
    /// Observes a value in a histogram with these upper bucket bounds, in ascending order.
    Observe(f64, Vec<f64>),
    /// Removes all series of the group.
    Expire,
}

/// The metrics of all hooks.
#[derive(Debug, Default)]
pub struct HookMetrics {
    store: Mutex<MetricStore>,
}

impl HookMetrics {
    fn store(&self) -> MutexGuard<'_, MetricStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the operations of one run; `labels` are added to each series. First removes all series of the groups in the
    /// operations. Returns the reason for each operation that failed.
    pub fn apply(&self, operations: &[Operation], labels: &[(&str, &str)]) -> Vec<String> {
        let mut store = self.store();
        store.expire(&operations.iter().filter_map(|o| o.group.as_deref()).collect());
        let mut problems = Vec::new();
        for operation in operations {
            let change = match &operation.action {
                Action::Expire => continue,
                Action::Add(number) => Change::Add(*number),
                Action::Set(number) => Change::Set(*number),
                Action::Observe(number, bounds) => Change::Observe(*number, bounds),
            };
            let name = &operation.name;
            store.declare(name, change.kind(), name);
            let mut all = operation.labels.clone();
            all.extend(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
            let made = store.change(name, operation.group.as_deref(), all.into_iter().collect(), change);
            problems.extend(made.err().map(|e| e.to_string()));
        }
        store.prune();
        problems
    }

    /// The text exposition of all series.
    #[must_use]
    pub fn text(&self) -> String {
        self.store().text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(name: &str, group: Option<&str>, labels: &[(&str, &str)], action: Action) -> Operation {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Operation { name: name.to_owned(), group: group.map(str::to_owned), labels, action }
    }

    #[test]
    fn ungrouped_ones_count_on_and_groups_are_replaced() {
        let metrics = HookMetrics::default();
        let run = |which: &str| {
            let operations = [
                operation("total", None, &[], Action::Add(1.0)),
                operation("state", Some("g"), &[("pod", which)], Action::Set(1.0)),
            ];
            assert_eq!(metrics.apply(&operations, &[("hook", "h.sh")]), [""; 0]);
        };
        run("a");
        run("b");
        assert_eq!(
            metrics.text(),
            "# HELP state state\n# TYPE state gauge\nstate{hook=\"h.sh\",pod=\"b\"} 1\n\
             # HELP total total\n# TYPE total counter\ntotal{hook=\"h.sh\"} 2\n"
        );
        metrics.apply(&[operation("", Some("g"), &[], Action::Expire)], &[]);
        assert!(!metrics.text().contains("state"));
    }

    #[test]
    fn histograms_and_kinds_that_clash() {
        let metrics = HookMetrics::default();
        for value in [0.5, 3.0] {
            metrics.apply(&[operation("h", None, &[], Action::Observe(value, vec![1.0, 2.0]))], &[]);
        }
        assert_eq!(
            metrics.text(),
            "# HELP h h\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"2\"} 1\nh_bucket{le=\"+Inf\"} 2\n\
             h_sum 3.5\nh_count 2\n"
        );
        let problems = metrics.apply(&[operation("h", None, &[], Action::Set(1.0))], &[]);
        assert_eq!(problems, ["metric h is a histogram, not a gauge"]);
    }
}
