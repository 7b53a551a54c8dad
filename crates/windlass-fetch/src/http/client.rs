//! The HTTP client: TLS by the flags, proxies by the environment, redirects within one origin.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

use super::MAX_REDIRECTS;
use super::client_tls::{Tls, TlsError};
use crate::address_guard::NoLocalAddresses;
use windlass_base::redact::SecretText;

/// Time limit of one connection attempt.
const CONNECT: Duration = Duration::from_secs(30);

/// Why a redirect is not followed; Go's words.
#[derive(Debug, thiserror::Error)]
#[error("stopped after {MAX_REDIRECTS} redirects")]
pub(super) struct TooManyRedirects;

/// The HTTP proxy of a source.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Proxy {
    /// Its URL.
    pub address: String,
    /// User and password; never shown.
    pub login: Option<(String, SecretText)>,
}

impl Proxy {
    fn configure(&self) -> Result<reqwest::Proxy, TlsError> {
        let proxy = reqwest::Proxy::all(&self.address).map_err(TlsError::new)?;
        Ok(match &self.login {
            Some((user, password)) => proxy.basic_auth(user, password.expose()),
            None => proxy,
        })
    }
}

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
/// `no_local`: names of local addresses are not resolved.
pub(super) fn new(
    tls: Option<&Tls>,
    loopback: bool,
    no_local: bool,
    proxy: Option<&Proxy>,
) -> Result<Client, TlsError> {
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
    let builder = if no_local { builder.dns_resolver(Arc::new(NoLocalAddresses)) } else { builder };
    let builder = match proxy {
        Some(proxy) => builder.proxy(proxy.configure()?),
        None if loopback => builder.no_proxy(),
        None => builder,
    };
    builder.build().map_err(TlsError::new)
}
