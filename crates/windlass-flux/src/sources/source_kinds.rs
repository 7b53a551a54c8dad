//! The front ends of Flux's sources, one for each kind: what is watched, and one pass over one source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::artifact_store::{ArtifactStore, SourceName};
use super::fetch_context::{FetchContext, timeout_of};
use super::source_object::{SourceObject, SourceSpec};
use super::source_status::{FETCH_FAILED, Fetched, SourceError, SourceStatus};
use super::{bucket_fetch, chart_fetch, git_fetch, index_fetch, oci_fetch};
use crate::gotk_metrics;
use flux_api::api_names::{FINALIZER, REQUESTED_AT, SOURCES};
use flux_api::common::failure_state;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef};
use windlass_controller::{
    Disposition, DurationMetric, EventNote, EventType, FrontEnd, ReconcileError, ReconcilePass, Reconciled,
    ReleaseTarget, Report, Requeue, jittered,
};
use windlass_fetch::http::Http;

/// The interval of a source whose spec has none.
const INTERVAL: Duration = Duration::from_secs(60);
/// The shortest interval, whatever a spec says.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// How much longer than its own time limit a fetch may take in all.
const GRACE: Duration = Duration::from_secs(60);

/// A kind of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// Files of an object storage.
    Bucket,
    /// Files of a commit.
    GitRepository,
    /// A chart of another source.
    HelmChart,
    /// An index of charts.
    HelmRepository,
    /// An artifact of a registry.
    OciRepository,
}

impl SourceKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Bucket, Self::GitRepository, Self::HelmChart, Self::HelmRepository, Self::OciRepository];

    /// The name of the kind in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bucket => "Bucket",
            Self::GitRepository => "GitRepository",
            Self::HelmChart => "HelmChart",
            Self::HelmRepository => "HelmRepository",
            Self::OciRepository => "OCIRepository",
        }
    }

    /// The name of its front end.
    #[must_use]
    pub fn controller(self) -> &'static str {
        match self {
            Self::Bucket => "buckets",
            Self::GitRepository => "gitrepositories",
            // Triggers are told apart by the names of front ends, and that of k3s is in the records of its releases.
            Self::HelmChart => "source-helmcharts",
            Self::HelmRepository => "helmrepositories",
            Self::OciRepository => "ocirepositories",
        }
    }

    /// The kind with its API version.
    #[must_use]
    pub fn gvk(self) -> Gvk {
        Gvk::new(SOURCES, self.name())
    }
}

/// Options of all sources of a process.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Directory of artifacts.
    pub storage: PathBuf,
    /// Host and port at which consumers reach the artifacts.
    pub advertised: String,
    /// Sources may be on this machine: for tests and for registries on the node.
    pub allow_local_addresses: bool,
    /// Sources of a cloud may act with this process' identity.
    pub allow_workload_identity: bool,
}

/// The front end of a kind.
pub struct Sources {
    kind: SourceKind,
    store: Arc<ArtifactStore>,
    http: Http,
    allows_local: bool,
    allows_own_identity: bool,
}

impl Sources {
    /// A front end on a store.
    #[must_use]
    pub fn new(kind: SourceKind, store: Arc<ArtifactStore>, options: &SourceOptions) -> Self {
        let allows_local = options.allow_local_addresses;
        let http = Http::new(timeout_of(None), false);
        let http = if allows_local { http } else { http.without_local_addresses() };
        Self { kind, store, http, allows_local, allows_own_identity: options.allow_workload_identity }
    }

    async fn fetch(
        &self,
        context: &mut FetchContext<'_>,
        object: &SourceObject,
        status: &SourceStatus,
    ) -> Result<Fetched, SourceError> {
        match object.spec()? {
            SourceSpec::Bucket(spec) => bucket_fetch::fetch(context, spec, status).await,
            SourceSpec::GitRepository(spec) => git_fetch::fetch(context, spec, status).await,
            SourceSpec::HelmChart(spec) => chart_fetch::fetch(context, spec, status).await,
            SourceSpec::HelmRepository(spec) => index_fetch::fetch(context, spec, status).await,
            SourceSpec::OciRepository(spec) => oci_fetch::fetch(context, spec, status).await,
        }
    }

    /// The status before a fetch: without an artifact that is gone, with the address of this process.
    async fn current_status(&self, object: &SourceObject, before: &Value) -> SourceStatus {
        let mut status = requested_status(object, before);
        let Some(artifact) = status.artifact.clone() else { return status };
        let store = Arc::clone(&self.store);
        let (checked, kind) = (artifact.clone(), self.kind.name());
        let (namespace, name) = (object.namespace.clone(), object.name.clone());
        let check = move || {
            let source = SourceName { kind, namespace: &namespace, name: &name };
            store.is_intact(&source, &checked)
        };
        let intact = tokio::task::spawn_blocking(check).await.unwrap_or(false);
        status.artifact = intact.then(|| {
            let url = self.store.url(&artifact.path);
            flux_api::common::SourceArtifact { url, ..artifact }
        });
        status
    }
}

/// A status, in which the request for a reconcile is handled.
fn requested_status(object: &SourceObject, before: &Value) -> SourceStatus {
    let mut status = SourceStatus::read(before);
    if !object.requested_at.is_empty() {
        object.requested_at.clone_into(&mut status.last_handled_reconcile_at);
    }
    status
}

fn interval(object: &SourceObject) -> Duration {
    jittered(object.interval.unwrap_or(INTERVAL).max(MIN_INTERVAL))
}

impl FrontEnd for Sources {
    type Object = SourceObject;

    fn read(&self, object: &Value) -> SourceObject {
        SourceObject::read(self.kind, object)
    }

    fn name(&self) -> &'static str {
        self.kind.controller()
    }

    fn kind(&self) -> Gvk {
        self.kind.gvk()
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn duration_metric(&self) -> Option<DurationMetric> {
        Some(gotk_metrics::reconcile_duration())
    }

    fn needs_finalizer(&self, object: &SourceObject) -> bool {
        !object.is_static()
    }

    fn trigger_annotations(&self) -> &[&str] {
        &[REQUESTED_AT]
    }

    fn target(&self, _: &SourceObject) -> Result<ReleaseTarget, ReconcileError> {
        Ok(ReleaseTarget::default())
    }

    fn related_kinds(&self) -> Vec<Gvk> {
        let kinds: &[SourceKind] = match self.kind {
            SourceKind::HelmChart => {
                &[SourceKind::HelmRepository, SourceKind::GitRepository, SourceKind::Bucket]
            }
            SourceKind::GitRepository => &[SourceKind::GitRepository],
            _ => &[],
        };
        kinds.iter().map(|kind| kind.gvk()).collect()
    }

    fn related(&self, object: &SourceObject) -> BTreeSet<ObjectRef> {
        object.sources().into_iter().collect()
    }

    fn related_state(&self, source: &Value) -> Value {
        // A registry has no artifact: what counts is its spec.
        let revision = &source["status"]["artifact"]["revision"];
        let generation = ObjectMeta::of(source).generation();
        json!([revision, generation, revision.is_null().then(|| failure_state(source))])
    }

    fn interval(&self, object: &SourceObject) -> Option<Duration> {
        Some(interval(object))
    }

    fn is_suspended(&self, object: &SourceObject) -> bool {
        object.suspended
    }

    async fn reconcile(
        &self,
        pass: &mut ReconcilePass,
        object: &SourceObject,
    ) -> Result<Reconciled, ReconcileError> {
        let requeue = Requeue::After(interval(object));
        if object.is_static() {
            return Ok(Reconciled::new(true, Requeue::Never));
        }
        let generation = object.generation;
        let mut status = self.current_status(object, &pass.object["status"]).await;
        if status.artifact.is_none() || status.observed_generation != Some(generation) {
            status.progressing(generation);
            pass.replace_status(&status).await?;
        }
        let limit = timeout_of(object.timeout) + GRACE;
        let mut context = FetchContext {
            pass,
            store: Arc::clone(&self.store),
            http: self.http.clone(),
            kind: self.kind.name(),
            generation,
            allows_local: self.allows_local,
            allows_own_identity: self.allows_own_identity,
        };
        let fetched = tokio::time::timeout(limit, self.fetch(&mut context, object, &status)).await;
        let fetched = fetched.unwrap_or_else(|_| {
            Err(SourceError::fetch("Failed", format!("no end within {} seconds", limit.as_secs())))
        });
        match fetched {
            Ok(fetched) => {
                let (new, recovered) = status.succeeded(&fetched, generation);
                if let Some(file) = fetched.latest {
                    status.url = context
                        .with_source(|source| self.store.publish_latest(source, &fetched.artifact, file));
                }
                context.with_source(|source| self.store.remove_old(source, &fetched.artifact));
                pass.replace_status(&status).await?;
                if new || recovered {
                    let chart = self.kind == SourceKind::HelmChart;
                    let reason = match (chart, new) {
                        (true, _) => fetched.reason,
                        (false, true) => "NewArtifact",
                        (false, false) => "Succeeded",
                    };
                    let about = annotations(fetched.artifact.revision.as_str(), &fetched.artifact.digest);
                    record(pass, (EventType::Normal, reason), &fetched.note, about);
                }
                Ok(Reconciled::new(true, requeue))
            }
            Err(error) => {
                let before = SourceStatus::read(&pass.object["status"]);
                status.failed(&error, generation);
                pass.replace_status(&status).await?;
                let said = |status: &SourceStatus| {
                    status
                        .get(error.condition)
                        .map(|c| (c.status.clone(), c.reason.clone(), c.message.clone()))
                };
                if said(&before) != said(&status) {
                    record(pass, (EventType::Warning, error.reason), &error.text, BTreeMap::new());
                }
                let disposition = match (error.waits, error.stalls) {
                    (true, _) => Disposition::Dependency { failed: false },
                    (_, true) => Disposition::Stall,
                    (false, false) => Disposition::Retry,
                };
                let SourceError { reason, text, .. } = error;
                Ok(Reconciled::failed(ReconcileError::Reason { reason, text, disposition }))
            }
        }
    }

    async fn uninstall(&self, _: &mut ReconcilePass, object: &SourceObject) -> Result<(), ReconcileError> {
        let (namespace, name) = (object.namespace.clone(), object.name.clone());
        let (store, kind) = (Arc::clone(&self.store), self.kind.name());
        let removed = tokio::task::spawn_blocking(move || {
            store.remove_all(&SourceName { kind, namespace: &namespace, name: &name })
        });
        let removed = removed.await.map_err(|e| ReconcileError::Task(e.to_string()))?;
        removed.map_err(|e| ReconcileError::Task(format!("artifacts cannot be removed: {e}")))
    }

    fn status(&self, object: &SourceObject, before: &Value, report: &Report<'_>) -> Value {
        let (mut status, generation) = (requested_status(object, before), object.generation);
        match report {
            Report::Suspended => return json!({"lastHandledReconcileAt": status.last_handled_reconcile_at}),
            Report::Progressing | Report::Released(_) | Report::DependencyNotReady(_) => {
                status.progressing(generation);
            }
            Report::Failed { error, .. } => {
                let error = SourceError::new(FETCH_FAILED, "Failed", error.to_string());
                status.failed(&error, generation);
            }
        }
        json!({"conditions": status.conditions, "lastHandledReconcileAt": status.last_handled_reconcile_at})
    }

    fn event(&self, report: &Report<'_>) -> Option<EventNote> {
        let Report::Failed { error, .. } = report else { return None };
        let (event_type, reason, action) = (EventType::Warning, "Failed", "Reconcile");
        Some(EventNote { event_type, reason, action, note: error.to_string(), annotations: BTreeMap::new() })
    }
}

fn record(
    pass: &ReconcilePass,
    (event_type, reason): (EventType, &'static str),
    note: &str,
    annotations: BTreeMap<String, String>,
) {
    let note = note.to_owned();
    pass.record_event(EventNote { event_type, reason, action: "Reconcile", note, annotations });
}

/// What source-controller says of an artifact in the annotations of an Event.
fn annotations(revision: &str, digest: &str) -> BTreeMap<String, String> {
    let pairs = [("revision", revision), ("digest", digest)];
    pairs
        .into_iter()
        .map(|(key, value)| (format!("source.toolkit.fluxcd.io/{key}"), value.to_owned()))
        .collect()
}
