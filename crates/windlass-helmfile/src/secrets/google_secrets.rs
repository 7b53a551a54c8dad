//! `gcpsecrets`: versions of secrets in Google's Secret Manager, `PROJECT/NAME`.
//!
//! `CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER` names another server, as for gcloud.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chart_compat::go::parse_bool;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use windlass_base::bounded_json;

use super::secret_reference::Reference;
use super::{Document, Remote};
use crate::error::HelmfileError;
use windlass_fetch::http::{Credentials, MAX_CREDENTIALS, Request, Tls};
use windlass_fetch::location::Location;
use windlass_fetch::{CloudCredentials, GOOGLE_PLATFORM};

/// The server, unless the environment names another.
const SERVER: &str = "https://secretmanager.googleapis.com/";

/// The text of a secret.
pub(super) async fn read(remote: &Remote, reference: &Reference) -> Result<Document, HelmfileError> {
    let (project, name) = match reference.path.split_once('/') {
        Some((project, name)) => (project.to_owned(), name),
        None => (std::env::var("GCP_PROJECT").unwrap_or_default(), reference.path.as_str()),
    };
    if project.is_empty() {
        return Err(HelmfileError::Secret(
            "the path has the form PROJECT/NAME, unless GCP_PROJECT is set".to_owned(),
        ));
    }
    let flag = |name: &str| reference.parameter(name).is_some_and(|value| parse_bool(&value) == Some(true));
    let version = reference.parameter("version").unwrap_or_else(|| "latest".to_owned());
    let found = access(remote, &project, name, &version).await;
    let text = match (found, reference.parameter("fallback_value")) {
        (Ok(Some(text)), _) => text,
        // Only a secret that does not exist is replaced; vals replaces one that cannot be read, too.
        (Ok(None), _) if flag("optional") => String::new(),
        (Ok(None), Some(fallback)) => fallback,
        (Ok(None), None) => {
            return Err(HelmfileError::Secret(format!(
                "the secret has no version {version}, or does not exist"
            )));
        }
        (Err(error), _) => return Err(error),
    };
    let text = match text.strip_suffix('\n') {
        Some(line) if flag("trim_nl") => line.to_owned(),
        _ => text,
    };
    Ok(Document::Text(text))
}

/// A version of a secret; `None` if it does not exist.
async fn access(
    remote: &Remote,
    project: &str,
    name: &str,
    version: &str,
) -> Result<Option<String>, HelmfileError> {
    let server = std::env::var("CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER").ok();
    let server = server.filter(|server| !server.is_empty()).unwrap_or_else(|| SERVER.to_owned());
    let part = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let url = format!(
        "{}/v1/projects/{}/secrets/{}/versions/{}:access",
        server.trim_end_matches('/'),
        part(project),
        part(name),
        part(version)
    );
    let url = Location::parse(&url).map_err(HelmfileError::cause)?;
    let cloud = CloudCredentials(&remote.http);
    let token = remote.logins.google.get((), cloud.own_google(GOOGLE_PLATFORM)).await;
    let token = token.map_err(HelmfileError::cause)?;
    let tls = Tls::default();
    let credentials = Some(Credentials::Bearer(token));
    let request = Request { credentials, confined: true, ..Request::get(url.clone(), &tls, MAX_CREDENTIALS) };
    let answer = match remote.http.fetch(request).await {
        Ok(answer) => answer,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(HelmfileError::cause(error)),
    };
    let answer: serde_json::Value = bounded_json::from_slice(&answer).unwrap_or_default();
    let bytes = answer["payload"]["data"].as_str().and_then(|data| STANDARD.decode(data).ok());
    let bytes = bytes.ok_or_else(|| HelmfileError::Secret(format!("{url} answered without a secret")))?;
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| HelmfileError::Secret("the secret is not UTF-8 text".to_owned()))
}
