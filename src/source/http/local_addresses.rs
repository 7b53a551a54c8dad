//! Addresses of this machine and of its cloud's metadata service, which nobody may reach through a URL of a tenant.
//!
//! Addresses of the cluster's network are no such ones: charts come from services there, too.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::source::location::Location;

/// Metadata service of AWS over IPv6.
const AWS_METADATA: [u16; 8] = [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254];
/// Metadata services of Alibaba Cloud and Azure's wire server, whose addresses are not link-local.
const METADATA: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];

/// Whether an address is of this machine, its link or its cloud's metadata service.
pub fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => {
            ip.is_loopback()
                || ip.is_link_local()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip.is_broadcast()
                || METADATA.contains(&ip)
        }
        IpAddr::V6(ip) => {
            ip.is_loopback()
                || ip.is_unicast_link_local()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip.segments() == AWS_METADATA
        }
    }
}

/// Whether the host of a URL resolves to a local address. git resolves it again: a server that changes its answer in between can
/// mislead it, but without credentials and by HTTP or ssh only.
pub async fn names_local_address(url: &Location) -> bool {
    let host = url.hostname().trim_matches(['[', ']']).to_owned();
    let found = tokio::net::lookup_host((host.as_str(), 0)).await;
    found.is_ok_and(|mut all| all.any(|address| is_local(address.ip())))
}

/// Why a name or an address is refused.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} is an address of this machine or of its cloud, where sources may not be (--allow-local-sources permits it)"
)]
pub(super) struct LocalAddress(pub(super) String);

/// Resolves names to addresses that are not local.
pub(super) struct NoLocalAddresses;

impl Resolve for NoLocalAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let name = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if let Some(local) = found.iter().find(|address| is_local(address.ip())) {
                return Err(LocalAddress(format!("{name} ({})", local.ip())).into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_known_in_all_their_forms() {
        for (text, local) in [
            ("127.0.0.1", true),
            ("127.1.2.3", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", true),
            ("169.254.169.254", true),
            ("::ffff:169.254.169.254", true),
            ("fe80::1", true),
            ("fd00:ec2::254", true),
            ("100.100.100.200", true),
            ("10.0.0.1", false),
            ("192.168.1.1", false),
            ("fd00::1", false),
            ("1.1.1.1", false),
        ] {
            assert_eq!(is_local(text.parse().unwrap()), local, "{text}");
        }
    }
}
