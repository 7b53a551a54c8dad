//! What a tenant tries with sources: addresses of this machine and of its cloud, files of this machine, paths out of a repository. Each
//! ends in a condition or is refused by the API server, and no server on this machine is asked.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use super::commands::own_address;
use super::sources::{Fault, Files, git, message, publish_repository, source};
use windlass_testing::write_file;

use super::support::Running;

/// An attempt: its name, the kind, the spec, the condition Ready, and a part of its text.
type Attempt = (&'static str, &'static str, Value, &'static str, &'static str);

const LOCAL: &str = "is an address of this machine or of its cloud";

/// Addresses of this machine and its cloud in all forms; `port`: of a server that must not be asked.
fn attempts(port: u16) -> Vec<Attempt> {
    let index = |host: &str| json!({"url": format!("http://{host}:{port}")});
    let secret = |name: &str| json!({"name": name});
    let failed = "False Failed";
    vec![
        ("v4", "HelmRepository", index("127.0.0.1"), failed, LOCAL),
        ("v6", "HelmRepository", index("[::1]"), failed, LOCAL),
        ("mapped", "HelmRepository", index("[::ffff:127.0.0.1]"), failed, LOCAL),
        ("name", "HelmRepository", index("localhost"), failed, LOCAL),
        ("number", "HelmRepository", index("2130706433"), failed, LOCAL),
        ("octal", "HelmRepository", index("0177.0.0.1"), failed, LOCAL),
        ("short", "HelmRepository", index("127.1"), failed, LOCAL),
        ("any", "HelmRepository", index("0.0.0.0"), failed, LOCAL),
        (
            "metadata",
            "HelmRepository",
            json!({"url": "http://169.254.169.254/latest/meta-data"}),
            failed,
            LOCAL,
        ),
        (
            "oci",
            "OCIRepository",
            json!({"url": format!("oci://127.0.0.1:{port}/charts/demo"), "insecure": true, "ref": {"tag": "1"}}),
            "False OCIArtifactPullFailed",
            LOCAL,
        ),
        (
            "bucket",
            "Bucket",
            json!({"bucketName": "b", "endpoint": format!("127.0.0.1:{port}"), "insecure": true}),
            "False BucketOperationFailed",
            LOCAL,
        ),
        (
            "user",
            "Bucket",
            json!({"bucketName": "b", "endpoint": format!("s3.amazonaws.com@127.0.0.1:{port}"), "insecure": true}),
            "False BucketOperationFailed",
            LOCAL,
        ),
        (
            "sts",
            "Bucket",
            json!({"bucketName": "b", "endpoint": "minio.example.test", "provider": "generic",
                "sts": {"provider": "ldap", "endpoint": format!("http://127.0.0.1:{port}/sts")}}),
            "False AuthenticationFailed",
            LOCAL,
        ),
        (
            "account",
            "Bucket",
            json!({"bucketName": "b", "endpoint": "storage.googleapis.com", "provider": "gcp", "secretRef": secret("account")}),
            "False AuthenticationFailed",
            LOCAL,
        ),
        (
            "blobs",
            "Bucket",
            json!({"bucketName": "b", "endpoint": "file:///etc", "provider": "azure"}),
            "False URLInvalid",
            "the scheme is not http or https",
        ),
        (
            "git",
            "GitRepository",
            json!({"url": format!("http://127.0.0.1:{port}/r.git")}),
            "False",
            "this machine",
        ),
        (
            "ssh",
            "GitRepository",
            json!({"url": "ssh://git@127.0.0.1/r.git", "secretRef": secret("ssh")}),
            "False",
            "this machine",
        ),
        (
            "proxy",
            "GitRepository",
            json!({"url": "https://git.example.test/r.git", "proxySecretRef": secret("proxy")}),
            "False AuthenticationFailed",
            LOCAL,
        ),
        (
            "bare-proxy",
            "GitRepository",
            json!({"url": "https://git.example.test/r.git", "proxySecretRef": secret("bare-proxy")}),
            "False AuthenticationFailed",
            "is not a plain URL",
        ),
        (
            "git-escaped",
            "GitRepository",
            json!({"url": format!("http://127.0.0.%31:{port}/r.git")}),
            "False URLInvalid",
            "is not a plain URL",
        ),
        (
            "ssh-two-hosts",
            "GitRepository",
            json!({"url": "ssh://evil?x@127.0.0.1/r.git", "secretRef": secret("ssh")}),
            "False URLInvalid",
            "is not a plain URL",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_lead_to_no_server_of_this_machine() {
    let mut running = Running::prepare("inward").await;
    let (files, storage) = (Files::default(), tempfile::tempdir().unwrap());
    let port = files.serve().await.port();
    running.allows_local = false;
    running.start_with_sources(storage.path()).await;
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let account = json!({
        "type": "service_account", "client_email": "me@example.test", "private_key": key.serialize_pem(),
        "token_uri": format!("http://127.0.0.1:{port}/token"),
    });
    for (name, data) in [
        ("account", json!({"serviceaccount": account.to_string()})),
        ("proxy", json!({"address": format!("http://127.0.0.1:{port}")})),
        ("bare-proxy", json!({"address": format!("127.0.0.1:{port}")})),
        ("ssh", json!({"identity": "key", "known_hosts": "127.0.0.1 ssh-ed25519 AAAA"})),
    ] {
        running.apply(
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}),
        );
    }
    let mut all = attempts(port);
    // A server beyond this machine that leads back to it.
    let outside = Files::default();
    if let Some(address) = own_address() {
        outside.fail(Some(Fault::Redirect(format!("http://127.0.0.1:{port}/index.yaml"))));
        let server = outside.serve_at(address).await;
        all.push((
            "redirect",
            "HelmRepository",
            json!({"url": format!("http://{server}")}),
            "False Failed",
            LOCAL,
        ));
        all.push((
            "git-redirect",
            "GitRepository",
            json!({"url": format!("http://{server}/r.git")}),
            "False GitOperationFailed",
            "the redirect is not followed: use the URL that it leads to",
        ));
    }
    for (name, kind, spec, ..) in &all {
        let mut whole = json!({"interval": "1h", "timeout": "5s"});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        running.apply(&source(kind, name, &whole));
    }
    let mut wrong = Vec::new();
    for (name, kind, _, ready, part) in &all {
        let object = running.source_with(&kind.to_lowercase(), name, "False");
        let said = format!("{} {}", super::support::condition(&object, "Ready"), message(&object, "Ready"));
        if !said.starts_with(ready) || !said.contains(part) {
            wrong.push(format!("{name}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.seen.lock().unwrap().is_empty(), "{:?}", files.seen.lock().unwrap());
    // Files of this machine are not URLs of the API.
    for (kind, url) in [
        ("HelmRepository", "file:///etc"),
        ("GitRepository", "file:///etc"),
        ("OCIRepository", "file:///etc"),
    ] {
        let object = source(kind, "file", &json!({"url": url, "interval": "1h"}));
        let applied =
            running.cp.kubectl_with(["apply", "-n", running.ns.name(), "-f", "-"], &object.to_string());
        assert!(applied.is_err(), "{kind} {url}");
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_read_no_file_beyond_their_source() {
    let mut running = Running::prepare("outward").await;
    let (files, storage, repository) =
        (Files::default(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let address = files.serve().await;
    let root = repository.path();
    let write = |path: &str, text: &str| write_file(root.join(path), text);
    // A chart of this machine, and a file that is good YAML: whoever follows a path or a link to them finds what it looks for.
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.yaml");
    std::fs::write(&secret, "size: stolen\n").unwrap();
    write_file(outside.path().join("Chart.yaml"), "apiVersion: v2\nname: demo\nversion: 1.0.0\n");
    write_file(outside.path().join("values.yaml"), "size: stolen\n");
    git(root, &["init", "--quiet", "-b", "main"]);
    write("chart/Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n");
    write("chart/values.yaml", "size: one\n");
    symlink(&secret, root.join("link.yaml")).unwrap();
    symlink(outside.path(), root.join("directory")).unwrap();
    symlink(outside.path(), root.join("chart/files")).unwrap();
    git(root, &["add", "-A"]);
    git(root, &["commit", "--quiet", "-m", "first"]);
    publish_repository(root, &files);
    running.start_with_sources(storage.path()).await;
    let spec = json!({"url": format!("http://{address}/repository.git"), "interval": "1h", "ref": {"branch": "main"}});
    running.apply(&source("GitRepository", "demo", &spec));
    running.ready_source("gitrepository", "demo");
    let up = "../".repeat(12);
    let below = |path: &Path| format!("{up}{}", path.strip_prefix("/").unwrap().display());
    let own = || "chart".to_owned();
    let no_values = "no values file found at path";
    for (name, chart, values, why) in [
        ("chart-up", below(outside.path()), None, "leads out of the source"),
        ("chart-link", "directory".to_owned(), None, "failed to load chart 'directory'"),
        ("up", own(), Some(below(&secret)), no_values),
        ("absolute", own(), Some(secret.display().to_string()), no_values),
        ("link", own(), Some("link.yaml".to_owned()), ""),
        ("directory", own(), Some("directory/secret.yaml".to_owned()), no_values),
        ("in-chart", own(), Some("chart/files/secret.yaml".to_owned()), no_values),
    ] {
        let mut spec = json!({
            "chart": chart, "interval": "1h", "sourceRef": {"kind": "GitRepository", "name": "demo"},
        });
        if let Some(values) = values {
            spec["valuesFiles"] = json!(["chart/values.yaml", values]);
        }
        running.apply(&source("HelmChart", name, &spec));
        let object = running.source_with("helmchart", name, "False");
        let said = message(&object, "Ready");
        assert!(!said.contains("stolen") && object["status"]["artifact"].is_null(), "{name}: {said}");
        assert!(said.contains(why), "{name}: {said}");
    }
    // A link in a chart is not followed.
    let spec =
        json!({"chart": "chart", "interval": "1h", "sourceRef": {"kind": "GitRepository", "name": "demo"}});
    running.apply(&source("HelmChart", "plain", &spec));
    let object = running.ready_source("helmchart", "plain");
    let path = storage.path().join(object["status"]["artifact"]["path"].as_str().unwrap());
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()));
    let names: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert!(names.contains(&"demo/Chart.yaml".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("secret")), "{names:?}");
    running.end().await;
}
