//! Flux's front ends of one process: HelmReleases, and sources and notifications where none of Flux's controllers does their work; and
//! ConfigMapSources, which use the same sources.
//!
//! Owns who may reconcile what: an object never has two owners. The Lease of helm-controller is held while HelmReleases are reconciled,
//! the Lease of source-controller while sources are. Who sends notifications is `flux_notifications`'.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use super::flux_notifications::{self, NotifyProcess};
use super::stop_signal::{Stop, StopSignal};
use windlass_artifacts::LocalArtifacts;
use windlass_base::hex::hex;
use windlass_cluster::{Cluster, ClusterError, Election, Gvk, Leadership, ObjectRef};
use windlass_configmaps::config_map_source_definition::{KIND, crd};
use windlass_configmaps::{ConfigMapSourceOptions, ConfigMapSources};
use windlass_controller::serve::listen::{self, Limits};
use windlass_controller::{ControllerContext, ControllerOptions, register_absent_kind, register_kind};
use windlass_flux::helmrelease::{HelmReleaseOptions, HelmReleases};
use windlass_flux::sources::{ArtifactStore, SourceKind, SourceOptions, Sources};

/// Which objects that use sources are reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourceUsers {
    pub(super) helm_releases: bool,
    pub(super) config_map_sources: bool,
}

/// How a process reconciles Flux's objects.
#[derive(Clone, Debug)]
pub struct FluxProcess {
    /// Options of all HelmReleases.
    pub options: HelmReleaseOptions,
    /// How many objects of a kind are reconciled at a time.
    pub concurrency: usize,
    /// Objects of this namespace only; `None`: of all.
    pub watched_namespace: Option<String>,
    /// Objects that this label selector selects; an empty one selects all.
    pub selector: String,
    /// Leader election under the names of Flux's controllers.
    pub election: FluxElection,
    /// Who reconciles the sources.
    pub sources: ControllerMode,
    /// Options of sources.
    pub source_options: SourceOptions,
    /// Where artifacts are served.
    pub artifact_address: SocketAddr,
    /// Who sends notifications.
    pub notifications: NotifyProcess,
}

/// Leader election beside Flux's controllers.
#[derive(Clone, Debug)]
pub struct FluxElection {
    /// Namespace of the Leases.
    pub namespace: String,
    /// This process.
    pub identity: String,
    /// The leader before this process, if it has ended without releasing its Leases.
    pub gone: Option<String>,
}

impl FluxProcess {
    /// The Lease of a controller. A shard has its own, named after the selector, as Flux's controllers.
    pub(super) fn election_of(&self, controller: &str) -> Election {
        let FluxElection { namespace, identity, gone } = self.election.clone();
        Election { namespace, name: lease_name(controller, &self.selector), identity, gone }
    }

    /// Options of ConfigMapSources: those that they share with HelmReleases.
    fn config_map_options(&self) -> ConfigMapSourceOptions {
        ConfigMapSourceOptions {
            default_service_account: self.options.default_service_account.clone(),
            no_cross_namespace_refs: self.options.no_cross_namespace_refs,
            no_local_addresses: self.options.no_local_addresses,
        }
    }

    /// What a front end works on.
    pub(super) fn controller_options(&self) -> ControllerOptions {
        ControllerOptions {
            namespace: self.watched_namespace.clone(),
            selector: self.selector.clone(),
            concurrency: self.concurrency,
            ..ControllerOptions::default()
        }
    }
}

fn lease_name(controller: &str, selector: &str) -> String {
    if selector.is_empty() {
        return format!("{controller}-leader-election");
    }
    let digest = Sha256::digest(selector);
    format!("{controller}-leader-election-{}", hex(digest.get(..4).unwrap_or(&digest)))
}

/// Who does the work of one of Flux's other controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ControllerMode {
    /// This process, unless the cluster has the controller.
    #[default]
    Auto,
    /// This process; it waits for the Lease of the controller.
    Own,
    /// The controller.
    Flux,
}

impl std::str::FromStr for ControllerMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "own" => Ok(Self::Own),
            "flux" => Ok(Self::Flux),
            _ => Err(format!("{text:?} is not auto, own or flux")),
        }
    }
}

/// Registers the kind ConfigMapSource, unless the cluster has it.
///
/// # Errors
/// It is not served, and may not be registered or is not served in time. The text names the command that registers it.
pub async fn register_config_map_sources(cluster: &Cluster) -> Result<(), ClusterError> {
    match register_kind(cluster, &Gvk::new(KIND.0, KIND.1), &crd()).await {
        Err(error) if error.is_forbidden() => Err(ClusterError::Other(format!(
            "ConfigMapSource is not served, and the operator may not register it ({error}): run `windlass crds configmapsources | kubectl \
             apply -f -`, or leave configmapsources out of --controllers"
        ))),
        result => result,
    }
}

/// Reconciles those who use sources, and the sources beside them if they are this process' own.
///
/// # Errors
/// A kind cannot be registered, the artifacts cannot be served, or a controller ends with an error.
pub(super) async fn run(
    context: ControllerContext,
    process: FluxProcess,
    users: SourceUsers,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    let cluster = context.runner.engine().operator_client().clone();
    if users.helm_releases {
        let without = "leave helmreleases out of --controllers";
        register_flux_kinds(&cluster, &["HelmRelease"], without).await?;
    }
    if users.config_map_sources {
        register_config_map_sources(&cluster).await?;
    }
    let namespace = &process.election.namespace;
    let owns_sources = owns(&cluster, process.sources, namespace, "source-controller", "--sources").await?;
    // Events on Alerts, Providers and Receivers are not sent.
    let (own, (context, notifications)) =
        (context.clone(), flux_notifications::prepare(&cluster, &context, &process).await?);
    let stopping = StopSignal::new();
    let store = match owns_sources {
        true => {
            register_flux_kinds(&cluster, &SourceKind::ALL.map(SourceKind::name), "set --sources=flux")
                .await?;
            Some(open_store(&process).await?)
        }
        false => {
            tracing::info!(namespace = process.election.namespace, "charts come from source-controller");
            None
        }
    };
    let (store, listener) = store.unzip();
    let releases = async {
        if !users.helm_releases {
            return Ok(());
        }
        let front_end = HelmReleases::new(process.options.clone());
        let front_end = match store.clone() {
            Some(store) => front_end.with_local_artifacts(local_artifacts(store)),
            None => front_end,
        };
        let election = process.election_of("helm-controller");
        let result = hold_lease(&cluster, &election, stopping.stopped(), |stop| {
            windlass_controller::run(front_end, context.clone(), process.controller_options(), stop)
        })
        .await;
        stopping.stop();
        result
    };
    let config_maps = async {
        if !users.config_map_sources {
            return Ok(());
        }
        let front_end =
            ConfigMapSources::new(process.config_map_options(), store.clone().map(local_artifacts));
        let result = windlass_controller::run(
            front_end,
            context.clone(),
            process.controller_options(),
            stopping.stopped(),
        )
        .await;
        stopping.stop();
        result
    };
    let sources = async {
        let (Some(store), Some(listener)) = (&store, listener) else { return Ok(()) };
        let serving = tokio::spawn(listen::serve(
            listener,
            None,
            store.routes(),
            Limits::default(),
            stopping.stopped(),
        ));
        let election = process.election_of("source-controller");
        let result = hold_lease(&cluster, &election, stopping.stopped(), |stop| {
            run_sources(&context, &process, store, stop)
        })
        .await;
        stopping.stop();
        drop(serving.await);
        result
    };
    // Their last events are sent as well.
    let ended = StopSignal::new();
    let work = async {
        let results = futures::future::join3(releases, config_maps, sources).await;
        ended.stop();
        results
    };
    let notifications = async {
        let result = notifications.run(&cluster, &own, &process, ended.stopped()).await;
        stopping.stop();
        result
    };
    let all = futures::future::join(work, notifications);
    let ((releases, config_maps, sources), notifications) = stopping.run(stop, all).await;
    releases.and(config_maps).and(sources).and(notifications)
}

fn local_artifacts(store: Arc<ArtifactStore>) -> LocalArtifacts {
    Arc::new(move |source, url| store.file_of_url(source, url).map_err(|error| error.to_string()))
}

/// Whether this process does the work of a controller: not if it is deployed in the namespace, with at least one replica, and the
/// mode leaves the choice. `flag` sets the mode.
pub(super) async fn owns(
    cluster: &Cluster,
    mode: ControllerMode,
    namespace: &str,
    controller: &str,
    flag: &str,
) -> Result<bool, ClusterError> {
    match mode {
        ControllerMode::Own => return Ok(true),
        ControllerMode::Flux => return Ok(false),
        ControllerMode::Auto => {}
    }
    let deployment = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some(namespace), controller);
    match cluster.get(&deployment).await {
        Ok(found) => Ok(found.is_none_or(|object| object["spec"]["replicas"].as_i64() == Some(0))),
        Err(e) if e.is_forbidden() => Err(ClusterError::Other(format!(
            "whether {namespace} has a {controller} cannot be read ({e}): set {flag} to own or flux"
        ))),
        Err(e) => Err(e),
    }
}

/// Creates those CustomResourceDefinitions of Flux's kinds that are absent. Those that exist, Flux's for instance, stay as they are.
/// `without`: what else to do where they cannot be created, for the text of the error.
///
/// # Errors
/// A kind is not served, and may not be registered or is not served in time. The text names the command that registers it.
pub async fn register_flux_kinds(
    cluster: &Cluster,
    kinds: &[&str],
    without: &str,
) -> Result<(), ClusterError> {
    for crd in flux_api::crds::all() {
        let name = crd["spec"]["names"]["kind"].as_str().unwrap_or_default();
        if !kinds.contains(&name) {
            continue;
        }
        let version =
            |crd: &Value| crd["spec"]["versions"][0]["name"].as_str().unwrap_or_default().to_owned();
        let group = crd["spec"]["group"].as_str().unwrap_or_default();
        let kind = Gvk::new(&format!("{group}/{}", version(&crd)), name);
        match register_absent_kind(cluster, &kind, &crd).await {
            Err(e) if e.is_forbidden() => {
                return Err(ClusterError::Other(format!(
                    "{name} is not served, and the operator may not register it ({e}): run `windlass crds flux {name} | kubectl \
                     apply -f -`, or {without}"
                )));
            }
            result => result?,
        }
    }
    Ok(())
}

/// The store of artifacts, and the socket where they are served.
async fn open_store(process: &FluxProcess) -> Result<(Arc<ArtifactStore>, TcpListener), ClusterError> {
    let options = &process.source_options;
    let failed = |what: &str, e: std::io::Error| ClusterError::Other(format!("{what}: {e}"));
    let listener = TcpListener::bind(process.artifact_address)
        .await
        .map_err(|e| failed(&format!("artifacts cannot be served at {}", process.artifact_address), e))?;
    let address = listener.local_addr().map_err(|e| failed("artifacts cannot be served", e))?;
    let host = match options.advertised.as_str() {
        "" if address.ip().is_unspecified() => format!("localhost:{}", address.port()),
        "" => address.to_string(),
        host => host.to_owned(),
    };
    let store = ArtifactStore::new(&options.storage, &host)
        .map_err(|e| failed(&format!("artifacts cannot be stored in {}", options.storage.display()), e))?;
    tracing::info!(storage = %options.storage.display(), address = host, "sources are reconciled by this process");
    Ok((Arc::new(store), listener))
}

/// Reconciles all kinds of sources until one ends.
async fn run_sources(
    context: &ControllerContext,
    process: &FluxProcess,
    store: &Arc<ArtifactStore>,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    let stopping = StopSignal::new();
    let one = async |kind: SourceKind| {
        let front_end = Sources::new(kind, Arc::clone(store), &process.source_options);
        let result = windlass_controller::run(
            front_end,
            context.clone(),
            process.controller_options(),
            stopping.stopped(),
        )
        .await;
        stopping.stop();
        result
    };
    let all = futures::future::join_all(SourceKind::ALL.into_iter().map(one));
    let results = stopping.run(stop, all).await;
    results.into_iter().collect()
}

/// Does work while a Lease is held. Without the Lease's namespace there is nobody else, and no Lease.
pub(super) async fn hold_lease<W: Future<Output = Result<(), ClusterError>>>(
    cluster: &Cluster,
    election: &Election,
    mut stop: Stop,
    work: impl FnOnce(Stop) -> W,
) -> Result<(), ClusterError> {
    let namespace = ObjectRef::new(Gvk::new("v1", "Namespace"), None, &election.namespace);
    let leadership: Option<Leadership> = match cluster.get_metadata(&namespace).await {
        Ok(None) => None,
        _ => {
            let follow = |leader: &str| {
                tracing::info!(
                    leader,
                    lease = election.name,
                    "another controller leads: waiting until it stops"
                );
            };
            tokio::select! {
                () = &mut stop => return Ok(()),
                leadership = cluster.lead(election, follow) => Some(leadership?),
            }
        }
    };
    let Some(leadership) = leadership else { return work(stop).await };
    let result = tokio::select! {
        result = work(stop) => result,
        () = leadership.lost() => {
            let why = "another controller leads, or it could not be renewed in time";
            Err(ClusterError::Other(format!("the Lease {} is lost: {why}", election.name)))
        }
    };
    leadership.resign().await;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_has_a_lease_of_its_own() {
        assert_eq!(lease_name("helm-controller", ""), "helm-controller-leader-election");
        // `printf %s sharding.fluxcd.io/key=shard1 | sha256sum`
        let shard = lease_name("helm-controller", "sharding.fluxcd.io/key=shard1");
        assert_eq!(shard, "helm-controller-leader-election-73fdc1be");
    }
}
