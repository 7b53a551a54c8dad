//! What a front end of custom resources brings to the runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::error::ReconcileError;
use super::events::EventNote;
use super::reconcile_pass::ReconcilePass;
use super::release_runner::{ReleaseRunner, RenderInputs};
use super::target::ReleaseTarget;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef};
use windlass_engine::{ReconcileTrigger, ReleaseId, ReleaseKey, ReleaseOutcome, ReleaseRequest};
use windlass_render::replay::LookupQuery;

/// A kind of custom resource. An object of it may stand for a release.
pub trait FrontEnd: Send + Sync + Sized + 'static {
    /// An object as the front end understands it.
    type Object: Send + Sync;

    /// Reads an object: once for each event, and once for each pass.
    fn read(&self, object: &Value) -> Self::Object;

    /// Name in `--controllers`, logs and metrics, and the owner of its releases.
    fn name(&self) -> &str;

    /// The kind to watch.
    fn kind(&self) -> Gvk;

    /// Keeps an object until [`FrontEnd::uninstall`] has succeeded.
    fn finalizer(&self) -> &'static str;

    /// Finalizers of other operators of the kind, which mean the same as [`FrontEnd::finalizer`]: it is removed together with these.
    fn legacy_finalizers(&self) -> &[&'static str] {
        &[]
    }

    /// The histogram of how long passes over an object take, if there is one.
    fn duration_metric(&self) -> Option<DurationMetric> {
        None
    }

    /// Whether an object gets the finalizer.
    fn needs_finalizer(&self, _object: &Self::Object) -> bool {
        true
    }

    /// Annotations whose change triggers a reconcile.
    fn trigger_annotations(&self) -> &[&str] {
        &["windlass.dev/requested-at"]
    }

    /// The releases of an object: their drift and their records trigger a reconcile. They may come from its status. No other object may
    /// have them once a pass over this one was through ([`ReconcilePass::claim_release`]: or before).
    fn releases(&self, _object: &Self::Object) -> BTreeSet<ReleaseKey> {
        BTreeSet::new()
    }

    /// On whose behalf the object is reconciled.
    ///
    /// # Errors
    /// A name that Kubernetes does not accept.
    fn target(&self, object: &Self::Object) -> Result<ReleaseTarget, ReconcileError>;

    /// Receives each state of an object, as it is listed, watched or written by a pass.
    fn note_observed(&self, _key: &str, _object: &Self::Object) {}

    /// Receives the key of an object that does not exist any more.
    fn note_gone(&self, _key: &str) {}

    /// Receives why an object is reconciled, where that is its release.
    fn note_trigger(&self, _key: &str, _trigger: &ReconcileTrigger) {}

    /// The key (`NAMESPACE/NAME`) of the next object whose pass the front end itself asks for: what it depends on outside of the cluster
    /// has changed. Called again after each answer; a call may be dropped before it answers.
    fn next_request(&self) -> impl Future<Output = String> + Send {
        std::future::pending()
    }

    /// Objects of the kind that must be ready before this one is reconciled.
    fn dependencies(&self, _object: &Self::Object) -> Dependencies {
        Dependencies::new()
    }

    /// Refuses dependencies that the object may not have, before they are read.
    ///
    /// # Errors
    /// There is one.
    fn check_dependencies(&self, _object: &Self::Object) -> Result<(), ReconcileError> {
        Ok(())
    }

    /// Whether an object on which others depend is ready, as its status says; `None`: only its last pass in this process counts.
    fn shows_ready(&self, _object: &Self::Object) -> Option<bool> {
        None
    }

    /// Whether a dependency is ready by a rule of [`Self::dependencies`]. `dependency`: its `NAMESPACE/NAME` and the object.
    ///
    /// # Errors
    /// The rule cannot be evaluated.
    fn fits_dependency_rule(
        &self,
        _rule: &str,
        _object: &Value,
        _dependency: (&str, &Value),
    ) -> impl Future<Output = Result<bool, ReconcileError>> + Send {
        std::future::ready(Ok(true))
    }

    /// What operates on a release of the object. By default acts on behalf of the object.
    ///
    /// # Errors
    /// As [`ReconcilePass::runner`].
    fn release_runner(
        &self,
        pass: &ReconcilePass,
        object: &Self::Object,
        _release: &ReleaseId,
    ) -> Result<ReleaseRunner, ReconcileError> {
        pass.runner(self, object)
    }

    /// Other kinds that objects refer to, one watch each.
    fn related_kinds(&self) -> Vec<Gvk> {
        Vec::new()
    }

    /// The objects of other kinds that an object refers to.
    fn related(&self, _object: &Self::Object) -> BTreeSet<ObjectRef> {
        BTreeSet::new()
    }

    /// Among objects that are due at the same time those of a lower order are reconciled first. None waits for another one.
    fn order(&self, _object: &Self::Object) -> u32 {
        0
    }

    /// Whether the object is another controller's, or nobody's: it is not written at all, not even when it is deleted.
    fn belongs_elsewhere(&self, _object: &Self::Object) -> bool {
        false
    }

    /// What of a related object triggers a reconcile when it changes.
    fn related_state(&self, related: &Value) -> Value {
        ObjectMeta::of(related).generation().into()
    }

    /// How often the object is reconciled if nothing changes, whatever the last pass ended with; `None`: the front end has no intervals.
    fn interval(&self, _object: &Self::Object) -> Option<Duration> {
        None
    }

    /// Whether the object is left alone for the time being.
    fn is_suspended(&self, _object: &Self::Object) -> bool {
        false
    }

    /// Whether a pass that fails has changed no release: drift is still corrected to what was there then.
    fn keeps_state_on_error(&self) -> bool {
        false
    }

    /// One pass over an object: from its spec to the state of the cluster, and to its status. Objects that are read on the
    /// way go into [`ReconcilePass::references`]: a change of one triggers a reconcile, also where this fails.
    ///
    /// # Errors
    /// Any step fails; the pass is repeated as the error's disposition says.
    fn reconcile(
        &self,
        pass: &mut ReconcilePass,
        object: &Self::Object,
    ) -> impl Future<Output = Result<Reconciled, ReconcileError>> + Send;

    /// The last pass over a deleted object, before its finalizer is removed. By default uninstalls its releases.
    ///
    /// # Errors
    /// What the object stands for cannot be deleted.
    fn uninstall(
        &self,
        pass: &mut ReconcilePass,
        object: &Self::Object,
    ) -> impl Future<Output = Result<(), ReconcileError>> + Send {
        async move {
            for release in self.releases(object) {
                pass.uninstall_release(self, object, &release.id).await?;
            }
            Ok(())
        }
    }

    /// The object's `status`, where it was `before`. What it does not contain is left as it is.
    fn status(&self, object: &Self::Object, before: &Value, report: &Report<'_>) -> Value;

    /// The Event that goes with a report, if there is one.
    fn event(&self, report: &Report<'_>) -> Option<EventNote>;
}

/// Objects that must be ready, as `NAMESPACE/NAME`, each with the rule that says when it is. Without one it is when its front end
/// says so ([`FrontEnd::shows_ready`]).
pub type Dependencies = BTreeMap<String, Option<String>>;

/// A histogram of how long passes take, with the labels `kind`, `name` and `namespace`.
#[derive(Clone, Copy, Debug)]
pub struct DurationMetric {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub help: &'static str,
    /// Upper bounds of its buckets in seconds, ascending.
    pub bounds: &'static [f64],
}

/// Objects that chart and values were read from, with the digest of each.
pub type References = BTreeMap<LookupQuery, String>;

/// Objects of other kinds as they were last seen.
pub type RelatedObjects = BTreeMap<ObjectRef, Arc<Value>>;

/// When an object is reconciled again, if nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Not at all.
    Never,
    /// After this time.
    After(Duration),
    /// Soon: after a delay that grows with each such pass in a row.
    Backoff,
    /// As [`Reconciled::failure`] asks for ([`ReconcileError::retry_delay`]).
    Failure,
}

/// An interval with a share of five percent more or less, so that objects of one moment do not stay together.
#[must_use]
pub fn jittered(interval: Duration) -> Duration {
    const PERCENT: u64 = 5;
    let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
    let share = millis / 100 * PERCENT;
    // The clock's last digits are as good as chance here.
    let part = jiff::Timestamp::now().as_nanosecond().unsigned_abs() % u128::from(share * 2 + 1);
    Duration::from_millis((millis - share).saturating_add(u64::try_from(part).unwrap_or(0)))
}

/// How a pass ended.
pub struct Reconciled {
    /// The object is as desired; others may depend on it.
    pub ready: bool,
    /// When it is reconciled again.
    pub requeue: Requeue,
    /// What drift of each release is corrected with, of those with their records in their own namespace. Drift of others triggers a whole pass.
    pub requests: Vec<Arc<ReleaseRequest>>,
    /// What of the render must be watched; `None`: what was watched before.
    pub inputs: Option<RenderInputs>,
    /// Whatever the front end wants to know in the next pass over this object. Lost with the process.
    pub memo: Option<Arc<Value>>,
    /// Why the pass failed, if the front end has written that into the status itself.
    pub failure: Option<ReconcileError>,
}

impl Reconciled {
    /// An object that is as desired, or not, and when it is reconciled again.
    #[must_use]
    pub fn new(ready: bool, requeue: Requeue) -> Self {
        Self { ready, requeue, requests: Vec::new(), inputs: None, memo: None, failure: None }
    }

    /// A pass that failed, whose status is written: repeated as the error asks for.
    #[must_use]
    pub fn failed(error: ReconcileError) -> Self {
        Self { failure: Some(error), ..Self::new(false, Requeue::Failure) }
    }
}

/// How far an object is.
#[derive(Debug)]
pub enum Report<'a> {
    /// A new generation is being reconciled.
    Progressing,
    /// Nothing is done while the object is suspended.
    Suspended,
    /// It waits until these objects are ready.
    DependencyNotReady(&'a BTreeSet<String>),
    /// The release is as desired.
    Released(&'a ReleaseOutcome),
    /// The last pass failed.
    Failed {
        /// Why.
        error: &'a ReconcileError,
        /// When it is tried again.
        retry_in: Duration,
        /// Failed passes in a row, this one included.
        failures: u32,
    },
}
