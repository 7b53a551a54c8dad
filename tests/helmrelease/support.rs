//! A control plane with Flux's kinds, a server of artifacts, and a running front end.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{self, State as Shared};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;
use windlass_artifacts::LocalArtifacts;
use windlass_cluster::{Cluster, ClusterError, ConnectOptions};
use windlass_configmaps::{ConfigMapSourceOptions, ConfigMapSources};
use windlass_controller::serve::State;
use windlass_controller::serve::listen::{self, Limits};
use windlass_controller::{ContextOptions, ControllerContext, ControllerOptions};
use windlass_flux::helmrelease::{HelmReleaseOptions, HelmReleases};
use windlass_flux::notifications::{
    EventQueue, NotifyOptions, QueuedEvent, Receivers, WebhookPaths, Webhooks, dispatch,
};
use windlass_flux::sources::{ArtifactStore, SourceKind, SourceOptions, Sources};
use windlass_testing::{ControlPlane, Namespace, wait_until};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The control plane of these tests, with the kinds as Flux defines them.
pub(crate) fn control_plane() -> &'static ControlPlane {
    static KINDS: std::sync::Once = std::sync::Once::new();
    let cp = windlass_testing::control_plane();
    KINDS.call_once(|| {
        for crd in flux_api::crds::all() {
            cp.establish(&crd).unwrap();
        }
        cp.establish(&windlass_configmaps::config_map_source_definition::crd()).unwrap();
    });
    cp
}

/// Serves artifacts by name.
#[derive(Clone, Default)]
pub(crate) struct Artifacts(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Artifacts {
    pub(crate) async fn serve(&self) -> SocketAddr {
        self.serve_at(IpAddr::V4(Ipv4Addr::LOCALHOST)).await
    }

    pub(crate) async fn serve_at(&self, address: IpAddr) -> SocketAddr {
        async fn answer(
            Shared(own): Shared<Artifacts>,
            extract::Path(name): extract::Path<String>,
        ) -> Result<Vec<u8>, StatusCode> {
            own.0.lock().unwrap().get(&name).cloned().ok_or(StatusCode::NOT_FOUND)
        }
        let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router =
            axum::Router::new().route("/{name}", axum::routing::get(answer)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        address
    }

    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) {
        self.0.lock().unwrap().insert(name.to_owned(), bytes);
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{hex}")
}

/// A package of a chart with these files.
pub(crate) fn package(files: &[(&str, String)]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("chart/{path}"), text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// A chart of one ConfigMap that shows its `size`; with the size `bad` the API server rejects it.
pub(crate) fn chart(version: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata:\n{{- if eq .Values.size \"bad\" }}\n  size: {a: 1}\n{{- else }}\n  size: \"{{ .Values.size }}\"\n{{- end }}\n";
    let mut files = vec![
        ("Chart.yaml", format!("apiVersion: v2\nname: demo\nversion: {version}\n")),
        ("values.yaml", "size: one\n".to_owned()),
        ("templates/config.yaml", object.to_owned()),
    ];
    files.extend(more.iter().map(|(path, text)| (*path, (*text).to_owned())));
    package(&files)
}

/// A front end for all namespaces reconciles the objects of other tests, too: it runs alone.
static NAMESPACES: tokio::sync::RwLock<()> = tokio::sync::RwLock::const_new(());

/// How a test shares the control plane with others.
enum Sharing {
    Beside(#[allow(dead_code, reason = "held")] tokio::sync::RwLockReadGuard<'static, ()>),
    Alone(#[allow(dead_code, reason = "held")] tokio::sync::RwLockWriteGuard<'static, ()>),
}

/// A running front end.
type FrontEndTask = tokio::task::JoinHandle<Result<(), ClusterError>>;

/// A namespace with a running front end.
pub(crate) struct Running {
    pub(crate) cp: &'static ControlPlane,
    pub(crate) ns: Namespace<'static>,
    pub(crate) artifacts: Artifacts,
    pub(crate) address: SocketAddr,
    requests: Arc<AtomicUsize>,
    /// Metrics of the front ends.
    pub(crate) state: Arc<State>,
    /// Sources of a cloud may act with this process' identity.
    pub(crate) allows_own_identity: bool,
    /// The options of the front end of HelmReleases beside those of sources.
    pub(crate) release_options: HelmReleaseOptions,
    /// Sources may be on this machine.
    pub(crate) allows_local: bool,
    sharing: Sharing,
    stop: watch::Sender<bool>,
    task: Option<tokio::task::JoinHandle<Result<(), ClusterError>>>,
}

impl Running {
    /// A namespace without a front end.
    pub(crate) async fn prepare(name: &str) -> Self {
        Self::with(name, Sharing::Beside(NAMESPACES.read().await)).await
    }

    /// The same, while no other test runs: for [`Self::start_in_all`].
    pub(crate) async fn prepare_alone(name: &str) -> Self {
        Self::with(name, Sharing::Alone(NAMESPACES.write().await)).await
    }

    async fn with(name: &str, sharing: Sharing) -> Self {
        let cp = tokio::task::spawn_blocking(control_plane).await.unwrap();
        let artifacts = Artifacts::default();
        let address = artifacts.serve().await;
        let stop = watch::Sender::new(false);
        Self {
            cp,
            ns: cp.namespace(name).unwrap(),
            artifacts,
            address,
            requests: Arc::default(),
            state: Arc::new(State::new("test_")),
            allows_own_identity: false,
            release_options: HelmReleaseOptions::default(),
            allows_local: true,
            sharing,
            stop,
            task: None,
        }
    }

    pub(crate) async fn start(&mut self) {
        let own = self.ns.name().to_owned();
        self.start_in(&own, 4).await;
    }

    /// Starts the front end for the objects of a namespace.
    pub(crate) async fn start_in(&mut self, namespace: &str, concurrency: usize) {
        self.start_with(Some(namespace.to_owned()), concurrency).await;
    }

    /// Starts the front end for the objects of all namespaces.
    pub(crate) async fn start_in_all(&mut self) {
        assert!(matches!(self.sharing, Sharing::Alone(_)), "other tests run");
        self.start_with(None, 4).await;
    }

    /// Starts the front end for the objects of the namespace and of others.
    pub(crate) async fn start_beside(&mut self, others: &[&str]) -> ControllerContext {
        let context = self.context(self.cp.kubeconfig().to_owned()).await;
        let controller = ControllerOptions {
            namespace: Some(self.ns.name().to_owned()),
            further_namespaces: others.iter().map(|name| (*name).to_owned()).collect(),
            concurrency: 4,
            ..ControllerOptions::default()
        };
        self.task = Some(self.spawn(context.clone(), HelmReleaseOptions::default(), controller));
        context
    }

    /// Starts the front ends of sources and of HelmReleases for the objects of the namespace. `storage`: the directory of
    /// artifacts.
    pub(crate) async fn start_with_sources(&mut self, storage: &Path) {
        let context = self.context(self.cp.kubeconfig().to_owned()).await;
        let all = self.spawn_with_sources(&context, storage);
        self.join(all);
    }

    /// Stops the front ends, and starts those of sources and of HelmReleases.
    pub(crate) async fn restart_with_sources(&mut self, storage: &Path) {
        self.stop.send_replace(true);
        self.task.take().unwrap().await.unwrap().unwrap();
        self.stop = watch::Sender::new(false);
        self.start_with_sources(storage).await;
    }

    /// The same with notifications. Returns where webhooks are served.
    pub(crate) async fn start_with_notifications(&mut self, storage: &Path) -> SocketAddr {
        let context = self.context(self.cp.kubeconfig().to_owned()).await;
        let (queue, events) = EventQueue::new("test-0");
        let mut all = self.spawn_with_sources(&context.with_event_sink(queue), storage);
        all.push(self.spawn_dispatch(&context, events));
        let namespace = Some(self.ns.name().to_owned());
        let stopped = || {
            let mut stop = self.stop.subscribe();
            async move { drop(stop.wait_for(|stop| *stop).await) }
        };
        let paths = Arc::<WebhookPaths>::default();
        let webhooks = Webhooks {
            cluster: context.runner.engine().operator_client().clone(),
            paths: Arc::clone(&paths),
            pushed_images: context.pushed_images.clone(),
            bodies: Arc::clone(&context.state.bodies),
            no_cross_namespace_refs: true,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(listen::serve(listener, None, webhooks.routes(), Limits::default(), stopped()));
        let options = ControllerOptions { namespace, concurrency: 4, ..ControllerOptions::default() };
        all.push(tokio::spawn(windlass_controller::run(Receivers::new(paths), context, options, stopped())));
        self.join(all);
        address
    }

    /// Starts what sends events to the Providers of the namespace's Alerts, alone; it takes the events of the queue.
    pub(crate) async fn start_dispatch(&mut self) -> Arc<EventQueue> {
        let context = self.context(self.cp.kubeconfig().to_owned()).await;
        let (queue, events) = EventQueue::new("test-0");
        let task = self.spawn_dispatch(&context, events);
        self.join(vec![task]);
        queue
    }

    fn spawn_dispatch(
        &self,
        context: &ControllerContext,
        events: Receiver<Arc<QueuedEvent>>,
    ) -> FrontEndTask {
        let options = NotifyOptions {
            namespace: Some(self.ns.name().to_owned()),
            no_cross_namespace_refs: true,
            allow_local_addresses: true,
        };
        let mut stop = self.stop.subscribe();
        let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
        let sending = dispatch(context.clone(), options, events, stopped);
        tokio::spawn(async move {
            sending.await;
            Ok(())
        })
    }

    fn join(&mut self, all: Vec<FrontEndTask>) {
        self.task = Some(tokio::spawn(async move {
            for task in all {
                task.await.unwrap()?;
            }
            Ok(())
        }));
    }

    fn spawn_with_sources(&self, context: &ControllerContext, storage: &Path) -> Vec<FrontEndTask> {
        let store = Arc::new(ArtifactStore::new(storage, "artifacts.test").unwrap());
        let options = SourceOptions {
            storage: storage.to_owned(),
            advertised: "artifacts.test".to_owned(),
            allow_local_addresses: self.allows_local,
            allow_workload_identity: self.allows_own_identity,
        };
        let namespace = Some(self.ns.name().to_owned());
        let mut all = Vec::new();
        let stopped = || {
            let mut stop = self.stop.subscribe();
            async move { drop(stop.wait_for(|stop| *stop).await) }
        };
        for kind in SourceKind::ALL {
            let front_end = Sources::new(kind, Arc::clone(&store), &options);
            let namespace = namespace.clone();
            let options = ControllerOptions { namespace, concurrency: 4, ..ControllerOptions::default() };
            all.push(tokio::spawn(windlass_controller::run(front_end, context.clone(), options, stopped())));
        }
        let local: LocalArtifacts =
            Arc::new(move |source, url| store.file_of_url(source, url).map_err(|e| e.to_string()));
        let front_end = HelmReleases::new(self.release_options.clone()).with_local_artifacts(local.clone());
        let options = ControllerOptions { namespace, concurrency: 4, ..ControllerOptions::default() };
        let running = windlass_controller::run(front_end, context.clone(), options.clone(), stopped());
        all.push(tokio::spawn(running));
        let HelmReleaseOptions {
            default_service_account, no_cross_namespace_refs, no_local_addresses, ..
        } = self.release_options.clone();
        let config_maps =
            ConfigMapSourceOptions { default_service_account, no_cross_namespace_refs, no_local_addresses };
        let front_end = ConfigMapSources::new(config_maps, Some(local));
        all.push(tokio::spawn(windlass_controller::run(front_end, context.clone(), options, stopped())));
        all
    }

    /// Starts the front end of ConfigMapSources alone, as the user of a kubeconfig: statuses of sources are the test's.
    pub(crate) async fn start_config_map_sources(
        &mut self,
        options: ConfigMapSourceOptions,
        kubeconfig: PathBuf,
    ) {
        let context = self.context(kubeconfig).await;
        let namespace = Some(self.ns.name().to_owned());
        let controller = ControllerOptions { namespace, concurrency: 4, ..ControllerOptions::default() };
        let mut stop = self.stop.subscribe();
        let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
        let front_end = ConfigMapSources::new(options, None);
        self.task = Some(tokio::spawn(windlass_controller::run(front_end, context, controller, stopped)));
    }

    /// Starts the front end as the user of a kubeconfig.
    pub(crate) async fn start_as(&mut self, kubeconfig: PathBuf) {
        let own = self.ns.name().to_owned();
        self.start_from(kubeconfig, Some(own), 4).await;
    }

    async fn start_with(&mut self, namespace: Option<String>, concurrency: usize) {
        self.start_from(self.cp.kubeconfig().to_owned(), namespace, concurrency).await;
    }

    async fn start_from(&mut self, kubeconfig: PathBuf, namespace: Option<String>, concurrency: usize) {
        let context = self.context(kubeconfig).await;
        let options = ControllerOptions { namespace, concurrency, ..ControllerOptions::default() };
        self.task = Some(self.spawn(context, HelmReleaseOptions::default(), options));
    }

    /// Starts the front end for the objects of the namespace, with options of HelmReleases.
    pub(crate) async fn start_with_options(&mut self, options: HelmReleaseOptions) {
        let context = self.context(self.cp.kubeconfig().to_owned()).await;
        let namespace = Some(self.ns.name().to_owned());
        let controller = ControllerOptions { namespace, concurrency: 4, ..ControllerOptions::default() };
        self.task = Some(self.spawn(context, options, controller));
    }

    /// Starts a front end for those objects of the namespace that a selector selects, beside others: a process of its own.
    pub(crate) async fn start_shard(&mut self, selector: &str) {
        let context = self.context(self.cp.kubeconfig().to_owned()).await;
        let (namespace, selector) = (Some(self.ns.name().to_owned()), selector.to_owned());
        let controller =
            ControllerOptions { namespace, selector, concurrency: 4, ..ControllerOptions::default() };
        let mut all: Vec<FrontEndTask> = self.task.take().into_iter().collect();
        all.push(self.spawn(context, HelmReleaseOptions::default(), controller));
        self.join(all);
    }

    fn spawn(
        &self,
        context: ControllerContext,
        options: HelmReleaseOptions,
        controller: ControllerOptions,
    ) -> FrontEndTask {
        let mut stop = self.stop.subscribe();
        let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
        tokio::spawn(windlass_controller::run(HelmReleases::new(options), context, controller, stopped))
    }

    async fn context(&self, kubeconfig: PathBuf) -> ControllerContext {
        let kubeconfig = Some(kubeconfig);
        let cluster =
            Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
        let requests = Arc::clone(&self.requests);
        cluster.observe(Box::new(move |_| {
            requests.fetch_add(1, Ordering::Relaxed);
        }));
        ControllerContext::new(cluster, &ContextOptions::default(), Arc::clone(&self.state))
    }

    /// The number of requests of the front end so far.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn list(&self, kind: &str) -> Vec<Value> {
        self.cp.list(&[kind, "-n", self.ns.name()]).unwrap()
    }

    pub(crate) async fn end(mut self) {
        self.stop().await;
    }

    /// Stops the front end; another one may be started.
    pub(crate) async fn stop(&mut self) {
        self.stop.send_replace(true);
        self.task.take().unwrap().await.unwrap().unwrap();
        self.stop = watch::Sender::new(false);
    }

    pub(crate) fn apply(&self, object: &Value) {
        self.cp.kubectl_with(["apply", "-n", self.ns.name(), "-f", "-"], &object.to_string()).unwrap();
    }

    /// Changes the stored record of a revision, as whoever may write Secrets can.
    pub(crate) fn forge(&self, release: &str, version: u64, change: impl Fn(&mut Value)) {
        let secret = format!("sh.helm.release.v1.{release}.v{version}");
        let mut record = self.stored_record(release, version);
        change(&mut record);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(record.to_string().as_bytes()).unwrap();
        let data = STANDARD.encode(STANDARD.encode(gzip.finish().unwrap()));
        let labels = json!({"status": record["info"]["status"]});
        let patch = json!({"metadata": {"labels": labels}, "data": {"release": data}}).to_string();
        self.cp
            .kubectl(["patch", "secret", &secret, "-n", self.ns.name(), "--type=merge", "-p", &patch])
            .unwrap();
    }

    /// Asks for a pass over a HelmRelease.
    pub(crate) fn ask(&self, name: &str, token: &str) {
        let annotation = format!("reconcile.fluxcd.io/requestedAt={token}");
        self.cp
            .kubectl(["annotate", "--overwrite", "helmrelease", name, "-n", self.ns.name(), &annotation])
            .unwrap();
    }

    /// Merges into a status.
    pub(crate) fn set_status(&self, kind: &str, name: &str, status: &Value) {
        let patch = json!({"status": status}).to_string();
        let args =
            ["patch", kind, name, "-n", self.ns.name(), "--subresource=status", "--type=merge", "-p", &patch];
        self.cp.kubectl(args).unwrap();
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        self.cp.find(&[kind, name, "-n", self.ns.name()]).unwrap().unwrap_or_default()
    }

    /// Publishes a chart as the artifact of a source.
    pub(crate) fn publish(&self, name: &str, revision: &str, bytes: Vec<u8>) {
        let digest = digest(&bytes);
        let file = format!("{}.tgz", digest.trim_start_matches("sha256:"));
        self.artifacts.put(&file, bytes);
        self.apply(&json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
            "metadata": {"name": name}, "spec": {"url": "oci://registry/demo", "interval": "1h"},
        }));
        let status = json!({
            "observedGeneration": self.get("ocirepository", name)["metadata"]["generation"],
            "artifact": {
                "url": format!("http://{}/{file}", self.address), "digest": digest, "revision": revision,
                "path": file, "lastUpdateTime": "2026-01-01T00:00:00Z",
            },
        });
        self.set_status("ocirepository", name, &status);
    }

    /// Applies a HelmRelease of the source `demo`.
    pub(crate) fn release(&self, name: &str, spec: &Value) {
        self.release_in(self.ns.name(), name, spec);
    }

    pub(crate) fn release_in(&self, namespace: &str, name: &str, spec: &Value) {
        let mut whole = json!({"chartRef": {"kind": "OCIRepository", "name": "demo"}, "interval": "1h", "timeout": "20s"});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let object = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": name, "namespace": namespace}, "spec": whole,
        });
        self.cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
    }

    pub(crate) fn wait(&self, what: &str, holds: impl Fn(&Value) -> bool, name: &str) -> Value {
        wait_until(what, LIMIT, || {
            let object = self.get("helmrelease", name);
            Ok(holds(&object).then_some(object))
        })
        .unwrap_or_else(|e| panic!("{e}: {:#}", self.get("helmrelease", name)["status"]))
    }

    /// Waits until a generation was observed and Ready has this state and reason.
    pub(crate) fn wait_ready(&self, name: &str, state: &str) -> Value {
        let done = |object: &Value| {
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
                && condition(object, "Ready") == state
        };
        self.wait(state, done, name)
    }

    /// The record of a revision, as Helm reads it.
    pub(crate) fn stored_record(&self, release: &str, revision: u64) -> Value {
        let object = self.get("secret", &format!("sh.helm.release.v1.{release}.v{revision}"));
        let outer = STANDARD.decode(object["data"]["release"].as_str().unwrap()).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&STANDARD.decode(outer).unwrap()[..]).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The statuses of a release's records by revision.
    pub(crate) fn records(&self) -> Vec<String> {
        let rows = self.cp.revisions(self.ns.name(), "owner=helm").unwrap();
        rows.into_iter().map(|(_, status)| status).collect()
    }
}

/// `STATUS REASON` of a condition.
pub(crate) fn condition(object: &Value, kind: &str) -> String {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|c| c["type"] == kind);
    found.map_or_else(String::new, |c| {
        format!("{} {}", c["status"].as_str().unwrap(), c["reason"].as_str().unwrap())
    })
}
