//! The webhooks of Receivers: from a request to annotations on objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::routing::post;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::super::error::FluxError;
use super::provider_settings::read_secret;
use super::receivers::WebhookPaths;
use super::registry_events::{self, pushed_repositories};
use super::webhook_checks::{check, reads_json};
use super::webhook_filters::Filters;
use flux_api::api_names::{REQUESTED_AT, SOURCES};
use flux_api::common::CrossNamespaceObjectReference;
use flux_api::receiver::{ReceiverSpec, ReceiverStatus};
use flux_api::status_conditions::{self, READY};
use windlass_base::cel_expression::SharedVariables;
use windlass_base::namespace_places::{NamespacePlaces, TakenPlaces};
use windlass_base::redact::SecretScope;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta, ObjectRef, PatchKind};
use windlass_controller::serve::body::{self, BodyError, Budget, Share};
use windlass_controller::serve::listen::Client;
use windlass_controller::{PushedImages, PushedRepository, STATUS_MANAGER};

/// The largest body, in bytes.
const MAX_BODY: usize = 3 << 20;
/// Most bodies that are read for expressions, or objects that expressions look at, at once: in all, and for the Receivers of one namespace.
const MAX_AT_ONCE: usize = 4;
const MAX_AT_ONCE_OF_NAMESPACE: usize = MAX_AT_ONCE / 2;
/// Most requests whose bodies expressions look at; one of a namespace. Each has a part of the memory of requests at most, so that they leave
/// half of it to others.
const MAX_FILTERED: usize = 4;
const PARTS: usize = 2 * MAX_FILTERED;
/// Kinds that references may name, and their API versions where a reference has none.
const VERSIONS: [(&str, &str); 12] = [
    ("Bucket", SOURCES),
    ("ExternalArtifact", SOURCES),
    ("GitRepository", SOURCES),
    ("HelmChart", SOURCES),
    ("HelmRepository", SOURCES),
    ("OCIRepository", SOURCES),
    ("HelmRelease", "helm.toolkit.fluxcd.io/v2"),
    ("Kustomization", "kustomize.toolkit.fluxcd.io/v1"),
    ("ImagePolicy", "image.toolkit.fluxcd.io/v1"),
    ("ImageRepository", "image.toolkit.fluxcd.io/v1"),
    ("ImageUpdateAutomation", "image.toolkit.fluxcd.io/v1"),
    ("ArtifactGenerator", "source.extensions.fluxcd.io/v1beta1"),
];

/// What the webhooks work on.
pub struct Webhooks {
    /// Reads Receivers and their Secrets, and annotates objects.
    pub cluster: Cluster,
    /// The webhooks there are.
    pub paths: Arc<WebhookPaths>,
    /// Repositories that registries say something was pushed to.
    pub pushed_images: PushedImages,
    /// The memory of requests.
    pub bodies: Arc<Budget>,
    /// Receivers reconcile objects of their own namespace only.
    pub no_cross_namespace_refs: bool,
}

impl Webhooks {
    /// The routes.
    pub fn routes(self) -> Router {
        let at_once = NamespacePlaces::new(MAX_AT_ONCE, MAX_AT_ONCE_OF_NAMESPACE);
        let turns = NamespacePlaces::new(MAX_FILTERED, 1);
        let server = Server { webhooks: self, at_once, turns };
        Router::new().route("/hook/{digest}", post(answer)).with_state(Arc::new(server))
    }
}

/// The webhooks with what their requests share.
struct Server {
    webhooks: Webhooks,
    at_once: NamespacePlaces,
    /// Those of requests whose bodies expressions look at.
    turns: NamespacePlaces,
}

/// What expressions look at for one request, with its memory: as long as one of them is evaluated, also where nobody waits for that any more.
struct FilteredRequest {
    filters: Filters,
    share: Share,
    _turn: Option<TakenPlaces>,
}

/// A body, with its memory.
struct ReadBody {
    bytes: Vec<u8>,
    share: Share,
}

/// How many times what its values take there is of a body of JSON while it is read by the check or for pushes.
fn copies(spec: &ReceiverSpec, length: usize) -> usize {
    usize::from(reads_json(spec) || length <= registry_events::MAX_BODY)
}

async fn answer(
    State(server): State<Arc<Server>>,
    Path(digest): Path<String>,
    request: Request,
) -> StatusCode {
    let path = format!("/hook/{digest}");
    let Some(receiver) = server.webhooks.paths.receiver(&path) else { return StatusCode::NOT_FOUND };
    let (parts, body) = request.into_parts();
    let Some(client) = parts.extensions.get::<Client>() else { return StatusCode::INTERNAL_SERVER_ERROR };
    let body = match body::read(body, client, MAX_BODY, &server.webhooks.bodies).await {
        Ok((bytes, share)) => ReadBody { bytes, share },
        Err(error) => return error.status(),
    };
    // The token of a Receiver is its tenant's.
    let scope = SecretScope::of_namespace(receiver.namespace.as_deref().unwrap_or_default());
    scope.run_async(server.serve(&path, &receiver, &parts.headers, body)).await
}

impl Server {
    async fn serve(
        &self,
        path: &str,
        receiver: &ObjectRef,
        headers: &http::HeaderMap,
        body: ReadBody,
    ) -> StatusCode {
        match self.handle(path, receiver, headers, body).await {
            Ok(about) => {
                tracing::info!(%receiver, about, "a webhook was called");
                StatusCode::OK
            }
            Err(error) => {
                let status = error.status();
                tracing::warn!(%receiver, status = status.as_u16(), "a webhook request was refused: {error}");
                status
            }
        }
    }
}

/// Why a request is not served.
#[derive(Debug, thiserror::Error)]
enum WebhookError {
    /// The Receiver is deleted.
    #[error("the Receiver does not exist any more")]
    Gone,
    /// The Receiver takes no requests, or none at this path.
    #[error("{0}")]
    NotReady(&'static str),
    /// The request does not pass the checks, or there is no token for them.
    #[error("{0}")]
    Refused(FluxError),
    /// Expressions would look at too much.
    #[error(
        "the body takes {needed} bytes of memory for expressions, and at most {most} are allowed: remove the filters"
    )]
    LargeValues { needed: usize, most: usize },
    /// There is not enough memory for the body.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The API server fails.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The Receiver cannot be read.
    #[error(transparent)]
    Spec(#[from] serde_json::Error),
    /// Expressions cannot be evaluated, or objects cannot be selected.
    #[error("{0}")]
    Objects(FluxError),
}

impl WebhookError {
    /// Status of the answer.
    fn status(&self) -> StatusCode {
        match self {
            Self::Gone => StatusCode::NOT_FOUND,
            Self::NotReady(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Refused(_) => StatusCode::BAD_REQUEST,
            Self::LargeValues { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(error) => error.status(),
            Self::Cluster(_) | Self::Spec(_) | Self::Objects(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl Server {
    async fn handle(
        &self,
        path: &str,
        receiver: &ObjectRef,
        headers: &http::HeaderMap,
        body: ReadBody,
    ) -> Result<String, WebhookError> {
        let Webhooks { cluster, paths, .. } = &self.webhooks;
        let Some(object) = cluster.get(receiver).await? else {
            paths.remove(receiver);
            return Err(WebhookError::Gone);
        };
        let spec = Arc::new(ReceiverSpec::deserialize(&object["spec"])?);
        if let Some(why) = not_ready(&object, &spec, path) {
            return Err(WebhookError::NotReady(why));
        }
        let namespace = receiver.namespace.as_deref().unwrap_or_default();
        let secret = spec.secret_ref.as_ref().map(|secret| secret.name.as_str()).unwrap_or_default();
        let secret = read_secret(cluster, namespace, secret).await.map_err(WebhookError::Refused)?;
        let missing = || WebhookError::Refused("the Secret has no token".into());
        let token = secret.text("token").ok_or_else(missing)?;
        let media = headers.get(http::header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
        let media = media.unwrap_or_default();
        let values = body::parsed_size(&body.bytes);
        body.share.resize(body.bytes.len() + copies(&spec, body.bytes.len()) * values).await?;
        let about = check(&spec, &token, headers, &body.bytes).map_err(WebhookError::Refused)?;
        self.note_pushes(namespace, &body.bytes);
        let filtered = match Filters::read_body(&spec, media) {
            true => self.filtered_by_body(namespace, (&spec, media), (body, values)).await?,
            false => {
                let ReadBody { bytes, share } = body;
                let filters = Filters::new(&spec, media, &bytes).map_err(WebhookError::Objects)?;
                FilteredRequest { filters, share, _turn: None }
            }
        };
        let filtered = Arc::new(filtered);
        let mut errors = Vec::new();
        for (at, resource) in spec.resources.iter().enumerate() {
            if let Err(error) = self.request(namespace, &resource.reference, (&filtered, at)).await {
                errors.push(format!("{}/{}: {error}", resource.reference.kind, resource.reference.name));
            }
        }
        match errors.is_empty() {
            true => Ok(about),
            false => Err(WebhookError::Objects(errors.join("; ").into())),
        }
    }

    /// Reads the body for expressions, in its namespace's turn. Nothing is left of its text afterwards. `values`: what its values take.
    async fn filtered_by_body(
        &self,
        namespace: &str,
        (spec, media): (&Arc<ReceiverSpec>, &str),
        (body, values): (ReadBody, usize),
    ) -> Result<FilteredRequest, WebhookError> {
        let most = self.webhooks.bodies.most() / PARTS;
        let needed = body.bytes.len() + SharedVariables::CONVERTED * values;
        if needed > most {
            return Err(WebhookError::LargeValues { needed, most });
        }
        let turn = self.turns.take(namespace).await;
        body.share.resize(needed).await?;
        let (spec, media) = (Arc::clone(spec), media.to_owned());
        let read = move || {
            let ReadBody { bytes, share } = body;
            let filters = Filters::new(&spec, &media, &bytes)?;
            Ok::<_, FluxError>(FilteredRequest { filters, share, _turn: Some(turn) })
        };
        let filtered = self.at_once.run(namespace, read).await.map_err(WebhookError::Objects)?;
        filtered.share.resize(SharedVariables::KEPT * values).await?;
        Ok(filtered)
    }

    /// Lets those who follow images ask the registries now.
    fn note_pushes(&self, own: &str, body: &[u8]) {
        let namespace = self.webhooks.no_cross_namespace_refs.then(|| own.to_owned());
        let hint = |path| PushedRepository { origin: own.to_owned(), path, namespace: namespace.clone() };
        self.webhooks.pushed_images.note(pushed_repositories(body).into_iter().map(hint));
    }

    /// Requests a reconcile of what a reference selects, less what the Receiver's expressions refuse.
    async fn request(
        &self,
        own: &str,
        reference: &CrossNamespaceObjectReference,
        (filtered, at): (&Arc<FilteredRequest>, usize),
    ) -> Result<(), WebhookError> {
        for (object, metadata) in self.selected(own, reference).await? {
            if filtered.filters.are_for(at) {
                let metadata = self.metadata(&object, metadata).await?;
                let (filtered, reference) = (Arc::clone(filtered), object.clone());
                let admit = move || filtered.filters.admit(at, &reference, &metadata);
                let admitted = self.at_once.run(own, admit).await;
                if !admitted.map_err(WebhookError::Objects)? {
                    tracing::debug!(%object, "an expression of the Receiver refuses the object");
                    continue;
                }
            }
            let now = jiff::Timestamp::now().to_string();
            let patch = json!({"metadata": {"annotations": {REQUESTED_AT: now}}});
            let cluster = &self.webhooks.cluster;
            cluster.patch_subresource(&object, "", PatchKind::Merge, &patch, STATUS_MANAGER).await?;
            tracing::info!(%object, "a reconcile is requested");
        }
        Ok(())
    }

    /// The metadata of an object, which a list may have had.
    async fn metadata(&self, object: &ObjectRef, listed: Option<Value>) -> Result<Value, WebhookError> {
        if let Some(listed) = listed {
            return Ok(listed);
        }
        let found = self.webhooks.cluster.get_metadata(object).await?;
        found.ok_or_else(|| {
            WebhookError::Objects(FluxError::within(format!("unable to read {object}"), "not found"))
        })
    }

    /// The objects of a reference, with their metadata if a list had it.
    async fn selected(
        &self,
        own: &str,
        reference: &CrossNamespaceObjectReference,
    ) -> Result<Vec<(ObjectRef, Option<Value>)>, WebhookError> {
        let no_cross = self.webhooks.no_cross_namespace_refs;
        let namespace = namespace_of(own, reference, no_cross).map_err(WebhookError::Objects)?;
        let gvk = gvk_of(reference).map_err(WebhookError::Objects)?;
        if reference.name != "*" {
            return Ok(vec![(ObjectRef::new(gvk, Some(namespace), &reference.name), None)]);
        }
        let labels = selector(&reference.match_labels).map_err(WebhookError::Objects)?;
        let found = self.webhooks.cluster.list_metadata(&gvk, Some(namespace), &labels).await?;
        let with_name = |object: Value| {
            let name = Some(ObjectMeta::of(&object).name()).filter(|name| !name.is_empty())?;
            Some((ObjectRef::new(gvk.clone(), Some(namespace), name), Some(object)))
        };
        Ok(found.into_iter().filter_map(with_name).collect())
    }
}

/// Why a Receiver takes no requests at this path.
fn not_ready(object: &Value, spec: &ReceiverSpec, path: &str) -> Option<&'static str> {
    let status = ReceiverStatus::deserialize(&object["status"]).unwrap_or_default();
    let ready = status_conditions::get(&status.conditions, READY).is_some_and(|ready| ready.status == "True");
    if spec.suspend {
        return Some("the Receiver is suspended");
    }
    (!ready || status.webhook_path != path).then_some("the Receiver is not ready")
}

fn namespace_of<'n>(
    own: &'n str,
    reference: &'n CrossNamespaceObjectReference,
    no_cross: bool,
) -> Result<&'n str, FluxError> {
    match reference.namespace.as_str() {
        "" => Ok(own),
        other if no_cross && other != own => Err("cross-namespace references are not allowed".into()),
        other => Ok(other),
    }
}

fn gvk_of(reference: &CrossNamespaceObjectReference) -> Result<Gvk, FluxError> {
    let kind = reference.kind.as_str();
    let known = VERSIONS.iter().find(|(known, _)| *known == kind);
    let (_, version) = known.ok_or_else(|| format!("kind {kind:?} is not supported in a reference"))?;
    if reference.api_version.is_empty() {
        return Ok(Gvk::new(version, kind));
    }
    // A Receiver's author must not annotate objects of other groups with the operator's rights.
    let (known, requested) = (Gvk::new(version, kind), Gvk::new(&reference.api_version, kind));
    match requested.group == known.group {
        true => Ok(requested),
        false => {
            Err(format!("apiVersion {:?} has no kind {kind:?} to reconcile", reference.api_version).into())
        }
    }
}

fn selector(labels: &BTreeMap<String, String>) -> Result<String, FluxError> {
    if labels.is_empty() {
        return Err("matchLabels field not set when using wildcard '*' as name".into());
    }
    let word =
        |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
    if let Some((key, value)) = labels.iter().find(|(key, value)| !word(key) || !word(value)) {
        return Err(format!("matchLabels: {key:?}: {value:?} is not a label").into());
    }
    Ok(labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(value: Value) -> CrossNamespaceObjectReference {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_references_select() {
        let other = reference(json!({"kind": "Bucket", "name": "a", "namespace": "other"}));
        assert_eq!(namespace_of("own", &other, false), Ok("other"));
        assert!(namespace_of("own", &other, true).is_err());
        assert_eq!(namespace_of("other", &other, true), Ok("other"));
        assert_eq!(namespace_of("own", &reference(json!({"kind": "Bucket", "name": "a"})), true), Ok("own"));
        let gvk = |value| gvk_of(&reference(value)).map(|gvk| format!("{}/{}", gvk.api_version(), gvk.kind));
        for (value, expected) in [
            (json!({"kind": "HelmRelease"}), Ok("helm.toolkit.fluxcd.io/v2/HelmRelease")),
            (
                json!({"kind": "HelmRelease", "apiVersion": "helm.toolkit.fluxcd.io/v3"}),
                Ok("helm.toolkit.fluxcd.io/v3/HelmRelease"),
            ),
            (json!({"kind": "Secret"}), Err("kind \"Secret\" is not supported in a reference")),
            (
                json!({"kind": "Secret", "apiVersion": "v1"}),
                Err("kind \"Secret\" is not supported in a reference"),
            ),
            (
                json!({"kind": "Bucket", "apiVersion": "other.example/v1"}),
                Err("apiVersion \"other.example/v1\" has no kind \"Bucket\" to reconcile"),
            ),
        ] {
            assert_eq!(gvk(value), expected.map(str::to_owned).map_err(FluxError::from));
        }
        let labels = |pairs: &[(&str, &str)]| {
            selector(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
        };
        assert_eq!(labels(&[("a.b/c", "d"), ("e", "")]), Ok("a.b/c=d,e=".to_owned()));
        assert!(
            labels(&[]).is_err()
                && labels(&[("a", "b,c=d")]).is_err()
                && labels(&[("a in (b)", "")]).is_err()
        );
    }

    #[test]
    fn the_check_reads_some_bodies_as_json() {
        let spec = |kind: &str| ReceiverSpec { receiver_type: kind.to_owned(), ..ReceiverSpec::default() };
        let (small, large) = (registry_events::MAX_BODY, registry_events::MAX_BODY + 1);
        for (kind, length, expected) in
            [("generic", small, 1), ("generic", large, 0), ("quay", large, 1), ("acr", large, 1)]
        {
            assert_eq!(copies(&spec(kind), length), expected, "{kind} {length}");
        }
        let told = WebhookError::LargeValues { needed: 2, most: 1 };
        assert_eq!(told.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[test]
    fn receivers_that_take_no_requests() {
        let object = |ready: &str, path: &str| json!({"status": {"conditions": [{"type": "Ready", "status": ready}], "webhookPath": path}});
        let spec = ReceiverSpec::default();
        assert_eq!(not_ready(&object("True", "/hook/1"), &spec, "/hook/1"), None);
        for (object, suspend) in [
            (object("False", "/hook/1"), false),
            (object("True", "/hook/2"), false),
            (object("True", "/hook/1"), true),
            (json!({}), false),
        ] {
            let spec = ReceiverSpec { suspend, ..ReceiverSpec::default() };
            assert!(not_ready(&object, &spec, "/hook/1").is_some(), "{object} {suspend}");
        }
    }
}
