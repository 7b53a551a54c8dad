//! Metric families with their series, and their text exposition.
//!
//! Owns the series, their number and their operations. The `prometheus` crate encodes them (text format 0.0.4). Knows no metric
//! names. Does not use the crate's registry, which has no groups, while the names of hook metrics are known only at run time.

use std::collections::{BTreeMap, BTreeSet};

use prometheus::TextEncoder;
use prometheus::proto;

/// Maximal number of series in one store: hooks, files on disk and the cluster choose labels, and memory is limited.
pub(super) const MAX_SERIES: usize = 100_000;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// One change of one series.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'c> {
    /// Adds to a counter.
    Add(f64),
    /// Sets a gauge.
    Set(f64),
    /// Observes a value in a histogram with these upper bucket bounds, in ascending order. The first change of a series
    /// determines its bounds.
    Observe(f64, &'c [f64]),
}

/// Names and values of labels, in the order of the exposition.
pub(super) type Labels = Vec<(String, String)>;

/// The reason why a change was rejected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoreError {
    #[error("metric {0} is not declared")]
    Undeclared(String),
    #[error("metric {name} is a {}, not a {}", .declared.name(), .changed.name())]
    Kind { name: String, declared: Kind, changed: Kind },
    #[error("metric {0} is dropped: there are {MAX_SERIES} series already")]
    Full(String),
}

#[derive(Debug)]
enum Sample {
    Number(f64),
    Histogram { bounds: Vec<f64>, counts: Vec<u64>, sum: f64, count: u64 },
}

#[derive(Debug)]
struct Family {
    kind: Kind,
    help: String,
    /// Series by group and labels.
    series: BTreeMap<(Option<String>, Labels), Sample>,
}

/// Metric families by name. Not synchronized: each owner has its own lock.
#[derive(Debug, Default)]
pub(super) struct MetricStore {
    families: BTreeMap<String, Family>,
    /// The number of series of all families.
    total: usize,
}

/// Labels of a series, owned.
pub(super) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl MetricStore {
    /// Adds a family. A family with series is not changed; one without gets the new kind.
    pub(super) fn declare(&mut self, name: &str, kind: Kind, help: &str) {
        if let Some(family) = self.families.get_mut(name) {
            if family.series.is_empty() {
                family.kind = kind;
            }
            return;
        }
        let family = Family { kind, help: help.to_owned(), series: BTreeMap::new() };
        self.families.insert(name.to_owned(), family);
    }

    /// Changes a series of a declared family. A new series starts at zero.
    pub(super) fn change(
        &mut self,
        name: &str,
        group: Option<&str>,
        labels: Labels,
        change: Change<'_>,
    ) -> Result<(), StoreError> {
        let Some(family) = self.families.get_mut(name) else {
            return Err(StoreError::Undeclared(name.to_owned()));
        };
        if family.kind != change.kind() {
            let (declared, changed) = (family.kind, change.kind());
            return Err(StoreError::Kind { name: name.to_owned(), declared, changed });
        }
        let key = (group.map(str::to_owned), labels);
        if let Some(sample) = family.series.get_mut(&key) {
            sample.apply(change);
            return Ok(());
        }
        if self.total >= MAX_SERIES {
            return Err(StoreError::Full(name.to_owned()));
        }
        self.total += 1;
        let mut sample = Sample::new(change);
        sample.apply(change);
        family.series.insert(key, sample);
        Ok(())
    }

    /// Removes a series without a group.
    pub(super) fn remove(&mut self, name: &str, labels: Labels) {
        let family = self.families.get_mut(name);
        if family.and_then(|f| f.series.remove(&(None, labels))).is_some() {
            self.total -= 1;
        }
    }

    /// Whether a series without a group exists, or fewer than `of_label` with its first label and `of_all` of the family do.
    pub(super) fn has_room(&self, name: &str, labels: Labels, (of_label, of_all): (usize, usize)) -> bool {
        let Some(family) = self.families.get(name) else { return true };
        let first: Labels = labels.iter().take(1).cloned().collect();
        let others = family.starting_with(first).take(of_label).count();
        (others < of_label && family.series.len() < of_all) || family.series.contains_key(&(None, labels))
    }

    /// Removes all series without a group that have this first label.
    pub(super) fn remove_starting_with(&mut self, name: &str, first: Labels) {
        let Some(family) = self.families.get_mut(name) else { return };
        let keys: Vec<_> = family.starting_with(first).cloned().collect();
        for key in &keys {
            family.series.remove(key);
        }
        self.total -= keys.len();
    }

    /// Removes all series of a family, but keeps the family.
    pub(super) fn clear(&mut self, name: &str) {
        if let Some(family) = self.families.get_mut(name) {
            self.total -= family.series.len();
            family.series.clear();
        }
    }

    /// Removes all series of groups, but keeps their families.
    pub(super) fn expire(&mut self, groups: &BTreeSet<&str>) {
        for family in self.families.values_mut() {
            family.series.retain(|(group, _), _| !group.as_deref().is_some_and(|g| groups.contains(g)));
        }
        self.total = self.families.values().map(|f| f.series.len()).sum();
    }

    /// Removes families without series.
    pub(super) fn prune(&mut self) {
        self.families.retain(|_, family| !family.series.is_empty());
    }

    /// The text exposition of all series.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for (name, family) in &self.families {
            if family.series.is_empty() {
                // The encoder rejects families without series, but addon-operator lists its metrics from the start.
                let (help, kind) = (&family.help, family.kind.name());
                out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
            } else if let Err(error) = TextEncoder::new().encode_utf8(&[family.encoded(name)], &mut out) {
                tracing::error!(metric = name, %error, "metric cannot be encoded");
            }
        }
        out
    }
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

impl Change<'_> {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Add(_) => Kind::Counter,
            Self::Set(_) => Kind::Gauge,
            Self::Observe(..) => Kind::Histogram,
        }
    }
}

impl Family {
    /// The keys of the series without a group that have this first label: they follow each other.
    fn starting_with(&self, first: Labels) -> impl Iterator<Item = &(Option<String>, Labels)> {
        let label = first.first().cloned();
        let all = self.series.range((None, first)..).map(|(key, _)| key);
        all.take_while(move |(group, labels)| group.is_none() && labels.first() == label.as_ref())
    }

    fn encoded(&self, name: &str) -> proto::MetricFamily {
        let mut family = proto::MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(self.help.clone());
        family.set_field_type(match self.kind {
            Kind::Counter => proto::MetricType::COUNTER,
            Kind::Gauge => proto::MetricType::GAUGE,
            Kind::Histogram => proto::MetricType::HISTOGRAM,
        });
        // Two groups can have the same labels; a scrape must not contain a series twice.
        let mut seen = BTreeSet::new();
        let series = self.series.iter().filter(|((_, labels), _)| seen.insert(labels));
        family.set_metric(series.map(|((_, labels), sample)| sample.encoded(self.kind, labels)).collect());
        family
    }
}

impl Sample {
    fn new(change: Change<'_>) -> Self {
        match change {
            Change::Add(_) | Change::Set(_) => Self::Number(0.0),
            Change::Observe(_, bounds) => {
                Self::Histogram { bounds: bounds.to_vec(), counts: vec![0; bounds.len()], sum: 0.0, count: 0 }
            }
        }
    }

    fn apply(&mut self, change: Change<'_>) {
        match (self, change) {
            (Self::Number(value), Change::Add(amount)) => *value += amount,
            (Self::Number(value), Change::Set(number) | Change::Observe(number, _)) => *value = number,
            (
                Self::Histogram { bounds, counts, sum, count },
                Change::Add(number) | Change::Set(number) | Change::Observe(number, _),
            ) => {
                for (bound, count) in bounds.iter().zip(counts) {
                    *count += u64::from(number <= *bound);
                }
                *sum += number;
                *count += 1;
            }
        }
    }

    fn encoded(&self, kind: Kind, labels: &Labels) -> proto::Metric {
        let label = |(name, value): &(String, String)| {
            let mut pair = proto::LabelPair::default();
            pair.set_name(name.clone());
            pair.set_value(value.clone());
            pair
        };
        let mut metric = proto::Metric::from_label(labels.iter().map(label).collect());
        match self {
            Self::Number(value) if kind == Kind::Counter => {
                let mut counter = proto::Counter::default();
                counter.set_value(*value);
                metric.set_counter(counter);
            }
            Self::Number(value) => {
                let mut gauge = proto::Gauge::default();
                gauge.set_value(*value);
                metric.set_gauge(gauge);
            }
            Self::Histogram { bounds, counts, sum, count } => {
                let bucket = |(bound, count): (&f64, &u64)| {
                    let mut bucket = proto::Bucket::default();
                    bucket.set_upper_bound(*bound);
                    bucket.set_cumulative_count(*count);
                    bucket
                };
                let mut histogram = proto::Histogram::default();
                histogram.set_bucket(bounds.iter().zip(counts).map(bucket).collect());
                histogram.set_sample_sum(*sum);
                histogram.set_sample_count(*count);
                metric.set_histogram(histogram);
            }
        }
        metric
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, pairs: &[(&str, &str)], change: Change<'_>) -> String {
        let mut store = MetricStore::default();
        store.declare(name, change.kind(), "Help.");
        store.change(name, None, labels(pairs), change).unwrap();
        store.text()
    }

    #[test]
    fn names_labels_and_numbers_are_written_unchanged() {
        for name in ["x", "foo", "foo_total", "a:b"] {
            let want = format!("# HELP {name} Help.\n# TYPE {name} counter\n{name} 1\n");
            assert_eq!(text(name, &[], Change::Add(1.0)), want);
        }
        let pairs = [("z", "q\"\\\n"), ("a", "é")];
        let want = "# HELP g Help.\n# TYPE g gauge\ng{z=\"q\\\"\\\\\\n\",a=\"é\"} 0.5\n";
        assert_eq!(text("g", &pairs, Change::Set(0.5)), want);
        let numbers = [(1.0, "1"), (f64::NAN, "NaN"), (1e21, "1000000000000000000000"), (1e-7, "0.0000001")];
        for (number, want) in numbers {
            assert_eq!(
                text("g", &[], Change::Set(number)),
                format!("# HELP g Help.\n# TYPE g gauge\ng {want}\n")
            );
        }
    }

    #[test]
    fn families_without_series_are_listed() {
        let mut store = MetricStore::default();
        store.declare("g", Kind::Gauge, "Help.");
        assert_eq!(store.text(), "# HELP g Help.\n# TYPE g gauge\n");
        let undeclared = store.change("x", None, Labels::new(), Change::Set(1.0));
        assert_eq!(undeclared, Err(StoreError::Undeclared("x".to_owned())));
    }

    #[test]
    fn one_series_of_two_groups_is_written_once() {
        let mut store = MetricStore::default();
        store.declare("g", Kind::Gauge, "Help.");
        for (group, value) in [("b", 2.0), ("a", 1.0)] {
            store.change("g", Some(group), labels(&[("x", "y")]), Change::Set(value)).unwrap();
        }
        assert_eq!(store.text(), "# HELP g Help.\n# TYPE g gauge\ng{x=\"y\"} 1\n");
        store.expire(&BTreeSet::from(["a"]));
        assert_eq!(store.text(), "# HELP g Help.\n# TYPE g gauge\ng{x=\"y\"} 2\n");
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let mut store = MetricStore::default();
        let add = |store: &mut MetricStore, name: &str, group: Option<&str>, value: &str| {
            store.declare(name, Kind::Counter, "Help.");
            store.change(name, group, labels(&[("x", value)]), Change::Add(1.0))
        };
        for number in 0..MAX_SERIES - 3 {
            add(&mut store, "many", None, &number.to_string()).unwrap();
        }
        add(&mut store, "cleared", None, "1").unwrap();
        add(&mut store, "removed", None, "1").unwrap();
        add(&mut store, "expired", Some("g"), "1").unwrap();
        let full = Err(StoreError::Full("more".to_owned()));
        assert_eq!(add(&mut store, "more", None, "0"), full);
        assert_eq!(add(&mut store, "many", None, "0"), Ok(()), "a series that is there still grows");
        // Each removed series makes room for a new one.
        let steps: [&dyn Fn(&mut MetricStore); 3] = [
            &|store| store.clear("cleared"),
            &|store| store.remove("removed", labels(&[("x", "1")])),
            &|store| store.expire(&BTreeSet::from(["g"])),
        ];
        for (number, step) in steps.iter().enumerate() {
            step(&mut store);
            assert_eq!(add(&mut store, "more", None, &format!("a{number}")), Ok(()));
            assert_eq!(add(&mut store, "more", None, &format!("b{number}")), full);
        }
    }
}
