//! Replaces buckets with the API of S3 in builds without them: every request is refused.

use bytes::Bytes;

use super::super::http::{Http, Tls};
use super::super::location::Location;
use super::BucketError;

/// A bucket.
pub struct S3Bucket<'b> {
    /// The client.
    pub http: &'b Http,
    /// TLS flags.
    pub tls: &'b Tls,
    /// URL of the server, without a path.
    pub endpoint: Location,
    /// Its name.
    pub name: &'b str,
    /// Its region.
    pub region: &'b str,
    /// Access key and secret key.
    pub keys: Option<(String, String)>,
}

/// An object of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketObject {
    /// Its key.
    pub key: String,
    /// Its entity tag, without quotes.
    pub etag: String,
    /// Its size in bytes.
    pub size: u64,
}

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
