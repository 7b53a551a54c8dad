//! Requests to chart servers, within limits: time, size, redirects, and the origins that receive credentials.
//!
//! Owns the rules over reqwest's client: what goes to which origin, and errors in Helm's words. Knows nothing of
//! charts.

mod client;
mod client_tls;
mod error;

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout_at};

pub use self::client::Proxy;
pub use self::client_tls::{Pem, Tls, TlsError};
use self::error::Reason;
pub use self::error::{FailureKind, HttpError};
use super::address_guard::{AddressError, Server};
use super::location::{BadLocation, Location};
use windlass_base::body_memory::BodyMemory;
use windlass_base::machine::input_limit;
use windlass_base::redact::SecretText;

/// Time limit of a request; Helm's.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Most redirects within an origin, and most to other origins; Go's limit.
const MAX_REDIRECTS: usize = 10;

/// The most clients that are kept: one for each TLS configuration.
const MAX_CLIENTS: usize = 128;

/// Size limit of the answer of a server of credentials.
pub const MAX_CREDENTIALS: u64 = 1 << 20;

/// Size limit of an error's body.
const MAX_COMPLAINT: u64 = 64 * 1024;

/// Download progress: the URL, the bytes so far, and the total if the server sent it.
pub type Progress = Arc<dyn Fn(&Location, u64, Option<u64>) + Send + Sync>;

/// TLS flags, if it uses TLS, and whether the server is this machine.
type ConnectionOptions = (Option<Tls>, bool);

/// A client for any number of servers; clones share its connections and TLS configurations.
#[derive(Clone)]
pub struct Http {
    clients: Arc<Mutex<HashMap<ConnectionOptions, reqwest::Client>>>,
    timeout: Duration,
    offline: bool,
    no_local: bool,
    one_origin: bool,
    proxy: Option<Proxy>,
    progress: Option<Progress>,
}

/// Credentials.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// User and password.
    Basic(String, SecretText),
    /// A token.
    Bearer(SecretText),
    /// Other headers.
    Signed(Vec<(HeaderName, String)>),
}

impl Credentials {
    /// The headers for them.
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let texts = match self {
            Self::Basic(user, password) => {
                let pair =
                    base64::engine::general_purpose::STANDARD.encode(format!("{user}:{}", password.expose()));
                vec![(header::AUTHORIZATION, format!("Basic {pair}"))]
            }
            Self::Bearer(token) => vec![(header::AUTHORIZATION, format!("Bearer {}", token.expose()))],
            Self::Signed(headers) => headers.clone(),
        };
        let sensitive = |(name, text): (HeaderName, String)| {
            let mut value = HeaderValue::try_from(text).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        };
        texts.into_iter().filter_map(sensitive).collect()
    }
}

/// One request.
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: Location,
    /// Headers besides those that every request has.
    pub headers: Vec<(HeaderName, String)>,
    /// Sent only to the origin of `url`, whatever the redirects.
    pub credentials: Option<Credentials>,
    /// Whether URL or body contain a secret: a redirect to another origin is an error then.
    pub confined: bool,
    /// TLS flags; the client certificate is for the origin of `url` only.
    pub tls: &'a Tls,
    /// The body.
    pub body: Bytes,
    /// Size limit of the answer, in bytes.
    pub limit: u64,
}

impl<'a> Request<'a> {
    /// A `GET` without credentials.
    #[must_use]
    pub fn get(url: Location, tls: &'a Tls, limit: u64) -> Self {
        let (method, body) = (Method::GET, Bytes::new());
        Self { method, url, headers: Vec::new(), credentials: None, confined: false, tls, body, limit }
    }

    /// A `POST` of a form that asks a server for credentials. Its fields are for nobody else.
    #[must_use]
    pub fn form(url: Location, tls: &'a Tls, fields: &[(&str, &str)]) -> Self {
        let field =
            |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
        let body = fields.iter().map(field).collect::<Vec<_>>().join("&");
        Self {
            method: Method::POST,
            headers: vec![(header::CONTENT_TYPE, "application/x-www-form-urlencoded".to_owned())],
            confined: true,
            body: body.into(),
            ..Self::get(url, tls, MAX_CREDENTIALS)
        }
    }
}

/// The head of an answer, and its incoming body.
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The final URL.
    pub url: Location,
    body: reqwest::Response,
    /// How many bytes of the body have been read.
    seen: u64,
    limit: u64,
    deadline: Instant,
    progress: Option<Progress>,
}

impl Http {
    /// A client. `offline`: every request is refused.
    #[must_use]
    pub fn new(timeout: Duration, offline: bool) -> Self {
        let (no_local, one_origin) = (false, false);
        Self { clients: Arc::default(), timeout, offline, no_local, one_origin, proxy: None, progress: None }
    }

    /// Whether every request is refused.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Whether this machine and its cloud's metadata service are reached.
    #[must_use]
    pub fn reaches_local_addresses(&self) -> bool {
        !self.no_local
    }

    /// The same with another time limit.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The client, with a shorter time limit of one request if its own is longer.
    #[must_use]
    pub fn within(self, timeout: Duration) -> Self {
        let timeout = self.timeout.min(timeout);
        self.with_timeout(timeout)
    }

    /// A client that reaches neither this machine nor its cloud's metadata service: for URLs of tenants.
    #[must_use]
    pub fn without_local_addresses(self) -> Self {
        Self { clients: Arc::default(), no_local: true, ..self }
    }

    /// A client whose requests follow no redirect to another origin: for a server that alone may be reached.
    #[must_use]
    pub fn within_one_origin(self) -> Self {
        Self { one_origin: true, ..self }
    }

    /// The same through a proxy; it shares no connections with others.
    #[must_use]
    pub fn with_proxy(self, proxy: Proxy) -> Self {
        Self { clients: Arc::default(), proxy: Some(proxy), ..self }
    }

    /// Adds a listener for progress.
    #[must_use]
    pub fn with_progress(mut self, progress: Progress) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Sends a request and follows redirects. Any final status is an answer.
    ///
    /// # Errors
    /// The server cannot be reached in time, does not speak HTTP, redirects too often, from https to http, to another
    /// scheme, or to another origin although the request or the client is confined.
    pub async fn send(&self, request: Request<'_>) -> Result<Response, HttpError> {
        let deadline = Instant::now() + self.timeout;
        let failed = |url: &Location, reason| HttpError::new(&request.method, url, reason);
        let lost = |e: BadLocation| Reason::Other(FailureKind::Redirect, e.to_string());
        if self.offline {
            return Err(failed(&request.url, Reason::Offline));
        }
        let (mut url, mut method, mut body) =
            (request.url.clone(), request.method.clone(), request.body.clone());
        let bare = request.tls.without_identity();
        let (mut credentials, mut tls) = (request.credentials.as_ref(), request.tls);
        // One iteration for each origin.
        for _ in 0..MAX_REDIRECTS {
            if !matches!(url.scheme.as_str(), "http" | "https") {
                return Err(failed(&url, Reason::Scheme(url.scheme.clone())));
            }
            let refused = |e: &dyn std::error::Error| Reason::Other(FailureKind::Address, e.to_string());
            let address = address(&url).map_err(|e| failed(&url, refused(&e)))?;
            if self.no_local {
                self.check(&address).map_err(|e| failed(&url, refused(&e)))?;
            }
            let client = self.client(&url, tls).map_err(|e| failed(&url, Reason::Tls(e)))?;
            let mut message = client.request(method.clone(), address.clone()).body(body.clone());
            for (name, value) in &request.headers {
                message = message.header(name, value);
            }
            // Credentials in a URL go to its own server only.
            let own = url.user().map(|(name, password)| Credentials::Basic(name.into(), password.clone()));
            for (name, value) in own.as_ref().or(credentials).map(Credentials::headers).unwrap_or_default() {
                message = message.header(name, value);
            }
            let answer = timeout_at(deadline, message.send()).await;
            let answer = answer.map_err(|_| failed(&url, Reason::Timeout(self.timeout)))?;
            let answer = answer.map_err(|e| failed(&url, Reason::Transport(e)))?;
            if *answer.url() != address {
                let last = Location::parse(answer.url().as_str());
                url = last.map_err(|e| failed(&url, lost(e)))?;
            }
            let (status, headers) = (answer.status(), answer.headers().clone());
            let next = headers.get(header::LOCATION).and_then(|l| l.to_str().ok());
            let (301 | 302 | 303 | 307 | 308, Some(next)) = (status.as_u16(), next) else {
                let (limit, progress) = (request.limit, self.progress.clone());
                return Ok(Response {
                    status,
                    headers,
                    url,
                    body: answer,
                    seen: 0,
                    limit,
                    deadline,
                    progress,
                });
            };
            let next = url.join(next).map_err(|e| failed(&url, lost(e)))?;
            if url.scheme == "https" && next.scheme == "http" {
                return Err(failed(&url, Reason::Downgrade(next)));
            }
            if self.one_origin {
                return Err(failed(&url, Reason::Elsewhere(next)));
            }
            if request.confined {
                return Err(failed(&url, Reason::Leak(next)));
            }
            if matches!(status.as_u16(), 301..=303) && method != Method::HEAD {
                (method, body) = (Method::GET, Bytes::new());
            }
            // Another origin, and the targets of its redirects, get neither credentials nor the client certificate.
            (credentials, tls, url) = (None, &bare, next);
        }
        Err(failed(&request.url, Reason::TooManyRedirects))
    }

    /// Fetches a whole body.
    ///
    /// # Errors
    /// As [`Self::send`]; any status but 200; a body that is truncated, too large or too slow.
    pub async fn fetch(&self, request: Request<'_>) -> Result<Bytes, HttpError> {
        let asked = request.url.clone();
        self.send(request).await?.ok(&asked)?.bytes().await
    }

    /// Checks the servers of a request as far as their texts tell. Names are checked as they are resolved.
    fn check(&self, address: &reqwest::Url) -> Result<(), AddressError> {
        let proxy = self.proxy.as_ref().map(|proxy| proxy.address.as_str());
        [Some(address.as_str()), proxy]
            .into_iter()
            .flatten()
            .try_for_each(|url| Server::of_url(url)?.check_text())
    }

    fn client(&self, url: &Location, tls: &Tls) -> Result<reqwest::Client, TlsError> {
        let tls = Some(tls).filter(|_| url.scheme == "https");
        let key = (tls.cloned(), url.is_loopback());
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        if clients.len() >= MAX_CLIENTS {
            clients.clear();
        }
        let client = client::new(tls, key.1, self.no_local, self.proxy.as_ref())?;
        clients.insert(key, client.clone());
        Ok(client)
    }
}

impl Response {
    /// The answer, if its status is 200.
    ///
    /// # Errors
    /// Any other status, in Helm's words: `failed to fetch URL : 404 Not Found`.
    pub fn ok(self, asked: &Location) -> Result<Self, HttpError> {
        if self.status == StatusCode::OK {
            return Ok(self);
        }
        Err(HttpError::Status { url: asked.to_string(), status: self.status })
    }

    /// A header, if it is text.
    #[must_use]
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The whole body. Large ones share the memory of the process until they are dropped, and wait for each other.
    ///
    /// # Errors
    /// It is truncated, larger than the request's limit or than what this process has for it, or too slow.
    pub async fn bytes(mut self) -> Result<Bytes, HttpError> {
        self.limit = self.limit.min(input_limit());
        let announced = self.announced()?;
        let mut buffer = BodyMemory::of_process().buffer(announced.unwrap_or(self.limit));
        loop {
            let data = tokio::select! {
                data = self.chunk() => data?,
                () = buffer.expired() => return Err(self.failed(Reason::Slow)),
            };
            let Some(data) = data else { break };
            let waited = timeout_at(self.deadline, buffer.push(&data)).await;
            waited.map_err(|_| self.failed(Reason::NoMemory))?;
            self.report(announced);
        }
        Ok(buffer.finish())
    }

    /// The beginning of the body of an error, for its text.
    pub async fn complaint(mut self) -> Vec<u8> {
        self.limit = MAX_COMPLAINT;
        let mut out = Vec::new();
        // A partial text is enough.
        drop(self.copy_to(&mut out).await);
        out
    }

    /// Writes the body to a writer. Returns its SHA-256.
    ///
    /// # Errors
    /// As [`Self::bytes`], or it cannot be written.
    pub async fn copy_to(mut self, out: &mut impl Write) -> Result<[u8; 32], HttpError> {
        let announced = self.announced()?;
        let mut digest = Sha256::new();
        while let Some(data) = self.chunk().await? {
            digest.update(&data);
            let written = out.write_all(&data);
            written.map_err(|e| self.failed(Reason::Other(FailureKind::Write, e.to_string())))?;
            self.report(announced);
        }
        Ok(digest.finalize().into())
    }

    /// The length that the server announced.
    ///
    /// # Errors
    /// It is larger than the limit.
    fn announced(&self) -> Result<Option<u64>, HttpError> {
        let announced = self.header(header::CONTENT_LENGTH).and_then(|n| n.parse::<u64>().ok());
        match announced.filter(|n| *n > self.limit) {
            Some(_) => Err(self.failed(Reason::TooLarge(self.limit))),
            None => Ok(announced),
        }
    }

    /// The next bytes of the body, within its limits.
    async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        let chunk = timeout_at(self.deadline, self.body.chunk()).await;
        let chunk =
            chunk.map_err(|_| self.failed(Reason::Slow))?.map_err(|e| self.failed(Reason::Body(e)))?;
        self.seen += chunk.as_ref().map_or(0, Bytes::len) as u64;
        if self.seen > self.limit {
            return Err(self.failed(Reason::TooLarge(self.limit)));
        }
        Ok(chunk)
    }

    fn report(&self, announced: Option<u64>) {
        if let Some(progress) = &self.progress {
            progress(&self.url, self.seen, announced);
        }
    }

    fn failed(&self, reason: Reason) -> HttpError {
        HttpError::new(&Method::GET, &self.url, reason)
    }
}

/// Why a location cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadHost {
    #[error("the host {0:?} is not plain ASCII: write its ASCII form (xn--...)")]
    NotAscii(String),
    #[error(transparent)]
    Invalid(<reqwest::Url as std::str::FromStr>::Err),
}

/// The request URL of a location.
///
/// # Errors
/// The host is invalid.
pub(super) fn address(url: &Location) -> Result<reqwest::Url, BadHost> {
    // An escape may be any character. reqwest's reader has no tables of them: a build with debug assertions panics on some.
    if !url.host.is_ascii() || url.host.contains('%') {
        return Err(BadHost::NotAscii(url.host.clone()));
    }
    let text = format!("{}://{}{}", url.scheme, url.host, url.target());
    reqwest::Url::parse(&text).map_err(BadHost::Invalid)
}

/// A status as Go writes it: `404 Not Found`.
pub(super) fn status_text(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}
