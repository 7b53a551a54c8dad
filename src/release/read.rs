//! Reading releases: list, history, one revision.

use super::{
    engine::Engine,
    error::{EngineError, Result},
    record::Record,
    request::ReleaseId,
};

impl Engine {
    /// Newest record of each release, in a namespace or everywhere, by namespace and name.
    pub async fn list(&self, namespace: Option<&str>) -> Result<Vec<Record>> {
        Ok(self.store().list_newest(namespace).await?.into_iter().map(|s| s.record).collect())
    }

    /// All superseded records, in a namespace or everywhere.
    pub async fn superseded(&self, namespace: Option<&str>) -> Result<Vec<Record>> {
        let found = self.store().list(namespace, "status=superseded").await?;
        Ok(found.into_iter().map(|s| s.record).collect())
    }

    /// All records of a release, oldest first; of those that are too large for one object what lists them.
    pub async fn history(&self, id: &ReleaseId) -> Result<Vec<Record>> {
        let records = self.store().list(Some(&id.namespace), &format!("name={}", id.name)).await?;
        if records.is_empty() {
            Err(EngineError::NotFound)
        } else {
            Ok(records.into_iter().map(|s| s.record).collect())
        }
    }

    /// One record of a release; revision 0 is the newest.
    pub async fn get(&self, id: &ReleaseId, revision: u64) -> Result<Record> {
        let revision = match revision {
            0 => self.store().history(id).await?.last().ok_or(EngineError::NotFound)?.revision,
            given => given,
        };
        let found = self.store().get(id, revision).await?;
        found.map(|s| s.record).ok_or(EngineError::NotFound)
    }

    /// The newest record of a release, if there is one.
    pub async fn newest(&self, id: &ReleaseId) -> Result<Option<Record>> {
        match self.get(id, 0).await {
            Ok(record) => Ok(Some(record)),
            Err(EngineError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
