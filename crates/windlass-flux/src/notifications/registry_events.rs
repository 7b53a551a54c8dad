//! Which repositories the notification of a registry names. Pure.
//!
//! The forms of CNCF distribution and of registries on it (Azure's), Docker Hub, Harbor, Quay, Nexus and GitHub's packages. What is of none
//! of these forms names none: a Receiver takes requests of others, too.

use std::collections::BTreeSet;
use windlass_base::bounded_json;

use serde_json::Value;

/// The largest body that is read, in bytes: a tree of it takes up to a hundred times as much memory.
pub(super) const MAX_BODY: usize = 128 << 10;
/// The most repositories of a request.
const MAX_REPOSITORIES: usize = 100;
/// The longest path of a repository, in bytes.
const MAX_PATH: usize = 255;

/// The paths of the repositories that a request says something was pushed to, such as `team/web`.
pub(super) fn pushed_repositories(body: &[u8]) -> BTreeSet<String> {
    let payload = (body.len() <= MAX_BODY).then(|| bounded_json::from_slice::<Value>(body).ok()).flatten();
    let Some(payload) = payload else { return BTreeSet::new() };
    let named = distribution(&payload).chain(others(&payload)).filter_map(path_of);
    named.take(MAX_REPOSITORIES).collect()
}

/// CNCF distribution sends a list of events, Azure's registry each one by itself.
fn distribution(payload: &Value) -> impl Iterator<Item = &str> {
    let list = payload["events"].as_array().map_or(std::slice::from_ref(payload), Vec::as_slice);
    let pushes = list.iter().filter(|event| event["action"] == "push" || event["action"] == "mount");
    pushes.filter_map(|event| event["target"]["repository"].as_str())
}

fn others(payload: &Value) -> impl Iterator<Item = &str> {
    let repository = &payload["repository"];
    // GitHub's event is called `package`, and before that `registry_package`.
    let packages = [&payload["package"], &payload["registry_package"]];
    let packages = packages.into_iter().filter_map(|package| {
        let version = &package["package_version"];
        let url = version["package_url"].as_str().map(without_tag).map(without_host);
        url.filter(|url| !url.is_empty())
    });
    let harbor = payload["event_data"]["repository"]["repo_full_name"].as_str();
    let harbor = harbor.filter(|_| payload["type"] == "PUSH_ARTIFACT" || payload["type"] == "pushImage");
    // Quay's `repository` is the path itself; Docker Hub's has it as `repo_name`.
    let quay = repository.as_str().filter(|_| payload["docker_url"].is_string());
    let hub = repository["repo_name"].as_str().filter(|_| payload["push_data"].is_object());
    let nexus = payload["component"]["name"].as_str().filter(|_| payload["component"]["format"] == "docker");
    packages.chain(harbor).chain(quay).chain(hub).chain(nexus)
}

/// Without `:TAG` and `@DIGEST`.
fn without_tag(url: &str) -> &str {
    let url = url.split_once('@').map_or(url, |(url, _)| url);
    match url.rsplit_once(':') {
        Some((url, tag)) if !tag.contains('/') => url,
        _ => url,
    }
}

fn without_host(url: &str) -> &str {
    url.split_once('/').map_or("", |(_, path)| path)
}

/// A path as it may be asked for; `None` if it is none.
fn path_of(text: &str) -> Option<String> {
    let path = text.trim_matches('/').to_lowercase();
    let is_part = |part: &str| {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(word)
    };
    (path.len() <= MAX_PATH && path.split('/').all(is_part)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pushed(payload: &Value) -> Vec<String> {
        pushed_repositories(payload.to_string().as_bytes()).into_iter().collect()
    }

    #[test]
    fn each_registry_names_its_repositories() {
        let event = |action: &str, repository: &str| json!({"action": action, "target": {"repository": repository, "tag": "1"}});
        for (name, payload) in [
            ("distribution", json!({"events": [event("push", "team/web"), event("pull", "team/db")]})),
            ("Azure", event("push", "team/web")),
            (
                "Docker Hub",
                json!({"push_data": {"tag": "1"}, "repository": {"repo_name": "team/web", "name": "web"}}),
            ),
            (
                "Harbor",
                json!({"type": "PUSH_ARTIFACT", "event_data": {"repository": {"repo_full_name": "team/web", "name": "web"}}}),
            ),
            (
                "Quay",
                json!({"repository": "team/web", "docker_url": "quay.test/team/web", "updated_tags": ["1"]}),
            ),
            (
                "Nexus",
                json!({"repositoryName": "docker", "component": {"format": "docker", "name": "team/web"}}),
            ),
            (
                "GitHub",
                json!({"action": "published", "package": {"package_version": {"package_url": "ghcr.test/Team/web:1"}}}),
            ),
            (
                "GitHub before",
                json!({"registry_package": {"package_version": {"package_url": "ghcr.test:5000/team/web@sha256:1"}}}),
            ),
        ] {
            assert_eq!(pushed(&payload), ["team/web"], "{name}");
        }
    }

    #[test]
    fn what_is_forged_or_of_another_form_names_none() {
        for payload in [
            json!({}),
            json!([]),
            json!("x"),
            json!({"events": {"action": "push"}}),
            json!({"events": [1, null, {"action": "push"}, {"action": "push", "target": {"repository": 1}}]}),
            json!({"ref": "refs/heads/main", "repository": {"full_name": "team/web"}}),
            json!({"type": "DELETE_ARTIFACT", "event_data": {"repository": {"repo_full_name": "team/web"}}}),
            json!({"component": {"format": "maven2", "name": "web"}}),
            json!({"package": {"package_version": {"package_url": "web"}}}),
        ] {
            assert_eq!(pushed(&payload), Vec::<String>::new(), "{payload}");
        }
        let long = "a".repeat(300);
        for path in
            ["", "/", "..", "team/../web", "team//web", "team/web?x", "team/w\n", "-x", "t\u{e9}", &long]
        {
            assert_eq!(
                pushed(&json!({"action": "push", "target": {"repository": path}})),
                Vec::<String>::new()
            );
        }
        for body in [&b""[..], b"{", b"\xff", "[".repeat(100_000).as_bytes()] {
            assert!(pushed_repositories(body).is_empty());
        }
        let event = json!({"action": "push", "target": {"repository": "team/web"}}).to_string();
        let padded = |length: usize| event.clone() + &" ".repeat(length - event.len());
        for (length, count) in [(MAX_BODY, 1), (MAX_BODY + 1, 0)] {
            assert_eq!(pushed_repositories(padded(length).as_bytes()).len(), count, "{length}");
        }
        let many: Vec<Value> = (0..1_000)
            .map(|number| json!({"action": "push", "target": {"repository": format!("team/{number}")}}))
            .collect();
        assert_eq!(pushed(&json!({"events": many})).len(), MAX_REPOSITORIES);
    }
}
