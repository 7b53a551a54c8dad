//! One operation on one release: render and reconcile, correct drift, uninstall.
//!
//! Owns the way from a chart and its values to the engine's outcome, and on whose behalf it goes. When an operation is due is
//! the work queue's; what to ask for is the front end's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chart_compat::data::{Data, Map};
use chart_compat::render::{Capabilities, CompiledChart, KubeVersion, Rendered};
use tokio::sync::Semaphore;

use super::error::ReconcileError;
use super::render_revision::RenderedRevision;
use super::target::{Impersonation, ReleaseTarget};
use super::worker_slot::WorkerSlot;
use windlass_cluster::{Cluster, ClusterError, ObjectRef};
use windlass_engine::record::Storage;
use windlass_engine::{
    ChartRecord, CrdFile, Engine, ReleaseId, ReleaseOptions, ReleaseOutcome, ReleaseRequest, RenderedRelease,
    UninstallRequest, Uninstalled,
};
use windlass_render::{
    self as rendering, Documents, RenderBounds, replay, replay::LookupQuery, replay::store,
};

/// Makes the release that is compared and applied of what a chart rendered, within bounds: with patches, extra labels. Returns the
/// checksum for [`ReleaseSpec::checksum_label`], too, or an empty text.
pub type PostRender =
    Arc<dyn Fn(Rendered, &RenderBounds) -> Result<(RenderedRelease, String), ReconcileError> + Send + Sync>;

/// A release as a front end asks for it, before it is rendered.
#[derive(Clone)]
pub struct ReleaseSpec {
    /// Namespace and name of the release.
    pub id: ReleaseId,
    /// The chart.
    pub chart: Arc<CompiledChart>,
    /// Values over those of the chart.
    pub values: Arc<Map>,
    /// Values that violate the chart's schema are accepted.
    pub skip_schema_validation: bool,
    /// Files of the chart's `crds/`, in the form to apply.
    pub crds: Vec<CrdFile>,
    /// Mark of the front end's releases (label `windlass.dev/owner`); empty for releases that no front end owns.
    pub owner: String,
    /// Why the release is reconciled, for its record.
    pub cause: String,
    /// The description of a new revision; `None` for the engine's own.
    pub description: Option<String>,
    /// Labels of the record beside Helm's.
    pub record_labels: BTreeMap<String, String>,
    /// Label of the record that gets the checksum of the post-rendered manifests.
    pub checksum_label: Option<&'static str>,
    /// What makes the release of the rendered manifests; `None`: as they are.
    pub post_render: Option<PostRender>,
    /// Options of the engine.
    pub options: ReleaseOptions,
}

/// What an operation on a release did.
pub struct Done {
    /// What the engine did.
    pub outcome: ReleaseOutcome,
    /// What was asked of it.
    pub request: Arc<ReleaseRequest>,
    /// What the render depends on beyond chart and values; `None` if nothing was rendered.
    pub inputs: Option<RenderInputs>,
    /// How long the render took, and how long the rest.
    pub took: (Duration, Duration),
}

/// What makes a render out of date beyond chart and values.
#[derive(Clone)]
pub struct RenderInputs {
    /// When a certificate must be renewed, in seconds since 1970.
    pub renew_at: Option<i64>,
    /// The client that read the answers: they are watched with its rights and no others.
    pub client: Cluster,
    /// What was looked up, with the digest of each answer.
    pub lookups: BTreeMap<LookupQuery, String>,
}

impl std::fmt::Debug for RenderInputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenderInputs").field("lookups", &self.lookups.keys()).finish_non_exhaustive()
    }
}

impl RenderInputs {
    /// Nothing looked up yet, by this client.
    #[must_use]
    pub fn new(client: Cluster) -> Self {
        Self { renew_at: None, client, lookups: BTreeMap::new() }
    }

    /// Those of two renders that the same client read.
    #[must_use]
    pub fn merged(mut self, other: Self) -> Self {
        self.lookups.extend(other.lookups);
        self.renew_at = [self.renew_at, other.renew_at].into_iter().flatten().min();
        self
    }
}

/// Runs operations on releases. Cheap to clone; clones share the engine, the clients and the bound on parallel renders.
#[derive(Clone)]
pub struct ReleaseRunner {
    engine: Engine,
    impersonation: Impersonation,
    pub(super) bounds: RenderBounds,
    /// One permit for each render that may run now.
    pub(super) renders: Arc<Semaphore>,
    crds_as_operator: bool,
    /// The engine is one of another cluster than the operator's own.
    is_elsewhere: bool,
    /// Loads documents that schemas of values refer to; `None` refuses them.
    pub(super) documents: Option<Arc<dyn Documents>>,
    /// The custom resource that releases are deployed for.
    pub(super) object: Option<ObjectRef>,
}

impl ReleaseRunner {
    /// A runner on an engine. `crds_as_operator`: CRDs are applied with the operator's own rights, also for releases with a
    /// ServiceAccount.
    #[must_use]
    pub fn new(engine: Engine, bounds: RenderBounds, crds_as_operator: bool) -> Self {
        let renders = Arc::new(Semaphore::new(bounds.at_once()));
        Self {
            engine,
            impersonation: Impersonation::default(),
            bounds,
            renders,
            crds_as_operator,
            is_elsewhere: false,
            documents: None,
            object: None,
        }
    }

    /// The same runner that takes its renders' permits from a bound that it shares with others.
    #[must_use]
    pub fn with_renders(self, renders: Arc<Semaphore>) -> Self {
        Self { renders, ..self }
    }

    /// The same runner, whose engine is one of another cluster than the operator's own.
    #[must_use]
    pub fn of_other_cluster(self) -> Self {
        Self { is_elsewhere: true, ..self }
    }

    /// The same runner for schemas of values that refer to other documents, with what loads these.
    #[must_use]
    pub fn with_documents(self, documents: Arc<dyn Documents>) -> Self {
        Self { documents: Some(documents), ..self }
    }

    /// The engine, acting as this runner does.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The same runner for a release in `namespace`, acting as the target's ServiceAccount if there is one.
    ///
    /// # Errors
    /// As [`Self::actor_client`].
    pub fn acting_for(&self, target: &ReleaseTarget, namespace: &str) -> Result<Self, ClusterError> {
        let mut own = self.clone();
        let client = self.actor_client(target, namespace)?;
        if target.service_account(namespace).is_some() {
            own.engine = own.engine.acting_as(client);
            if self.crds_as_operator {
                own.engine = own.engine.with_crds_as_operator();
            }
        }
        Ok(own)
    }

    /// The client with whose rights a release in `namespace` is applied: the target's ServiceAccount's, or the operator's own.
    ///
    /// # Errors
    /// The impersonating client cannot be built, or the release is on another cluster than the engine's: nobody acts for it here.
    pub fn actor_client(&self, target: &ReleaseTarget, namespace: &str) -> Result<Cluster, ClusterError> {
        let operator = self.engine.operator_client();
        if target.is_on_other_cluster() != self.is_elsewhere {
            return Err(ClusterError::Other("nobody acts for the release on this cluster".to_owned()));
        }
        match target.service_account(namespace) {
            Some(account) => self.impersonation.client(operator, account),
            None => Ok(operator.clone()),
        }
    }

    /// The same runner, with the records of its releases in another namespace. `as_actor`: with the rights of the release's
    /// ServiceAccount.
    #[must_use]
    pub fn with_storage_namespace(mut self, namespace: &str, as_actor: bool) -> Self {
        self.engine = self.engine.with_storage_namespace(namespace, as_actor);
        self
    }

    /// The same runner, with the records of its releases in objects of another kind.
    #[must_use]
    pub fn with_storage(mut self, storage: Storage) -> Self {
        self.engine = self.engine.with_storage(storage);
        self
    }

    /// The same runner for a job: it leaves the job's place while the engine waits, and ends when the wait is cancelled.
    #[must_use]
    pub fn with_slot(mut self, slot: &WorkerSlot) -> Self {
        self.engine = self.engine.with_wait_listener(Arc::new(slot.clone())).with_cancel(slot.cancel());
        self
    }

    /// The same runner for releases that are deployed for a custom resource of their cluster. One that has this very object is refused,
    /// and the uninstall of one does not wait for an object whose own deletion waits for this one.
    #[must_use]
    pub fn for_object(self, object: &ObjectRef) -> Self {
        Self { object: Some(object.clone()), ..self }
    }

    /// Renders a release and reconciles it.
    ///
    /// # Errors
    /// Any step from the render to the record fails.
    pub async fn run(&self, spec: ReleaseSpec) -> Result<Done, ReconcileError> {
        let began = Instant::now();
        // Templates may look up objects of the chart's own kinds.
        self.ensure_kinds(&spec.id, &spec.crds, &spec.options).await?;
        let RenderedRevision { rendered, checksum, chart, memory, renewed, inputs, past } =
            self.render_revision(&spec).await?;
        if let Some(memory) = &memory {
            // Before the objects: the next render must know what they hold, whatever happens to this one.
            store::save(
                self.engine.record_client(),
                self.engine.storage_namespace_of(&spec.id),
                &spec.id.name,
                memory,
            )
            .await
            .map_err(ReconcileError::Replay)?;
        }
        let description = spec.description.clone().or_else(|| replay::description(&renewed));
        let request = ReleaseRequest { description, ..request(spec, rendered, checksum, chart) };
        let (request, rendered) = (Arc::new(request), began.elapsed());
        let outcome = match past {
            Some(past) => self.engine.reconcile_with_history(&request, past).await?,
            None => self.engine.reconcile(&request).await?,
        };
        let took = (rendered, began.elapsed().saturating_sub(rendered));
        Ok(Done { outcome, request, inputs: Some(inputs), took })
    }

    /// What [`Self::run`] would ask of the engine. Writes nothing.
    ///
    /// # Errors
    /// The chart cannot be rendered.
    pub async fn preview(&self, spec: ReleaseSpec) -> Result<ReleaseRequest, ReconcileError> {
        let RenderedRevision { rendered, checksum, chart, .. } = self.render_revision(&spec).await?;
        Ok(request(spec, rendered, checksum, chart))
    }

    /// Reconciles a release with what was rendered last.
    ///
    /// # Errors
    /// As the engine's.
    pub async fn correct_drift(&self, request: Arc<ReleaseRequest>) -> Result<Done, ReconcileError> {
        let began = Instant::now();
        let outcome = self.engine.reconcile(&request).await?;
        Ok(Done { outcome, request, inputs: None, took: (Duration::ZERO, began.elapsed()) })
    }

    /// Uninstalls a release and deletes its generated values.
    ///
    /// # Errors
    /// As the engine's.
    pub async fn uninstall(&self, request: &UninstallRequest) -> Result<Uninstalled, ReconcileError> {
        let request = &UninstallRequest { object: self.object.clone(), ..request.clone() };
        let done = self.engine.uninstall(request).await?;
        let id = &request.id;
        store::forget(self.engine.record_client(), self.engine.storage_namespace_of(id), &id.name).await?;
        Ok(done)
    }

    /// One permit for each render that may run now.
    #[must_use]
    pub fn render_permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.renders)
    }

    /// Whether CRDs are applied with the operator's own rights, also for releases with a ServiceAccount.
    #[must_use]
    pub fn applies_crds_as_operator(&self) -> bool {
        self.crds_as_operator
    }

    /// Bounds of one render.
    #[must_use]
    pub fn render_bounds(&self) -> RenderBounds {
        self.bounds
    }
}

/// The engine's request for a rendered spec.
fn request(
    spec: ReleaseSpec,
    rendered: RenderedRelease,
    checksum: String,
    chart: ChartRecord,
) -> ReleaseRequest {
    let mut labels = spec.record_labels;
    if let Some(label) = spec.checksum_label {
        labels.insert(label.to_owned(), checksum);
    }
    ReleaseRequest {
        id: spec.id,
        rendered: Arc::new(RenderedRelease { crds: spec.crds, ..rendered }),
        chart: Arc::new(chart),
        config: rendering::to_json(&Data::Map((*spec.values).clone())),
        owner: Some(spec.owner).filter(|owner| !owner.is_empty()),
        labels,
        cause: spec.cause,
        description: spec.description,
        options: spec.options,
    }
}

/// What charts see of a live cluster.
///
/// # Errors
/// Discovery or the version cannot be read.
pub async fn capabilities(cluster: &Cluster) -> Result<Capabilities, ClusterError> {
    let kinds = cluster.kinds().await?;
    let version = cluster.version().await?;
    let text = |key: &str| version[key].as_str().unwrap_or_default().to_owned();
    Ok(Capabilities {
        kube_version: KubeVersion::of_cluster(&text("gitVersion"), &text("major"), &text("minor")),
        api_versions: kinds.api_versions(),
        ..Capabilities::default()
    })
}
