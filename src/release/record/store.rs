//! Records in the cluster: reading, creating and changing their Secrets.

use super::{
    Record, RecordError, Revision, Status,
    encode::{decode_secret, encode_secret, secret_name},
};
use crate::{
    cluster::{Cluster, DeleteOptions, Gvk, ObjectRef, Propagation},
    release::request::ReleaseId,
};
use serde_json::Value;

/// Manager of our writes of records.
const MANAGER: &str = "windlass";

/// A record with the version of the Secret that it was read from.
#[derive(Debug, Clone)]
pub struct Stored {
    pub record: Record,
    pub resource_version: String,
}

/// The records of one cluster.
pub struct Store<'a> {
    cluster: &'a Cluster,
}

fn secret() -> Gvk {
    Gvk::new("v1", "Secret")
}

fn reference(id: &ReleaseId, revision: u64) -> ObjectRef {
    ObjectRef::new(secret(), Some(&id.namespace), &secret_name(&id.name, revision))
}

fn stored(secret: &Value) -> Result<Stored, RecordError> {
    let resource_version = secret["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    Ok(Stored { record: decode_secret(secret)?, resource_version })
}

/// A revision by its Secret's metadata.
pub(crate) fn revision_of(metadata: &Value) -> Option<Revision> {
    let labels = &metadata["metadata"]["labels"];
    Some(Revision {
        revision: labels["version"].as_str()?.parse().ok()?,
        status: Status::named(labels["status"].as_str().unwrap_or_default()),
        resource_version: metadata["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned(),
    })
}

impl<'a> Store<'a> {
    pub fn new(cluster: &'a Cluster) -> Self {
        Self { cluster }
    }

    /// All revisions of a release, oldest first, by metadata.
    pub async fn history(&self, id: &ReleaseId) -> Result<Vec<Revision>, RecordError> {
        let labels = format!("owner=helm,name={}", id.name);
        let listed = self.cluster.list_metadata(&secret(), Some(&id.namespace), &labels).await?;
        let mut revisions: Vec<Revision> = listed.iter().filter_map(revision_of).collect();
        revisions.sort_by_key(|r| r.revision);
        Ok(revisions)
    }

    /// Whole records that a label selector picks, in a namespace or everywhere. Those that cannot be read are told
    /// and left out, as Helm does.
    pub async fn list(&self, namespace: Option<&str>, labels: &str) -> Result<Vec<Stored>, RecordError> {
        let selector =
            if labels.is_empty() { "owner=helm".to_owned() } else { format!("owner=helm,{labels}") };
        let mut records = Vec::new();
        for secret in self.cluster.list(&secret(), namespace, &selector).await? {
            match stored(&secret) {
                Ok(record) => records.push(record),
                Err(error) => tracing::warn!(%error, "release record left out"),
            }
        }
        records.sort_by(|a, b| {
            let order = |s: &Stored| (s.record.namespace.clone(), s.record.name.clone(), s.record.version);
            order(a).cmp(&order(b))
        });
        Ok(records)
    }

    /// One revision.
    pub async fn get(&self, id: &ReleaseId, revision: u64) -> Result<Option<Stored>, RecordError> {
        match self.cluster.get(&reference(id, revision)).await? {
            Some(secret) => Ok(Some(stored(&secret)?)),
            None => Ok(None),
        }
    }

    /// Writes a new revision; an existing one of that number is an error.
    pub async fn create(&self, record: Record) -> Result<Stored, RecordError> {
        let secret = encode_secret(&record, "createdAt")?;
        let id = ReleaseId::new(&record.namespace, &record.name);
        let object = reference(&id, record.version);
        match self.cluster.create(&object, &secret, MANAGER).await {
            Ok(created) => {
                let resource_version =
                    created["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                Ok(Stored { record, resource_version })
            }
            Err(e) if e.is_already_exists() => Err(RecordError::Exists(object.name)),
            // The request may have been carried out though no answer came: what lies there tells.
            Err(e) if e.is_transient() => match self.get(&id, record.version).await {
                Ok(Some(found))
                    if found.record.memory == record.memory && !record.memory.holder.is_empty() =>
                {
                    Ok(found)
                }
                Ok(_) | Err(_) => Err(e.into()),
            },
            Err(e) => Err(e.into()),
        }
    }

    /// Writes a revision again, if nobody else did since it was read.
    pub async fn update(&self, stored: &mut Stored) -> Result<(), RecordError> {
        let record = &stored.record;
        let mut secret = encode_secret(record, "modifiedAt")?;
        secret["metadata"]["resourceVersion"] = stored.resource_version.as_str().into();
        let object = reference(&ReleaseId::new(&record.namespace, &record.name), record.version);
        match self.cluster.replace(&object, &secret, MANAGER).await {
            Ok(written) => {
                stored.resource_version =
                    written["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                Ok(())
            }
            Err(e) if e.is_conflict() => {
                // A write of ours whose answer was lost looks like someone else's.
                match self.get(&ReleaseId::new(&record.namespace, &record.name), record.version).await? {
                    Some(found) if same(&found.record, record) => {
                        stored.resource_version = found.resource_version;
                        Ok(())
                    }
                    Some(_) | None => Err(RecordError::Changed(object.name)),
                }
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Deletes a revision; it is fine if it is not there.
    pub async fn delete(&self, id: &ReleaseId, revision: u64) -> Result<(), RecordError> {
        let options = DeleteOptions { propagation: Propagation::Background, ..DeleteOptions::default() };
        self.cluster.delete(&reference(id, revision), options).await?;
        Ok(())
    }
}

fn same(a: &Record, b: &Record) -> bool {
    a.info == b.info && a.memory == b.memory && a.manifest == b.manifest && a.hooks == b.hooks
}
