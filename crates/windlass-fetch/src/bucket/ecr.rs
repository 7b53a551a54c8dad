//! Logins for Amazon's registries, which keys of AWS ask for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::super::http::Http;
use super::aws_json::{self, Operation};
use super::environment::variable;
use super::{BucketError, S3Keys};
use windlass_base::redact::SecretText;

/// User and password for the registries of a region; `public`: those for the public one. `domain`: that of the registry's API.
///
/// # Errors
/// The keys are refused, or the answer has no login.
pub(super) async fn login(
    http: &Http,
    keys: S3Keys,
    region: &str,
    (api, public): (&str, bool),
) -> Result<(String, SecretText), BucketError> {
    let own = if public { "AWS_ENDPOINT_URL_ECR_PUBLIC" } else { "AWS_ENDPOINT_URL_ECR" };
    let place = variable(&[own, "AWS_ENDPOINT_URL"]).unwrap_or_else(|| format!("https://{api}"));
    let (service, target) = match public {
        true => ("ecr-public", "SpencerFrontendService.GetAuthorizationToken"),
        false => ("ecr", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"),
    };
    let operation = Operation { place: &place, service, target };
    let answer = aws_json::call(http, keys, region, &operation, &json!({})).await?;
    let data = &answer["authorizationData"];
    let token = data[0]["authorizationToken"].as_str().or_else(|| data["authorizationToken"].as_str());
    let pair =
        token.and_then(|token| STANDARD.decode(token).ok()).and_then(|pair| String::from_utf8(pair).ok());
    let login = pair.as_deref().and_then(|pair| pair.split_once(':'));
    let (user, password) =
        login.ok_or_else(|| BucketError::Answer(format!("{place} answered without a login")))?;
    Ok((user.to_owned(), password.into()))
}
