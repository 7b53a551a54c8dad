//! The debug endpoint: a Unix socket, and optionally an address, that serves requests to the running operator.
//!
//! Owns the listeners and the parsing of requests. The front end answers them; responses are not logged, because values can be
//! secrets.

pub mod route;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::future::BoxFuture;
use percent_encoding::percent_decode_str;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

use super::listen::{self, Client, Limits};
use super::{State, body};

/// addon-operator's socket, the default of its command line.
pub const SOCKET: &str = "/var/run/addon-operator/debug.socket";

/// The maximal size of a form, in bytes.
const MAX_FORM: usize = 64 << 10;
/// Time limit of a response. A render sends requests to the API server.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit of a whole request.
const LIMITS: Limits = Limits {
    connections: 32,
    of_address: 32,
    handshakes: 32,
    handshake: Duration::from_secs(10),
    head: Duration::from_secs(10),
    request: Duration::from_secs(PATIENCE.as_secs() + 10),
    idle: Duration::from_secs(100),
};
/// The content type of forms.
const FORM: &str = "application/x-www-form-urlencoded";

/// A parsed request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whether it is a POST request, which changes something.
    pub post: bool,
    /// The decoded path, with its leading slash.
    pub path: String,
    /// Fields of the query and of the form.
    pub fields: BTreeMap<String, String>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Value of `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl Answer {
    /// Plain text.
    #[must_use]
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// Answers requests. The operator sets it once it runs.
pub type Handler = Arc<dyn Fn(Request) -> BoxFuture<'static, Answer> + Send + Sync>;

/// Listens on a socket that only this user can open. Replaces the socket of an earlier process.
///
/// # Errors
/// The path cannot be created or listened on, or is not a socket.
pub async fn serve_socket(
    path: &Path,
    state: Arc<State>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            if tokio::net::UnixStream::connect(path).await.is_ok() {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::AddrInUse,
                    "another process listens there",
                ));
            }
            std::fs::remove_file(path)?;
        }
        Ok(_) => {
            return Err(std::io::Error::new(
                std::io::ErrorKind::AlreadyExists,
                "a file that is not a socket is there",
            ));
        }
        Err(_) => {}
    }
    // Created under another name and then renamed, so that other users can never open it.
    let hidden = path.with_extension(format!("new-{}", std::process::id()));
    let listener = UnixListener::bind(&hidden)?;
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&hidden, path)?;
    let own = path.to_owned();
    let server = listen::serve(listener, None, routes(state), LIMITS, stop);
    Ok(tokio::spawn(async move {
        server.await;
        // Another process can have replaced it.
        drop(std::fs::remove_file(own));
    }))
}

/// Listens on an address. Returns the actual address.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve_address(
    address: SocketAddr,
    state: Arc<State>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<(SocketAddr, JoinHandle<()>)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((address, tokio::spawn(listen::serve(listener, None, routes(state), LIMITS, stop))))
}

fn routes(state: Arc<State>) -> Router {
    Router::new().fallback(answer).with_state(state)
}

async fn answer(extract::State(state): extract::State<Arc<State>>, request: extract::Request) -> Response {
    let answer = match read(&state, request).await {
        Ok(request) => match state.debug.get().cloned() {
            Some(handler) => tokio::time::timeout(PATIENCE, handler(request)).await.unwrap_or_else(|_| {
                Answer::text(504, format!("no answer within {} s\n", PATIENCE.as_secs()))
            }),
            None => Answer::text(503, waiting(&state)),
        },
        Err(answer) => answer,
    };
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, answer.content_type)], Body::from(answer.body)).into_response()
}

fn waiting(state: &State) -> String {
    match state.leader() {
        Some(leader) => format!("this process does not lead: {leader} does\n"),
        None => "the operator starts: ask again in a moment\n".to_owned(),
    }
}

/// Rejects requests that a browser can send for a web page: those with an Origin, or with a Host name of the page's choice (DNS
/// rebinding).
fn check_origin(headers: &HeaderMap, local: Option<SocketAddr>) -> Result<(), Answer> {
    if headers.contains_key(header::ORIGIN) {
        return Err(Answer::text(403, "requests of web pages are not answered\n"));
    }
    let Some(local) = local else { return Ok(()) };
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
    match is_own(host, local.ip()) {
        true => Ok(()),
        false => Err(Answer::text(403, "the Host header names neither localhost nor this address\n")),
    }
}

/// Whether a Host header is the connected address or loopback.
fn is_own(host: &str, local: IpAddr) -> bool {
    let name = match host.strip_prefix('[').and_then(|h| h.split_once(']')) {
        Some((name, rest)) if rest.is_empty() || rest.starts_with(':') => name,
        Some(_) => return false,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address.to_canonical() == local.to_canonical(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

async fn read(state: &State, request: extract::Request) -> Result<Request, Answer> {
    let (parts, body) = request.into_parts();
    let Some(client) = parts.extensions.get::<Client>() else {
        return Err(Answer::text(500, "the listener does not say who asks\n"));
    };
    check_origin(&parts.headers, client.local)?;
    let post = match parts.method {
        Method::GET => false,
        Method::POST => true,
        other => return Err(Answer::text(405, format!("{other} is not served here\n"))),
    };
    let path = percent_decode_str(parts.uri.path()).decode_utf8_lossy().into_owned();
    let mut fields = form(parts.uri.query().unwrap_or_default());
    if post {
        if !body::is_of_type(&parts.headers, FORM) {
            return Err(Answer::text(415, format!("send a form: Content-Type: {FORM}\n")));
        }
        let (bytes, _share) = body::read(body, client, MAX_FORM, &state.bodies)
            .await
            .map_err(|e| Answer::text(e.status().as_u16(), format!("{e}\n")))?;
        fields.extend(form(&String::from_utf8_lossy(&bytes)));
    }
    Ok(Request { post, path, fields })
}

/// Parses and decodes pairs `a=b&c`.
fn form(text: &str) -> BTreeMap<String, String> {
    let decoded = |part: &str| percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{form, is_own};

    #[test]
    fn hosts_that_are_this_one() {
        let local = "10.0.0.7".parse().unwrap();
        for host in
            ["localhost", "LocalHost:1", "127.0.0.1:9652", "127.9.9.9", "[::1]:1", "[::1]", "10.0.0.7:1"]
        {
            assert!(is_own(host, local), "{host}");
        }
        for host in
            ["", "evil.test", "localhost.evil.test", "10.0.0.8", "[::1]x", "[::2]", "127.0.0.1.evil.test"]
        {
            assert!(!is_own(host, local), "{host}");
        }
    }

    #[test]
    fn forms_are_decoded() {
        let read = form("name=log.level&value=a+b%26c&debug&=x");
        let pairs: Vec<(&str, &str)> = read.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("", "x"), ("debug", ""), ("name", "log.level"), ("value", "a b&c")]);
        assert!(form("").is_empty());
    }
}
