//! Which objects of a kind get another chart, and when. Pure.
//!
//! Owns the rule of a rollout: so many objects at a time, and none after the first that fails. Does not know how an object is upgraded.

use std::collections::BTreeSet;

use super::kind_chart::KindChart;
use super::loaded_chart::LoadedChart;
use windlass_base::redact::Masked;

/// The chart of a kind, on its way to the kind's objects.
#[derive(Debug)]
pub(crate) struct ChartRollout {
    /// The chart that objects are to have.
    pub(crate) chart: KindChart,
    /// The one before, if this process had it.
    previous: Option<LoadedChart>,
    /// Objects that may be unavailable at a time.
    max_unavailable: usize,
    /// Objects that are being upgraded to the chart. New ones, and those that their own spec broke, hold up nobody.
    running: BTreeSet<String>,
    /// Objects with another chart.
    waiting: BTreeSet<String>,
    /// The object at which the rollout stopped, with the reason.
    stopped: Option<(String, Masked)>,
}

/// What an object is to do.
#[derive(Debug)]
pub(crate) enum Turn {
    /// To have this chart.
    Deploy(LoadedChart),
    /// To stay at the chart that it has: this one, if this process has it.
    Wait(Option<LoadedChart>),
    /// To stay as it is: the chart cannot be fetched, for this reason.
    Stay(Masked),
}

impl ChartRollout {
    /// The rollout of a chart.
    pub(crate) fn new(chart: impl Into<KindChart>, max_unavailable: usize) -> Self {
        Self {
            chart: chart.into(),
            previous: None,
            max_unavailable: max_unavailable.max(1),
            running: BTreeSet::new(),
            waiting: BTreeSet::new(),
            stopped: None,
        }
    }

    /// The same, stopped at an object as a process before this one has noted it.
    pub(crate) fn stopped_at(self, stopped: Option<(String, Masked)>) -> Self {
        Self { stopped, ..self }
    }

    /// The object at which it stopped, with the reason.
    pub(crate) fn stop(&self) -> Option<&(String, Masked)> {
        self.stopped.as_ref()
    }

    /// Begins the rollout of a chart in place of this one; one with the same digest goes on. One that cannot be fetched replaces none that
    /// is there. Whether chart or number are others.
    pub(crate) fn replace(&mut self, chart: impl Into<KindChart>, max_unavailable: usize) -> bool {
        let before = std::mem::replace(&mut self.max_unavailable, max_unavailable.max(1));
        let chart = chart.into();
        let differs = chart.digest() != self.chart.digest();
        match (&self.chart, &chart) {
            (KindChart::Loaded(_), KindChart::Missing(_)) => return before != self.max_unavailable,
            (KindChart::Loaded(_), KindChart::Loaded(_)) if !differs => {
                return before != self.max_unavailable;
            }
            _ => {}
        }
        if let KindChart::Loaded(previous) = std::mem::replace(&mut self.chart, chart) {
            self.previous = Some(previous);
        }
        if differs {
            self.running.clear();
            self.waiting.clear();
            self.stopped = None;
        }
        true
    }

    /// What an object is to do. `current`: the digest of the chart that it has; empty if it has none yet.
    pub(crate) fn turn(&mut self, key: &str, current: &str) -> Turn {
        let chart = match &self.chart {
            KindChart::Loaded(chart) => chart.clone(),
            KindChart::Missing(missing) => return Turn::Stay(missing.why.clone()),
        };
        let stopped_here = self.stopped.as_ref().is_some_and(|(object, _)| object == key);
        let free = self.stopped.is_none() && self.running.len() < self.max_unavailable;
        if current.is_empty() || current == chart.digest || self.running.contains(key) {
            return Turn::Deploy(chart);
        }
        if stopped_here || free {
            self.running.insert(key.to_owned());
            self.waiting.remove(key);
            return Turn::Deploy(chart);
        }
        self.waiting.insert(key.to_owned());
        Turn::Wait(self.previous.clone().filter(|previous| previous.digest == current))
    }

    /// An object has the chart and is ready. Returns the objects whose turn it is.
    pub(crate) fn note_ready(&mut self, key: &str) -> Vec<String> {
        self.running.remove(key);
        self.waiting.remove(key);
        self.stopped.take_if(|(object, _)| object == key);
        self.next()
    }

    /// The upgrade of an object failed: no others follow. Nothing changes if it was not being upgraded.
    pub(crate) fn note_failed(&mut self, key: &str, reason: Masked) {
        if self.running.remove(key) && self.stopped.is_none() {
            self.stopped = Some((key.to_owned(), reason));
        }
    }

    /// A pass over an object failed before its release was touched, by what its own spec, annotations and rights say: its turn goes to others
    /// until it tries again. Returns the objects whose turn it is.
    pub(crate) fn yield_turn(&mut self, key: &str) -> Vec<String> {
        if self.running.remove(key) { self.next() } else { Vec::new() }
    }

    /// An object does not exist any more. Returns the objects whose turn it is.
    pub(crate) fn note_gone(&mut self, key: &str) -> Vec<String> {
        self.note_ready(key)
    }

    /// The objects whose turn it is.
    fn next(&self) -> Vec<String> {
        if self.stopped.is_some() {
            return Vec::new();
        }
        let places = self.max_unavailable.saturating_sub(self.running.len());
        self.waiting.iter().take(places).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind_chart::MissingChart;

    fn masked(text: &str) -> Masked {
        Masked::for_objects(text)
    }

    fn chart(digest: &str) -> LoadedChart {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n")
            .unwrap();
        LoadedChart { digest: digest.to_owned(), ..LoadedChart::of_path(root.path()).unwrap() }
    }

    fn digest(turn: &Turn) -> &str {
        match turn {
            Turn::Deploy(chart) => &chart.digest,
            Turn::Wait(Some(_)) => "waits with its chart",
            Turn::Wait(None) => "waits",
            Turn::Stay(why) => why.as_str(),
        }
    }

    #[test]
    fn objects_follow_one_another() {
        let mut rollout = ChartRollout::new(chart("1"), 1);
        assert_eq!(digest(&rollout.turn("a", "")), "1");
        assert!(rollout.replace(chart("2"), 2) && !rollout.replace(chart("2"), 2));
        assert_eq!(digest(&rollout.turn("a", "1")), "2");
        assert_eq!(digest(&rollout.turn("b", "1")), "2");
        assert_eq!(digest(&rollout.turn("c", "1")), "waits with its chart");
        assert_eq!(digest(&rollout.turn("d", "0")), "waits");
        assert_eq!(digest(&rollout.turn("a", "1")), "2", "its turn goes on");
        assert_eq!(digest(&rollout.turn("new", "")), "2", "a new object upgrades nothing");
        assert_eq!(rollout.note_ready("a"), ["c"]);
        assert_eq!(digest(&rollout.turn("c", "1")), "2");
        assert_eq!(rollout.note_gone("b"), ["d"]);
        rollout.note_failed("new", masked("its own spec"));
        assert_eq!(
            (digest(&rollout.turn("d", "1")), rollout.stop()),
            ("2", None),
            "a new object holds up nobody"
        );
    }

    /// Whoever may write an object may break it: that does not hold up the objects of others.
    #[test]
    fn an_object_that_cannot_be_upgraded_yields_its_turn() {
        let mut rollout = ChartRollout::new(chart("1"), 1);
        rollout.replace(chart("2"), 1);
        assert_eq!(digest(&rollout.turn("a", "1")), "2");
        assert_eq!(digest(&rollout.turn("b", "1")), "waits with its chart");
        assert_eq!(rollout.yield_turn("a"), ["b"]);
        rollout.note_failed("a", masked("its annotations"));
        assert_eq!((digest(&rollout.turn("b", "1")), rollout.stop()), ("2", None));
        assert_eq!(rollout.yield_turn("a"), [""; 0], "it has no turn to yield");
        assert_eq!(digest(&rollout.turn("a", "1")), "waits with its chart", "it tries again behind b");
        assert_eq!(rollout.note_ready("b"), ["a"]);
    }

    #[test]
    fn objects_stay_until_the_chart_can_be_fetched() {
        let missing = |digest: &str, why: &str| MissingChart {
            name: "web".to_owned(),
            digest: digest.to_owned(),
            why: masked(why),
        };
        let mut rollout =
            ChartRollout::new(missing("1", "no server"), 1).stopped_at(Some(("a".into(), masked("no"))));
        assert_eq!((rollout.chart.name(), rollout.chart.digest()), ("web", "1"));
        for current in ["", "1", "0"] {
            assert_eq!(digest(&rollout.turn("a", current)), "no server");
        }
        assert!(rollout.replace(missing("1", "no route"), 1));
        assert_eq!(digest(&rollout.turn("a", "1")), "no route");
        // The chart that was there before goes on.
        assert!(rollout.replace(chart("1"), 1) && rollout.stop().is_some());
        assert_eq!(digest(&rollout.turn("b", "1")), "1");
        assert!(!rollout.replace(missing("1", "no server"), 1), "one that is there stays");
        assert_eq!(digest(&rollout.turn("b", "1")), "1");
        let mut rollout = ChartRollout::new(missing("1", "no server"), 1);
        rollout.replace(chart("2"), 1);
        assert_eq!(digest(&rollout.turn("a", "1")), "2");
        assert_eq!(digest(&rollout.turn("b", "1")), "waits", "this process never had its chart");
    }

    #[test]
    fn the_first_failure_stops_it_until_that_object_is_ready() {
        let mut rollout = ChartRollout::new(chart("1"), 1);
        rollout.replace(chart("2"), 1);
        assert_eq!(digest(&rollout.turn("a", "1")), "2");
        assert_eq!(digest(&rollout.turn("b", "1")), "waits with its chart");
        rollout.note_failed("b", masked("not upgraded"));
        assert_eq!(rollout.stop(), None);
        rollout.note_failed("a", masked("refused"));
        assert_eq!(rollout.stop(), Some(&("a".to_owned(), masked("refused"))));
        assert_eq!(rollout.note_gone("c"), [""; 0]);
        assert_eq!(digest(&rollout.turn("b", "1")), "waits with its chart");
        assert_eq!(digest(&rollout.turn("a", "1")), "2", "its own retry goes on");
        assert_eq!(rollout.note_ready("a"), ["b"]);
        // Another chart is another rollout.
        assert_eq!(digest(&rollout.turn("b", "1")), "2");
        rollout.note_failed("b", masked("refused"));
        rollout.replace(chart("2"), 1);
        assert!(rollout.stop().is_some(), "the same chart goes on");
        rollout.replace(chart("3"), 1);
        assert!(rollout.stop().is_none());
        let restarted = ChartRollout::new(chart("3"), 1).stopped_at(Some(("a".to_owned(), masked("no"))));
        assert!(restarted.stop().is_some());
    }
}
