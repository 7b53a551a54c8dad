//! `cidrhost`, `cidrnetmask`, `cidrsubnet` and `cidrsubnets`: addresses and parts of an IP network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    /// The first address.
    base: u128,
    /// Bits of the prefix.
    prefix: u32,
    /// Bits of an address: 32 or 128.
    bits: u32,
}

impl Network {
    /// Parses `ADDRESS/BITS`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a network in CIDR notation");
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let (base, bits) = match address.parse().map_err(|_| wrong())? {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
            IpAddr::V6(ip) => (ip.to_bits(), 128),
        };
        let prefix: u32 = prefix.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(wrong)?;
        let out = Self { base, prefix, bits };
        Ok(Self { base: base & !out.hosts(), ..out })
    }

    /// The bits of an address that the prefix leaves.
    fn hosts(self) -> u128 {
        match self.bits - self.prefix {
            128 => u128::MAX,
            left => (1 << left) - 1,
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "32 bits of an IPv4 address")]
    fn address(self, value: u128) -> String {
        if self.bits == 32 {
            Ipv4Addr::from_bits(value as u32).to_string()
        } else {
            Ipv6Addr::from_bits(value).to_string()
        }
    }

    /// The network as text.
    pub(super) fn text(self) -> String {
        format!("{}/{}", self.address(self.base), self.prefix)
    }

    /// The address of a host; negative numbers count from the end.
    pub(super) fn host(self, number: i64) -> Result<String, String> {
        let (hosts, distance) = (self.hosts(), u128::from(number.unsigned_abs()));
        let host = if number < 0 { hosts.checked_sub(distance - 1) } else { Some(distance) };
        let host = host.filter(|host| *host <= hosts);
        let host = host.ok_or_else(|| format!("{} has no host {number}", self.text()))?;
        Ok(self.address(self.base | host))
    }

    /// The mask of an IPv4 network.
    pub(super) fn mask(self) -> Result<String, String> {
        if self.bits != 32 {
            return Err(format!("{}: only IPv4 networks have a netmask", self.text()));
        }
        Ok(self.address(u128::from(u32::MAX) & !self.hosts()))
    }

    /// The subnet of a number, with so many bits more.
    pub(super) fn subnet(self, bits: u32, number: u64) -> Result<Self, String> {
        let prefix = self.prefix.checked_add(bits).filter(|prefix| *prefix <= self.bits);
        let prefix = prefix.ok_or_else(|| format!("{} has no room for {bits} more bits", self.text()))?;
        if bits < 64 && number >> bits != 0 {
            return Err(format!("{bits} more bits do not hold the number {number}"));
        }
        let shifted = u128::from(number).checked_shl(self.bits - prefix).unwrap_or(0);
        Ok(Self { base: self.base | shifted, prefix, ..self })
    }

    /// Subnets one after the other, each with so many bits more.
    pub(super) fn subnets(self, bits: &[u32]) -> Result<Vec<Self>, String> {
        let mut next = Some(self.base);
        let mut out = Vec::with_capacity(bits.len());
        for more in bits {
            let first = self.subnet(*more, 0)?;
            let hosts = first.hosts();
            let full = || format!("{} has no room for all of the subnets", self.text());
            // The next one that begins where a network of this size may.
            let base = next.and_then(|base| Some(base.checked_add(hosts)? & !hosts)).ok_or_else(full)?;
            let last = base | hosts;
            if last > self.base | self.hosts() {
                return Err(full());
            }
            next = last.checked_add(1);
            out.push(Self { base, ..first });
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_masks_are_those_of_a_network() {
        let host = |network: &str, number| Network::parse(network).unwrap().host(number);
        for (network, number, want) in [
            ("10.12.127.0/20", 16, "10.12.112.16"),
            ("10.12.127.0/20", 268, "10.12.113.12"),
            ("10.12.127.0/20", -2, "10.12.127.254"),
            ("fd00:fd12:3456:7890:00a2::/72", 34, "fd00:fd12:3456:7890::22"),
            ("0.0.0.0/0", -1, "255.255.255.255"),
        ] {
            assert_eq!(host(network, number).unwrap(), want, "{network} {number}");
        }
        assert!(host("10.0.0.0/30", 4).is_err() && host("10.0.0.0/30", -5).is_err());
        assert_eq!(Network::parse("172.16.0.0/12").unwrap().mask().unwrap(), "255.240.0.0");
        assert_eq!(Network::parse("0.0.0.0/0").unwrap().mask().unwrap(), "0.0.0.0");
        assert!(Network::parse("::/0").unwrap().mask().is_err());
        for text in ["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "::/129", "x/1"] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn subnets_are_parts_of_a_network() {
        let subnet = |network: &str, bits, number| {
            Network::parse(network).unwrap().subnet(bits, number).map(Network::text)
        };
        for (network, bits, number, want) in [
            ("172.16.0.0/12", 4, 2, "172.18.0.0/16"),
            ("10.1.2.0/24", 4, 15, "10.1.2.240/28"),
            ("fd00:fd12:3456:7890::/56", 16, 162, "fd00:fd12:3456:7800:a200::/72"),
            ("0.0.0.0/0", 0, 0, "0.0.0.0/0"),
        ] {
            assert_eq!(subnet(network, bits, number).unwrap(), want, "{network}");
        }
        assert!(subnet("10.0.0.0/24", 9, 0).is_err() && subnet("10.0.0.0/24", 1, 2).is_err());
        let subnets = |network: &str, bits: &[u32]| {
            let found = Network::parse(network).unwrap().subnets(bits);
            found.map(|all| all.into_iter().map(Network::text).collect::<Vec<_>>())
        };
        assert_eq!(
            subnets("10.1.0.0/16", &[4, 4, 8, 4]).unwrap(),
            ["10.1.0.0/20", "10.1.16.0/20", "10.1.32.0/24", "10.1.48.0/20"]
        );
        assert!(subnets("10.0.0.0/8", &[1, 1, 1]).is_err());
    }
}
