//! Addresses where no server of a tenant may be: this machine, its link, or its cloud's metadata service.
//!
//! Owns which those are, and the resolution of a name to others. Who connects, connects to what was resolved. Addresses of the cluster's
//! network are not refused: charts come from services there, too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata services of Alibaba Cloud, Oracle Cloud and Azure's wire server, whose addresses are not link-local.
const METADATA: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];
/// Metadata services of AWS (`fd00:ec2::254`, `fd00:ec2::23`) and Google Cloud (`fd20:ce::254`): each has a network of its own.
const METADATA_NETWORKS: [[u16; 2]; 2] = [[0xfd00, 0xec2], [0xfd20, 0xce]];

/// Why a name is not connected to.
#[derive(Debug, thiserror::Error)]
pub enum NotConnected {
    /// The name, and its address that is local.
    #[error("{0} is an address of this machine or of its cloud")]
    Local(String),
    /// The name has no addresses.
    #[error("the name {0} cannot be resolved: {1}")]
    Unresolved(String, std::io::Error),
}

/// Whether an address is of this machine, its link or its cloud's metadata service.
#[must_use]
pub fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => {
            ip.is_loopback()
                || ip.is_link_local()
                // `this network`, whose first address is this machine.
                || ip.octets()[0] == 0
                || ip.is_multicast()
                || ip.is_broadcast()
                || METADATA.contains(&ip)
        }
        IpAddr::V6(ip) => {
            let parts = ip.segments();
            ip.is_loopback()
                || ip.is_unicast_link_local()
                || ip.is_unspecified()
                || ip.is_multicast()
                || METADATA_NETWORKS.iter().any(|network| parts.starts_with(network))
                || embedded(ip).into_iter().flatten().any(|ip| is_local(ip.into()))
        }
    }
}

/// The IPv4 addresses that a gateway could send packets of an IPv6 address to: of NAT64 with its usual prefix, and with the other one in
/// both its layouts (RFC 6052), of 6to4, of translation (RFC 2765), and of the form that IPv4-mapped addresses replaced.
fn embedded(ip: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match ip.segments() {
        [0x64, 0xff9b, 1, first, second, third, high, low] => {
            [v4(first, (second << 8) | (third >> 8)), v4(high, low)]
        }
        [0x64, 0xff9b, 0, _, _, _, high, low]
        | [0, 0, 0, 0, 0 | 0xffff, 0, high, low]
        | [0x2002, high, low, ..] => [v4(high, low), None],
        _ => [None, None],
    }
}

/// The addresses of a name, none of which is local.
///
/// # Errors
/// One of them is local, or it has none.
pub async fn resolve(name: &str) -> Result<Vec<IpAddr>, NotConnected> {
    let found = tokio::net::lookup_host((name, 0)).await;
    let found = found.map_err(|error| NotConnected::Unresolved(name.to_owned(), error))?;
    let mut all: Vec<IpAddr> = Vec::new();
    for address in found.map(|address| address.ip()) {
        if is_local(address) {
            return Err(NotConnected::Local(format!("{name} ({address})")));
        }
        if !all.contains(&address) {
            all.push(address);
        }
    }
    Ok(all)
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
            ("::127.0.0.1", true),
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("169.254.169.254", true),
            ("::ffff:169.254.169.254", true),
            ("64:ff9b::a9fe:a9fe", true),
            ("64:ff9b:1::7f00:1", true),
            ("64:ff9b:1:a9fe:a9:fe00::", true),
            ("::ffff:0:127.0.0.1", true),
            ("2002:7f00:1::", true),
            ("fe80::1", true),
            ("fd00:ec2::254", true),
            ("fd00:ec2::23", true),
            ("fd20:ce::254", true),
            ("100.100.100.200", true),
            ("192.0.0.192", true),
            ("168.63.129.16", true),
            ("10.0.0.1", false),
            ("192.168.1.1", false),
            ("fd00::1", false),
            ("fd20::1", false),
            ("64:ff9b::808:808", false),
            ("2002:808:808::1", false),
            ("2606:4700::1111", false),
            ("1.1.1.1", false),
        ] {
            assert_eq!(is_local(text.parse().unwrap()), local, "{text}");
        }
    }
}
