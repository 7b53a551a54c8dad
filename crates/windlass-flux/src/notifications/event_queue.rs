//! The queue between the front ends that record Events and the task that sends them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::flux_event::{FluxEvent, memory_of_texts};
use super::waiting_places::{WaitingPlace, WaitingPlaces};
use windlass_cluster::ObjectMeta;
use windlass_controller::{EventNote, EventSink};

/// Most events that wait, in all and of one namespace: later ones are dropped.
const MAX_WAITING: usize = 1024;
const MAX_WAITING_OF_NAMESPACE: usize = MAX_WAITING / 2;
/// Most bytes of them: a message has up to 156 KB, and the annotations of an object have up to 256 KiB.
const MAX_BYTES: usize = 16 << 20;
const MAX_BYTES_OF_NAMESPACE: usize = MAX_BYTES / 2;

/// An event, and what else is known of its object.
#[derive(Debug)]
pub struct QueuedEvent {
    /// The event. Whoever needs it longer than its labels leaves its place to others.
    pub event: Arc<FluxEvent>,
    /// Labels of the object.
    pub labels: BTreeMap<String, String>,
    /// Its place among the waiting events.
    pub(super) _place: Option<WaitingPlace>,
}

/// Takes Events of Flux's objects, and never waits.
pub struct EventQueue {
    instance: String,
    sender: Sender<Arc<QueuedEvent>>,
    places: WaitingPlaces,
}

impl EventQueue {
    /// A queue, and its end. `instance`: the name of this process in events.
    #[must_use]
    pub fn new(instance: &str) -> (Arc<Self>, Receiver<Arc<QueuedEvent>>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let places =
            WaitingPlaces::new([MAX_WAITING, MAX_WAITING_OF_NAMESPACE], [MAX_BYTES, MAX_BYTES_OF_NAMESPACE]);
        (Arc::new(Self { instance: instance.to_owned(), sender, places }), receiver)
    }

    fn push(&self, event: FluxEvent, labels: BTreeMap<String, String>) -> Result<(), &'static str> {
        let bytes = event.memory() + memory_of_texts(&labels);
        let place = Some(self.places.take(&event.involved_object.namespace, bytes)?);
        let queued = QueuedEvent { event: Arc::new(event), labels, _place: place };
        self.sender.try_send(Arc::new(queued)).map_err(|error| match error {
            TrySendError::Full(_) => "the queue is full",
            TrySendError::Closed(_) => "the process stops",
        })
    }
}

impl EventSink for EventQueue {
    fn take(&self, object: &Value, note: &EventNote) {
        let Some(event) = FluxEvent::of(object, note, &self.instance, jiff::Timestamp::now()) else { return };
        let labels = ObjectMeta::of(object).labels();
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let involved = event.involved_object.to_string();
        if let Err(error) = self.push(event, labels) {
            tracing::warn!(object = involved, reason = note.reason, "an event is not sent: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use windlass_controller::EventType;

    fn object(namespace: &str) -> Value {
        json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "a", "namespace": namespace, "labels": {"team": "x"}},
        })
    }

    fn note(text: String) -> EventNote {
        EventNote {
            event_type: EventType::Normal,
            reason: "InstallSucceeded",
            action: "Reconcile",
            note: text,
            annotations: BTreeMap::new(),
        }
    }

    #[test]
    fn a_full_queue_drops_and_does_not_wait() {
        let (queue, mut receiver) = EventQueue::new("me");
        // One namespace has half of the places; all have no more than there are.
        for (namespace, count) in [("n", MAX_WAITING), ("m", 500), ("o", 500)] {
            (0..count).for_each(|n| queue.take(&object(namespace), &note(n.to_string())));
        }
        let mut waiting = BTreeMap::<String, Vec<String>>::new();
        while let Ok(queued) = receiver.try_recv() {
            assert_eq!(queued.labels["team"], "x");
            let namespace = queued.event.involved_object.namespace.clone();
            waiting.entry(namespace).or_default().push(queued.event.message.clone());
        }
        let counts = waiting.iter().map(|(namespace, messages)| (namespace.as_str(), messages.len()));
        assert_eq!(counts.collect::<Vec<_>>(), [("m", 500), ("n", 512), ("o", 12)]);
        assert_eq!((waiting["n"][0].as_str(), waiting["n"][511].as_str()), ("0", "511"));
        // A place is free again when its event is taken.
        queue.take(&object("n"), &note("after".to_owned()));
        assert_eq!(receiver.try_recv().unwrap().event.message, "after");
    }

    #[test]
    fn large_events_fill_the_queue_by_their_bytes() {
        let (queue, mut receiver) = EventQueue::new("me");
        let large = |namespace: &str| {
            let mut object = object(namespace);
            object["metadata"]["annotations"]["event.toolkit.fluxcd.io/note"] = "x".repeat(1 << 20).into();
            object
        };
        for namespace in ["n", "m", "o"] {
            (0..20).for_each(|n| queue.take(&large(namespace), &note(n.to_string())));
        }
        let mut taken = BTreeMap::<String, usize>::new();
        let mut waiting = Vec::new();
        while let Ok(queued) = receiver.try_recv() {
            *taken.entry(queued.event.involved_object.namespace.clone()).or_default() += 1;
            waiting.push(queued);
        }
        // Each takes a little more than 1 MiB: of 8 MiB 7 of them, and of the third namespace as many as fit in 16 MiB.
        let taken: Vec<_> = taken.into_iter().collect();
        assert_eq!(taken, [("m".to_owned(), 7), ("n".to_owned(), 7), ("o".to_owned(), 1)]);
        drop(waiting);
        queue.take(&large("n"), &note("after".to_owned()));
        assert_eq!(receiver.try_recv().unwrap().event.message, "after");
    }
}
