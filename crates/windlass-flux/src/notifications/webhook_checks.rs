//! Whether a request to a webhook is of the caller that its Receiver names. Pure.

use aws_lc_rs::{constant_time, hmac};
use http::HeaderMap;
use serde::Deserialize;
use windlass_base::bounded_json;

use flux_api::receiver::ReceiverSpec;

use super::super::error::FluxError;

/// The types whose requests can be checked.
pub(super) const SUPPORTED: [&str; 10] = [
    "generic",
    "generic-hmac",
    "github",
    "gitlab",
    "bitbucket",
    "harbor",
    "dockerhub",
    "quay",
    "nexus",
    "acr",
];

/// What of a Receiver is not supported.
pub(super) fn unsupported(spec: &ReceiverSpec) -> Option<String> {
    if !SUPPORTED.contains(&spec.receiver_type.as_str()) {
        let known = SUPPORTED.join(", ");
        return Some(format!("spec.type {:?} is not supported: there are {known}", spec.receiver_type));
    }
    None
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerHub {
    push_data: PushData,
    repository: Repository,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PushData {
    tag: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Repository {
    repo_url: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Quay {
    docker_url: String,
    updated_tags: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Nexus {
    repository_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AzureRegistry {
    target: AzureTarget,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AzureTarget {
    repository: String,
    tag: String,
}

/// Whether the check of a type reads the body as JSON.
pub(super) fn reads_json(spec: &ReceiverSpec) -> bool {
    matches!(spec.receiver_type.as_str(), "dockerhub" | "quay" | "nexus" | "acr")
}

/// Checks a request. Returns what it is about, for the log.
pub(super) fn check(
    spec: &ReceiverSpec,
    token: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<String, FluxError> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match spec.receiver_type.as_str() {
        // The path is the secret.
        "generic" => Ok(String::new()),
        "generic-hmac" => check_signature(header("X-Signature"), token, body)
            .map(|()| String::new())
            .map_err(|e| FluxError::within("unable to validate HMAC signature", e)),
        "github" => {
            check_hub_signature("GitHub", &header, token, body)?;
            allowed(spec, "GitHub", header("X-GitHub-Event"))
        }
        "bitbucket" => {
            check_hub_signature("Bitbucket server", &header, token, body)?;
            allowed(spec, "Bitbucket server", header("X-Event-Key"))
        }
        "gitlab" => {
            if !is_equal(header("X-Gitlab-Token"), token) {
                return Err("the X-Gitlab-Token header value does not match the receiver token".into());
            }
            allowed(spec, "GitLab", header("X-Gitlab-Event"))
        }
        "harbor" => match is_equal(header("Authorization"), token) {
            true => Ok(String::new()),
            false => Err("the Harbor Authorization header value does not match the receiver token".into()),
        },
        "dockerhub" => {
            let payload: DockerHub = bounded_json::from_slice(body)
                .map_err(|_| "cannot decode DockerHub webhook payload".to_owned())?;
            Ok(format!("{}:{}", payload.repository.repo_url, payload.push_data.tag))
        }
        "quay" => {
            let payload: Quay = bounded_json::from_slice(body)
                .map_err(|e| format!("cannot decode Quay webhook payload: {e}"))?;
            Ok(format!("{}: {} tags", payload.docker_url, payload.updated_tags.len()))
        }
        "nexus" => {
            let signature = header("X-Nexus-Webhook-Signature");
            if signature.is_empty() {
                return Err("the Nexus signature is missing from header".into());
            }
            check_digest(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, signature, token, body)
                .map_err(|_| "invalid Nexus signature".to_owned())?;
            let payload: Nexus = bounded_json::from_slice(body)
                .map_err(|e| format!("cannot decode Nexus webhook payload: {e}"))?;
            Ok(payload.repository_name)
        }
        // As with DockerHub and Quay, the path is the secret.
        "acr" => {
            let AzureRegistry { target } = bounded_json::from_slice(body)
                .map_err(|e| format!("cannot decode ACR webhook payload: {e}"))?;
            Ok(format!("{}:{}", target.repository, target.tag))
        }
        other => Err(format!("receiver type {other:?} not supported").into()),
    }
}

/// Checks the signature of a service that signs as GitHub: the better one of two headers.
fn check_hub_signature<'h>(
    service: &str,
    header: &impl Fn(&str) -> &'h str,
    token: &str,
    body: &[u8],
) -> Result<(), FluxError> {
    let signature = match header("X-Hub-Signature-256") {
        "" => header("X-Hub-Signature"),
        signature => signature,
    };
    check_content_type(header("Content-Type"))
        .and_then(|()| check_signature(signature, token, body))
        .map_err(|e| FluxError::within(format!("the {service} signature header is invalid, err"), e))
}

/// Whether an event is one of those that the Receiver lists, if it lists any.
fn allowed(spec: &ReceiverSpec, service: &str, event: &str) -> Result<String, FluxError> {
    if !spec.events.is_empty() && !spec.events.iter().any(|known| known.eq_ignore_ascii_case(event)) {
        return Err(format!("the {service} event {event:?} is not authorised").into());
    }
    Ok(event.to_owned())
}

/// In a time that tells nothing of the token.
fn is_equal(given: &str, token: &str) -> bool {
    constant_time::verify_slices_are_equal(given.as_bytes(), token.as_bytes()).is_ok()
}

fn check_content_type(text: &str) -> Result<(), FluxError> {
    let media = text.split(';').next().unwrap_or_default().trim().to_lowercase();
    match media.as_str() {
        "application/json" | "application/x-www-form-urlencoded" => Ok(()),
        _ => Err(format!("webhook request has unsupported Content-Type {media:?}").into()),
    }
}

/// Checks `ALGORITHM=HEX` of a body.
fn check_signature(signature: &str, token: &str, body: &[u8]) -> Result<(), FluxError> {
    if signature.is_empty() {
        return Err("missing signature".into());
    }
    let (algorithm, hex) = signature.split_once('=').ok_or("error parsing signature")?;
    let algorithm = match algorithm {
        "sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => hmac::HMAC_SHA256,
        "sha512" => hmac::HMAC_SHA512,
        other => return Err(format!("unknown hash type prefix: {other:?}").into()),
    };
    check_digest(algorithm, hex, token, body)
}

/// Checks the digest of a body in hexadecimal digits.
fn check_digest(algorithm: hmac::Algorithm, hex: &str, token: &str, body: &[u8]) -> Result<(), FluxError> {
    let tag = decode(hex).ok_or("error decoding signature")?;
    let key = hmac::Key::new(algorithm, token.as_bytes());
    hmac::verify(&key, body, &tag).map_err(|_| "payload signature check failed".into())
}

fn decode(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = hex.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits?;
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect()
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;
    use serde_json::{Value, json};

    use super::*;

    const BODY: &[u8] = br#"{"a": 1}"#;
    /// Of BODY with the key `token-1`, by `openssl dgst -ALGORITHM -hmac token-1`.
    const SHA256: &str = "746438de12fc78d45014900177e01efb0beacbcb5a337f23353918a5290ed077";
    const SHA1: &str = "382ed0d012b636c0a9137d562b26e2be9bf8e3b3";
    const SHA512: &str = "fbc5263698a817ca6160efcfa35653c34a6680b1e1f766a991d9f1d14559370a362abad84267365bf47bf68915616e01ab9d04b541239acde0cda0008b548319";

    fn run(kind: &str, events: &[&str], headers: &[(&str, &str)], body: &[u8]) -> Result<String, String> {
        let spec: ReceiverSpec =
            serde_json::from_value(json!({"type": kind, "events": events, "resources": []})).unwrap();
        let all =
            headers.iter().map(|(k, v)| (k.parse::<HeaderName>().unwrap(), v.parse().unwrap())).collect();
        check(&spec, "token-1", &all, body).map_err(String::from)
    }

    #[test]
    fn signatures() {
        let signed = |text: &str| run("generic-hmac", &[], &[("X-Signature", text)], BODY).map(drop);
        for text in [format!("sha256={SHA256}"), format!("sha1={SHA1}"), format!("sha512={SHA512}")] {
            assert_eq!(signed(&text), Ok(()), "{text}");
        }
        assert_eq!(signed(&format!("sha256={}", SHA256.to_uppercase())), Ok(()));
        let other = format!("sha256={}", SHA256.replace('0', "1"));
        let (short, swapped) = (format!("sha256={}", &SHA256[..32]), format!("sha1={SHA256}"));
        for (text, error) in [
            ("", "missing signature"),
            ("sha256", "error parsing signature"),
            ("md5=00", "unknown hash type prefix: \"md5\""),
            ("sha256=0", "error decoding signature"),
            ("sha256=zz", "error decoding signature"),
            ("sha256=", "payload signature check failed"),
            (other.as_str(), "payload signature check failed"),
            (short.as_str(), "payload signature check failed"),
            (swapped.as_str(), "payload signature check failed"),
        ] {
            assert_eq!(signed(text), Err(format!("unable to validate HMAC signature: {error}")), "{text}");
        }
        let changed = run("generic-hmac", &[], &[("X-Signature", &format!("sha256={SHA256}"))], b"{}");
        assert!(changed.is_err());
    }

    #[test]
    fn callers_and_their_events() {
        let good = format!("sha256={SHA256}");
        let (json_type, form) =
            (("Content-Type", "application/json; charset=utf-8"), "application/x-www-form-urlencoded");
        let github = ("X-Hub-Signature-256", good.as_str());
        let push = ("X-GitHub-Event", "push");
        let old = format!("sha1={SHA1}");
        for (kind, events, headers, passes) in [
            ("generic", &[][..], vec![], true),
            ("github", &[], vec![json_type, github, push], true),
            ("github", &["Push", "ping"], vec![json_type, github, push], true),
            ("github", &["ping"], vec![json_type, github, push], false),
            ("github", &[], vec![("Content-Type", form), github], true),
            ("github", &[], vec![("Content-Type", "text/plain"), github], false),
            ("github", &[], vec![github], false),
            ("github", &[], vec![json_type], false),
            ("github", &[], vec![json_type, ("X-Hub-Signature", old.as_str())], true),
            // The better signature counts, also if it is the wrong one.
            (
                "github",
                &[],
                vec![json_type, ("X-Hub-Signature", old.as_str()), ("X-Hub-Signature-256", "sha256=00")],
                false,
            ),
            ("gitlab", &[], vec![("X-Gitlab-Token", "token-1")], true),
            (
                "gitlab",
                &["Push Hook"],
                vec![("X-Gitlab-Token", "token-1"), ("X-Gitlab-Event", "push hook")],
                true,
            ),
            (
                "gitlab",
                &["Push Hook"],
                vec![("X-Gitlab-Token", "token-1"), ("X-Gitlab-Event", "Tag Push Hook")],
                false,
            ),
            ("gitlab", &[], vec![("X-Gitlab-Token", "token-2")], false),
            ("gitlab", &[], vec![], false),
            ("bitbucket", &[], vec![json_type, ("X-Hub-Signature", good.as_str())], true),
            ("bitbucket", &[], vec![json_type, ("X-Hub-Signature", "sha256=00")], false),
            ("bitbucket", &[], vec![json_type], false),
            (
                "bitbucket",
                &["repo:refs_changed"],
                vec![json_type, ("X-Hub-Signature", good.as_str()), ("X-Event-Key", "repo:refs_changed")],
                true,
            ),
            (
                "bitbucket",
                &["repo:refs_changed"],
                vec![json_type, ("X-Hub-Signature", good.as_str()), ("X-Event-Key", "pr:opened")],
                false,
            ),
            ("nexus", &[], vec![("X-Nexus-Webhook-Signature", SHA1)], true),
            ("nexus", &[], vec![("X-Nexus-Webhook-Signature", SHA256)], false),
            ("nexus", &[], vec![("X-Nexus-Webhook-Signature", "")], false),
            ("nexus", &[], vec![], false),
            ("harbor", &[], vec![("Authorization", "token-1")], true),
            ("harbor", &[], vec![("Authorization", "Bearer token-1")], false),
            ("harbor", &[], vec![], false),
            ("gcr", &[], vec![], false),
        ] {
            let result = run(kind, events, &headers, BODY);
            assert_eq!(result.is_ok(), passes, "{kind} {events:?} {headers:?}: {result:?}");
        }
    }

    #[test]
    fn payloads_of_registries() {
        let pushed = br#"{"push_data": {"tag": "1"}, "repository": {"repo_url": "https://hub.test/a"}}"#;
        assert_eq!(run("dockerhub", &[], &[], pushed), Ok("https://hub.test/a:1".to_owned()));
        assert_eq!(
            run("quay", &[], &[], br#"{"docker_url": "quay.test/a", "updated_tags": ["1", "2"]}"#),
            Ok("quay.test/a: 2 tags".to_owned())
        );
        assert_eq!(
            run("acr", &[], &[], br#"{"action": "push", "target": {"repository": "a/b", "tag": "1"}}"#),
            Ok("a/b:1".to_owned())
        );
        for (kind, body) in [
            ("acr", &b"x"[..]),
            ("acr", br#"{"target": {"tag": 1}}"#),
            ("dockerhub", b""),
            ("dockerhub", b"[1"),
            ("dockerhub", br#"{"push_data": {"tag": 1}}"#),
            ("quay", br#"{"updated_tags": "1"}"#),
            ("quay", b"x"),
        ] {
            assert!(run(kind, &[], &[], body).is_err(), "{kind} {}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let told = |spec: Value| unsupported(&serde_json::from_value(spec).unwrap());
        assert_eq!(told(json!({"type": "github", "resources": [{"kind": "A", "name": "b"}]})), None);
        for kind in ["gcr", "generic-oidc", "cdevents"] {
            let found = told(json!({"type": kind})).unwrap();
            assert!(
                found.starts_with(&format!("spec.type {kind:?} is not supported: there are generic, ")),
                "{found}"
            );
        }
    }
}
