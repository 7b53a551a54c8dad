//! Credentials stay with their origin: two servers on loopback each, the second of which must not see what is for the first.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};

use super::git;
use super::repositories::repository;
use super::server::{Answer, Asked, Certificates, Clients, Server};
use super::support::{Said, User, chart};

const LOGIN: [&str; 4] = ["--username", "me", "--password", "secret"];

fn with_login<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &LOGIN].concat()
}

fn has(asked: &Asked, header: &str) -> bool {
    asked.headers.contains_key(header)
}

/// A redirect that keeps method and body.
fn moved(to: &str) -> Answer {
    Answer::Head(307, vec![("location", to.to_owned())])
}

fn run(user: &User, args: &[&str], variables: &[(&str, &str)]) -> Said {
    let mut command = user.command(Path::new(env!("CARGO_BIN_EXE_windlass")), args);
    command.envs(variables.iter().copied()).output().unwrap().into()
}

#[test]
fn pass_credentials_means_hosts_of_the_index_and_no_redirect() {
    let (server, named, elsewhere, user) = (Server::plain(), Server::plain(), Server::plain(), User::new());
    repository(&user, &server);
    let url = format!("{}/charts", server.url);
    let index = user.read("repository/index.yaml");
    let there = format!("{}/web-1.10.0.tgz", named.url);
    server.body("/charts/index.yaml", index.replace("- web-1.10.0.tgz", &format!("- {there}")));
    named.answer("/web-1.10.0.tgz", Answer::Redirect(format!("{}/web-1.10.0.tgz", elsewhere.url)));
    elsewhere.body("/web-1.10.0.tgz", fs::read(user.path("repository/web-1.10.0.tgz")).unwrap());
    for (flag, passed) in [("--pass-credentials=false", false), ("--pass-credentials", true)] {
        user.ok(&with_login(&["pull", "web", "--repo", &url, flag]));
        let (named, elsewhere) = (named.asked(), elsewhere.asked());
        assert!(named.len() == 1 && has(&named[0], "authorization") == passed, "{flag}: {named:?}");
        assert!(elsewhere.len() == 1 && !has(&elsewhere[0], "authorization"), "{flag}: {elsewhere:?}");
        fs::remove_dir_all(user.path(".cache/helm/content")).unwrap();
    }
}

#[test]
fn no_redirect_leads_from_https_to_http() {
    let (server, plain, user) = (Server::tls(Certificates::new(false), false), Server::plain(), User::new());
    user.write("ca.pem", &server.certificates().authority);
    server.answer("/web-1.0.0.tgz", Answer::Redirect(format!("{}/web-1.0.0.tgz", plain.url)));
    let error = user.fails(&["pull", &format!("{}/web-1.0.0.tgz", server.url), "--ca-file", "ca.pem"]);
    assert!(error.contains("would give up TLS"), "{error}");
    assert_eq!(plain.asked().len(), 0);
}

#[test]
fn client_certificates_are_shown_to_their_origin_alone() {
    let (certificates, user) = (Certificates::new(false), User::new());
    let server = Server::tls_for(certificates.clone(), Clients::Known);
    let elsewhere = Server::tls_for(certificates.clone(), Clients::Noted);
    repository(&user, &server);
    user.write("ca.pem", &certificates.authority);
    user.write("client.pem", &certificates.client.0);
    user.write("client.key", &certificates.client.1);
    let flags = ["--ca-file", "ca.pem", "--cert-file", "client.pem", "--key-file", "client.key"];
    let there = format!("{}/web-1.10.0.tgz", elsewhere.url);
    elsewhere.body("/web-1.10.0.tgz", fs::read(user.path("repository/web-1.10.0.tgz")).unwrap());
    let url = format!("{}/charts", server.url);
    let pull = |more: &[&str]| {
        user.ok(&[&["pull", "web", "--repo", &url][..], &flags, more].concat());
        fs::remove_dir_all(user.path(".cache/helm/content")).unwrap();
        elsewhere.asked().remove(0)
    };
    server.answer("/charts/web-1.10.0.tgz", Answer::Redirect(there.clone()));
    assert!(!has(&pull(&[]), "(certificate)"), "after a redirect");
    let index = user.read("repository/index.yaml");
    server.body("/charts/index.yaml", index.replace("- web-1.10.0.tgz", &format!("- {there}")));
    assert!(!has(&pull(&[]), "(certificate)"), "a host of the index");
    assert!(has(&pull(&["--pass-credentials"]), "(certificate)"), "a host of the index, passed");
}

#[test]
fn a_registry_answers_for_itself_alone() {
    let (registry, elsewhere, user) = (Server::plain(), Server::plain(), User::new());
    let host = registry.url.strip_prefix("http://").unwrap();
    let name = format!("oci://{host}/web:1.0.0");
    elsewhere.body("/token", "{\"token\": \"t\"}");
    let challenge = format!("Bearer realm=\"{}/token\",service=\"s\"", elsewhere.url);
    elsewhere.answer("/manifest", Answer::Head(401, vec![("www-authenticate", challenge)]));
    registry.answer("/v2/web/manifests/1.0.0", Answer::Redirect(format!("{}/manifest", elsewhere.url)));
    let error = user.fails(&with_login(&["pull", &name, "--plain-http"]));
    assert!(error.contains("which asks for credentials"), "{error}");
    let asked = elsewhere.asked();
    assert!(asked.len() == 1 && !has(&asked[0], "authorization"), "{asked:?}");
}

#[test]
fn a_realm_keeps_the_login_and_wants_tls_where_the_registry_has_it() {
    let (registry, realm, elsewhere, user) = (Server::plain(), Server::plain(), Server::plain(), User::new());
    let host = registry.url.strip_prefix("http://").unwrap();
    let challenge = |realm: &Server| {
        let text = format!("Bearer realm=\"{}/token\",service=\"s\"", realm.url);
        Answer::Head(401, vec![("www-authenticate", text)])
    };
    registry.answer("/v2/web/manifests/1.0.0", challenge(&realm));
    realm.answer("/token", moved(&format!("{}/token", elsewhere.url)));
    elsewhere.body("/token", "{\"token\": \"t\"}");
    user.write(
        ".docker/config.json",
        &format!("{{\"auths\": {{\"{host}\": {{\"identitytoken\": \"kept\"}}}}}}"),
    );
    let name = format!("oci://{host}/web:1.0.0");
    let error = user.fails(&["pull", &name, "--plain-http"]);
    assert!(error.contains("would take credentials to another server"), "{error}");
    let asked = realm.asked();
    assert!(asked[0].body.contains("refresh_token=kept"), "{asked:?}");
    assert!(elsewhere.asked().is_empty());
    let secure = Server::tls(Certificates::new(false), false);
    user.write("ca.pem", &secure.certificates().authority);
    secure.answer("/v2/web/manifests/1.0.0", challenge(&elsewhere));
    let name = format!("oci://{}/web:1.0.0", secure.url.strip_prefix("https://").unwrap());
    let error = user.fails(&with_login(&["pull", &name, "--ca-file", "ca.pem"]));
    assert!(error.contains("in plain text"), "{error}");
    assert!(elsewhere.asked().is_empty());
}

#[test]
fn a_blob_elsewhere_is_fetched_without_the_login() {
    let (registry, elsewhere, user) = (Server::plain(), Server::plain(), User::new());
    chart(&user.path("web"), "web", "1.0.0", "");
    user.ok(&["package", "web"]);
    let package = fs::read(user.path("web-1.0.0.tgz")).unwrap();
    let hex: String = Sha256::digest(&package).iter().map(|b| format!("{b:02x}")).collect();
    let part = |kind: &str, size: usize| {
        format!(
            "{{\"mediaType\":\"application/vnd.cncf.helm.{kind}\",\"digest\":\"sha256:{hex}\",\"size\":{size}}}"
        )
    };
    let manifest = format!(
        "{{\"schemaVersion\":2,\"config\":{},\"layers\":[{}]}}",
        part("config.v1+json", 2),
        part("chart.content.v1.tar+gzip", package.len())
    );
    registry.require("Basic bWU6c2VjcmV0");
    registry.body("/v2/web/manifests/1.0.0", manifest);
    let blob = format!("/v2/web/blobs/sha256:{hex}");
    registry.answer(&blob, Answer::Redirect(format!("{}/blob", elsewhere.url)));
    elsewhere.body("/blob", package);
    let name = format!("oci://{}/web:1.0.0", registry.url.strip_prefix("http://").unwrap());
    user.ok(&with_login(&["pull", &name, "--plain-http"]));
    assert!(registry.asked().iter().any(|a| a.path == blob && has(a, "authorization")));
    let asked = elsewhere.asked();
    assert!(asked.len() == 1 && !has(&asked[0], "authorization"), "{asked:?}");
}

#[test]
fn an_upload_elsewhere_takes_the_chart_and_no_login() {
    let (registry, elsewhere, user) = (Server::plain(), Server::plain(), User::new());
    chart(&user.path("web"), "web", "1.0.0", "");
    user.ok(&["package", "web"]);
    let host = registry.url.strip_prefix("http://").unwrap();
    let place = format!("{}/upload", elsewhere.url);
    registry.answer("/v2/charts/web/blobs/uploads/", Answer::Head(202, vec![("location", place)]));
    registry.answer("/v2/charts/web/manifests/1.0.0", Answer::Head(201, Vec::new()));
    elsewhere.answer_all(Answer::Head(201, Vec::new()));
    let push = with_login(&["push", "web-1.0.0.tgz", "REPOSITORY", "--plain-http"]);
    let repository = format!("oci://{host}/charts");
    let push: Vec<&str> = push.into_iter().map(|a| if a == "REPOSITORY" { &repository } else { a }).collect();
    user.ok(&push);
    assert_eq!(elsewhere.asked().len(), 2, "the chart and its configuration");
    let challenge = vec![("www-authenticate", "Basic realm=\"x\"".to_owned())];
    elsewhere.answer_all(Answer::Head(401, challenge));
    user.fails(&push);
    let asked = elsewhere.asked();
    assert!(!asked.is_empty() && !asked.iter().any(|a| has(a, "authorization")), "{asked:?}");
}

#[test]
fn git_takes_a_login_nowhere_else() {
    let (server, elsewhere, user) = (Server::plain(), Server::plain(), User::new());
    git::repository(&user);
    for name in user.files("repo.git") {
        let body = fs::read(user.path(&format!("repo.git/{name}"))).unwrap();
        elsewhere.body(&format!("/repo.git/{name}"), body);
    }
    let refs = "/repo.git/info/refs?service=git-upload-pack";
    elsewhere.body(refs, fs::read(user.path("repo.git/info/refs")).unwrap());
    server.answer(refs, Answer::Redirect(format!("{}{refs}", elsewhere.url)));
    let reference = format!("git+{}/repo.git//charts/web", server.url);
    assert_eq!(git::size(&user, &reference), "2");
    assert!(elsewhere.asked().iter().all(|a| !has(a, "authorization")));
    fs::remove_dir_all(user.path(".cache")).unwrap();
    user.write(".gitconfig", &format!("[http \"{}/\"]\n\tfollowRedirects = true\n", server.url));
    let error = user.fails(&with_login(&["show", "values", &reference]));
    assert!(error.contains("302") && !error.contains("secret"), "{error}");
    assert!(server.asked().iter().any(|a| has(a, "authorization")));
    let asked = elsewhere.asked();
    assert!(asked.is_empty(), "{asked:?}");
}

/// Commits of a repository whose submodule lies elsewhere.
fn repository_with_submodule(user: &User, place: &str) {
    git::repository(user);
    let work = user.path("work");
    let run = |args: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(&work).args(args).stdin(Stdio::null()).env("HOME", user.path(""));
        for key in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{key}_NAME"), "me").env(format!("GIT_{key}_EMAIL"), "me@example.test");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}\n{}", String::from_utf8_lossy(&output.stderr));
    };
    let module = user.path("repo.git").display().to_string();
    run(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &module, "charts/web/module"]);
    run(&["config", "-f", ".gitmodules", "submodule.charts/web/module.url", place]);
    run(&["commit", "-q", "-a", "-m", "with a submodule"]);
    run(&["clone", "-q", "--bare", ".", "../outer.git"]);
}

#[test]
fn submodules_elsewhere_get_no_login_and_no_other_protocol() {
    let (server, elsewhere, user) = (Server::plain(), Server::plain(), User::new());
    repository_with_submodule(&user, &format!("{}/repo.git", elsewhere.url));
    let serve = |server: &Server, repository: &str| {
        let output = Command::new("git")
            .current_dir(user.path(repository))
            .args(["update-server-info"])
            .output()
            .unwrap();
        assert!(output.status.success());
        for name in user.files(repository) {
            let body = fs::read(user.path(&format!("{repository}/{name}"))).unwrap();
            server.body(&format!("/{repository}/{name}"), body);
        }
        let refs = fs::read(user.path(&format!("{repository}/info/refs"))).unwrap();
        server.body(&format!("/{repository}/info/refs?service=git-upload-pack"), refs);
    };
    serve(&server, "outer.git");
    serve(&elsewhere, "repo.git");
    server.require("Basic bWU6c2VjcmV0");
    let reference = format!("git+{}/outer.git//charts/web?submodules=1", server.url);
    // A dumb server has no shallow clones, so that the submodule fails, after it was asked for.
    run(&user, &with_login(&["show", "values", &reference]), &[]);
    let asked = elsewhere.asked();
    assert!(!asked.is_empty() && !asked.iter().any(|a| has(a, "authorization")), "{asked:?}");
    // What the user allows otherwise is not allowed here: the repository says where its submodules are.
    let local = format!("git+file://{}//charts/web?submodules=1", user.path("outer.git").display());
    let said = run(&user, &["show", "values", &local], &[("GIT_ALLOW_PROTOCOL", "file:http")]);
    assert!(!said.ok && said.err.contains("transport 'http' not allowed"), "{}", said.err);
    assert!(elsewhere.asked().is_empty());
}

#[cfg(all(feature = "gcs", feature = "s3"))]
#[test]
fn servers_that_hand_out_keys_send_nobody_elsewhere() {
    let (server, elsewhere, user) = (Server::plain(), Server::plain(), User::new());
    elsewhere.answer_all(Answer::Body(b"{\"access_token\": \"t\"}".to_vec()));
    for path in ["/", "/agent", "/token"] {
        server.answer(path, moved(&format!("{}{path}", elsewhere.url)));
    }
    let login = |place: &str| {
        serde_json::json!({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r",
            "token_uri": place})
        .to_string()
    };
    user.write("login.json", &login(&format!("{}/token", server.url)));
    user.write("plain.json", &login("http://example.test/token"));
    user.write("token", "jwt");
    let path = |name: &str| user.path(name).display().to_string();
    let (google, plain, token, agent) =
        (path("login.json"), path("plain.json"), path("token"), format!("{}/agent", server.url));
    let cases: [(&str, &[(&str, &str)]); 3] = [
        ("gs://charts/web.tgz", &[("GOOGLE_APPLICATION_CREDENTIALS", &google)]),
        (
            "s3://charts/web.tgz",
            &[
                ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
                ("AWS_ROLE_ARN", "a"),
                ("AWS_ENDPOINT_URL_STS", &server.url),
            ],
        ),
        (
            "s3://charts/web.tgz",
            &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &agent), ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "me")],
        ),
    ];
    for (reference, variables) in cases {
        let said = run(&user, &["show", "chart", reference], variables);
        assert!(!said.ok && said.err.contains("to another server"), "{variables:?}: {}", said.err);
        assert_eq!(server.asked().len(), 1, "{variables:?}");
        let asked = elsewhere.asked();
        assert!(asked.is_empty(), "{variables:?}: {asked:?}");
    }
    let said =
        run(&user, &["show", "chart", "gs://charts/web.tgz"], &[("GOOGLE_APPLICATION_CREDENTIALS", &plain)]);
    assert!(!said.ok && said.err.contains("token_uri is not HTTPS"), "{}", said.err);
}
