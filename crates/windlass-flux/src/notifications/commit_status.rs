//! The status of a commit at GitHub and GitLab, in notification-controller's form. Pure.

use http::header::{self, HeaderName};
use percent_encoding::utf8_percent_encode;
use serde_json::{Value, json};

use super::super::error::FluxError;
use super::flux_event::{FluxEvent, Severity};
use super::provider_requests::Post;
use super::provider_settings::Settings;
use windlass_base::bounded_json;
use windlass_base::cel_expression;
use windlass_fetch::http::Credentials;
use windlass_fetch::location::{Location, SEGMENT};

/// Length of a commit's hash.
const HASH: usize = 40;

/// The two requests for a status: the second one only if the first one's answer does not have it already.
pub(super) struct StatusUpdate {
    /// URL of the list of statuses.
    pub(super) list: String,
    /// Creates the status.
    pub(super) create: Post,
    duplicate: Duplicate,
}

/// What a status is recognized by.
enum Duplicate {
    /// The latest one of the context has this state and description.
    GitHub { context: String, state: &'static str, description: String },
    /// One of the commit has this name, state and description.
    GitLab { sha: String, name: String, state: &'static str, description: String },
}

impl StatusUpdate {
    /// Whether the list has the status.
    pub(super) fn is_listed(&self, answer: &[u8]) -> bool {
        let list: Value = bounded_json::from_slice(answer).unwrap_or_default();
        let mut all = list.as_array().into_iter().flatten();
        match &self.duplicate {
            Duplicate::GitHub { context, state, description } => {
                let latest = all.find(|status| status["context"] == context.as_str());
                latest.is_some_and(|s| s["state"] == *state && s["description"] == description.as_str())
            }
            Duplicate::GitLab { sha, name, state, description } => all.any(|s| {
                s["sha"] == sha.as_str()
                    && s["name"] == name.as_str()
                    && s["status"] == *state
                    && s["description"] == description.as_str()
            }),
        }
    }
}

/// The name of a status: of the object, different for each cluster.
pub(super) fn status_name(uid_part: &str, event: &FluxEvent) -> String {
    let involved = &event.involved_object;
    format!("{}/{}/{uid_part}", involved.kind, involved.name).to_lowercase()
}

/// The name that `commitStatusExpr` makes of an event, its Alert and its Provider.
///
/// # Errors
/// The expression cannot be evaluated.
pub(super) fn computed_name(
    expression: &str,
    event: &FluxEvent,
    alert: &Value,
    provider: &Value,
) -> Result<String, FluxError> {
    let failed =
        |e: String| format!("failed to evaluate the spec.commitStatusExpr CEL expression for the event: {e}");
    let event = serde_json::to_value(event).map_err(|e| failed(e.to_string()))?;
    let variables = [("event", &event), ("alert", alert), ("provider", provider)];
    Ok(cel_expression::text(expression, &variables).map_err(failed)?)
}

/// Whether an event becomes a status: one of progress does not.
pub(super) fn is_written(event: &FluxEvent) -> bool {
    event.reason != "Progressing"
}

/// The server of a Provider's repository.
///
/// # Errors
/// The address is not that of a repository.
pub(super) fn server(settings: &Settings) -> Result<Location, FluxError> {
    let (host, _) = repository(&settings.address)?;
    Ok(Location::parse(&host).map_err(|e| e.to_string())?)
}

/// The requests for an event; `None` for events that tell of progress, for which an app needs no token yet.
pub(super) fn update(
    settings: &Settings,
    name: &str,
    event: &FluxEvent,
) -> Result<Option<StatusUpdate>, FluxError> {
    let github = settings.provider_type == "github";
    let token = match settings.token.expose().trim() {
        "" => settings.password.expose().trim(),
        token => token,
    };
    if token.is_empty() && settings.app.is_none() {
        return Err(match github {
            true => "github token or github app details must be specified".into(),
            false => "gitlab token cannot be empty".into(),
        });
    }
    let (host, id) = repository(&settings.address)?;
    if github && id.split('/').count() != 2 {
        return Err(format!("invalid repository id: '{id}'").into());
    }
    if !is_written(event) {
        return Ok(None);
    }
    let known = ["commit", "originRevision", "revision"].iter().find_map(|key| event.metadata.get(*key));
    let revision = known.ok_or("missing revision metadata")?;
    let hash = commit_of(revision)
        .ok_or_else(|| format!("failed to extract commit hash from '{revision}' revision"))?;
    let target = Target { host: &host, id: &id, hash, name, token };
    let description = words(&event.reason);
    Ok(Some(match github {
        true => target.github(event.severity, description),
        false => target.gitlab(event.severity, description),
    }))
}

/// A commit at a server.
struct Target<'a> {
    host: &'a str,
    id: &'a str,
    hash: &'a str,
    name: &'a str,
    token: &'a str,
}

impl Target<'_> {
    fn github(&self, severity: Severity, description: String) -> StatusUpdate {
        let Self { host, id, hash, .. } = self;
        let bare = host.split_once("://").map_or("", |(_, rest)| rest);
        let api = match bare {
            "github.com" => "https://api.github.com".to_owned(),
            _ if bare.starts_with("api.") || bare.contains(".api.") => (*host).to_owned(),
            _ => format!("{host}/api/v3"),
        };
        let id = id.split('/').map(escape).collect::<Vec<_>>().join("/");
        let state = if severity == Severity::Error { "failure" } else { "success" };
        let body = json!({"state": state, "description": description, "context": self.name});
        let create = Post {
            url: format!("{api}/repos/{id}/statuses/{hash}"),
            headers: vec![(header::ACCEPT, "application/vnd.github+json".to_owned())],
            credentials: Some(Credentials::Bearer(self.token.into())),
            body: body.to_string(),
        };
        let list = format!("{api}/repos/{id}/commits/{hash}/statuses?per_page=50");
        let context = self.name.to_owned();
        StatusUpdate { list, create, duplicate: Duplicate::GitHub { context, state, description } }
    }

    fn gitlab(&self, severity: Severity, description: String) -> StatusUpdate {
        let Self { host, hash, name, .. } = self;
        let project = format!("{host}/api/v4/projects/{}", escape(self.id));
        let state = if severity == Severity::Error { "failed" } else { "success" };
        let body = json!({"state": state, "name": name, "description": description});
        let token = (HeaderName::from_static("private-token"), self.token.to_owned());
        let create = Post {
            url: format!("{project}/statuses/{hash}"),
            headers: Vec::new(),
            credentials: Some(Credentials::Signed(vec![token])),
            body: body.to_string(),
        };
        let list = format!("{project}/repository/commits/{hash}/statuses?name={}", escape(name));
        let (sha, name) = ((*hash).to_owned(), (*name).to_owned());
        StatusUpdate { list, create, duplicate: Duplicate::GitLab { sha, name, state, description } }
    }
}

fn escape(part: &str) -> String {
    utf8_percent_encode(part, SEGMENT).to_string()
}

/// Server and path of a repository: of a URL, or of `user@host:path`.
fn repository(address: &str) -> Result<(String, String), FluxError> {
    let wrong = || FluxError::from("the address is not the URL of a repository");
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (scheme.to_owned(), rest.to_owned()),
        None => {
            let (server, path) = address.split_once(':').ok_or_else(wrong)?;
            ("ssh".to_owned(), format!("{server}/{}", path.trim_start_matches('/')))
        }
    };
    let scheme = if scheme == "ssh" { "https" } else { &scheme };
    if !["http", "https"].contains(&scheme) {
        return Err(wrong());
    }
    let (server, path) = rest.split_once('/').ok_or_else(wrong)?;
    let host = server.rsplit('@').next().unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_start_matches('/');
    Ok((format!("{scheme}://{host}"), path.strip_suffix(".git").unwrap_or(path).to_owned()))
}

/// The hash of a revision, such as `main@sha1:HASH`, `main/HASH` or `HASH`.
fn commit_of(revision: &str) -> Option<&str> {
    let hash = match revision.rsplit_once(':') {
        Some((_, hash)) => hash,
        None => revision.rsplit('/').next().unwrap_or_default(),
    };
    (hash.len() == HASH && hash.bytes().all(|b| b.is_ascii_hexdigit())).then_some(hash)
}

/// The words of a CamelCase text, in lower case.
fn words(text: &str) -> String {
    let class = |c: char| match c {
        c if c.is_lowercase() => 1,
        c if c.is_uppercase() => 2,
        c if c.is_numeric() => 3,
        _ => 4,
    };
    let mut runs: Vec<Vec<char>> = Vec::new();
    for c in text.chars() {
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|last| class(*last) == class(c)) => run.push(c),
            _ => runs.push(vec![c]),
        }
    }
    // The last capital of a run belongs to the word that follows.
    for at in 1..runs.len() {
        if class(runs[at - 1][0]) == 2
            && class(runs[at][0]) == 1
            && let Some(capital) = runs[at - 1].pop()
        {
            runs[at].insert(0, capital);
        }
    }
    let words = runs.iter().filter(|run| !run.is_empty()).map(|run| run.iter().collect::<String>());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::recorded;
    use super::*;
    use windlass_fetch::git::github_app::GitHubApp;

    #[test]
    fn requests_are_those_of_notification_controller() {
        let mut checked = 0;
        for row in recorded::rows() {
            if !["github", "gitlab"].contains(&row.settings.provider_type.as_str()) {
                continue;
            }
            checked += 1;
            let what =
                format!("{} {} {}", row.settings.provider_type, row.settings.address, row.event.message);
            let found = match update(&row.settings, &row.commit_status, &row.event) {
                Ok(None) => {
                    assert_eq!((row.requests.len(), row.error.as_str()), (0, ""), "{what}");
                    continue;
                }
                Ok(Some(found)) => found,
                Err(error) => {
                    assert_eq!((row.requests.len(), error.to_string()), (0, row.error), "{what}");
                    continue;
                }
            };
            let listed = &row.requests[0];
            let target = |url: &str| url.strip_prefix(recorded::HOST).unwrap().to_owned();
            assert_eq!(
                (target(&found.list), "GET"),
                (listed.target.clone(), listed.method.as_str()),
                "{what}"
            );
            assert_eq!(found.is_listed(row.statuses.as_bytes()), row.requests.len() == 1, "{what}");
            let Some(created) = row.requests.get(1) else { continue };
            assert_eq!(target(&found.create.url), created.target, "{what}");
            assert_eq!(recorded::json(&found.create.body), recorded::json(&created.body), "{what}");
            let mut sent = recorded::headers(&found.create);
            sent.remove("accept");
            assert_eq!(sent, created.headers, "{what}");
        }
        assert_eq!(checked, 42);
    }

    #[test]
    fn progress_is_not_written_by_an_app_either() {
        let rows = recorded::rows();
        let mut row = rows
            .into_iter()
            .find(|row| row.settings.provider_type == "github" && row.requests.len() == 2)
            .unwrap();
        let name = row.commit_status.clone();
        assert!(update(&row.settings, &name, &row.event).unwrap().is_some());
        "Progressing".clone_into(&mut row.event.reason);
        (row.settings.token, row.settings.password) = Default::default();
        assert!(update(&row.settings, &name, &row.event).is_err(), "without a token");
        let secret = |key: &str| match key {
            "githubAppID" | "githubAppInstallationID" => Some(&b"1"[..]),
            "githubAppPrivateKey" => Some(&b"key"[..]),
            _ => None,
        };
        row.settings.app = Some(Arc::new(GitHubApp::of_secret(secret).unwrap()));
        assert!(update(&row.settings, &name, &row.event).unwrap().is_none(), "with an app");
    }

    #[test]
    fn names_are_computed() {
        let row = &recorded::rows()[0];
        let (alert, provider) =
            (json!({"metadata": {"name": "on"}}), json!({"metadata": {"uid": "0c9c2e41-d2f9"}}));
        let name = |expression: &str| computed_name(expression, &row.event, &alert, &provider);
        let involved = &row.event.involved_object;
        let long = "(event.involvedObject.kind + '/' + event.involvedObject.name + '/' + alert.metadata.name + '/' + \
                    provider.metadata.uid.split('-').first().value()).lowerAscii()";
        let expected = format!("{}/{}/on/0c9c2e41", involved.kind, involved.name).to_lowercase();
        assert_eq!(name(long), Ok(expected));
        assert_eq!(name("event.severity"), Ok(row.event.severity.name().to_owned()));
        for wrong in ["event.none", "event.metadata", "event."] {
            let error = name(wrong).unwrap_err().to_string();
            assert!(
                error.starts_with("failed to evaluate the spec.commitStatusExpr CEL expression"),
                "{error}"
            );
        }
    }

    #[test]
    fn addresses_of_repositories() {
        for (address, host, id) in [
            ("https://github.com/org/repo", "https://github.com", "org/repo"),
            ("https://user@github.com/org/repo.git", "https://github.com", "org/repo"),
            ("ssh://git@git.test:22/a/b/c.git", "https://git.test:22", "a/b/c"),
            ("git@gitlab.com:org/repo.git", "https://gitlab.com", "org/repo"),
            ("http://git.test/org/repo?a=b", "http://git.test", "org/repo"),
        ] {
            assert_eq!(repository(address), Ok((host.to_owned(), id.to_owned())), "{address}");
        }
        for wrong in ["", "repo", "ftp://a/b", "file:///a", "https://host"] {
            assert!(repository(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn revisions_have_hashes() {
        let hash = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738";
        for form in
            ["main@sha1:HASH", "sha1:HASH", "feature/x@sha1:HASH", "main/HASH", "feature/x/HASH", "HASH"]
        {
            assert_eq!(commit_of(&form.replace("HASH", hash)), Some(hash), "{form}");
        }
        for wrong in ["", "1.2.3", "main@sha256:00", "main/x", "../../../../user/repos/xxxxxxxxxxxxxxxxxxxx"]
        {
            assert_eq!(commit_of(wrong), None, "{wrong}");
        }
    }
}
