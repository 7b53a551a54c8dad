//! The engine that a front end holds: its configuration, and the operations, each in a file of its own.
//!
//! Owns the order of an operation's steps; the steps are folders below.

pub(crate) mod readiness_check;
mod reconcile;
pub(crate) mod reconcile_trigger;
pub(crate) mod release_testing;
mod rollback;
mod uninstall;

use crate::{
    context::{Context, EngineOptions},
    drift::unchanged::{self, UnchangedRelease},
    error::Result,
    execute::crds,
    observe::release_history::{self, History},
    progress::operation_progress::{ProgressListener, WaitListener},
    record::{Record, Storage},
    report::{
        release_records::ReleaseRecords,
        status_resources::{self, Resources},
    },
    request::{CrdFile, CrdRules, DriftMode, ManifestParser, ReleaseId},
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use windlass_cluster::{Cluster, KindWatch, ObjectRef};

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

    /// The same engine, with the records of its releases in objects of another kind.
    #[must_use]
    pub fn with_storage(mut self, storage: Storage) -> Self {
        self.context.options = Arc::new(EngineOptions { storage, ..(*self.context.options).clone() });
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

/// What is recorded and live, and CRDs.
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

    /// Reads the live objects of a revision: whole, or as the server's tables. As with Helm, objects that are missing
    /// or cannot be read are left out.
    pub async fn resources(&self, id: &ReleaseId, record: &Record, tables: bool) -> Result<Resources> {
        status_resources::read(&self.context, id, record, tables).await
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

/// Watches, of an engine that watches.
impl Engine {
    /// The deployed revision, if no watch saw a change of the release since it was last reconciled with this drift mode; makes no
    /// request.
    pub fn unchanged_revision(&self, id: &ReleaseId, drift: DriftMode) -> Option<UnchangedRelease> {
        unchanged::release(&self.context, id, drift)
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

    /// Waits until all released locks are deleted from the server.
    pub async fn settle(&self) {
        self.context.state.settle().await;
    }
}
