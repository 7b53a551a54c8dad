//! Registries on loopback: the reference registry with images of one layer, and a server that answers as a test says.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::StreamExt as _;
use sha2::{Digest as _, Sha256};
use windlass_base::hex::hex;
use windlass_fetch::http::{Http, TIMEOUT, Tls};
use windlass_fetch::oci::Registry;
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::credentials::Credentials;
use windlass_fetch::oci::packed_artifact::{MediaTypes, PackedArtifact};
use windlass_testing::RegistryServer;

const TYPES: MediaTypes = MediaTypes {
    config: "application/vnd.oci.image.config.v1+json",
    layer: "application/vnd.oci.image.layer.v1.tar+gzip",
};

/// The reference registry.
pub(crate) struct ImageRegistry(RegistryServer);

impl ImageRegistry {
    pub(crate) fn start() -> Self {
        Self(RegistryServer::start(tempfile::tempdir().unwrap(), "", "").unwrap())
    }

    /// One that posts its events to a webhook.
    pub(crate) fn notifying(webhook: &str) -> Self {
        let endpoint =
            format!("{{name: windlass, url: \"{webhook}\", timeout: 5s, threshold: 3, backoff: 1s}}");
        let more = format!("notifications: {{endpoints: [{endpoint}]}}\n");
        Self(RegistryServer::start(tempfile::tempdir().unwrap(), "", &more).unwrap())
    }

    pub(crate) fn host(&self) -> &str {
        self.0.host()
    }

    /// The name of the image, with its registry.
    pub(crate) fn image(&self, tag: &str) -> String {
        format!("{}/team/web:{tag}", self.host())
    }

    /// Pushes an image under a tag. Returns its digest.
    pub(crate) async fn push(&self, tag: &str, content: &str) -> String {
        let http = Http::new(TIMEOUT, false);
        let registry = Registry::new(&http, Tls::default(), true, None, Credentials::none());
        let layer = Bytes::from(content.to_owned());
        let image = PackedArtifact { config: Bytes::from_static(b"{}"), layer };
        let reference = OciReference::parse(&self.image(tag)).unwrap();
        registry.push_packed(&reference, &image, TYPES).await.unwrap()
    }
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// It never comes.
    Silent,
    /// Its body comes one byte after the other, and has no end.
    Dripping,
    /// The connection ends in the middle of its body.
    Truncated,
}

/// What a [`ScriptedRegistry`] answers to a path. A `GET` gets the body.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    fault: Fault,
}

impl Default for Answer {
    fn default() -> Self {
        // An empty image manifest.
        let body = r#"{"schemaVersion":2}"#.to_owned();
        Self { status: 200, headers: Vec::new(), body, fault: Fault::None }
    }
}

/// The answers by path.
pub(crate) type Script = BTreeMap<String, Answer>;

/// A server whose answers change, and that notes method, path and Authorization of each request.
#[derive(Clone)]
pub(crate) struct ScriptedRegistry {
    pub(crate) address: SocketAddr,
    pub(crate) script: Arc<Mutex<Script>>,
    pub(crate) seen: Arc<Mutex<Vec<(String, String)>>>,
}

async fn answer(Shared(server): Shared<ScriptedRegistry>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let login = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let login = login.unwrap_or_default().to_owned();
    server.seen.lock().unwrap().push((format!("{} {path}", request.method()), login.clone()));
    let Some(answer) = server.script.lock().unwrap().get(&path).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // A login is asked for where the script says so.
    let wants_login = answer.headers.iter().any(|(name, _)| *name == "www-authenticate");
    let status = if wants_login && login.is_empty() { 401 } else { answer.status };
    let mut response = Response::new(answer.fault.body(answer.body).await);
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in answer.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

impl Fault {
    async fn body(self, text: String) -> Body {
        let drip = futures::stream::repeat(Bytes::from_static(b" ")).then(async |byte| {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok::<_, std::io::Error>(byte)
        });
        let half = Bytes::from(text.as_bytes()[..text.len() / 2].to_vec());
        match self {
            Self::None => Body::from(text),
            Self::Silent => std::future::pending().await,
            Self::Dripping => Body::from_stream(Box::pin(drip)),
            Self::Truncated => {
                Body::from_stream(futures::stream::iter([Ok(half), Err(std::io::Error::other("truncated"))]))
            }
        }
    }
}

impl ScriptedRegistry {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { address, script: Arc::default(), seen: Arc::default() };
        let router = axum::Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        server
    }

    pub(crate) fn set(&self, path: &str, status: u16, headers: &[(&'static str, &str)]) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.script.lock().unwrap().insert(path.to_owned(), Answer { status, headers, ..Answer::default() });
    }

    /// Serves a manifest under a tag and under its digest, with these headers. Returns the digest.
    pub(crate) fn serve(&self, repository: &str, content: &str, headers: &[(&'static str, &str)]) -> String {
        let body = format!("{{\"schemaVersion\":2,\"note\":\"{content}\"}}");
        let digest = format!("sha256:{}", hex(&Sha256::digest(&body)));
        let own = [("docker-content-digest", digest.as_str())];
        let headers: Vec<_> =
            own.iter().chain(headers).map(|(name, text)| (*name, (*text).to_owned())).collect();
        for wanted in ["1", &digest] {
            let answer = Answer { headers: headers.clone(), body: body.clone(), ..Answer::default() };
            self.script.lock().unwrap().insert(format!("/v2/{repository}/manifests/{wanted}"), answer);
        }
        digest
    }

    /// Lists the tags of a repository, with these headers.
    pub(crate) fn list(&self, repository: &str, tags: &[&str], headers: &[(&'static str, &str)]) {
        let path = format!("/v2/{repository}/tags/list");
        self.set(&path, 200, headers);
        let body = serde_json::json!({"name": repository, "tags": tags}).to_string();
        self.script.lock().unwrap().entry(path).and_modify(|answer| answer.body = body);
    }

    /// Answers a path with a body, and a fault.
    pub(crate) fn set_body(&self, path: &str, body: &str, fault: Fault) {
        let answer = Answer { body: body.to_owned(), fault, ..Answer::default() };
        self.script.lock().unwrap().insert(path.to_owned(), answer);
    }

    /// How often a method and path were asked for.
    pub(crate) fn count(&self, asked: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|(seen, _)| seen == asked).count()
    }
}
