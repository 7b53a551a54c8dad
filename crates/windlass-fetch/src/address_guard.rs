//! Which servers a tenant's URL may lead to: none of this machine, its link, or its cloud's metadata service.
//!
//! Owns the one reading of a URL's host, which refuses what another parser could read as another host, and the addresses that may be
//! connected to. Who connects, connects to those: the HTTP client by its resolver, git by a list of addresses. Addresses of the cluster's
//! network are not refused: charts come from services there, too.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::location::without_secrets;
use windlass_base::local_address::{NotConnected, is_local, resolve};

/// Why a server is not connected to.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is this machine or one of its cloud.
    #[error(
        "{0} is an address of this machine or of its cloud, where sources may not be (--allow-local-sources permits it)"
    )]
    Local(String),
    /// Another parser could read another host.
    #[error(
        "{0:?} is not a plain URL: its host must be a name of letters, digits, dots, dashes and underscores, or an IP address in its \
         usual form, without escapes"
    )]
    NotPlain(String),
    /// The name has no addresses.
    #[error("the name {0} cannot be resolved: {1}")]
    Unresolved(String, std::io::Error),
}

impl From<NotConnected> for AddressError {
    fn from(why: NotConnected) -> Self {
        match why {
            NotConnected::Local(name) => Self::Local(name),
            NotConnected::Unresolved(name, error) => Self::Unresolved(name, error),
        }
    }
}

/// The server of a URL, as every parser reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The scheme, in lower case.
    pub scheme: String,
    /// A name in lower case, or an address; one of IPv6 in brackets.
    pub host: String,
    /// The port, or that of the scheme.
    pub port: u16,
}

impl Server {
    /// The server of a URL of http, https or ssh, or of a proxy.
    ///
    /// # Errors
    /// It is none, or could be read as one of another server.
    pub fn of_url(text: &str) -> Result<Self, AddressError> {
        let shown = || without_secrets(text).rsplit('@').next().unwrap_or_default().to_owned();
        Self::read(text).ok_or_else(|| AddressError::NotPlain(shown()))
    }

    fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let default = match scheme.as_str() {
            "http" => 80,
            "https" => 443,
            "ssh" => 22,
            "socks4" | "socks4a" | "socks5" | "socks5h" => 1080,
            _ => return None,
        };
        // Some parsers end the host at these, and others do not.
        let authority = &rest[..rest.find('/').unwrap_or(rest.len())];
        if authority.contains(['?', '#', '\\']) || !authority.chars().all(|c| c.is_ascii_graphic()) {
            return None;
        }
        let host = match authority.split_once('@') {
            Some((_, host)) if host.contains('@') => return None,
            Some((_, host)) => host,
            None => authority,
        };
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port.parse::<u16>().ok()?)),
            _ => (host, None),
        };
        // ssh compares the host of an address with that of its configuration by case, and would resolve another one again.
        if scheme == "ssh" && name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let name = name.to_ascii_lowercase();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_plain = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => !name.starts_with(['-', '.']) && name.chars().all(plain),
        };
        if !is_plain || name.is_empty() {
            return None;
        }
        // Forms of IPv4 such as 127.1 are another text after they were read.
        let url = reqwest::Url::parse(&format!("http://{}/", host.to_ascii_lowercase())).ok()?;
        let is_same = name.starts_with('[') || url.host_str() == Some(&name);
        is_same.then(|| Self { scheme, host: name, port: port.unwrap_or(default) })
    }

    /// The address, if the host is one.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.host.trim_matches(['[', ']']).parse().ok()
    }

    /// Checks the host as far as its text tells: for servers that a proxy connects to.
    ///
    /// # Errors
    /// It is a local address, or a name of this machine.
    pub fn check_text(&self) -> Result<(), AddressError> {
        let name = self.host.trim_end_matches('.');
        if name == "localhost" || name.ends_with(".localhost") || self.address().is_some_and(is_local) {
            return Err(AddressError::Local(self.host.clone()));
        }
        Ok(())
    }

    /// The addresses that may be connected to.
    ///
    /// # Errors
    /// One of them is local, or there is none.
    pub async fn addresses(&self) -> Result<Vec<IpAddr>, AddressError> {
        self.check_text()?;
        match self.address() {
            Some(address) => Ok(vec![address]),
            None => Ok(resolve(&self.host).await?),
        }
    }
}

/// Resolves names to addresses that are not local.
pub(super) struct NoLocalAddresses;

impl Resolve for NoLocalAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = resolve(name.as_str()).await.map_err(AddressError::from)?;
            Ok(Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each URL the server that it names, or how it is refused.
    #[tokio::test]
    async fn a_url_leads_to_one_server_and_to_none_of_this_machine() {
        let plain = "not a plain URL";
        let local = "an address of this machine or of its cloud";
        for (url, told) in [
            ("https://10.1.2.3/r", "https 10.1.2.3 443"),
            ("HTTP://10.1.2.3:8080/r?a@b#c", "http 10.1.2.3 8080"),
            ("ssh://git@10.1.2.3/r", "ssh 10.1.2.3 22"),
            ("ssh://u:p@10.1.2.3:2222/r", "ssh 10.1.2.3 2222"),
            ("https://[2606:4700::1111]/", "https [2606:4700::1111] 443"),
            ("socks5://10.1.2.3", "socks5 10.1.2.3 1080"),
            // Local ones.
            ("https://127.0.0.1/r", local),
            ("http://localhost:80/r", local),
            ("http://LOCALHOST./r", local),
            ("http://a.localhost/r", local),
            ("http://[::1]/r", local),
            ("http://[::ffff:a9fe:a9fe]/r", local),
            ("http://169.254.169.254/latest", local),
            ("http://[fd00:ec2::23]/", local),
            ("http://u@127.0.0.1/r", local),
            // Hosts that are not ASCII when they were read.
            ("http://X%fa/r", plain),
            ("http://%58%c3%a9/r", plain),
            ("http://X\u{e9}/r", plain),
            ("http://10.1.2.3:+80/r", plain),
            // What parsers read in different ways.
            ("http://127.0.0.%31/r", plain),
            ("http://localhos%74/r", plain),
            ("http://127.1/r", plain),
            ("http://2130706433/r", plain),
            ("http://0x7f.0.0.1/r", plain),
            ("http://0177.0.0.1/r", plain),
            ("http://127.0.0.1./r", plain),
            ("ssh://evil?x@127.0.0.1/r", plain),
            ("ssh://evil#@127.0.0.1/r", plain),
            ("ssh://git@EVIL.example/r", plain),
            ("ssh://evil\\@127.0.0.1/r", plain),
            ("ssh://a@b@127.0.0.1/r", plain),
            ("ssh://-oProxyCommand=x/r", plain),
            ("http://①.0.0.1/r", plain),
            ("http://10.1.2.3:x/r", plain),
            ("http://10.1.2.3:99999/r", plain),
            ("http://[::1%25lo]/r", plain),
            ("http://[::1/r", plain),
            ("http:///r", plain),
            ("http://@/r", plain),
            ("169.254.169.254:80", plain),
            ("git@127.0.0.1:r", plain),
            ("file:///etc", plain),
            ("ext::sh -c x", plain),
            // It counts as local until its addresses are known.
            ("http://does-not-exist.invalid/r", "cannot be resolved"),
        ] {
            let found = match Server::of_url(url) {
                Ok(server) => server.addresses().await.map(|_| server),
                Err(error) => Err(error),
            };
            let found = match found {
                Ok(Server { scheme, host, port }) => format!("{scheme} {host} {port}"),
                Err(error) => error.to_string(),
            };
            assert!(found.contains(told), "{url}: {found}");
        }
    }
}
