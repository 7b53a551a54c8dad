//! The implementation of the renderer's world in a process: its clock, randomness, keys and, if available, a cluster.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::signature::{EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair};
use aws_lc_rs::{rand, rsa, signature};
use chart_compat::Bytes;
use chart_compat::data::{Data, Map};
use chart_compat::world::{KeyKind, Timestamp, World, refused};
use serde_json::{Value, json};

use super::bounds::Deadline;
use super::replay::{LookupQuery, answer_digest};
use super::secrets::note_secret_documents;
use windlass_base::redact;
use windlass_cluster::{Cluster, ClusterError, Gvk, MAX_NESTING, ObjectRef, has_omitted_values};

/// Implements `lookup` with a cluster.
pub trait Lookup: Send + Sync {
    /// One object by name, or a list when the name is empty; an empty map when there is none.
    ///
    /// # Errors
    /// The error of the API server.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, String>;
}

/// Loads external documents that `values.schema.json` refers to.
pub trait Documents: Send + Sync {
    /// The document at an absolute URL: `http`, `https` or `file`.
    ///
    /// # Errors
    /// The reason why it is not available, with Helm's text.
    fn document(&self, url: &str) -> Result<Bytes, String>;
}

/// The real world. A render of a chart builds its own ([`RenderRequest`](crate::RenderRequest)).
#[derive(Default)]
pub struct SystemWorld<'l> {
    pub(super) cluster: Option<&'l dyn Lookup>,
    pub(super) documents: Option<&'l dyn Documents>,
    pub(super) dns: bool,
    pub(super) deadline: Option<Deadline>,
}

impl<'l> SystemWorld<'l> {
    /// A world without a cluster, until a deadline. `documents` loads the external documents of schemas.
    #[must_use]
    pub fn until(deadline: Deadline, documents: Option<&'l dyn Documents>) -> Self {
        Self { documents, deadline: Some(deadline), ..Self::default() }
    }
}

/// The local zone as in Go's time package: `TZ`, else the target of the link `/etc/localtime`.
///
/// Implemented here because a time zone library reads all directories of its database for the one name, which takes longer than
/// most renders.
fn zone_name(variable: Option<String>, localtime: impl FnOnce() -> Option<PathBuf>) -> String {
    let place = match variable {
        Some(zone) => zone.strip_prefix(':').unwrap_or(&zone).to_owned(),
        None => localtime().and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_default(),
    };
    let name = place.rsplit_once("zoneinfo/").map_or(place.as_str(), |(_, name)| name);
    // The time zone database treats an unknown name, such as the path of a copied file, as UTC.
    if name.is_empty() { "UTC".to_owned() } else { name.to_owned() }
}

impl World for SystemWorld<'_> {
    fn now(&self) -> Timestamp {
        // A clock before 1970 returns 1970.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(0), nanos: since.subsec_nanos() }
    }

    fn local_zone(&self) -> String {
        zone_name(std::env::var("TZ").ok(), || std::fs::canonicalize("/etc/localtime").ok())
    }

    fn random(&self, bytes: &mut [u8]) {
        // Uses the kernel's randomness: the library that generates keys gathers entropy first, for longer than most charts take to render.
        if getrandom::fill(bytes).is_err() {
            // A template must not continue with a predictable secret.
            std::process::abort();
        }
    }

    fn make_key(&self, kind: KeyKind) -> Result<Vec<u8>, String> {
        let failed = |_| format!("cannot make a {kind:?} key");
        Ok(match kind {
            KeyKind::Rsa(bits) => {
                let size = match bits {
                    2048 => rsa::KeySize::Rsa2048,
                    3072 => rsa::KeySize::Rsa3072,
                    4096 => rsa::KeySize::Rsa4096,
                    8192 => rsa::KeySize::Rsa8192,
                    other => return Err(format!("cannot make an RSA key of {other} bits")),
                };
                let key = rsa::KeyPair::generate(size).map_err(failed)?;
                key.as_der().map_err(failed)?.as_ref().to_vec()
            }
            KeyKind::EcdsaP256 => {
                let key = signature::EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_ASN1_SIGNING)
                    .map_err(failed)?;
                key.to_pkcs8v1().map_err(failed)?.as_ref().to_vec()
            }
            KeyKind::Ed25519 => signature::Ed25519KeyPair::generate_pkcs8v1(&rand::SystemRandom::new())
                .map_err(failed)?
                .as_ref()
                .to_vec(),
        })
    }

    fn public_key(&self, pkcs8: &[u8]) -> Result<Vec<u8>, String> {
        if let Some(key) = ecdsa_key(pkcs8) {
            return Ok(key.public_key().as_ref().to_vec());
        }
        match signature::Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8) {
            Ok(key) => Ok(key.public_key().as_ref().to_vec()),
            Err(e) => Err(format!("not an ECDSA or Ed25519 key: {e}")),
        }
    }

    fn sign(&self, pkcs8: &[u8], message: &[u8]) -> Result<Vec<u8>, String> {
        let rng = rand::SystemRandom::new();
        if let Ok(key) = signature::RsaKeyPair::from_pkcs8(pkcs8) {
            let mut out = vec![0; key.public_modulus_len()];
            key.sign(&signature::RSA_PKCS1_SHA256, &rng, message, &mut out)
                .map_err(|_| "the RSA key cannot sign".to_owned())?;
            return Ok(out);
        }
        if let Some(key) = ecdsa_key(pkcs8) {
            let signed = key.sign(&rng, message).map_err(|_| "the ECDSA key cannot sign".to_owned())?;
            return Ok(signed.as_ref().to_vec());
        }
        match signature::Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8) {
            Ok(key) => Ok(key.sign(message).as_ref().to_vec()),
            Err(e) => Err(format!("not a key that can sign: {e}")),
        }
    }

    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, String> {
        match self.cluster {
            Some(cluster) => cluster.lookup(api_version, kind, namespace, name),
            None => Ok(Data::Map(Map::new())),
        }
    }

    fn schema_document(&self, url: &str) -> Result<Bytes, String> {
        match self.documents {
            Some(documents) => documents.document(url),
            None => Err(refused(url).to_owned()),
        }
    }

    fn stopped(&self) -> Option<String> {
        self.deadline.and_then(|deadline| deadline.passed())
    }

    fn resolve(&self, host: &str) -> String {
        use std::net::ToSocketAddrs;
        if !self.dns {
            return String::new();
        }
        let first = (host, 0).to_socket_addrs().ok().and_then(|mut found| found.next());
        first.map_or_else(String::new, |a| a.ip().to_string())
    }
}

/// Parses an ECDSA key on any supported curve.
fn ecdsa_key(pkcs8: &[u8]) -> Option<EcdsaKeyPair> {
    const CURVES: [&EcdsaSigningAlgorithm; 3] = [
        &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
        &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
        &signature::ECDSA_P521_SHA512_ASN1_SIGNING,
    ];
    CURVES.iter().find_map(|curve| EcdsaKeyPair::from_pkcs8(curve, pkcs8).ok())
}

/// Implements `lookup` with a live cluster. Used on blocking threads, where renders run.
pub struct ClusterLookup {
    cluster: Cluster,
    runtime: tokio::runtime::Handle,
}

impl ClusterLookup {
    /// Creates a lookup on a cluster; must be called within the runtime that sends the requests.
    #[must_use]
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster, runtime: tokio::runtime::Handle::current() }
    }
}

/// Looks up an object in a cluster; `None` if there is no such object. Errors of the template may quote a Secret from here on:
/// its contents are masked in messages, and so are the values of the YAML and JSON in it, which a template or `valuesFrom` reads.
///
/// # Errors
/// The error of the API server; the answer has values that are nested too deeply.
pub async fn lookup_object(cluster: &Cluster, query: &LookupQuery) -> Result<Option<Data>, ClusterError> {
    find(cluster, query, note_secret_documents).await
}

/// As [`lookup_object`], for who knows which values of a text in the Secret are secret, and notes them: a kubeconfig has names and
/// addresses as well.
///
/// # Errors
/// As [`lookup_object`].
pub async fn lookup_opaque(cluster: &Cluster, query: &LookupQuery) -> Result<Option<Data>, ClusterError> {
    find(cluster, query, |_| {}).await
}

async fn find(
    cluster: &Cluster,
    query: &LookupQuery,
    note: fn(&Value),
) -> Result<Option<Data>, ClusterError> {
    let found = request(cluster, query).await?;
    if let Some(object) = &found {
        redact::add_secret(object);
        note(object);
        check_whole(object, query)?;
    }
    Ok(found.map(|value| super::convert::object_data(&value)))
}

/// The digest of what [`lookup_object`] finds, which is all that a watch wants of it: nothing of a Secret becomes known to masks.
///
/// # Errors
/// As [`lookup_object`].
pub async fn lookup_digest(cluster: &Cluster, query: &LookupQuery) -> Result<String, ClusterError> {
    let found = request(cluster, query).await?;
    if let Some(object) = &found {
        check_whole(object, query)?;
    }
    let empty = || Data::Map(Map::new());
    Ok(answer_digest(&found.map_or_else(empty, |value| super::convert::object_data(&value))))
}

async fn request(cluster: &Cluster, query: &LookupQuery) -> Result<Option<Value>, ClusterError> {
    let LookupQuery { api_version, kind, namespace, name } = query;
    let gvk = Gvk::new(api_version, kind);
    let namespace = Some(namespace.as_str()).filter(|n| !n.is_empty());
    if name.is_empty() {
        let items = cluster.list(&gvk, namespace, "").await?;
        return Ok(Some(json!({"apiVersion": api_version, "kind": format!("{kind}List"), "items": items})));
    }
    cluster.get(&ObjectRef::new(gvk, namespace, name)).await
}

/// Refuses an answer of which the client left something out: what is made of it would be something else.
///
/// # Errors
/// It has values that are nested too deeply. The text names what was asked for.
fn check_whole(answer: &Value, query: &LookupQuery) -> Result<(), ClusterError> {
    if !has_omitted_values(answer) {
        return Ok(());
    }
    let LookupQuery { kind, namespace, name, .. } = query;
    let what = match (name.as_str(), namespace.as_str()) {
        ("", "") => format!("an object in the list of {kind}"),
        ("", namespace) => format!("an object in the list of {kind} in namespace {namespace}"),
        (name, "") => format!("{kind} {name}"),
        (name, namespace) => format!("{kind} {namespace}/{name}"),
    };
    Err(ClusterError::Other(format!(
        "{what} has values that are nested deeper than {MAX_NESTING} levels: make them flatter"
    )))
}

impl Lookup for ClusterLookup {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, String> {
        let query = LookupQuery::new(api_version, kind, namespace, name);
        match self.runtime.block_on(lookup_object(&self.cluster, &query)) {
            Ok(found) => Ok(found.unwrap_or_else(|| Data::Map(Map::new()))),
            Err(e) => Err(ClusterError::to_string(&e)),
        }
    }
}

#[cfg(test)]
mod tests;
