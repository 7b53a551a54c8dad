//! Secrets that an object refers to.
//!
//! Owns the one reading of them: a name is checked before it is asked for, values are decoded, and masked in messages, Events and status
//! from then on (`lookup_object`). What the keys mean is the front end's.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chart_compat::data::{Data, Map};

use super::error::ReconcileError;
use super::front_end::References;
use super::reconcile_pass::ReconcilePass;
use windlass_cluster::{Cluster, ClusterError};
use windlass_render::replay::{LookupQuery, answer_digest};
use windlass_render::{lookup_object, lookup_opaque};

/// The data of a Secret, decoded.
#[derive(Clone, Default)]
pub struct SecretData {
    name: String,
    values: BTreeMap<String, Vec<u8>>,
}

/// Why a Secret has no data.
#[derive(Debug, thiserror::Error)]
pub enum SecretReadError {
    /// The name is empty. The API server would list all Secrets of the namespace.
    #[error("its name may not be empty")]
    EmptyName,
    /// There is none of this name.
    #[error("secrets {0:?} not found")]
    NotFound(String),
    /// The API server refuses the request, or does not answer.
    #[error(transparent)]
    Request(#[from] ClusterError),
    /// The value of this key is not base64.
    #[error("{0} is not base64")]
    Base64(String),
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretData").field("name", &self.name).finish_non_exhaustive()
    }
}

impl SecretData {
    /// Reads a Secret that is not watched.
    ///
    /// # Errors
    /// The name is empty, there is no such Secret, or it cannot be read.
    pub async fn read(cluster: &Cluster, namespace: &str, name: &str) -> Result<Self, SecretReadError> {
        Self::read_watched(cluster, &mut References::new(), namespace, name).await
    }

    /// Reads a Secret and adds it to the references of an object, which are watched. One that does not exist is watched too.
    ///
    /// # Errors
    /// As [`SecretData::read`].
    pub async fn read_watched(
        cluster: &Cluster,
        references: &mut References,
        namespace: &str,
        name: &str,
    ) -> Result<Self, SecretReadError> {
        Self::look_up(references, (namespace, name), async |query| lookup_object(cluster, query).await).await
    }

    /// As [`SecretData::read_watched`], for a Secret with a kubeconfig: the caller masks the credentials in it, and names and addresses
    /// are shown.
    ///
    /// # Errors
    /// As [`SecretData::read`].
    pub async fn read_kubeconfig(
        cluster: &Cluster,
        references: &mut References,
        namespace: &str,
        name: &str,
    ) -> Result<Self, SecretReadError> {
        Self::look_up(references, (namespace, name), async |query| lookup_opaque(cluster, query).await).await
    }

    async fn look_up(
        references: &mut References,
        (namespace, name): (&str, &str),
        look_up: impl AsyncFnOnce(&LookupQuery) -> Result<Option<Data>, ClusterError>,
    ) -> Result<Self, SecretReadError> {
        if name.is_empty() {
            return Err(SecretReadError::EmptyName);
        }
        let query = LookupQuery::new("v1", "Secret", namespace, name);
        let object = look_up(&query).await?;
        references.insert(query, answer_digest(object.as_ref().unwrap_or(&Data::Map(Map::new()))));
        let object = object.ok_or_else(|| SecretReadError::NotFound(name.to_owned()))?;
        let mut values = BTreeMap::new();
        for (key, value) in object.get("data").and_then(Data::as_map).into_iter().flatten() {
            let decoded = STANDARD.decode(value.as_str().unwrap_or_default());
            values.insert(key.clone(), decoded.map_err(|_| SecretReadError::Base64(key.clone()))?);
        }
        Ok(Self::new(namespace, name, values))
    }

    /// Data that was read already.
    #[must_use]
    pub fn new(namespace: &str, name: &str, values: BTreeMap<String, Vec<u8>>) -> Self {
        Self { name: format!("{namespace}/{name}"), values }
    }

    /// `NAMESPACE/NAME`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of a key; `None` if it is absent or empty.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.values.get(key).map(Vec::as_slice).filter(|value| !value.is_empty())
    }

    /// The value of a key as text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// All keys with their values, empty ones too.
    #[must_use]
    pub fn values(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.values
    }
}

impl ReconcilePass {
    /// Reads a Secret in the object's namespace with the rights of the pass's reader ([`ReconcilePass::set_reader`]), or else of the
    /// operator, and watches it.
    ///
    /// # Errors
    /// As [`SecretData::read`].
    pub async fn read_secret(&mut self, name: &str) -> Result<SecretData, SecretReadError> {
        let namespace = self.reference.namespace.clone().unwrap_or_default();
        let cluster = self.reader().clone();
        SecretData::read_watched(&cluster, &mut self.references, &namespace, name).await
    }

    /// The data of a Secret in the object's namespace. `field`: where the object names it, for errors.
    ///
    /// # Errors
    /// As [`SecretData::read`].
    pub async fn secret_data(
        &mut self,
        field: &str,
        name: &str,
    ) -> Result<BTreeMap<String, Vec<u8>>, ReconcileError> {
        let secret = self.read_secret(name).await.map_err(|error| {
            let text = match error {
                SecretReadError::NotFound(_) => "does not exist".to_owned(),
                SecretReadError::Request(error) => format!("cannot be read: {error}"),
                SecretReadError::Base64(key) => format!("has a key {key:?} that is not base64"),
                SecretReadError::EmptyName => error.to_string(),
            };
            ReconcileError::Config(format!("{field}: Secret {name:?} {text}"))
        })?;
        Ok(secret.values)
    }
}
