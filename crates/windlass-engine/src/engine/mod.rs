//! The engine that a front end holds: its configuration, and the entry points of all operations.
//!
//! Owns no step of an operation: each entry calls down.

mod reconcile;
pub(crate) mod reconcile_trigger;
pub(crate) mod release_testing;
mod rollback;
mod uninstall;

use crate::{
    context::{Context, EngineOptions},
    drift::unchanged,
    engine::{
        reconcile_trigger::ReconcileTrigger,
        release_testing::{TestRequest, Tested},
    },
    error::{EngineError, Result},
    execute::crds,
    observe::release_history::{self, History},
    outcome::{ReleaseOutcome, Uninstalled},
    plan::preview::{ChangeVerb, Preview},
    progress::operation_progress::{ProgressListener, WaitListener},
    record::{Record, Storage, recorded_manifests::state_of},
    report::{
        release_records::ReleaseRecords,
        status_resources::{self, Resources},
    },
    request::{
        CrdFile, CrdRules, DriftMode, ManifestParser, ReleaseId, ReleaseOptions, ReleaseRequest,
        RenderedRelease, RollbackRequest, UninstallRequest,
    },
};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::watch;
use windlass_cluster::{Cluster, KindWatch, ObjectRef, Watches};

/// The release engine. Cheap to clone; all clones share watches and caches.
#[derive(Clone)]
pub struct Engine {
    context: Context,
}

/// Configuration.
impl Engine {
    /// Creates an engine for a cluster. `parse` parses the documents of stored manifests.
    pub fn new(cluster: Cluster, parse: ManifestParser, options: EngineOptions) -> Self {
        Self { context: Context::new(cluster, parse, options) }
    }

    /// The same engine, with a listener for progress. `diagnoses`: also reports why objects are not ready, which
    /// costs requests.
    #[must_use]
    pub fn with_progress(mut self, listener: ProgressListener, diagnoses: bool) -> Self {
        self.context.progress = Some(listener);
        self.context.diagnoses = diagnoses;
        self
    }

    /// The same engine, acting as another user on objects of releases, `crds/` included. Records and Leases stay with
    /// the operator's own client.
    #[must_use]
    pub fn acting_as(mut self, actor: Cluster) -> Self {
        self.context.crd_client = actor.clone();
        self.context.cluster = actor;
        self.context.acts_for_another = true;
        self
    }

    /// The same engine, applying `crds/` with the operator's own client.
    #[must_use]
    pub fn with_crds_as_operator(mut self) -> Self {
        self.context.crd_client = self.context.operator_client.clone();
        self
    }

    /// The same engine, with the records of its releases in another namespace. `as_actor`: they are read and written with the
    /// rights of the actor, who chose the namespace.
    #[must_use]
    pub fn with_storage_namespace(mut self, namespace: &str, as_actor: bool) -> Self {
        self.context.storage_namespace = Some(namespace.into());
        self.context.own_record_client = as_actor.then(|| self.context.cluster.clone());
        self
    }

    /// The same engine, cancelled when the flag becomes true: the current revision is then recorded as failed.
    #[must_use]
    pub fn with_cancel(mut self, flag: watch::Receiver<bool>) -> Self {
        self.context.deadline.cancel = Some(flag);
        self
    }

    /// The same engine, with a listener for waits.
    #[must_use]
    pub fn with_wait_listener(mut self, listener: Arc<dyn WaitListener>) -> Self {
        self.context.waits = Some(listener);
        self
    }

    /// The same engine with a deadline for one operation, unless a deadline is set already.
    #[must_use]
    pub fn bounded(&self, deadline: Option<Duration>) -> Self {
        let deadline = self.context.deadline.bounded(deadline);
        Self { context: Context { deadline, ..self.context.clone() } }
    }

    /// Where records are stored.
    pub fn storage(&self) -> &Storage {
        &self.context.options.storage
    }

    /// The client for the objects of releases.
    pub fn cluster(&self) -> &Cluster {
        &self.context.cluster
    }

    /// The client for CRDs of `crds/`.
    pub fn crd_client(&self) -> &Cluster {
        &self.context.crd_client
    }

    /// The operator's own client, which reads and writes records.
    pub fn operator_client(&self) -> &Cluster {
        &self.context.operator_client
    }

    /// The client for records, Leases and generated values: the operator's own, unless the actor chose where they are.
    pub fn record_client(&self) -> &Cluster {
        self.context.record_client()
    }

    /// The namespace of a release's records, Lease and generated values.
    pub fn storage_namespace_of<'a>(&'a self, id: &'a ReleaseId) -> &'a str {
        self.context.storage_namespace_of(id)
    }
}

/// Operations.
impl Engine {
    /// Reconciles a release with a request.
    pub async fn reconcile(&self, request: &ReleaseRequest) -> Result<ReleaseOutcome> {
        reconcile::reconcile(&self.context, request, None, None).await
    }

    /// As [`Engine::reconcile`], with a history that was read before. A history that is out of date is read again.
    ///
    /// # Errors
    /// As [`Engine::reconcile`].
    pub async fn reconcile_with_history(
        &self,
        request: &ReleaseRequest,
        history: History,
    ) -> Result<ReleaseOutcome> {
        reconcile::reconcile(&self.context, request, None, Some(history)).await
    }

    /// Plans a request. Writes nothing.
    pub async fn plan(&self, request: &ReleaseRequest) -> Result<Preview> {
        reconcile::plan(&self.context, request).await
    }

    /// Applies a plan, if the request would still do the same.
    pub async fn apply_planned(&self, request: &ReleaseRequest, planned: &Preview) -> Result<ReleaseOutcome> {
        if let Some(blocked) = planned.changes.iter().find(|c| c.verb == ChangeVerb::Blocked) {
            return Err(EngineError::Blocked(format!(
                "{} {}: {}",
                blocked.kind, blocked.name, blocked.reason
            )));
        }
        reconcile::reconcile(&self.context, request, Some(planned), None).await
    }

    /// Re-creates and corrects objects by the deployed revision. Creates no revision. `owner` gets the triggers of the
    /// release from here on.
    pub async fn restore(
        &self,
        id: &ReleaseId,
        options: &ReleaseOptions,
        owner: Option<&str>,
    ) -> Result<ReleaseOutcome> {
        reconcile::restore(&self.context, id, options, owner).await
    }

    /// Creates a new revision that repeats an old one.
    pub async fn rollback(&self, request: &RollbackRequest) -> Result<ReleaseOutcome> {
        rollback::rollback(&self.context, request).await
    }

    /// Plans a rollback. Writes nothing.
    pub async fn plan_rollback(&self, request: &RollbackRequest) -> Result<Preview> {
        rollback::plan(&self.context, request).await
    }

    /// Deletes a release's objects and its records.
    pub async fn uninstall(&self, request: &UninstallRequest) -> Result<Uninstalled> {
        uninstall::uninstall(&self.context, request).await
    }

    /// Plans an uninstall. Writes nothing.
    pub async fn plan_uninstall(&self, request: &UninstallRequest) -> Result<Preview> {
        uninstall::plan(&self.context, request).await
    }

    /// Runs the test hooks of the newest revision, all or selected ones, and records their runs.
    pub async fn test(&self, request: &TestRequest) -> Result<Tested> {
        release_testing::test(&self.context, request).await
    }

    /// Creates (or, by policy, updates) the CRDs of a chart before the chart is rendered: templates may look up their
    /// kinds.
    ///
    /// # Errors
    /// A file contains another kind of object, a CRD belongs to another release, or a write fails.
    pub async fn install_crds(
        &self,
        id: &ReleaseId,
        crds: &[CrdFile],
        rules: CrdRules,
    ) -> Result<Vec<ObjectRef>> {
        crds::install(&self.context, &self.context.deadline, id, crds, rules).await
    }

    /// Checks that a live CRD may be replaced by a new version.
    ///
    /// # Errors
    /// Objects of its kind would lose data, or cannot be read.
    pub async fn check_crd(&self, live: &Value, new: &Value, crd: &ObjectRef) -> Result<()> {
        crds::check_losses(self.crd_client(), live, new, crd).await
    }
}

/// What is recorded and live.
impl Engine {
    /// The records of releases: lists, histories, single revisions.
    #[must_use]
    pub fn records(&self) -> ReleaseRecords<'_> {
        ReleaseRecords::new(&self.context)
    }

    /// The history of a release, for [`Engine::reconcile_with_history`]: a caller that renders by it reads it once.
    ///
    /// An engine that watches reads it only as new as its own writes and events: its watch reports later ones, and an operation
    /// checks it again under the lock. Other engines read the newest.
    ///
    /// # Errors
    /// Records that cannot be read.
    pub async fn history_of(&self, id: &ReleaseId) -> Result<History> {
        release_history::of(&self.context, id).await
    }

    /// Refuses what would be refused for any render of a chart: for callers that write something before rendering.
    /// Reads the lock, and writes nothing.
    ///
    /// # Errors
    /// As [`Engine::reconcile`].
    pub async fn check_history(
        &self,
        id: &ReleaseId,
        options: &ReleaseOptions,
        history: &History,
    ) -> Result<()> {
        reconcile::check_history(&self.context, id, options, history).await
    }

    /// Whether a revision has the objects and hooks of a render; a revision whose manifests cannot be read has not.
    pub fn has_same_state(&self, record: &Record, rendered: &RenderedRelease) -> bool {
        self.context.parser.has_state(record, state_of(rendered))
    }

    /// Reads the live objects of a revision: whole, or as the server's tables. As with Helm, objects that are missing
    /// or cannot be read are left out.
    pub async fn resources(&self, id: &ReleaseId, record: &Record, tables: bool) -> Result<Resources> {
        status_resources::read(&self.context, id, record, tables).await
    }
}

/// Watches, of an engine that watches.
impl Engine {
    /// The deployed revision, if no watch saw a change of the release since it was last reconciled with this drift mode; makes no
    /// request.
    pub fn unchanged_revision(&self, id: &ReleaseId, drift: DriftMode) -> Option<u64> {
        unchanged::revision(&self.context, id, drift)
    }

    /// Waits for the next release with a trigger: a changed or deleted object, or a record written by others. Needs
    /// watches; covers the releases that this engine reconciled.
    pub async fn next_trigger(&self) -> (ReleaseId, ReconcileTrigger) {
        reconcile_trigger::next(&self.context, None).await
    }

    /// As [`Engine::next_trigger`], for releases of these owners only (`ReleaseRequest::owner`): several front ends share one
    /// engine.
    pub async fn next_trigger_for(&self, owners: &BTreeSet<String>) -> (ReleaseId, ReconcileTrigger) {
        reconcile_trigger::next(&self.context, Some(owners)).await
    }

    /// Tracks the CRDs of a release that the engine does not reconcile, for an owner that gets its triggers.
    pub async fn watch_crds_for(&self, id: &ReleaseId, owner: &str, files: &[CrdFile]) {
        self.context.state.set_owner(&self.context.key(id), owner);
        self.context.watch_crds(id, files).await;
    }

    /// Keeps the engine's knowledge of served kinds current until the result is dropped. `None` for an engine that does not watch.
    #[must_use]
    pub fn watch_kind_definitions(&self) -> Option<KindWatch> {
        Some(KindWatch::start(self.operator_client().clone(), self.context.crds.clone()?))
    }

    /// Number of cached objects and of watches.
    pub fn cache_size(&self) -> (usize, usize) {
        let all = [&self.context.watches, &self.context.records, &self.context.crds];
        let sizes = all.into_iter().flatten().map(Watches::size);
        sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
    }

    /// Waits until all released locks are deleted from the server.
    pub async fn settle(&self) {
        self.context.state.settle().await;
    }
}
