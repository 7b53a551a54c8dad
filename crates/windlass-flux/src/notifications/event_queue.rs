//! The queue between the front ends that record Events and the task that sends them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::flux_event::FluxEvent;
use windlass_base::namespace_semaphores::NamespaceSemaphores;
use windlass_cluster::ObjectMeta;
use windlass_controller::{EventNote, EventSink};

/// Most events that wait, in all and of one namespace: later ones are dropped.
const MAX_WAITING: usize = 1024;
const MAX_WAITING_OF_NAMESPACE: usize = MAX_WAITING / 2;

/// An event, and what else is known of its object.
#[derive(Debug)]
pub struct QueuedEvent {
    /// The event.
    pub event: FluxEvent,
    /// Labels of the object.
    pub labels: BTreeMap<String, String>,
    /// Its place among the waiting events of its namespace.
    pub(super) _place: Option<OwnedSemaphorePermit>,
}

/// Takes Events of Flux's objects, and never waits.
pub struct EventQueue {
    instance: String,
    sender: Sender<Arc<QueuedEvent>>,
    of_namespace: NamespaceSemaphores,
}

impl EventQueue {
    /// A queue, and its end. `instance`: the name of this process in events.
    #[must_use]
    pub fn new(instance: &str) -> (Arc<Self>, Receiver<Arc<QueuedEvent>>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let of_namespace = NamespaceSemaphores::new(MAX_WAITING_OF_NAMESPACE);
        (Arc::new(Self { instance: instance.to_owned(), sender, of_namespace }), receiver)
    }
}

impl EventSink for EventQueue {
    fn take(&self, object: &Value, note: &EventNote) {
        let Some(event) = FluxEvent::of(object, note, &self.instance, jiff::Timestamp::now()) else { return };
        let labels = ObjectMeta::of(object).labels();
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let involved = event.involved_object.to_string();
        let place = self.of_namespace.of(&event.involved_object.namespace).try_acquire_owned();
        let error = match place {
            Ok(place) => {
                match self.sender.try_send(Arc::new(QueuedEvent { event, labels, _place: Some(place) })) {
                    Ok(()) => return,
                    Err(TrySendError::Full(_)) => "the queue is full",
                    Err(TrySendError::Closed(_)) => "the process stops",
                }
            }
            Err(_) => "too many of its namespace wait",
        };
        tracing::warn!(object = involved, reason = note.reason, "an event is not sent: {error}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use windlass_controller::EventType;

    #[test]
    fn a_full_queue_drops_and_does_not_wait() {
        let (queue, mut receiver) = EventQueue::new("me");
        let object = |namespace: &str| {
            json!({
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
                "metadata": {"name": "a", "namespace": namespace, "labels": {"team": "x"}},
            })
        };
        let note = |text: String| EventNote {
            event_type: EventType::Normal,
            reason: "InstallSucceeded",
            action: "Reconcile",
            note: text,
            annotations: BTreeMap::new(),
        };
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
}
