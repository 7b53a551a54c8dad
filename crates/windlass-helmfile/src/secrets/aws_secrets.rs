//! `awssecrets`: secrets of AWS Secrets Manager. `awsssm`: parameters of AWS Systems Manager.
//!
//! Keys are those of Amazon's tools (`AWS_PROFILE` and so on); `AWS_ENDPOINT_URL_SECRETS_MANAGER` and `AWS_ENDPOINT_URL_SSM` name
//! other servers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::local_secrets::MAX_DEPTH;
use super::secret_reference::Reference;
use super::{Document, Remote};
use crate::error::HelmfileError;
use helmfile_compat::document;
use helmfile_compat::value::{Map, Value};
use windlass_fetch::http::Http;
use windlass_fetch::{AwsApi, AwsSession, CloudCredentials};

/// Most pages of parameters, of 10 each.
const MAX_PAGES: usize = 1000;
/// The key of the list of suffixes in the secret `PATH/meta`.
const META: &str = "github.com/helmfile/vals";

/// Operations for one reference.
struct Calls<'c> {
    http: &'c Http,
    reference: &'c Reference,
    api: AwsApi,
    session: AwsSession,
}

impl<'c> Calls<'c> {
    async fn new(remote: &'c Remote, reference: &'c Reference, api: AwsApi) -> Result<Self, HelmfileError> {
        reference.refuse("profile", "set AWS_PROFILE")?;
        reference.refuse("role_arn", "set AWS_PROFILE to a profile with a role_arn")?;
        let (http, region) = (&remote.http, reference.parameter("region"));
        let cloud = CloudCredentials(http);
        let session = remote.logins.aws.get(region.clone(), cloud.own_aws_session(region.as_deref()));
        let session = session.await.map_err(HelmfileError::cause)?;
        Ok(Self { http, reference, api, session })
    }

    async fn call(
        &self,
        operation: &str,
        body: &serde_json::Value,
    ) -> Result<serde_json::Value, HelmfileError> {
        CloudCredentials(self.http)
            .aws_json(&self.session, self.api, operation, body)
            .await
            .map_err(HelmfileError::cause)
    }

    /// The text of a secret.
    async fn secret(&self, name: &str) -> Result<String, HelmfileError> {
        let mut body = json!({ "SecretId": name });
        for (key, parameter) in [("VersionStage", "version_stage"), ("VersionId", "version_id")] {
            if let Some(value) = self.reference.parameter(parameter) {
                body[key] = value.into();
            }
        }
        let answer = self.call("GetSecretValue", &body).await?;
        if let Some(text) = answer["SecretString"].as_str() {
            return Ok(text.to_owned());
        }
        let bytes = answer["SecretBinary"].as_str().and_then(|data| STANDARD.decode(data).ok());
        let bytes = bytes.ok_or_else(|| {
            HelmfileError::Secret("the answer has neither SecretString nor SecretBinary".to_owned())
        })?;
        String::from_utf8(bytes).map_err(|_| HelmfileError::Secret("the secret is not UTF-8 text".to_owned()))
    }

    /// The value of a parameter, in the version that is asked for.
    async fn parameter(&self, name: &str) -> Result<String, HelmfileError> {
        // `NAME:VERSION` selects a version.
        let selected = match self.reference.parameter("version") {
            Some(version) if version.bytes().all(|b| b.is_ascii_digit()) => format!("{name}:{version}"),
            Some(_) => return Err(HelmfileError::Secret("version is not a number".to_owned())),
            None => name.to_owned(),
        };
        let body = json!({ "Name": selected, "WithDecryption": true });
        let answer = self.call("GetParameter", &body).await?;
        let text = answer["Parameter"]["Value"].as_str();
        text.map(str::to_owned).ok_or_else(|| HelmfileError::Secret("the answer has no value".to_owned()))
    }

    /// The parameters below a path, as nested maps.
    async fn parameters(&self, path: &str) -> Result<Map, HelmfileError> {
        let recursive = self.reference.parameter("recursive").as_deref() == Some("true");
        let (mut out, mut next) = (Map::new(), None::<String>);
        for _ in 0..MAX_PAGES {
            let mut body = json!({ "Path": path, "Recursive": recursive, "WithDecryption": true });
            if let Some(token) = &next {
                body["NextToken"] = token.as_str().into();
            }
            let answer = self.call("GetParametersByPath", &body).await?;
            for parameter in answer["Parameters"].as_array().into_iter().flatten() {
                let name = parameter["Name"].as_str().unwrap_or_default();
                let value = parameter["Value"].as_str().unwrap_or_default();
                let below =
                    name.strip_prefix(path.trim_end_matches('/')).and_then(|name| name.strip_prefix('/'));
                let below = below
                    .ok_or_else(|| HelmfileError::Secret(format!("the answer has the parameter {name}")))?;
                let keys: Vec<&str> = below.split('/').collect();
                if keys.len() > MAX_DEPTH {
                    return Err(HelmfileError::Secret(format!(
                        "a parameter has more than {MAX_DEPTH} components"
                    )));
                }
                insert(&mut out, &keys, value);
            }
            match answer["NextToken"].as_str().filter(|token| !token.is_empty()) {
                Some(token) => next = Some(token.to_owned()),
                None if out.is_empty() => {
                    return Err(HelmfileError::Secret("there is no parameter below it".to_owned()));
                }
                None => return Ok(out),
            }
        }
        Err(HelmfileError::Secret(format!("there are more than {} parameters below it", MAX_PAGES * 10)))
    }
}

/// Sets a value below nested maps. Where both a value and a map would be, the map wins, as for vals.
fn insert(map: &mut Map, path: &[&str], value: &str) {
    let [first, rest @ ..] = path else { return };
    let slot = map.entry((*first).to_owned()).or_default();
    if rest.is_empty() {
        if !matches!(slot, Value::Map(_)) {
            *slot = Value::String(value.to_owned());
        }
        return;
    }
    if !matches!(slot, Value::Map(_)) {
        *slot = Value::Map(Map::new());
    }
    if let Value::Map(inner) = slot {
        insert(inner, rest, value);
    }
}

/// A secret of Secrets Manager. With keys, one that does not exist may be several below a path, which `PATH/meta` lists.
pub(super) async fn of_manager(remote: &Remote, reference: &Reference) -> Result<Document, HelmfileError> {
    let calls = Calls::new(remote, reference, AwsApi::SecretsManager).await?;
    let path = reference.path.trim_end_matches('/');
    let missing = match calls.secret(&reference.path).await {
        Ok(text) => return Ok(Document::Text(text)),
        Err(error) if reference.keys.is_empty() || !error.is_missing_resource() => return Err(error),
        Err(error) => error,
    };
    let Ok(meta) = calls.secret(&format!("{path}/meta")).await else { return Err(missing) };
    let listed = document::map(&meta).ok().and_then(|mut map| map.remove(META));
    let Some(Value::List(suffixes)) = listed else {
        return Err(HelmfileError::Secret(format!("the secret {path}/meta has no list {META:?}")));
    };
    let mut out = Map::new();
    for suffix in suffixes {
        let suffix = suffix.go_text();
        let suffix = suffix.trim_start_matches('/');
        let text = calls.secret(&format!("{path}/{suffix}")).await?;
        out.insert(suffix.to_owned(), Value::String(text));
    }
    Ok(Document::Map(out))
}

/// A parameter, or those below a path.
pub(super) async fn of_parameters(remote: &Remote, reference: &Reference) -> Result<Document, HelmfileError> {
    let calls = Calls::new(remote, reference, AwsApi::SystemsManager).await?;
    let path = format!("/{}", reference.path.trim_start_matches('/'));
    let single = reference.parameter("mode").as_deref() == Some("singleparam");
    if reference.keys.is_empty() || single {
        return calls.parameter(&path).await.map(Document::Text);
    }
    calls.parameters(&path).await.map(Document::Map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_nested() {
        let text = |text: &str| Value::String(text.to_owned());
        for order in [["a", "a/b"], ["a/b", "a"]] {
            let mut map = Map::new();
            for path in order {
                insert(&mut map, &path.split('/').collect::<Vec<_>>(), path);
            }
            assert_eq!(
                map,
                Map::from([("a".to_owned(), Value::Map(Map::from([("b".to_owned(), text("a/b"))])))])
            );
        }
    }
}
