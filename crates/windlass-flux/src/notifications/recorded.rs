//! Requests of the real notification-controller, for tests: `make fixtures` records them with tests/tools/flux-notify.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderName;
use serde::Deserialize;
use serde_json::Value;

use super::flux_event::FluxEvent;
use super::provider_requests::Post;
use super::provider_settings::Settings;
use windlass_fetch::http::{Credentials, Tls};

/// Stands for the server in addresses.
pub(super) const HOST: &str = "http://notify.test";

/// One case.
pub(super) struct Row {
    pub(super) settings: Settings,
    /// The name of a commit status.
    pub(super) commit_status: String,
    /// What the server answers to GET.
    pub(super) statuses: String,
    pub(super) event: FluxEvent,
    pub(super) requests: Vec<RecordedRequest>,
    pub(super) error: String,
}

#[derive(Deserialize)]
pub(super) struct RecordedRequest {
    pub(super) method: String,
    pub(super) target: String,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) body: String,
}

pub(super) fn rows() -> Vec<Row> {
    let text = include_str!("../../../../fixtures/flux-notify/requests.jsonl");
    text.lines().map(|line| row(serde_json::from_str(line).unwrap())).collect()
}

fn row(mut line: Value) -> Row {
    let provider = line["provider"].take();
    let text = |field: &str| provider[field].as_str().unwrap_or_default().to_owned();
    let headers = provider["headers"].as_object().into_iter().flatten();
    let headers = headers
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.as_str().unwrap().to_owned()))
        .collect();
    Row {
        settings: Settings {
            provider_type: text("type"),
            address: text("address"),
            channel: text("channel"),
            username: text("username"),
            password: text("password").into(),
            token: text("token").into(),
            app: None,
            headers,
            tls: Tls::default(),
            proxy: None,
            uid_part: String::new(),
            timeout: Duration::ZERO,
        },
        commit_status: text("commitStatus"),
        statuses: text("statuses"),
        event: serde_json::from_value(line["event"].take()).unwrap(),
        requests: serde_json::from_value(line["requests"].take()).unwrap_or_default(),
        error: line["error"].as_str().unwrap_or_default().to_owned(),
    }
}

/// The headers of a request as they are recorded.
pub(super) fn headers(post: &Post) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> =
        post.headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.clone())).collect();
    match &post.credentials {
        Some(Credentials::Basic(user, password)) => {
            let pair = STANDARD.encode(format!("{user}:{}", password.expose()));
            all.insert("authorization".to_owned(), format!("Basic {pair}"));
        }
        Some(Credentials::Bearer(token)) => {
            all.insert("authorization".to_owned(), format!("Bearer {}", token.expose()));
        }
        Some(Credentials::Signed(headers)) => {
            all.extend(headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.clone())));
        }
        None => {}
    }
    if !post.body.is_empty() {
        all.insert("content-type".to_owned(), "application/json".to_owned());
    }
    all
}

/// A body as JSON.
pub(super) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
