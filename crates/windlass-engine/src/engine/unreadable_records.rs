//! Deletes the records of a release that cannot be read, so that its next revision can be made.
//!
//! Owns which records these are. Touches no object of the release: what the records listed stays, and belongs to the release still.

use crate::{
    engine::Engine,
    error::Result,
    operation,
    record::RecordError,
    request::ReleaseId,
};

impl Engine {
    /// Deletes the revisions of a release whose records cannot be decoded, and returns them.
    ///
    /// # Errors
    /// Another operation runs on the release, or the API server refuses a request.
    pub async fn delete_unreadable_records(&self, id: &ReleaseId) -> Result<Vec<u64>> {
        let context = &self.context;
        operation::run(context, id, None, |operation| {
            Box::pin(async move {
                operation.acquire_lock(false, None).await?;
                let store = context.store();
                let mut deleted = Vec::new();
                for revision in store.history(id).await? {
                    let read =
                        operation.bounded(async { Ok(store.get(id, revision.revision).await) }).await?;
                    match read {
                        Err(RecordError::Cluster(error)) => return Err(error.into()),
                        Err(error) if error.is_unreadable() => {
                            store.delete(id, revision.revision).await?;
                            deleted.push(revision.revision);
                        }
                        Ok(_) | Err(_) => {}
                    }
                }
                context.state.forget(&context.key(id));
                Ok(deleted)
            })
        })
        .await
    }
}
