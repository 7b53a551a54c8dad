//! Flux's notifications: events of its objects to other services, and webhooks that let objects be reconciled.
//!
//! Owns what notification-controller does: Flux's event, Alerts, Providers and Receivers. Events come from the controller runtime; why
//! there is one, the front ends know.

mod alert_matching;
mod commit_status;
mod dispatcher;
mod event_dedup;
mod event_delivery;
mod event_filtering;
mod event_forwarder;
mod event_queue;
mod flux_event;
mod message_filter;
mod provider_requests;
mod provider_settings;
mod receivers;
#[cfg(test)]
mod recorded;
mod registry_events;
mod waiting_places;
mod webhook_checks;
mod webhook_filters;
mod webhook_server;

pub use dispatcher::{NotifyOptions, dispatch};
pub use event_forwarder::forward;
pub use event_queue::{EventQueue, QueuedEvent};
pub use flux_event::{FluxEvent, InvolvedObject, Severity};
pub use receivers::{Receivers, WebhookPaths};
pub use webhook_server::Webhooks;
