//! Who we are for S3, as Amazon's tools find it: variables, a token of a web identity, the shared files with their profiles, a
//! container's address. Knows nothing of signatures.
//!
//! Not looked for: SSO, roles that one profile assumes through another, programs that print credentials, and the metadata
//! of a virtual machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http::{Method, header};
use serde_json::Value;

use super::super::home::user_home;
use super::super::http::{Credentials, Http, Request, Tls};
use super::super::location::Location;
use super::{BucketError, MAX_ANSWER, form, read, variable};

/// A key pair, and what goes with keys that were lent.
#[derive(Clone, PartialEq, Eq)]
pub(in super::super) struct Keys {
    pub(in super::super) id: String,
    pub(in super::super) secret: String,
    pub(in super::super) session: Option<String>,
}

/// What the environment and the files say.
pub(super) struct Settings {
    pub(super) region: String,
    /// Another server than Amazon's.
    pub(super) endpoint: Option<String>,
    /// The profile, its parts in both files as one.
    profile: BTreeMap<String, String>,
}

impl Settings {
    /// Reads the files, as far as they are there.
    ///
    /// # Errors
    /// A file cannot be read, or has no profile of the name that `AWS_PROFILE` says.
    pub(super) fn load() -> Result<Self, BucketError> {
        let below_home = |name: &str| user_home().join(".aws").join(name);
        let path =
            |name: &str, default: &str| variable(&[name]).map_or_else(|| below_home(default), PathBuf::from);
        let config = path("AWS_CONFIG_FILE", "config");
        let credentials = path("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let asked = variable(&["AWS_PROFILE", "AWS_DEFAULT_PROFILE"]);
        let name = asked.as_deref().unwrap_or("default");
        let text = |path: &Path| read(path).map(Option::unwrap_or_default);
        // In one file other profiles than the default bear a word before their names.
        let found = section(&text(&config)?, |s| {
            s == name || s.strip_prefix("profile ").map(str::trim) == Some(name)
        });
        let secret = section(&text(&credentials)?, |s| s == name);
        if asked.is_some() && found.is_none() && secret.is_none() {
            return Err(BucketError::Answer(format!(
                "AWS_PROFILE is {name:?}, which is no profile of {} or {}",
                config.display(),
                credentials.display()
            )));
        }
        let mut profile = found.unwrap_or_default();
        profile.extend(secret.unwrap_or_default());
        let own = |key: &str| profile.get(key).filter(|v| !v.is_empty()).cloned();
        let region = variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]).or_else(|| own("region"));
        let endpoint = variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]).or_else(|| own("endpoint_url"));
        Ok(Self { region: region.unwrap_or_else(|| "us-east-1".to_owned()), endpoint, profile })
    }

    fn own(&self, key: &str) -> Option<String> {
        self.profile.get(key).filter(|v| !v.is_empty()).cloned()
    }

    /// The keys; `None`: nobody says who asks.
    ///
    /// # Errors
    /// What is to hand them out does not.
    pub(super) async fn keys(&self, http: &Http) -> Result<Option<Keys>, BucketError> {
        if let Some((id, secret)) = variable(&["AWS_ACCESS_KEY_ID"]).zip(variable(&["AWS_SECRET_ACCESS_KEY"]))
        {
            return Ok(Some(Keys { id, secret, session: variable(&["AWS_SESSION_TOKEN"]) }));
        }
        let given = variable(&["AWS_WEB_IDENTITY_TOKEN_FILE"]).zip(variable(&["AWS_ROLE_ARN"]));
        if let Some((file, role)) = given {
            return self.web_identity(http, Path::new(&file), &role).await.map(Some);
        }
        if let Some((id, secret)) = self.own("aws_access_key_id").zip(self.own("aws_secret_access_key")) {
            return Ok(Some(Keys { id, secret, session: self.own("aws_session_token") }));
        }
        if let Some((file, role)) = self.own("web_identity_token_file").zip(self.own("role_arn")) {
            return self.web_identity(http, Path::new(&file), &role).await.map(Some);
        }
        let relative = variable(&["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"])
            .map(|path| format!("http://169.254.170.2{path}"));
        match relative.or_else(|| variable(&["AWS_CONTAINER_CREDENTIALS_FULL_URI"])) {
            Some(url) => container(http, &url).await.map(Some),
            None => Ok(None),
        }
    }

    /// A role for a token (`AssumeRoleWithWebIdentity`).
    async fn web_identity(&self, http: &Http, file: &Path, role: &str) -> Result<Keys, BucketError> {
        let token = required(file)?;
        let session = variable(&["AWS_ROLE_SESSION_NAME"]).or_else(|| self.own("role_session_name"));
        let endpoint = variable(&["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"])
            .unwrap_or_else(|| format!("https://sts.{}.amazonaws.com", self.region));
        let body = form(&[
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", role),
            ("RoleSessionName", session.as_deref().unwrap_or("windlass")),
            ("WebIdentityToken", token.trim()),
        ]);
        let url = Location::parse(&format!("{}/", endpoint.trim_end_matches('/')))?;
        let tls = Tls::default();
        let kind = (header::CONTENT_TYPE, "application/x-www-form-urlencoded".to_owned());
        let request = Request {
            confined: true,
            method: Method::POST,
            body: body.into(),
            headers: vec![kind],
            ..Request::get(url, &tls, MAX_ANSWER)
        };
        let answer = http.fetch(request).await?;
        let text = String::from_utf8_lossy(&answer);
        let part = |name: &str| {
            let (_, rest) = text.split_once(&format!("<{name}>"))?;
            rest.split_once(&format!("</{name}>")).map(|(value, _)| value.trim().to_owned())
        };
        let keys = part("AccessKeyId").zip(part("SecretAccessKey"));
        let (id, secret) = keys.ok_or_else(|| no_keys(&endpoint))?;
        Ok(Keys { id, secret, session: part("SessionToken") })
    }
}

/// What a container's agent hands out.
async fn container(http: &Http, url: &str) -> Result<Keys, BucketError> {
    let token = match variable(&["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]) {
        Some(file) => Some(required(Path::new(&file))?.trim().to_owned()),
        None => variable(&["AWS_CONTAINER_AUTHORIZATION_TOKEN"]),
    };
    let location = Location::parse(url)?;
    // The token is a secret: plain HTTP is for this machine and the addresses of agents alone.
    let agents = ["127.0.0.1", "[::1]", "localhost", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];
    if location.scheme != "https" && !agents.contains(&location.hostname()) {
        let text =
            format!("AWS_CONTAINER_CREDENTIALS_FULL_URI: {url} is neither HTTPS nor a container's agent");
        return Err(BucketError::Answer(text));
    }
    let tls = Tls::default();
    let mut request = Request { confined: true, ..Request::get(location, &tls, MAX_ANSWER) };
    request.credentials = token.map(|t| Credentials::Signed(vec![(header::AUTHORIZATION, t)]));
    let answer: Value = serde_json::from_slice(&http.fetch(request).await?).map_err(|_| no_keys(url))?;
    let part = |name: &str| answer[name].as_str().filter(|v| !v.is_empty()).map(str::to_owned);
    let (id, secret) = part("AccessKeyId").zip(part("SecretAccessKey")).ok_or_else(|| no_keys(url))?;
    Ok(Keys { id, secret, session: part("Token") })
}

fn no_keys(from: &str) -> BucketError {
    BucketError::Answer(format!("{from} answered without credentials for AWS"))
}

/// A file that must be there.
fn required(path: &Path) -> Result<String, BucketError> {
    read(path)?
        .ok_or_else(|| BucketError::Answer(format!("open {}: no such file or directory", path.display())))
}

/// The entries of a section of an INI file; of several of one name, all.
fn section(text: &str, wanted: impl Fn(&str) -> bool) -> Option<BTreeMap<String, String>> {
    let (mut inside, mut found) = (false, None);
    for line in text.lines() {
        // What is indented belongs to the entry above, such as settings of one service.
        let nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) || nested {
            continue;
        }
        if let Some(name) =
            line.strip_prefix('[').and_then(|l| l.split_once(']')).map(|(name, _)| name.trim())
        {
            inside = wanted(name);
            if inside {
                found.get_or_insert_with(BTreeMap::new);
            }
        } else if let (true, Some((key, value)), Some(map)) = (inside, line.split_once('='), found.as_mut()) {
            let value = value.split(" #").next().unwrap_or_default();
            map.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_sections() {
        let text = "# all\n[default]\nregion = a\n[profile two]\nregion=b # there\ns3 =\n  region = nested\n; no\n[ two ]\nREGION = c\n\
                    output\n[empty]\n";
        let region = |name: &str| {
            section(text, |s| s == name || s.strip_prefix("profile ") == Some(name))
                .map(|s| s.get("region").cloned())
        };
        assert_eq!(region("default"), Some(Some("a".to_owned())));
        assert_eq!(region("two"), Some(Some("c".to_owned())));
        assert_eq!(region("empty"), Some(None));
        assert_eq!(region("none"), None);
    }
}
