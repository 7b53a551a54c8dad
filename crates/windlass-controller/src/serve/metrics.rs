//! Windlass' own metrics, and those that front ends promise. A series exists from its first change.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::metric_store::{Change, MetricStore, labels};

/// The counters, gauges and histograms of the process.
#[derive(Debug, Default)]
pub struct Metrics {
    store: Mutex<MetricStore>,
}

impl Metrics {
    fn store(&self) -> MutexGuard<'_, MetricStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, name: &'static str, help: &'static str, pairs: &[(&str, &str)], change: Change<'_>) {
        let mut store = self.store();
        store.declare(name, change.kind(), help);
        if let Err(error) = store.change(name, None, labels(pairs), change) {
            tracing::debug!(%error, "metric not changed");
        }
    }

    /// Adds to a counter.
    pub fn add(&self, name: &'static str, help: &'static str, pairs: &[(&str, &str)], amount: f64) {
        self.change(name, help, pairs, Change::Add(amount));
    }

    /// Adds to a counter, unless it would be a new series and there are the most with its first label, or of the counter, already.
    /// `false`: it was not added.
    pub fn add_within(
        &self,
        name: &'static str,
        help: &'static str,
        pairs: &[(&str, &str)],
        amount: f64,
        most: (usize, usize),
    ) -> bool {
        let fits = self.store().has_room(name, labels(pairs), most);
        if fits {
            self.add(name, help, pairs, amount);
        }
        fits
    }

    /// Sets a gauge.
    pub fn set(&self, name: &'static str, help: &'static str, pairs: &[(&str, &str)], value: f64) {
        self.change(name, help, pairs, Change::Set(value));
    }

    /// Observes a value in a histogram with these upper bounds of buckets, ascending.
    pub fn observe(
        &self,
        name: &'static str,
        help: &'static str,
        pairs: &[(&str, &str)],
        value: f64,
        bounds: &[f64],
    ) {
        self.change(name, help, pairs, Change::Observe(value, bounds));
    }

    /// Removes a series.
    pub fn remove(&self, name: &'static str, pairs: &[(&str, &str)]) {
        self.store().remove(name, labels(pairs));
    }

    /// Removes all series with this first label.
    pub fn remove_starting_with(&self, name: &'static str, first: (&str, &str)) {
        self.store().remove_starting_with(name, labels(&[first]));
    }

    /// The text exposition of all series.
    #[must_use]
    pub fn text(&self) -> String {
        self.store().text()
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
        m.observe("h", "A histogram.", &[("kind", "A")], 0.2, &[0.1, 1.0]);
        assert!(m.text().contains("h_bucket{kind=\"A\",le=\"1\"} 1\n"), "{}", m.text());
        m.remove("h", &[("kind", "A")]);
        assert!(!m.text().contains("h_bucket"));
    }
}
