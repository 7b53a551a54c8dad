//! Logins for Amazon's registries, which keys of AWS ask for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, Method, header};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::super::cache::hex;
use super::super::http::{Http, MAX_CREDENTIALS, Request, Tls};
use super::super::location::Location;
use super::aws::Keys;
use super::environment::variable;
use super::{BucketError, S3Keys};

/// What is sent.
const BODY: &str = "{}";

/// User and password for the registries of a region; `public`: those for the public one. `domain`: that of the registry's API.
///
/// # Errors
/// The keys are refused, or the answer has no login.
pub(super) async fn login(
    http: &Http,
    keys: S3Keys,
    region: &str,
    (api, public): (&str, bool),
) -> Result<(String, String), BucketError> {
    let own = if public { "AWS_ENDPOINT_URL_ECR_PUBLIC" } else { "AWS_ENDPOINT_URL_ECR" };
    let place = variable(&[own, "AWS_ENDPOINT_URL"]).unwrap_or_else(|| format!("https://{api}"));
    let url = Location::parse(&format!("{}/", place.trim_end_matches('/')))?;
    let (service, target) = match public {
        true => ("ecr-public", "SpencerFrontendService.GetAuthorizationToken"),
        false => ("ecr", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"),
    };
    let headers = [
        (header::CONTENT_TYPE, "application/x-amz-json-1.1".to_owned()),
        (HeaderName::from_static("x-amz-target"), target.to_owned()),
        (HeaderName::from_static("x-amz-content-sha256"), hex(&Sha256::digest(BODY))),
    ];
    let credentials = Keys::of(keys, region).sign_for(service, &Method::POST, &url, &headers).await?;
    let tls = Tls::default();
    let request = Request {
        confined: true,
        method: Method::POST,
        body: BODY.into(),
        credentials: Some(credentials),
        ..Request::get(url, &tls, MAX_CREDENTIALS)
    };
    let answer: Value = serde_json::from_slice(&http.fetch(request).await?).unwrap_or_default();
    let data = &answer["authorizationData"];
    let token = data[0]["authorizationToken"].as_str().or_else(|| data["authorizationToken"].as_str());
    let pair =
        token.and_then(|token| STANDARD.decode(token).ok()).and_then(|pair| String::from_utf8(pair).ok());
    let login = pair.as_deref().and_then(|pair| pair.split_once(':'));
    let (user, password) =
        login.ok_or_else(|| BucketError::Answer(format!("{place} answered without a login")))?;
    Ok((user.to_owned(), password.to_owned()))
}
