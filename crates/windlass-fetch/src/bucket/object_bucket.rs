//! The objects of a bucket: their list, and their content, whoever's storage it is.
//!
//! Owns the limits of a list and what a request may do with credentials. Addresses, signatures and lists of one storage are `s3`'s,
//! `google_storage`'s and `azure_blobs`', each a feature of the build.

use bytes::Bytes;
use futures::future::BoxFuture;

use super::super::http::{Credentials, Http, Request, Tls};
use super::super::location::Location;
use super::BucketError;
use windlass_base::redact::SecretText;

/// Size limit of a page of a list, in bytes.
const MAX_PAGE: u64 = 16 << 20;
/// The most objects of a bucket.
pub(super) const MAX_OBJECTS: usize = 100_000;

/// A bucket.
pub struct ObjectBucket<'b> {
    /// The client.
    pub http: &'b Http,
    /// TLS flags.
    pub tls: &'b Tls,
    /// URL of the server.
    pub endpoint: Location,
    /// Its name.
    pub name: &'b str,
    /// Whose storage it is, with its credentials.
    pub storage: ObjectStorage,
}

/// An object of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketObject {
    /// Its key.
    pub key: String,
    /// Its entity tag, as Flux writes it.
    pub etag: String,
    /// Its size in bytes.
    pub size: u64,
}

/// A page of a list, and the mark of the next one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) objects: Vec<BucketObject>,
    pub(super) next: Option<String>,
}

/// The API of a storage, with credentials.
pub struct ObjectStorage(pub(super) Box<dyn StorageApi>);

/// A request with its credentials.
pub(super) struct Authorized {
    pub(super) url: Location,
    pub(super) credentials: Option<Credentials>,
    /// A part of the URL that is secret.
    pub(super) secret: Option<SecretText>,
}

/// What the storages have each in their own way.
pub(super) trait StorageApi: Send + Sync {
    /// The URL of a page of the list.
    fn list_url(&self, endpoint: &Location, bucket: &str, prefix: &str, next: Option<&str>) -> Location;

    /// The URL of an object's content.
    fn object_url(&self, endpoint: &Location, bucket: &str, key: &str) -> Location;

    /// Reads a page.
    fn page(&self, body: &[u8]) -> Result<Page, BucketError>;

    /// Adds credentials to the `GET` of a URL.
    fn authorize(&self, url: Location) -> BoxFuture<'_, Result<Authorized, BucketError>>;
}

impl ObjectBucket<'_> {
    /// The objects whose keys begin with a prefix, by key.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, or there are too many.
    pub async fn list(&self, prefix: &str) -> Result<Vec<BucketObject>, BucketError> {
        let mut all = Vec::new();
        let mut mark: Option<String> = None;
        loop {
            let api = &self.storage.0;
            let url = api.list_url(&self.endpoint, self.name, prefix, mark.as_deref());
            let body = self.send(url, MAX_PAGE).await?;
            let absent = || BucketError::Answer(format!("bucket '{}' not found", self.name));
            let page = api.page(&body.ok_or_else(absent)?)?;
            all.extend(page.objects);
            if all.len() > MAX_OBJECTS {
                return Err(BucketError::Answer(format!("the bucket has more than {MAX_OBJECTS} objects")));
            }
            match page.next {
                Some(next) if Some(&next) != mark.as_ref() => mark = Some(next),
                _ => break,
            }
        }
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(all)
    }

    /// The content of an object, at most `limit` bytes; `None` if it does not exist.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, or the object is too large.
    pub async fn get(&self, key: &str, limit: u64) -> Result<Option<Bytes>, BucketError> {
        let url = self.storage.0.object_url(&self.endpoint, self.name, key);
        self.send(url, limit).await
    }

    async fn send(&self, url: Location, limit: u64) -> Result<Option<Bytes>, BucketError> {
        let Authorized { url, credentials, secret } = self.storage.0.authorize(url).await?;
        // What authorizes a request is for this server.
        let secret = secret.filter(|secret| !secret.is_empty());
        let confined = credentials.is_some() || secret.is_some();
        let request = Request { credentials, confined, ..Request::get(url, self.tls, limit) };
        match (self.http.fetch(request).await, secret) {
            (Ok(body), _) => Ok(Some(body)),
            (Err(error), _) if error.is_not_found() => Ok(None),
            (Err(error), Some(secret)) => {
                Err(BucketError::Answer(error.to_string().replace(secret.expose(), "***")))
            }
            (Err(error), None) => Err(error.into()),
        }
    }
}
