//! Records that cannot be decoded or lack parts, which stop every operation on their release.
//!
//! Owns which records these are, and their deletion. Touches no object of the release: it belongs to the release still.

use crate::{
    error::Result,
    record::{RecordError, RecordHead},
    report::release_records::ReleaseRecords,
    request::ReleaseId,
};

impl ReleaseRecords<'_> {
    /// Deletes the revisions of a release whose records cannot be decoded or lack parts, and whose labels are the owner's, and returns
    /// them. No lock is needed: records are whole when objects are applied, and no operation gets past one of these.
    ///
    /// # Errors
    /// The API server refuses a request.
    pub async fn delete_unreadable(
        &self,
        id: &ReleaseId,
        is_owned: impl Fn(&RecordHead) -> bool,
    ) -> Result<Vec<u64>> {
        let store = self.context.store();
        let mut deleted = Vec::new();
        for head in self.heads_of(id).await?.iter().filter(|head| is_owned(head)) {
            let is_unreadable = match store.get(id, head.revision).await {
                Err(RecordError::Cluster(error)) => return Err(error.into()),
                Err(error) => error.is_unreadable(),
                Ok(found) => {
                    found.is_some_and(|found| self.context.parser.rendered_of(&found.record).is_err())
                }
            };
            if is_unreadable {
                store.delete(id, head.revision).await?;
                deleted.push(head.revision);
            }
        }
        Ok(deleted)
    }
}
