//! Uploads of blobs: from memory in one request, from files in parts, or by a mount of what another repository of the registry has.

use std::fs::File;
use std::io::{Read as _, Seek as _};

use bytes::Bytes;
use http::{HeaderName, Method, StatusCode, header};

use super::artifact_reference::OciReference;
use super::{Ask, MAX_MANIFEST, OciError, Registry};
use crate::http::{Request, Response};
use crate::location::Location;

/// The size of a part, in bytes. Some registries take no smaller ones, others no larger ones than 100 MB.
const PART: u64 = 8 << 20;

/// The digest of a blob as part of a query.
fn encoded(digest: &str) -> String {
    digest.replace(':', "%3A")
}

impl Registry<'_> {
    /// Uploads a blob unless it exists.
    pub(super) async fn upload(
        &self,
        reference: &OciReference,
        bytes: Bytes,
        digest: &str,
    ) -> Result<(), OciError> {
        match self.begin_upload(reference, digest).await? {
            Some(url) => self.finish_upload(reference, url, bytes, digest).await,
            None => Ok(()),
        }
    }

    /// Uploads a blob of a file unless it exists.
    ///
    /// # Errors
    /// The registry refuses it, or the file cannot be read.
    pub(super) async fn upload_file(
        &self,
        reference: &OciReference,
        file: &mut File,
        size: u64,
        digest: &str,
    ) -> Result<(), OciError> {
        let Some(mut url) = self.begin_upload(reference, digest).await? else { return Ok(()) };
        file.rewind()?;
        let mut sent = 0;
        while size - sent > PART {
            let part = read_part(file, PART)?;
            let end = sent + part.len() as u64;
            let range = (HeaderName::from_static("content-range"), format!("{sent}-{}", end - 1));
            let response = self.upload_request(reference, Method::PATCH, url, vec![range], part).await?;
            if response.status != StatusCode::ACCEPTED {
                return Err(self.refusal(Method::PATCH, response, &reference.to_string()).await);
            }
            url = upload_url(&response)?;
            sent = end;
        }
        let last = read_part(file, size - sent)?;
        self.finish_upload(reference, url, last, digest).await
    }

    /// Asks the registry to take a blob from another of its repositories. Returns whether it did.
    pub(super) async fn mount(
        &self,
        reference: &OciReference,
        from: &str,
        digest: &str,
    ) -> Result<bool, OciError> {
        let query = format!("mount={}&from={}", encoded(digest), from.replace('/', "%2F"));
        let url = self.url(reference, "blobs/uploads/")?.with_query(query);
        let scope = format!("repository:{}:pull,push repository:{from}:pull", reference.repository);
        let (method, headers, body) = (Method::POST, Vec::new(), Bytes::new());
        match self.send(Ask { method, url, headers, body, limit: MAX_MANIFEST, scope: &scope }).await {
            Ok(response) => Ok(response.status == StatusCode::CREATED),
            // Who may read the other repository may do it by a login of its own: then the blob is copied.
            Err(OciError::Denied { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the repository has a blob.
    pub(super) async fn has_blob(&self, reference: &OciReference, digest: &str) -> Result<bool, OciError> {
        let url = self.url(reference, &format!("blobs/{digest}"))?;
        let response = self.upload_request(reference, Method::HEAD, url, Vec::new(), Bytes::new()).await?;
        Ok(response.status == StatusCode::OK)
    }

    /// Where a blob is to be uploaded; `None` if it exists.
    async fn begin_upload(
        &self,
        reference: &OciReference,
        digest: &str,
    ) -> Result<Option<Location>, OciError> {
        if self.has_blob(reference, digest).await? {
            return Ok(None);
        }
        let url = self.url(reference, "blobs/uploads/")?;
        let response = self.upload_request(reference, Method::POST, url, Vec::new(), Bytes::new()).await?;
        match response.status {
            StatusCode::ACCEPTED => upload_url(&response).map(Some),
            _ => Err(self.refusal(Method::POST, response, &reference.to_string()).await),
        }
    }

    async fn finish_upload(
        &self,
        reference: &OciReference,
        url: Location,
        bytes: Bytes,
        digest: &str,
    ) -> Result<(), OciError> {
        let query = match &url.query {
            Some(query) if !query.is_empty() => format!("{query}&digest={}", encoded(digest)),
            _ => format!("digest={}", encoded(digest)),
        };
        let response =
            self.upload_request(reference, Method::PUT, url.with_query(query), Vec::new(), bytes).await?;
        match response.status {
            StatusCode::CREATED => Ok(()),
            _ => Err(self.refusal(Method::PUT, response, &reference.to_string()).await),
        }
    }

    /// A request of an upload, be it to the storage of a registry on another server.
    async fn upload_request(
        &self,
        reference: &OciReference,
        method: Method,
        url: Location,
        mut headers: Vec<(HeaderName, String)>,
        body: Bytes,
    ) -> Result<Response, OciError> {
        if !body.is_empty() {
            headers.push((header::CONTENT_TYPE, "application/octet-stream".to_owned()));
        }
        let home = self.url(reference, "")?;
        if url.same_origin(&home) {
            let scope = format!("repository:{}:pull,push", reference.repository);
            return self.send(Ask { method, url, headers, body, limit: MAX_MANIFEST, scope: &scope }).await;
        }
        if home.scheme == "https" && url.scheme != "https" {
            return Err(OciError::Answer(format!("it wants the blob at {url} in plain text")));
        }
        // Storage on another server receives no credentials, and its challenges are not answered.
        let tls = self.tls.without_identity();
        let request = Request { method, headers, body, ..Request::get(url, &tls, MAX_MANIFEST) };
        Ok(self.http.send(request).await?)
    }
}

/// Where an upload goes on.
fn upload_url(response: &Response) -> Result<Location, OciError> {
    let place = response.header(header::LOCATION).ok_or_else(|| OciError::Answer("no upload URL".into()))?;
    Ok(response.url.join(place)?)
}

/// The next bytes of a file.
fn read_part(file: &mut File, size: u64) -> Result<Bytes, OciError> {
    let mut part = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    file.read_exact(&mut part)?;
    Ok(part.into())
}
