//! The front end of Receivers: which webhooks there are, and their status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::error::FluxError;
use super::webhook_checks::unsupported;
use super::webhook_filters::invalid_filter;
use crate::{condition_setter, gotk_metrics};
use flux_api::GoDuration;
use flux_api::api_names::{FINALIZER, REQUESTED_AT};
use flux_api::receiver::{ReceiverSpec, ReceiverStatus};
use flux_api::status_conditions::{self, READY, RECONCILING, STALLED, Truth};
use windlass_base::cel_expression::off_runtime;
use windlass_base::hex::hex;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef};
use windlass_controller::{
    DurationMetric, EventNote, EventType, FrontEnd, ReconcileError, ReconcilePass, Reconciled, ReleaseTarget,
    Report, Requeue, SecretReadError, jittered,
};
use windlass_engine::Disposition;

/// How often a Secret is read again without a change that was noticed.
const INTERVAL: Duration = Duration::from_secs(600);
/// The shortest interval, whatever a spec says.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The kind Receiver.
pub(super) fn receiver_kind() -> Gvk {
    Gvk::new("notification.toolkit.fluxcd.io/v1", "Receiver")
}

/// The webhooks by path.
#[derive(Default)]
pub struct WebhookPaths(Mutex<BTreeMap<String, ObjectRef>>);

impl WebhookPaths {
    /// The Receiver of a path.
    pub(super) fn receiver(&self, path: &str) -> Option<ObjectRef> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    /// Gives a Receiver this path, or none.
    fn set(&self, receiver: &ObjectRef, path: Option<&str>) {
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        paths.retain(|_, known| known != receiver);
        if let Some(path) = path {
            paths.insert(path.to_owned(), receiver.clone());
        }
    }

    /// A Receiver is gone.
    pub(super) fn remove(&self, receiver: &ObjectRef) {
        self.set(receiver, None);
    }
}

/// The path of a webhook.
fn webhook_path(token: &str, name: &str, namespace: &str) -> String {
    let digest = Sha256::digest(format!("{token}{name}{namespace}"));
    format!("/hook/{}", hex(&digest))
}

/// The front end.
pub struct Receivers {
    paths: Arc<WebhookPaths>,
}

impl Receivers {
    /// A front end that keeps the paths of a server.
    #[must_use]
    pub fn new(paths: Arc<WebhookPaths>) -> Self {
        Self { paths }
    }
}

/// A Receiver as it is read.
pub struct ReceiverObject {
    reference: ObjectRef,
    generation: i64,
    /// The annotation that asks for a reconcile; empty if there is none.
    requested_at: String,
    suspended: bool,
    /// The spec, or the reason and the text of why it cannot be used.
    spec: Result<ReceiverSpec, (&'static str, String)>,
}

impl ReceiverObject {
    /// The spec.
    ///
    /// # Errors
    /// It cannot be used: nothing is done until it changes.
    fn spec(&self) -> Result<&ReceiverSpec, ReconcileError> {
        self.spec.as_ref().map_err(|(reason, text)| ReconcileError::Reason {
            reason,
            text: text.clone(),
            disposition: Disposition::Stall,
        })
    }

    /// A status, in which the request for a reconcile is handled.
    fn status(&self, before: &Value) -> ReceiverStatus {
        let mut status: ReceiverStatus = serde_json::from_value(before.clone()).unwrap_or_default();
        if !self.requested_at.is_empty() {
            self.requested_at.clone_into(&mut status.last_handled_reconcile_at);
        }
        status
    }
}

fn set(status: &mut ReceiverStatus, kind: &str, truth: Truth, reason: &str, message: &str, generation: i64) {
    condition_setter::set(&mut status.conditions, kind, truth, (reason, message), generation);
}

/// Reads a spec; else the reason and the text of why it cannot be used.
fn read_spec(spec: &Value) -> Result<ReceiverSpec, (&'static str, String)> {
    let spec: ReceiverSpec =
        serde_json::from_value(spec.clone()).map_err(|e| ("ValidationFailed", format!("spec: {e}")))?;
    if let Some(text) = unsupported(&spec) {
        return Err(("ValidationFailed", text));
    }
    Ok(spec)
}

/// Refuses a spec with an expression that cannot be used. Expressions take time: they are compiled in passes alone, off the runtime.
async fn check_filters(spec: &ReceiverSpec) -> Result<(), ReconcileError> {
    let spec = spec.clone();
    let invalid = off_runtime(move || Ok(invalid_filter(&spec))).await.map_err(ReconcileError::Task)?;
    match invalid {
        Some(text) => Err(ReconcileError::Reason {
            reason: "InvalidCELExpression",
            text,
            disposition: Disposition::Stall,
        }),
        None => Ok(()),
    }
}

fn patch(status: &ReceiverStatus) -> Value {
    json!({
        "conditions": status.conditions,
        "lastHandledReconcileAt": Some(&status.last_handled_reconcile_at).filter(|text| !text.is_empty()),
        "webhookPath": Some(&status.webhook_path).filter(|path| !path.is_empty()),
        "observedGeneration": Some(status.observed_generation).filter(|generation| *generation != 0),
    })
}

/// The token of a Receiver. Its Secret is watched from then on.
async fn token(pass: &mut ReconcilePass, spec: &ReceiverSpec) -> Result<String, FluxError> {
    let namespace = pass.reference.namespace.clone().unwrap_or_default();
    let name = spec.secret_ref.as_ref().map(|secret| secret.name.clone()).unwrap_or_default();
    let shown = format!("{namespace}/{name}");
    if name.is_empty() {
        return Err("spec.secretRef is not set".into());
    }
    let failed = |text: String| format!("unable to read token from secret '{shown}' error: {text}");
    let secret = pass.read_secret(&name).await.map_err(|error| {
        failed(match error {
            SecretReadError::NotFound(_) => "not found".to_owned(),
            other => other.to_string(),
        })
    })?;
    let missing = || format!("invalid '{shown}' secret data: required fields 'token'");
    let token = String::from_utf8(secret.get("token").ok_or_else(missing)?.to_owned());
    Ok(token.map_err(|_| failed("token is not text".to_owned()))?)
}

impl FrontEnd for Receivers {
    type Object = ReceiverObject;

    fn read(&self, object: &Value) -> ReceiverObject {
        let meta = ObjectMeta::of(object);
        ReceiverObject {
            reference: meta.reference(receiver_kind()),
            generation: meta.generation(),
            requested_at: meta.annotation(REQUESTED_AT).unwrap_or_default().to_owned(),
            suspended: object["spec"]["suspend"] == true,
            spec: read_spec(&object["spec"]),
        }
    }

    fn name(&self) -> &'static str {
        "receivers"
    }

    fn kind(&self) -> Gvk {
        receiver_kind()
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn duration_metric(&self) -> Option<DurationMetric> {
        Some(gotk_metrics::reconcile_duration())
    }

    /// A request for a webhook reads its Receiver: one that is gone need not be noticed.
    fn needs_finalizer(&self, _: &ReceiverObject) -> bool {
        false
    }

    fn trigger_annotations(&self) -> &[&str] {
        &[REQUESTED_AT]
    }

    fn target(&self, _: &ReceiverObject) -> Result<ReleaseTarget, ReconcileError> {
        Ok(ReleaseTarget::default())
    }

    fn is_suspended(&self, object: &ReceiverObject) -> bool {
        object.suspended
    }

    async fn reconcile(
        &self,
        pass: &mut ReconcilePass,
        object: &ReceiverObject,
    ) -> Result<Reconciled, ReconcileError> {
        let (spec, generation) = (object.spec()?, object.generation);
        check_filters(spec).await?;
        let mut status = object.status(&pass.object["status"]);
        let name = pass.reference.name.clone();
        let namespace = pass.reference.namespace.clone().unwrap_or_default();
        let interval = spec.interval.as_ref().map_or(INTERVAL, GoDuration::get).max(MIN_INTERVAL);
        let reconciled = match token(pass, spec).await {
            Ok(token) => {
                let path = webhook_path(&token, &name, &namespace);
                let text = format!("Receiver initialized for path: {path}");
                set(&mut status, READY, Truth::True, "Succeeded", &text, generation);
                status_conditions::delete(&mut status.conditions, RECONCILING);
                status_conditions::delete(&mut status.conditions, STALLED);
                self.paths.set(&pass.reference, Some(&path));
                (status.webhook_path, status.observed_generation) = (path, generation);
                Reconciled::new(true, Requeue::After(jittered(interval)))
            }
            Err(error) => {
                let text = String::from(error);
                tracing::warn!(object = %pass.reference, "{text}");
                set(&mut status, READY, Truth::False, "TokenNotFound", &text, generation);
                set(&mut status, RECONCILING, Truth::True, "ProgressingWithRetry", &text, generation);
                self.paths.remove(&pass.reference);
                status.webhook_path.clear();
                Reconciled::new(false, Requeue::Backoff)
            }
        };
        pass.write_status(&patch(&status)).await?;
        Ok(reconciled)
    }

    async fn uninstall(&self, _: &mut ReconcilePass, object: &ReceiverObject) -> Result<(), ReconcileError> {
        self.paths.remove(&object.reference);
        Ok(())
    }

    fn status(&self, object: &ReceiverObject, before: &Value, report: &Report<'_>) -> Value {
        let (mut status, generation) = (object.status(before), object.generation);
        match report {
            Report::Failed {
                error: error @ ReconcileError::Reason { reason, disposition: Disposition::Stall, .. },
                ..
            } => {
                let text = format!("Reconciliation failed terminally due to configuration error: {error}");
                set(&mut status, READY, Truth::False, reason, &text, generation);
                set(&mut status, STALLED, Truth::True, reason, &text, generation);
                (status.webhook_path, status.observed_generation) = (String::new(), generation);
                self.paths.remove(&object.reference);
            }
            Report::Failed { error, .. } => {
                let text = error.to_string();
                set(&mut status, READY, Truth::False, "ReconcileError", &text, generation);
                set(&mut status, RECONCILING, Truth::True, "ProgressingWithRetry", &text, generation);
            }
            Report::Progressing | Report::Suspended | Report::DependencyNotReady(_) | Report::Released(_) => {
            }
        }
        patch(&status)
    }

    fn event(&self, report: &Report<'_>) -> Option<EventNote> {
        let Report::Failed { error, .. } = report else { return None };
        let reason = match error {
            ReconcileError::Reason { reason, disposition: Disposition::Stall, .. } => *reason,
            _ => "ReconcileError",
        };
        let (event_type, action, annotations) = (EventType::Warning, "Reconcile", BTreeMap::new());
        Some(EventNote { event_type, reason, action, note: error.to_string(), annotations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_belong_to_one_receiver_each() {
        // By `printf token-1aapps | sha256sum`.
        let path = webhook_path("token-1", "a", "apps");
        assert_eq!(path, "/hook/5dcb4fb2a828e17d2b3095abc33bf0caa8a71661702a17bec734849f184ae5ff");
        let receiver = |name: &str| ObjectRef::new(receiver_kind(), Some("apps"), name);
        let paths = WebhookPaths::default();
        paths.set(&receiver("a"), Some("/hook/1"));
        paths.set(&receiver("b"), Some("/hook/2"));
        paths.set(&receiver("a"), Some("/hook/3"));
        assert_eq!(paths.receiver("/hook/1"), None);
        assert_eq!(paths.receiver("/hook/3"), Some(receiver("a")));
        paths.remove(&receiver("a"));
        assert_eq!((paths.receiver("/hook/3"), paths.receiver("/hook/2")), (None, Some(receiver("b"))));
    }
}
