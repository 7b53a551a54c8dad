//! Tokens of Microsoft's Entra: for an application with a secret or a certificate, and for the identity of this process.

use http::HeaderName;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::path::Path;

use super::super::http::{Http, MAX_CREDENTIALS, Request, Tls};
use super::super::location::{Location, SEGMENT};
use super::super::signed_jwt::{self, Algorithm};
use super::environment::{read, variable};
use super::{BucketError, EntraApplication, EntraProof};
use windlass_base::bounded_json;
use windlass_base::redact::SecretText;

/// The authority of the public cloud.
const AUTHORITY: &str = "https://login.microsoftonline.com";
/// What a token of a JWT is asked for with (RFC 7523).
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// Lifetime of an assertion, in seconds.
const LIFE: i64 = 600;
/// Server of the tokens of a virtual machine.
const MACHINE: &str = "http://169.254.169.254";

/// A token for an application.
///
/// # Errors
/// The authority cannot be reached or refuses, or the certificate does not sign.
pub(super) async fn token(
    http: &Http,
    application: &EntraApplication,
    scope: &str,
) -> Result<SecretText, BucketError> {
    let authority = match application.authority.trim_end_matches('/') {
        "" => AUTHORITY,
        own => own,
    };
    let tenant = utf8_percent_encode(&application.tenant, SEGMENT);
    let place = format!("{authority}/{tenant}/oauth2/v2.0/token");
    let url = Location::parse(&place)?;
    if url.scheme != "https" && !url.is_loopback() {
        return Err(BucketError::Answer("authorityHost is not HTTPS".to_owned()));
    }
    let mut fields = vec![
        ("grant_type", "client_credentials"),
        ("client_id", application.client.as_str()),
        ("scope", scope),
    ];
    let assertion = match &application.proof {
        EntraProof::Secret(secret) => {
            fields.push(("client_secret", secret.expose()));
            None
        }
        EntraProof::Certificate { pem, sends_chain } => {
            Some(assertion(application, (pem, *sends_chain), &place, Timestamp::now())?)
        }
        EntraProof::Assertion(token) => Some(token.expose().to_owned()),
    };
    if let Some(assertion) = &assertion {
        fields.extend([("client_assertion_type", ASSERTION), ("client_assertion", assertion.as_str())]);
    }
    let tls = Tls::default();
    of_answer(http, Request::form(url, &tls, &fields), &place).await
}

/// The identity of this process: an application of the environment, or that of its virtual machine.
///
/// # Errors
/// There is none, or it is refused.
pub(super) async fn own_token(http: &Http, scope: &str) -> Result<SecretText, BucketError> {
    let named = variable(&["AZURE_TENANT_ID"]).zip(variable(&["AZURE_CLIENT_ID"]));
    let secret = variable(&["AZURE_CLIENT_SECRET"]).map(|secret| EntraProof::Secret(secret.into()));
    let proof = match (secret, variable(&["AZURE_FEDERATED_TOKEN_FILE"])) {
        (Some(secret), _) => Some(secret),
        (None, Some(file)) => {
            let missing = || BucketError::Answer(format!("AZURE_FEDERATED_TOKEN_FILE: {file}: no such file"));
            let token = read(Path::new(&file))?.ok_or_else(missing)?;
            Some(EntraProof::Assertion(token.trim().into()))
        }
        (None, None) => None,
    };
    if let (Some((tenant, client)), Some(proof)) = (named, proof) {
        let authority = variable(&["AZURE_AUTHORITY_HOST"]).unwrap_or_default();
        return token(http, &EntraApplication { authority, tenant, client, proof }, scope).await;
    }
    managed_token(http, variable(&["AZURE_CLIENT_ID"]).as_deref(), scope).await
}

/// A managed identity of this process' virtual machine; `client`: which one, if it has several.
///
/// # Errors
/// There is none, or it is refused.
pub(super) async fn managed_token(
    http: &Http,
    client: Option<&str>,
    scope: &str,
) -> Result<SecretText, BucketError> {
    let machine = variable(&["AZURE_POD_IDENTITY_AUTHORITY_HOST"]).unwrap_or_else(|| MACHINE.to_owned());
    let place = format!("{}/metadata/identity/oauth2/token", machine.trim_end_matches('/'));
    let url = Location::parse(&place)?.with_query(identity_query(client, scope));
    let tls = Tls::default();
    let mut request = Request { confined: true, ..Request::get(url, &tls, MAX_CREDENTIALS) };
    request.headers.push((HeaderName::from_static("metadata"), "true".to_owned()));
    of_answer(http, request, &place).await
}

/// What a virtual machine's metadata server is asked.
fn identity_query(client: Option<&str>, scope: &str) -> String {
    let escape = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let client = client.map_or_else(String::new, |id| format!("&client_id={}", escape(id)));
    format!("api-version=2018-02-01&resource={}{client}", escape(scope.trim_end_matches("/.default")))
}

async fn of_answer(http: &Http, request: Request<'_>, place: &str) -> Result<SecretText, BucketError> {
    let answer = http.send(request).await?;
    let status = answer.status;
    if !status.is_success() {
        // Entra says why, in a text that has no secret.
        let why: Option<Value> = bounded_json::from_slice(&answer.complaint().await).ok();
        let why = why.as_ref().and_then(|why| why["error_description"].as_str()).unwrap_or_default();
        let line = why.lines().next().unwrap_or_default();
        return Err(BucketError::Answer(
            format!("{place} answered {status}: {line}").trim_end_matches(": ").to_owned(),
        ));
    }
    let answer: Option<Value> = bounded_json::from_slice(&answer.bytes().await?).ok();
    let token = answer.as_ref().and_then(|a| a["access_token"].as_str()).filter(|t| !t.is_empty());
    token
        .map(SecretText::from)
        .ok_or_else(|| BucketError::Answer(format!("{place} answered without a token")))
}

/// A token that the application's certificate has signed.
fn assertion(
    application: &EntraApplication,
    (pem, sends_chain): (&[u8], bool),
    place: &str,
    now: Timestamp,
) -> Result<String, BucketError> {
    let wrong = |why: &str| BucketError::Answer(format!("clientCertificate {why}"));
    let chain: Vec<CertificateDer<'_>> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| wrong("is not a certificate in PEM"))?;
    let first = chain.first().ok_or_else(|| wrong("is not a certificate in PEM"))?;
    let mut head = json!({"x5t#S256": URL_SAFE_NO_PAD.encode(Sha256::digest(first))});
    if sends_chain {
        head["x5c"] = chain.iter().map(|one| STANDARD.encode(one)).collect();
    }
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|_| wrong("needs randomness"))?;
    let (now, client) = (now.as_second(), &application.client);
    let claims = json!({
        "aud": place, "iss": client, "sub": client, "jti": URL_SAFE_NO_PAD.encode(id),
        "iat": now, "nbf": now, "exp": now + LIFE,
    });
    signed_jwt::sign(Algorithm::Pss, head, &claims, pem).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_identities_is_asked_for() {
        let scope = "https://storage.azure.com/.default";
        let base = "api-version=2018-02-01&resource=https%3A%2F%2Fstorage%2Eazure%2Ecom";
        assert_eq!(identity_query(None, scope), base);
        assert_eq!(
            identity_query(Some("a-1&resource=b"), scope),
            format!("{base}&client_id=a%2D1%26resource%3Db")
        );
    }
}
