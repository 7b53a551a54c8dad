//! A kind that this process reconciles: its settings, its chart, and what its objects report.
//!
//! Owns what the front end of the objects and whoever registered the kind share: the rollout of the chart, requests of passes, and counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::chart_rollout::{ChartRollout, RolloutCandidate, RolloutFailures, Turn, namespace_of};
use super::kind_chart::KindChart;
use super::kind_settings::KindSettings;
use windlass_base::redact::Masked;

/// How far an object is, as its status says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectProgress {
    pub(crate) ready: bool,
    pub(crate) failed: bool,
    /// Digest of the chart that it has.
    pub(crate) chart_digest: String,
}

/// Numbers of objects of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectCounts {
    pub(crate) total: usize,
    pub(crate) ready: usize,
    pub(crate) failed: usize,
    /// Those that have the chart of the kind.
    pub(crate) updated: usize,
}

/// A kind, as front end and registration share it.
pub(crate) struct ServedKind {
    pub(crate) settings: KindSettings,
    rollout: Mutex<ChartRollout>,
    objects: Mutex<BTreeMap<String, ObjectProgress>>,
    requests: UnboundedSender<String>,
    requested: tokio::sync::Mutex<UnboundedReceiver<String>>,
    /// Counts and the failures of the rollout, as they were signalled last.
    changed: watch::Sender<KindState>,
}

/// What whoever registered the kind shows of it: counts, and the failures of the rollout.
type KindState = (ObjectCounts, RolloutFailures);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServedKind {
    pub(crate) fn new(settings: KindSettings, rollout: ChartRollout) -> Arc<Self> {
        let (requests, requested) = unbounded_channel();
        Arc::new(Self {
            settings,
            rollout: Mutex::new(rollout),
            objects: Mutex::default(),
            requests,
            requested: tokio::sync::Mutex::new(requested),
            changed: watch::Sender::new(KindState::default()),
        })
    }

    /// The next object that has to be reconciled: its turn has come.
    pub(crate) async fn next_request(&self) -> String {
        match self.requested.lock().await.recv().await {
            Some(key) => key,
            // The sender is this object's own.
            None => std::future::pending().await,
        }
    }

    fn request(&self, keys: Vec<String>) {
        for key in keys {
            // The receiver is this object's own.
            drop(self.requests.send(key));
        }
        let state = (self.counts(), self.failures());
        self.changed.send_if_modified(|known| {
            let differs = *known != state;
            *known = state;
            differs
        });
    }

    /// What an object is to do ([`ChartRollout::turn`]).
    pub(crate) fn turn(&self, key: &str, candidate: RolloutCandidate<'_>) -> Turn {
        let mut rollout = lock(&self.rollout);
        let late = rollout.end_late(Instant::now());
        let turn = rollout.turn(key, candidate);
        // One that takes no place leaves it to the next one.
        let next = if matches!(turn, Turn::Deploy(_)) { rollout.next() } else { late };
        drop(rollout);
        if !next.is_empty() {
            self.request(next);
        }
        turn
    }

    /// An object is ready with the chart of this digest.
    pub(crate) fn note_ready(&self, key: &str, chart_digest: &str) {
        let mut rollout = lock(&self.rollout);
        if rollout.chart.digest() != chart_digest {
            return;
        }
        let next = rollout.note_ready(key);
        drop(rollout);
        self.request(next);
    }

    /// The chart, whoever's turn it is.
    pub(crate) fn chart(&self) -> KindChart {
        lock(&self.rollout).chart.clone()
    }

    /// Whether the chart cannot be fetched.
    pub(crate) fn is_chart_missing(&self) -> bool {
        lock(&self.rollout).chart.is_missing()
    }

    /// The name of the chart.
    pub(crate) fn chart_name(&self) -> String {
        lock(&self.rollout).chart.name().to_owned()
    }

    /// The upgrade of an object failed. The reason is for readers of the ChartResource: its secrets are masked in the object's own pass.
    pub(crate) fn note_failed(&self, key: &str, reason: Masked) {
        let next = lock(&self.rollout).note_failed(key, reason);
        self.request(next);
    }

    /// A pass over an object failed before its release was touched.
    pub(crate) fn yield_turn(&self, key: &str) {
        let next = lock(&self.rollout).yield_turn(key);
        self.request(next);
    }

    /// Takes what the status of an object says.
    pub(crate) fn note_observed(&self, key: &str, progress: &ObjectProgress) {
        let before = lock(&self.objects).insert(key.to_owned(), progress.clone());
        if before.as_ref() == Some(progress) {
            return;
        }
        let next = if before.is_none() { self.note_namespaces() } else { Vec::new() };
        self.request(next);
    }

    pub(crate) fn note_gone(&self, key: &str) {
        lock(&self.objects).remove(key);
        self.note_namespaces();
        let next = lock(&self.rollout).note_gone(key);
        self.request(next);
    }

    /// Tells the rollout whether there are objects in several namespaces. Returns the objects whose turn it is.
    fn note_namespaces(&self) -> Vec<String> {
        let is_shared = {
            let objects = lock(&self.objects);
            // They are ordered by namespace.
            let (first, last) = (objects.keys().next(), objects.keys().next_back());
            first.map(|key| namespace_of(key)) != last.map(|key| namespace_of(key))
        };
        lock(&self.rollout).note_shared(is_shared)
    }
}

impl ServedKind {
    /// Begins the rollout of another chart, or lets one go on with another number of objects at a time. The same of both changes nothing.
    pub(crate) fn set_chart(&self, chart: KindChart, max_unavailable: usize) {
        let digest = chart.digest().to_owned();
        let was_missing = {
            let mut rollout = lock(&self.rollout);
            let was_missing = rollout.chart.is_missing();
            if !rollout.replace(chart, max_unavailable) {
                return;
            }
            was_missing
        };
        let keys = {
            let objects = lock(&self.objects);
            let differs = |progress: &ObjectProgress| was_missing || progress.chart_digest != digest;
            let others = objects.iter().filter(|(_, progress)| differs(progress));
            others.map(|(key, _)| key.clone()).collect()
        };
        self.request(keys);
    }

    /// The failures of the rollout, and what they hold up.
    pub(crate) fn failures(&self) -> RolloutFailures {
        lock(&self.rollout).failures()
    }

    pub(crate) fn counts(&self) -> ObjectCounts {
        let digest = lock(&self.rollout).chart.digest().to_owned();
        let objects = lock(&self.objects);
        let count = |fits: &dyn Fn(&ObjectProgress) -> bool| objects.values().filter(|one| fits(one)).count();
        ObjectCounts {
            total: objects.len(),
            ready: count(&|one| one.ready),
            failed: count(&|one| one.failed),
            updated: count(&|one| one.chart_digest == digest),
        }
    }

    /// Changes when counts or the rollout change.
    pub(crate) fn changes(&self) -> watch::Receiver<KindState> {
        self.changed.subscribe()
    }
}
