//! Sends one event to the service of one Provider.

use std::time::Duration;

use bytes::Bytes;
use http::header;
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::super::error::FluxError;
use super::commit_status;
use super::flux_event::FluxEvent;
use super::provider_requests::{self, Post};
use super::provider_settings::{self, Settings, writes_commit_status};
use flux_api::provider::ProviderSpec;
use windlass_base::cel_expression::off_runtime;
use windlass_cluster::{Cluster, ObjectMeta};
use windlass_fetch::http::{Http, HttpError, Request};
use windlass_fetch::location::Location;

/// Most requests where a service is not there, or asks to come later.
const MAX_TRIES: u32 = 5;
/// Most bytes of an answer.
const MAX_ANSWER: u64 = 1 << 20;
/// Most characters of an answer in the text of an error.
const MAX_SHOWN: usize = 512;

/// Sends an event. The namespace is the Provider's; the Alert has chosen it.
///
/// # Errors
/// A Secret cannot be read or is wrong, or the service does not take the event in the Provider's time limit.
pub(super) async fn deliver(
    cluster: &Cluster,
    http: Http,
    (namespace, provider, alert): (&str, &Value, &Value),
    spec: &ProviderSpec,
    event: &FluxEvent,
) -> Result<(), FluxError> {
    let uid = ObjectMeta::of(provider).uid();
    let secrets = provider_settings::read_secrets(cluster, namespace, spec).await?;
    let settings = provider_settings::settings(spec, uid, &secrets)?;
    let http = match &settings.proxy {
        Some(proxy) => http.with_proxy(proxy.clone()),
        None => http,
    };
    let mut service = Service { http, deadline: Instant::now() + settings.timeout, settings };
    if writes_commit_status(spec) {
        let name = match spec.commit_status_expr.as_str() {
            "" => commit_status::status_name(&service.settings.uid_part, event),
            expression => {
                let (expression, event) = (expression.to_owned(), event.clone());
                let (alert, provider) = (alert.clone(), provider.clone());
                let name = move || commit_status::computed_name(&expression, &event, &alert, &provider);
                off_runtime(name).await?
            }
        };
        return service.write_status(&name, event).await;
    }
    let post = provider_requests::post(&service.settings, event)?;
    let answer = service.send(Method::POST, &post).await.map_err(|e| e.to_string())?;
    provider_requests::check_answer(&service.settings, &answer)
}

/// A service, and until when it is tried.
struct Service {
    http: Http,
    settings: Settings,
    deadline: Instant,
}

impl Service {
    async fn write_status(&mut self, name: &str, event: &FluxEvent) -> Result<(), FluxError> {
        if commit_status::is_written(event) {
            self.get_token_of_app().await?;
        }
        let Some(update) = commit_status::update(&self.settings, name, event)? else { return Ok(()) };
        let list = Post { url: update.list.clone(), body: String::new(), ..update.create.clone() };
        let answer = self.send(Method::GET, &list).await;
        let answer = answer.map_err(|e| format!("could not list commit statuses: {e}"))?;
        if update.is_listed(&answer) {
            return Ok(());
        }
        let created = self.send(Method::POST, &update.create).await;
        created.map(drop).map_err(|e| FluxError::within("could not create commit status", e))
    }

    /// Gets the token of the Provider's app of GitHub, if it has one.
    async fn get_token_of_app(&mut self) -> Result<(), FluxError> {
        let Some(app) = &self.settings.app else { return Ok(()) };
        let server = commit_status::server(&self.settings)?;
        let token = timeout_at(self.deadline, app.token_for(&server, &self.http, &self.settings.tls)).await;
        let token = token.map_err(|_| "no token of the GitHub App within the time limit of the Provider")?;
        self.settings.token = token.map_err(|e| e.to_string())?;
        Ok(())
    }

    /// Sends a request, again after a while if that may help.
    async fn send(&self, method: Method, post: &Post) -> Result<Bytes, SendError> {
        let mut tries = 1;
        loop {
            let error = match self.try_once(method.clone(), post).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = Duration::from_secs(1 << tries.min(5));
            if !error.may_repeat() || tries == MAX_TRIES || Instant::now() + pause >= self.deadline {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            tries += 1;
        }
    }

    async fn try_once(&self, method: Method, post: &Post) -> Result<Bytes, SendError> {
        let url = Location::parse(&post.url).map_err(|_| SendError::Address)?;
        let mut headers = post.headers.clone();
        if !post.body.is_empty() && headers.iter().all(|(name, _)| *name != header::CONTENT_TYPE) {
            headers.push((header::CONTENT_TYPE, "application/json".to_owned()));
        }
        let request = Request {
            method,
            headers,
            credentials: post.credentials.clone(),
            body: post.body.clone().into(),
            // Event, headers and often the URL itself are for nobody else.
            confined: true,
            ..Request::get(url, &self.settings.tls, MAX_ANSWER)
        };
        let left = self.deadline.saturating_duration_since(Instant::now());
        let http = self.http.clone().with_timeout(left);
        let answer = http.send(request).await.map_err(SendError::Request)?;
        let status = answer.status;
        if status.is_success() {
            return answer.bytes().await.map_err(SendError::Answer);
        }
        let text = String::from_utf8_lossy(&answer.complaint().await).into_owned();
        Err(SendError::Status(status, text.chars().take(MAX_SHOWN).collect()))
    }
}

/// Why a service has not answered with success.
#[derive(Debug, thiserror::Error)]
enum SendError {
    /// The address may hold a secret, and is not shown.
    #[error("the address is not a URL")]
    Address,
    /// There is no answer.
    #[error(transparent)]
    Request(HttpError),
    /// The answer is not complete.
    #[error(transparent)]
    Answer(HttpError),
    /// The status of the answer, and the start of its body.
    #[error("request failed with status code {}: {}", .0.as_u16(), .1)]
    Status(StatusCode, String),
}

impl SendError {
    /// Whether the same request may succeed later.
    fn may_repeat(&self) -> bool {
        match self {
            Self::Request(_) => true,
            Self::Status(status, _) => {
                *status == StatusCode::TOO_MANY_REQUESTS
                    || status.is_server_error() && *status != StatusCode::NOT_IMPLEMENTED
            }
            Self::Address | Self::Answer(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated() {
        for (status, again) in
            [(400, false), (404, false), (429, true), (500, true), (501, false), (503, true)]
        {
            let error = SendError::Status(StatusCode::from_u16(status).unwrap(), String::new());
            assert_eq!(error.may_repeat(), again, "{error}");
        }
    }
}
