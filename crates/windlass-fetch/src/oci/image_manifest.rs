//! Manifests of container images: the digest of a tag by a request without a body, and the platforms of an index.

use bytes::Bytes;
use http::{HeaderName, Method, StatusCode, header};
use serde::Deserialize;
use windlass_base::bounded_json;

use super::artifact_reference::{OciReference, is_digest};
use super::{Ask, MAX_MANIFEST, OciError, Registry, sha256};
use crate::http::Response;

/// What an image is described by: one manifest, or an index of those of its platforms.
const ACCEPT: [&str; 4] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// The most platforms of an index that are read.
const MAX_PLATFORMS: usize = 200;

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    digest: String,
}

impl Registry<'_> {
    /// The digest that a tag of an image points at. `known`: the digest of the last answer, for a conditional request.
    ///
    /// # Errors
    /// The image does not exist, the registry refuses, or its answer has no digest.
    pub async fn image_digest(
        &self,
        reference: &OciReference,
        known: Option<&str>,
    ) -> Result<String, OciError> {
        let mut headers = vec![(header::ACCEPT, ACCEPT.join(", "))];
        headers.extend(known.map(|digest| (header::IF_NONE_MATCH, format!("\"{digest}\""))));
        let response = self.image_request(Method::HEAD, reference, headers).await?;
        if let (StatusCode::NOT_MODIFIED, Some(known)) = (response.status, known) {
            return Ok(known.to_owned());
        }
        // Some registries have no HEAD, or send no digest with it.
        let unknown = matches!(response.status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED);
        if !unknown && response.status != StatusCode::OK {
            return Err(self.refusal(Method::HEAD, response, &reference.to_string()).await);
        }
        match response.header(HeaderName::from_static("docker-content-digest")) {
            Some(digest) if !unknown => checked(digest),
            _ => Ok(sha256(&self.image_manifest(reference).await?)),
        }
    }

    /// The digests of the images of each platform, if a digest is that of an index; else none.
    ///
    /// # Errors
    /// It does not exist, the registry refuses, or the answer is not of this digest.
    pub async fn image_platforms(&self, reference: &OciReference) -> Result<Vec<String>, OciError> {
        platforms(&self.image_manifest(reference).await?)
    }

    pub(super) async fn image_manifest(&self, reference: &OciReference) -> Result<Bytes, OciError> {
        let headers = vec![(header::ACCEPT, ACCEPT.join(", "))];
        let response = self.image_request(Method::GET, reference, headers).await?;
        if response.status != StatusCode::OK {
            return Err(self.refusal(Method::GET, response, &reference.to_string()).await);
        }
        let bytes = response.bytes().await?;
        let got = sha256(&bytes);
        match &reference.digest {
            Some(want) if *want != got => {
                Err(OciError::Digest { what: reference.to_string(), got, want: want.clone() })
            }
            _ => Ok(bytes),
        }
    }

    async fn image_request(
        &self,
        method: Method,
        reference: &OciReference,
        headers: Vec<(HeaderName, String)>,
    ) -> Result<Response, OciError> {
        let scope = format!("repository:{}:pull", reference.repository);
        let url = self.url(reference, &format!("manifests/{}", reference.wanted()))?;
        let ask = Ask { method, url, headers, body: Bytes::new(), limit: MAX_MANIFEST, scope: &scope };
        self.send(ask).await
    }
}

/// The digests of an index. What is no digest is that of no image.
fn platforms(index: &[u8]) -> Result<Vec<String>, OciError> {
    let index: Index =
        bounded_json::from_slice(index).map_err(|e| OciError::Answer(format!("manifest: {e}")))?;
    let digests = index.manifests.into_iter().map(|platform| platform.digest);
    Ok(digests.filter(|digest| is_digest(digest)).take(MAX_PLATFORMS).collect())
}

/// A digest as a registry sends it.
fn checked(digest: &str) -> Result<String, OciError> {
    match is_digest(digest) {
        true => Ok(digest.to_owned()),
        false => Err(OciError::Answer("its Docker-Content-Digest is not a SHA-256".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_digests_and_not_too_many() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let index = |digests: &[&str]| {
            let manifests: Vec<_> = digests.iter().map(|d| serde_json::json!({"digest": d})).collect();
            serde_json::json!({"manifests": manifests}).to_string()
        };
        let long = "x".repeat(100_000);
        let read = platforms(index(&["", &digest, &long, "sha512:a"]).as_bytes()).unwrap();
        assert_eq!(read, std::slice::from_ref(&digest));
        assert_eq!(platforms(index(&[digest.as_str(); 300]).as_bytes()).unwrap().len(), MAX_PLATFORMS);
        assert!(platforms(b"{}").unwrap().is_empty());
    }
}
