//! The requests that tell services of an event, in notification-controller's form. Pure.

use aws_lc_rs::hmac;
use http::header::{self, HeaderName};
use serde_json::{Value, json};

use super::super::error::FluxError;
use super::flux_event::{FluxEvent, Severity};
use super::provider_settings::Settings;
use windlass_base::bounded_json;
use windlass_base::hex::hex;
use windlass_fetch::http::Credentials;

/// A POST of JSON.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Post {
    pub(super) url: String,
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) credentials: Option<Credentials>,
    pub(super) body: String,
}

impl Post {
    fn new(url: &str, body: &Value) -> Self {
        Self { url: url.to_owned(), headers: Vec::new(), credentials: None, body: body.to_string() }
    }

    fn with(mut self, credentials: Option<Credentials>) -> Self {
        self.credentials = credentials;
        self
    }
}

/// The request for an event, of the types that need one only.
pub(super) fn post(settings: &Settings, event: &FluxEvent) -> Result<Post, FluxError> {
    let url = settings.address.as_str();
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(format!(
            "the address of the type {} has to be a URL of http or https",
            settings.provider_type
        )
        .into());
    }
    let bearer =
        (!settings.token.is_empty()).then(|| Credentials::Bearer(settings.token.expose().trim().into()));
    match settings.provider_type.as_str() {
        "generic" | "generic-hmac" => generic(settings, event),
        "slack" => Ok(Post::new(url, &slack(settings, event)).with(bearer)),
        "discord" => Ok(Post::new(&discord_url(url), &discord(settings, event))),
        "msteams" => Ok(Post::new(url, &teams(url, event))),
        "alertmanager" => {
            let login = (!settings.username.is_empty() && !settings.password.is_empty())
                .then(|| Credentials::Basic(settings.username.clone(), settings.password.clone()));
            Ok(Post::new(url, &alertmanager(event)).with(login.or(bearer)))
        }
        other => Err(format!("the type {other:?} is not supported").into()),
    }
}

/// What an answer of success has to say besides its status.
pub(super) fn check_answer(settings: &Settings, body: &[u8]) -> Result<(), FluxError> {
    // Slack's API answers errors with 200; its webhooks do not.
    if settings.provider_type != "slack" || settings.address != "https://slack.com/api/chat.postMessage" {
        return Ok(());
    }
    let answer: Value = bounded_json::from_slice(body).unwrap_or_default();
    match answer["ok"] == true {
        true => Ok(()),
        false => {
            Err(format!("Slack responded with error: {}", answer["error"].as_str().unwrap_or("no JSON"))
                .into())
        }
    }
}

fn generic(settings: &Settings, event: &FluxEvent) -> Result<Post, FluxError> {
    let body = event.json();
    let mut headers = vec![(HeaderName::from_static("gotk-component"), event.reporting_controller.clone())];
    headers.retain(|(name, _)| settings.headers.iter().all(|(own, _)| own != name));
    headers.extend(settings.headers.iter().filter(|(name, _)| *name != "x-signature").cloned());
    if settings.provider_type == "generic-hmac" {
        if settings.token.is_empty() {
            return Err("HMAC key is empty".into());
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, settings.token.expose().as_bytes());
        let signature = hex(hmac::sign(&key, body.as_bytes()).as_ref());
        headers.push((HeaderName::from_static("x-signature"), format!("sha256={signature}")));
    }
    // One that a Secret sets takes precedence.
    headers.retain(|(name, _)| *name != header::CONTENT_LENGTH && *name != header::HOST);
    Ok(Post { url: settings.address.clone(), headers, credentials: None, body })
}

/// A message in Slack's form, but for its fallback and channel.
fn attachment(settings: &Settings, event: &FluxEvent, channel: &str, fallback: &str) -> Value {
    let username = match settings.username.as_str() {
        "" => &event.reporting_controller,
        own => own,
    };
    let field = |(title, value): (&String, &String)| json!({"title": title, "value": value, "short": false});
    let color = if event.severity == Severity::Error { "danger" } else { "good" };
    json!({
        "channel": channel, "username": username, "icon_url": "", "icon_emoji": "",
        "attachments": [{
            "fallback": fallback, "color": color, "author_name": event.involved_object.title(),
            "text": event.message, "mrkdwn_in": ["text"],
            "fields": event.metadata.iter().map(field).collect::<Vec<_>>(),
        }],
    })
}

fn slack(settings: &Settings, event: &FluxEvent) -> Value {
    let first = event.message.split('\n').next().unwrap_or_default();
    let fallback = format!("{}: {first}", event.involved_object.title());
    attachment(settings, event, &settings.channel, &fallback)
}

fn discord(settings: &Settings, event: &FluxEvent) -> Value {
    attachment(settings, event, "", "")
}

/// Discord reads Slack's form below this path.
fn discord_url(url: &str) -> String {
    match url.ends_with("/slack") {
        true => url.to_owned(),
        false => format!("{}/slack", url.trim_end_matches('/')),
    }
}

fn teams(url: &str, event: &FluxEvent) -> Value {
    let after = url.split_once("://").map_or("", |(_, rest)| rest);
    let host = after.split(['/', '?']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    match host.split(':').next().unwrap_or_default().ends_with(".webhook.office.com") {
        true => teams_connector(event),
        false => teams_card(event),
    }
}

/// The form of the connectors that Microsoft has deprecated.
fn teams_connector(event: &FluxEvent) -> Value {
    let title = event.involved_object.title();
    let fact = |(name, value): (&String, &String)| json!({"name": name, "value": value});
    json!({
        "@type": "MessageCard", "@context": "http://schema.org/extensions",
        "themeColor": if event.severity == Severity::Error { "FF0000" } else { "0076D7" },
        "summary": title,
        "sections": [{
            "activityTitle": event.message, "activitySubtitle": title,
            "facts": event.metadata.iter().map(fact).collect::<Vec<_>>(),
        }],
    })
}

fn teams_card(event: &FluxEvent) -> Value {
    let mut text = json!({"type": "TextBlock", "text": event.message, "wrap": true});
    if event.severity == Severity::Error {
        text["color"] = "attention".into();
    }
    if event.message.is_empty()
        && let Some(fields) = text.as_object_mut()
    {
        fields.remove("text");
    }
    // The summary comes first.
    let (first, rest): (Vec<_>, Vec<_>) = event.metadata.iter().partition(|(key, _)| *key == "summary");
    let fact = |(title, value): (&String, &String)| json!({"title": title, "value": value});
    let facts: Vec<Value> = first.into_iter().chain(rest).map(fact).collect();
    let mut set = json!({"type": "FactSet"});
    if !facts.is_empty() {
        set["facts"] = facts.into();
    }
    let title = json!({
        "type": "TextBlock", "text": event.involved_object.title(), "size": "large", "weight": "bolder", "wrap": true,
    });
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
                "msteams": {"width": "Full"},
                "body": [{"type": "Container", "items": [title, text, set]}],
            },
        }],
    })
}

fn alertmanager(event: &FluxEvent) -> Value {
    let involved = &event.involved_object;
    let mut labels = event.metadata.clone();
    let mut annotations = json!({"message": event.message});
    if let Some(summary) = labels.remove("summary") {
        annotations["summary"] = summary.into();
    }
    for (key, value) in [
        ("alertname", format!("Flux{}{}", involved.kind, title_case(&event.reason))),
        ("severity", event.severity.name().to_owned()),
        ("reason", event.reason.clone()),
        ("kind", involved.kind.clone()),
        ("name", involved.name.clone()),
        ("namespace", involved.namespace.clone()),
        ("reportingcontroller", event.reporting_controller.clone()),
    ] {
        labels.insert(key.to_owned(), value);
    }
    // Without an end Alertmanager takes its own time limit; Go's empty time stands for none.
    json!([{
        "status": "firing", "labels": labels, "annotations": annotations, "startsAt": event.timestamp,
        "endsAt": "0001-01-01T00:00:00Z",
    }])
}

/// A word that begins with its only upper case letter.
fn title_case(word: &str) -> String {
    let mut chars = word.chars();
    let first = chars.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(chars.flat_map(char::to_lowercase)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::recorded;
    use super::*;

    #[test]
    fn requests_are_those_of_notification_controller() {
        let mut checked = 0;
        for row in recorded::rows() {
            if ["github", "gitlab"].contains(&row.settings.provider_type.as_str()) {
                continue;
            }
            checked += 1;
            let what = format!("{} {}", row.settings.provider_type, row.event.reason);
            let sent = match post(&row.settings, &row.event) {
                Ok(sent) => sent,
                Err(error) => {
                    assert_eq!((row.requests.len(), error.to_string()), (0, row.error), "{what}");
                    continue;
                }
            };
            assert_eq!(row.requests.len(), 1, "{what}");
            let real = &row.requests[0];
            assert_eq!(sent.url.strip_prefix(recorded::HOST).unwrap(), real.target, "{what}");
            if row.settings.provider_type.starts_with("generic") {
                assert_eq!(sent.body, real.body, "{what}");
            }
            assert_eq!(recorded::json(&sent.body), recorded::json(&real.body), "{what}");
            assert_eq!(recorded::headers(&sent), real.headers, "{what}");
        }
        assert_eq!(checked, 84);
    }

    #[test]
    fn addresses_decide_on_forms() {
        for (url, expected) in [
            ("https://d.test/api/1", "https://d.test/api/1/slack"),
            ("https://d.test/api/1/", "https://d.test/api/1/slack"),
            ("https://d.test/api/1/slack", "https://d.test/api/1/slack"),
        ] {
            assert_eq!(discord_url(url), expected);
        }
        let row = recorded::rows().remove(0);
        for (url, old) in [
            ("https://x.webhook.office.com/a", true),
            ("https://x.webhook.office.com:443?a", true),
            ("https://x.test/.webhook.office.com", false),
            ("https://webhook.office.com/a", false),
        ] {
            assert_eq!(teams(url, &row.event)["@type"] == "MessageCard", old, "{url}");
        }
        let card = teams_connector(&row.event);
        assert_eq!(
            (&card["themeColor"], &card["summary"]),
            (&json!("0076D7"), &json!("helmrelease/podinfo.apps"))
        );
        assert_eq!(card["sections"][0]["facts"][1], json!({"name": "revision", "value": "6.0.0"}));
        let settings =
            Settings { address: "ftp://x".to_owned(), provider_type: "slack".to_owned(), ..row.settings };
        assert!(post(&settings, &row.event).is_err());
    }

    #[test]
    fn slack_answers_errors_with_success() {
        let row = recorded::rows().remove(0);
        let api = Settings {
            provider_type: "slack".to_owned(),
            address: "https://slack.com/api/chat.postMessage".to_owned(),
            ..row.settings
        };
        assert_eq!(check_answer(&api, br#"{"ok": true}"#), Ok(()));
        let error = check_answer(&api, br#"{"ok": false, "error": "invalid_auth"}"#).unwrap_err();
        assert_eq!(error.to_string(), "Slack responded with error: invalid_auth");
        assert!(check_answer(&api, b"").is_err());
        let webhook = Settings { address: "https://hooks.slack.com/services/a".to_owned(), ..api };
        assert_eq!(check_answer(&webhook, b"ok"), Ok(()));
    }
}
