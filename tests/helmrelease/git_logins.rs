//! Git repositories behind a login: of an app of GitHub over HTTP, of a key over SSH.

use std::path::Path;

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_RSA_SHA256, PublicKeyData as _};
use serde_json::{Value, json};
use windlass_testing::SshServer;

use super::bad_sources::everything;
use super::sources::{git, message, source};
use super::support::Running;

fn secret(running: &Running, name: &str, data: &Value) {
    running.apply(
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_of_github_reads_its_repositories() {
    let mut running = Running::prepare("app").await;
    let repository = tempfile::tempdir().unwrap();
    let (files, address) = everything(repository.path()).await;
    files.put("/app/installations/42/access_tokens", r#"{"token": "ghs_lent-token"}"#);
    files.put("/users/my-user/installation", r#"{"id": 42}"#);
    files.require("/repository.git", &format!("Basic {}", STANDARD.encode("x-access-token:ghs_lent-token")));
    let storage = tempfile::tempdir().unwrap();
    running.start_with_sources(storage.path()).await;
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let app = |change: Value| {
        let mut data = json!({
            "githubAppID": "7", "githubAppInstallationID": "42", "githubAppPrivateKey": key.serialize_pem(),
            "githubAppBaseURL": format!("http://{address}"),
        });
        for (key, value) in change.as_object().unwrap() {
            data[key] = value.clone();
        }
        data.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        data
    };
    let (ready, invalid) = ("True Succeeded", "False InvalidProviderConfiguration");
    for (name, provider, data, state, text) in [
        ("by-id", "github", app(json!({})), ready, ""),
        (
            "by-owner",
            "github",
            app(json!({"githubAppInstallationID": null, "githubAppInstallationOwner": "my-user"})),
            ready,
            "",
        ),
        (
            "nobody",
            "github",
            app(json!({"githubAppInstallationID": null, "githubAppInstallationOwner": "other"})),
            "False AuthenticationFailed",
            "githubAppInstallationOwner has no installation of the app",
        ),
        (
            "gone",
            "github",
            app(json!({"githubAppInstallationID": "1"})),
            "False AuthenticationFailed",
            "installation 1 not found",
        ),
        (
            "no-key",
            "github",
            app(json!({"githubAppPrivateKey": "private-words"})),
            "False AuthenticationFailed",
            "is not an RSA key in PEM",
        ),
        (
            "both",
            "github",
            app(json!({"githubAppInstallationOwner": "my-user"})),
            invalid,
            "either githubAppInstallationID or",
        ),
        ("number", "github", app(json!({"githubAppID": "x"})), invalid, "githubAppID is not a number"),
        (
            "elsewhere",
            "github",
            app(json!({"githubAppBaseURL": null})),
            invalid,
            "for the server of githubAppBaseURL",
        ),
        (
            "plain",
            "github",
            app(json!({"githubAppBaseURL": "http://ghe.test"})),
            invalid,
            "githubAppBaseURL is not HTTPS",
        ),
        (
            "no-app",
            "github",
            json!({"username": "me", "password": "password"}),
            invalid,
            "with github app data must be specified",
        ),
        (
            "no-provider",
            "generic",
            app(json!({})),
            invalid,
            "has github app data but provider is not set to github",
        ),
    ] {
        secret(&running, name, &data);
        let spec = json!({
            "provider": provider, "url": format!("http://{address}/repository.git"), "interval": "1h", "ref": {"branch": "main"},
            "secretRef": {"name": name},
        });
        files.seen.lock().unwrap().clear();
        running.apply(&source("GitRepository", name, &spec));
        let object = running.source_with("gitrepository", name, state);
        let said = message(&object, "Ready");
        assert!(said.contains(text), "{name}: {said}");
        let status = object["status"].to_string();
        assert!(!status.contains("lent-token") && !status.contains("private-words"), "{name}: {said}");
        let seen = files.seen.lock().unwrap().clone();
        if state == invalid {
            // Others are tried again meanwhile.
            assert!(!seen.iter().any(|(path, _)| path.starts_with("/repository.git")), "{name}: {seen:?}");
        }
        let Some((_, Some(login))) = seen.iter().find(|(path, _)| path.ends_with("/access_tokens")) else {
            continue;
        };
        let (signed, signature) = login.strip_prefix("Bearer ").unwrap().rsplit_once('.').unwrap();
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.subject_public_key_info())
            .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
            .expect("the app's signature");
        let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(claims["iss"], "7");
        assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 120);
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_ssh_knows_the_key_and_is_known_by_its_own() {
    let mut running = Running::prepare("ssh").await;
    let (directory, repository) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = repository.path();
    std::fs::write(root.join("a.yaml"), "{}").unwrap();
    for args in
        [&["init", "--quiet", "-b", "main"][..], &["add", "-A"], &["commit", "--quiet", "-m", "first"]]
    {
        git(root, args);
    }
    let ((host, host_public), (own, own_public), (strange, strange_public)) = (
        SshServer::key(directory.path(), "host").unwrap(),
        SshServer::key(directory.path(), "own").unwrap(),
        SshServer::key(directory.path(), "strange").unwrap(),
    );
    let authorized = directory.path().join("authorized");
    std::fs::write(&authorized, format!("{own_public}\n")).unwrap();
    let server = SshServer::start(&host, &authorized).unwrap();
    let storage = tempfile::tempdir().unwrap();
    running.start_with_sources(storage.path()).await;
    let known = |public: &str| format!("[127.0.0.1]:{} {public}\n", server.port());
    let data = |key: &Path, hosts: &str| json!({"identity": std::fs::read_to_string(key).unwrap(), "known_hosts": hosts});
    let right = data(&own, &known(&host_public));
    let url = format!("ssh://git@127.0.0.1:{}{}", server.port(), root.display());
    for (name, data, text) in [
        ("denied", data(&strange, &known(&host_public)), "Permission denied"),
        ("mistaken", data(&own, &known(&strange_public)), "REMOTE HOST IDENTIFICATION HAS CHANGED"),
        ("unknown", data(&own, "example.org ssh-ed25519 AAAA\n"), "Host key verification failed"),
        ("no-hosts", json!({"identity": "x"}), "'known_hosts'"),
        ("broken", json!({"identity": "private-words", "known_hosts": known(&host_public)}), ""),
    ] {
        secret(&running, name, &data);
        let spec = json!({"url": url, "interval": "1h", "timeout": "20s", "ref": {"branch": "main"}, "secretRef": {"name": name}});
        running.apply(&source("GitRepository", name, &spec));
        let object = running.source_with("gitrepository", name, "False");
        let said = message(&object, "Ready");
        assert!(said.contains(text) && !said.contains("private-words"), "{name}: {said}");
        // The right Secret is enough.
        secret(&running, name, &right);
        running.ready_source("gitrepository", name);
    }
    running.end().await;
}
