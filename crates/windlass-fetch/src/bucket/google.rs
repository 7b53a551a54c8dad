//! Requests to Google's storage with the credentials that Google's tools use: a token of the environment,
//! or one for the application default credentials: a service account's key, a user's login, or the metadata server
//! that `GCE_METADATA_HOST` names.
//!
//! Does not use reqsign's crate for Google: it ignores the token server in the file, and signs with the crate rsa,
//! which has a timing side channel (RUSTSEC-2023-0071).

use http::HeaderName;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

use super::super::helm_paths::user_home;
use super::super::http::{Http, MAX_CREDENTIALS, Request, Tls};
use super::super::location::Location;
use super::super::signed_jwt::{self, Algorithm};
use super::environment::{key, read, variable};
use super::{BucketError, GOOGLE_STORAGE, ObjectCredentials};
use windlass_base::bounded_json;
use windlass_base::redact::SecretText;

/// The token server, unless the credentials name another.
const TOKENS: &str = "https://oauth2.googleapis.com/token";
/// Lifetime of a signed request for a token, in seconds.
const LIFE: i64 = 3600;

/// The file of the application default credentials.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Credentials {
    #[serde(rename = "type")]
    kind: String,
    client_email: String,
    private_key: SecretText,
    private_key_id: String,
    client_id: String,
    client_secret: SecretText,
    refresh_token: SecretText,
    token_uri: String,
}

/// The address of a package, and the credentials for its server, if the environment has some.
///
/// # Errors
/// The credentials cannot be read or are refused.
pub(super) async fn place(
    bucket: &Location,
    http: &Http,
) -> Result<(Location, Option<ObjectCredentials>), BucketError> {
    let endpoint = variable(&["STORAGE_EMULATOR_HOST"]);
    let endpoint = endpoint.unwrap_or_else(|| "https://storage.googleapis.com".to_owned());
    let endpoint = if endpoint.contains("://") { endpoint } else { format!("http://{endpoint}") };
    let url = format!("{}/{}/{}", endpoint.trim_end_matches('/'), bucket.host, key(bucket));
    Ok((Location::parse(&url)?, token(http, GOOGLE_STORAGE).await?.map(ObjectCredentials::Token)))
}

/// The token; `None` without credentials.
///
/// # Errors
/// The credentials cannot be read or are refused.
pub(super) async fn token(http: &Http, scope: &str) -> Result<Option<SecretText>, BucketError> {
    if let Some(token) = variable(&["GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"]) {
        return Ok(Some(token.into()));
    }
    let asked = variable(&["GOOGLE_APPLICATION_CREDENTIALS"]).map(PathBuf::from);
    let usual = || {
        let directory = variable(&["CLOUDSDK_CONFIG"]).map(PathBuf::from);
        directory
            .unwrap_or_else(|| user_home().join(".config/gcloud"))
            .join("application_default_credentials.json")
    };
    let path = asked.clone().unwrap_or_else(usual);
    match read(&path)? {
        Some(text) => exchange(http, &path.display().to_string(), text.as_bytes(), scope).await.map(Some),
        None if asked.is_some() => Err(malformed(&path.display().to_string(), "no such file")),
        None => match variable(&["GCE_METADATA_HOST"]) {
            Some(host) => metadata(http, &host).await.map(Some),
            None => Ok(None),
        },
    }
}

/// The token of this process; unlike for a package, the metadata server needs no variable.
///
/// # Errors
/// It has no identity, or it is refused.
pub(super) async fn own_token(http: &Http, scope: &str) -> Result<SecretText, BucketError> {
    match token(http, scope).await? {
        Some(token) => Ok(token),
        None => metadata(http, "metadata.google.internal").await,
    }
}

fn malformed(place: &str, reason: &str) -> BucketError {
    BucketError::Answer(format!("{place}: {reason}"))
}

/// A token for credentials in JSON; `path`: where they come from, for errors.
///
/// # Errors
/// They are malformed or of another type, or the token server refuses.
pub(super) async fn exchange(
    http: &Http,
    path: &str,
    text: &[u8],
    scope: &str,
) -> Result<SecretText, BucketError> {
    // The parser's error would quote the file.
    let credentials: Credentials =
        bounded_json::from_slice(text).map_err(|_| malformed(path, "not credentials as JSON"))?;
    let place = if credentials.token_uri.is_empty() { TOKENS } else { &credentials.token_uri };
    let signed;
    let fields = match credentials.kind.as_str() {
        "service_account" => {
            let assertion = assertion(&credentials, (place, scope), Timestamp::now());
            signed = assertion.map_err(|e| malformed(path, &format!("private_key {e}")))?;
            vec![
                ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                ("assertion", signed.as_str()),
            ]
        }
        "authorized_user" => vec![
            ("grant_type", "refresh_token"),
            ("client_id", credentials.client_id.as_str()),
            ("client_secret", credentials.client_secret.expose()),
            ("refresh_token", credentials.refresh_token.expose()),
        ],
        other => {
            let reason = format!(
                "credentials of type {other:?} are not understood: service_account or authorized_user"
            );
            return Err(malformed(path, &reason));
        }
    };
    let (url, tls) = (Location::parse(place)?, Tls::default());
    if url.scheme != "https" && !url.is_loopback() {
        return Err(malformed(path, "token_uri is not HTTPS"));
    }
    of_answer(place, &http.fetch(Request::form(url, &tls, &fields)).await?)
}

async fn metadata(http: &Http, host: &str) -> Result<SecretText, BucketError> {
    let place = format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token");
    let (url, tls) = (Location::parse(&place)?, Tls::default());
    let mut request = Request { confined: true, ..Request::get(url, &tls, MAX_CREDENTIALS) };
    request.headers.push((HeaderName::from_static("metadata-flavor"), "Google".to_owned()));
    of_answer(&place, &http.fetch(request).await?)
}

fn of_answer(place: &str, answer: &[u8]) -> Result<SecretText, BucketError> {
    let answer: Option<Value> = bounded_json::from_slice(answer).ok();
    let token = answer.as_ref().and_then(|a| a["access_token"].as_str()).filter(|t| !t.is_empty());
    token
        .map(SecretText::from)
        .ok_or_else(|| BucketError::Answer(format!("{place} answered without a token")))
}

/// A request for a token that the service account's key has signed (RFC 7523).
fn assertion(
    credentials: &Credentials,
    (place, scope): (&str, &str),
    now: Timestamp,
) -> Result<String, &'static str> {
    let head = json!({"kid": credentials.private_key_id});
    let now = now.as_second();
    let claims =
        json!({"iss": credentials.client_email, "scope": scope, "aud": place, "iat": now, "exp": now + LIFE});
    signed_jwt::sign(Algorithm::Pkcs1, head, &claims, credentials.private_key.expose().as_bytes())
}
