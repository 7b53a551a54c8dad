//! Replaces buckets with the API of S3 in builds without them: every request is refused.

use bytes::Bytes;

use super::{BucketError, BucketObject, S3Bucket};

fn refused() -> BucketError {
    BucketError::Feature { scheme: "s3".to_owned(), feature: "s3" }
}

impl S3Bucket<'_> {
    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no buckets.
    pub async fn list(&self, _prefix: &str) -> Result<Vec<BucketObject>, BucketError> {
        Err(refused())
    }

    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no buckets.
    pub async fn get(&self, _key: &str, _limit: u64) -> Result<Bytes, BucketError> {
        Err(refused())
    }
}
