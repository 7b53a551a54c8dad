//! Connections to the API server and the one function that every request goes through.
//!
//! Two HTTP/2 connections pools: one for requests, one for watches, which stay open for minutes and would otherwise eat
//! the stream limit of the connection that requests share.

use super::{
    discovery::Discovery,
    error::{ApiStatus, ClusterError, OVERSIZED, Result},
    kubeconfig_list, nesting_bound,
    request_limits::{Collected, MOST_OF_FAILURE, RequestLimits},
    request_metrics::{RequestMetrics, RequestObserver},
    retry::{self, RequestFailure, Throttle},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, header, response::Parts};
use hyper_util::{
    client::legacy::connect::HttpConnector,
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use windlass_base::bounded_read;
use windlass_base::causes::chain;
use windlass_base::redact::SecretText;

const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The attempt after which throttling is logged.
const SLOW: u32 = 5;
/// Streams that one connection carries; API servers allow 100 or more.
const WATCHES_PER_CONNECTION: usize = 80;

/// How to reach a cluster. All empty: the kubeconfigs of the environment, else the service account of the Pod.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    /// Overrides of single settings, as Helm's `--kube-*` flags give them.
    pub server: Option<String>,
    pub token: Option<SecretText>,
    pub tls_server_name: Option<String>,
    /// A file of certificates in PEM form, in place of the configuration's.
    pub ca_file: Option<PathBuf>,
    pub insecure_skip_tls_verify: bool,
    pub as_user: Option<String>,
    pub as_groups: Vec<String>,
    /// Time limit of an answer; for a watch, until it begins. `None` or zero: 70 s.
    pub request_timeout: Option<Duration>,
}

/// A connected cluster. Cheap to clone; all clones share connections and discovery.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    limits: RequestLimits,
    requests: Client,
    watches: Mutex<WatchClients>,
    discovery: Arc<Discovery>,
    /// The server has answered once.
    reached: AtomicBool,
    observer: Arc<OnceLock<RequestObserver>>,
    throttle: Mutex<Throttle>,
}

#[derive(Default)]
struct WatchClients {
    current: Option<Client>,
    used: usize,
}

/// A request: `path` may carry a query.
pub(crate) struct ApiCall<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) accept: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) body: Vec<u8>,
}

impl<'a> ApiCall<'a> {
    pub(crate) fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, accept: JSON, content_type: JSON, body: Vec::new() }
    }
}

/// A successful answer.
pub(crate) struct ApiResponse {
    pub(crate) value: Value,
    pub(crate) warnings: Vec<String>,
    /// The bytes of its text.
    pub(crate) bytes: usize,
}

pub(crate) const JSON: &str = "application/json";

impl Cluster {
    /// Reads the configuration and prepares connections; sends nothing yet.
    pub async fn connect(options: &ConnectOptions) -> Result<Self> {
        let config = load_config(options).await?;
        Self::with_config(config, RequestLimits::own(options.request_timeout))
    }

    /// The cluster that Kubernetes' clients use without any configuration: port 8080 of this machine.
    ///
    /// # Errors
    /// No client can be made.
    pub fn of_this_machine() -> Result<Self> {
        let config = Config::new(http::Uri::from_static("http://localhost:8080"));
        Self::of_config(config, RequestLimits::own(None))
    }

    /// The cluster of a configuration that is complete.
    pub(super) fn of_config(mut config: Config, limits: RequestLimits) -> Result<Self> {
        name_agent(&mut config);
        Self::with_config(config, limits)
    }

    fn with_config(config: Config, limits: RequestLimits) -> Result<Self> {
        limits.check_host(config.cluster_url.host().unwrap_or_default())?;
        Self::with_shared(config, limits, Arc::default(), Arc::default())
    }

    fn with_shared(
        config: Config,
        limits: RequestLimits,
        observer: Arc<OnceLock<RequestObserver>>,
        discovery: Arc<Discovery>,
    ) -> Result<Self> {
        let requests = new_client(&config, &limits, &observer, None)?;
        Ok(Self {
            inner: Arc::new(Inner {
                config,
                limits,
                requests,
                watches: Mutex::default(),
                discovery,
                reached: AtomicBool::new(false),
                observer,
                throttle: Mutex::default(),
            }),
        })
    }

    /// The same cluster, with requests as another user: `system:serviceaccount:NAMESPACE:NAME` for a ServiceAccount.
    /// Discovery is shared; connections are not.
    ///
    /// # Errors
    /// As [`Cluster::connect`].
    pub fn acting_as(&self, user: &str) -> Result<Self> {
        let mut config = self.inner.config.clone();
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = None;
        let (observer, discovery) = (Arc::clone(&self.inner.observer), Arc::clone(&self.inner.discovery));
        let made = Self::with_shared(config, self.inner.limits, observer, discovery)?;
        made.inner.reached.store(self.inner.reached.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(made)
    }

    /// Sets the observer of all further requests, also for clusters derived from this one; only the first call
    /// counts. Requests through a proxy are not observed.
    pub fn observe(&self, observer: RequestObserver) {
        // A second observer is ignored.
        drop(self.inner.observer.set(observer));
    }

    /// The namespace that the configuration names, else `default`.
    pub fn default_namespace(&self) -> &str {
        &self.inner.config.default_namespace
    }

    /// The API server's address.
    pub fn server(&self) -> String {
        self.inner.config.cluster_url.to_string()
    }

    /// The certificates that the API server's is checked against, as PEM; `None`: those of the system.
    pub fn authorities(&self) -> Option<String> {
        let all = self.inner.config.root_cert.as_ref()?;
        Some(all.iter().map(|certificate| pem(certificate)).collect())
    }

    pub(crate) fn discovery(&self) -> &Discovery {
        &self.inner.discovery
    }

    /// A client for one more watch; opens a new connection when the last one is full.
    pub(crate) fn watch_client(&self) -> Result<Client> {
        let mut watches = self.inner.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if watches.used >= WATCHES_PER_CONNECTION {
            *watches = WatchClients::default();
        }
        let client = match &watches.current {
            Some(client) => client.clone(),
            None => {
                let Inner { config, observer, limits, .. } = &*self.inner;
                watches.current.insert(new_client(config, limits, observer, Some(limits.timeout))?).clone()
            }
        };
        watches.used += 1;
        Ok(client)
    }

    /// The limits of its server.
    pub(super) fn limits(&self) -> &RequestLimits {
        &self.inner.limits
    }

    /// Sends a request, with retries where those are safe, and parses the answer.
    pub(crate) async fn call(&self, call: ApiCall<'_>) -> Result<ApiResponse> {
        self.call_within(call, u64::MAX).await
    }

    /// The same, of at most so many bytes: [`ClusterError::TooLarge`] if the answer has more.
    pub(crate) async fn call_within(&self, call: ApiCall<'_>, most: u64) -> Result<ApiResponse> {
        // A large answer keeps its share of the memory while it is parsed.
        let (body, warnings) = self.bytes_within(&call, most).await?;
        #[expect(clippy::disallowed_methods, reason = "within the limits of the request")]
        let value = serde_json::from_slice(&body)
            .map_err(|e| ClusterError::Answer { path: call.path.to_owned(), reason: e.to_string() })?;
        Ok(ApiResponse { value, warnings, bytes: body.len() })
    }

    /// The same for text answers, with the server's warnings.
    pub(crate) async fn call_text(&self, call: &ApiCall<'_>) -> Result<(String, Vec<String>)> {
        let (bytes, warnings) = self.call_bytes(call).await?;
        let text = String::from_utf8(bytes.into())
            .map_err(|e| ClusterError::Answer { path: call.path.to_owned(), reason: e.to_string() })?;
        Ok((text, warnings))
    }

    /// The same for any answers.
    pub(crate) async fn call_bytes(&self, call: &ApiCall<'_>) -> Result<(Bytes, Vec<String>)> {
        self.bytes_within(call, u64::MAX).await
    }

    async fn bytes_within(&self, call: &ApiCall<'_>, most: u64) -> Result<(Bytes, Vec<String>)> {
        let mut attempt = 1;
        let mut began = None;
        loop {
            let (failure, error) = match self.attempt(call, most).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let throttled = matches!(failure, Some(RequestFailure::Status(429, _)));
            let waited = match throttled {
                true => began.get_or_insert_with(Instant::now).elapsed().max(self.throttled()),
                false => Duration::ZERO,
            };
            let Some(pause) = failure
                .and_then(|f| retry::pause(&call.method, f, (attempt, self.inner.limits.attempts), waited))
            else {
                return Err(match error {
                    ClusterError::Api(status) if throttled => ClusterError::Throttled {
                        request: format!("{} {}", call.method, call.path),
                        seconds: waited.as_secs(),
                        status,
                    },
                    error => error,
                });
            };
            if throttled && attempt == SLOW {
                tracing::warn!(method = %call.method, path = call.path, %error, "the API server is throttling: retrying for up to {}s", retry::THROTTLED.as_secs());
            } else {
                tracing::debug!(method = %call.method, path = call.path, attempt, %error, "request failed, trying again");
            }
            tokio::time::sleep(retry::spread(pause)).await;
            attempt += 1;
        }
    }

    /// For how long the server has throttled requests, after one more refusal.
    fn throttled(&self) -> Duration {
        let mut throttle = self.inner.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        throttle.refused(Instant::now())
    }

    async fn attempt(
        &self,
        call: &ApiCall<'_>,
        most: u64,
    ) -> Result<(Bytes, Vec<String>), (Option<RequestFailure>, ClusterError)> {
        let unexpected = |e: http::Error| {
            let error = ClusterError::Answer { path: call.path.to_owned(), reason: e.to_string() };
            (None::<RequestFailure>, error)
        };
        let request = Request::builder()
            .method(call.method.clone())
            .uri(call.path)
            .header(header::ACCEPT, call.accept)
            .header(header::CONTENT_TYPE, call.content_type)
            .body(Body::from(call.body.clone()))
            .map_err(unexpected)?;
        let exchange = async {
            let response = self.inner.requests.send(request).await?;
            let (parts, body) = response.into_parts();
            let most = RequestLimits::most_of(parts.status, most);
            Ok::<_, kube::Error>((parts, self.inner.limits.collect(body, most).await?))
        };
        let (parts, body) = match tokio::time::timeout(self.inner.limits.timeout, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                let reached = self.inner.reached.load(Ordering::Relaxed);
                let failure = if reached && is_connect(&error) {
                    RequestFailure::NotSent
                } else {
                    RequestFailure::NoAnswer
                };
                let request = format!("{} {}", call.method, call.path);
                let error = ClusterError::Unreachable { request, reason: chain(&error) };
                return Err((Some(failure), error));
            }
            Err(_) => {
                let request = format!("{} {}", call.method, call.path);
                let error = ClusterError::Timeout { request, seconds: self.inner.limits.timeout.as_secs() };
                return Err((Some(RequestFailure::NoAnswer), error));
            }
        };
        self.inner.reached.store(true, Ordering::Relaxed);
        if parts.status != http::StatusCode::TOO_MANY_REQUESTS {
            self.inner.throttle.lock().unwrap_or_else(PoisonError::into_inner).admitted();
        }
        match body {
            Collected::Whole(bytes) if parts.status.is_success() => Ok((bytes, warnings(&parts.headers))),
            Collected::Cut(_) if parts.status.is_success() => {
                let (path, most) = (call.path.to_owned(), self.inner.limits.largest(most));
                Err((None, ClusterError::TooLarge { path, most }))
            }
            body => Err(failure_of(call, &parts, body)),
        }
    }
}

/// What an answer tells that is no success, and whether it may be asked for again.
fn failure_of(call: &ApiCall<'_>, parts: &Parts, body: Collected) -> (Option<RequestFailure>, ClusterError) {
    let code = parts.status.as_u16();
    let bytes = match body {
        Collected::Whole(bytes) => bytes,
        Collected::Cut(start) => {
            let text = String::from_utf8_lossy(&start);
            let message = format!(
                "{} {}: {}: more than {} MiB: {}",
                call.method,
                call.path,
                parts.status,
                MOST_OF_FAILURE >> 20,
                text.trim()
            );
            let status = ApiStatus { code, reason: OVERSIZED.to_owned(), message, ..ApiStatus::default() };
            // Asked again, it would be as large.
            return (None, ClusterError::Api(Box::new(status)));
        }
    };
    #[expect(clippy::disallowed_methods, reason = "within the limit of a failure")]
    let mut status: ApiStatus = serde_json::from_slice(&bytes).unwrap_or_default();
    status.code = code;
    if status.message.is_empty() {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(500)]).trim().to_owned();
        status.message = format!("{} {}: {} {text}", call.method, call.path, parts.status);
    }
    let after = parts.headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
    let failure = RequestFailure::Status(status.code, after);
    let error = ClusterError::Api(Box::new(status));
    // Such a server has waited already; the caller has other fallbacks.
    (Some(failure).filter(|_| !error.is_version_of_the_future()), error)
}

/// Names this program in requests.
fn name_agent(config: &mut Config) {
    config.headers.push((
        header::USER_AGENT,
        header::HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION"))),
    ));
}

async fn load_config(options: &ConnectOptions) -> Result<Config> {
    let failed = |e: &dyn std::error::Error| ClusterError::Config(chain(e));
    let chosen = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    let given = match &options.kubeconfig {
        Some(path) => Some(Kubeconfig::read_from(path).map_err(|e| failed(&e))?),
        None => kubeconfig_list::from_environment().map_err(|e| failed(&e))?,
    };
    let mut config = match given {
        Some(kubeconfig) => {
            Config::from_custom_kubeconfig(kubeconfig, &chosen).await.map_err(|e| failed(&e))?
        }
        None if options.context.is_some() => {
            Config::from_kubeconfig(&chosen).await.map_err(|e| failed(&e))?
        }
        None => Config::infer().await.map_err(|e| failed(&e))?,
    };
    if let Some(server) = &options.server {
        config.cluster_url = server.parse().map_err(|e: http::uri::InvalidUri| failed(&e))?;
    }
    if let Some(token) = &options.token {
        config.auth_info.token = Some(token.expose().to_owned().into());
        config.auth_info.token_file = None;
        config.auth_info.exec = None;
    }
    if options.tls_server_name.is_some() {
        config.tls_server_name.clone_from(&options.tls_server_name);
    }
    if let Some(path) = &options.ca_file {
        let text = bounded_read::read_text(path, bounded_read::MAX_TEXT)
            .map_err(|e| ClusterError::Config(format!("{}: {e}", path.display())))?;
        let certificates = certificates(&text)
            .ok_or_else(|| ClusterError::Config(format!("{}: no certificate in it", path.display())))?;
        config.root_cert = Some(certificates);
    }
    config.accept_invalid_certs |= options.insecure_skip_tls_verify;
    if options.as_user.is_some() {
        config.auth_info.impersonate.clone_from(&options.as_user);
    }
    if !options.as_groups.is_empty() {
        config.auth_info.impersonate_groups = Some(options.as_groups.clone());
    }
    name_agent(&mut config);
    Ok(config)
}

/// The certificates of a PEM text; `None` if there is none or one is broken.
fn certificates(text: &str) -> Option<Vec<Vec<u8>>> {
    let blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    let decoded: Option<Vec<Vec<u8>>> = blocks
        .map(|block| {
            let body: String = block.split("-----END").next()?.split_whitespace().collect();
            STANDARD.decode(body).ok()
        })
        .collect();
    decoded.filter(|all| !all.is_empty())
}

/// A certificate as PEM, in lines of 64 characters.
fn pem(certificate: &[u8]) -> String {
    const LINE: usize = 64;
    let body = STANDARD.encode(certificate);
    let mut out = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out + "-----END CERTIFICATE-----\n"
}

/// kube's own client uses HTTP/1.1, one connection for each watch, and repeats POSTs; this one does not. `begins`:
/// time limit until an answer begins, where nothing else sets one.
fn new_client(
    config: &Config,
    limits: &RequestLimits,
    observer: &Arc<OnceLock<RequestObserver>>,
    begins: Option<Duration>,
) -> Result<Client> {
    let failed = |e: kube::Error| ClusterError::Config(chain(&e));
    if config.proxy_url.is_some() {
        // kube handles tunnels through a proxy, at the cost of HTTP/2.
        let mut config = config.clone();
        config.default_retry = false;
        let bound = tower::util::MapResponseLayer::new(nesting_bound::bounded);
        return Ok(ClientBuilder::try_from(config).map_err(failed)?.with_layer(&bound).build());
    }
    let mut tcp = HttpConnector::new_with_resolver(limits.resolver());
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(config.connect_timeout.unwrap_or(Duration::from_secs(30))));
    let mut tls = config.rustls_client_config().map_err(failed)?;
    // The connector sets the protocols that it offers; it refuses a configuration that already has some.
    tls.alpn_protocols.clear();
    let mut connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        let name = name.try_into().map_err(|_| {
            ClusterError::Config("tls-server-name is neither a host name nor an address".into())
        })?;
        connector = connector.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
    }
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_timeout(KEEP_ALIVE)
        .http2_keep_alive_while_idle(true)
        .build(connector.enable_all_versions().wrap_connector(tcp));
    let service = tower::ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(failed)?)
        .layer(config.extra_headers_layer().map_err(failed)?)
        .option_layer(begins.map(tower::timeout::TimeoutLayer::new))
        .map_err(Into::<tower::BoxError>::into)
        .map_response(nesting_bound::bounded)
        .service(RequestMetrics { inner: http, observer: Arc::clone(observer) });
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// `Warning: 299 - "text"` headers, as text.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let text = |value: &header::HeaderValue| -> Option<String> {
        let quoted = value.to_str().ok()?.splitn(3, ' ').nth(2)?.trim();
        Some(quoted.trim_matches('"').replace("\\\"", "\"").replace("\\\\", "\\"))
    };
    headers.get_all(header::WARNING).iter().filter_map(text).collect()
}

/// Whether no connection was established.
fn is_connect(error: &kube::Error) -> bool {
    let kube::Error::Service(error) = error else { return false };
    error.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|e| e.is_connect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_is_too_large_is_not_parsed_and_final() {
        let (parts, ()) = http::Response::builder().status(409).body(()).unwrap().into_parts();
        let text = r#"{"reason": "Conflict", "message": "changed"}"#;
        let call = ApiCall::get("/api/v1/pods");
        let whole = Collected::Whole(Bytes::from_static(text.as_bytes()));
        let (failure, error) = failure_of(&call, &parts, whole);
        assert!(failure.is_some() && error.is_conflict() && error.is_transient());
        assert_eq!(error.to_string(), "changed");
        let (failure, error) = failure_of(&call, &parts, Collected::Cut(text.as_bytes().to_vec()));
        assert!(failure.is_none() && !error.is_conflict() && !error.is_settling() && !error.is_transient());
        let told = format!("GET /api/v1/pods: 409 Conflict: more than 8 MiB: {text}");
        assert_eq!((error.code(), error.to_string()), (Some(409), told));
    }
}
