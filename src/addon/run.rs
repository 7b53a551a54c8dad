//! One job of one module's release: render and reconcile, restore, uninstall, and the answers that takes from outside.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chart_compat::data::{Data, Map};
use chart_compat::render::{self, Capabilities, CompiledChart, KubeVersion, Release};
use chart_compat::template::Limits;

use super::drift::Policy;
use crate::cluster::{Cluster, Gvk, ObjectRef, Validation};
use crate::release::{
    ChartRecord, CrdPolicy, Disposition, Duplicates, Engine, EngineError, Mode, Options, Outcome, ReleaseId,
    ReleaseRequest, RenderedRelease, UninstallRequest,
};
use crate::render::{self as rendering, replay, replay::Question, replay::Replayed, replay::store};

/// What all modules of an operator share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) namespace: String,
    /// The mark of this operator's releases.
    pub(super) owner: String,
    pub(super) history_max: usize,
    pub(super) timeout: Duration,
    pub(super) drift: Policy,
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
    pub(super) outcome: Outcome,
    pub(super) request: Arc<ReleaseRequest>,
    /// What its render depends on beyond chart and values; `None` if it was not rendered.
    pub(super) inputs: Option<Inputs>,
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
    fn options(&self, drift: Policy) -> Options {
        Options {
            drift: drift.mode,
            drift_ignore: drift.ignore,
            mode: Mode::UpgradeInstall,
            skip_unchanged: true,
            crds: CrdPolicy::Apply,
            timeout: self.timeout,
            take_ownership: true,
            force_conflicts: true,
            validation: Validation::Warn,
            duplicates: Duplicates::KeepLast,
            history_max: self.history_max,
            ..Options::default()
        }
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
        let (request, inputs) = self.request(module, chart, values, cause).await?;
        let request = Arc::new(request);
        let outcome = self.engine.reconcile(&request).await?;
        Ok(Done { outcome, request, inputs: Some(inputs) })
    }

    /// Brings a release to what was last rendered.
    pub(super) async fn restore(&self, request: Arc<ReleaseRequest>) -> Result<Done, Error> {
        let outcome = self.engine.reconcile(&request).await?;
        Ok(Done { outcome, request, inputs: None })
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
        store::forget(self.engine.cluster(), &self.namespace, module).await?;
        Ok(deleted)
    }

    async fn request(
        &self,
        module: &str,
        chart: Arc<CompiledChart>,
        values: Arc<Map>,
        cause: String,
    ) -> Result<(ReleaseRequest, Inputs), Error> {
        let drift = self.drift_of(&chart)?;
        let cluster = self.engine.cluster();
        let crds = rendering::crds(&chart.chart().crds())?;
        let kinds = cluster.kinds().await?;
        if crds.iter().flat_map(|f| &f.objects).flat_map(defines).any(|gvk| kinds.get(&gvk).is_none()) {
            // A first run: templates may look for the kinds of the module's own CRDs.
            self.engine.install_crds(&crds, CrdPolicy::CreateMissing).await?;
        }
        let (rendered, chart, done) = self.rendered(module, chart, &values).await?;
        if let Some(memory) = &done.memory {
            // Before the objects: what they hold must be known to the next render, whatever happens to this one.
            store::save(cluster, &self.namespace, module, memory).await.map_err(Error::Replay)?;
        }
        let description = replay::description(&done.renewed);
        let inputs = Inputs { renew_at: done.renew_at, lookups: done.lookups };
        let asked = self.asked(module, rendered, chart, &values, drift);
        let request = ReleaseRequest { description, cause, ..asked };
        Ok((request, inputs))
    }

    /// Renders a module; what it makes by chance is not kept yet.
    async fn rendered(
        &self,
        module: &str,
        chart: Arc<CompiledChart>,
        values: &Arc<Map>,
    ) -> Result<(RenderedRelease, ChartRecord, Replayed), Error> {
        let cluster = self.engine.cluster();
        let options = render::Options {
            release: Release {
                name: module.to_owned(),
                namespace: self.namespace.clone(),
                revision: 1,
                // As the peer renders, so that a module comes out the same under both.
                is_upgrade: true,
            },
            capabilities: capabilities(cluster).await?,
            skip_schema_validation: false,
            subchart_notes: false,
            limits: Limits::default(),
        };
        let lookup = rendering::ClusterLookup::new(self.engine.cluster().clone());
        let user = Arc::clone(values);
        let name = module.to_owned();
        let (memories, namespace) = (cluster.clone(), self.namespace.clone());
        let runtime = tokio::runtime::Handle::current();
        let work = move || -> Result<_, Error> {
            let world = rendering::SystemWorld { cluster: Some(&lookup), dns: false };
            let mut warn = |text: String| tracing::warn!(module = name, "{text}");
            let load = || runtime.block_on(store::load(&memories, &namespace, &name));
            let done = replay::render(&chart, &user, &options, &world, &load, &mut warn)?;
            Ok((rendering::release(&done.rendered)?, rendering::chart_record(chart.chart()), done))
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|e| Error::Task(e.to_string()))?
    }

    /// What a run of the module would ask of the engine; writes nothing.
    pub(super) async fn preview(
        &self,
        module: &str,
        chart: Arc<CompiledChart>,
        values: Arc<Map>,
    ) -> Result<ReleaseRequest, Error> {
        let drift = self.drift_of(&chart)?;
        let (rendered, chart, _) = self.rendered(module, chart, &values).await?;
        Ok(self.asked(module, rendered, chart, &values, drift))
    }

    fn drift_of(&self, chart: &CompiledChart) -> Result<Policy, Error> {
        self.drift.of_chart(chart.chart().metadata.annotations.as_deref()).map_err(Error::Module)
    }

    fn asked(
        &self,
        module: &str,
        rendered: RenderedRelease,
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
            options: self.options(drift),
            ..ReleaseRequest::default()
        }
    }

    /// Names of the releases in the namespace that carry this operator's mark.
    pub(super) async fn owned_releases(&self) -> Result<Vec<String>, Error> {
        let labels = format!("owner=helm,{}={}", crate::release::record::OWNER_LABEL, self.owner);
        let gvk = Gvk::new("v1", "Secret");
        let secrets = self.engine.cluster().list_metadata(&gvk, Some(&self.namespace), &labels).await?;
        let mut names: Vec<String> = secrets
            .iter()
            .filter(|s| s["metadata"]["labels"]["status"] != "uninstalled")
            .filter_map(|s| s["metadata"]["labels"]["name"].as_str().map(str::to_owned))
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
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
