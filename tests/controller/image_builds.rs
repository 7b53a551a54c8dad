//! ImageBuilds on a real control plane: files of a Maven repository on loopback become images of a real registry, and what tenants try.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use windlass_cluster::{Cluster, ClusterError, ConnectOptions};
use windlass_controller::{AccountName, ControllerContext, ControllerOptions};
use windlass_fetch::http::{Http, TIMEOUT, Tls};
use windlass_fetch::oci::Registry;
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::credentials::Credentials;
use windlass_fetch::oci::packed_artifact::{MediaTypes, PackedArtifact};
use windlass_images::{ImageBuildOptions, ImageBuilds, image_build_definition};
use windlass_testing::wait_until;

use super::LIMIT;
use super::followed_workloads::{Followed, FollowerOptions};
use super::image_registry::ImageRegistry;
use super::images::policy;

const KIND: &str = "imagebuild";
const SHOP: &str = "/maven/com/example/shop";

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// What a [`MavenServer`] does with a path.
#[derive(Clone)]
enum Served {
    /// The bytes, with an ETag.
    Bytes(Vec<u8>),
    /// Never answers.
    Silent,
    /// Announces more than it sends.
    Truncated,
}

/// A Maven repository that answers conditional requests, and notes the path and status of each answer, and its login.
#[derive(Clone, Default)]
struct MavenServer {
    files: Arc<Mutex<BTreeMap<String, Served>>>,
    seen: Arc<Mutex<Vec<(String, String)>>>,
    /// The header that each request must have.
    login: Arc<Mutex<Option<String>>>,
}

fn header(request: &Request, name: &str) -> String {
    let value = request.headers().get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

async fn answer(Shared(server): Shared<MavenServer>, request: Request) -> Response {
    let (path, login) = (request.uri().path().to_owned(), header(&request, "authorization"));
    let condition = header(&request, "if-none-match");
    let wanted = server.login.lock().unwrap().clone();
    let found = server.files.lock().unwrap().get(&path).cloned();
    let (status, body) = match found {
        _ if wanted.as_ref().is_some_and(|wanted| *wanted != login) => {
            (StatusCode::UNAUTHORIZED, Body::empty())
        }
        None => (StatusCode::NOT_FOUND, Body::empty()),
        Some(Served::Silent) => std::future::pending().await,
        Some(Served::Truncated) => {
            let parts = [Ok(Bytes::from_static(b"cut")), Err(std::io::Error::other("truncated"))];
            (StatusCode::OK, Body::from_stream(futures::stream::iter(parts)))
        }
        Some(Served::Bytes(bytes)) => {
            let etag = format!("\"{}\"", digest(&bytes));
            let known = condition == etag;
            server.note(&path, if known { 304 } else { 200 }, &login);
            let mut response = match known {
                true => StatusCode::NOT_MODIFIED.into_response(),
                false => Body::from(bytes).into_response(),
            };
            response.headers_mut().insert("etag", etag.parse().unwrap());
            return response;
        }
    };
    server.note(&path, status.as_u16(), &login);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

impl MavenServer {
    async fn start() -> (Self, SocketAddr) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (server, address) = (Self::default(), listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (server, address)
    }

    fn note(&self, path: &str, status: u16, login: &str) {
        self.seen.lock().unwrap().push((format!("{status} {path}"), login.to_owned()));
    }

    fn put(&self, path: &str, served: Served) {
        self.files.lock().unwrap().insert(format!("{SHOP}/{path}"), served);
    }

    /// A version with its file.
    fn file(&self, version: &str, name: &str, content: &[u8]) {
        let checksum = digest(content).trim_start_matches("sha256:").to_owned();
        self.put(&format!("{version}/{name}.sha256"), Served::Bytes(checksum.into_bytes()));
        self.put(&format!("{version}/{name}"), Served::Bytes(content.to_vec()));
    }

    fn versions(&self, versions: &[&str]) {
        let all: String = versions.iter().map(|version| format!("<version>{version}</version>")).collect();
        let text = format!("<metadata><versioning><versions>{all}</versions></versioning></metadata>");
        self.put("maven-metadata.xml", Served::Bytes(text.into_bytes()));
    }

    /// How many answers had a status, to paths with an ending.
    fn count(&self, status: u16, ending: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .filter(|(line, _)| line.starts_with(&format!("{status} ")) && line.ends_with(ending))
            .count()
    }
}

/// A registry's client, without a login.
fn client(http: &Http) -> Registry<'_> {
    Registry::new(http, Tls::default(), true, None, Credentials::none())
}

/// Pushes a base image. Returns its digest.
async fn push_base(image: &str, content: &str) -> String {
    let http = Http::new(TIMEOUT, false);
    let types = MediaTypes {
        config: "application/vnd.oci.image.config.v1+json",
        layer: "application/vnd.oci.image.layer.v1.tar+gzip",
    };
    let config = json!({"os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(content.as_bytes())]}, "history": []});
    let packed = PackedArtifact { config: config.to_string().into(), layer: Bytes::from(content.to_owned()) };
    client(&http).push_packed(&OciReference::parse(image).unwrap(), &packed, types).await.unwrap()
}

async fn digest_of(image: &str) -> Result<String, String> {
    let http = Http::new(TIMEOUT, false);
    let reference = OciReference::parse(image).unwrap();
    client(&http).image_digest(&reference, None).await.map_err(|error| error.to_string())
}

/// Waits for a future on a thread of the runtime.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work))
}

#[derive(Clone)]
struct BuildOptions {
    namespace: String,
    options: ImageBuildOptions,
}

impl FollowerOptions for BuildOptions {
    fn run(
        self,
        context: ControllerContext,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = Result<(), ClusterError>> + Send + 'static {
        let controller = ControllerOptions {
            namespace: Some(self.namespace),
            concurrency: 4,
            ..ControllerOptions::default()
        };
        windlass_controller::run(ImageBuilds::new(self.options), context, controller, stop)
    }
}

type Builds = Followed<BuildOptions>;

impl Builds {
    async fn prepare(registries: &[&str]) -> Self {
        let plain_registries: BTreeSet<String> = registries.iter().map(|host| (*host).to_owned()).collect();
        let options = ImageBuildOptions {
            allow_local_addresses: true,
            plain_registries,
            ..ImageBuildOptions::default()
        };
        let own =
            Self::new("builds", |namespace| BuildOptions { namespace: namespace.to_owned(), options }).await;
        own.cp.establish(&image_build_definition::crd()).unwrap();
        own
    }

    fn build(&self, name: &str, spec: &Value) {
        self.apply(&json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "ImageBuild", "metadata": {"name": name, "namespace": self.ns.name()},
            "spec": spec,
        }));
    }

    /// Waits until the present generation was observed, and Ready has this state, reason and text.
    fn ready(&self, name: &str, state: &str, text: &str) -> Value {
        self.until(KIND, name, state, |found| {
            let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions.iter().find(|c| c["type"] == "Ready").cloned().unwrap_or_default();
            let said = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
            found["status"]["observedGeneration"] == found["metadata"]["generation"]
                && format!("{} {}", said("status"), said("reason")) == state
                && said("message").contains(text)
        })
    }

    /// Asks for a look at once.
    fn request(&self, name: &str, token: &str) {
        let annotation = format!("windlass.dev/requested-at={token}");
        self.cp.kubectl(["annotate", "--overwrite", KIND, name, "-n", self.ns.name(), &annotation]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_follows_its_artifact_and_its_base() {
    let registry = ImageRegistry::start();
    let (maven, address) = MavenServer::start().await;
    let base = format!("{}/team/base:1", registry.host());
    let target = format!("{}/team/shop:1", registry.host());
    let first_base = push_base(&base, "first").await;
    maven.versions(&["1.0", "1.1-SNAPSHOT"]);
    maven.file("1.0", "shop-1.0.war", b"the war of 1.0");
    let mut own = Builds::prepare(&[registry.host()]).await;
    own.start();
    let spec = json!({
        "artifact": "com.example:shop", "repository": {"url": format!("http://{address}/maven")}, "base": base,
        "path": "/config/dropins/", "image": target, "interval": "1h",
    });
    own.build("shop", &spec);
    let built = own.ready("shop", "True Built", "has version 1.0");
    let status = &built["status"];
    assert_eq!(status["built"]["checksum"], digest(b"the war of 1.0"));
    assert_eq!(
        (&status["built"]["baseDigest"], &status["built"]["path"]),
        (&json!(first_base), &json!("/config/dropins/shop.war"))
    );
    let pushed = digest_of(&target).await.unwrap();
    assert_eq!(status["image"], format!("{target}@{pushed}"));
    assert!(status["lastBuilt"].is_string());

    // A look asks for changes, downloads nothing and writes nothing.
    let before = (maven.count(200, ".war"), maven.count(304, "maven-metadata.xml"));
    own.request("shop", "1");
    wait_until("a look", LIMIT, || Ok((maven.count(304, ".sha256") > 0).then_some(()))).unwrap();
    assert_eq!((before.0, maven.count(304, "maven-metadata.xml")), (1, before.1 + 1));
    assert_eq!((maven.count(200, ".war"), maven.count(200, "maven-metadata.xml")), (1, 1));

    // A newer version.
    maven.versions(&["1.0", "1.1-SNAPSHOT", "1.2"]);
    maven.file("1.2", "shop-1.2.war", b"the war of 1.2");
    own.request("shop", "2");
    own.ready("shop", "True Built", "has version 1.2");
    let second = digest_of(&target).await.unwrap();
    assert_ne!(second, pushed);

    // Another base under the same tag.
    let second_base = push_base(&base, "second").await;
    own.request("shop", "3");
    let rebuilt = own.until(KIND, "shop", "the second base", |found| {
        found["status"]["built"]["baseDigest"] == second_base
    });
    assert_ne!(rebuilt["status"]["image"], format!("{target}@{second}"));

    // The same file of a snapshot with another build.
    let mut snapshot = spec.clone();
    snapshot["version"] = "1.1-SNAPSHOT".into();
    maven.file("1.1-SNAPSHOT", "shop-1.1-SNAPSHOT.war", b"build one");
    own.build("shop", &snapshot);
    own.ready("shop", "True Built", "has version 1.1-SNAPSHOT");
    maven.file("1.1-SNAPSHOT", "shop-1.1-SNAPSHOT.war", b"build two");
    own.request("shop", "4");
    let checksum = digest(b"build two");
    own.until(KIND, "shop", "the second build", |found| found["status"]["built"]["checksum"] == checksum);
    let third = digest_of(&target).await.unwrap();

    // Somebody else has pushed to the tag; the same inputs are the same image, and a process that was killed before it wrote the status
    // leaves nothing that the next one does not find.
    push_base(&target, "other").await;
    own.request("shop", "5");
    let back = || Ok((block_on(digest_of(&target)).as_ref() == Ok(&third)).then_some(()));
    wait_until("the tag is as it was", LIMIT, back).unwrap();
    own.stop().await;
    let patch =
        json!({"status": {"built": null, "image": null, "lastBuilt": null, "conditions": null}}).to_string();
    let args =
        ["patch", KIND, "shop", "-n", own.ns.name(), "--subresource=status", "--type=merge", "-p", &patch];
    own.cp.kubectl(args).unwrap();
    own.start();
    let again = own.ready("shop", "True Built", "1.1-SNAPSHOT");
    assert_eq!(again["status"]["image"], format!("{target}@{third}"));

    // It is deleted without anything to wait for.
    own.cp.kubectl(["delete", KIND, "shop", "-n", own.ns.name(), "--timeout=10s"]).unwrap();
    assert_eq!(digest_of(&target).await.unwrap(), third);
    own.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tenant_tries_with_builds_ends_in_a_condition() {
    let registry = ImageRegistry::start();
    let (maven, address) = MavenServer::start().await;
    let base = format!("{}/team/base:1", registry.host());
    push_base(&base, "base").await;
    registry.push("none", "an image without layers in its configuration").await;
    maven.versions(&["1.0", "1.1", "1.2", "../../etc"]);
    maven.file("1.0", "shop-1.0.war", b"good");
    maven.file("1.1", "shop-1.1.war", b"expected");
    maven.put("1.1/shop-1.1.war", Served::Bytes(b"another one".to_vec()));
    maven.file("1.2", "shop-1.2.war", b"cut");
    maven.put("1.2/shop-1.2.war", Served::Truncated);
    *maven.login.lock().unwrap() = Some(format!("Basic {}", STANDARD.encode("me:pass-word")));
    let mut own = Builds::prepare(&[registry.host()]).await;
    own.options.options.default_service_account = AccountName::parse("reader");
    let ns = own.ns.name().to_owned();
    let victim = own.cp.namespace("victim").unwrap();
    let login = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"username": "me", "password": "pass-word"}});
    for account in ["reader", "nobody"] {
        own.cp.kubectl(["create", "serviceaccount", account, "-n", &ns]).unwrap();
    }
    own.cp
        .kubectl(["create", "role", "secrets", "-n", &ns, "--verb=get,list,watch", "--resource=secrets"])
        .unwrap();
    let subject = format!("--serviceaccount={ns}:reader");
    own.cp.kubectl(["create", "rolebinding", "secrets", "-n", &ns, "--role=secrets", &subject]).unwrap();
    own.apply(&login("login"));
    own.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "half"}, "stringData": {"username": "me"}}));
    own.cp.kubectl_with(["apply", "-n", victim.name(), "-f", "-"], &login("theirs").to_string()).unwrap();
    own.start();
    let spec = |name: &str, more: Value| {
        let mut spec = json!({
            "artifact": "com.example:shop", "repository": {"url": format!("http://{address}/maven"), "secretRef": {"name": "login"}},
            "version": "1.0", "base": base, "path": "/app.war", "image": format!("{}/team/{name}:1", registry.host()), "interval": "1h",
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        spec
    };
    let secret = |name: &str| json!({"repository": {"url": format!("http://{address}/maven"), "secretRef": {"name": name}}});
    let (invalid, missing) = ("False ConfigInvalid", "False ReferenceUnavailable");
    let attempts = [
        ("good", json!({}), "True Built", "has version 1.0"),
        ("range", json!({"version": "[3,)"}), "False ArtifactUnavailable", "none of 3 versions fits"),
        ("absent", json!({"version": "0.9"}), "False ArtifactUnavailable", "404"),
        ("checksum", json!({"version": "1.1"}), "False BuildFailed", "the checksum is "),
        ("cut", json!({"version": "1.2"}), "False BuildFailed", ""),
        ("wish", json!({"version": "../1"}), invalid, "spec.version: invalid version"),
        ("artifact", json!({"artifact": "a:../../b"}), invalid, "spec.artifact"),
        ("path", json!({"path": "/a/../../etc/passwd"}), invalid, "spec.path: invalid path"),
        ("file", json!({"repository": {"url": "file:///etc"}}), invalid, "spec.repository.url"),
        (
            "login",
            json!({"repository": {"url": "https://me:pass-word@maven.example.com"}}),
            invalid,
            "it has a login in it",
        ),
        ("itself", json!({"image": base}), invalid, "is the base"),
        (
            "nobase",
            json!({"base": format!("{}/team/none:1", registry.host())}),
            "False BaseUnavailable",
            "not found",
        ),
        ("chart", json!({"base": registry.image("none")}), "False BuildFailed", "rootfs.diff_ids"),
        ("unnamed", secret("gone"), missing, "Secret"),
        ("theirs", secret("theirs"), missing, "does not exist"),
        ("outside", secret(&format!("../{}/secrets/theirs", victim.name())), missing, "Secret"),
        ("half", secret("half"), invalid, "needs username and password"),
        ("docker", json!({"pushSecret": "login"}), invalid, "has neither .dockerconfigjson"),
        ("nobody", json!({"serviceAccountName": "nobody"}), missing, "cannot be read"),
        (
            "anonymous",
            json!({"repository": {"url": format!("http://{address}/maven")}}),
            "False ArtifactUnavailable",
            "401",
        ),
    ];
    for (name, more, ..) in &attempts {
        own.build(name, &spec(name, more.clone()));
    }
    for (name, _, state, part) in &attempts {
        let found = own.ready(name, state, part);
        assert!(!found["status"].to_string().contains("pass-word"), "{name}");
    }
    assert!(!own.events().contains("pass-word"));
    for (name, _, state, _) in &attempts {
        let image = format!("{}/team/{name}:1", registry.host());
        assert_eq!(digest_of(&image).await.is_ok(), *state == "True Built", "{name}");
    }
    // The API server refuses the rest.
    for more in [
        json!({"artifact": ""}),
        json!({"repository": {"url": ""}}),
        json!({"image": ""}),
        json!({"path": "a".repeat(5000)}),
    ] {
        let object = json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "ImageBuild", "metadata": {"name": "refused"}, "spec": spec("refused", more)});
        assert!(own.cp.kubectl_with(["create", "-n", &ns, "-f", "-"], &object.to_string()).is_err());
    }
    own.stop().await;

    // Addresses of this machine are not for tenants, unless the operator allows them.
    own.options.options.allow_local_addresses = false;
    own.build("local", &spec("local", json!({})));
    own.start();
    own.ready("local", "False ArtifactUnavailable", "");
    own.stop().await;
}

/// Builds that hang leave the looks of others alone, end with a change or the deletion of their object, and do not keep the process.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_hangs_keeps_nobody_else() {
    let registry = ImageRegistry::start();
    let (maven, address) = MavenServer::start().await;
    let base = format!("{}/team/base:1", registry.host());
    push_base(&base, "base").await;
    maven.versions(&["1.0", "1.1"]);
    maven.file("1.0", "shop-1.0.war", b"good");
    maven.file("1.1", "shop-1.1.war", b"slow");
    maven.put("1.1/shop-1.1.war", Served::Silent);
    let mut own = Builds::prepare(&[registry.host()]).await;
    own.start();
    let spec = |name: &str, version: &str| {
        json!({
            "artifact": "com.example:shop", "repository": {"url": format!("http://{address}/maven")}, "version": version, "base": base,
            "path": "/app.war", "image": format!("{}/team/{name}:1", registry.host()), "interval": "1h",
        })
    };
    // More than there are workers.
    let slow: Vec<String> = (0..6).map(|at| format!("slow-{at}")).collect();
    for name in &slow {
        own.build(name, &spec(name, "1.1"));
    }
    for name in &slow {
        own.ready(name, "Unknown Building", "version 1.1 is being built");
    }
    // Looked at all the same.
    own.build("wrong", &spec("wrong", "0.1"));
    own.ready("wrong", "False ArtifactUnavailable", "404");
    // Those that hang are changed: the next in turn is built.
    for name in &slow {
        own.build(name, &spec(name, "1.0"));
    }
    for name in &slow {
        own.ready(name, "True Built", "has version 1.0");
    }
    // Those that hang are deleted: their places are free.
    for name in &slow {
        own.build(name, &spec(name, "1.1"));
    }
    for name in &slow {
        own.ready(name, "Unknown Building", "version 1.1 is being built");
    }
    own.cp.kubectl(["delete", KIND, "--all", "-n", own.ns.name(), "--timeout=10s"]).unwrap();
    own.build("after", &spec("after", "1.0"));
    own.ready("after", "True Built", "has version 1.0");
    own.build("last", &spec("last", "1.1"));
    own.ready("last", "Unknown Building", "");
    let began = std::time::Instant::now();
    own.stop().await;
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

/// A Deployment follows what an ImageBuild pushes.
#[tokio::test(flavor = "multi_thread")]
async fn a_workload_follows_the_tag_of_a_build() {
    let registry = ImageRegistry::start();
    let (maven, address) = MavenServer::start().await;
    let base = format!("{}/team/base:1", registry.host());
    push_base(&base, "base").await;
    maven.versions(&["1.0"]);
    maven.file("1.0", "shop-1.0.war", b"one");
    let mut own = Builds::prepare(&[registry.host()]).await;
    own.start();
    let target = format!("{}/team/shop:1", registry.host());
    own.build(
        "shop",
        &json!({
            "artifact": "com.example:shop", "repository": {"url": format!("http://{address}/maven")}, "base": base, "path": "/app.war",
            "image": target, "interval": "1h",
        }),
    );
    own.ready("shop", "True Built", "1.0");
    let mut followed =
        super::images::FollowedImages::prepare(&[registry.host()]).await.of_namespace(own.ns.name());
    followed.options.foreign_namespaces = BTreeSet::from([own.ns.name().to_owned()]);
    followed.start();
    let mut object = followed.deployment_object("shop", &target, &policy("force"), &json!({}));
    object["metadata"]["namespace"] = own.ns.name().into();
    own.apply(&object);
    let record = |found: &Value| super::images::record(found).current.digest;
    let first = digest_of(&target).await.unwrap();
    own.until("deployment", "shop", "has a record", |found| record(found) == first);
    maven.versions(&["1.0", "1.1"]);
    maven.file("1.1", "shop-1.1.war", b"two");
    own.request("shop", "1");
    own.ready("shop", "True Built", "1.1");
    let second = digest_of(&target).await.unwrap();
    let image = format!("{target}@{second}");
    own.until("deployment", "shop", &image, |found| super::images::image_of(found) == image);
    followed.stop().await;
    own.stop().await;
}

/// The rights that `windlass rbac` prints are enough to read Secrets and write statuses.
#[tokio::test(flavor = "multi_thread")]
async fn the_printed_rights_are_enough_for_builds() {
    let registry = ImageRegistry::start();
    let (maven, address) = MavenServer::start().await;
    let base = format!("{}/team/base:1", registry.host());
    push_base(&base, "base").await;
    maven.file("1.0", "shop-1.0.war", b"one");
    *maven.login.lock().unwrap() = Some(format!("Basic {}", STANDARD.encode("me:pass-word")));
    let mut own = Builds::prepare(&[registry.host()]).await;
    let ns = own.ns.name().to_owned();
    let account = format!("builder-{ns}");
    let printed = own.run(&format!("rbac --controllers=imagebuilds --service-account {account}"));
    own.cp.kubectl_with(["apply", "-f", "-"], &printed).unwrap();
    let user = format!("system:serviceaccount:{ns}:{account}");
    let kubeconfig = Some(own.cp.kubeconfig_as(&user, &["system:authenticated"]).unwrap());
    own.client = Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
    own.start();
    // The object waits for its Secret, and goes on as soon as that is there.
    own.build(
        "shop",
        &json!({
            "artifact": "com.example:shop", "repository": {"url": format!("http://{address}/maven"), "secretRef": {"name": "login"}},
            "version": "1.0", "base": base, "path": "/app.war", "image": format!("{}/team/shop:1", registry.host()), "interval": "1h",
        }),
    );
    own.ready("shop", "False ReferenceUnavailable", "Secret");
    own.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": ns},
        "stringData": {"username": "me", "password": "pass-word"},
    }));
    own.ready("shop", "True Built", "has version 1.0");
    own.stop().await;
}
