//! Whether events pass the expressions of Alerts: beside the task that sends them, so that no Alert stops those of other namespaces.
//!
//! Owns how many events are looked at and wait for that. What an expression is, `message_filter` knows; what is done with an event that
//! passes, the dispatcher does.

use std::sync::Arc;

use futures::FutureExt as _;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::task::JoinSet;

use super::super::error::FluxError;
use super::alert_matching::Problem;
use super::flux_event::FluxEvent;
use super::message_filter::MessageFilters;
use super::waiting_places::{WaitingPlace, WaitingPlaces};
use flux_api::alert::AlertSpec;
use windlass_base::cel_expression::off_runtime;
use windlass_base::namespace_places::NamespacePlaces;
use windlass_cluster::ObjectRef;

/// Most events that are looked at, in all and for the Alerts of one namespace, which are looked at one after the other.
const MAX_AT_ONCE: usize = 4;
const MAX_AT_ONCE_OF_NAMESPACE: usize = 1;
/// Most events that wait for that or are looked at, in all and for the Alerts of one namespace, and their bytes.
const MAX_WAITING: usize = 4096;
const MAX_WAITING_OF_NAMESPACE: usize = MAX_WAITING / 8;
const MAX_BYTES: usize = 32 << 20;
const MAX_BYTES_OF_NAMESPACE: usize = MAX_BYTES / 8;

/// An Alert that an event is for, as far as its expressions let the event pass.
pub(super) struct FilteredAlert {
    /// Its name.
    pub(super) name: ObjectRef,
    /// The Alert as it was when the event came.
    pub(super) object: Arc<Value>,
    /// Whether the event passes.
    pub(super) admitted: bool,
    /// What is wrong with the Alert.
    pub(super) problems: Vec<Problem>,
}

impl FilteredAlert {
    /// An Alert whose expressions have not been looked at, or that has none.
    pub(super) fn new(name: ObjectRef, object: Arc<Value>) -> Self {
        Self { name, object, admitted: true, problems: Vec::new() }
    }
}

/// An event with the Alerts of a namespace.
pub(super) struct FilteredEvent {
    /// The event.
    pub(super) event: Arc<FluxEvent>,
    /// The Alerts.
    pub(super) alerts: Vec<FilteredAlert>,
}

/// The events that are looked at.
pub(super) struct EventFiltering {
    filters: Arc<MessageFilters>,
    waiting: WaitingPlaces,
    at_once: Arc<NamespacePlaces>,
    tasks: JoinSet<FilteredEvent>,
}

impl Default for EventFiltering {
    fn default() -> Self {
        Self {
            filters: Arc::default(),
            waiting: WaitingPlaces::new(
                [MAX_WAITING, MAX_WAITING_OF_NAMESPACE],
                [MAX_BYTES, MAX_BYTES_OF_NAMESPACE],
            ),
            at_once: Arc::new(NamespacePlaces::new(MAX_AT_ONCE, MAX_AT_ONCE_OF_NAMESPACE)),
            tasks: JoinSet::new(),
        }
    }
}

impl EventFiltering {
    /// A place for an event that is to be looked at for the Alerts of a namespace; else why there is none.
    pub(super) fn place(&self, namespace: &str, event: &FluxEvent) -> Result<WaitingPlace, FluxError> {
        let place = self.waiting.take(namespace, event.memory());
        place.map_err(|why| format!("{why} for the expressions of Alerts").into())
    }

    /// Looks at an event in the background, with the expressions of the Alerts of one namespace.
    pub(super) fn start(&mut self, namespace: String, place: WaitingPlace, filtered: FilteredEvent) {
        let (filters, at_once) = (Arc::clone(&self.filters), Arc::clone(&self.at_once));
        let mut turn = Box::pin(async move { at_once.take(&namespace).await });
        // It stands in the queue of its namespace from here on: of two events the first is sent first.
        let taken = turn.as_mut().now_or_never();
        self.tasks.spawn(async move {
            let turn = match taken {
                Some(turn) => turn,
                None => turn.await,
            };
            let FilteredEvent { event, mut alerts } = filtered;
            for alert in &mut alerts {
                let (filters, event) = (Arc::clone(&filters), Arc::clone(&event));
                let (name, object) = (alert.name.clone(), Arc::clone(&alert.object));
                let looked_at = off_runtime(move || look_at(&filters, &name, &object, &event));
                (alert.admitted, alert.problems) = looked_at.await.unwrap_or_else(|error| {
                    (false, vec![("InvalidConfig", format!("an event is not sent: {error}"))])
                });
            }
            drop((turn, place));
            FilteredEvent { event, alerts }
        });
    }

    /// The next event that was looked at; `None`: there is none. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<FilteredEvent> {
        loop {
            match self.tasks.join_next().await? {
                Ok(filtered) => return Some(filtered),
                Err(error) => tracing::error!("an event is not sent: {error}"),
            }
        }
    }

    /// Forgets the expressions of an Alert that is gone.
    pub(super) fn forget(&self, name: &ObjectRef) {
        self.filters.forget(name);
    }
}

/// Whether an event passes an Alert, and what is wrong with the Alert.
fn look_at(
    filters: &MessageFilters,
    name: &ObjectRef,
    object: &Value,
    event: &FluxEvent,
) -> Result<(bool, Vec<Problem>), FluxError> {
    let spec = AlertSpec::deserialize(&object["spec"]).map_err(|e| format!("spec: {e}"))?;
    let mut problems = Vec::new();
    let admitted = filters.of(name, &spec).admits(&event.message, &mut problems);
    Ok((admitted, problems))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use serde_json::json;

    use super::super::recorded;
    use super::*;
    use windlass_cluster::Gvk;

    fn event() -> Arc<FluxEvent> {
        Arc::new(recorded::rows().remove(0).event)
    }

    /// Begins to look at an event for an Alert of a namespace with this exclusion.
    fn start(filtering: &mut EventFiltering, namespace: &str, exclusion: &str) {
        let name = ObjectRef::new(Gvk::new("v1", "Alert"), Some(namespace), "a");
        let spec = json!({"providerRef": {"name": "p"}, "eventSources": [], "exclusionList": [exclusion]});
        let alert = FilteredAlert::new(name, Arc::new(json!({"spec": spec})));
        let event = event();
        let place = filtering.place(namespace, &event).unwrap();
        filtering.start(namespace.to_owned(), place, FilteredEvent { event, alerts: vec![alert] });
    }

    #[tokio::test]
    async fn an_alert_does_not_stop_those_of_other_namespaces() {
        let mut filtering = EventFiltering::default();
        // Work of the namespace that does not end.
        let (end, ended) = mpsc::channel::<()>();
        let slow = move || {
            ended.recv().unwrap_err();
            Ok::<_, FluxError>(())
        };
        assert!(filtering.at_once.run("slow", slow).now_or_never().is_none());
        start(&mut filtering, "slow", ".*");
        start(&mut filtering, "other", "nothing like this");
        let first = filtering.next().await.unwrap();
        assert_eq!(first.alerts[0].name.namespace.as_deref(), Some("other"));
        assert!(first.alerts[0].admitted && first.alerts[0].problems.is_empty());
        drop(end);
        let second = filtering.next().await.unwrap();
        assert_eq!(second.alerts[0].name.namespace.as_deref(), Some("slow"));
        assert!(!second.alerts[0].admitted, "excluded");
        assert!(filtering.next().await.is_none());
    }

    #[test]
    fn events_that_wait_for_the_alerts_of_a_namespace_are_bounded() {
        let (filtering, event) = (EventFiltering::default(), event());
        let held: Vec<_> =
            (0..MAX_WAITING_OF_NAMESPACE).map(|_| filtering.place("a", &event).unwrap()).collect();
        assert_eq!(
            filtering.place("a", &event).unwrap_err().to_string(),
            "too many of its namespace wait for the expressions of Alerts"
        );
        assert!(filtering.place("b", &event).is_ok());
        drop(held);
    }
}
