//! HTTP errors, in Helm's (Go's) words where it has some.

use std::error::Error as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use http::{Method, StatusCode};
use rustls::{CertificateError, InvalidMessage};

use windlass_base::bounded_read;
use windlass_base::causes::{chain, of_type};

use super::super::location::Location;
use super::client::TooManyRedirects;
use super::client_tls::TlsError;
use super::status_text;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The server answered with an error status.
    #[error("failed to fetch {url} : {}", status_text(*.status))]
    Status {
        /// The URL.
        url: String,
        /// The status.
        status: StatusCode,
    },
    /// There was no complete answer.
    #[error("{method} \"{url}\": {reason}")]
    Failed {
        /// The method as Go writes it in errors: `Get`.
        method: String,
        /// The URL.
        url: String,
        /// Why, for people.
        reason: String,
        /// Why, for callers.
        kind: FailureKind,
    },
    /// Offline mode.
    #[error("{url} is not in the cache, and offline mode forbids fetching it")]
    Offline {
        /// The URL.
        url: String,
    },
}

/// What kept a request from a complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The address cannot be used, or is not allowed.
    Address,
    /// There is no connection: the name is unknown, or nobody answers there.
    Connect,
    /// A certificate is not trusted, or TLS cannot be set up as the flags say.
    Tls,
    /// The answer was not complete in time.
    Timeout,
    /// A redirect is not followed.
    Redirect,
    /// The answer is larger than allowed.
    TooLarge,
    /// The answer is not HTTP, or ends early.
    Answer,
    /// The answer cannot be written to where the caller wants it.
    Write,
    /// This process has no memory for the answer.
    Memory,
}

/// The reason, before it is formatted.
pub(super) enum Reason {
    Offline,
    TooManyRedirects,
    Scheme(String),
    Downgrade(Location),
    Leak(Location),
    Elsewhere(Location),
    Timeout(Duration),
    Slow,
    NoMemory,
    TooLarge(u64),
    Tls(TlsError),
    Transport(reqwest::Error),
    Body(reqwest::Error),
    Other(FailureKind, String),
}

impl HttpError {
    pub(super) fn new(method: &Method, location: &Location, reason: Reason) -> Self {
        let url = location.to_string();
        let (kind, reason) = match reason {
            Reason::Offline => return Self::Offline { url },
            Reason::TooManyRedirects => (FailureKind::Redirect, TooManyRedirects.to_string()),
            Reason::Scheme(scheme) => {
                (FailureKind::Address, format!("unsupported protocol scheme {scheme:?}"))
            }
            Reason::Downgrade(next) => {
                (FailureKind::Redirect, format!("the redirect to {next} would give up TLS"))
            }
            Reason::Leak(next) => (
                FailureKind::Redirect,
                format!("the redirect to {next} would take credentials to another server"),
            ),
            Reason::Elsewhere(next) => (
                FailureKind::Redirect,
                format!("the redirect to {next} leads to another server, and only this one may be asked"),
            ),
            Reason::Timeout(after) => (
                FailureKind::Timeout,
                format!("context deadline exceeded (no answer within {} seconds)", after.as_secs_f32()),
            ),
            Reason::Slow => (FailureKind::Timeout, "context deadline exceeded while reading body".to_owned()),
            Reason::NoMemory => (
                FailureKind::Memory,
                "no memory for a large answer became free in time: other large downloads have it; give this process more memory if that \
                 happens often"
                    .to_owned(),
            ),
            Reason::TooLarge(limit) => {
                (FailureKind::TooLarge, format!("the answer is larger than {limit} bytes"))
            }
            Reason::Tls(e) => (FailureKind::Tls, e.to_string()),
            Reason::Transport(e) => transport(&e, location),
            // What hyper tells apart in texts alone.
            Reason::Body(e) => match causes(&e) {
                text if text.contains("end of file") || text.contains("closed before message") => {
                    (FailureKind::Answer, "unexpected EOF".to_owned())
                }
                text => (FailureKind::Answer, text),
            },
            Reason::Other(kind, text) => (kind, text),
        };
        let method = method.as_str();
        let method = format!("{}{}", &method[..1], method[1..].to_ascii_lowercase());
        Self::Failed { method, url, reason, kind }
    }

    /// Whether the server refuses the credentials, or TLS with them.
    #[must_use]
    pub fn is_access_denied(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                matches!(*status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
            }
            Self::Failed { kind, .. } => *kind == FailureKind::Tls,
            Self::Offline { .. } => false,
        }
    }

    /// Whether the server answered that it does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { status: StatusCode::NOT_FOUND, .. })
    }
}

/// The causes of an error of reqwest, whose own text only names the URL.
fn causes(e: &reqwest::Error) -> String {
    e.source().map_or_else(|| e.to_string(), chain)
}

/// Why there was no answer; in Go's texts, which scripts match.
fn transport(e: &reqwest::Error, url: &Location) -> (FailureKind, String) {
    let text = causes(e);
    // What hyper and its connector tell apart in texts alone.
    if text.contains("dns error") {
        return (FailureKind::Connect, unknown_host(&text, url.hostname()));
    }
    // The address that refused the connection is unknown for a host name.
    if of_type::<io::Error>(e).any(|e| e.kind() == io::ErrorKind::ConnectionRefused)
        && let Some(address) = url.address()
    {
        return (FailureKind::Connect, format!("dial tcp {address}: connect: connection refused"));
    }
    match of_type::<rustls::Error>(e).next() {
        Some(rustls::Error::InvalidCertificate(invalid)) => {
            if let Some(why) = invalid_certificate(invalid, &text) {
                return (FailureKind::Tls, format!("tls: failed to verify certificate: x509: {why}"));
            }
        }
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            return (FailureKind::Answer, "http: server gave HTTP response to HTTPS client".to_owned());
        }
        _ => {}
    }
    if text.contains("connection closed before message completed") {
        let text = "EOF (the connection was closed without a whole answer)";
        return (FailureKind::Answer, text.to_owned());
    }
    let kind = match e {
        e if e.is_connect() => FailureKind::Connect,
        e if e.is_timeout() => FailureKind::Timeout,
        e if e.is_redirect() => FailureKind::Redirect,
        _ => FailureKind::Answer,
    };
    (kind, text.strip_prefix("client error (Connect): ").unwrap_or(&text).to_owned())
}

/// Why a certificate is refused, in Go's words where it has some.
fn invalid_certificate(error: &CertificateError, text: &str) -> Option<String> {
    match error {
        CertificateError::UnknownIssuer => Some("certificate signed by unknown authority".to_owned()),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Some(format!("certificate has expired or is not yet valid: {text}"))
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Some(text.to_owned())
        }
        _ => None,
    }
}

/// An unresolved name in the words of Go's resolver (`net.DNSError`).
fn unknown_host(text: &str, host: &str) -> String {
    let servers =
        bounded_read::read_text("/etc/resolv.conf".as_ref(), bounded_read::MAX_TEXT).unwrap_or_default();
    let mut servers = servers.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        words.next().filter(|word| *word == "nameserver").and_then(|_| words.next()?.parse::<IpAddr>().ok())
    });
    let server = SocketAddr::new(servers.next().unwrap_or(Ipv4Addr::LOCALHOST.into()), 53);
    // The texts of glibc and musl for a failing name server.
    let lost = text.contains("Temporary failure") || text.contains("Try again");
    let why = if lost { "server misbehaving" } else { "no such host" };
    format!("dial tcp: lookup {host} on {server}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_denied_by_the_answer_and_not_by_a_name() {
        let status = |path: &str, status: u16| HttpError::Status {
            url: format!("https://charts.example.test/{path}"),
            status: StatusCode::from_u16(status).unwrap(),
        };
        let failed = |path: &str, kind| HttpError::Failed {
            method: "Get".to_owned(),
            url: format!("https://charts.example.test/{path}"),
            reason: "EOF".to_owned(),
            kind,
        };
        for (error, expected) in [
            (status("a.tgz", 401), true),
            (status("a.tgz", 403), true),
            (status("mutual-tls-401.tgz", 404), false),
            (status("access-denied.tgz", 500), false),
            (failed("a.tgz", FailureKind::Tls), true),
            (failed("x509-unauthorized.tgz", FailureKind::Answer), false),
        ] {
            assert_eq!(error.is_access_denied(), expected, "{error}");
        }
    }
}
