//! The accept loop of all listeners: limits on connections, on the size of request heads, and on time.
//!
//! Owns connections from accept to close: which are accepted, which are closed to make room, and the deadlines of handshakes,
//! heads and whole requests. A deadline starts with its phase, so a client that sends one byte a second gains nothing. The router
//! owns requests and their paths.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::shares::{Shares, Stage};
use windlass_base::redact;

/// The maximal size of a request head, in bytes; also the read-ahead of a body.
const MAX_HEAD: usize = 32 << 10;

/// Limits of one listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent connections.
    pub connections: usize,
    /// Concurrent connections of one address.
    pub of_address: usize,
    /// Concurrent connections in the TLS handshake.
    pub handshakes: usize,
    /// Time limit of a handshake.
    pub handshake: Duration,
    /// Time limit of the head of a request.
    pub head: Duration,
    /// Time limit of a request, from its head to its response.
    pub request: Duration,
    /// Time limit of idle connections, and of reading a response.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            of_address: 32,
            handshakes: 64,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            request: Duration::from_secs(30),
            idle: Duration::from_secs(100),
        }
    }
}

/// The sender of a request, an extension of each request.
#[derive(Clone)]
pub struct Client {
    /// The address of the client; unspecified for a unix socket.
    pub address: IpAddr,
    /// The local address of the connection; `None` for a unix socket.
    pub local: Option<SocketAddr>,
    connection: Arc<Connection>,
}

impl Client {
    /// Marks the request as complete. While it is processed, its connection is among the last to be closed to make room.
    pub fn received(&self) {
        self.connection.stage(Stage::Serving);
    }
}

/// The remote and local address of a connection, if it has addresses.
pub type Addresses = Option<(IpAddr, SocketAddr)>;

/// A source of connections.
pub trait Listen: Send + 'static {
    /// A connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// The next connection.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Io, Addresses)>> + Send;
}

impl Listen for TcpListener {
    type Io = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Addresses)> {
        let (stream, peer) = self.accept().await?;
        let local = stream.local_addr()?;
        Ok((stream, Some((peer.ip().to_canonical(), local))))
    }
}

impl Listen for UnixListener {
    type Io = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Addresses)> {
        Ok((self.accept().await?.0, None))
    }
}

/// The connections of a listener, with the tasks that serve them.
#[derive(Default)]
struct Table {
    shares: Shares,
    tasks: HashMap<u64, AbortHandle>,
}

/// One connection's slot, freed on drop.
struct Connection {
    number: u64,
    table: Arc<Mutex<Table>>,
    limits: Limits,
    deadline: watch::Sender<Instant>,
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    fn stage(&self, stage: Stage) {
        lock(&self.table).shares.set_stage(self.number, stage);
    }

    fn enter(&self, stage: Stage, time: Duration) {
        self.stage(stage);
        self.deadline.send_replace(Instant::now() + time);
    }

    /// Handles received data: after an idle period it starts the next head.
    fn read(&self) {
        let idle = lock(&self.table).shares.stage(self.number) == Some(Stage::Idle);
        if idle {
            self.enter(Stage::Receiving, self.limits.head);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        table.shares.remove(self.number);
        table.tasks.remove(&self.number);
    }
}

/// Admits a connection, and closes another one if necessary. `None` if there is no slot and none may be closed for it.
fn admit(
    table: &Arc<Mutex<Table>>,
    limits: Limits,
    address: IpAddr,
    stage: Stage,
) -> Option<Arc<Connection>> {
    let now = Instant::now();
    let mut locked = lock(table);
    let shares = &locked.shares;
    let victim = if shares.of_address(address) >= limits.of_address {
        Some(shares.victim(now.into_std(), Stage::Idle, Some(address))?)
    } else if shares.total() >= limits.connections {
        Some(shares.victim(now.into_std(), Stage::Serving, None)?)
    } else if stage == Stage::Handshake && shares.in_stage(stage) >= limits.handshakes {
        Some(shares.victim(now.into_std(), Stage::Handshake, None)?)
    } else {
        None
    };
    // The slot of the closed connection is free at once; its task ends a little later.
    let task = victim.and_then(|number| {
        locked.shares.remove(number);
        locked.tasks.remove(&number)
    });
    let number = locked.shares.add(address, stage, 1, now.into_std());
    drop(locked);
    if let Some(task) = task {
        task.abort();
    }
    let time = if stage == Stage::Handshake { limits.handshake } else { limits.head };
    let (deadline, _) = watch::channel(now + time);
    Some(Arc::new(Connection { number, table: Arc::clone(table), limits, deadline }))
}

/// Serves a router until `stop` resolves, then finishes running requests. With `tls`, each connection uses TLS with the newest
/// configuration.
pub async fn serve<L: Listen>(
    listener: L,
    tls: Option<watch::Receiver<Arc<ServerConfig>>>,
    routes: Router,
    limits: Limits,
    stop: impl Future<Output = ()> + Send,
) {
    let table = Arc::new(Mutex::new(Table::default()));
    let (stopping, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            // Only removes finished tasks: connections have logged their errors.
            Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
            accepted = listener.next() => accepted,
        };
        let (stream, addresses) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Usually too many open files, a temporary error.
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let address = addresses.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |(peer, _)| peer);
        let stage = if tls.is_some() { Stage::Handshake } else { Stage::Receiving };
        let Some(connection) = admit(&table, limits, address, stage) else {
            tracing::debug!(%address, "a connection is closed: its address has too many");
            continue;
        };
        let number = connection.number;
        let client = Client { address, local: addresses.map(|(_, local)| local), connection };
        let acceptor = tls.as_ref().map(|config| TlsAcceptor::from(Arc::clone(&config.borrow())));
        // In the scope of the server: the operator's own, or none.
        let work = redact::in_scope(one(stream, acceptor, client, routes.clone(), stopped.clone()));
        let task = tasks.spawn(work);
        let mut locked = lock(&table);
        if locked.shares.has(number) {
            locked.tasks.insert(number, task);
        }
    }
    drop(listener);
    stopping.send_replace(true);
    while tasks.join_next().await.is_some() {}
}

/// Serves one connection, from its handshake to its end.
async fn one<S>(
    stream: S,
    acceptor: Option<TlsAcceptor>,
    client: Client,
    routes: Router,
    stopped: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (address, connection) = (client.address, Arc::clone(&client.connection));
    let deadline = past(connection.deadline.subscribe());
    let work = async {
        let Some(acceptor) = acceptor else { return requests(stream, client, routes, stopped).await };
        match acceptor.accept(stream).await {
            Ok(stream) => {
                client.connection.enter(Stage::Receiving, client.connection.limits.head);
                requests(stream, client, routes, stopped).await;
            }
            Err(error) => tracing::debug!(%address, "no TLS connection: {error}"),
        }
    };
    tokio::select! {
        () = work => {}
        () = deadline => tracing::debug!(%address, "a connection is closed: it took too long"),
    }
}

/// Resolves when the current deadline has passed.
async fn past(mut deadline: watch::Receiver<Instant>) {
    loop {
        let at = *deadline.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep_until(at) => return,
            changed = deadline.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

async fn requests<S>(stream: S, client: Client, routes: Router, mut stopped: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = Arc::clone(&client.connection);
    let io = TokioIo::new(Watched { stream, connection: Arc::clone(&connection) });
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let (connection, routes) = (Arc::clone(&connection), routes.clone());
        connection.enter(Stage::Receiving, connection.limits.request);
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(client.clone());
        async move {
            let answer = routes.oneshot(request).await;
            connection.enter(Stage::Idle, connection.limits.idle);
            answer
        }
    });
    let mut builder = http1::Builder::new();
    // Our deadlines replace the builder's timeout, which would include idle time.
    builder.header_read_timeout(None).max_buf_size(MAX_HEAD);
    let mut serving = std::pin::pin!(builder.serve_connection(io, service));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = async { drop(stopped.wait_for(|stopped| *stopped).await) } => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

/// A stream that detects the start of the next request.
struct Watched<S> {
    stream: S,
    connection: Arc<Connection>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        if buffer.filled().len() > before {
            self.connection.read();
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
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
