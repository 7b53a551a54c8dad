//! HTTPS: a listener that speaks TLS, with a certificate that may change while it listens.
//!
//! Owns handshakes and the bounds of connections: how many there are, and how long one may be silent. Knows no requests.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Connections at once; more wait to be accepted.
const MAX_CONNECTIONS: usize = 256;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A connection on which nothing comes for so long is closed. Longer than an API server waits for any webhook.
const SILENCE: Duration = Duration::from_secs(120);

/// A certificate or key that a server cannot use.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the certificate: {0}")]
    Certificate(String),
    #[error("the private key: {0}")]
    Key(String),
    #[error("an authority of clients: {0}")]
    Client(String),
    #[error("certificate and private key: {0}")]
    Pair(rustls::Error),
}

/// What a server shows to its clients: a chain of certificates and its key, in PEM. With `clients`, PEM bundles of
/// authorities, only clients with a certificate of one of them are let in.
///
/// # Errors
/// A part cannot be read, or they do not belong together.
pub fn config(chain: &[u8], key: &[u8], clients: &[Vec<u8>]) -> Result<Arc<ServerConfig>, TlsError> {
    let certificates = |pem: &[u8]| -> Result<Vec<CertificateDer<'static>>, String> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let all = all.map_err(|e| e.to_string())?;
        if all.is_empty() { Err("there is none in it".to_owned()) } else { Ok(all) }
    };
    let chain = certificates(chain).map_err(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| TlsError::Key(e.to_string()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)?;
    let builder = if clients.is_empty() {
        builder.with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        for pem in clients {
            for certificate in certificates(pem).map_err(TlsError::Client)? {
                roots.add(certificate).map_err(|e| TlsError::Client(e.to_string()))?;
            }
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        builder.with_client_cert_verifier(verifier.map_err(|e| TlsError::Client(e.to_string()))?)
    };
    builder.with_single_cert(chain, key).map(Arc::new).map_err(TlsError::Pair)
}

/// Listens, and shakes hands beside what it has already let in.
pub struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<(Connection, SocketAddr)>,
    /// It ends with the listener.
    accepting: AbortHandle,
}

impl TlsListener {
    /// Listens on an address; each connection gets the newest of `config`.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn bind(address: SocketAddr, config: watch::Receiver<Arc<ServerConfig>>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (sender, ready) = mpsc::channel(1);
        let accepting = tokio::spawn(accept(listener, config, sender)).abort_handle();
        Ok(Self { address, ready, accepting })
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The task that accepts ends with the process.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn accept(
    listener: TcpListener,
    config: watch::Receiver<Arc<ServerConfig>>,
    ready: mpsc::Sender<(Connection, SocketAddr)>,
) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Mostly too many open files: it passes.
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let acceptor = TlsAcceptor::from(Arc::clone(&config.borrow()));
        let ready = ready.clone();
        tokio::spawn(async move {
            match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                // Nobody listens any more when the server stops.
                Ok(Ok(stream)) => drop(ready.send((Connection::new(stream, permit), peer)).await),
                Ok(Err(error)) => tracing::warn!(%peer, "no TLS connection: {error}"),
                Err(_) => tracing::warn!(%peer, "no TLS connection: the handshake took too long"),
            }
        });
    }
}

/// A connection that ends when nothing comes for too long.
pub struct Connection {
    stream: TlsStream<TcpStream>,
    silence: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    fn new(stream: TlsStream<TcpStream>, permit: OwnedSemaphorePermit) -> Self {
        Self { stream, silence: Box::pin(tokio::time::sleep(SILENCE)), _permit: permit }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.silence.as_mut().reset(Instant::now() + SILENCE);
            return read;
        }
        ready!(self.silence.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
