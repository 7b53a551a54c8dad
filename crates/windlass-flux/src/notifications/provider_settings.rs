//! A Provider with its Secrets: how its service is reached, and with which credentials.

use std::sync::Arc;
use std::time::Duration;

use chart_compat::data::Data;
use chart_compat::yaml;
use http::header::HeaderName;

use super::super::error::FluxError;
use super::flux_event::FluxEvent;
use flux_api::GoDuration;
use flux_api::common::LocalObjectReference;
use flux_api::provider::ProviderSpec;
use windlass_base::cel_expression::check_over;
use windlass_base::redact;
use windlass_base::redact::SecretText;
use windlass_cluster::Cluster;
use windlass_controller::{SecretData, SecretReadError};
use windlass_fetch::git::github_app::{self, GitHubApp};
use windlass_fetch::http::{Pem, Proxy, Tls};
use windlass_fetch::location::Location;

/// Time limit of sending an event.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The longest one that a Provider may have.
const MAX_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest address, in bytes.
const MAX_ADDRESS: usize = 2048;
/// Most headers of a Secret.
const MAX_HEADERS: usize = 64;

/// The types whose events can be sent.
pub(super) const SUPPORTED: [&str; 8] =
    ["generic", "generic-hmac", "slack", "msteams", "discord", "alertmanager", "github", "gitlab"];
/// The types that write the status of a commit.
const COMMIT_STATUS: [&str; 6] = ["github", "gitlab", "gitea", "bitbucketserver", "bitbucket", "azuredevops"];

/// What `commitStatusExpr` sees.
const COMMIT_STATUS_VARIABLES: [&str; 3] = ["event", "alert", "provider"];

/// How the service of a Provider is reached.
#[derive(Clone, Default)]
pub(super) struct Settings {
    pub(super) provider_type: String,
    pub(super) address: String,
    pub(super) channel: String,
    pub(super) username: String,
    pub(super) password: SecretText,
    pub(super) token: SecretText,
    /// An app of GitHub, which stands for a token.
    pub(super) app: Option<Arc<GitHubApp>>,
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) tls: Tls,
    pub(super) proxy: Option<Proxy>,
    /// Beginning of the UID of the Provider: clusters write commit statuses of different names.
    pub(super) uid_part: String,
    pub(super) timeout: Duration,
}

/// The Secrets of a Provider.
#[derive(Clone, Default)]
pub(super) struct ProviderSecrets {
    pub(super) access: Option<SecretData>,
    pub(super) certificate: Option<SecretData>,
    pub(super) proxy: Option<SecretData>,
}

/// Whether a Provider writes commit statuses.
pub(super) fn writes_commit_status(spec: &ProviderSpec) -> bool {
    COMMIT_STATUS.contains(&spec.provider_type.as_str())
}

/// What of a Provider is not supported.
pub(super) fn unsupported(spec: &ProviderSpec) -> Option<String> {
    if !SUPPORTED.contains(&spec.provider_type.as_str()) {
        let known = SUPPORTED.join(", ");
        return Some(format!("spec.type {:?} is not supported: there are {known}", spec.provider_type));
    }
    if spec.commit_status_expr.is_empty() {
        return None;
    }
    let error = check_over(&spec.commit_status_expr, &COMMIT_STATUS_VARIABLES).err()?;
    Some(format!("spec.commitStatusExpr: failed to compile expression: {error}"))
}

/// Whether a Provider gets an event, by what it writes and what the event says.
pub(super) fn admits(spec: &ProviderSpec, event: &FluxEvent) -> bool {
    let update = event.metadata.get(&event.involved_object.metadata_key("commit_status"));
    let is_update = update.is_some_and(|value| value == "update");
    if !writes_commit_status(spec) {
        return !is_update || spec.provider_type.starts_with("generic");
    }
    let has_commit =
        event.metadata.get("event.toolkit.fluxcd.io/commit").is_some_and(|commit| !commit.is_empty());
    has_commit || is_update || event.severity == super::flux_event::Severity::Error
}

/// Reads the Secrets of a Provider, in its namespace only.
pub(super) async fn read_secrets(
    cluster: &Cluster,
    namespace: &str,
    spec: &ProviderSpec,
) -> Result<ProviderSecrets, FluxError> {
    let read = async |reference: &Option<LocalObjectReference>| match reference {
        Some(reference) => read_secret(cluster, namespace, &reference.name).await.map(Some),
        None => Ok(None),
    };
    Ok(ProviderSecrets {
        access: read(&spec.secret_ref).await?,
        certificate: read(&spec.cert_secret_ref).await?,
        proxy: read(&spec.proxy_secret_ref).await?,
    })
}

/// Reads a Secret of a Provider or Receiver.
pub(super) async fn read_secret(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<SecretData, FluxError> {
    let secret = SecretData::read(cluster, namespace, name).await;
    let place = format!("failed to get secret '{namespace}/{name}'");
    secret.map_err(|error| match error {
        SecretReadError::NotFound(_) => FluxError::within(place, "not found"),
        error => FluxError::within(place, error),
    })
}

fn tls(secret: &SecretData) -> Result<Tls, FluxError> {
    let pem = |names: [&str; 2]| names.iter().find_map(|name| secret.get(name)).map(|b| Pem::Text(b.into()));
    let ca = pem(["ca.crt", "caFile"]);
    let (certificate, key) = (pem(["tls.crt", "certFile"]), pem(["tls.key", "keyFile"]));
    if certificate.is_some() != key.is_some() {
        return Err(format!("secret '{}': tls.crt and tls.key belong together", secret.name()).into());
    }
    Ok(Tls { ca, certificate, key, insecure: false })
}

fn login(secret: &SecretData) -> Option<(String, SecretText)> {
    Some((secret.text("username")?, secret.text("password")?.into()))
}

fn headers(secret: &SecretData) -> Result<Vec<(HeaderName, String)>, FluxError> {
    let Some(text) = secret.get("headers") else { return Ok(Vec::new()) };
    let wrong = |why: String| FluxError::within(format!("secret '{}': headers", secret.name()), why);
    let map = yaml::from_slice_map(text).map_err(|e| wrong(e.to_string()))?;
    let mut headers = Vec::new();
    for (key, value) in &map {
        let Data::String(value) = value else { return Err(wrong(format!("{key}: not a string"))) };
        let name = HeaderName::try_from(&**key).map_err(|_| wrong(format!("{key:?} is not a header")))?;
        if value.chars().any(char::is_control) {
            return Err(wrong(format!("{key}: not the value of a header")));
        }
        redact::add(value);
        headers.push((name, value.clone()));
    }
    match headers.len() {
        0..=MAX_HEADERS => Ok(headers),
        _ => Err(wrong(format!("more than {MAX_HEADERS} of them"))),
    }
}

/// An address that a Secret has. Errors show it in normal form, which is another text than the Secret's: both are masked.
fn secret_address(text: &str) -> String {
    let text = text.trim();
    if let Ok(location) = Location::parse(text) {
        location.mask();
    }
    text.to_owned()
}

/// The settings of a Provider.
pub(super) fn settings(
    spec: &ProviderSpec,
    uid: &str,
    secrets: &ProviderSecrets,
) -> Result<Settings, FluxError> {
    let access = secrets.access.clone().unwrap_or_default();
    let address = access.text("address").map_or_else(|| spec.address.clone(), |text| secret_address(&text));
    if address.len() > MAX_ADDRESS {
        return Err(format!("the address has more than {MAX_ADDRESS} bytes").into());
    }
    let (username, password) =
        login(&access).unwrap_or_else(|| (spec.username.clone(), SecretText::default()));
    let tls = match &secrets.certificate {
        Some(secret) => tls(secret)?,
        None if writes_commit_status(spec) => tls(&access)?,
        None => Tls::default(),
    };
    let proxy = match &secrets.proxy {
        Some(secret) => {
            let address = secret.text("address");
            let missing = || format!("secret '{}': key 'address' not found", secret.name());
            Some(Proxy { address: secret_address(&address.ok_or_else(missing)?), login: login(secret) })
        }
        None => {
            let own = access.text("proxy").map(|text| secret_address(&text));
            let address = own.unwrap_or_else(|| spec.proxy.clone());
            (!address.is_empty()).then_some(Proxy { address, login: None })
        }
    };
    let token = SecretText::from(access.text("token").unwrap_or_default());
    let has_app = access.get(github_app::APP_ID).is_some();
    let app = match spec.provider_type == "github"
        && token.expose().trim().is_empty()
        && password.expose().trim().is_empty()
        && has_app
    {
        true => {
            let app = GitHubApp::of_secret(|key| access.get(key));
            Some(Arc::new(app.map_err(|e| format!("secret '{}': {e}", access.name()))?))
        }
        false => None,
    };
    let timeout = spec.timeout.as_ref().map_or(TIMEOUT, GoDuration::get);
    Ok(Settings {
        provider_type: spec.provider_type.clone(),
        address,
        channel: spec.channel.clone(),
        username,
        password,
        token,
        app,
        headers: headers(&access)?,
        tls,
        proxy,
        uid_part: uid.split('-').next().unwrap_or_default().to_owned(),
        timeout: timeout.min(MAX_TIMEOUT),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use windlass_base::redact::SecretScope;

    fn spec(value: Value) -> ProviderSpec {
        serde_json::from_value(value).unwrap()
    }

    fn secret(values: &[(&str, &str)]) -> Option<SecretData> {
        let values =
            values.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
        Some(SecretData::new("n", "s", values))
    }

    #[test]
    fn secrets_take_precedence() {
        let provider = spec(json!({
            "type": "slack", "address": "https://a.test/", "username": "bot", "channel": "c", "timeout": "1m", "proxy": "http://p",
        }));
        let none = settings(&provider, "0a1b-2c3d", &ProviderSecrets::default()).unwrap();
        assert_eq!((none.address.as_str(), none.username.as_str()), ("https://a.test/", "bot"));
        assert_eq!((none.timeout.as_secs(), none.uid_part.as_str()), (60, "0a1b"));
        assert_eq!(none.proxy.map(|proxy| proxy.address), Some("http://p".to_owned()));
        let secrets = ProviderSecrets {
            access: secret(&[
                ("address", " https://b.test/x\n"),
                ("token", "t-1"),
                ("username", "u"),
                ("password", "p"),
                ("headers", "X-One: a\nAuthorization: Bearer b\n"),
            ]),
            certificate: secret(&[("ca.crt", "PEM")]),
            proxy: secret(&[("address", "http://q"), ("username", "u"), ("password", "p")]),
        };
        let all = settings(&provider, "", &secrets).unwrap();
        assert_eq!((all.address.as_str(), all.token.expose()), ("https://b.test/x", "t-1"));
        assert_eq!((all.username.as_str(), all.password.expose()), ("u", "p"));
        assert!(all.tls.ca.is_some() && all.tls.certificate.is_none());
        let proxy = all.proxy.unwrap();
        assert_eq!((proxy.address.as_str(), proxy.login), ("http://q", Some(("u".to_owned(), "p".into()))));
        let names: Vec<&str> = all.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["authorization", "x-one"]);
    }

    #[test]
    fn addresses_of_secrets_are_masked_in_normal_form() {
        SecretScope::new().run(|| {
            let provider = spec(json!({"type": "slack", "address": "https://Spec.test/not-a-secret"}));
            settings(&provider, "", &ProviderSecrets::default()).unwrap();
            let secrets = |address: &str, proxy: &str| ProviderSecrets {
                access: secret(&[("address", address), ("proxy", proxy)]),
                ..ProviderSecrets::default()
            };
            for (address, proxy) in [
                (" https://Hooks.test/services/T/B/token-one#x\n", "http://u:p@Proxy.test:3128"),
                ("https://u:p@hooks.test/token-two", "HTTP://other-proxy.test/"),
            ] {
                settings(&provider, "", &secrets(address, proxy)).unwrap();
            }
            for (text, shown) in [
                ("Post \"https://hooks.test/services/T/B/token-one\": EOF", "Post \"***\": EOF"),
                ("Post \"https://hooks.test/token-two\": EOF", "Post \"***\": EOF"),
                ("Post \"https://spec.test/not-a-secret\"", "Post \"https://spec.test/not-a-secret\""),
                ("proxies http://proxy.test:3128 and http://other-proxy.test/", "proxies *** and ***"),
            ] {
                assert_eq!(redact::mask(text), shown);
            }
        });
    }

    #[test]
    fn wrong_secrets_are_named() {
        let access = |values: &[(&str, &str)]| ProviderSecrets {
            access: secret(values),
            ..ProviderSecrets::default()
        };
        let certificate = |values: &[(&str, &str)]| ProviderSecrets {
            certificate: secret(values),
            ..ProviderSecrets::default()
        };
        let long = "x".repeat(2049);
        let app = settings(&spec(json!({"type": "github"})), "", &access(&[("githubAppID", "1")])).err();
        assert_eq!(
            app.map(String::from).as_deref(),
            Some("secret 'n/s': either githubAppInstallationID or githubAppInstallationOwner is required")
        );
        for (secrets, text) in [
            (access(&[("headers", "a b: c")]), "secret 'n/s': headers: \"a b\" is not a header"),
            (access(&[("headers", "a: 1")]), "secret 'n/s': headers: a: not a string"),
            (access(&[("headers", "a: \"b\\nc\"")]), "secret 'n/s': headers: a: not the value of a header"),
            (access(&[("address", &long)]), "the address has more than 2048 bytes"),
            (certificate(&[("tls.crt", "x")]), "secret 'n/s': tls.crt and tls.key belong together"),
            (
                ProviderSecrets { proxy: secret(&[("username", "x")]), ..ProviderSecrets::default() },
                "secret 'n/s': key 'address' not found",
            ),
        ] {
            let error = settings(&spec(json!({"type": "generic"})), "", &secrets).err().unwrap();
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        assert_eq!(unsupported(&spec(json!({"type": "slack"}))), None);
        let text = unsupported(&spec(json!({"type": "telegram"}))).unwrap();
        assert!(text.starts_with("spec.type \"telegram\" is not supported: there are generic,"), "{text}");
        assert_eq!(unsupported(&spec(json!({"type": "github", "commitStatusExpr": "event.reason"}))), None);
        let text = unsupported(&spec(json!({"type": "github", "commitStatusExpr": "req.a"}))).unwrap();
        assert_eq!(
            text,
            "spec.commitStatusExpr: failed to compile expression: undeclared reference to 'req'"
        );
    }

    #[test]
    fn commit_statuses_need_a_commit_or_a_failure() {
        let event = |severity: &str, metadata: Value| -> FluxEvent {
            serde_json::from_value(json!({
                "involvedObject": {"apiVersion": "helm.toolkit.fluxcd.io/v2"}, "severity": severity, "timestamp": "",
                "message": "", "reason": "", "reportingController": "", "metadata": metadata,
            }))
            .unwrap()
        };
        let plain = event("info", json!({}));
        let failure = event("error", json!({}));
        let commit = event("info", json!({"event.toolkit.fluxcd.io/commit": "c"}));
        let update = event("info", json!({"helm.toolkit.fluxcd.io/commit_status": "update"}));
        for (kind, expected) in [
            ("github", [false, true, true, true]),
            ("gitlab", [false, true, true, true]),
            ("generic", [true, true, true, true]),
            ("generic-hmac", [true, true, true, true]),
            ("slack", [true, true, true, false]),
        ] {
            let provider = spec(json!({"type": kind}));
            assert_eq!(
                [&plain, &failure, &commit, &update].map(|event| admits(&provider, event)),
                expected,
                "{kind}"
            );
        }
    }
}
