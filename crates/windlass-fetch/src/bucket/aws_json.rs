//! Operations of Amazon's APIs that take and answer JSON, signed by given keys.

use http::{HeaderName, Method, header};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use windlass_base::bounded_json;
use windlass_base::hex::hex;

use super::super::http::{Http, MAX_CREDENTIALS, Request, Tls};
use super::super::location::Location;
use super::aws::Keys;
use super::{BucketError, S3Keys};

/// An operation of an API.
pub(super) struct Operation<'o> {
    /// URL of the API.
    pub(super) place: &'o str,
    /// The service that the signature names.
    pub(super) service: &'o str,
    /// The name of the operation, with that of its version of the API.
    pub(super) target: &'o str,
}

/// Calls an operation. Errors have the name of the API's exception, and not its message.
///
/// # Errors
/// The server cannot be reached, refuses, or does not answer with JSON.
pub(super) async fn call(
    http: &Http,
    keys: S3Keys,
    region: &str,
    operation: &Operation<'_>,
    body: &Value,
) -> Result<Value, BucketError> {
    let &Operation { place, service, target } = operation;
    let url = Location::parse(&format!("{}/", place.trim_end_matches('/')))?;
    let body = body.to_string();
    let headers = [
        (header::CONTENT_TYPE, "application/x-amz-json-1.1".to_owned()),
        (HeaderName::from_static("x-amz-target"), target.to_owned()),
        (HeaderName::from_static("x-amz-content-sha256"), hex(&Sha256::digest(&body))),
    ];
    let credentials = Keys::of(keys, region).sign_for(service, &Method::POST, &url, &headers).await?;
    let tls = Tls::default();
    let request = Request {
        confined: true,
        method: Method::POST,
        body: body.into(),
        credentials: Some(credentials),
        ..Request::get(url, &tls, MAX_CREDENTIALS)
    };
    let answer = http.send(request).await?;
    let status = answer.status;
    if !status.is_success() {
        let why: Option<Value> = bounded_json::from_slice(&answer.complaint().await).ok();
        let kind = why.as_ref().and_then(|why| why["__type"].as_str()).unwrap_or_default();
        let kind = kind.rsplit('#').next().unwrap_or_default();
        return Err(BucketError::Refused { place: place.to_owned(), status, kind: kind.to_owned() });
    }
    // The parser's error would quote the answer.
    let malformed = |_| BucketError::Answer(format!("{place} did not answer with JSON"));
    bounded_json::from_slice(&answer.bytes().await?).map_err(malformed)
}
