//! Calls of the API server: which hook answers, within which bounds, and how its answer is mapped.
//!
//! A hook that fails denies (`Hook failed`), as addon-operator does. One that is too late, or says nothing, is an error of HTTP, a
//! little before the API server would give up: whether that denies is the entry's failure policy; the answer names
//! the hook.

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::configurations::Kind;
use super::conversion_path::{chain, same_version};
use super::review::Review;
use super::{AT_ONCE_OF_OWNER, Answer, Webhooks};
use crate::shell_hooks::Hook;
use crate::shell_hooks::binding_context::ContextKind;
use crate::shell_hooks::config::{Admission, Conversion};
use crate::shell_hooks::process::{OutputFile, ProcessError};
use crate::shell_hooks::queues::Run;
use crate::shell_hooks::webhook_responses::{Admitted, ResponseError, admitted, converted};
use windlass_base::bounded_json;
use windlass_base::redact;
use windlass_controller::serve::body::{self, BodyError, Share};
use windlass_controller::serve::listen::Client;

const JSON: &str = "application/json";
/// Largest review of an admission, in bytes: it holds an object before and after, each of at most 3 MiB in requests.
const MAX_ADMISSION: usize = 8 << 20;
/// Largest review of a conversion, in bytes: lists have many objects.
const MAX_CONVERSION: usize = 64 << 20;
/// How long the API server waits for a conversion (`webhook.DefaultRequestTimeout` of its converters).
const CONVERSION: Duration = Duration::from_secs(30);
/// How much earlier than the API server we time out, so that our answer still arrives.
const MARGIN: Duration = Duration::from_millis(500);

type Shared = State<Weak<Webhooks>>;

/// What a hook did.
enum RunResult {
    Answered(Answer),
    Failed,
    Late,
}

pub(super) fn routes(webhooks: Weak<Webhooks>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/hooks/{*name}", post(validate))
        .route("/mutating/{*name}", post(mutate))
        .route("/{crd}", post(convert))
        .with_state(webhooks)
}

async fn validate(webhooks: Shared, Path(name): Path<String>, request: Request) -> Response {
    admit(webhooks, Kind::Validating, &name, request).await
}

async fn mutate(webhooks: Shared, Path(name): Path<String>, request: Request) -> Response {
    admit(webhooks, Kind::Mutating, &name, request).await
}

async fn admit(State(webhooks): Shared, kind: Kind, name: &str, request: Request) -> Response {
    let Some(webhooks) = webhooks.upgrade() else { return gone() };
    let Some(asked) = webhooks.asked(kind, name) else { return nobody() };
    match webhooks.review(request, MAX_ADMISSION, "AdmissionReview").await {
        Err(refused) => refused,
        Ok((review, share)) => webhooks.admit(kind, asked, review, share).await,
    }
}

async fn convert(State(webhooks): Shared, Path(crd): Path<String>, request: Request) -> Response {
    let Some(webhooks) = webhooks.upgrade() else { return gone() };
    if webhooks.steps(&crd).is_empty() {
        return nobody();
    }
    let (mut review, share) = match webhooks.review(request, MAX_CONVERSION, "ConversionReview").await {
        Err(refused) => return refused,
        Ok(read) => read,
    };
    let deadline = Instant::now() + CONVERSION.saturating_sub(MARGIN);
    let call = ConversionCall { crd: &crd, share: &share, deadline };
    let answer = webhooks.convert(&call, &mut review).await;
    let result = if answer.is_ok() { "converted" } else { "failed" };
    webhooks.count("kubernetesCustomResourceConversion", &crd, result);
    if let Err(text) = &answer {
        tracing::error!(crd, "conversion: {text}");
    }
    let answer = review.converted(answer.map_err(|text| redact::mask(&text).into_owned()));
    drop(review);
    json(answer, share).await
}

fn nobody() -> Response {
    refuse(StatusCode::NOT_FOUND, "no hook answers here: its module is off, or still comes up")
}

fn gone() -> Response {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "the operator stops")
}

fn refuse(status: StatusCode, text: &str) -> Response {
    (status, redact::mask(text).into_owned()).into_response()
}

/// An answer whose text has its share of the memory until it is sent.
async fn json(value: Value, share: Share) -> Response {
    let size = bounded_json::size(&value);
    if let Err(error) = share.resize(in_memory(size.parsed.saturating_add(size.bytes))).await {
        tracing::error!("webhooks: an answer is not sent: {error}");
        // Of other statuses, API servers drop the text.
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, &format!("the answer: {error}"));
    }
    let text = value.to_string();
    drop(value);
    // There is always room for less.
    share.resize(text.len()).await.unwrap_or_default();
    let text = Bytes::from_owner(AnswerText { text, _share: share });
    ([(header::CONTENT_TYPE, JSON)], Body::from(text)).into_response()
}

/// The text of an answer, with its memory.
struct AnswerText {
    text: String,
    _share: Share,
}

impl AsRef<[u8]> for AnswerText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// A number of bytes; more than there can be is no less.
fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Why an answer of a hook is not read.
#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error("its answer: {0}")]
    Memory(#[from] BodyError),
    #[error(transparent)]
    File(#[from] ProcessError),
}

/// Reads what a hook wrote, once the memory of requests has room for it besides `held` bytes: for its text, its values, and as much as its
/// text again, for what is taken out of it and becomes the answer to the API server.
async fn read_answer<T>(
    file: &OutputFile,
    (share, held): (&Share, usize),
    parse: impl FnOnce(&str) -> T,
) -> Result<T, AnswerError> {
    let size = file.size();
    share.resize(held.saturating_add(in_memory(size))).await?;
    let text = file.read(size)?;
    let values = body::parsed_size(text.as_bytes());
    share.resize(with_answer(held, text.len(), values)).await?;
    Ok(parse(&text))
}

/// What is in memory while an answer becomes one to the API server.
fn with_answer(held: usize, text: usize, values: usize) -> usize {
    held.saturating_add(text.saturating_mul(2)).saturating_add(values)
}

/// The admission bindings of a kind.
pub(super) fn bindings(hook: &Hook, kind: Kind) -> &[Admission] {
    match kind {
        Kind::Validating => &hook.config.validating,
        Kind::Mutating => &hook.config.mutating,
    }
}

/// A step that a hook can do.
struct Step {
    owner: String,
    hook: Arc<Hook>,
    binding: Conversion,
    versions: (String, String),
}

/// A conversion that the API server waits for.
struct ConversionCall<'c> {
    crd: &'c str,
    /// Its memory.
    share: &'c Share,
    deadline: Instant,
}

/// The hook that answers an admission.
struct Asked {
    owner: String,
    hook: Arc<Hook>,
    binding: Admission,
}

impl Webhooks {
    fn asked(&self, kind: Kind, name: &str) -> Option<Asked> {
        let path = kind.path(name);
        self.live().owners.iter().find_map(|(owner, hooks)| {
            hooks.iter().find_map(|hook| {
                let binding = bindings(hook, kind).iter().find(|b| kind.path(&b.common.name) == path)?;
                Some(Asked { owner: owner.clone(), hook: Arc::clone(hook), binding: binding.clone() })
            })
        })
    }

    /// Reads and parses a body, within the memory that requests may take.
    async fn review(&self, request: Request, most: usize, kind: &str) -> Result<(Review, Share), Response> {
        let (parts, body) = request.into_parts();
        if !body::is_of_type(&parts.headers, JSON) {
            return Err(refuse(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the content type is not application/json",
            ));
        }
        let Some(client) = parts.extensions.get::<Client>() else { return Err(gone()) };
        let refused = |error: BodyError| {
            // Any Pod could fill the log: refusals are counted.
            tracing::debug!(client = %client.address, "webhooks: a request is refused: {error}");
            let status = error.status();
            let help = "Requests to webhooks whose bodies were not taken.";
            let metrics = &self.state.metrics;
            metrics.add("windlass_webhook_refused_total", help, &[("status", status.as_str())], 1.0);
            refuse(status, &error.to_string())
        };
        let (bytes, share) = body::read(body, client, most, &self.state.bodies).await.map_err(refused)?;
        let parsed = body::parsed_size(&bytes);
        share.resize(bytes.len() + parsed).await.map_err(refused)?;
        let review = Review::read(&bytes, kind).map_err(|text| refuse(StatusCode::BAD_REQUEST, &text))?;
        drop(bytes);
        share.resize(parsed).await.map_err(refused)?;
        Ok((review, share))
    }

    async fn admit(&self, kind: Kind, asked: Asked, mut review: Review, share: Share) -> Response {
        let Asked { owner, hook, binding } = &asked;
        let name = &binding.common.name;
        let mutating = kind == Kind::Mutating;
        let what = ContextKind::Admission { mutating, review: Arc::new(review.body.take()) };
        let run = Run::of(hook, kind.binding(), &binding.common, what);
        let seconds = Duration::from_secs(u64::try_from(binding.timeout_seconds).unwrap_or_default());
        let outcome = self.ask(owner, run, Instant::now() + seconds.saturating_sub(MARGIN)).await;
        let (result, answer) = match outcome {
            RunResult::Answered(answer) => admission(&asked, &answer, &share).await,
            RunResult::Failed => ("failed", Ok(failed())),
            RunResult::Late => {
                let text = format!("hook {} did not answer within {}s", hook.name, binding.timeout_seconds);
                ("late", Err(text))
            }
        };
        self.count(kind.binding(), name, result);
        match answer {
            Ok(answer) => {
                let value = review.admitted(&answer, mutating);
                drop(answer);
                json(value, share).await
            }
            // Of other statuses, API servers drop the text.
            Err(text) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &text),
        }
    }

    /// Runs a hook, unless no slot becomes free in time.
    async fn ask(&self, owner: &str, run: Run, deadline: Instant) -> RunResult {
        let rooms = {
            let mut live = self.live();
            let new = || Arc::new(Semaphore::new(AT_ONCE_OF_OWNER));
            [Arc::clone(live.rooms.entry(owner.to_owned()).or_insert_with(new)), Arc::clone(&self.room)]
        };
        let hook = Arc::clone(&run.hook);
        let work = async {
            let _of_owner = rooms[0].acquire().await;
            let _of_all = rooms[1].acquire().await;
            hook.turn().await;
            (self.runner)(run).await
        };
        // A run that is given up is killed with all that it has started.
        match tokio::time::timeout_at(deadline, work).await {
            Ok(Ok(answer)) => RunResult::Answered(answer),
            Ok(Err(error)) => {
                tracing::error!(module = owner, hook = hook.name, "{error}");
                RunResult::Failed
            }
            Err(_) => {
                tracing::error!(
                    module = owner,
                    hook = hook.name,
                    "killed: the API server does not wait longer"
                );
                RunResult::Late
            }
        }
    }

    /// Converts the objects of a review, those of each version by the shortest chain from it.
    async fn convert(&self, call: &ConversionCall<'_>, review: &mut Review) -> Result<Vec<Value>, String> {
        let (mut objects, wanted) = review.conversion()?;
        let version = |o: &Value| o["apiVersion"].as_str().unwrap_or_default().to_owned();
        let mut versions: Vec<String> = objects.iter().map(version).collect();
        versions.sort();
        versions.dedup();
        for from in versions {
            if from == wanted {
                continue;
            }
            let places: Vec<usize> = (0..objects.len()).filter(|i| version(&objects[*i]) == from).collect();
            // Moved, not copied: where a step fails the answer has no objects.
            let of_version: Vec<Value> = places.iter().map(|i| objects[*i].take()).collect();
            let others = [&review.body].into_iter().chain(&objects);
            let held = in_memory(others.map(|value| bounded_json::size(value).parsed).sum());
            let ends = (from.as_str(), wanted.as_str());
            let done = self.convert_from(call, (&mut *review, held), of_version, ends).await?;
            for (place, object) in places.into_iter().zip(done) {
                objects[place] = object;
            }
        }
        Ok(objects)
    }

    /// Converts objects of one version. `held`: what is in memory besides them.
    async fn convert_from(
        &self,
        call: &ConversionCall<'_>,
        (review, held): (&mut Review, usize),
        mut objects: Vec<Value>,
        (from, wanted): (&str, &str),
    ) -> Result<Vec<Value>, String> {
        let steps = self.steps(call.crd);
        let versions: Vec<(String, String)> = steps.iter().map(|s| s.versions.clone()).collect();
        let Some(way) = chain(&versions, from, wanted) else {
            return Err(format!("no hook converts {} from {from} to {wanted}", call.crd));
        };
        for Step { owner, hook, binding, versions: (from, to) } in way.into_iter().map(|i| &steps[i]) {
            let count = objects.len();
            let shown = review.with_objects(objects);
            let what =
                ContextKind::Conversion { from: from.clone(), to: to.clone(), review: Arc::clone(&shown) };
            let run = Run::of(hook, "kubernetesCustomResourceConversion", &binding.common, what);
            let outcome = self.ask(owner, run, call.deadline).await;
            // The objects go before those of the answer come.
            review.take_back(shown);
            let answer = match outcome {
                RunResult::Answered(answer) => answer,
                RunResult::Failed => return Err(format!("Hook failed to convert to {wanted}")),
                RunResult::Late => return Err(format!("hook {} did not answer in time", hook.name)),
            };
            let read = read_answer(&answer.conversion, (call.share, held), |text| converted(text, count));
            let read = read.await.map_err(|error| format!("hook {}: {error}", hook.name))?;
            objects = read.map_err(|error| match error {
                ResponseError::Refused(message) => message,
                error => format!("hook {}: {error}", hook.name),
            })?;
            let other = objects.iter().map(|o| o["apiVersion"].as_str().unwrap_or_default());
            if let Some(other) = other.into_iter().find(|v| !same_version(v, to)) {
                return Err(format!(
                    "hook {}: an object has the version {other:?} instead of {to}",
                    hook.name
                ));
            }
        }
        Ok(objects)
    }

    /// All steps that hooks can do for a CRD, in the order of owners, hooks and bindings.
    fn steps(&self, crd: &str) -> Vec<Step> {
        let live = self.live();
        let mut steps = Vec::new();
        for (owner, hook) in
            live.owners.iter().flat_map(|(owner, hooks)| hooks.iter().map(move |h| (owner, h)))
        {
            for binding in hook.config.conversions.iter().filter(|c| c.crd == crd) {
                for versions in &binding.steps {
                    steps.push(Step {
                        owner: owner.clone(),
                        hook: Arc::clone(hook),
                        binding: binding.clone(),
                        versions: versions.clone(),
                    });
                }
            }
        }
        steps
    }

    fn count(&self, kind: &str, name: &str, result: &str) {
        let labels = [("binding", kind), ("webhook", name), ("result", result)];
        let help = "Calls of webhooks that hooks were asked about.";
        self.state.metrics.add("windlass_webhook_calls_total", help, &labels, 1.0);
    }
}

/// What a hook said to an admission: the result that is counted, and the answer, or why there is none.
async fn admission(
    asked: &Asked,
    answer: &Answer,
    share: &Share,
) -> (&'static str, Result<Admitted, String>) {
    let (module, hook) = (asked.owner.as_str(), asked.hook.name.as_str());
    let webhook = asked.binding.common.name.as_str();
    // The review has gone with its run: nothing else is in memory.
    match read_answer(&answer.admission, (share, 0), admitted).await {
        Ok(Ok(answer)) => (if answer.allowed { "allowed" } else { "denied" }, Ok(answer)),
        Ok(Err(ResponseError::Empty)) => {
            tracing::error!(module, hook, webhook, "it wrote no response");
            ("failed", Err(format!("hook {hook} wrote no response")))
        }
        Ok(Err(error)) => {
            tracing::error!(module, hook, webhook, "{error}");
            ("failed", Ok(failed()))
        }
        Err(error @ AnswerError::Memory(_)) => {
            tracing::error!(module, hook, webhook, "{error}");
            ("failed", Err(format!("hook {hook}: {error}")))
        }
        Err(error @ AnswerError::File(_)) => {
            tracing::error!(module, hook, webhook, "{error}");
            ("failed", Ok(failed()))
        }
    }
}

fn failed() -> Admitted {
    Admitted { message: "Hook failed".to_owned(), ..Admitted::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_its_text_twice_and_its_values() {
        assert_eq!(with_answer(5, 100, 1000), 1205);
        // A number that cannot be is refused, and does not wrap around.
        assert_eq!(with_answer(5, usize::MAX, 1000), usize::MAX);
        assert_eq!(with_answer(usize::MAX, 1, 1), usize::MAX);
    }
}
