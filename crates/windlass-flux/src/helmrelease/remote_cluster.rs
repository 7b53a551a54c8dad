//! Remote clusters: how a HelmRelease refers to one, and the runner that acts there.
//!
//! Objects, records and Leases of such a release are in the remote cluster; the HelmRelease, its values and its chart are not.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use chart_compat::data::{Data, Map};
use chart_compat::yaml;

use super::chart_artifact::failed;
use super::digest::sha256;
use super::remote_identity::{self, Identity};
use flux_api::helm_release::KubeConfigReference;
use windlass_cluster::{Cluster, ClusterError};
use windlass_controller::{
    AccountName, ReconcileError, References, ReleaseRunner, SecretData, SecretReadError,
};
use windlass_engine::{Engine, EngineOptions};
use windlass_render::replay::{LookupQuery, answer_digest};
use windlass_render::{lookup_object, note_values, parse_manifest};

/// Keys of a Secret that has no key named, in this order.
const KEYS: [&str; 2] = ["value", "value.yaml"];
/// The most connections that are kept.
const MAX_CONNECTIONS: usize = 64;

/// A connection, and until when it may be used.
type Connection = (ReleaseRunner, Option<Instant>);

/// Connections to remote clusters, by the digest of what they are made of.
pub(super) struct RemoteClusters {
    connections: Mutex<BTreeMap<String, Connection>>,
    /// Whether their servers may be this machine.
    allows_local: bool,
}

/// Reads what a HelmRelease refers to in its own namespace.
pub(super) struct OwnNamespace<'a> {
    pub(super) client: &'a Cluster,
    pub(super) namespace: &'a str,
    /// What was read, with digests, to be watched.
    pub(super) references: &'a mut References,
    /// The runner of the operator's own cluster: renders for other clusters have its bounds, and wait for the same permits.
    pub(super) operator: &'a ReleaseRunner,
    /// The ServiceAccount of ConfigMaps that name none.
    pub(super) default_account: Option<&'a AccountName>,
}

impl RemoteClusters {
    /// No connections yet.
    pub(super) fn new(allows_local: bool) -> Self {
        Self { connections: Mutex::default(), allows_local }
    }

    /// The runner for the cluster of a reference.
    ///
    /// # Errors
    /// The Secret or ConfigMap does not exist, or does not describe a connection that may be used.
    pub(super) async fn runner(
        &self,
        mut own: OwnNamespace<'_>,
        reference: &KubeConfigReference,
    ) -> Result<ReleaseRunner, ReconcileError> {
        match (&reference.secret_ref, &reference.config_map_ref) {
            (Some(secret), _) => {
                let text = own.kubeconfig(&secret.name, &secret.key).await?;
                let digest = sha256(text.as_bytes());
                if let Some(runner) = self.known(&digest) {
                    return Ok(runner);
                }
                let cluster = Cluster::of_kubeconfig(&text, self.allows_local).await;
                let cluster = cluster.map_err(|e| own.wrong("secret", &secret.name, &e))?;
                Ok(self.keep(digest, cluster, None, own.operator))
            }
            (None, Some(config_map)) => {
                let data = own.config_map(&config_map.name).await?;
                let identity = Identity::of(&data, own.namespace, own.default_account);
                let identity = identity.map_err(|e| own.wrong("configmap", &config_map.name, &e))?;
                let digest = sha256(format!("{identity:?}").as_bytes());
                if let Some(runner) = self.known(&digest) {
                    return Ok(runner);
                }
                let connected = remote_identity::connect(own.client, &identity, self.allows_local).await;
                let (cluster, until) =
                    connected.map_err(|e: ClusterError| own.wrong("configmap", &config_map.name, &e))?;
                Ok(self.keep(digest, cluster, Some(until), own.operator))
            }
            (None, None) => Err(ReconcileError::Config(
                "spec.kubeConfig: set one of configMapRef and secretRef".to_owned(),
            )),
        }
    }

    fn known(&self, digest: &str) -> Option<ReleaseRunner> {
        let all = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let (runner, until) = all.get(digest)?;
        until.is_none_or(|until| Instant::now() < until).then(|| runner.clone())
    }

    fn keep(
        &self,
        digest: String,
        cluster: Cluster,
        until: Option<Instant>,
        operator: &ReleaseRunner,
    ) -> ReleaseRunner {
        let holder = format!("windlass-operator-{:x}", jiff::Timestamp::now().as_nanosecond());
        // Without watches: drift of remote objects is found at the interval.
        let engine = Engine::new(cluster, parse_manifest, EngineOptions::once(&holder));
        let runner = ReleaseRunner::new(engine, operator.render_bounds(), false)
            .of_other_cluster()
            .with_renders(operator.render_permits());
        let mut all = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_CONNECTIONS {
            all.clear();
        }
        all.insert(digest, (runner.clone(), until));
        runner
    }
}

impl OwnNamespace<'_> {
    fn wrong(&self, kind: &str, name: &str, why: &dyn std::fmt::Display) -> ReconcileError {
        failed("RESTClientError", format!("kubeConfig of {kind} '{}/{name}': {why}", self.namespace))
    }

    /// The data of a ConfigMap.
    async fn config_map(&mut self, name: &str) -> Result<BTreeMap<String, String>, ReconcileError> {
        let wrong = |why: &dyn std::fmt::Display| self.wrong("configmap", name, why);
        // Without a name the API server would list all ConfigMaps of the namespace.
        if name.is_empty() {
            return Err(wrong(&"its name may not be empty"));
        }
        let query = LookupQuery::new("v1", "ConfigMap", self.namespace, name);
        let object = lookup_object(self.client, &query).await.map_err(|error| wrong(&error))?;
        let digest = answer_digest(object.as_ref().unwrap_or(&Data::Map(Map::new())));
        let object = object.ok_or_else(|| wrong(&"the ConfigMap does not exist"));
        self.references.insert(query, digest);
        let object = object?;
        let data = object.get("data").and_then(Data::as_map);
        let text = |(key, value): (&String, &Data)| Some((key.clone(), value.as_str()?.to_owned()));
        Ok(data.into_iter().flatten().filter_map(text).collect())
    }

    /// The kubeconfig of a Secret; its values are masked from now on.
    async fn kubeconfig(&mut self, name: &str, key: &str) -> Result<String, ReconcileError> {
        let read = SecretData::read_kubeconfig(self.client, self.references, self.namespace, name).await;
        let secret = read.map_err(|error| match error {
            SecretReadError::NotFound(_) => self.wrong("secret", name, &"the Secret does not exist"),
            error => self.wrong("secret", name, &error),
        })?;
        let keys: Vec<&str> = if key.is_empty() { KEYS.to_vec() } else { vec![key] };
        let Some((key, bytes)) = keys.iter().find_map(|key| Some((key, secret.get(key)?))) else {
            return Err(self.wrong("secret", name, &format!("it has no key {}", keys.join(" or "))));
        };
        let text = String::from_utf8(bytes.to_vec())
            .map_err(|_| self.wrong("secret", name, &format!("key {key} is not UTF-8 text")))?;
        mask(&text);
        Ok(text)
    }
}

/// Masks the credentials of a kubeconfig in messages: all that it says of users.
fn mask(kubeconfig: &str) {
    let Ok(config) = yaml::from_slice(kubeconfig.as_bytes()) else { return };
    let users = config.get("users").and_then(Data::as_list).into_iter().flatten();
    users.filter_map(|user| user.get("user")).for_each(note_values);
}
