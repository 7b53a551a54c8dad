//! One job of one module's release: render and reconcile, restore, uninstall, and the answers that takes from outside.

mod form;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chart_compat::chart::Crd;
use chart_compat::data::{Data, Map};
use chart_compat::render::{self, Capabilities, CompiledChart, KubeVersion};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

pub(super) use self::form::At;
use self::form::Form;
use super::drift::Policy;
use super::place::Place;
use crate::cluster::{Cluster, Gvk, ObjectRef, PatchKind, Validation};
use crate::release::{
    Adoption, ChartRecord, CrdFile, CrdPolicy, CrdRules, Disposition, DriftMode, Duplicates, Engine,
    EngineError, History, Mode, ReleaseId, ReleaseOptions, ReleaseOutcome, ReleaseRequest, RenderedRelease,
    UninstallRequest, require_crds,
};
use crate::render::{self as rendering, replay, replay::Question, replay::store};

/// Label of a record: the checksum of its manifests, by which addon-operator knows whether there is something to do. It does
/// nothing with a release that has none.
const CHECKSUM_LABEL: &str = "moduleChecksum";
/// Label of a record: whether the release's objects are left as they are.
const MAINTENANCE_LABEL: &str = "maintenance.deckhouse.io/no-resource-reconciliation";

/// The longest value of a label.
const LONGEST_LABEL: usize = 63;

/// What all modules of an operator share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) namespace: String,
    /// The mark of this operator's releases.
    pub(super) owner: String,
    /// The cluster as ServiceAccounts see it, by user.
    pub(super) actors: Arc<Mutex<BTreeMap<String, Cluster>>>,
    pub(super) history_max: usize,
    pub(super) timeout: Duration,
    pub(super) drift: Policy,
    /// Put on every object of a release.
    pub(super) labels: BTreeMap<String, String>,
    /// Files of `crds/` whose names start so are no CRDs.
    pub(super) crd_filters: Vec<String>,
    /// What one render may take.
    pub(super) bounds: rendering::RenderBounds,
    /// One permit for each render that may run now.
    pub(super) renders: Arc<Semaphore>,
    /// Which objects that exist modules take over.
    pub(super) adoption: Adoption,
    /// CRDs are applied with the operator's own rights, also for modules with a ServiceAccount.
    pub(super) crds_as_operator: bool,
    /// Drift is left as it is, and records say so.
    pub(super) held: bool,
}

/// Why a job of a module failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The module cannot be loaded from disk.
    #[error("{0}")]
    Module(String),
    /// Its values cannot be used.
    #[error("ConfigMap: {0}")]
    Config(String),
    /// They are not what its schema demands.
    #[error("values: {0}")]
    Values(String),
    /// A hook failed; the text names it.
    #[error("{0}")]
    Hook(String),
    #[error("render: {0}")]
    Render(#[from] render::Error),
    /// What the module's renders make by chance cannot be read or kept.
    #[error("{0}")]
    Replay(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("cluster: {0}")]
    Cluster(#[from] crate::cluster::ClusterError),
    /// The task that ran it is gone.
    #[error("the module's task ended unexpectedly: {0}")]
    Task(String),
}

impl From<replay::Error> for Error {
    fn from(error: replay::Error) -> Self {
        match error {
            replay::Error::Render(e) => Self::Render(e),
            other @ replay::Error::Memory(_) => Self::Replay(other.to_string()),
        }
    }
}

/// What a job of a module did.
pub(super) struct Done {
    pub(super) outcome: ReleaseOutcome,
    pub(super) request: Arc<ReleaseRequest>,
    /// What its render depends on beyond chart and values; `None` if it was not rendered.
    pub(super) inputs: Option<Inputs>,
    /// How long the render took, and what came after it.
    pub(super) took: (Duration, Duration),
}

/// What makes a render out of date beyond chart and values.
pub(super) struct Inputs {
    /// When a certificate is to be renewed, in seconds since 1970.
    pub(super) renew_at: Option<i64>,
    /// What was looked up, and the digest of each answer.
    pub(super) lookups: BTreeMap<Question, String>,
}

impl Error {
    /// What to do about it.
    pub(super) fn disposition(&self) -> Disposition {
        match self {
            Self::Module(_) | Self::Config(_) | Self::Values(_) | Self::Render(_) => Disposition::Stall,
            Self::Engine(e) => e.disposition(),
            Self::Cluster(_) | Self::Task(_) | Self::Replay(_) | Self::Hook(_) => Disposition::Retry,
        }
    }
}

impl Shared {
    /// What modules share under these options.
    pub(super) fn new(engine: Engine, options: &super::Options) -> Self {
        Self {
            engine,
            namespace: options.namespace.clone(),
            owner: options.config_map.clone(),
            actors: Arc::default(),
            history_max: options.history_max,
            timeout: options.timeout,
            drift: options.drift.clone(),
            labels: options.extra_labels.clone(),
            crd_filters: options.crd_filters.clone(),
            bounds: options.render_bounds,
            renders: Arc::new(Semaphore::new(options.render_bounds.at_once())),
            adoption: options.adoption,
            crds_as_operator: options.crds_as_operator,
            held: false,
        }
    }

    fn options(&self, drift: Policy) -> ReleaseOptions {
        ReleaseOptions {
            drift: if self.held { DriftMode::Off } else { drift.mode },
            drift_ignore: drift.ignore,
            mode: Mode::UpgradeInstall,
            skip_unchanged: true,
            crds: CrdPolicy::Apply,
            timeout: self.timeout,
            adoption: self.adoption,
            force_conflicts: true,
            validation: Validation::Warn,
            duplicates: Duplicates::KeepLast,
            history_max: self.history_max,
            ..ReleaseOptions::default()
        }
    }

    /// The same for a module that has a place of its own.
    pub(super) fn at(&self, place: &Place) -> Result<Self, Error> {
        let mut own = self.clone();
        if let Some(namespace) = place.namespace.as_ref().filter(|n| **n != self.namespace) {
            own.namespace.clone_from(namespace);
            own.owner = self.owner_elsewhere();
        }
        if let Some((namespace, name)) = place.service_account(&own.namespace) {
            let user = format!("system:serviceaccount:{namespace}:{name}");
            let mut actors = self.actors.lock().unwrap_or_else(PoisonError::into_inner);
            let actor = match actors.get(&user) {
                Some(actor) => actor.clone(),
                None => {
                    let actor = self.engine.operator_client().acting_as(&user)?;
                    actors.insert(user, actor.clone());
                    actor
                }
            };
            own.engine = own.engine.acting_as(actor);
            if self.crds_as_operator {
                own.engine = own.engine.with_crds_as_operator();
            }
        }
        Ok(own)
    }

    /// The mark of this operator's releases in other namespaces than its own: a label's value.
    fn owner_elsewhere(&self) -> String {
        let text = format!("{}.{}", self.namespace, self.owner);
        if text.len() <= LONGEST_LABEL {
            return text;
        }
        let digest = Sha256::digest(&text);
        let end: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
        let start: String = text.chars().take(LONGEST_LABEL - 1 - end.len()).collect();
        format!("{}.{end}", start.trim_end_matches(['.', '-', '_']))
    }

    fn id(&self, module: &str) -> ReleaseId {
        ReleaseId::new(&self.namespace, module)
    }

    /// Renders a module with its values and brings its release to that.
    pub(super) async fn run(
        &self,
        module: &str,
        chart: Arc<CompiledChart>,
        values: Arc<Map>,
        cause: String,
    ) -> Result<Done, Error> {
        let began = Instant::now();
        let (request, inputs, past) = self.request(module, chart, values, cause).await?;
        let (request, rendered) = (Arc::new(request), began.elapsed());
        let outcome = match past {
            Some(past) => self.engine.reconcile_with_history(&request, past).await?,
            None => self.engine.reconcile(&request).await?,
        };
        let took = (rendered, began.elapsed().saturating_sub(rendered));
        Ok(Done { outcome, request, inputs: Some(inputs), took })
    }

    /// Brings a release to what was last rendered.
    pub(super) async fn restore(&self, request: Arc<ReleaseRequest>) -> Result<Done, Error> {
        let began = Instant::now();
        let outcome = self.engine.reconcile(&request).await?;
        Ok(Done { outcome, request, inputs: None, took: (Duration::ZERO, began.elapsed()) })
    }

    /// Uninstalls a module's release; gives how many objects were deleted.
    pub(super) async fn uninstall(&self, module: &str) -> Result<usize, Error> {
        let request = UninstallRequest {
            ignore_not_found: true,
            timeout: self.timeout,
            break_lock: false,
            ..UninstallRequest::new(self.id(module))
        };
        let deleted = self.engine.uninstall(&request).await?.deleted.len();
        store::forget(self.engine.operator_client(), &self.namespace, module).await?;
        Ok(deleted)
    }

    async fn request(
        &self,
        module: &str,
        chart: Arc<CompiledChart>,
        values: Arc<Map>,
        cause: String,
    ) -> Result<(ReleaseRequest, Inputs, Option<History>), Error> {
        let drift = self.drift_of(&chart)?;
        // Templates may look for the kinds of the module's own CRDs.
        let crds = self.make_kinds(module, &chart.chart().crds()).await?;
        let Form { rendered, checksum, chart, memory, renewed, inputs, past } =
            self.form(module, &chart, &values).await?;
        if let Some(memory) = &memory {
            // Before the objects: what they hold must be known to the next render, whatever happens to this one.
            store::save(self.engine.operator_client(), &self.namespace, module, memory)
                .await
                .map_err(Error::Replay)?;
        }
        let rendered = RenderedRelease { crds, ..rendered };
        let asked = self.asked(module, (rendered, checksum), chart, &values, drift);
        Ok((ReleaseRequest { description: replay::description(&renewed), cause, ..asked }, inputs, past))
    }

    /// What a run of the module would ask of the engine; writes nothing.
    pub(super) async fn preview(
        &self,
        module: &str,
        chart: Arc<CompiledChart>,
        values: Arc<Map>,
    ) -> Result<ReleaseRequest, Error> {
        let drift = self.drift_of(&chart)?;
        let crds = self.crds_of(&chart.chart().crds())?;
        let Form { rendered, checksum, chart, .. } = self.form(module, &chart, &values).await?;
        let rendered = RenderedRelease { crds, ..rendered };
        Ok(self.asked(module, (rendered, checksum), chart, &values, drift))
    }

    fn drift_of(&self, chart: &CompiledChart) -> Result<Policy, Error> {
        self.drift.of_chart(chart.chart().metadata.annotations.as_deref()).map_err(Error::Module)
    }

    fn asked(
        &self,
        module: &str,
        (rendered, checksum): (RenderedRelease, String),
        chart: ChartRecord,
        values: &Map,
        drift: Policy,
    ) -> ReleaseRequest {
        ReleaseRequest {
            id: self.id(module),
            rendered: Arc::new(rendered),
            chart: Arc::new(chart),
            config: rendering::to_json(&Data::Map(values.clone())),
            owner: Some(self.owner.clone()),
            labels: BTreeMap::from([
                (CHECKSUM_LABEL.to_owned(), checksum),
                (MAINTENANCE_LABEL.to_owned(), self.held.to_string()),
            ]),
            options: self.options(drift),
            ..ReleaseRequest::default()
        }
    }

    /// Brings CRDs into the cluster if a kind of theirs is not served; gives them as they are to be.
    pub(super) async fn make_kinds(&self, module: &str, files: &[Crd]) -> Result<Vec<CrdFile>, Error> {
        let crds = self.crds_of(files)?;
        if crds.is_empty() {
            return Ok(crds);
        }
        let kinds = self.engine.cluster().kinds().await?;
        if crds.iter().flat_map(|f| &f.objects).flat_map(defines).any(|gvk| kinds.get(&gvk).is_none()) {
            self.engine.install_crds(&self.id(module), &crds, self.crd_rules()).await?;
        }
        Ok(crds)
    }

    /// Makes CRDs of a module without a release what its files say; those that are so already are not written.
    pub(super) async fn keep_crds(&self, module: &str, files: &[Crd]) -> Result<(), Error> {
        let mut crds = self.crds_of(files)?;
        require_crds(&crds)?;
        self.engine.watch_crds(&self.id(module), &crds).await;
        for file in &mut crds {
            let mut left = Vec::new();
            for object in std::mem::take(&mut file.objects) {
                if !self.live_crd(&object).await?.1.is_some_and(|live| covers(&live, &object)) {
                    left.push(object);
                }
            }
            file.objects = left;
        }
        self.engine.install_crds(&self.id(module), &crds, self.crd_rules()).await?;
        Ok(())
    }

    fn crd_rules(&self) -> CrdRules {
        CrdRules { policy: CrdPolicy::Apply, adoption: self.adoption }
    }

    /// What [`Self::keep_crds`] would write, in words; a change that it would refuse is an error.
    pub(super) async fn foresee_crds(&self, files: &[Crd]) -> Result<Vec<String>, Error> {
        let mut told = Vec::new();
        let files = self.crds_of(files)?;
        require_crds(&files)?;
        for object in files.iter().flat_map(|file| &file.objects) {
            let (reference, live) = self.live_crd(object).await?;
            match live {
                None => told.push(format!("{reference} would be created")),
                Some(live) if !covers(&live, object) => {
                    self.engine.check_crd(&live, object, &reference).await?;
                    told.push(format!("{reference} would be changed"));
                }
                Some(_) => {}
            }
        }
        Ok(told)
    }

    /// An object of a file of CRDs as it is in the cluster.
    async fn live_crd(
        &self,
        object: &serde_json::Value,
    ) -> Result<(ObjectRef, Option<serde_json::Value>), Error> {
        let gvk = Gvk::of(object).unwrap_or_else(|| Gvk::new("", ""));
        let reference = ObjectRef::new(gvk, None, object["metadata"]["name"].as_str().unwrap_or_default());
        let live = self.engine.crd_client().get(&reference).await?;
        Ok((reference, live))
    }

    /// CRDs from their files: without files that are none by their names, and labelled.
    fn crds_of(&self, files: &[Crd]) -> Result<Vec<CrdFile>, Error> {
        let mut crds = rendering::crds(files)?;
        crds.retain(|file| {
            let name = file.name.rsplit('/').next().unwrap_or_default();
            !self.crd_filters.iter().any(|prefix| name.starts_with(prefix.as_str()))
        });
        rendering::label_crds(&mut crds, &self.labels).map_err(Error::Module)?;
        Ok(crds)
    }

    /// Names of the releases in the namespace that carry this operator's mark.
    pub(super) async fn owned_releases(&self) -> Result<BTreeSet<ReleaseId>, Error> {
        self.releases(&format!("{}={}", crate::release::record::OWNER_LABEL, self.owner)).await
    }

    /// This operator's releases in other namespaces.
    pub(super) async fn owned_elsewhere(&self) -> Result<BTreeSet<ReleaseId>, Error> {
        let labels = format!("owner=helm,{}={}", crate::release::record::OWNER_LABEL, self.owner_elsewhere());
        match self.engine.operator_client().list_metadata(&self.engine.storage().gvk(), None, &labels).await {
            Ok(secrets) => Ok(ids(&secrets)),
            // Modules without a namespace of their own need no rights elsewhere.
            Err(e) if e.is_forbidden() => {
                tracing::debug!("releases in other namespaces are not looked for: {e}");
                Ok(BTreeSet::new())
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Names of the releases in the namespace that an addon-operator made, and nobody took over yet.
    pub(super) async fn inherited_releases(&self) -> Result<BTreeSet<ReleaseId>, Error> {
        self.releases(&format!("{CHECKSUM_LABEL},!{}", crate::release::record::OWNER_LABEL)).await
    }

    /// Whether a module's release exists, whoever made it.
    pub(super) async fn exists(&self, module: &str) -> Result<bool, Error> {
        Ok(!self.releases(&format!("name={module}")).await?.is_empty())
    }

    /// Releases whose objects are left alone, as their records say.
    pub(super) async fn held_releases(&self) -> Result<BTreeSet<ReleaseId>, Error> {
        self.releases(&format!("{MAINTENANCE_LABEL}=true")).await
    }

    /// Says in the newest record of a release whether its objects are left alone; gives whether there is one. No revision is
    /// made for that: addon-operator, which makes one, looks at the label alone.
    pub(super) async fn mark_held(&self, module: &str, held: bool) -> Result<bool, Error> {
        let (gvk, labels) = (Gvk::new("v1", "Secret"), format!("owner=helm,name={module}"));
        let records =
            self.engine.operator_client().list_metadata(&gvk, Some(&self.namespace), &labels).await?;
        let version = |r: &serde_json::Value| {
            r["metadata"]["labels"]["version"].as_str().and_then(|v| v.parse::<u64>().ok()).unwrap_or(0)
        };
        let newest = records.iter().max_by_key(|r| version(r)).map(|r| &r["metadata"]);
        let Some(meta) = newest.filter(|m| m["labels"]["status"] != "uninstalled") else { return Ok(false) };
        let wanted = held.to_string();
        if meta["labels"][MAINTENANCE_LABEL].as_str() != Some(wanted.as_str()) {
            let record =
                ObjectRef::new(gvk, Some(&self.namespace), meta["name"].as_str().unwrap_or_default());
            let patch = serde_json::json!({"metadata": {"labels": {MAINTENANCE_LABEL: wanted}}});
            self.engine
                .operator_client()
                .patch_subresource(&record, "", PatchKind::Merge, &patch, "windlass")
                .await?;
        }
        Ok(true)
    }

    async fn releases(&self, labels: &str) -> Result<BTreeSet<ReleaseId>, Error> {
        let (gvk, labels) = (self.engine.storage().gvk(), format!("owner=helm,{labels}"));
        Ok(ids(&self.engine.operator_client().list_metadata(&gvk, Some(&self.namespace), &labels).await?))
    }
}

/// The releases that records are of, without those that are uninstalled.
fn ids(secrets: &[serde_json::Value]) -> BTreeSet<ReleaseId> {
    let metas = secrets.iter().map(|s| &s["metadata"]).filter(|m| m["labels"]["status"] != "uninstalled");
    metas
        .filter_map(|m| Some(ReleaseId::new(m["namespace"].as_str()?, m["labels"]["name"].as_str()?)))
        .collect()
}

/// Whether an object holds all that another one does: the server adds and does not take away.
pub(super) fn covers(whole: &serde_json::Value, part: &serde_json::Value) -> bool {
    match (whole, part) {
        (serde_json::Value::Object(whole), serde_json::Value::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|whole| covers(whole, value)))
        }
        (whole, part) => whole == part,
    }
}

/// The kinds that a CRD defines, one for each version.
fn defines(crd: &serde_json::Value) -> Vec<Gvk> {
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    let spec = &crd["spec"];
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions.map(|v| Gvk { group: group.clone(), version: text(&v["name"]), kind: kind.clone() }).collect()
}

/// What charts see of a live cluster.
pub(crate) async fn capabilities(cluster: &Cluster) -> Result<Capabilities, crate::cluster::ClusterError> {
    let kinds = cluster.kinds().await?;
    let version = cluster.version().await?;
    let text = |key: &str| version[key].as_str().unwrap_or_default().to_owned();
    Ok(Capabilities {
        kube_version: KubeVersion::of_cluster(&text("gitVersion"), &text("major"), &text("minor")),
        api_versions: kinds.api_versions(),
        ..Capabilities::default()
    })
}

/// The operator's ConfigMap as an object reference.
pub(crate) fn config_map(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some(namespace), name)
}
