//! The certificate that webhooks are served with: from files, or generated and stored in a Secret.
//!
//! Owns the Secret and its renewal: at two thirds of its life, or when the names change. A bundle of ours holds
//! the authority before the current one too, so that API servers trust both while they learn of the new one.

use std::net::IpAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chart_compat::certificate::{authority, signed};
use serde_json::{Value, json};

use windlass_base::bounded_read;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta, ObjectRef};
use windlass_render::SystemWorld;

/// For how long a certificate of ours is good.
const DAYS: i64 = 365;
const DAY: i64 = 24 * 3600;
/// How often a write is tried that another replica is faster with.
const TRIES: u32 = 5;
/// When, in seconds since 1970, the certificate of the Secret is renewed, and its names.
const RENEW_AT: &str = "windlass.dev/renew-at";
const NAMES: &str = "windlass.dev/names";
/// Field manager of the Secret and of webhook objects.
pub(super) const MANAGER: &str = "windlass-webhooks";

/// Files with a certificate that is managed elsewhere, in PEM, as shell-operator takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The bundle that API servers trust.
    pub authority: PathBuf,
}

/// A certificate to serve with.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct KeyPair {
    /// Certificates and key in PEM.
    pub(super) chain: Vec<u8>,
    pub(super) key: Vec<u8>,
    /// Bundle of authorities in PEM.
    pub(super) authority: String,
    /// When it is renewed, in seconds since 1970; `None`: it is managed elsewhere.
    pub(super) renew_at: Option<i64>,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("{}: {reason}", path.display())]
    Read { path: PathBuf, reason: std::io::Error },
    #[error("{}: the file is not valid UTF-8", path.display())]
    Text { path: PathBuf },
    #[error("Secret {name}: {reason}")]
    Secret { name: String, reason: ClusterError },
    #[error("cannot make a certificate: {0}")]
    Make(String),
    #[error("Secret {0}: others keep changing it")]
    Contended(String),
}

/// Reads files.
///
/// # Errors
/// One of them cannot be read.
pub(super) fn given(files: &Files) -> Result<KeyPair, CertificateError> {
    let read = |path: &PathBuf| {
        bounded_read::read_file(path, bounded_read::MAX_TEXT)
            .map_err(|reason| CertificateError::Read { path: path.clone(), reason })
    };
    let path = files.authority.clone();
    let authority =
        String::from_utf8(read(&files.authority)?).map_err(|_| CertificateError::Text { path })?;
    Ok(KeyPair { chain: read(&files.certificate)?, key: read(&files.key)?, authority, renew_at: None })
}

/// Reads the Secret, or generates a certificate if it is missing, expired, or for other names.
///
/// # Errors
/// The Secret can be neither read nor written.
pub(super) async fn kept(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    hosts: &[String],
) -> Result<KeyPair, CertificateError> {
    let secret = ObjectRef::new(Gvk::new("v1", "Secret"), Some(namespace), name);
    let failed = |reason| CertificateError::Secret { name: name.to_owned(), reason };
    for _ in 0..TRIES {
        let now = jiff::Timestamp::now().as_second();
        let live = cluster.get(&secret).await.map_err(failed)?;
        if let Some(found) = live.as_ref().and_then(|l| usable(l, hosts, now)) {
            return Ok(found);
        }
        let before = live.as_ref().and_then(|l| text(l, "ca.crt"));
        let hosts_of_it = hosts.to_vec();
        let made = tokio::task::spawn_blocking(move || make(&hosts_of_it, before.as_deref()));
        let made = made.await.map_err(|e| CertificateError::Make(e.to_string()))?;
        let (chain, key, bundle) = made.map_err(CertificateError::Make)?;
        let body = secret_body(&secret, live.as_ref(), (&chain, &key, &bundle), hosts, now);
        let written = match &live {
            Some(_) => cluster.replace(&secret, &body, MANAGER).await,
            None => cluster.create(&secret, &body, MANAGER).await,
        };
        match written {
            Ok(live) => {
                tracing::info!(secret = name, "a certificate for webhooks was made");
                if let Some(found) = usable(&live, hosts, now) {
                    return Ok(found);
                }
            }
            // Another replica was faster: use its certificate.
            Err(e) if e.is_conflict() || e.is_already_exists() => {}
            Err(e) => return Err(failed(e)),
        }
    }
    Err(CertificateError::Contended(name.to_owned()))
}

fn secret_body(
    secret: &ObjectRef,
    live: Option<&Value>,
    (chain, key, bundle): (&str, &str, &str),
    hosts: &[String],
    now: i64,
) -> Value {
    let mut metadata = json!({
        "name": secret.name,
        "namespace": secret.namespace,
        "labels": {"app.kubernetes.io/managed-by": "windlass"},
        "annotations": {RENEW_AT: (now + DAYS * DAY * 2 / 3).to_string(), NAMES: hosts.join(",")},
    });
    if let Some(live) = live {
        metadata["resourceVersion"] = ObjectMeta::of(live).resource_version().into();
    }
    let kind = live.map_or_else(|| json!("kubernetes.io/tls"), |l| l["type"].clone());
    let data = json!({
        "tls.crt": STANDARD.encode(chain), "tls.key": STANDARD.encode(key), "ca.crt": STANDARD.encode(bundle),
    });
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data})
}

fn text(secret: &Value, key: &str) -> Option<String> {
    let bytes = STANDARD.decode(secret["data"][key].as_str()?).ok()?;
    String::from_utf8(bytes).ok().filter(|t| !t.trim().is_empty())
}

/// What a Secret holds, if it is for these names and not to be renewed yet.
fn usable(secret: &Value, hosts: &[String], now: i64) -> Option<KeyPair> {
    let meta = ObjectMeta::of(secret);
    let renew_at: i64 = meta.annotation(RENEW_AT)?.parse().ok()?;
    if meta.annotation(NAMES) != Some(&hosts.join(",")) || renew_at <= now {
        return None;
    }
    let (chain, key) = (text(secret, "tls.crt")?, text(secret, "tls.key")?);
    windlass_controller::serve::server_tls::config(chain.as_bytes(), key.as_bytes(), &[]).ok()?;
    let authority = text(secret, "ca.crt")?;
    Some(KeyPair { chain: chain.into(), key: key.into(), authority, renew_at: Some(renew_at) })
}

/// Makes an authority and a certificate of it; gives certificate, key and bundle. The authority's own key is forgotten: the
/// next certificate gets a new one.
fn make(hosts: &[String], before: Option<&str>) -> Result<(String, String, String), String> {
    let world = SystemWorld::default();
    let authority = authority(&world, "windlass-webhooks-ca", DAYS)?;
    let (addresses, names): (Vec<&String>, Vec<&String>) =
        hosts.iter().partition(|h| h.parse::<IpAddr>().is_ok());
    let addresses: Vec<IpAddr> = addresses.into_iter().filter_map(|a| a.parse().ok()).collect();
    let names: Vec<String> = names.into_iter().cloned().collect();
    let common_name = hosts.first().map_or("windlass-webhooks", String::as_str);
    let pair = signed(&world, common_name, &names, &addresses, DAYS, &authority)?;
    let mut bundle = authority.certificate;
    bundle.push_str(before.map_or("", first));
    Ok((pair.certificate, pair.key, bundle))
}

/// The first certificate of a bundle.
fn first(bundle: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----\n";
    bundle.find(END).and_then(|at| bundle.get(..at + END.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_serves_until_two_thirds_of_its_life() {
        let hosts = ["svc.ns.svc".to_owned(), "127.0.0.1".to_owned()];
        let (chain, key, bundle) = make(&hosts, None).unwrap();
        let secret = ObjectRef::new(Gvk::new("v1", "Secret"), Some("ns"), "s");
        let body = secret_body(&secret, None, (&chain, &key, &bundle), &hosts, 1000);
        let two_thirds = 1000 + 365 * 24 * 3600 * 2 / 3;
        let found = usable(&body, &hosts, 1000).unwrap();
        assert_eq!(found.renew_at, Some(two_thirds));
        assert_eq!(found.authority, bundle);
        assert!(usable(&body, &hosts, two_thirds - 1).is_some());
        assert!(usable(&body, &hosts, two_thirds).is_none(), "it is to be renewed");
        assert!(usable(&body, &hosts[..1], 1000).is_none(), "it is for other names");
        let mut broken = body;
        broken["data"]["tls.key"] = STANDARD.encode("no key").into();
        assert!(usable(&broken, &hosts, 1000).is_none());
        // The next one is trusted beside this one, and the one before is forgotten after that.
        let (_, _, next) = make(&hosts, Some(&bundle)).unwrap();
        assert!(next.ends_with(&bundle) && next.matches("BEGIN").count() == 2);
        let (_, _, third) = make(&hosts, Some(&next)).unwrap();
        assert!(!third.contains(&bundle) && third.matches("BEGIN").count() == 2);
    }

    #[test]
    fn files_that_are_not_there_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let files = Files { certificate: path("tls.crt"), key: path("tls.key"), authority: path("ca.crt") };
        std::fs::write(path("ca.crt"), "x").unwrap();
        let error = given(&files).err().unwrap().to_string();
        assert!(error.contains("tls.crt"), "{error}");
    }
}
