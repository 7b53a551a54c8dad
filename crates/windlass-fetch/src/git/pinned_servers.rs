//! The addresses that git may connect to: those that were checked, and not what a name resolves to a moment later.
//!
//! Owns the settings of git, curl and ssh for that. Which addresses are refused is the guard's.

use std::net::IpAddr;

use crate::address_guard::{AddressError, Server};

/// Servers with the addresses of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PinnedServers {
    /// `HOST:PORT:ADDRESS,…` for curl.
    curl: Vec<String>,
    /// A configuration of ssh.
    ssh: String,
}

impl PinnedServers {
    /// Resolves the servers of URLs. `proxy`: what connects to those of http.
    ///
    /// # Errors
    /// One is of this machine or of its cloud, or cannot be resolved.
    pub(super) async fn resolve(urls: &[&str], proxy: Option<&str>) -> Result<Self, AddressError> {
        let mut all = Self::default();
        if let Some(proxy) = proxy {
            let proxy = Server::of_url(proxy)?;
            all.pin(&proxy, &proxy.addresses().await?);
        }
        for url in urls {
            let server = Server::of_url(url)?;
            let is_http = server.scheme.starts_with("http");
            if proxy.is_some() && is_http {
                server.check_text()?;
                continue;
            }
            match server.addresses().await {
                Ok(addresses) => all.pin(&server, &addresses),
                // The proxy of the environment resolves it.
                Err(AddressError::Unresolved(..)) if is_http && has_proxy(&server.scheme) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    fn pin(&mut self, server: &Server, addresses: &[IpAddr]) {
        let Server { host, port, scheme } = server;
        let (None, Some(first)) = (server.address(), addresses.first()) else { return };
        if scheme == "ssh" {
            // The name that a key is known by has the port, unless that is the usual one.
            let alias = if *port == 22 { host.clone() } else { format!("[{host}]:{port}") };
            self.ssh.push_str(&format!("Host {host}\n  HostName {first}\n  HostKeyAlias {alias}\n"));
            return;
        }
        let shown = |address: &IpAddr| match address {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let addresses: Vec<String> = addresses.iter().map(shown).collect();
        self.curl.push(format!("{host}:{port}:{}", addresses.join(",")));
    }

    /// Values of git's `http.curloptResolve`.
    pub(super) fn curl(&self) -> &[String] {
        &self.curl
    }

    /// The configuration of ssh; empty without one.
    pub(super) fn ssh(&self) -> &str {
        &self.ssh
    }
}

/// Whether the environment names a proxy for a scheme, as curl reads it.
fn has_proxy(scheme: &str) -> bool {
    let names = match scheme {
        // In upper case a web server sets it from a request.
        "http" => &["http_proxy", "all_proxy", "ALL_PROXY"][..],
        _ => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"][..],
    };
    names.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_pinned_to_the_addresses_that_were_checked() {
        let addresses: [IpAddr; 2] = ["10.1.2.3".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        let mut all = PinnedServers::default();
        for url in [
            "https://h.example/r",
            "http://h.example:8080/r",
            "https://10.9.9.9/r",
            "ssh://git@g/r",
            "ssh://k:2222/r",
        ] {
            all.pin(&Server::of_url(url).unwrap(), &addresses);
        }
        assert_eq!(
            all.curl(),
            ["h.example:443:10.1.2.3,[2001:db8::1]", "h.example:8080:10.1.2.3,[2001:db8::1]"]
        );
        assert_eq!(
            all.ssh(),
            "Host g\n  HostName 10.1.2.3\n  HostKeyAlias g\nHost k\n  HostName 10.1.2.3\n  HostKeyAlias [k]:2222\n"
        );
    }

    #[tokio::test]
    async fn no_server_is_local() {
        for (urls, proxy) in [
            (&["https://10.1.2.3/r", "https://127.0.0.1/r"][..], None),
            (&["ssh://git@localhost/r"][..], None),
            (&["https://10.1.2.3/r"][..], Some("http://127.0.0.1:8080")),
            (&["https://10.1.2.3/r"][..], Some("169.254.169.254:80")),
            (&["https://127.0.0.1/r"][..], Some("http://10.1.2.3:8080")),
            (&["ssh://git@127.0.0.1/r"][..], Some("http://10.1.2.3:8080")),
        ] {
            assert!(PinnedServers::resolve(urls, proxy).await.is_err(), "{urls:?} {proxy:?}");
        }
        let found = PinnedServers::resolve(&["https://10.1.2.3/r"], Some("http://10.1.2.4")).await.unwrap();
        assert_eq!(found, PinnedServers::default());
    }
}
