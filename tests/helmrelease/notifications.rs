//! Alerts, Providers and Receivers: events of releases and sources arrive at a webhook, and a webhook reconciles a source.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use windlass_testing::wait_until;

use super::sources::{Files, chart_spec, source};
use super::support::{LIMIT, Running, condition};

/// What came to a webhook.
#[derive(Clone, Default)]
pub(crate) struct Inbox(Arc<Mutex<Vec<(HeaderMap, Bytes)>>>);

impl Inbox {
    pub(crate) async fn serve(&self) -> SocketAddr {
        async fn answer(State(own): State<Inbox>, headers: HeaderMap, body: Bytes) -> StatusCode {
            own.0.lock().unwrap().push((headers, body));
            StatusCode::ACCEPTED
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        address
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let all = self.0.lock().unwrap();
        all.iter().map(|(_, body)| serde_json::from_slice(body).unwrap()).collect()
    }

    /// Waits for an event of an object.
    pub(crate) fn wait(&self, name: &str, reason: &str) -> Value {
        let found = || {
            let mut all = self.events().into_iter();
            Ok(all.find(|event| event["involvedObject"]["name"] == name && event["reason"] == reason))
        };
        let what = format!("{reason} of {name}");
        wait_until(&what, LIMIT, found).unwrap_or_else(|e| panic!("{e}: {:#?}", self.events()))
    }
}

pub(crate) fn notification(kind: &str, name: &str, spec: &Value) -> Value {
    let version = if kind == "Receiver" { "v1" } else { "v1beta3" };
    json!({
        "apiVersion": format!("notification.toolkit.fluxcd.io/{version}"), "kind": kind, "metadata": {"name": name},
        "spec": spec,
    })
}

fn secret(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
}

fn signature(key: &str, body: &[u8]) -> String {
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key.as_bytes());
    let tag = aws_lc_rs::hmac::sign(&key, body);
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

/// Writes the index of these versions.
fn publish(files: &Files, versions: &[&str]) {
    let charts: Vec<_> = versions.iter().map(|version| files.chart(version, &[])).collect();
    let rows: Vec<_> =
        charts.iter().map(|(version, path, digest)| (*version, path.as_str(), digest.clone())).collect();
    files.index(&rows);
}

/// The source `demo` with version 1.0.0 of a chart.
pub(crate) async fn chart_source(r: &Running) -> Files {
    let files = Files::default();
    let address = files.serve().await;
    publish(&files, &["1.0.0"]);
    r.apply(&source(
        "HelmRepository",
        "demo",
        &json!({"url": format!("http://{address}/"), "interval": "1h"}),
    ));
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_at_the_providers_of_alerts() {
    let mut r = Running::prepare("notify-events").await;
    let storage = tempfile::tempdir().unwrap();
    let (signed, plain) = (Inbox::default(), Inbox::default());
    let (signed_at, plain_at) = (signed.serve().await, plain.serve().await);
    r.apply(&secret("key", &json!({"token": "signing-key", "address": format!("http://{signed_at}/hook")})));
    let generic = json!({"type": "generic", "address": format!("http://{plain_at}/hook")});
    for (name, spec) in [
        ("signed", json!({"type": "generic-hmac", "secretRef": {"name": "key"}})),
        ("plain", generic),
        ("other", json!({"type": "telegram", "address": "https://telegram.test", "channel": "c"})),
        ("gone", json!({"type": "generic-hmac", "secretRef": {"name": "absent"}})),
    ] {
        r.apply(&notification("Provider", name, &spec));
    }
    let releases = json!([{"kind": "HelmRelease", "name": "*"}]);
    let sources = json!([{"kind": "HelmRepository", "name": "demo"}, {"kind": "HelmChart", "name": "*"}]);
    for (name, spec) in [
        (
            "releases",
            json!({"providerRef": {"name": "signed"}, "eventSources": releases, "eventMetadata": {"env": "test"}}),
        ),
        (
            "failures",
            json!({"providerRef": {"name": "plain"}, "eventSources": releases, "eventSeverity": "error", "summary": "bad"}),
        ),
        ("sources", json!({"providerRef": {"name": "plain"}, "eventSources": sources})),
        ("other", json!({"providerRef": {"name": "other"}, "eventSources": releases})),
        (
            "gone",
            json!({"providerRef": {"name": "gone"}, "eventSources": releases, "exclusionList": ["failed"]}),
        ),
    ] {
        r.apply(&notification("Alert", name, &spec));
    }
    r.start_with_notifications(storage.path()).await;
    let _files = chart_source(&r).await;
    r.release("good", &chart_spec("HelmRepository", &json!({})));
    let mut bad = chart_spec("HelmRepository", &json!({}));
    bad["values"] = json!({"size": "bad"});
    r.release("bad", &bad);

    let good = signed.wait("good", "InstallSucceeded");
    let object = r.get("helmrelease", "good");
    let involved = &good["involvedObject"];
    assert_eq!(involved["kind"], "HelmRelease");
    assert_eq!(involved["apiVersion"], "helm.toolkit.fluxcd.io/v2");
    assert_eq!((&involved["namespace"], &involved["uid"]), (&json!(r.ns.name()), &object["metadata"]["uid"]));
    assert_eq!(
        (&good["severity"], &good["reportingController"]),
        (&json!("info"), &json!("helm-controller"))
    );
    assert_eq!(good["reportingInstance"], "test-0");
    assert_eq!(good["metadata"], json!({"env": "test", "revision": "1.0.0"}));
    let text = format!("Helm install succeeded for release {}/good.v1 with chart demo@1.0.0", r.ns.name());
    assert_eq!(good["message"], text.as_str());
    for (headers, body) in signed.0.lock().unwrap().iter() {
        assert_eq!(headers["gotk-component"], "helm-controller");
        assert_eq!(headers["x-signature"], signature("signing-key", body).as_str());
    }
    let failure = signed.wait("bad", "InstallFailed");
    assert_eq!((&failure["severity"], &failure["metadata"]["revision"]), (&json!("error"), &json!("1.0.0")));
    let summarized = plain.wait("bad", "InstallFailed");
    assert_eq!(summarized["metadata"], json!({"revision": "1.0.0", "summary": "bad"}));
    let stored = plain.wait("demo", "NewArtifact");
    let revision = &r.get("helmrepository", "demo")["status"]["artifact"]["revision"];
    assert_eq!((&stored["metadata"]["revision"], &stored["metadata"]["digest"]), (revision, &Value::Null));
    assert_eq!(stored["reportingController"], "source-controller");
    assert!(plain.events().iter().all(|event| event["involvedObject"]["name"] != "good"), "of severity info");

    let events_of = |kind: &str, name: &str| {
        let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
        let args = [
            "get",
            "events",
            "-n",
            r.ns.name(),
            "--field-selector",
            &selector,
            "-o",
            "jsonpath={.items[*].message}",
        ];
        r.cp.kubectl(args).unwrap()
    };
    let told = |kind: &str, name: &str, text: &str| {
        let found = || Ok(events_of(kind, name).contains(text).then_some(()));
        wait_until(text, LIMIT, found).unwrap_or_else(|e| panic!("{e}: {}", events_of(kind, name)));
    };
    told("Provider", "other", "events are not sent: spec.type \"telegram\" is not supported");
    told("Alert", "gone", &format!("failed to get secret '{}/absent': not found", r.ns.name()));
    assert!(!events_of("Alert", "gone").contains("/bad"), "excluded");

    let metrics = r.state.metrics.text();
    let labels = format!("kind=\"HelmRelease\",name=\"good\",namespace=\"{}\"", r.ns.name());
    assert!(metrics.contains(&format!("gotk_reconcile_duration_seconds_count{{{labels}}}")), "{metrics}");
    r.end().await;
}

/// The status of the answer to a call of a webhook.
async fn call(address: SocketAddr, path: &str, key: &str, event: &str) -> u16 {
    let body = r#"{"ref": "refs/heads/main"}"#;
    let request = reqwest::Client::new().post(format!("http://{address}{path}")).body(body);
    let request = request.header("Content-Type", "application/json").header("X-GitHub-Event", event);
    let request = request.header("X-Hub-Signature-256", signature(key, body.as_bytes()));
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_reconciles_sources() {
    let mut r = Running::prepare("notify-receiver").await;
    let storage = tempfile::tempdir().unwrap();
    let address = r.start_with_notifications(storage.path()).await;
    let files = chart_source(&r).await;
    r.apply(&secret("hook", &json!({"token": "hook-token"})));
    let receiver = |name: &str, kind: &str, resources: Value| {
        let spec = json!({
            "type": kind, "events": ["push"], "secretRef": {"name": "hook"}, "resources": resources,
        });
        r.apply(&notification("Receiver", name, &spec));
    };
    receiver("github", "github", json!([{"kind": "HelmRepository", "name": "demo"}]));
    receiver(
        "foreign",
        "github",
        json!([{"kind": "HelmRepository", "name": "demo", "namespace": "default"}]),
    );
    receiver("gcr", "gcr", json!([{"kind": "HelmRepository", "name": "demo"}]));
    let wait = |name: &str, ready: &str| {
        let found = || {
            let object = r.get("receiver", name);
            Ok((condition(&object, "Ready") == ready).then_some(object))
        };
        wait_until(ready, LIMIT, found).unwrap_or_else(|e| panic!("{e}: {:#}", r.get("receiver", name)))
    };
    for (name, filter) in [
        (
            "admits",
            "req.ref == 'refs/heads/main' && res.metadata.name == 'demo' && res.kind == 'HelmRepository'",
        ),
        ("refuses", "req.ref == 'refs/heads/other'"),
        ("fails", "req.none == ''"),
        ("wrong", "claims.sub == 'me'"),
    ] {
        let spec = json!({
            "type": "github", "secretRef": {"name": "hook"}, "resourceFilter": filter,
            "resources": [{"kind": "HelmRepository", "name": "demo"}],
        });
        r.apply(&notification("Receiver", name, &spec));
    }
    let ready = wait("github", "True Succeeded");
    let path = ready["status"]["webhookPath"].as_str().unwrap().to_owned();
    assert_eq!(ready["status"]["observedGeneration"], ready["metadata"]["generation"]);
    let foreign = wait("foreign", "True Succeeded")["status"]["webhookPath"].as_str().unwrap().to_owned();
    let refused = wait("gcr", "False ValidationFailed");
    assert_eq!(condition(&refused, "Stalled"), "True ValidationFailed");
    assert_eq!(refused["status"]["webhookPath"], Value::Null);

    let wrong = wait("wrong", "False InvalidCELExpression");
    assert_eq!(condition(&wrong, "Stalled"), "True InvalidCELExpression");
    assert!(wrong["status"].to_string().contains("undeclared reference to 'claims'"), "{wrong}");
    let path_of =
        |name: &str| wait(name, "True Succeeded")["status"]["webhookPath"].as_str().unwrap().to_owned();
    let (admits, refuses, fails) = (path_of("admits"), path_of("refuses"), path_of("fails"));

    let before = r.ready_source("helmrepository", "demo");
    assert_eq!(before["status"]["lastHandledReconcileAt"], Value::Null);
    for (path, key, event, status) in [
        ("/hook/0000", "hook-token", "push", 404),
        (path.as_str(), "other-token", "push", 400),
        (path.as_str(), "hook-token", "fork", 400),
        (foreign.as_str(), "hook-token", "push", 500),
        (fails.as_str(), "hook-token", "push", 500),
        (refuses.as_str(), "hook-token", "push", 200),
    ] {
        assert_eq!(call(address, path, key, event).await, status, "{path} {key} {event}");
    }
    assert_eq!(
        r.get("helmrepository", "demo")["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"],
        Value::Null
    );
    publish(&files, &["1.0.0", "1.1.0"]);
    assert_eq!(call(address, &admits, "hook-token", "push").await, 200);
    let requested = || {
        let object = r.get("helmrepository", "demo");
        let token =
            object["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"].as_str().map(str::to_owned);
        Ok(token)
    };
    let admitted = wait_until("the filter admits", LIMIT, requested).unwrap();
    assert_eq!(call(address, &path, "hook-token", "Push").await, 200);
    assert_ne!(requested().unwrap(), Some(admitted));
    let revision = |object: &Value| object["status"]["artifact"]["revision"].clone();
    // The second request may be handled after the index was read for the first one.
    let found = || {
        let object = r.get("helmrepository", "demo");
        let requested = &object["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
        let handled = requested.is_string() && object["status"]["lastHandledReconcileAt"] == *requested;
        Ok((handled && revision(&object) != revision(&before)).then_some(()))
    };
    wait_until("the index is read again, and the requests are handled", LIMIT, found).unwrap();

    r.cp.kubectl([
        "patch",
        "receiver",
        "github",
        "-n",
        r.ns.name(),
        "--type=merge",
        "-p",
        r#"{"spec": {"suspend": true}}"#,
    ])
    .unwrap();
    assert_eq!(call(address, &path, "hook-token", "push").await, 503);
    r.cp.kubectl(["delete", "receiver", "github", "-n", r.ns.name()]).unwrap();
    assert_eq!(call(address, &path, "hook-token", "push").await, 404);
    r.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_of_github_writes_commit_statuses() {
    let mut r = Running::prepare("notify-app").await;
    let (files, storage) = (Files::default(), tempfile::tempdir().unwrap());
    let address = files.serve().await;
    let commit = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738";
    let (list, create) = (
        format!("/api/v3/repos/org/repo/commits/{commit}/statuses"),
        format!("/api/v3/repos/org/repo/statuses/{commit}"),
    );
    files.put("/api/v3/app/installations/42/access_tokens", r#"{"token": "ghs_token-of-the-app"}"#);
    files.put(&list, "[]");
    files.put(&create, "{}");
    files.require("/api/v3/repos/", "Bearer ghs_token-of-the-app");
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    for (name, api) in [("app", format!("http://{address}/api/v3")), ("elsewhere", String::new())] {
        let data = json!({
            "githubAppID": "7", "githubAppInstallationID": "42", "githubAppPrivateKey": key.serialize_pem(), "githubAppBaseURL": api,
        });
        r.apply(&secret(name, &data));
        let provider = json!({
            "type": "github", "address": format!("http://{address}/org/repo.git"), "secretRef": {"name": name},
        });
        r.apply(&notification("Provider", name, &provider));
        let alert = json!({
            "providerRef": {"name": name}, "eventSources": [{"kind": "HelmRelease", "name": "*"}], "eventSeverity": "error",
            "eventMetadata": {"commit": commit},
        });
        r.apply(&notification("Alert", name, &alert));
    }
    r.start_with_notifications(storage.path()).await;
    let _files = chart_source(&r).await;
    let mut bad = chart_spec("HelmRepository", &json!({}));
    bad["values"] = json!({"size": "bad"});
    r.release("bad", &bad);
    let seen = || files.seen.lock().unwrap().clone();
    let written = || Ok(seen().iter().any(|(path, _)| *path == create).then_some(()));
    wait_until("the status is written", LIMIT, written).unwrap();
    for (path, login) in seen() {
        let login = login.unwrap_or_default();
        match path.ends_with("/access_tokens") {
            true => assert!(login.starts_with("Bearer ey"), "{path}: {login}"),
            false => assert_eq!(login, "Bearer ghs_token-of-the-app", "{path}"),
        }
    }
    // The token of an app of another server stays there.
    let refused = || {
        let text =
            r.cp.kubectl(["get", "events", "-n", r.ns.name(), "-o", "jsonpath={.items[*].message}"])?;
        Ok(text.contains("the app's tokens are for the server of githubAppBaseURL").then_some(()))
    };
    wait_until("the other app is refused", LIMIT, refused).unwrap();
    r.end().await;
}
