//! Metrics that hooks make: names, labels and groups come from outside.
//!
//! Owns their store and its text; a hook's metrics file is read elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Series that all hooks together may have: a hook that labels by time must not eat the operator.
const MAX_SERIES: usize = 100_000;

/// One operation on a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Empty for `Expire` of a whole group.
    pub name: String,
    /// Series of a group are replaced by those of the next run that names the group.
    pub group: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub action: Action,
}

/// What becomes of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A counter grows.
    Add(f64),
    /// A gauge is set.
    Set(f64),
    /// A histogram counts a value; the upper bounds of its buckets, in order.
    Observe(f64, Vec<f64>),
    /// The group's series go.
    Expire,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Debug)]
enum Sample {
    Number(f64),
    Histogram { bounds: Vec<f64>, counts: Vec<u64>, sum: f64, count: u64 },
}

type Labels = BTreeMap<String, String>;

#[derive(Debug)]
struct Family {
    kind: Kind,
    /// By group and labels.
    series: BTreeMap<(Option<String>, Labels), Sample>,
}

/// All metrics of all hooks.
#[derive(Debug, Default)]
pub struct HookMetrics {
    families: Mutex<BTreeMap<String, Family>>,
}

impl HookMetrics {
    /// Takes in the operations of one run, with labels that each series gets besides its own. The groups that they name are
    /// emptied first. Gives what could not be done.
    pub fn apply(&self, operations: &[Operation], labels: &[(&str, &str)]) -> Vec<String> {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let groups: BTreeSet<&String> = operations.iter().filter_map(|o| o.group.as_ref()).collect();
        for family in families.values_mut() {
            family.series.retain(|(group, _), _| !group.as_ref().is_some_and(|g| groups.contains(g)));
        }
        let mut total: usize = families.values().map(|f| f.series.len()).sum();
        let mut problems = Vec::new();
        for operation in operations {
            let (kind, number) = match &operation.action {
                Action::Expire => continue,
                Action::Add(n) => (Kind::Counter, *n),
                Action::Set(n) => (Kind::Gauge, *n),
                Action::Observe(n, _) => (Kind::Histogram, *n),
            };
            let name = &operation.name;
            let family =
                families.entry(name.clone()).or_insert_with(|| Family { kind, series: BTreeMap::new() });
            if family.series.is_empty() {
                family.kind = kind;
            }
            if family.kind != kind {
                problems.push(format!("metric {name} is a {}, not a {}", family.kind.name(), kind.name()));
                continue;
            }
            let mut all = operation.labels.clone();
            all.extend(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
            let key = (operation.group.clone(), all);
            if !family.series.contains_key(&key) {
                if total >= MAX_SERIES {
                    problems.push(format!("metric {name} is dropped: there are {MAX_SERIES} series already"));
                    continue;
                }
                total += 1;
            }
            let sample = family.series.entry(key).or_insert_with(|| new_sample(&operation.action));
            sample.take(kind, number);
        }
        families.retain(|_, family| !family.series.is_empty());
        problems
    }

    /// The text that a scrape gets.
    #[must_use]
    pub fn text(&self) -> String {
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        for (name, family) in families.iter() {
            out.push_str(&format!("# HELP {name} {name}\n# TYPE {name} {}\n", family.kind.name()));
            // A series of one group hides the same one of another: a scrape must not see both.
            let mut seen = BTreeSet::new();
            for ((_, labels), sample) in &family.series {
                if seen.insert(labels) {
                    sample.write(name, labels, &mut out);
                }
            }
        }
        out
    }
}

fn new_sample(action: &Action) -> Sample {
    match action {
        Action::Observe(_, bounds) => {
            Sample::Histogram { bounds: bounds.clone(), counts: vec![0; bounds.len()], sum: 0.0, count: 0 }
        }
        Action::Add(_) | Action::Set(_) | Action::Expire => Sample::Number(0.0),
    }
}

impl Sample {
    fn take(&mut self, kind: Kind, number: f64) {
        match self {
            Self::Number(value) if kind == Kind::Counter => *value += number,
            Self::Number(value) => *value = number,
            Self::Histogram { bounds, counts, sum, count } => {
                for (bound, count) in bounds.iter().zip(counts) {
                    *count += u64::from(number <= *bound);
                }
                *sum += number;
                *count += 1;
            }
        }
    }

    fn write(&self, name: &str, labels: &Labels, out: &mut String) {
        match self {
            Self::Number(value) => out.push_str(&format!("{name}{} {value}\n", shown(labels, None))),
            Self::Histogram { bounds, counts, sum, count } => {
                for (bound, count) in bounds.iter().zip(counts) {
                    let labels = shown(labels, Some(&bound.to_string()));
                    out.push_str(&format!("{name}_bucket{labels} {count}\n"));
                }
                out.push_str(&format!("{name}_bucket{} {count}\n", shown(labels, Some("+Inf"))));
                let labels = shown(labels, None);
                out.push_str(&format!("{name}_sum{labels} {sum}\n{name}_count{labels} {count}\n"));
            }
        }
    }
}

fn shown(labels: &Labels, bound: Option<&str>) -> String {
    let mut pairs: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    pairs.extend(bound.map(|b| ("le", b)));
    super::metrics::labels(&pairs)
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
