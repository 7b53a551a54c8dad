//! GitHub Apps: an app's key becomes a token that reads its repositories.

use std::time::Duration;

use http::{Method, StatusCode, header};
use jiff::Timestamp;
use percent_encoding::utf8_percent_encode;
use serde_json::{Value, json};

use super::super::http::{Credentials, Http, HttpError, MAX_CREDENTIALS, Request, Tls};
use super::super::location::{BadLocation, Location, SEGMENT};
use super::super::signed_jwt::{self, Algorithm};
use windlass_base::bounded_json;
use windlass_base::redact::SecretText;

/// The API of GitHub itself.
const API: &str = "https://api.github.com";
/// User of a repository whose password is a token.
pub const USER: &str = "x-access-token";
/// The key of a Secret that says that it holds an app.
pub const APP_ID: &str = "githubAppID";
/// How far a clock may be behind, and how long a signed request is good, in seconds.
const TIMES: (i64, i64) = (30, 120);

/// The longest request to the API.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The app's tokens are not for this server.
    #[error("the app's tokens are for the server of githubAppBaseURL, not for '{0}'")]
    OtherServer(String),
    /// The key does not sign, or the API gives no token.
    #[error("failed to get credentials of the GitHub App: {0}")]
    Refused(#[from] Refusal),
}

/// Why a Secret does not describe an app. Names its keys, and none of their values but the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppSecretError {
    /// The value of this key is not a number.
    #[error("{0} is not a number")]
    NotNumber(&'static str),
    /// Neither an installation nor its owner is there, or both are.
    #[error("either githubAppInstallationID or githubAppInstallationOwner is required")]
    Installation,
    /// There is no private key.
    #[error("githubAppPrivateKey is required")]
    NoKey,
    /// The URL of the API is invalid.
    #[error("githubAppBaseURL: {0}")]
    Url(#[from] BadLocation),
    /// The URL of the API would take signatures and tokens in plain text.
    #[error("githubAppBaseURL is not HTTPS")]
    NotHttps,
}

/// Why the API gives no token.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The key does not sign.
    #[error("githubAppPrivateKey {0}")]
    Key(&'static str),
    /// There is no whole answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The answer has another status than success; with the reason that the API gives.
    #[error("{url} answered {status}{}", after_colon(.reason))]
    Status {
        /// What was asked.
        url: String,
        /// The status.
        status: StatusCode,
        /// Why, in the API's words; may be empty.
        reason: String,
    },
    /// The app has no installation of this number.
    #[error("installation {0} not found")]
    NoInstallation(u64),
    /// The app has no installation at the owner.
    #[error("githubAppInstallationOwner has no installation of the app")]
    NoOwner,
    /// The answer lacks this.
    #[error("{0} answered without {1}")]
    Answer(String, &'static str),
}

fn after_colon(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// Where an app is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installation {
    /// By its number.
    Id(u64),
    /// At an organization or a user.
    Owner(String),
}

/// An app, and the API that knows it.
pub struct GitHubApp {
    /// Its number.
    pub id: u64,
    /// Where it is installed.
    pub installation: Installation,
    /// Its RSA key, in PEM.
    pub private_key: Vec<u8>,
    api: Location,
}

impl GitHubApp {
    /// The app of a Secret, by Flux's keys. `get`: the value of a key, if it is not empty.
    ///
    /// # Errors
    /// A key is absent or wrong; the text names it, but not the Secret.
    pub fn of_secret<'s>(get: impl Fn(&str) -> Option<&'s [u8]>) -> Result<Self, AppSecretError> {
        let text = |key: &str| String::from_utf8_lossy(get(key).unwrap_or_default()).trim().to_owned();
        let number = |key: &'static str| text(key).parse::<u64>().map_err(|_| AppSecretError::NotNumber(key));
        let owner = text("githubAppInstallationOwner");
        let installation = match (get("githubAppInstallationID"), owner.is_empty()) {
            (Some(_), true) => Installation::Id(number("githubAppInstallationID")?),
            (None, false) => Installation::Owner(owner),
            _ => return Err(AppSecretError::Installation),
        };
        let key = get("githubAppPrivateKey").ok_or(AppSecretError::NoKey)?;
        Self::new(number(APP_ID)?, installation, key.to_vec(), &text("githubAppBaseURL"))
    }

    /// An app; `api`: URL of the API, empty for GitHub's own.
    ///
    /// # Errors
    /// The URL is none, or would take the key's signatures and tokens in plain text.
    fn new(
        id: u64,
        installation: Installation,
        private_key: Vec<u8>,
        api: &str,
    ) -> Result<Self, AppSecretError> {
        let text = if api.is_empty() { API } else { api.trim_end_matches('/') };
        let api = Location::parse(text)?;
        if api.scheme != "https" && !api.is_loopback() {
            return Err(AppSecretError::NotHttps);
        }
        Ok(Self { id, installation, private_key, api })
    }

    /// Whether a repository is at the server of the API, the only one that gets its tokens: `github.com` for `api.github.com`.
    fn serves(&self, repository: &Location) -> bool {
        let same =
            self.api.scheme == repository.scheme && self.api.host == format!("api.{}", repository.host);
        same || self.api.same_origin(repository)
    }

    /// A token for the installation's repositories at a server, masked in messages from now on. A request takes ten seconds at most.
    ///
    /// # Errors
    /// The server is not that of the API, the key does not sign, or the API refuses.
    pub async fn token_for(
        &self,
        server: &Location,
        http: &Http,
        tls: &Tls,
    ) -> Result<SecretText, TokenError> {
        if !self.serves(server) {
            return Err(TokenError::OtherServer(server.to_string()));
        }
        let http = http.clone().within(REQUEST_TIMEOUT);
        Ok(self.token(&http, tls).await?)
    }

    async fn token(&self, http: &Http, tls: &Tls) -> Result<SecretText, Refusal> {
        let now = Timestamp::now().as_second();
        let issued = now - TIMES.0;
        let claims = json!({"iss": self.id.to_string(), "iat": issued, "exp": issued + TIMES.1});
        let signed = signed_jwt::sign(Algorithm::Pkcs1, json!({}), &claims, &self.private_key);
        let signed = signed.map_err(Refusal::Key)?;
        let id = match &self.installation {
            Installation::Id(id) => *id,
            Installation::Owner(owner) => self.installation_of(http, tls, owner, &signed).await?,
        };
        let path = format!("/app/installations/{id}/access_tokens");
        let answer = self.ask(http, tls, Method::POST, &path, &signed).await?;
        let answer = answer.ok_or(Refusal::NoInstallation(id))?;
        let token = answer["token"].as_str().filter(|token| !token.is_empty()).map(SecretText::from);
        token.ok_or_else(|| Refusal::Answer(self.api.to_string(), "a token"))
    }

    /// The number of the installation at an organization, or else at a user.
    async fn installation_of(
        &self,
        http: &Http,
        tls: &Tls,
        owner: &str,
        signed: &str,
    ) -> Result<u64, Refusal> {
        let owner = utf8_percent_encode(owner, SEGMENT).to_string();
        for kind in ["orgs", "users"] {
            let path = format!("/{kind}/{owner}/installation");
            if let Some(found) = self.ask(http, tls, Method::GET, &path, signed).await? {
                let missing = || Refusal::Answer(self.api.to_string(), "an id");
                return found["id"].as_u64().ok_or_else(missing);
            }
        }
        Err(Refusal::NoOwner)
    }

    /// The answer of the API; `None` if it knows no such thing.
    async fn ask(
        &self,
        http: &Http,
        tls: &Tls,
        method: Method,
        path: &str,
        signed: &str,
    ) -> Result<Option<Value>, Refusal> {
        let url = self.api.with_path(format!("{}{path}", self.api.path));
        let shown = url.to_string();
        let request = Request {
            method,
            confined: true,
            credentials: Some(Credentials::Bearer(signed.into())),
            headers: vec![(header::ACCEPT, "application/vnd.github+json".to_owned())],
            ..Request::get(url, tls, MAX_CREDENTIALS)
        };
        let answer = http.send(request).await?;
        let status = answer.status;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !status.is_success() {
            let why: Value = bounded_json::from_slice(&answer.complaint().await).unwrap_or_default();
            let reason = why["message"].as_str().unwrap_or_default().trim_end_matches(": ").to_owned();
            return Err(Refusal::Status { url: shown, status, reason });
        }
        let bytes = answer.bytes().await?;
        bounded_json::from_slice(&bytes).map(Some).map_err(|_| Refusal::Answer(shown, "JSON"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_for_the_server_of_the_api() {
        let app = |api: &str| GitHubApp::new(1, Installation::Id(2), Vec::new(), api);
        for (api, repository, serves) in [
            ("", "https://github.com/org/repo", true),
            ("", "https://github.com.example.org/org/repo", false),
            ("", "http://github.com/org/repo", false),
            ("", "https://gitlab.com/org/repo", false),
            ("https://ghe.example.org/api/v3", "https://ghe.example.org/org/repo", true),
            ("https://ghe.example.org/api/v3", "https://ghe.example.org:8443/org/repo", false),
            ("https://api.mine.ghe.com/", "https://mine.ghe.com/org/repo", true),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/org/repo", true),
        ] {
            let repository = Location::parse(repository).unwrap();
            assert_eq!(app(api).unwrap().serves(&repository), serves, "{api} {repository}");
        }
        let secret = [
            ("githubAppID", "1"),
            ("githubAppInstallationOwner", " org\n"),
            ("githubAppPrivateKey", "key"),
            ("githubAppBaseURL", "https://ghe.example.org/api/v3/"),
        ];
        let of = |without: &str| {
            let found = |key: &str| secret.iter().find(|(own, _)| *own == key && key != without);
            GitHubApp::of_secret(|key| found(key).map(|(_, value)| value.as_bytes()))
        };
        let found = of("").unwrap();
        assert_eq!((found.id, found.installation), (1, Installation::Owner("org".to_owned())));
        assert_eq!(found.api.to_string(), "https://ghe.example.org/api/v3");
        for (without, error) in [
            ("githubAppID", "githubAppID is not a number"),
            (
                "githubAppInstallationOwner",
                "either githubAppInstallationID or githubAppInstallationOwner is required",
            ),
            ("githubAppPrivateKey", "githubAppPrivateKey is required"),
        ] {
            assert_eq!(of(without).err().map(|e| e.to_string()).as_deref(), Some(error));
        }
        for wrong in ["http://ghe.example.org", "ghe.example.org", "ftp://ghe.example.org"] {
            assert!(app(wrong).is_err(), "{wrong}");
        }
    }
}
