//! The operator's HTTP servers: probes, metrics, the debug endpoint, and the limits of all listeners.
//!
//! Owns the listeners and the text formats. Reads [`State`] and decides nothing.

pub mod addon_operator_metrics;
pub mod body;
pub mod debug;
pub mod hook_metrics;
pub mod listen;
mod metric_store;
pub mod metrics;
mod progress;
pub mod runtime_config;
pub mod server_tls;
mod shares;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::Router;
use axum::extract;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use addon_operator_metrics::Measures;
use body::Budget;
use debug::Handler;
use hook_metrics::HookMetrics;
use listen::Limits;
use metrics::Metrics;
pub use progress::Progress;
use runtime_config::Runtime;

/// The data of probes and metrics.
#[derive(Default)]
pub struct State {
    /// Whether every enabled module has had a result since the start.
    pub converged: AtomicBool,
    /// The current leader, if this process is a follower.
    pub leader: Mutex<Option<String>>,
    /// The counters and gauges.
    pub metrics: Metrics,
    /// Metrics of hooks.
    pub hook_metrics: HookMetrics,
    /// addon-operator's metrics.
    pub measures: Arc<Measures>,
    /// Updates metrics that are computed at a scrape.
    pub collect: OnceLock<Collector>,
    /// Progress of converges (passes over all modules).
    pub progress: Progress,
    /// Parameters that can be changed at run time.
    pub runtime: Arc<Runtime>,
    /// The memory budget of requests to all listeners.
    pub bodies: Arc<Budget>,
    /// Answers requests to the debug endpoint, once the operator runs.
    pub debug: OnceLock<Handler>,
}

/// Called before each scrape.
pub type Collector = Box<dyn Fn() + Send + Sync>;

impl State {
    /// A state whose addon-operator metrics begin with `prefix`.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self { measures: Arc::new(Measures::new(prefix)), ..Self::default() }
    }

    /// The leader that this process follows, if there is one.
    pub fn leader(&self) -> Option<String> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The list of paths, for the index page.
const ROUTES: &str = "GET /discovery
GET /healthz
GET /metrics
GET /metrics/hooks
GET /readyz
GET /status/converge
";

/// Serves probes, metrics and the progress of converges until `stop` resolves. Returns the actual address.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve(
    address: SocketAddr,
    state: Arc<State>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<(SocketAddr, tokio::task::JoinHandle<()>)> {
    let routes = Router::new()
        .route("/", get(|| async { "windlass: see /discovery\n" }))
        .route("/discovery", get(|| async { ROUTES }))
        .route("/status/converge", get(converge))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics_text))
        .route("/metrics/hooks", get(hook_metrics_text))
        .route("/debug/pprof", get(no_profiles))
        .route("/debug/pprof/", get(no_profiles))
        .route("/debug/pprof/{*profile}", get(no_profiles))
        .with_state(state);
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((address, tokio::spawn(listen::serve(listener, None, routes, Limits::default(), stop))))
}

async fn ready(extract::State(state): extract::State<Arc<State>>) -> impl IntoResponse {
    if state.converged.load(Ordering::Acquire) {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    let leader = state.leader.lock().unwrap_or_else(PoisonError::into_inner);
    match &*leader {
        // A follower is ready when it can take over: a rollout must not wait until it leads.
        Some(leader) => (StatusCode::OK, format!("ready to follow {leader}\n")),
        None => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the first converge is not done: some module has had no outcome yet\n".to_owned(),
        ),
    }
}

async fn converge(
    extract::State(state): extract::State<Arc<State>>,
    extract::RawQuery(query): extract::RawQuery,
) -> impl IntoResponse {
    let json = query.unwrap_or_default().split('&').any(|pair| pair == "output=json");
    let kind = if json { "application/json" } else { "text/plain; charset=utf-8" };
    let done = state.converged.load(Ordering::Acquire);
    ([(header::CONTENT_TYPE, kind)], state.progress.response(done, json))
}

/// The response to requests for addon-operator's profiles, which are those of the Go runtime.
const NO_PROFILES: &str = "\
There are no pprof profiles: this program is not written in Go. What there is instead:
GET /metrics: what modules, hooks, queues and requests to the API server take, under addon-operator's names
GET /status/converge, windlass queue list: what is being done now
windlass config set log.level debug: what is done, in the log
perf record -g -p PID: where processor time goes; /proc/PID/smaps_rollup: what memory is used
";

async fn no_profiles() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, NO_PROFILES)
}

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

async fn metrics_text(extract::State(state): extract::State<Arc<State>>) -> impl IntoResponse {
    if let Some(collect) = state.collect.get() {
        collect();
    }
    ([(header::CONTENT_TYPE, PROMETHEUS)], state.metrics.text() + &state.measures.text())
}

async fn hook_metrics_text(extract::State(state): extract::State<Arc<State>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, PROMETHEUS)], state.hook_metrics.text())
}
