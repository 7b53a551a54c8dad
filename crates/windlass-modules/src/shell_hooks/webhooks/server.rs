//! The servers that the API server calls: one for all webhooks, or one more for conversions, each with its certificate.
//!
//! Owns listening, certificates and their renewal, and by which way the API server comes. What is answered is `calls`'.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::certificates::{Files, KeyPair, given, kept};
use super::configurations::{ClientConfigTarget, EndpointConfig, WebhookEndpoint};
use super::{Options, Webhooks, handler};
use windlass_base::backoff;
use windlass_base::bounded_read;
use windlass_controller::serve::listen::{self, Limits};
use windlass_controller::serve::server_tls;

/// An API server opens a connection for each call that is under way, and waits for none longer than 30 s; it closes idle ones
/// after 90 s.
const LIMITS: Limits = Limits {
    connections: 512,
    of_address: 256,
    handshakes: 256,
    handshake: Duration::from_secs(10),
    head: Duration::from_secs(10),
    request: Duration::from_secs(45),
    idle: Duration::from_secs(100),
};
/// How often certificate files are checked.
const LOOK_AT_FILES: Duration = Duration::from_secs(30);
/// How long the renewal of a certificate may sleep at a stretch: clocks are set.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// Where to listen, and as who.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where to listen; several ports serve the same. 0 takes a free one.
    pub address: IpAddr,
    pub ports: Vec<u16>,
    /// A certificate that is managed elsewhere; `None`: one is generated.
    pub certificate: Option<Files>,
    /// Bundles of authorities: only clients with a certificate of one of them are answered. Empty: all are.
    pub clients: Vec<PathBuf>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            address: IpAddr::from([0, 0, 0, 0]),
            ports: vec![9651],
            certificate: None,
            clients: Vec::new(),
        }
    }
}

/// A server that listens.
pub(super) struct ListeningServer {
    server: Server,
    /// The Service that its certificate is named by.
    service: String,
    hosts: Vec<String>,
    port: u16,
    tls: watch::Sender<Arc<ServerConfig>>,
    material: KeyPair,
}

/// How the API server reaches the admission and conversion servers: the authority, the port of the first server and that of the last,
/// which serves conversions. One Service leads to one server.
pub(super) fn webhook_endpoint(
    options: &Options,
    namespace: &str,
    first: (&str, u16),
    last: (&str, u16),
) -> WebhookEndpoint {
    let one = options.url.is_none() && options.service == options.conversion_service;
    let way = |service: &str, (authority, port): (&str, u16)| {
        let reach = match &options.url {
            Some(url) => {
                let url = url.trim_end_matches('/');
                let url = match url.strip_suffix(":0") {
                    Some(host) => format!("{host}:{port}"),
                    None => url.to_owned(),
                };
                ClientConfigTarget::Url(url)
            }
            None => ClientConfigTarget::Service {
                namespace: namespace.to_owned(),
                name: service.to_owned(),
                port: options.service_port,
            },
        };
        EndpointConfig { reach, authority: authority.to_owned(), port }
    };
    WebhookEndpoint {
        admission: way(&options.service, first),
        conversion: way(&options.conversion_service, if one { first } else { last }),
    }
}

impl Webhooks {
    /// Starts to listen, unless that was done before.
    pub(super) async fn open(self: &Arc<Self>) -> Result<(), String> {
        let mut open = self.open.lock().await;
        if !open.is_empty() {
            return Ok(());
        }
        let options = &self.options;
        let mut opened = Vec::new();
        match &options.conversion {
            None => {
                let services = [options.service.as_str(), options.conversion_service.as_str()];
                opened.push(self.open_one(&options.server, &services).await?);
            }
            Some(conversion) => {
                opened.push(self.open_one(&options.server, &[options.service.as_str()]).await?);
                opened.push(self.open_one(conversion, &[options.conversion_service.as_str()]).await?);
            }
        }
        let webhook_endpoint = self.endpoint_of(&opened);
        *self.webhook_endpoint.lock().unwrap_or_else(PoisonError::into_inner) = webhook_endpoint;
        *open = opened;
        self.spawn(renew(Arc::downgrade(self)));
        Ok(())
    }

    async fn open_one(
        self: &Arc<Self>,
        server: &Server,
        services: &[&str],
    ) -> Result<ListeningServer, String> {
        let failed = |what: &str, e: &dyn std::fmt::Display| format!("webhooks: {what}: {e}");
        let hosts = self.hosts(services);
        let service = services.first().copied().unwrap_or_default().to_owned();
        let material = self.material(server, &service, &hosts).await?;
        let (tls, receiver) = watch::channel(config(server, &material)?);
        let mut first = None;
        for port in &server.ports {
            let address = SocketAddr::new(server.address, *port);
            let listener = TcpListener::bind(address)
                .await
                .map_err(|e| failed(&format!("cannot listen on {address}"), &e))?;
            let address = listener.local_addr().map_err(|e| failed("listening", &e))?;
            tracing::info!(%address, service, "serving webhooks");
            first = first.or(Some(address));
            let routes = handler::routes(Arc::downgrade(self));
            // It ends with this value.
            let never = std::future::pending();
            self.spawn(listen::serve(listener, Some(receiver.clone()), routes, LIMITS, never));
        }
        let port = first.map_or(0, |a| a.port());
        Ok(ListeningServer { server: server.clone(), service, hosts, port, tls, material })
    }

    async fn material(&self, server: &Server, service: &str, hosts: &[String]) -> Result<KeyPair, String> {
        let found = match &server.certificate {
            Some(files) => given(files),
            None => kept(&self.cluster, &self.namespace, &format!("{service}-certificate"), hosts).await,
        };
        found.map_err(|e| format!("webhooks: {e}"))
    }

    /// The names that the API server may call us by.
    fn hosts(&self, services: &[&str]) -> Vec<String> {
        if let Some(url) = &self.options.url {
            let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            let host = host.split('/').next().unwrap_or_default();
            let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
            return vec![host.trim_matches(['[', ']']).to_owned()];
        }
        let mut hosts = Vec::new();
        for service in services {
            let host = format!("{service}.{}.svc", self.namespace);
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts
    }

    fn endpoint_of(&self, opened: &[ListeningServer]) -> Option<WebhookEndpoint> {
        let end = |opened: &'_ ListeningServer| (opened.material.authority.clone(), opened.port);
        let (first, last) = (end(opened.first()?), end(opened.last()?));
        Some(webhook_endpoint(&self.options, &self.namespace, (&first.0, first.1), (&last.0, last.1)))
    }

    /// Switches to changed certificates, after API servers have their authorities.
    async fn check_certificates(&self) -> Result<Duration, String> {
        let mut open = self.open.lock().await;
        let mut sleep = LONGEST_SLEEP;
        for at in 0..open.len() {
            let Some(one) = open.get_mut(at) else { break };
            let material = self.material(&one.server, &one.service, &one.hosts).await?;
            if material != one.material {
                let config = config(&one.server, &material)?;
                let before = std::mem::replace(&mut one.material, material);
                let webhook_endpoint = self.endpoint_of(&open);
                *self.webhook_endpoint.lock().unwrap_or_else(PoisonError::into_inner) = webhook_endpoint;
                let written = self.write().await;
                let Some(one) = open.get_mut(at) else { break };
                if let Err(error) = written {
                    // Not served before every API server has its authority: the next check tries again.
                    one.material = before;
                    return Err(error.into());
                }
                one.tls.send_replace(config);
                tracing::info!(service = one.service, "webhooks have a new certificate");
            }
            let Some(one) = open.get(at) else { break };
            let left = one.material.renew_at.map(|at| at - jiff::Timestamp::now().as_second());
            sleep = sleep.min(match left {
                None => LOOK_AT_FILES,
                Some(left) => Duration::from_secs(u64::try_from(left).unwrap_or(0).max(1)),
            });
        }
        Ok(sleep)
    }
}

fn config(server: &Server, material: &KeyPair) -> Result<Arc<ServerConfig>, String> {
    let read = |path: &PathBuf| {
        let read = bounded_read::read_file(path, bounded_read::MAX_TEXT);
        read.map_err(|e| format!("webhooks: {}: {e}", path.display()))
    };
    let clients: Vec<Vec<u8>> = server.clients.iter().map(read).collect::<Result<_, _>>()?;
    server_tls::config(&material.chain, &material.key, &clients).map_err(|e| format!("webhooks: {e}"))
}

/// Renews certificates in time.
async fn renew(webhooks: Weak<Webhooks>) {
    let mut failures = 0;
    loop {
        let Some(webhooks) = webhooks.upgrade() else { return };
        let sleep = match webhooks.check_certificates().await {
            Ok(sleep) => {
                failures = 0;
                sleep
            }
            Err(error) => {
                failures += 1;
                tracing::error!("{error}");
                backoff::delay(failures)
            }
        };
        drop(webhooks);
        tokio::time::sleep(sleep).await;
    }
}
