//! Metrics in Prometheus' text format 0.0.4.
//!
//! Written by hand: client libraries rewrite names (a `_total` suffix) that existing dashboards rely on.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What kind a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

#[derive(Debug)]
struct Family {
    kind: Kind,
    help: &'static str,
    /// Values by rendered labels, e.g. `{module="a"}`.
    series: BTreeMap<String, f64>,
}

/// All metrics of the process.
#[derive(Debug, Default)]
pub struct Metrics {
    families: Mutex<BTreeMap<&'static str, Family>>,
}

pub(super) fn labels(pairs: &[(&str, &str)]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let mut out = String::from("{");
    for (i, (name, value)) in pairs.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        out.push_str(&format!("{name}=\"{value}\""));
    }
    out.push('}');
    out
}

impl Metrics {
    fn change(
        &self,
        name: &'static str,
        kind: Kind,
        help: &'static str,
        pairs: &[(&str, &str)],
        f: impl FnOnce(&mut f64),
    ) {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let family = families.entry(name).or_insert_with(|| Family { kind, help, series: BTreeMap::new() });
        f(family.series.entry(labels(pairs)).or_insert(0.0));
    }

    /// Adds to a counter.
    pub fn add(&self, name: &'static str, help: &'static str, pairs: &[(&str, &str)], amount: f64) {
        self.change(name, Kind::Counter, help, pairs, |v| *v += amount);
    }

    /// Sets a gauge.
    pub fn set(&self, name: &'static str, help: &'static str, pairs: &[(&str, &str)], value: f64) {
        self.change(name, Kind::Gauge, help, pairs, |v| *v = value);
    }

    /// Drops a series.
    pub fn remove(&self, name: &'static str, pairs: &[(&str, &str)]) {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(family) = families.get_mut(name) {
            family.series.remove(&labels(pairs));
        }
    }

    /// The text that a scrape gets.
    #[must_use]
    pub fn text(&self) -> String {
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        for (name, family) in families.iter() {
            let kind = if family.kind == Kind::Counter { "counter" } else { "gauge" };
            out.push_str(&format!("# HELP {name} {}\n# TYPE {name} {kind}\n", family.help));
            for (labels, value) in &family.series {
                out.push_str(&format!("{name}{labels} {value}\n"));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    #[test]
    fn text_is_prometheus() {
        let m = Metrics::default();
        m.add("x_total", "Things.", &[("module", "a\"b\n")], 2.0);
        m.add("x_total", "Things.", &[("module", "a\"b\n")], 1.0);
        m.set("g", "A gauge.", &[], 0.5);
        assert_eq!(
            m.text(),
            "# HELP g A gauge.\n# TYPE g gauge\ng 0.5\n# HELP x_total Things.\n# TYPE x_total counter\n\
             x_total{module=\"a\\\"b\\n\"} 3\n"
        );
        m.remove("g", &[]);
        assert!(!m.text().contains("g 0.5"));
    }
}
