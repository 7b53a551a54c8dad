//! Remote clusters: the kubeconfig that a HelmRelease refers to, and the runner that acts there.
//!
//! Objects, records and Leases of such a release are in the remote cluster; the HelmRelease, its values and its chart are not.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use chart_compat::data::{Data, Map};

use super::chart_artifact::failed;
use super::digest::sha256;
use crate::cluster::{Cluster, ClusterError};
use crate::controller::{MissingText, ReconcileError, ReconcilePass, ReleaseRunner, ValuesReference};
use crate::flux_api::helm_release::KubeConfigReference;
use crate::redact;
use crate::release::{Engine, EngineOptions};
use crate::render::replay::answer_digest;
use crate::render::{lookup_object, parse_manifest};

/// Keys of a Secret that has no key named, in this order.
const KEYS: [&str; 2] = ["value", "value.yaml"];
/// The most connections that are kept.
const MAX_CONNECTIONS: usize = 64;

/// Connections to remote clusters, by the digest of their kubeconfig.
#[derive(Default)]
pub(super) struct RemoteClusters(Mutex<BTreeMap<String, ReleaseRunner>>);

impl RemoteClusters {
    /// The runner for the cluster of a reference. The Secret is read in the HelmRelease's namespace, and watched.
    ///
    /// # Errors
    /// There is no such Secret, or it holds no kubeconfig that may be used.
    pub(super) async fn runner(
        &self,
        pass: &mut ReconcilePass,
        reference: &KubeConfigReference,
    ) -> Result<ReleaseRunner, ReconcileError> {
        let Some(secret) = &reference.secret_ref else {
            return Err(ReconcileError::Config(
                "spec.kubeConfig.configMapRef is not supported: use secretRef, or leave this object to helm-controller".to_owned(),
            ));
        };
        let namespace = pass.reference.namespace.clone().unwrap_or_default();
        let text = read(pass, &namespace, &secret.name, &secret.key).await?;
        let digest = sha256(text.as_bytes());
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned();
        if let Some(runner) = known {
            return Ok(runner);
        }
        let wrong = |e: ClusterError| {
            failed("RESTClientError", format!("kubeConfig of secret '{namespace}/{}': {e}", secret.name))
        };
        let cluster = Cluster::of_kubeconfig(&text).await.map_err(wrong)?;
        let local = &pass.runner_of_operator();
        let holder = format!("windlass-operator-{:x}", jiff::Timestamp::now().as_nanosecond());
        // Without watches: drift of remote objects is found at the interval.
        let engine = Engine::new(cluster, parse_manifest, EngineOptions::once(&holder));
        let runner = ReleaseRunner::new(engine, local.render_bounds(), false);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_CONNECTIONS {
            all.clear();
        }
        all.insert(digest, runner.clone());
        Ok(runner)
    }
}

/// The kubeconfig of a Secret; its values are masked from now on.
async fn read(
    pass: &mut ReconcilePass,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<String, ReconcileError> {
    let reference = |key: &str| ValuesReference {
        kind: "Secret".to_owned(),
        name: name.to_owned(),
        values_key: key.to_owned(),
        ..ValuesReference::default()
    };
    let query = reference("").query(namespace);
    let wrong =
        |why: String| failed("RESTClientError", format!("kubeConfig of secret '{namespace}/{name}': {why}"));
    let object = lookup_object(pass.client(), &query).await.map_err(|e| wrong(e.to_string()))?;
    let empty = Data::Map(Map::new());
    pass.references.insert(query, answer_digest(object.as_ref().unwrap_or(&empty)));
    let keys: Vec<&str> = if key.is_empty() { KEYS.to_vec() } else { vec![key] };
    let mut why = String::new();
    for key in &keys {
        match reference(key).text_of(object.as_ref()) {
            Ok(text) => {
                text.lines().map(str::trim).filter_map(|line| line.split_once(": ")).for_each(
                    |(field, value)| {
                        if matches!(field, "token" | "password" | "client-key-data") {
                            redact::process().add(value.trim_matches(['"', '\'']));
                        }
                    },
                );
                return Ok(text);
            }
            Err(MissingText::Object) => return Err(wrong("the Secret does not exist".to_owned())),
            Err(MissingText::Key) => why = format!("it has no key {}", keys.join(" or ")),
            Err(MissingText::Base64 | MissingText::Utf8) => {
                why = format!("key {key} is not base64 of UTF-8 text");
            }
        }
    }
    Err(wrong(why))
}
