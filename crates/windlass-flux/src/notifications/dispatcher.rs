//! Sends the events of this process to the Providers of the Alerts that match.
//!
//! Owns which Alerts and Providers there are, which events were sent lately, and how many are being sent. Alerts and Providers
//! have no status: what is wrong with one is an Event on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize as _;
use serde_json::Value;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::super::error::FluxError;
use super::alert_matching::{self, Problem};
use super::event_dedup::RecentEvents;
use super::event_delivery::deliver;
use super::event_filtering::{EventFiltering, FilteredAlert, FilteredEvent};
use super::event_queue::QueuedEvent;
use super::flux_event::FluxEvent;
use super::message_filter::MessageFilter;
use super::provider_settings::{admits, unsupported};
use flux_api::alert::AlertSpec;
use flux_api::provider::ProviderSpec;
use windlass_base::namespace_places::{NamespacePlaces, NoPlace, TakenPlaces};
use windlass_base::redact::SecretScope;
use windlass_cluster::{Gvk, ObjectRef};
use windlass_controller::{ControllerContext, EventNote, EventType, RelatedWatch};
use windlass_fetch::http::Http;

/// API version of Alerts and Providers.
const VERSION: &str = "notification.toolkit.fluxcd.io/v1beta3";
/// Time limit of a client that has none of its own.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Most events that are being sent, in all, to the Providers of one namespace, and to one Provider: others are dropped. A service that
/// does not answer holds up nobody.
const MAX_SENDING: usize = 256;
const MAX_SENDING_OF_NAMESPACE: usize = 64;
const MAX_SENDING_OF_PROVIDER: usize = 16;
/// How long events that are being sent may take after a stop.
const GRACE: Duration = Duration::from_secs(5);
const DISPATCH_FAILED: &str = "NotificationDispatchFailed";

/// Options of notifications.
#[derive(Clone, Debug, Default)]
pub struct NotifyOptions {
    /// Alerts, Providers and Receivers of this namespace only; `None`: of all.
    pub namespace: Option<String>,
    /// Alerts get events of their own namespace only, and Receivers reconcile objects of their own.
    pub no_cross_namespace_refs: bool,
    /// Services may be on this machine.
    pub allow_local_addresses: bool,
}

/// Sends events until `stop` resolves, and then those that wait. `context`: Events on Alerts and Providers are recorded with it.
pub async fn dispatch(
    context: ControllerContext,
    options: NotifyOptions,
    mut events: Receiver<Arc<QueuedEvent>>,
    stop: impl Future<Output = ()>,
) {
    let mut dispatcher = Dispatcher::start(context, options).await;
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            changed = dispatcher.watch.next() => {
                changed.iter().for_each(|(name, _)| dispatcher.check(name));
            }
            Some(queued) = events.recv(), if dispatcher.watch.is_complete() => dispatcher.take(&queued),
            Some(filtered) = dispatcher.filtering.next() => dispatcher.send(filtered),
            Some(ended) = dispatcher.sending.join_next() => if let Err(error) = ended {
                tracing::error!("sending an event ended early: {error}");
            },
        }
    }
    while let Ok(queued) = events.try_recv() {
        dispatcher.take(&queued);
    }
    let rest = async {
        while let Some(filtered) = dispatcher.filtering.next().await {
            dispatcher.send(filtered);
        }
        while dispatcher.sending.join_next().await.is_some() {}
    };
    if tokio::time::timeout(GRACE, rest).await.is_err() {
        tracing::warn!("some events are not sent");
    }
}

struct Dispatcher {
    context: ControllerContext,
    options: NotifyOptions,
    http: Http,
    watch: RelatedWatch,
    recent: RecentEvents,
    filtering: EventFiltering,
    sending: JoinSet<()>,
    places: SendingPlaces,
    /// What was said of Providers that are not supported.
    refused: BTreeMap<ObjectRef, String>,
}

/// The events that are being sent.
struct SendingPlaces {
    of_namespaces: NamespacePlaces,
    of_provider: BTreeMap<ObjectRef, Arc<Semaphore>>,
}

impl Default for SendingPlaces {
    fn default() -> Self {
        Self {
            of_namespaces: NamespacePlaces::new(MAX_SENDING, MAX_SENDING_OF_NAMESPACE),
            of_provider: BTreeMap::new(),
        }
    }
}

impl SendingPlaces {
    /// Places among all events that are being sent, among those of a namespace, and among those of a Provider.
    fn take(
        &mut self,
        namespace: &str,
        provider: ObjectRef,
    ) -> Result<(OwnedSemaphorePermit, TakenPlaces), FluxError> {
        let full = |most: usize, whose: &str| {
            FluxError::from(format!("{most} others{whose} are being sent already"))
        };
        let own = self.of_provider.entry(provider);
        let own = Arc::clone(own.or_insert_with(|| Arc::new(Semaphore::new(MAX_SENDING_OF_PROVIDER))));
        let own = own.try_acquire_owned().map_err(|_| full(MAX_SENDING_OF_PROVIDER, ""))?;
        let places = self.of_namespaces.try_take(namespace, 1).map_err(|whose| match whose {
            NoPlace::OfNamespace => full(MAX_SENDING_OF_NAMESPACE, " of this namespace"),
            NoPlace::OfAll => full(MAX_SENDING, ""),
        })?;
        Ok((own, places))
    }
}

fn kind(name: &str) -> Gvk {
    Gvk::new(VERSION, name)
}

impl Dispatcher {
    async fn start(context: ControllerContext, options: NotifyOptions) -> Self {
        let client = context.runner.engine().operator_client();
        let kinds = vec![kind("Alert"), kind("Provider")];
        let watch = RelatedWatch::start(client, options.namespace.as_deref(), kinds).await;
        let http = Http::new(TIMEOUT, false);
        let http = if options.allow_local_addresses { http } else { http.without_local_addresses() };
        Self {
            context,
            options,
            http,
            watch,
            recent: RecentEvents::default(),
            filtering: EventFiltering::default(),
            sending: JoinSet::new(),
            places: SendingPlaces::default(),
            refused: BTreeMap::new(),
        }
    }

    /// An object has changed.
    fn check(&mut self, name: &ObjectRef) {
        match name.gvk.kind.as_str() {
            "Provider" => self.check_provider(name),
            _ if self.watch.get(name).is_none() => self.filtering.forget(name),
            _ => {}
        }
    }

    /// A Provider has changed: what of it is not supported is said once.
    fn check_provider(&mut self, name: &ObjectRef) {
        let Some(object) = self.watch.get(name) else {
            self.refused.remove(name);
            self.places.of_provider.remove(name);
            return;
        };
        let spec = ProviderSpec::deserialize(&object["spec"]);
        let Some(text) = spec.ok().and_then(|spec| unsupported(&spec)) else {
            self.refused.remove(name);
            return;
        };
        if self.refused.get(name) != Some(&text) {
            self.warn(name, object, ("InvalidConfig", format!("events are not sent: {text}")));
            self.refused.insert(name.clone(), text);
        }
    }

    /// Finds the Alerts that an event is for. It does not wait: those with expressions look at the event in the background.
    fn take(&mut self, queued: &QueuedEvent) {
        if !self.recent.is_new(&queued.event, Instant::now()) {
            return;
        }
        let (mut open, mut filtered) = (Vec::new(), BTreeMap::<String, Vec<FilteredAlert>>::new());
        for (name, object) in self.watch.all(&kind("Alert")) {
            // The API server has checked it.
            let Ok(spec) = AlertSpec::deserialize(&object["spec"]) else { continue };
            let own = name.namespace.as_deref().unwrap_or_default();
            if !alert_matching::concerns(own, &spec, queued) {
                continue;
            }
            let of = &queued.event.involved_object;
            if self.options.no_cross_namespace_refs && of.namespace != own {
                // Before the filters: whether a message matches one would tell what is in it.
                let text = format!(
                    "alert '{own}/{}' can't process events of namespace '{}', cross-namespace references have been blocked",
                    name.name, of.namespace
                );
                self.warn(name, object, (DISPATCH_FAILED, text));
                continue;
            }
            let alert = FilteredAlert::new(name.clone(), Arc::clone(object));
            match MessageFilter::is_needed(&spec) {
                true => filtered.entry(own.to_owned()).or_default().push(alert),
                false => open.push(alert),
            }
        }
        self.send(FilteredEvent { event: Arc::clone(&queued.event), alerts: open });
        for (namespace, alerts) in filtered {
            self.filter(namespace, FilteredEvent { event: Arc::clone(&queued.event), alerts });
        }
    }

    /// Lets the Alerts of a namespace look at an event, unless too many wait for that.
    fn filter(&mut self, namespace: String, event: FilteredEvent) {
        match self.filtering.place(&namespace, &event.event) {
            Ok(place) => self.filtering.start(namespace, place, event),
            Err(error) => {
                for alert in &event.alerts {
                    self.warn(&alert.name, &alert.object, not_dispatched(&event.event, &error));
                }
            }
        }
    }

    /// Sends an event to the Providers of the Alerts that it passes.
    fn send(&mut self, filtered: FilteredEvent) {
        let event = filtered.event;
        for FilteredAlert { name, object, admitted, mut problems } in filtered.alerts {
            if admitted && let Err(error) = self.notify((&name, &object), &event, &mut problems) {
                problems.push(not_dispatched(&event, &error));
            }
            for problem in problems {
                self.warn(&name, &object, problem);
            }
        }
    }

    /// Sends an event to the Provider of an Alert, in the background.
    fn notify(
        &mut self,
        (name, alert): (&ObjectRef, &Arc<Value>),
        event: &FluxEvent,
        problems: &mut Vec<Problem>,
    ) -> Result<(), FluxError> {
        let spec = AlertSpec::deserialize(&alert["spec"]).map_err(|e| format!("spec: {e}"))?;
        let namespace = name.namespace.clone().unwrap_or_default();
        let reference = ObjectRef::new(kind("Provider"), Some(&namespace), &spec.provider_ref.name);
        let provider = self.watch.get(&reference);
        let provider = provider.ok_or_else(|| {
            format!("failed to read provider: '{namespace}/{}' does not exist", spec.provider_ref.name)
        })?;
        let mut object = provider.clone();
        object["apiVersion"] = VERSION.into();
        object["kind"] = "Provider".into();
        let provider = ProviderSpec::deserialize(&object["spec"]).map_err(|e| format!("provider: {e}"))?;
        if provider.suspend || self.refused.contains_key(&reference) || !admits(&provider, event) {
            return Ok(());
        }
        let places = self.places.take(&namespace, reference)?;
        let event = alert_matching::for_alert(event, &spec, problems);
        let (context, http) = (self.context.clone(), self.http.clone());
        let (name, alert) = (name.clone(), Arc::clone(alert));
        // The Secrets of the Provider are known to what is said of this delivery, and to nothing else.
        let scope = SecretScope::of_namespace(&namespace);
        self.sending.spawn(scope.run_async(async move {
            let client = context.runner.engine().operator_client();
            let sent = deliver(client, http, (&namespace, &object, &alert), &provider, &event).await;
            if let Err(error) = sent {
                let text = format!("failed to send notification for {}: {error}", event.involved_object);
                warn(&context, &name, &alert, (DISPATCH_FAILED, text));
            }
            drop(places);
        }));
        Ok(())
    }

    fn warn(&self, name: &ObjectRef, object: &Value, problem: Problem) {
        warn(&self.context, name, object, problem);
    }
}

/// Message of the Event on an Alert whose Provider does not receive an event.
fn not_dispatched(event: &FluxEvent, error: &FluxError) -> Problem {
    (DISPATCH_FAILED, format!("failed to dispatch notification for {}: {error}", event.involved_object))
}

/// Records a Warning on an Alert or a Provider.
fn warn(context: &ControllerContext, name: &ObjectRef, object: &Value, (reason, note): Problem) {
    tracing::warn!(object = %name, reason, "{note}");
    // Objects of lists have no kind.
    let mut object = object.clone();
    object["apiVersion"] = name.gvk.api_version().into();
    object["kind"] = name.gvk.kind.as_str().into();
    let (event_type, action, annotations) = (EventType::Warning, "Notify", BTreeMap::new());
    context.events.spawn_for(&object, EventNote { event_type, reason, action, note, annotations });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_namespace_leaves_places_to_others() {
        let mut places = SendingPlaces::default();
        let mut take = |namespace: &str, provider: usize| {
            let provider = ObjectRef::new(kind("Provider"), Some(namespace), &provider.to_string());
            places.take(namespace, provider).map_err(|error| error.to_string())
        };
        let mut held: Vec<_> = (0..MAX_SENDING_OF_PROVIDER).map(|_| take("a", 0).unwrap()).collect();
        assert_eq!(take("a", 0).unwrap_err(), "16 others are being sent already");
        held.extend((MAX_SENDING_OF_PROVIDER..MAX_SENDING_OF_NAMESPACE).map(|n| take("a", n).unwrap()));
        assert_eq!(take("a", 99).unwrap_err(), "64 others of this namespace are being sent already");
        for namespace in ["b", "c", "d"] {
            held.extend((0..MAX_SENDING_OF_NAMESPACE).map(|n| take(namespace, n).unwrap()));
        }
        assert_eq!(take("e", 0).unwrap_err(), "256 others are being sent already");
        held.truncate(MAX_SENDING - 1);
        assert!(take("e", 0).is_ok());
    }
}
