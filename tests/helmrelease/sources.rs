//! Sources without source-controller, from servers on loopback: HTTP repositories, a registry and Git.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use futures::StreamExt as _;
use serde_json::{Value, json};
use windlass_testing::{RegistryServer, wait_until, write_file};

use super::support::{LIMIT, Running, chart, condition, digest};

/// Path and Authorization header of a request.
type SeenRequest = (String, Option<String>);

/// How a server misbehaves.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It answers with a status.
    Status(u16),
    /// It never answers.
    Hang,
    /// It sends a byte now and then.
    Trickle,
    /// It ends in the middle of an answer.
    Truncated,
    /// It answers with something else.
    Garbage,
    /// It sends everybody to this URL.
    Redirect(String),
}

impl Fault {
    async fn answer(self, found: Option<Vec<u8>>) -> Response {
        let body = found.unwrap_or_else(|| b"{}".to_vec());
        let whole = body.len();
        match self {
            Self::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
            Self::Hang => std::future::pending().await,
            Self::Trickle => {
                let bytes = futures::stream::unfold(body.into_iter(), |mut rest| async move {
                    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                    rest.next().map(|byte| (Ok::<_, std::io::Error>(vec![byte]), rest))
                });
                ([(header::CONTENT_LENGTH, whole.to_string())], Body::from_stream(bytes)).into_response()
            }
            Self::Truncated => {
                let half = body[..whole / 2].to_vec();
                let cut = async {
                    // What was sent before is on its way.
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                    Err(std::io::Error::other("the connection is cut"))
                };
                let parts = futures::stream::iter([Ok(half)]).chain(futures::stream::once(cut));
                let body = Body::from_stream(parts);
                ([(header::CONTENT_LENGTH, whole.to_string())], body).into_response()
            }
            Self::Garbage => "<a><b></a>".into_response(),
            Self::Redirect(target) => (StatusCode::FOUND, [(header::LOCATION, target)]).into_response(),
        }
    }
}

/// Serves files by path; some paths can be told to answer otherwise.
#[derive(Clone, Default)]
pub(crate) struct Files {
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// `user:password` that every request must have.
    login: Arc<Mutex<Option<String>>>,
    /// How every request fares.
    fault: Arc<Mutex<Option<Fault>>>,
    /// Authorization headers that requests below a path must have.
    keys: Arc<Mutex<Vec<(String, String)>>>,
    /// Requests so far.
    pub(crate) seen: Arc<Mutex<Vec<SeenRequest>>>,
}

impl Files {
    pub(crate) async fn serve(&self) -> SocketAddr {
        self.serve_at(IpAddr::V4(Ipv4Addr::LOCALHOST)).await
    }

    pub(crate) async fn serve_at(&self, address: IpAddr) -> SocketAddr {
        async fn answer(State(own): State<Files>, request: Request) -> Response {
            let path = request.uri().path().to_owned();
            let sent = request.headers().get(header::AUTHORIZATION).map(|h| h.to_str().unwrap().to_owned());
            own.seen.lock().unwrap().push((path.clone(), sent.clone()));
            let found = own.files.lock().unwrap().get(&path).cloned();
            let fault = own.fault.lock().unwrap().clone();
            if let Some(fault) = fault {
                return fault.answer(found).await;
            }
            let keys = own.keys.lock().unwrap().clone();
            let key = keys.iter().find(|(below, _)| path.starts_with(below));
            if key.is_some_and(|(_, wanted)| sent.as_ref() != Some(wanted)) {
                let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"test\"")];
                return (StatusCode::UNAUTHORIZED, challenge).into_response();
            }
            if let Some(login) = &*own.login.lock().unwrap() {
                let wanted = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(login));
                if sent != Some(wanted) {
                    return StatusCode::UNAUTHORIZED.into_response();
                }
            }
            if let Some(target) = path.strip_prefix("/moved/") {
                let target = format!("http://{}", target.replacen('/', ":", 1));
                return (StatusCode::FOUND, [(header::LOCATION, target)]).into_response();
            }
            found.map_or_else(|| StatusCode::NOT_FOUND.into_response(), |bytes| bytes.into_response())
        }
        let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        address
    }

    pub(crate) fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.files.lock().unwrap().insert(path.to_owned(), bytes.into());
    }

    /// A bucket of Google and a container of Azure, each with one object `a.yaml`.
    pub(crate) fn put_cloud_buckets(&self) {
        self.put("/storage/v1/b/bucket/o", r#"{"items": [{"name": "a.yaml", "etag": "e", "size": "2"}]}"#);
        self.put("/storage/v1/b/bucket/o/a.yaml", "{}");
        self.put(
            "/container",
            "<EnumerationResults><Blobs><Blob><Name>a.yaml</Name><Properties><Etag>0x1</Etag><Content-Length>2</Content-Length>\
             </Properties></Blob></Blobs></EnumerationResults>",
        );
        self.put("/container/a.yaml", "{}");
    }

    /// The content of a path.
    pub(crate) fn file(&self, path: &str) -> Vec<u8> {
        self.files.lock().unwrap()[path].clone()
    }

    /// Lets every request fail from now on, or none.
    pub(crate) fn fail(&self, fault: Option<Fault>) {
        *self.fault.lock().unwrap() = fault;
    }

    /// From now on requests below a path need this header.
    pub(crate) fn require(&self, below: &str, authorization: &str) {
        self.keys.lock().unwrap().push((below.to_owned(), authorization.to_owned()));
    }

    /// From now on no request needs a header.
    pub(crate) fn require_nothing(&self) {
        self.keys.lock().unwrap().clear();
    }

    /// Writes the index of a repository with these versions of `demo`: file and digest of each.
    pub(crate) fn index(&self, versions: &[(&str, &str, String)]) {
        let mut text = "apiVersion: v1\nentries:\n  demo:\n".to_owned();
        for (version, url, digest) in versions {
            text.push_str(&format!(
                "  - {{apiVersion: v2, name: demo, version: {version}, urls: [\"{url}\"], digest: \"{}\"}}\n",
                digest.trim_start_matches("sha256:")
            ));
        }
        self.put("/index.yaml", text);
    }

    /// Adds a chart, and returns its line for the index.
    pub(crate) fn chart<'v>(&self, version: &'v str, more: &[(&str, &str)]) -> (&'v str, String, String) {
        let bytes = chart(version, more);
        let (path, digest) = (format!("demo-{version}.tgz"), digest(&bytes));
        self.put(&format!("/{path}"), bytes);
        (version, path, digest)
    }
}

pub(crate) fn source(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    })
}

/// A HelmRelease with a chart of a source.
pub(crate) fn chart_spec(kind: &str, more: &Value) -> Value {
    let mut spec = json!({"chart": "demo", "sourceRef": {"kind": kind, "name": "demo"}, "interval": "1h"});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"chart": {"spec": spec}, "chartRef": null})
}

impl Running {
    pub(crate) fn ready_source(&self, kind: &str, name: &str) -> Value {
        self.source_with(kind, name, "True")
    }

    /// Waits until the condition Ready of a source begins with a text.
    pub(crate) fn source_with(&self, kind: &str, name: &str, ready: &str) -> Value {
        let found = || {
            let object = self.get(kind, name);
            let current = object["status"]["observedGeneration"] == object["metadata"]["generation"]
                || ready.starts_with("False");
            Ok((current && condition(&object, "Ready").starts_with(ready)).then_some(object))
        };
        let what = format!("{kind} {name}: {ready}");
        wait_until(&what, LIMIT, found)
            .unwrap_or_else(|e| panic!("{e}: {:#}", self.get(kind, name)["status"]))
    }

    pub(crate) fn reconcile_source(&self, kind: &str, name: &str, token: &str) {
        let annotation = format!("reconcile.fluxcd.io/requestedAt={token}");
        self.cp.kubectl(["annotate", "--overwrite", kind, name, "-n", self.ns.name(), &annotation]).unwrap();
    }
}

/// The message of a condition.
pub(crate) fn message(object: &Value, kind: &str) -> String {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|c| c["type"] == kind);
    found.and_then(|c| c["message"].as_str()).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_of_an_http_repository_is_released_and_follows_its_index() {
    let mut running = Running::prepare("http").await;
    let files = Files::default();
    let address = files.serve().await;
    let storage = tempfile::tempdir().unwrap();
    running.start_with_sources(storage.path()).await;
    *files.login.lock().unwrap() = Some("me:secret-word".to_owned());
    let first = files.chart("1.0.0", &[("ci/values.yaml", "size: seven\n")]);
    files.index(&[(first.0, &first.1, first.2.clone())]);
    let spec = json!({"url": format!("http://{address}"), "interval": "1h", "secretRef": {"name": "login"}});
    running.apply(&source("HelmRepository", "demo", &spec));
    running.release("web", &chart_spec("HelmRepository", &json!({"version": "1.x"})));
    let object = running.source_with("helmrepository", "demo", "False AuthenticationFailed");
    assert!(message(&object, "FetchFailed").contains("secrets \"login\" not found"), "{object}");

    // A Secret that comes later is enough.
    let login = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "stringData": {"username": "me", "password": "wrong-word"}});
    running.apply(&login);
    let object = running.source_with("helmrepository", "demo", "False Failed");
    assert!(message(&object, "Ready").contains("401 Unauthorized"), "{object}");
    assert!(!object["status"].to_string().contains("wrong-word"));
    let mut right = login.clone();
    right["stringData"]["password"] = "secret-word".into();
    running.apply(&right);
    let object = running.ready_source("helmrepository", "demo");
    assert_eq!(condition(&object, "ArtifactInStorage"), "True Succeeded");
    let artifact = &object["status"]["artifact"];
    assert!(artifact["url"].as_str().unwrap().starts_with("http://artifacts.test/helmrepository/"));
    assert!(storage.path().join(artifact["path"].as_str().unwrap()).is_file());
    let object = running.wait_ready("web", "True InstallSucceeded");
    assert_eq!(object["status"]["history"][0]["chartVersion"], "1.0.0");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "one");

    // A new version in the index is an upgrade; an unchanged index is no new artifact.
    let second = files.chart("1.1.0", &[("ci/values.yaml", "size: seven\n")]);
    let lines = [(first.0, first.1.as_str(), first.2.clone()), (second.0, &second.1, second.2.clone())];
    files.index(&lines);
    running.reconcile_source("helmrepository", "demo", "1");
    running.wait("upgraded", |o| o["status"]["history"][0]["chartVersion"] == "1.1.0", "web");
    let chart_name = format!("{}-web", running.ns.name());
    let object = running.ready_source("helmchart", &chart_name);
    assert_eq!(message(&object, "Ready"), "pulled 'demo' chart with version '1.1.0'");

    // Files of values make a package of their own.
    running.release(
        "web",
        &chart_spec(
            "HelmRepository",
            &json!({"version": "1.x", "valuesFiles": ["values.yaml", "ci/values.yaml"]}),
        ),
    );
    running.wait("other values", |o| o["status"]["history"][0]["version"] == 3, "web");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "seven");
    let object = running.ready_source("helmchart", &chart_name);
    let text = message(&object, "Ready");
    assert!(text.starts_with("packaged 'demo' chart with version '1.1.0+"), "{text}");
    assert!(text.ends_with("and merged values files [values.yaml ci/values.yaml]"), "{text}");

    // An outage leaves everything as it is, and ends by itself.
    files.fail(Some(Fault::Status(503)));
    running.reconcile_source("helmrepository", "demo", "2");
    let object = running.source_with("helmrepository", "demo", "False Failed");
    assert!(object["status"]["artifact"].is_object(), "the artifact stays: {object}");
    assert_eq!(condition(&running.get("helmrelease", "web"), "Ready"), "True UpgradeSucceeded");
    files.fail(None);
    running.ready_source("helmrepository", "demo");
    let sent = files.seen.lock().unwrap().clone();
    assert!(sent.iter().any(|(path, login)| path == "/demo-1.1.0.tgz" && login.is_some()));

    // What is deleted leaves no files behind.
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", running.ns.name(), "--timeout=30s"]).unwrap();
    running
        .cp
        .kubectl(["delete", "helmrepository", "demo", "-n", running.ns.name(), "--timeout=30s"])
        .unwrap();
    let kind = storage.path().join("helmrepository").join(running.ns.name());
    assert!(!kind.join("demo").exists());
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_answers_give_conditions_and_recover() {
    let mut running = Running::prepare("bad").await;
    let files = Files::default();
    let address = files.serve().await;
    let other = Files::default();
    let elsewhere = other.serve().await;
    let storage = tempfile::tempdir().unwrap();
    running.start_with_sources(storage.path()).await;
    let login = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "stringData": {"username": "me", "password": "secret-word"}});
    running.apply(&login);
    let good = files.chart("1.0.0", &[]);
    let chart_name = format!("{}-web", running.ns.name());
    let spec = json!({"url": format!("http://{address}"), "interval": "1h", "secretRef": {"name": "login"}});
    running.apply(&source("HelmRepository", "demo", &spec));
    let wrong_digest = digest(b"another");
    files.index(&[(good.0, &good.1, wrong_digest)]);
    running.reconcile_source("helmrepository", "demo", "0");
    running.release("web", &chart_spec("HelmRepository", &json!({"version": "1.x"})));
    let object = running.source_with("helmchart", &chart_name, "False ChartPullError");
    assert!(message(&object, "Ready").contains("is expected"), "{object}");
    assert_eq!(condition(&running.get("helmrelease", "web"), "Ready"), "False SourceNotReady");

    // A version that does not exist stalls, until the index has it.
    files.index(&[("0.1.0", &good.1, good.2.clone())]);
    running.reconcile_source("helmrepository", "demo", "1");
    let object = running.source_with("helmchart", &chart_name, "False InvalidChartReference");
    assert!(message(&object, "Ready").contains("no 'demo' chart with version matching '1.x' found"));
    assert_eq!(condition(&object, "Stalled"), "True InvalidChartReference");

    // An index that is none.
    files.put("/index.yaml", "<html>");
    running.reconcile_source("helmrepository", "demo", "2");
    running.source_with("helmrepository", "demo", "False Failed");

    // A redirect to another server gets no password.
    let moved = format!("http://{address}/moved/{}/{}/{}", elsewhere.ip(), elsewhere.port(), good.1);
    other.put(&format!("/{}", good.1), files.files.lock().unwrap()[&format!("/{}", good.1)].clone());
    files.index(&[(good.0, &moved, good.2.clone())]);
    running.reconcile_source("helmrepository", "demo", "3");
    running.wait_ready("web", "True InstallSucceeded");
    let sent = other.seen.lock().unwrap().clone();
    assert!(!sent.is_empty() && sent.iter().all(|(_, login)| login.is_none()), "{sent:?}");
    running.end().await;
}

/// A registry of charts.
pub(super) struct Registry(RegistryServer);

impl Registry {
    pub(super) fn start() -> Self {
        Self(RegistryServer::start(tempfile::tempdir().unwrap(), "", "").unwrap())
    }

    /// Its address and port.
    pub(super) fn host(&self) -> &str {
        self.0.host()
    }

    /// Pushes a chart with the project's own program.
    pub(super) fn push(&self, version: &str, more: &[(&str, &str)]) {
        let path = self.0.directory().join(format!("demo-{version}.tgz"));
        std::fs::write(&path, chart(version, more)).unwrap();
        let done = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["push", path.to_str().unwrap(), &format!("oci://{}/charts", self.host()), "--plain-http"])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_of_a_registry_are_released_by_tag_and_digest() {
    let mut running = Running::prepare("oci").await;
    let registry = Registry::start();
    registry.push("1.0.0", &[]);
    let storage = tempfile::tempdir().unwrap();
    running.start_with_sources(storage.path()).await;
    let media = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    let url = format!("oci://{}/charts/demo", registry.host());
    let spec = json!({
        "url": url, "interval": "1h", "insecure": true, "ref": {"semver": ">=1.0.0"},
        "layerSelector": {"mediaType": media, "operation": "copy"},
    });
    running.apply(&source("OCIRepository", "demo", &spec));
    running.release("web", &json!({}));
    let object = running.ready_source("ocirepository", "demo");
    let revision = object["status"]["artifact"]["revision"].as_str().unwrap().to_owned();
    assert!(revision.starts_with("1.0.0@sha256:"), "{revision}");
    let object = running.wait_ready("web", "True InstallSucceeded");
    let hex = revision.split_once(':').unwrap().1;
    assert_eq!(object["status"]["history"][0]["chartVersion"], format!("1.0.0+{}", &hex[..12]));
    assert_eq!(object["status"]["lastAttemptedRevisionDigest"], revision.split_once('@').unwrap().1);

    // A tag that is pushed again is an upgrade; so is a new version in the range.
    registry.push("1.0.0", &[("README.md", "new")]);
    running.reconcile_source("ocirepository", "demo", "1");
    running.wait("the tag again", |o| o["status"]["history"][0]["version"] == 2, "web");
    registry.push("1.2.0", &[]);
    running.reconcile_source("ocirepository", "demo", "2");
    running.wait("a new version", |o| o["status"]["history"][0]["version"] == 3, "web");

    // The same by a HelmRepository, which needs no status.
    let spec = json!({
        "url": format!("oci://{}/charts", registry.host()), "interval": "1h", "type": "oci", "insecure": true,
    });
    running.apply(&source("HelmRepository", "demo", &spec));
    running.release("other", &chart_spec("HelmRepository", &json!({"version": "1.0.0"})));
    running.wait_ready("other", "True InstallSucceeded");
    let repository = running.get("helmrepository", "demo");
    assert!(repository["metadata"]["finalizers"].is_null(), "{repository}");
    assert!(repository["status"]["artifact"].is_null(), "{repository}");

    // What is not there, and what is not to be had.
    for (name, change, reason) in [
        ("absent", json!({"ref": {"tag": "9.9.9"}}), "OCIArtifactPullFailed"),
        ("range", json!({"ref": {"semver": "9.x"}}), "ReadOperationFailed"),
        ("layer", json!({"layerSelector": {"mediaType": "text/plain"}}), "OCIArtifactLayerOperationFailed"),
        ("tagged", json!({"url": format!("{url}:1.0.0")}), "URLInvalid"),
        ("provider", json!({"provider": "aws"}), "InvalidProviderConfiguration"),
        (
            "account",
            json!({"provider": "gcp", "serviceAccountName": "default"}),
            "InvalidProviderConfiguration",
        ),
        (
            "unsigned",
            json!({"verify": {"provider": "cosign", "secretRef": {"name": "none"}}}),
            "AuthenticationFailed",
        ),
    ] {
        let mut spec = json!({"url": url, "interval": "1h", "insecure": true, "ref": {"tag": "1.0.0"}});
        for (key, value) in change.as_object().unwrap() {
            spec[key] = value.clone();
        }
        running.apply(&source("OCIRepository", name, &spec));
        running.source_with("ocirepository", name, &format!("False {reason}"));
    }
    running.end().await;
}

pub(crate) fn git(directory: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(directory)
        .envs([
            ("GIT_AUTHOR_NAME", "me"),
            ("GIT_AUTHOR_EMAIL", "me@test"),
            ("GIT_COMMITTER_NAME", "me"),
            ("GIT_COMMITTER_EMAIL", "me@test"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Puts a repository's files where they are served, as git's simplest protocol has them.
pub(crate) fn publish_repository(repository: &Path, files: &Files) {
    fn walk(directory: &Path, prefix: &str, files: &Files) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}/{}", entry.file_name().to_string_lossy());
            match entry.file_type().unwrap().is_dir() {
                true => walk(&entry.path(), &path, files),
                false => files.put(&path, std::fs::read(entry.path()).unwrap()),
            }
        }
    }
    git(repository, &["update-server-info"]);
    walk(&repository.join(".git"), "/repository.git", files);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_of_a_git_repository_follows_its_branch() {
    let mut running = Running::prepare("git").await;
    let (files, storage, repository) =
        (Files::default(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let address = files.serve().await;
    let root = repository.path();
    let write = |path: &str, text: &str| write_file(root.join(path), text);
    git(root, &["init", "--quiet", "-b", "main"]);
    write(
        "charts/demo/Chart.yaml",
        "apiVersion: v2\nname: demo\nversion: 1.0.0\ndependencies:\n- {name: base, version: 1.x, repository: \"file://../base\"}\n",
    );
    write("charts/demo/values.yaml", "size: one\n");
    write(
        "charts/demo/templates/config.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {size: \"{{ .Values.size }}\", base: {{ include \"base\" . }}}\n",
    );
    write("charts/base/Chart.yaml", "apiVersion: v2\nname: base\nversion: 1.1.0\ntype: library\n");
    write("charts/base/templates/_base.tpl", "{{ define \"base\" }}from-base{{ end }}");
    write("charts/demo/logo.png", "picture");
    git(root, &["add", "-A"]);
    git(root, &["commit", "--quiet", "-m", "first"]);
    publish_repository(root, &files);
    running.start_with_sources(storage.path()).await;
    let spec = json!({
        "url": format!("http://{address}/repository.git"), "interval": "1h", "ref": {"branch": "main"},
    });
    running.apply(&source("GitRepository", "demo", &spec));
    running.release("web", &chart_spec("GitRepository", &json!({"chart": "./charts/demo"})));
    let object = running.ready_source("gitrepository", "demo");
    let commit = git(root, &["rev-parse", "HEAD"]);
    assert_eq!(object["status"]["artifact"]["revision"], format!("main@sha1:{commit}"));
    running.wait_ready("web", "True InstallSucceeded");
    assert_eq!(running.get("configmap", "web")["data"], json!({"size": "one", "base": "from-base"}));

    // A commit without another version changes nothing, unless revisions count.
    write("charts/demo/values.yaml", "size: two\n");
    git(root, &["commit", "--quiet", "-a", "-m", "second"]);
    publish_repository(root, &files);
    running.reconcile_source("gitrepository", "demo", "1");
    let second = git(root, &["rev-parse", "HEAD"]);
    let chart_name = format!("{}-web", running.ns.name());
    let observed = || {
        let object = running.get("helmchart", &chart_name);
        let revision = &object["status"]["observedSourceArtifactRevision"];
        Ok((*revision == format!("main@sha1:{second}")).then_some(()))
    };
    wait_until("the second commit", LIMIT, observed).unwrap();
    assert_eq!(running.records(), ["deployed"]);
    let strategy = json!({"chart": "./charts/demo", "reconcileStrategy": "Revision"});
    running.release("web", &chart_spec("GitRepository", &strategy));
    let object = running.wait("revision", |o| o["status"]["history"][0]["version"] == 2, "web");
    assert_eq!(object["status"]["history"][0]["chartVersion"], format!("1.0.0+{}", &second[..12]));
    assert_eq!(running.get("configmap", "web")["data"]["size"], "two");

    // What leads out of the repository, or is not in it.
    for (name, spec, reason) in [
        ("absent", json!({"ref": {"branch": "none"}}), "GitOperationFailed"),
        ("option", json!({"ref": {"branch": "--upload-pack=x"}}), "URLInvalid"),
        ("scheme", json!({"url": "ssh://-oProxyCommand=x/y"}), "GitOperationFailed"),
        ("sparse", json!({"ref": {"branch": "main"}, "sparseCheckout": ["none"]}), "GitOperationFailed"),
        (
            "unsigned",
            json!({"ref": {"branch": "main"}, "verify": {"mode": "HEAD", "secretRef": {"name": "keys"}}}),
            "InvalidCommitSignature",
        ),
    ] {
        running.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"a.sshpub": "ssh-ed25519 AAAA"}}));
        let mut whole = json!({"url": format!("http://{address}/repository.git"), "interval": "1h"});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        running.apply(&source("GitRepository", name, &whole));
        running.source_with("gitrepository", name, &format!("False {reason}"));
    }
    let out = chart_spec("GitRepository", &json!({"chart": "../../../../etc"}));
    running.release("out", &out);
    running.source_with("helmchart", &format!("{}-out", running.ns.name()), "False InvalidChartReference");
    running.end().await;
}
