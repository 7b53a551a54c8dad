//! The HTTP client: TLS by the flags, proxies by the environment, redirects within one origin.

use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

use super::MAX_REDIRECTS;
use super::client_tls::{Tls, TlsError};

/// Time limit of one connection attempt.
const CONNECT: Duration = Duration::from_secs(30);

/// Why a redirect is not followed; Go's words.
#[derive(Debug, thiserror::Error)]
#[error("stopped after {MAX_REDIRECTS} redirects")]
pub(super) struct TooManyRedirects;

/// Follows redirects within an origin. Returns a redirect to another origin as the response: the caller sends a new
/// request to it.
fn policy() -> Policy {
    Policy::custom(|attempt| {
        let same = attempt.previous().last().is_some_and(|last| last.origin() == attempt.url().origin());
        if !same {
            attempt.stop()
        } else if attempt.previous().len() >= MAX_REDIRECTS {
            attempt.error(TooManyRedirects)
        } else {
            attempt.follow()
        }
    })
}

/// A client; without `tls` for plain HTTP only. `loopback`: the server is this machine, so that no proxy is used.
pub(super) fn new(tls: Option<&Tls>, loopback: bool) -> Result<Client, TlsError> {
    let builder = Client::builder()
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .redirect(policy())
        .referer(false)
        .connect_timeout(CONNECT);
    let builder = match tls {
        Some(tls) => tls.configure(builder)?,
        // Reading the system's certificates takes time.
        None => builder.tls_certs_only([]),
    };
    let builder = if loopback { builder.no_proxy() } else { builder };
    builder.build().map_err(TlsError::new)
}
