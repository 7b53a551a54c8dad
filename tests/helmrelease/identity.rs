//! Sources of clouds that act with the identity of the operator's process, as `--allow-workload-identity` lets them.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, PKCS_RSA_SHA256};
use serde_json::json;
use windlass_testing::wait_until;

use super::bad_sources::everything;
use super::sources::{Files, message, source};
use super::support::{LIMIT, Running};

/// The operator's program, with identities of three clouds in its environment.
struct Operator(Child);

impl Operator {
    fn start(running: &Running, directory: &std::path::Path, clouds: SocketAddr, more: &[&str]) -> Self {
        let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
        let account = json!({
            "type": "service_account", "client_email": "me@example.test", "private_key": key.serialize_pem(),
            "token_uri": format!("http://{clouds}/token"),
        });
        std::fs::write(directory.join("account.json"), account.to_string()).unwrap();
        std::fs::write(directory.join("token"), "federated-token").unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["operator", "--controllers=helmreleases", "--sources=own", "--notifications=flux"])
            .args(["--storage-addr", "127.0.0.1:0", "--listen-address", "127.0.0.1", "--listen-port", "0"])
            .args(["--allow-local-sources", "--storage-path"])
            .arg(directory.join("artifacts"))
            .args(more)
            .env("KUBECONFIG", running.cp.kubeconfig())
            .env("HOME", directory)
            .env("DEBUG_UNIX_SOCKET", directory.join("debug.socket"))
            .env("AWS_ACCESS_KEY_ID", "OWNKEY")
            .env("AWS_SECRET_ACCESS_KEY", "own-secret-key")
            .env("AWS_ENDPOINT_URL_ECR", format!("http://{clouds}/ecr"))
            .env("GOOGLE_APPLICATION_CREDENTIALS", directory.join("account.json"))
            .env("AZURE_TENANT_ID", "tenant")
            .env("AZURE_CLIENT_ID", "client")
            .env("AZURE_FEDERATED_TOKEN_FILE", directory.join("token"))
            .env("AZURE_AUTHORITY_HOST", format!("http://{clouds}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Token servers of all clouds, at the server of sources.
fn clouds(files: &Files) {
    files.put("/token", r#"{"access_token": "google-token"}"#);
    files.put("/tenant/oauth2/v2.0/token", r#"{"access_token": "entra-token"}"#);
    files.put("/oauth2/exchange", r#"{"refresh_token": "acr-token"}"#);
    let login = STANDARD.encode("AWS:ecr-password");
    files.put("/ecr/", json!({"authorizationData": [{"authorizationToken": login}]}).to_string());
    files.put_cloud_buckets();
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_of_clouds_act_as_the_process_only_if_it_allows_them() {
    let running = Running::prepare_alone("identity").await;
    let (repository, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (files, address) = everything(repository.path()).await;
    clouds(&files);
    let basic = |login: &str| format!("Basic {}", STANDARD.encode(login));
    let registry = |provider: &str| {
        json!({"provider": provider, "url": format!("oci://{address}/charts/demo"), "insecure": true, "interval": "1h",
            "ref": {"tag": "1.0.0"}, "layerSelector": {"operation": "copy"}})
    };
    let bucket = |provider: &str| json!({"provider": provider, "bucketName": "bucket", "endpoint": address.to_string(), "insecure": true, "interval": "1h"});
    let mut container = bucket("azure");
    (container["bucketName"], container["endpoint"]) =
        ("container".into(), format!("http://{address}").into());
    let git = json!({"provider": "azure", "url": format!("http://{address}/repository.git"), "interval": "1h", "ref": {"branch": "main"}});
    // The path of a request, and how its header begins.
    let all = [
        ("s3", "Bucket", bucket("aws"), "/bucket/a.yaml", "AWS4-HMAC-SHA256 Credential=OWNKEY/".to_owned()),
        ("gcs", "Bucket", bucket("gcp"), "/storage/v1/b/bucket/o/a.yaml", "Bearer google-token".to_owned()),
        ("blobs", "Bucket", container, "/container/a.yaml", "Bearer entra-token".to_owned()),
        (
            "ecr",
            "OCIRepository",
            registry("aws"),
            "/v2/charts/demo/manifests/1.0.0",
            basic("AWS:ecr-password"),
        ),
        (
            "gar",
            "OCIRepository",
            registry("gcp"),
            "/v2/charts/demo/manifests/1.0.0",
            basic("oauth2accesstoken:google-token"),
        ),
        (
            "acr",
            "OCIRepository",
            registry("azure"),
            "/v2/charts/demo/manifests/1.0.0",
            basic("00000000-0000-0000-0000-000000000000:acr-token"),
        ),
        ("devops", "GitRepository", git, "/repository.git/info/refs", "Bearer entra-token".to_owned()),
    ];
    let operator = Operator::start(&running, directory.path(), address, &[]);
    for (name, kind, spec, ..) in &all {
        running.apply(&source(kind, name, spec));
        let object = running.source_with(&kind.to_lowercase(), name, "False InvalidProviderConfiguration");
        assert!(message(&object, "Ready").contains("--allow-workload-identity"), "{object}");
    }
    assert!(files.seen.lock().unwrap().is_empty(), "nothing is asked for");
    drop(operator);
    let _operator = Operator::start(&running, directory.path(), address, &["--allow-workload-identity"]);
    for (name, kind, _, path, login) in &all {
        // A registry asks for a login.
        if let Some(below) = path.strip_suffix("/manifests/1.0.0") {
            files.require(below, login);
        }
        running.reconcile_source(&kind.to_lowercase(), name, "again");
        running.ready_source(&kind.to_lowercase(), name);
        // It may have been ready before, without a login.
        let found = || {
            let seen = files.seen.lock().unwrap();
            seen.iter()
                .any(|(seen, sent)| seen == path && sent.as_ref().is_some_and(|s| s.starts_with(login)))
        };
        let logged_in = wait_until(&format!("{name} logs in"), LIMIT, || Ok(found().then_some(())));
        assert!(logged_in.is_ok(), "{name}: {:?}", files.seen.lock().unwrap());
        files.require_nothing();
    }
}
