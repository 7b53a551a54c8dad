//! Certificates as `genCA` and `genSignedCert` generate them in charts, for use outside of charts.
//!
//! X.509 comes from sprig's module; the caller stores keys and certificates.

use core::net::IpAddr;

use crate::sprig::crypto::certificate::{Request, make};
use crate::world::World;

/// A certificate with its private key, both PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its key: a secret.
    pub key: String,
}

/// Generates a certificate authority, valid for `days` days from now (sprig's `genCA`).
///
/// # Errors
/// The world cannot make a key or sign.
pub fn authority(world: &dyn World, common_name: &str, days: i64) -> Result<Pair, String> {
    let request = Request {
        common_name: common_name.as_bytes(),
        ips: Vec::new(),
        dns: Vec::new(),
        days,
        authority: true,
    };
    pair(make(world, &request, None, None)?)
}

/// Generates a server certificate for these names and addresses, signed by an authority (sprig's `genSignedCert`).
///
/// # Errors
/// The authority is invalid, or the world cannot generate a key or sign.
pub fn signed(
    world: &dyn World,
    common_name: &str,
    names: &[String],
    addresses: &[IpAddr],
    days: i64,
    authority: &Pair,
) -> Result<Pair, String> {
    let request = Request {
        common_name: common_name.as_bytes(),
        ips: addresses.to_vec(),
        dns: names.iter().map(String::as_bytes).collect(),
        days,
        authority: false,
    };
    let by = (authority.certificate.as_bytes(), authority.key.as_bytes());
    pair(make(world, &request, None, Some(by))?)
}

fn pair(made: crate::sprig::crypto::certificate::Pair) -> Result<Pair, String> {
    let text = |bytes| String::from_utf8(bytes).map_err(|e| e.to_string());
    Ok(Pair { certificate: text(made.cert)?, key: text(made.key)? })
}
