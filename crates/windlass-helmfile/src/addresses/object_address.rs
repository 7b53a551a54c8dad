//! Objects of buckets: `s3://BUCKET/KEY`, `s3::https://HOST/…`, `gcs::https://www.googleapis.com/storage/v1/BUCKET/OBJECT`.
//!
//! Owns which bucket, key and region an address names, and whose keys sign. Keys of the environment sign for Amazon's hosts and the
//! endpoint that the environment names; other hosts get the keys of the address itself, or none.

use bytes::Bytes;
use percent_encoding::percent_decode_str;

use super::address::Address;
use crate::error::HelmfileError;
use windlass_fetch::http::{Http, Tls};
use windlass_fetch::location::Location;
use windlass_fetch::{ObjectBucket, ObjectStorage, S3Keys, check_aws_region, object};

/// Parameters of addresses of objects, which no server sees.
const OWN: [&str; 8] = [
    "cache",
    "archive",
    "checksum",
    "region",
    "version",
    "aws_access_key_id",
    "aws_access_key_secret",
    "aws_access_token",
];
/// Host of Google's storage.
const GOOGLE: &str = "www.googleapis.com";

/// An object.
#[derive(Debug, PartialEq, Eq)]
pub struct ObjectAddress {
    /// The server, if it is not the cloud's own.
    server: Option<Location>,
    /// `s3://BUCKET/KEY` or `gs://BUCKET/OBJECT`.
    object: Location,
    region: Option<String>,
}

impl ObjectAddress {
    /// Reads the object of an address of the getters `s3` and `gcs`, or of an `s3://` address.
    ///
    /// # Errors
    /// The address names no object.
    pub fn of(address: &Address) -> Result<Self, HelmfileError> {
        let url = address.whole();
        let region = address.parameter("region");
        let out = match (address.getter.as_deref(), url.scheme.as_str()) {
            (_, "s3") => Self { server: None, object: url, region },
            (Some("gcs"), "https") if url.host == GOOGLE => {
                let path = url.path.strip_prefix("/storage/v1/").unwrap_or_default();
                let (bucket, key) = path.split_once('/').unwrap_or_default();
                Self { server: None, object: named("gs", bucket, key)?, region: None }
            }
            (Some("gcs"), _) => {
                return Err(HelmfileError::Address(format!(
                    "gcs:: takes https://{GOOGLE}/storage/v1/BUCKET/OBJECT"
                )));
            }
            (_, "http" | "https") => Self::of_s3_url(&url, region)?,
            (_, other) => {
                return Err(HelmfileError::Address(format!(
                    "buckets by {other:?} are not supported; there is https"
                )));
            }
        };
        if let Some(region) = &out.region {
            check_aws_region(region)
                .map_err(|error| HelmfileError::cause(error).within("the parameter \"region\""))?;
        }
        // Requests escape the key themselves.
        let key = percent_decode_str(&out.object.path).decode_utf8_lossy().into_owned();
        let out = Self { object: out.object.with_path(key), ..out };
        if out.object.host.is_empty() || out.object.path.trim_start_matches('/').is_empty() {
            return Err(HelmfileError::Address("it names no bucket and key".to_owned()));
        }
        Ok(out)
    }

    /// The bucket is in the path, or the first part of a host of Amazon's.
    fn of_s3_url(url: &Location, region: Option<String>) -> Result<Self, HelmfileError> {
        let in_path = || url.path.trim_start_matches('/').split_once('/').unwrap_or_default();
        let Some(host) = url.host.strip_suffix(".amazonaws.com") else {
            let (bucket, key) = in_path();
            let server = Location::parse(&format!("{}://{}", url.scheme, url.host));
            let server = server.map_err(|_| HelmfileError::Address("invalid URL".to_owned()))?;
            return Ok(Self { server: Some(server), object: named("s3", bucket, key)?, region });
        };
        let parts: Vec<&str> = host.split('.').collect();
        let of_dash = |name: &str| name.strip_prefix("s3-").map(str::to_owned);
        let (bucket, found) = match parts.as_slice() {
            ["s3"] => (None, None),
            ["s3", region] => (None, Some((*region).to_owned())),
            [one] => (
                None,
                Some(
                    of_dash(one)
                        .ok_or_else(|| HelmfileError::Address("the host is none of S3".to_owned()))?,
                ),
            ),
            [bucket, "s3"] => (Some(*bucket), None),
            [bucket, "s3", region] => (Some(*bucket), Some((*region).to_owned())),
            [bucket, one] => (
                Some(*bucket),
                Some(
                    of_dash(one)
                        .ok_or_else(|| HelmfileError::Address("the host is none of S3".to_owned()))?,
                ),
            ),
            _ => return Err(HelmfileError::Address("the host is none of S3".to_owned())),
        };
        let object = match bucket {
            Some(bucket) => named("s3", bucket, url.path.trim_start_matches('/'))?,
            None => {
                let (bucket, key) = in_path();
                named("s3", bucket, key)?
            }
        };
        Ok(Self { server: None, object, region: found.or(region) })
    }

    /// The name of the file that the object is.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.object.file_name()
    }

    /// Downloads the object, at most `limit` bytes.
    ///
    /// # Errors
    /// A parameter is not supported, the keys cannot be loaded, or the server refuses.
    pub async fn download(&self, address: &Address, http: &Http, limit: u64) -> Result<Bytes, HelmfileError> {
        if let Some(other) = address.parameters().find(|name| !OWN.contains(name)) {
            let hint = if other == "aws_profile" { "; set AWS_PROFILE" } else { "" };
            return Err(HelmfileError::Address(format!("the parameter {other:?} is not supported{hint}")));
        }
        let keys = keys_of(address)?;
        let version = address.parameter("version");
        if self.server.is_none() && keys.is_none() {
            let bytes = object(&self.object, self.region.as_deref(), version.as_deref(), http, limit).await;
            return bytes.map_err(HelmfileError::cause);
        }
        if version.is_some() {
            return Err(HelmfileError::Address(
                "the parameter \"version\" is for Amazon's hosts and keys of the environment".to_owned(),
            ));
        }
        let region = self.region.as_deref().unwrap_or("us-east-1");
        let endpoint = match &self.server {
            Some(server) => server.clone(),
            None => Location::parse(&format!("https://s3.{region}.amazonaws.com"))
                .map_err(HelmfileError::cause)?,
        };
        let storage = ObjectStorage::s3(region, keys).map_err(HelmfileError::cause)?;
        let tls = Tls::default();
        let bucket = ObjectBucket { http, tls: &tls, endpoint, name: &self.object.host, storage };
        let key = self.object.path.trim_start_matches('/');
        let found = bucket.get(key, limit).await.map_err(HelmfileError::cause)?;
        found.ok_or_else(|| {
            HelmfileError::Address(format!("the bucket {} has no object {key:?}", self.object.host))
        })
    }
}

/// The keys of an address, if it has some.
fn keys_of(address: &Address) -> Result<Option<S3Keys>, HelmfileError> {
    let parameter = |name: &str| address.parameter(name).filter(|value| !value.is_empty());
    let session = parameter("aws_access_token");
    let missing = match (parameter("aws_access_key_id"), parameter("aws_access_key_secret")) {
        (Some(access), Some(secret)) => {
            let (secret, session) = (secret.into(), session.map(Into::into));
            return Ok(Some(S3Keys { access, secret, session }));
        }
        (None, None) if session.is_none() => return Ok(None),
        (Some(_), None) => "aws_access_key_secret is",
        (None, Some(_)) => "aws_access_key_id is",
        (None, None) => "aws_access_key_id and aws_access_key_secret are",
    };
    Err(HelmfileError::Address(format!(
        "{missing} missing: set both aws_access_key_id and aws_access_key_secret"
    )))
}

/// An object of a bucket.
fn named(scheme: &str, bucket: &str, key: &str) -> Result<Location, HelmfileError> {
    Location::parse(&format!("{scheme}://{bucket}/{key}"))
        .map_err(|_| HelmfileError::Address("it names no bucket and key".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_base::redact::SecretText;

    fn of(text: &str) -> Result<ObjectAddress, HelmfileError> {
        ObjectAddress::of(&Address::parse(text).unwrap())
    }

    #[test]
    fn objects_are_read_from_addresses() {
        for (text, server, object, region) in [
            ("s3://bucket/a/b%20c.yaml", None, "s3://bucket/a/b c.yaml", None),
            ("s3::https://s3.amazonaws.com/bucket/a/b", None, "s3://bucket/a/b", None),
            ("s3::https://s3-eu-west-1.amazonaws.com/bucket/a", None, "s3://bucket/a", Some("eu-west-1")),
            ("s3::https://s3.eu-west-1.amazonaws.com/bucket/a", None, "s3://bucket/a", Some("eu-west-1")),
            ("s3::https://bucket.s3.eu-west-1.amazonaws.com/a/b", None, "s3://bucket/a/b", Some("eu-west-1")),
            (
                "s3::https://bucket.s3-eu-west-1.amazonaws.com/a.tgz@f",
                None,
                "s3://bucket/a.tgz",
                Some("eu-west-1"),
            ),
            (
                "s3::http://127.0.0.1:9000/bucket/a?region=r",
                Some("http://127.0.0.1:9000"),
                "s3://bucket/a",
                Some("r"),
            ),
            ("gcs::https://www.googleapis.com/storage/v1/bucket/a/b", None, "gs://bucket/a/b", None),
        ] {
            let found = of(text).unwrap();
            let parts = (
                found.server.as_ref().map(ToString::to_string),
                found.object.to_string(),
                found.region.as_deref(),
            );
            assert_eq!(parts, (server.map(str::to_owned), object.to_owned(), region), "{text}");
        }
        for text in [
            "s3::https://a.b.c.d.amazonaws.com/x",
            "s3::https://ec2.amazonaws.com/bucket/x",
            "s3::https://s3.amazonaws.com/x",
            "s3::ftp://h/b/x",
            "gcs::https://evil.example/storage/v1/b/x",
            "s3://bucket/x?region=a.evil.example/",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
        assert!(of("s3://bucket/x?region=").unwrap_err().to_string().contains("name one, or set AWS_REGION"));
    }

    #[test]
    fn keys_come_in_pairs() {
        let keys = |query: &str| keys_of(&Address::parse(&format!("s3://bucket/x?{query}")).unwrap());
        assert!(keys("region=r").unwrap().is_none());
        let both = keys("aws_access_key_id=a&aws_access_key_secret=b&aws_access_token=c").unwrap().unwrap();
        assert_eq!(
            (both.access.as_str(), both.secret.expose(), both.session.as_ref().map(SecretText::expose)),
            ("a", "b", Some("c"))
        );
        for (query, words) in [
            ("aws_access_key_id=hunter2", "aws_access_key_secret is missing"),
            ("aws_access_key_secret=hunter2", "aws_access_key_id is missing"),
            ("aws_access_key_id=&aws_access_key_secret=hunter2", "aws_access_key_id is missing"),
            ("aws_access_token=hunter2", "aws_access_key_id and aws_access_key_secret are missing"),
        ] {
            let told = keys(query).err().unwrap().to_string();
            assert!(
                told.starts_with(words) && told.contains("set both") && !told.contains("hunter2"),
                "{told}"
            );
        }
    }
}
