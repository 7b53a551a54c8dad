//! What a front end of custom resources brings to the runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::error::ReconcileError;
use super::events::EventNote;
use super::release_runner::{ReleaseRunner, ReleaseSpec};
use super::target::ReleaseTarget;
use crate::cluster::Gvk;
use crate::release::{ReleaseId, ReleaseOutcome};
use crate::render::replay::LookupQuery;

/// A kind of custom resource, each object of which is one release.
pub trait FrontEnd: Send + Sync + 'static {
    /// Name in `--controllers`, logs and metrics, and the owner of its releases.
    fn name(&self) -> &'static str;

    /// The kind to watch.
    fn kind(&self) -> Gvk;

    /// Keeps an object until its release is uninstalled.
    fn finalizer(&self) -> &'static str;

    /// Annotations whose change triggers a reconcile.
    fn trigger_annotations(&self) -> &[&str] {
        &["windlass.dev/requested-at"]
    }

    /// The release of an object. Must stay the same as long as the object exists: it is uninstalled by it, too.
    fn release(&self, object: &Value) -> ReleaseId;

    /// On whose behalf the release is rendered, applied and uninstalled.
    ///
    /// # Errors
    /// A name that Kubernetes does not accept.
    fn target(&self, object: &Value) -> Result<ReleaseTarget, ReconcileError>;

    /// Objects that must be reconciled before this one, as `NAMESPACE/NAME`.
    fn dependencies(&self, _object: &Value) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Whether the object is left alone for the time being.
    fn is_suspended(&self, _object: &Value) -> bool {
        false
    }

    /// How an object becomes a release: reads its chart and values. The runner acts as the object's target. Objects that are
    /// read on the way go into `references`: a change of one triggers a reconcile, also where this fails.
    ///
    /// # Errors
    /// The object is invalid, or its chart or values cannot be read.
    fn desired(
        &self,
        object: &Value,
        runner: &ReleaseRunner,
        references: &mut References,
    ) -> impl Future<Output = Result<Desired, ReconcileError>> + Send;

    /// The object's `status`. What it does not contain is left as it is.
    fn status(&self, object: &Value, report: &Report<'_>) -> Value;

    /// The Event that goes with a report, if there is one.
    fn event(&self, object: &Value, report: &Report<'_>) -> Option<EventNote>;
}

/// Objects that chart and values were read from, with the digest of each.
pub type References = BTreeMap<LookupQuery, String>;

/// What an object asks for.
pub struct Desired {
    /// The release.
    pub spec: ReleaseSpec,
    /// After this time the object is reconciled again; `None`: only when something changes.
    pub interval: Option<Duration>,
}

/// How far an object's release is.
#[derive(Debug)]
pub enum Report<'a> {
    /// A new generation is being reconciled.
    Progressing,
    /// Nothing is done while the object is suspended.
    Suspended,
    /// It waits until these objects are reconciled.
    DependencyNotReady(&'a BTreeSet<String>),
    /// The release is as desired.
    Released(&'a ReleaseOutcome),
    /// The last try failed.
    Failed {
        /// Why.
        error: &'a ReconcileError,
        /// When it is tried again.
        retry_in: Duration,
    },
}
