//! What all parts of the engine share: clients, options, state, caches and listeners.
//!
//! Owns which client and namespace is used for what, and what is watched. Knows no operation.

use crate::{
    deadline::Deadline,
    objects::crd_files,
    progress::operation_progress::{ProgressListener, ProgressReporter, WaitListener},
    record::{RecordStore, Storage, recorded_manifests::RecordParser},
    request::{CrdFile, ManifestParser, ReleaseId, ReleaseKey},
    state::engine_state::EngineState,
};
use std::{collections::BTreeSet, sync::Arc};
use windlass_cluster::{CacheEvent, Cluster, ClusterError, Gvk, ObjectRef, WatchScope, Watches};

/// How an engine works; the same for all its releases.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Field manager of the release's objects.
    pub field_manager: String,
    /// Identifies this process in pending records; differs between processes.
    pub holder: String,
    /// Watches owned objects and records, for long-running processes. Otherwise each read goes to the server.
    pub watch: bool,
    /// Where records are stored.
    pub storage: Storage,
}

impl EngineOptions {
    /// Options of a process that runs one operation and exits.
    pub fn once(holder: &str) -> Self {
        Self {
            field_manager: "helm".to_owned(),
            holder: holder.to_owned(),
            watch: false,
            storage: Storage::default(),
        }
    }

    /// Options of an operator.
    pub fn watching(holder: &str) -> Self {
        Self { watch: true, ..Self::once(holder) }
    }
}

/// The clients, caches and options of an engine. Cheap to clone; all clones share watches and caches.
#[derive(Clone)]
pub(crate) struct Context {
    /// Client for the objects of releases.
    pub(crate) cluster: Cluster,
    /// Client for the CRDs of `crds/`.
    pub(crate) crd_client: Cluster,
    /// The operator's own client: for records and Leases.
    pub(crate) operator_client: Cluster,
    pub(crate) parser: RecordParser,
    pub(crate) options: Arc<EngineOptions>,
    pub(crate) state: Arc<EngineState>,
    pub(crate) watches: Option<Watches>,
    pub(crate) records: Option<Watches>,
    /// Watch of all CRDs and APIServices.
    pub(crate) crds: Option<Watches>,
    /// Client for records; `None`: the operator's own.
    pub(crate) own_record_client: Option<Cluster>,
    /// Namespace of the records; `None`: of each release.
    pub(crate) storage_namespace: Option<Arc<str>>,
    pub(crate) progress: Option<ProgressListener>,
    pub(crate) diagnoses: bool,
    /// Objects are read and written with other rights than the caches'.
    pub(crate) acts_for_another: bool,
    pub(crate) waits: Option<Arc<dyn WaitListener>>,
    pub(crate) deadline: Deadline,
}

impl Context {
    pub(crate) fn new(cluster: Cluster, parse: ManifestParser, options: EngineOptions) -> Self {
        let state = Arc::new(EngineState::default());
        let cache = |labels: &str, listener: fn(&EngineState, &CacheEvent)| {
            if !options.watch {
                return None;
            }
            let scope = WatchScope { labels: labels.to_owned(), manager: options.field_manager.clone() };
            let state = Arc::clone(&state);
            Some(Watches::new(cluster.clone(), scope, move |change| listener(&state, change)))
        };
        let watches = cache("app.kubernetes.io/managed-by=Helm", EngineState::on_object_event);
        let records = cache("owner=helm", EngineState::on_record_event);
        let crds = options.watch.then(|| {
            let scope = WatchScope { labels: String::new(), manager: options.field_manager.clone() };
            let (state, client) = (Arc::clone(&state), cluster.clone());
            Watches::new(cluster.clone(), scope, move |change| {
                state.on_crd_event(change);
                client.note_definition_change();
            })
        });
        Self {
            operator_client: cluster.clone(),
            crd_client: cluster.clone(),
            cluster,
            parser: RecordParser(parse),
            options: Arc::new(options),
            state,
            watches,
            records,
            crds,
            own_record_client: None,
            storage_namespace: None,
            progress: None,
            diagnoses: false,
            acts_for_another: false,
            waits: None,
            deadline: Deadline::default(),
        }
    }

    /// Field manager of the release's objects.
    pub(crate) fn manager(&self) -> &str {
        &self.options.field_manager
    }

    /// The client for records, Leases and generated values.
    pub(crate) fn record_client(&self) -> &Cluster {
        self.own_record_client.as_ref().unwrap_or(&self.operator_client)
    }

    /// Whether records are read and written with the rights of the actor.
    pub(crate) fn stores_as_actor(&self) -> bool {
        self.own_record_client.is_some()
    }

    /// The namespace of a release's records, Lease and generated values.
    pub(crate) fn storage_namespace_of<'a>(&'a self, id: &'a ReleaseId) -> &'a str {
        self.storage_namespace.as_deref().unwrap_or(&id.namespace)
    }

    /// What the state knows a release by.
    pub(crate) fn key(&self, id: &ReleaseId) -> ReleaseKey {
        ReleaseKey::new(id, self.storage_namespace_of(id))
    }

    pub(crate) fn store(&self) -> RecordStore<'_> {
        RecordStore::new(self.record_client(), &self.options.storage, &self.state.horizon)
            .in_namespace(self.storage_namespace.as_deref())
    }

    pub(crate) fn progress_of<'a>(&'a self, id: &'a ReleaseId) -> ProgressReporter<'a> {
        ProgressReporter {
            id,
            listener: self.progress.as_ref(),
            diagnoses: self.diagnoses,
            waits: self.waits.as_ref(),
        }
    }

    /// Watches the records of a release, if this engine watches.
    pub(crate) async fn watch_records(&self, id: &ReleaseId) {
        if let Some(records) = &self.records {
            let key = self.key(id);
            self.state.note_storage(&key);
            records.watch([(self.options.storage.gvk(), Some(key.storage))]).await;
        }
    }

    /// Watches the CRDs of a release, or of a module without one: a deletion triggers a reconcile. Only for engines
    /// that watch.
    pub(crate) async fn watch_crds(&self, id: &ReleaseId, files: &[CrdFile]) {
        let Some(watches) = &self.crds else { return };
        let names = crd_files::names(files);
        let none = names.is_empty();
        self.state.track_crds(&self.key(id), names);
        if !none {
            watches.watch([(Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition"), None)]).await;
        }
    }

    /// Starts watches for the kinds of these objects, if this engine watches.
    pub(crate) async fn watch_kinds(
        &self,
        objects: impl Iterator<Item = &ObjectRef>,
    ) -> Result<(), ClusterError> {
        let Some(watches) = &self.watches else { return Ok(()) };
        let kinds = self.cluster.kinds().await?;
        let wanted: BTreeSet<(Gvk, Option<String>)> = objects
            .filter_map(|object| {
                let served = kinds.get(&object.gvk)?;
                served.watchable.then(|| (object.gvk.clone(), object.namespace.clone()))
            })
            .collect();
        watches.watch(wanted).await;
        Ok(())
    }
}
