//! sprig's certificate functions: from a request to a certificate and its key in PEM.

use core::net::IpAddr;

use super::super::base::decode64;
use super::keys::Key;
use super::{pem, x509};
use crate::world::{KeyKind, World};

/// A certificate and its private key, both PEM (`sprig.certificate`).
pub(crate) struct Pair {
    pub(crate) cert: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// The parameters of a certificate.
pub(crate) struct Request<'r> {
    pub(crate) common_name: &'r [u8],
    pub(crate) ips: Vec<IpAddr>,
    pub(crate) dns: Vec<&'r [u8]>,
    pub(crate) days: i64,
    /// Whether it is a CA.
    pub(crate) authority: bool,
}

const NANOS_A_DAY: i64 = 24 * 3600 * 1_000_000_000;

/// Creates a certificate, with a new key unless `key` is given. `authority` (certificate and key) signs it; without one it is
/// self-signed.
///
/// # Errors
/// sprig's error texts.
pub(crate) fn make(
    world: &dyn World,
    request: &Request<'_>,
    key: Option<&[u8]>,
    authority: Option<(&[u8], &[u8])>,
) -> Result<Pair, String> {
    let given = key.map(|k| Key::parse(k).map_err(|e| format!("parsing private key: {e}"))).transpose()?;
    let authority = authority.map(|(cert, key)| signer(cert, key)).transpose()?;
    let key = match given {
        Some(key) => key,
        None => Key::make(world, KeyKind::Rsa(2048)).map_err(|e| format!("error generating rsa key: {e}"))?,
    };
    let mut serial = [0; 16];
    world.random(&mut serial);
    let now = world.now();
    // Go's durations are nanoseconds in 64 bits and wrap around after 292 years.
    let valid = NANOS_A_DAY.wrapping_mul(request.days);
    let template = x509::Template {
        serial,
        common_name: request.common_name,
        ips: &request.ips,
        dns: &request.dns,
        not_before: now.seconds,
        not_after: now.seconds
            + (i64::from(now.nanos) + valid % 1_000_000_000).div_euclid(1_000_000_000)
            + valid / 1_000_000_000,
        authority: request.authority,
    };
    let issuer = authority.as_ref().map(|(identity, key)| (identity, key));
    let cert = x509::create(world, &template, &key, issuer)
        .map_err(|e| format!("error creating certificate: {e}"))?;
    Ok(Pair { cert: pem::encode("CERTIFICATE", &cert), key: key.pem(world)? })
}

/// A CA from its certificate and key.
fn signer(cert: &[u8], key: &[u8]) -> Result<(x509::Identity, Key), String> {
    let block = pem::decode(cert).ok_or("unable to decode certificate")?;
    let identity = x509::parse(&block.bytes)
        .map_err(|e| format!("error parsing certificate: decodedSignerCert.Bytes: {e}"))?;
    let key = Key::parse(key).map_err(|e| format!("error parsing private key: {e}"))?;
    Ok((identity, key))
}

/// sprig's `buildCustomCert`: checks an existing certificate and key.
///
/// # Errors
/// sprig's error texts.
pub(super) fn custom(cert: &[u8], key: &[u8]) -> Result<Pair, String> {
    let cert = decode64(cert).map_err(|_| "unable to decode base64 certificate")?;
    let key = decode64(key).map_err(|_| "unable to decode base64 private key")?;
    let block = pem::decode(&cert).ok_or("unable to decode certificate")?;
    x509::parse(&block.bytes).map_err(|e| format!("error parsing certificate: decodedCert.Bytes: {e}"))?;
    Key::parse(&key).map_err(|e| format!("error parsing private key: {e}"))?;
    Ok(Pair { cert, key })
}
