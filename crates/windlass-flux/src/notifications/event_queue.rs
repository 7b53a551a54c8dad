//! The queue between the front ends that record Events and the task that sends them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::flux_event::FluxEvent;
use windlass_cluster::ObjectMeta;
use windlass_controller::{EventNote, EventSink};

/// Most events that wait: later ones are dropped.
const MAX_WAITING: usize = 1024;

/// An event, and what else is known of its object.
#[derive(Clone, Debug)]
pub struct QueuedEvent {
    /// The event.
    pub event: FluxEvent,
    /// Labels of the object.
    pub labels: BTreeMap<String, String>,
}

/// Takes Events of Flux's objects, and never waits.
pub struct EventQueue {
    instance: String,
    sender: Sender<Arc<QueuedEvent>>,
}

impl EventQueue {
    /// A queue, and its end. `instance`: the name of this process in events.
    #[must_use]
    pub fn new(instance: &str) -> (Arc<Self>, Receiver<Arc<QueuedEvent>>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Arc::new(Self { instance: instance.to_owned(), sender }), receiver)
    }
}

impl EventSink for EventQueue {
    fn take(&self, object: &Value, note: &EventNote) {
        let Some(event) = FluxEvent::of(object, note, &self.instance, jiff::Timestamp::now()) else { return };
        let labels = ObjectMeta::of(object).labels();
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let involved = event.involved_object.to_string();
        let error = match self.sender.try_send(Arc::new(QueuedEvent { event, labels })) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => "the queue is full",
            Err(TrySendError::Closed(_)) => "the process stops",
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
        let object = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "a", "namespace": "n", "labels": {"team": "x"}},
        });
        let note = |text: String| EventNote {
            event_type: EventType::Normal,
            reason: "InstallSucceeded",
            action: "Reconcile",
            note: text,
            annotations: BTreeMap::new(),
        };
        for n in 0..MAX_WAITING + 5 {
            queue.take(&object, &note(n.to_string()));
        }
        let mut messages = Vec::new();
        while let Ok(queued) = receiver.try_recv() {
            assert_eq!(queued.labels["team"], "x");
            messages.push(queued.event.message.clone());
        }
        assert_eq!((messages.len(), messages[0].as_str(), messages[1023].as_str()), (1024, "0", "1023"));
    }
}
