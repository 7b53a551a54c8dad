//! Which objects of a kind get another chart, and when. Pure.
//!
//! Owns the rule of a rollout: so many objects at a time, in a namespace none after the first that fails, and none at all once objects of two
//! namespaces have failed, or of the only one. Only objects that were ready before count: who may write an object may keep it from being
//! ready. Does not know how an object is upgraded.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::kind_chart::KindChart;
use super::loaded_chart::LoadedChart;
use windlass_base::redact::Masked;

/// How long an object may be upgraded before it counts as failed: it may be suspended or deleted meanwhile, or fail again and again.
const UPGRADED_WITHIN: Duration = Duration::from_secs(1800);

/// An object whose upgrade failed, with the reason.
pub(crate) type FailedObject = (String, Masked);

/// What the failures of a rollout hold up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RolloutFailures {
    /// The object whose namespace gets no further upgrades.
    pub(crate) paused: Option<FailedObject>,
    /// The object at which the rollout stopped, for all namespaces.
    pub(crate) stopped: Option<FailedObject>,
}

impl RolloutFailures {
    fn into_list(self) -> Vec<FailedObject> {
        self.paused.into_iter().chain(self.stopped).collect()
    }
}

/// The chart of a kind, on its way to the kind's objects.
#[derive(Debug)]
pub(crate) struct ChartRollout {
    /// The chart that objects are to have.
    pub(crate) chart: KindChart,
    /// The one before, if this process had it.
    previous: Option<LoadedChart>,
    /// Objects that may be unavailable at a time.
    max_unavailable: usize,
    /// Objects that were ready and are being upgraded to the chart, with the start of that. New ones, those that were not ready, and those
    /// that their own spec broke hold up nobody.
    running: BTreeMap<String, Instant>,
    /// Objects with another chart.
    waiting: BTreeSet<String>,
    /// The first object of each namespace whose upgrade failed, with the reason, in the order of the failures.
    failed: Vec<FailedObject>,
    /// Whether the kind has objects in several namespaces.
    is_shared: bool,
}

/// An object that asks for its turn, as its status says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RolloutCandidate<'c> {
    /// Digest of the chart that it has; empty if it has none yet.
    pub(crate) current: &'c str,
    /// Whether it is ready, if need be as its spec was before its last change.
    pub(crate) is_ready: bool,
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
            running: BTreeMap::new(),
            waiting: BTreeSet::new(),
            failed: Vec::new(),
            is_shared: false,
        }
    }

    /// The same, with the failures that a process before this one has noted.
    pub(crate) fn with_failures(self, failures: RolloutFailures) -> Self {
        Self { failed: failures.into_list(), ..self }
    }

    /// The failures, and what they hold up.
    pub(crate) fn failures(&self) -> RolloutFailures {
        let (first, last) = (self.failed.first().cloned(), self.failed.last().cloned());
        match self.is_stopped() {
            true => RolloutFailures { paused: first.filter(|_| self.failed.len() > 1), stopped: last },
            false => RolloutFailures { paused: first, stopped: None },
        }
    }

    /// Whether no object gets the chart any more: objects of two namespaces have failed, or of the only one.
    fn is_stopped(&self) -> bool {
        self.failed.len() >= if self.is_shared { 2 } else { 1 }
    }

    /// Whether a failure keeps the chart from an object.
    fn holds(&self, key: &str) -> bool {
        self.is_stopped() || self.failed.iter().any(|(failed, _)| namespace_of(failed) == namespace_of(key))
    }

    /// Notes whether the kind has objects in several namespaces. Returns the objects whose turn it is.
    pub(crate) fn note_shared(&mut self, is_shared: bool) -> Vec<String> {
        let differs = self.is_shared != is_shared;
        self.is_shared = is_shared;
        if differs { self.next() } else { Vec::new() }
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
            self.failed.clear();
        }
        true
    }

    /// What an object is to do.
    pub(crate) fn turn(&mut self, key: &str, candidate: RolloutCandidate<'_>) -> Turn {
        let RolloutCandidate { current, is_ready } = candidate;
        let chart = match &self.chart {
            KindChart::Loaded(chart) => chart.clone(),
            KindChart::Missing(missing) => return Turn::Stay(missing.why.clone()),
        };
        let has_failed = self.failed.iter().any(|(object, _)| object == key);
        let free = !self.holds(key) && self.running.len() < self.max_unavailable;
        if current.is_empty() || current == chart.digest || self.running.contains_key(key) {
            return Turn::Deploy(chart);
        }
        if has_failed || free {
            // One that was not ready is no less available during its upgrade.
            if is_ready {
                self.running.insert(key.to_owned(), Instant::now());
            }
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
        self.failed.retain(|(object, _)| object != key);
        self.next()
    }

    /// The upgrade of an object failed: no others of its namespace follow, or none at all. Nothing changes if it was not being upgraded, or
    /// was not ready before. Returns the objects whose turn it is.
    pub(crate) fn note_failed(&mut self, key: &str, reason: Masked) -> Vec<String> {
        if self.running.remove(key).is_none() {
            return Vec::new();
        }
        if !self.holds(key) {
            self.failed.push((key.to_owned(), reason));
        }
        self.next()
    }

    /// Objects whose upgrade takes too long count as failed. Returns the objects whose turn it is.
    pub(crate) fn end_late(&mut self, now: Instant) -> Vec<String> {
        let is_late = |since: &Instant| now.saturating_duration_since(*since) >= UPGRADED_WITHIN;
        let late = self.running.iter().filter(|(_, since)| is_late(since));
        let late: Vec<String> = late.map(|(key, _)| key.clone()).collect();
        let reason = || Masked::for_objects("its upgrade has not ended within 30 minutes");
        for key in &late {
            self.note_failed(key, reason());
        }
        if late.is_empty() { Vec::new() } else { self.next() }
    }

    /// A pass over an object failed before its release was touched, by what its own spec, annotations and rights say: its turn goes to others
    /// until it tries again. Returns the objects whose turn it is.
    pub(crate) fn yield_turn(&mut self, key: &str) -> Vec<String> {
        if self.running.remove(key).is_some() { self.next() } else { Vec::new() }
    }

    /// An object does not exist any more. Returns the objects whose turn it is.
    pub(crate) fn note_gone(&mut self, key: &str) -> Vec<String> {
        self.note_ready(key)
    }

    /// The objects whose turn it is.
    pub(crate) fn next(&self) -> Vec<String> {
        let places = self.max_unavailable.saturating_sub(self.running.len());
        self.waiting.iter().filter(|key| !self.holds(key)).take(places).cloned().collect()
    }
}

/// The namespace of an object, by its key.
pub(crate) fn namespace_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
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

    /// One that is ready with this chart.
    fn ready(current: &str) -> RolloutCandidate<'_> {
        RolloutCandidate { current, is_ready: true }
    }

    /// The object at which a rollout stopped, and the one whose namespace is held.
    fn held(rollout: &ChartRollout) -> (Option<String>, Option<String>) {
        let RolloutFailures { stopped, paused } = rollout.failures();
        (stopped.map(|(object, _)| object), paused.map(|(object, _)| object))
    }

    fn stopped_at(rollout: ChartRollout, object: &str) -> ChartRollout {
        let stopped = Some((object.to_owned(), masked("no")));
        rollout.with_failures(RolloutFailures { stopped, paused: None })
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
        assert_eq!(digest(&rollout.turn("a", ready(""))), "1");
        assert!(rollout.replace(chart("2"), 2) && !rollout.replace(chart("2"), 2));
        assert_eq!(digest(&rollout.turn("a", ready("1"))), "2");
        assert_eq!(digest(&rollout.turn("b", ready("1"))), "2");
        assert_eq!(digest(&rollout.turn("c", ready("1"))), "waits with its chart");
        assert_eq!(digest(&rollout.turn("d", ready("0"))), "waits");
        assert_eq!(digest(&rollout.turn("a", ready("1"))), "2", "its turn goes on");
        assert_eq!(digest(&rollout.turn("new", ready(""))), "2", "a new object upgrades nothing");
        assert_eq!(rollout.note_ready("a"), ["c"]);
        assert_eq!(digest(&rollout.turn("c", ready("1"))), "2");
        assert_eq!(rollout.note_gone("b"), ["d"]);
        rollout.note_failed("new", masked("its own spec"));
        assert_eq!(
            (digest(&rollout.turn("d", ready("1"))), held(&rollout)),
            ("2", (None, None)),
            "a new object holds up nobody"
        );
    }

    /// Whoever may write an object may break it: that does not hold up the objects of others.
    #[test]
    fn an_object_that_cannot_be_upgraded_yields_its_turn() {
        let mut rollout = ChartRollout::new(chart("1"), 1);
        rollout.replace(chart("2"), 1);
        assert_eq!(digest(&rollout.turn("a", ready("1"))), "2");
        assert_eq!(digest(&rollout.turn("b", ready("1"))), "waits with its chart");
        assert_eq!(rollout.yield_turn("a"), ["b"]);
        rollout.note_failed("a", masked("its annotations"));
        assert_eq!((digest(&rollout.turn("b", ready("1"))), held(&rollout)), ("2", (None, None)));
        assert_eq!(rollout.yield_turn("a"), [""; 0], "it has no turn to yield");
        assert_eq!(digest(&rollout.turn("a", ready("1"))), "waits with its chart", "it tries again behind b");
        assert_eq!(rollout.note_ready("b"), ["a"]);
    }

    #[test]
    fn objects_stay_until_the_chart_can_be_fetched() {
        let missing = |digest: &str, why: &str| MissingChart {
            name: "web".to_owned(),
            digest: digest.to_owned(),
            why: masked(why),
        };
        let mut rollout = stopped_at(ChartRollout::new(missing("1", "no server"), 1), "a");
        assert_eq!((rollout.chart.name(), rollout.chart.digest()), ("web", "1"));
        for current in ["", "1", "0"] {
            assert_eq!(digest(&rollout.turn("a", ready(current))), "no server");
        }
        assert!(rollout.replace(missing("1", "no route"), 1));
        assert_eq!(digest(&rollout.turn("a", ready("1"))), "no route");
        // The chart that was there before goes on.
        assert!(rollout.replace(chart("1"), 1) && held(&rollout).0.is_some());
        assert_eq!(digest(&rollout.turn("b", ready("1"))), "1");
        assert!(!rollout.replace(missing("1", "no server"), 1), "one that is there stays");
        assert_eq!(digest(&rollout.turn("b", ready("1"))), "1");
        let mut rollout = ChartRollout::new(missing("1", "no server"), 1);
        rollout.replace(chart("2"), 1);
        assert_eq!(digest(&rollout.turn("a", ready("1"))), "2");
        assert_eq!(digest(&rollout.turn("b", ready("1"))), "waits", "this process never had its chart");
    }

    #[test]
    fn the_first_failure_stops_it_until_that_object_is_ready() {
        let mut rollout = ChartRollout::new(chart("1"), 1);
        rollout.replace(chart("2"), 1);
        assert_eq!(digest(&rollout.turn("a", ready("1"))), "2");
        assert_eq!(digest(&rollout.turn("b", ready("1"))), "waits with its chart");
        rollout.note_failed("b", masked("not upgraded"));
        assert_eq!(held(&rollout), (None, None));
        rollout.note_failed("a", masked("refused"));
        assert_eq!(rollout.failures().stopped, Some(("a".to_owned(), masked("refused"))));
        assert_eq!(rollout.note_gone("c"), [""; 0]);
        assert_eq!(digest(&rollout.turn("b", ready("1"))), "waits with its chart");
        assert_eq!(digest(&rollout.turn("a", ready("1"))), "2", "its own retry goes on");
        assert_eq!(rollout.note_ready("a"), ["b"]);
        // Another chart is another rollout.
        assert_eq!(digest(&rollout.turn("b", ready("1"))), "2");
        rollout.note_failed("b", masked("refused"));
        rollout.replace(chart("2"), 1);
        assert!(held(&rollout).0.is_some(), "the same chart goes on");
        rollout.replace(chart("3"), 1);
        assert!(held(&rollout).0.is_none());
        let restarted = stopped_at(ChartRollout::new(chart("3"), 1), "a");
        assert!(held(&restarted).0.is_some());
    }

    /// A rollout of chart 2 to objects of several namespaces with chart 1.
    fn shared() -> ChartRollout {
        let mut rollout = ChartRollout::new(chart("1"), 1);
        rollout.note_shared(true);
        rollout.replace(chart("2"), 1);
        rollout
    }

    /// Whoever may write objects of one namespace may let them fail: that stops nobody else's upgrade.
    #[test]
    fn one_namespace_stops_no_rollout_of_others() {
        let mut rollout = shared();
        assert_eq!(digest(&rollout.turn("evil/a", ready("1"))), "2");
        for key in ["evil/b", "shop/a", "web/a"] {
            assert_eq!(digest(&rollout.turn(key, ready("1"))), "waits with its chart", "{key}");
        }
        assert_eq!(rollout.note_failed("evil/a", masked("refused")), ["shop/a"]);
        assert_eq!(held(&rollout), (None, Some("evil/a".to_owned())));
        assert_eq!(
            digest(&rollout.turn("evil/b", ready("1"))),
            "waits with its chart",
            "its namespace waits"
        );
        assert_eq!(digest(&rollout.turn("shop/a", ready("1"))), "2");
        assert_eq!(rollout.note_ready("shop/a"), ["web/a"]);
        assert_eq!(digest(&rollout.turn("web/a", ready("1"))), "2");
        // A second namespace: the chart is to blame. Another process knows both.
        assert_eq!(rollout.note_failed("web/a", masked("refused")), [""; 0]);
        assert_eq!(held(&rollout), (Some("web/a".to_owned()), Some("evil/a".to_owned())));
        let mut rollout = shared().with_failures(rollout.failures());
        assert_eq!(held(&rollout), (Some("web/a".to_owned()), Some("evil/a".to_owned())));
        assert_eq!(digest(&rollout.turn("shop/b", ready("1"))), "waits with its chart");
        assert_eq!(rollout.note_ready("web/a"), ["shop/b"]);
        // Without objects elsewhere one failure stops it, until there are some.
        assert_eq!((rollout.note_shared(false), held(&rollout).0), (Vec::new(), Some("evil/a".to_owned())));
        assert_eq!(rollout.note_shared(true), ["shop/b"]);
    }

    #[test]
    fn an_object_that_was_not_ready_before_holds_up_nobody() {
        let mut rollout = shared();
        let unready = RolloutCandidate { current: "1", is_ready: false };
        assert_eq!(digest(&rollout.turn("evil/a", unready)), "2");
        assert_eq!(digest(&rollout.turn("evil/b", unready)), "2", "it takes no place");
        assert_eq!(digest(&rollout.turn("shop/a", ready("1"))), "2");
        assert_eq!(rollout.note_failed("evil/a", masked("never ready")), [""; 0]);
        assert_eq!(held(&rollout), (None, None));
        assert_eq!(digest(&rollout.turn("evil/a", unready)), "waits with its chart", "no place is free");
        assert_eq!(rollout.note_ready("shop/a"), ["evil/a"]);
    }

    #[test]
    fn an_upgrade_that_does_not_end_counts_as_failed() {
        let mut rollout = shared();
        assert_eq!(digest(&rollout.turn("evil/a", ready("1"))), "2");
        assert_eq!(digest(&rollout.turn("shop/a", ready("1"))), "waits with its chart");
        assert_eq!(rollout.end_late(Instant::now()), [""; 0]);
        assert_eq!(rollout.end_late(Instant::now() + UPGRADED_WITHIN), ["shop/a"]);
        assert_eq!(held(&rollout), (None, Some("evil/a".to_owned())));
    }
}
