//! Buckets: packages at `s3://BUCKET/KEY` and `gs://BUCKET/KEY`, whole buckets, and the credentials of the clouds that have them.
//!
//! Owns what all kinds share. [`aws`], [`google`] and [`entra`] own credentials, [`s3`], [`google_storage`] and [`azure_blobs`] the
//! storages; each is a feature of the build.

#[cfg(feature = "s3")]
mod aws;
#[cfg(feature = "s3")]
mod aws_json;
#[cfg(feature = "azure")]
mod azure_blobs;
#[cfg(feature = "s3")]
mod ecr;
#[cfg(feature = "azure")]
mod entra;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
mod environment;
#[cfg(feature = "gcs")]
mod google;
#[cfg(feature = "gcs")]
mod google_storage;
mod object_bucket;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod security_tokens;
mod storage_access;

use std::io;

use bytes::Bytes;

#[cfg(any(feature = "s3", feature = "azure"))]
use crate::xml_elements::MalformedXml;

pub use self::object_bucket::{BucketObject, ObjectBucket, ObjectStorage};
pub(super) use self::storage_access::AZURE_REGISTRIES;
pub use self::storage_access::{
    AZURE_REPOSITORIES, AZURE_STORAGE, AwsApi, AwsSession, AzureAccess, CloudCredentials, EntraApplication,
    EntraProof, GOOGLE_PLATFORM, GOOGLE_STORAGE, S3Keys, check_aws_region,
};

use super::http::{Credentials, Http, HttpError, Request, Tls};
use super::location::{BadLocation, Location};
#[cfg(feature = "gcs")]
use windlass_base::redact::SecretText;

/// Why a package in a bucket cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The build lacks this kind of bucket.
    #[error("this build has no {scheme}:// URLs: it was made without the feature {feature:?}")]
    Feature {
        /// The scheme of the URL.
        scheme: String,
        /// The cargo feature for it.
        feature: &'static str,
    },
    /// The reference, or an endpoint, is not an address.
    #[error(transparent)]
    Location(#[from] BadLocation),
    /// A file of credentials cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// A credentials server cannot be reached, or refuses.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// An API refuses a request.
    #[error("{}", format!("{place} answered {status}: {kind}").trim_end_matches(": "))]
    Refused {
        /// URL of the API.
        place: String,
        /// The status of the answer.
        status: http::StatusCode,
        /// The name of the API's exception, such as `ResourceNotFoundException`; may be empty.
        kind: String,
    },
    /// A file or an answer is malformed.
    #[error("{0}")]
    Answer(String),
    /// The list of a bucket is malformed.
    #[error("the list of the bucket is malformed: {0}")]
    List(String),
}

#[cfg(any(feature = "s3", feature = "azure"))]
impl From<MalformedXml> for BucketError {
    fn from(error: MalformedXml) -> Self {
        Self::List(error.to_string())
    }
}

impl BucketError {
    /// Whether an API has nothing of the name that it was asked for.
    #[must_use]
    pub fn is_missing_resource(&self) -> bool {
        matches!(self, Self::Refused { kind, .. } if kind == "ResourceNotFoundException")
    }
}

#[cfg(any(feature = "s3", feature = "azure"))]
impl From<reqsign_core::Error> for BucketError {
    fn from(error: reqsign_core::Error) -> Self {
        Self::Answer(windlass_base::causes::chain(&error))
    }
}

/// Credentials for the server of a package.
pub(super) enum ObjectCredentials {
    #[cfg(feature = "gcs")]
    Token(SecretText),
    #[cfg(feature = "s3")]
    Keys(aws::Keys),
}

/// The address of an object, and the credentials for its server, if the environment has some. `region`: that of a bucket of S3, in
/// place of the environment's.
///
/// # Errors
/// The environment names credentials that cannot be loaded, or the build lacks such buckets.
#[cfg_attr(not(any(feature = "s3", feature = "gcs")), expect(unused_variables, reason = "all is refused"))]
pub(super) async fn place(
    bucket: &Location,
    region: Option<&str>,
    http: &Http,
) -> Result<(Location, Option<ObjectCredentials>), BucketError> {
    match bucket.scheme.as_str() {
        #[cfg(feature = "gcs")]
        "gs" => google::place(bucket, http).await,
        #[cfg(feature = "s3")]
        "s3" => aws::place(bucket, region, http).await,
        scheme => {
            let feature = if scheme == "gs" { "gcs" } else { "s3" };
            Err(BucketError::Feature { scheme: scheme.to_owned(), feature })
        }
    }
}

/// The content of an object at `s3://BUCKET/KEY` or `gs://BUCKET/KEY`, at most `limit` bytes, by the credentials of the environment.
/// `region`: as for S3's buckets; `version`: the version of the object, or its generation.
///
/// # Errors
/// The credentials cannot be loaded, the server cannot be reached or refuses, or the object is too large.
pub async fn object(
    bucket: &Location,
    region: Option<&str>,
    version: Option<&str>,
    http: &Http,
    limit: u64,
) -> Result<Bytes, BucketError> {
    let (mut url, asker) = place(bucket, region, http).await?;
    if let Some(version) = version {
        let name = if bucket.scheme == "gs" { "generation" } else { "versionId" };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
        if !version.chars().all(plain) {
            return Err(BucketError::Answer(format!("{version:?} is not a version of an object")));
        }
        url = url.with_query(format!("{name}={version}"));
    }
    let tls = Tls::default();
    let mut request = Request::get(url, &tls, limit);
    if let Some(asker) = asker {
        request.credentials = Some(asker.credentials(&request.url).await?);
    }
    Ok(http.fetch(request).await?)
}

impl ObjectCredentials {
    /// The credentials of a `GET` of a URL.
    ///
    /// # Errors
    /// The keys have expired, or cannot sign.
    #[cfg_attr(not(feature = "s3"), expect(unused_variables, reason = "signatures alone depend on the URL"))]
    pub(super) async fn credentials(&self, url: &Location) -> Result<Credentials, BucketError> {
        match *self {
            #[cfg(feature = "gcs")]
            Self::Token(ref token) => Ok(Credentials::Bearer(token.clone())),
            #[cfg(feature = "s3")]
            Self::Keys(ref keys) => keys.sign(url).await,
        }
    }
}
