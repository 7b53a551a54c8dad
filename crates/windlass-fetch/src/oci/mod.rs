//! Registries: pulls and pushes charts as OCI artifacts, lists tags, checks logins.
//!
//! Owns the distribution protocol as far as charts and bundles need it. [`artifact_reference`]: names; [`credentials`]: stored
//! credentials; `auth`: challenges; `artifact`: charts as artifacts; [`packed_artifact`]: artifacts of one layer; `image_manifest`:
//! digests of container images; `image_layer`, `appended_layer`: an image with a further layer; `blob_upload`: uploads; `tag_list`:
//! tags; [`cosign`]: signatures of artifacts; [`cloud_login`]: registries of clouds.

mod appended_layer;
mod artifact;
pub mod artifact_reference;
mod auth;
mod blob_upload;
pub mod cloud_login;
pub mod cosign;
pub mod credentials;
mod image_layer;
mod image_manifest;
pub mod packed_artifact;
mod tag_list;

use std::time::Duration;

use bytes::Bytes;
use chart_compat::chart::MAX_CHART_BYTES;
use chart_compat::go::semver;
use http::{HeaderName, Method, StatusCode, header};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

pub use self::appended_layer::{AppendError, AppendedImage, LayerNote, MAX_LAYER_BYTES};
pub use self::artifact::{Artifact, Descriptor, Pulled, Pushed};
use self::artifact_reference::{BadOciReference, OciReference};
use self::auth::{Challenge, Tokens};
use self::credentials::{Credentials, CredentialsError, Login};
pub use self::image_layer::{ImageLayer, LayerError, check_image_path};
use super::http::{Credentials as Header, FailureKind, Http, HttpError, Request, Response, Tls, status_text};
use super::location::{BadLocation, Location};
use windlass_base::bounded_json;
use windlass_base::hex::hex;
use windlass_base::redact::{self, SecretText};

/// Size limit of a manifest; registries have the same.
const MAX_MANIFEST: u64 = 4 << 20;

/// Why a registry request failed.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    /// The reference is invalid.
    #[error(transparent)]
    Reference(#[from] BadOciReference),
    /// A URL of the registry is invalid.
    #[error(transparent)]
    Location(#[from] BadLocation),
    /// It cannot be reached.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Credentials cannot be read.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// A file to upload cannot be read, or a blob cannot be kept on disk.
    #[error("file of a blob: {0}")]
    File(#[from] std::io::Error),
    /// It requires other credentials.
    #[error("{registry}: access denied: {}; {advice}", status_text(*.status))]
    Denied {
        /// Its host.
        registry: String,
        /// The status of its answer.
        status: StatusCode,
        /// Where its credentials come from.
        advice: String,
    },
    /// It does not exist.
    #[error("{0}: not found")]
    NotFound(String),
    /// It answered with an error status.
    #[error("{method} {url:?}: response status code {}{reason}", .status.as_u16())]
    Status {
        /// The method.
        method: Method,
        /// The URL.
        url: String,
        /// The status.
        status: StatusCode,
        /// What a message has after the code: its name, and the text of the error.
        reason: String,
        /// How long it asks to wait before another request.
        retry_after: Option<Duration>,
    },
    /// Its answer is malformed.
    #[error("the registry's answer is wrong: {0}")]
    Answer(String),
    /// The content differs from its digest.
    #[error("{what}: the digest is {got}, but {want} is expected")]
    Digest {
        /// The content.
        what: String,
        /// Its digest.
        got: String,
        /// The expected digest.
        want: String,
    },
    /// Work on another thread ended early.
    #[error("the versions are not sorted: {0}")]
    Task(String),
    /// It is not a chart.
    #[error("{0}")]
    NoChart(String),
    /// It is not an artifact of the expected kind, or not an image layout.
    #[error("{0}")]
    NoArtifact(String),
    /// Reference and version contradict each other.
    #[error("{0}")]
    Mismatch(String),
}

/// How far a failure reaches. What the owner of a repository decides, as its answers and redirects, is of this repository only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryFault {
    /// The registry cannot be reached.
    Host,
    /// The login, or the absence of one, has had too many requests.
    Login,
    /// The answers for a repository.
    Repository,
}

impl OciError {
    /// How long the registry asks to wait before another request.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Which other requests to a registry fail as well; `None`: none does, or nobody can say. `host`: its own, with the port.
    #[must_use]
    pub fn fault(&self, host: &str) -> Option<RegistryFault> {
        match self {
            // A server of tokens refuses with these, too.
            Self::Status { status, .. } | Self::Denied { status, .. } => {
                let repository = status.is_server_error().then_some(RegistryFault::Repository);
                if *status == StatusCode::TOO_MANY_REQUESTS { Some(RegistryFault::Login) } else { repository }
            }
            Self::Http(HttpError::Failed { url, kind: FailureKind::Tls | FailureKind::Connect, .. })
                if Location::parse(url).is_ok_and(|url| url.host.eq_ignore_ascii_case(host)) =>
            {
                Some(RegistryFault::Host)
            }
            // Of this process, whatever the registry answers.
            Self::Http(HttpError::Failed {
                kind: FailureKind::Memory | FailureKind::Write | FailureKind::Address,
                ..
            }) => None,
            // Of an answer's body, a redirect, or another server.
            Self::Http(_) => Some(RegistryFault::Repository),
            _ => None,
        }
    }

    /// Whether the registry refuses the credentials, or TLS with them.
    #[must_use]
    pub fn is_access_denied(&self) -> bool {
        match self {
            Self::Denied { .. } => true,
            Self::Http(error) => error.is_access_denied(),
            // Of 401 and 403 comes `Denied`.
            _ => false,
        }
    }
}

/// A client of registries with the flags of one command.
pub struct Registry<'r> {
    http: &'r Http,
    tls: Tls,
    plain: bool,
    given: Option<Login>,
    credentials: Credentials,
    tokens: Tokens,
}

/// One request to a registry.
struct Ask<'a> {
    method: Method,
    url: Location,
    headers: Vec<(HeaderName, String)>,
    body: Bytes,
    limit: u64,
    scope: &'a str,
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

impl<'r> Registry<'r> {
    /// A client. `given`: user and password of the command line, which take precedence over those of files.
    #[must_use]
    pub fn new(
        http: &'r Http,
        tls: Tls,
        plain: bool,
        given: Option<(String, SecretText)>,
        credentials: Credentials,
    ) -> Self {
        let given = given.map(|(user, password)| Login::Basic(user, password));
        Self { http, tls, plain, given, credentials, tokens: Tokens::default() }
    }

    fn url(&self, reference: &OciReference, path: &str) -> Result<Location, OciError> {
        let (scheme, host) = (if self.plain { "http" } else { "https" }, reference.host());
        Ok(Location::parse(&format!("{scheme}://{host}/v2/{}/{path}", reference.repository))?)
    }

    /// Sends a request to the registry; answers one challenge.
    async fn send(&self, ask: Ask<'_>) -> Result<Response, OciError> {
        let request = |credentials: Option<Header>| Request {
            method: ask.method.clone(),
            url: ask.url.clone(),
            headers: ask.headers.clone(),
            credentials,
            confined: false,
            tls: &self.tls,
            body: ask.body.clone(),
            limit: ask.limit,
        };
        let origin = ask.url.origin();
        let known = self.tokens.get(&origin, ask.scope);
        let response = self.http.send(request(known)).await?;
        if response.status != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let denied = |status| self.denied(&ask.url, status);
        if !response.url.same_origin(&ask.url) {
            let text = format!("it redirects to {}, which asks for credentials", response.url.origin());
            return Err(OciError::Answer(text));
        }
        let challenges = response.headers.get_all(header::WWW_AUTHENTICATE).iter();
        let challenge = challenges.filter_map(|c| Challenge::parse(c.to_str().ok()?)).next();
        let challenge = challenge.ok_or_else(|| denied(response.status))?;
        let stored = match &self.given {
            Some(_) => None,
            None => self.credentials.get(&ask.url.host).await?,
        };
        let login = self.given.as_ref().or(stored.as_ref());
        let answer = auth::answer(self.http, &self.tls, &ask.url, &challenge, ask.scope, login).await;
        let answer = answer.map_err(|error| match error {
            OciError::Http(HttpError::Status { status, .. }) => denied(status),
            other => other,
        })?;
        let answer = answer.ok_or_else(|| denied(response.status))?;
        let response = self.http.send(request(Some(answer.clone()))).await?;
        if matches!(response.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(denied(response.status));
        }
        self.tokens.keep(&origin, ask.scope, &answer);
        Ok(response)
    }

    /// The error of a registry that requires other credentials.
    fn denied(&self, url: &Location, status: StatusCode) -> OciError {
        let registry = url.host.clone();
        let advice = match self.credentials.are_in_files() {
            true => format!("try 'windlass registry login {registry}'"),
            false => "a secretRef with a login for it is missing, or its login is not accepted".to_owned(),
        };
        OciError::Denied { registry, status, advice }
    }

    /// The error for a refusal.
    async fn refusal(&self, method: Method, response: Response, what: &str) -> OciError {
        let (status, url) = (response.status, response.url.to_string());
        if status == StatusCode::NOT_FOUND {
            return OciError::NotFound(what.to_owned());
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return self.denied(&response.url, status);
        }
        let retry_after = retry_after(&response);
        let name = status.canonical_reason().map(|name| format!(" {name}")).unwrap_or_default();
        let reason = format!("{name}{}", reason(&response.complaint().await));
        OciError::Status { method, url, status, reason, retry_after }
    }

    /// Reads a manifest. Returns its bytes, digest and media type.
    async fn manifest(&self, reference: &OciReference) -> Result<(Bytes, String, String), OciError> {
        let accept = [
            "application/vnd.oci.image.manifest.v1+json",
            "application/vnd.oci.image.index.v1+json",
            "application/vnd.docker.distribution.manifest.v2+json",
        ];
        let scope = format!("repository:{}:pull", reference.repository);
        let ask = Ask {
            method: Method::GET,
            url: self.url(reference, &format!("manifests/{}", reference.wanted()))?,
            headers: vec![(header::ACCEPT, accept.join(", "))],
            body: Bytes::new(),
            limit: MAX_MANIFEST,
            scope: &scope,
        };
        let response = self.send(ask).await?;
        if response.status != StatusCode::OK {
            return Err(self.refusal(Method::GET, response, &reference.to_string()).await);
        }
        let media = response.header(header::CONTENT_TYPE).unwrap_or_default().to_owned();
        let promised = response.header(HeaderName::from_static("docker-content-digest")).map(str::to_owned);
        let bytes = response.bytes().await?;
        let got = sha256(&bytes);
        let want = reference.digest.clone().or(promised).filter(|d| d.starts_with("sha256:"));
        match want {
            Some(want) if want != got => Err(OciError::Digest { what: reference.to_string(), got, want }),
            _ => Ok((bytes, got, media)),
        }
    }

    /// Reads a blob and checks its digest.
    async fn blob(&self, reference: &OciReference, digest: &str, size: u64) -> Result<Bytes, OciError> {
        if size > MAX_CHART_BYTES {
            let text = format!("blob {digest} has {size} bytes, more than the maximum {MAX_CHART_BYTES}");
            return Err(OciError::Answer(text));
        }
        let response = self.blob_response(reference, digest, size).await?;
        let bytes = response.bytes().await?;
        let got = sha256(&bytes);
        if got != digest {
            return Err(OciError::Digest { what: reference.to_string(), got, want: digest.to_owned() });
        }
        Ok(bytes)
    }

    /// The answer with a blob.
    async fn blob_response(
        &self,
        reference: &OciReference,
        digest: &str,
        size: u64,
    ) -> Result<Response, OciError> {
        let scope = format!("repository:{}:pull", reference.repository);
        let ask = Ask {
            method: Method::GET,
            url: self.url(reference, &format!("blobs/{digest}"))?,
            headers: Vec::new(),
            body: Bytes::new(),
            limit: size,
            scope: &scope,
        };
        let response = self.send(ask).await?;
        if response.status != StatusCode::OK {
            return Err(self.refusal(Method::GET, response, digest).await);
        }
        Ok(response)
    }

    /// The versions among the tags, highest first (`Client.Tags`).
    ///
    /// # Errors
    /// The registry does not list them.
    pub async fn versions(&self, reference: &OciReference) -> Result<Vec<String>, OciError> {
        // A tag is a version only if it has all three parts.
        let tags = self.tags(reference).await?.into_iter().map(|tag| tag.replace('_', "+"));
        let strict: Vec<String> = tags.filter(|tag| is_strict(tag)).collect();
        // As many as a registry lists: not on a thread that requests of others wait for.
        let sorted = redact::spawn_blocking(move || {
            let versions = strict.iter().filter_map(|tag| Some((semver::parse(tag).ok()?, tag)));
            let mut versions: Vec<_> = versions.collect();
            versions.sort_by(|(a, _), (b, _)| semver::compare(b, a));
            versions.into_iter().map(|(_, tag)| tag.clone()).collect()
        });
        sorted.await.map_err(|error| OciError::Task(error.to_string()))
    }

    /// Checks the login to a registry (`Client.Login`).
    ///
    /// # Errors
    /// It is refused.
    pub async fn ping(&self, host: &str) -> Result<(), OciError> {
        let scheme = if self.plain { "http" } else { "https" };
        let url = Location::parse(&format!("{scheme}://{host}/v2/"))?;
        let (method, headers, body) = (Method::GET, Vec::new(), Bytes::new());
        let response = self.send(Ask { method, url, headers, body, limit: MAX_MANIFEST, scope: "" }).await?;
        match response.status {
            StatusCode::OK => Ok(()),
            _ => Err(self.refusal(Method::GET, response, host).await),
        }
    }

    /// Writes a manifest under the reference's tag.
    async fn put_manifest(
        &self,
        reference: &OciReference,
        bytes: Bytes,
        media: &str,
    ) -> Result<(), OciError> {
        let scope = format!("repository:{}:pull,push", reference.repository);
        let ask = Ask {
            method: Method::PUT,
            url: self.url(reference, &format!("manifests/{}", reference.wanted()))?,
            headers: vec![(header::CONTENT_TYPE, media.to_owned())],
            body: bytes,
            limit: MAX_MANIFEST,
            scope: &scope,
        };
        let response = self.send(ask).await?;
        match response.status {
            StatusCode::CREATED => Ok(()),
            _ => Err(self.refusal(Method::PUT, response, &reference.to_string()).await),
        }
    }
}

/// The seconds of `Retry-After`. Its other form, a date, needs a clock that both sides agree on: the back-off decides then.
fn retry_after(response: &Response) -> Option<Duration> {
    response.header(header::RETRY_AFTER)?.trim().parse().ok().map(Duration::from_secs)
}

/// Whether a tag is a version with all its parts (`semver.StrictNewVersion`).
fn is_strict(tag: &str) -> bool {
    let core = tag.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = core.split('.').collect();
    let number = |p: &&str| {
        p.bytes().all(|c| c.is_ascii_digit()) && (p.len() == 1 || !p.starts_with('0')) && !p.is_empty()
    };
    parts.len() == 3 && parts.iter().all(number) && semver::parse(tag).is_ok()
}

/// The text of a registry's error: `: CODE: message`.
fn reason(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Answer {
        errors: Vec<One>,
    }
    #[derive(Deserialize)]
    struct One {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let Ok(answer) = bounded_json::from_slice::<Answer>(body) else { return String::new() };
    let all = answer
        .errors
        .into_iter()
        .map(|e| format!("{}: {}", e.code.replace('_', " ").to_lowercase(), e.message));
    let text: String =
        all.collect::<Vec<_>>().join("; ").chars().filter(|c| !c.is_control()).take(500).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_versions_are_versions() {
        for yes in ["1.2.3", "1.2.3-rc.1", "1.2.3+x"] {
            assert!(is_strict(yes), "{yes}");
        }
        for no in ["v1.2.3", "1.2", "latest", "1.02.3", "1.2.3.4", "sha256-aa.sig", ""] {
            assert!(!is_strict(no), "{no}");
        }
    }

    #[test]
    fn a_failure_reaches_no_further_than_it_must() {
        let status = |status| OciError::Status {
            method: Method::HEAD,
            url: String::new(),
            status,
            reason: String::new(),
            retry_after: None,
        };
        let failed = |host: &str, kind| {
            let (method, url) = ("Head".to_owned(), format!("https://{host}/v2/a/manifests/1"));
            OciError::Http(HttpError::Failed { method, url, reason: "EOF".to_owned(), kind })
        };
        for (error, expected) in [
            (status(StatusCode::TOO_MANY_REQUESTS), Some(RegistryFault::Login)),
            (status(StatusCode::SERVICE_UNAVAILABLE), Some(RegistryFault::Repository)),
            (status(StatusCode::BAD_REQUEST), None),
            (failed("r.test:5000", FailureKind::Connect), Some(RegistryFault::Host)),
            (failed("r.test:5000", FailureKind::Tls), Some(RegistryFault::Host)),
            // A redirect of the repository.
            (failed("other.test", FailureKind::Connect), Some(RegistryFault::Repository)),
            (failed("r.test:5000", FailureKind::Answer), Some(RegistryFault::Repository)),
            (OciError::NotFound("a".to_owned()), None),
        ] {
            assert_eq!(error.fault("r.test:5000"), expected, "{error}");
        }
    }

    #[test]
    fn refusals_are_put_into_words() {
        let body = br#"{"errors": [{"code": "NAME_INVALID", "message": "no such\u0007 name"}]}"#;
        assert_eq!(reason(body), ": name invalid: no such name");
        assert_eq!(reason(b"<html>"), "");
    }
}
