//! Requests to S3 with the credentials that Amazon's tools use.
//!
//! reqsign signs, and loads credentials from variables, SSO, assumed roles and virtual machines. This module loads
//! profiles, which also set region and endpoint, web identities and containers' credentials: for these reqsign uses
//! Amazon's servers only, and rejects answers without an expiry.
//!
//! Credential programs are not run, and a virtual machine's metadata server is used only if
//! `AWS_EC2_METADATA_SERVICE_ENDPOINT` names it.

mod profile;
mod reqsign_context;

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::PoisonError;
use windlass_base::bounded_json;

use http::{HeaderName, Method, header};
use reqsign_aws_v4::{
    AssumeRoleCredentialProvider, Credential, EMPTY_STRING_SHA256, EnvCredentialProvider,
    IMDSv2CredentialProvider, RequestSigner, SSOCredentialProvider, StaticCredentialProvider,
};
use reqsign_core::{Context, ProvideCredential as _, SignRequest as _, Signer};
use serde_json::Value;

use self::profile::Profiles;
use super::super::http::{Credentials, Http, MAX_CREDENTIALS, Request, Tls, address};
use super::super::location::{Location, is_host_label};
use super::environment::{key, read, variable};
use super::security_tokens::{self, no_keys};
use super::{BucketError, ObjectCredentials, S3Keys, check_aws_region};

/// Maximum number of profiles in a chain of sources.
const MAX_PROFILES: u8 = 8;

/// Keys for one region.
pub(in super::super) struct Keys {
    credential: Credential,
    region: String,
}

/// The address of an object, and the credentials for its server, if the environment has some.
///
/// # Errors
/// The environment names credentials that cannot be loaded.
pub(super) async fn place(
    bucket: &Location,
    region: Option<&str>,
    http: &Http,
) -> Result<(Location, Option<ObjectCredentials>), BucketError> {
    let profiles = Profiles::load()?;
    let region = region.map_or_else(|| profiles.region(), str::to_owned);
    check_aws_region(&region)?;
    let (key, host) = (key(bucket), &bucket.host);
    let url = match profiles.endpoint() {
        Some(endpoint) => format!("{}/{host}/{key}", endpoint.trim_end_matches('/')),
        // A name with dots is not a host name under the server's certificate.
        None if is_host_label(host) => format!("https://{host}.s3.{region}.amazonaws.com/{key}"),
        None => format!("https://s3.{region}.amazonaws.com/{host}/{key}"),
    };
    let url = Location::parse(&url)?;
    let sts = variable(&["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"]);
    let sts = sts.map(|text| Location::parse(&text)).transpose()?;
    let (context, failure) = reqsign_context::new(http, sts.clone());
    let chain = Chain { http, context, failure, sts, region, profiles };
    let credential = chain.find().await?;
    let region = chain.region;
    Ok((url, credential.map(|credential| ObjectCredentials::Keys(Keys { credential, region }))))
}

/// The region of the environment or of the selected profile.
///
/// # Errors
/// The profile cannot be read.
pub(super) fn own_region() -> Result<String, BucketError> {
    Ok(Profiles::load()?.region())
}

/// The keys of this process; unlike for a package, a virtual machine's metadata server needs no variable.
///
/// # Errors
/// The region is none, there are no keys, or a configured source does not provide its credentials.
pub(super) async fn own_keys(
    http: &Http,
    region: &str,
    sts: Option<Location>,
) -> Result<S3Keys, BucketError> {
    check_aws_region(region)?;
    let replaced = || variable(&["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"]);
    let sts = match sts {
        Some(sts) => Some(sts),
        None => replaced().map(|text| Location::parse(&text)).transpose()?,
    };
    let (context, failure) = reqsign_context::new(http, sts.clone());
    let profiles = Profiles::load()?;
    let chain = Chain { http, context, failure, sts, region: region.to_owned(), profiles };
    let found = match chain.find().await? {
        Some(found) => Some(found),
        None => IMDSv2CredentialProvider::new().provide_credential(&chain.context).await?,
    };
    let none = || BucketError::Answer("this process has no credentials for AWS".to_owned());
    let Credential { access_key_id: access, secret_access_key: secret, session_token: session, .. } =
        found.ok_or_else(none)?;
    Ok(S3Keys { access, secret: secret.into(), session: session.map(Into::into) })
}

impl Keys {
    /// Given keys for a region.
    pub(super) fn of(keys: S3Keys, region: &str) -> Self {
        Self { credential: keys.into(), region: region.to_owned() }
    }

    /// The headers that sign a `GET` of a URL.
    ///
    /// # Errors
    /// The keys have expired.
    pub(super) async fn sign(&self, url: &Location) -> Result<Credentials, BucketError> {
        let digest = HeaderName::from_static("x-amz-content-sha256");
        self.sign_for("s3", &Method::GET, url, &[(digest, EMPTY_STRING_SHA256.to_owned())]).await
    }

    /// The headers that sign a request to a service, with those that are given.
    ///
    /// # Errors
    /// The keys have expired.
    pub(super) async fn sign_for(
        &self,
        service: &str,
        method: &Method,
        url: &Location,
        headers: &[(HeaderName, String)],
    ) -> Result<Credentials, BucketError> {
        let wrong = |reason: String| BucketError::Answer(format!("{url}: {reason}"));
        let address = address(url).map_err(|e| wrong(e.to_string()))?;
        let mut request = http::Request::builder().method(method).uri(address.as_str());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(()).map_err(|e| wrong(e.to_string()))?;
        let mut parts = request.into_parts().0;
        let signer = RequestSigner::new(service, &self.region);
        signer.sign_request(&Context::new(), &mut parts, Some(&self.credential), None).await?;
        // The client sets the header `Host`.
        parts.headers.remove(header::HOST);
        let text = |(k, v): (&HeaderName, &http::HeaderValue)| Some((k.clone(), v.to_str().ok()?.to_owned()));
        Ok(Credentials::Signed(parts.headers.iter().filter_map(text).collect()))
    }
}

/// The sources of credentials.
struct Chain<'h> {
    http: &'h Http,
    /// reqsign's view of this machine.
    context: Context,
    failure: reqsign_context::Failure,
    /// A token service that replaces Amazon's.
    sts: Option<Location>,
    region: String,
    profiles: Profiles,
}

impl Chain<'_> {
    /// Returns the first credentials that exist.
    ///
    /// # Errors
    /// A configured source does not provide its credentials.
    async fn find(&self) -> Result<Option<Credential>, BucketError> {
        if let Some(found) = EnvCredentialProvider::new().provide_credential(&self.context).await? {
            return Ok(Some(found));
        }
        let given = variable(&["AWS_WEB_IDENTITY_TOKEN_FILE"]).zip(variable(&["AWS_ROLE_ARN"]));
        if let Some((file, role)) = given {
            let session = variable(&["AWS_ROLE_SESSION_NAME"]);
            return self.web_identity(Path::new(&file), &role, session.as_deref()).await.map(Some);
        }
        if let Some(found) = self.of_profile(self.profiles.chosen(), MAX_PROFILES).await? {
            return Ok(Some(found));
        }
        let relative = variable(&["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"])
            .map(|path| format!("http://169.254.170.2{path}"));
        if let Some(url) = relative.or_else(|| variable(&["AWS_CONTAINER_CREDENTIALS_FULL_URI"])) {
            return self.container(&url).await.map(Some);
        }
        if variable(&["AWS_EC2_METADATA_SERVICE_ENDPOINT"]).is_some() {
            return Ok(IMDSv2CredentialProvider::new().provide_credential(&self.context).await?);
        }
        Ok(None)
    }

    /// The credentials of a profile; `left`: how many more profiles its chain may have.
    fn of_profile<'a>(
        &'a self,
        name: &'a str,
        left: u8,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Credential>, BucketError>> + Send + 'a>> {
        Box::pin(async move {
            let profile = self.profiles.get(name);
            let own = |key: &str| profile.get(key).filter(|v| !v.is_empty()).map(String::as_str);
            let session = variable(&["AWS_ROLE_SESSION_NAME"]);
            let session = session.as_deref().or_else(|| own("role_session_name"));
            if let (Some(role), Some(source)) = (own("role_arn"), own("source_profile")) {
                let left =
                    left.checked_sub(1).ok_or_else(|| wrong(name, "source_profile leads in a circle"))?;
                let keys = match source == name {
                    true => keys_of(&profile),
                    false => self.of_profile(source, left).await?,
                };
                let keys = keys.ok_or_else(|| wrong(source, "it has no credentials"))?;
                return self.role(name, role, keys, session.unwrap_or("windlass"), &profile).await.map(Some);
            }
            if let Some(found) = keys_of(&profile) {
                return Ok(Some(found));
            }
            if let (Some(file), Some(role)) = (own("web_identity_token_file"), own("role_arn")) {
                return self.web_identity(Path::new(file), role, session).await.map(Some);
            }
            if own("role_arn").is_some() {
                return Err(wrong(name, "role_arn wants source_profile or web_identity_token_file"));
            }
            self.sso(&profile).await
        })
    }

    /// A role that other keys may assume (`AssumeRole`).
    async fn role(
        &self,
        name: &str,
        role: &str,
        keys: Credential,
        session: &str,
        profile: &BTreeMap<String, String>,
    ) -> Result<Credential, BucketError> {
        let mut source = StaticCredentialProvider::new(&keys.access_key_id, &keys.secret_access_key);
        if let Some(token) = &keys.session_token {
            source = source.with_session_token(token);
        }
        let signer = Signer::new(self.context.clone(), source, RequestSigner::new("sts", &self.region));
        let mut provider = AssumeRoleCredentialProvider::new(role.to_owned(), signer)
            .with_region(self.region.clone())
            .with_regional_sts_endpoint()
            .with_role_session_name(session.to_owned());
        if let Some(id) = profile.get("external_id") {
            provider = provider.with_external_id(id.clone());
        }
        let found = provider.provide_credential(&self.context).await.map_err(|error| {
            let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            failure.map_or_else(|| error.into(), BucketError::from)
        })?;
        found.ok_or_else(|| wrong(name, "the role has no credentials"))
    }

    /// A role of an `aws sso login` session.
    async fn sso(&self, profile: &BTreeMap<String, String>) -> Result<Option<Credential>, BucketError> {
        let shared = profile.get("sso_session").map(|name| self.profiles.sso_session(name));
        let own = |key: &str| profile.get(key).or_else(|| shared.as_ref()?.get(key));
        let (Some(account), Some(role)) = (own("sso_account_id"), own("sso_role_name")) else {
            return Ok(None);
        };
        // The token is in a file named by the session, or else by the URL.
        let (Some(login), Some(region)) =
            (profile.get("sso_session").or_else(|| own("sso_start_url")), own("sso_region"))
        else {
            return Ok(None);
        };
        check_aws_region(region)?;
        let provider = SSOCredentialProvider::new()
            .with_account_id(account)
            .with_role_name(role)
            .with_region(region)
            .with_start_url(login);
        Ok(provider.provide_credential(&self.context).await?)
    }

    /// A role for a token (`AssumeRoleWithWebIdentity`).
    async fn web_identity(
        &self,
        file: &Path,
        role: &str,
        session: Option<&str>,
    ) -> Result<Credential, BucketError> {
        let token = required(file)?;
        let amazons = || Location::parse(&format!("https://sts.{}.amazonaws.com/", self.region));
        let url = self.sts.clone().map_or_else(amazons, Ok)?;
        let fields = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("RoleArn", role),
            ("RoleSessionName", session.unwrap_or("windlass")),
            ("WebIdentityToken", token.trim()),
        ];
        Ok(security_tokens::ask(self.http, &Tls::default(), &url, &fields).await?.into())
    }

    /// The credentials of a container's agent.
    async fn container(&self, url: &str) -> Result<Credential, BucketError> {
        let token = match variable(&["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]) {
            Some(file) => Some(required(Path::new(&file))?.trim().to_owned()),
            None => variable(&["AWS_CONTAINER_AUTHORIZATION_TOKEN"]),
        };
        let location = Location::parse(url)?;
        // The token is a secret: plain HTTP only to this machine and the addresses of agents.
        let agents = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];
        if location.scheme != "https" && !location.is_loopback() && !agents.contains(&location.hostname()) {
            let text =
                format!("AWS_CONTAINER_CREDENTIALS_FULL_URI: {url} is neither HTTPS nor a container's agent");
            return Err(BucketError::Answer(text));
        }
        let tls = Tls::default();
        let mut request = Request { confined: true, ..Request::get(location, &tls, MAX_CREDENTIALS) };
        request.credentials = token.map(|t| Credentials::Signed(vec![(header::AUTHORIZATION, t)]));
        let answer = self.http.fetch(request).await?;
        let answer: Value = bounded_json::from_slice(&answer).map_err(|_| no_keys(url))?;
        let part = |name: &str| answer[name].as_str().filter(|v| !v.is_empty()).map(str::to_owned);
        let (id, secret) = part("AccessKeyId").zip(part("SecretAccessKey")).ok_or_else(|| no_keys(url))?;
        Ok(credential(id, secret, part("Token")))
    }
}

/// The keys in a profile.
fn keys_of(profile: &BTreeMap<String, String>) -> Option<Credential> {
    let own = |key: &str| profile.get(key).filter(|v| !v.is_empty()).cloned();
    let (id, secret) = own("aws_access_key_id").zip(own("aws_secret_access_key"))?;
    Some(credential(id, secret, own("aws_session_token")))
}

impl From<S3Keys> for Credential {
    fn from(keys: S3Keys) -> Self {
        let session = keys.session.map(|token| token.expose().to_owned());
        credential(keys.access, keys.secret.expose().to_owned(), session)
    }
}

fn credential(access_key_id: String, secret_access_key: String, session_token: Option<String>) -> Credential {
    Credential { access_key_id, secret_access_key, session_token, expires_in: None }
}

fn wrong(profile: &str, reason: &str) -> BucketError {
    BucketError::Answer(format!("AWS profile {profile:?}: {reason}"))
}

/// Reads a file that must exist.
fn required(path: &Path) -> Result<String, BucketError> {
    read(path)?
        .ok_or_else(|| BucketError::Answer(format!("open {}: no such file or directory", path.display())))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_region_names_no_other_server() {
        let http = Http::new(Duration::from_secs(1), true);
        let error = own_keys(&http, "", None).await.err().unwrap().to_string();
        assert_eq!(error, "the region of AWS is empty: name one, or set AWS_REGION");
        for region in ["evil.example/", "x@evil.example/", "evil.example#", "a?", "a:1", "a b", "a\n"] {
            let error = own_keys(&http, region, None).await.err().expect(region).to_string();
            assert_eq!(error, format!("{region:?} is not the name of a region of AWS"));
        }
    }
}
