//! The connections under the requests: plain or TLS, straight or through the proxy that the environment names.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::super::location::Location;
use super::tls::{self, Tls, TlsError};

/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(30);

/// A proxy on the way to a server.
pub(super) type Proxy = Intercept;

/// A pool of connections.
#[derive(Clone)]
pub(super) enum Client {
    Direct(legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
    Tunnelled(legacy::Client<HttpsConnector<Tunnel<HttpConnector>>, Full<Bytes>>),
}

/// The proxy for a URL, by `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`; never for this machine itself.
pub(super) fn proxy(url: &Location) -> Option<Proxy> {
    static MATCHER: OnceLock<Matcher> = OnceLock::new();
    let uri: Uri = format!("{}://{}/", url.scheme, url.host).parse().ok()?;
    MATCHER.get_or_init(Matcher::from_env).intercept(&uri).filter(|_| !url.is_loopback())
}

impl Client {
    /// A client; without `tls` for plain HTTP alone.
    pub(super) fn new(tls: Option<&Tls>, proxy: Option<Proxy>) -> Result<Self, TlsError> {
        let config = match tls {
            Some(tls) => tls::config(tls)?,
            None => tls::nobody()?,
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        let https =
            HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_all_versions();
        let builder = || {
            let mut builder = legacy::Client::builder(TokioExecutor::new());
            builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new());
            builder
        };
        Ok(match proxy {
            None => Self::Direct(builder().build(https.wrap_connector(tcp))),
            Some(proxy) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), tcp);
                if let Some(auth) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                Self::Tunnelled(builder().build(https.wrap_connector(tunnel)))
            }
        })
    }

    pub(super) async fn request(
        &self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<http::Response<Incoming>, legacy::Error> {
        match self {
            Self::Direct(client) => client.request(request).await,
            Self::Tunnelled(client) => client.request(request).await,
        }
    }
}
