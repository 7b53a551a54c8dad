//! What addresses of helmfiles name, from servers on loopback: who gets logins and keys, how often each is asked, and what is refused.

use std::fs;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::server::{Answer, Server};
use super::support::{Said, User, ours};

/// The values of an environment with these files.
fn values(user: &User, files: &[String], variables: &[(&str, &str)]) -> Said {
    let list = serde_json::to_string(files).unwrap();
    user.write("helmfile.yaml", &format!("environments: {{default: {{values: {list}}}}}\n"));
    let mut command = user.command(ours(), &["helmfile", "print-env"]);
    command.envs(variables.iter().copied()).output().unwrap().into()
}

fn is_read(user: &User, address: &str, variables: &[(&str, &str)], want: &str) {
    let said = values(user, &[address.to_owned()], variables);
    assert!(said.ok && said.out.contains(want), "{address}\n{}{}", said.out, said.err);
}

fn is_refused(user: &User, address: &str, words: &str) {
    let said = values(user, &[address.to_owned()], &[]);
    assert!(!said.ok && said.err.contains(words) && !said.err.contains("hunter2"), "{address}\n{}", said.err);
}

/// A `tar.gz` of files and symbolic links.
fn package(files: &[(&str, &str)], links: &[(&str, &str)]) -> Vec<u8> {
    let mut out = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        out.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    for (name, to) in links {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        out.append_link(&mut header, name, to).unwrap();
    }
    out.into_inner().unwrap().finish().unwrap()
}

/// The URL of a server with a login.
fn with_login(server: &Server) -> String {
    server.url.replace("http://", "http://me:hunter2@")
}

#[test]
fn logins_go_to_their_origin_and_files_are_fetched_once() {
    let (server, elsewhere, user) = (Server::plain(), Server::plain(), User::new());
    server.require("Basic bWU6aHVudGVyMg==");
    server.body("/near.yaml", "near: 1\n");
    server.body("/query.yaml?token=hunter2", "query: 1\n");
    server.answer("/far.yaml", Answer::Redirect(format!("{}/there.yaml", elsewhere.url)));
    server.answer("/far.yaml?token=hunter2", Answer::Redirect(format!("{}/there.yaml", elsewhere.url)));
    server.answer("/round.yaml?token=hunter2", Answer::Redirect("/none.yaml?signature=hunter2".to_owned()));
    elsewhere.body("/there.yaml", "far: 1\n");
    let url = with_login(&server);
    let files = ["near.yaml", "near.yaml", "far.yaml", "query.yaml?token=hunter2&cache=false"];
    let said = values(&user, &files.map(|file| format!("{url}/{file}")), &[]);
    assert!(said.ok, "{}", said.err);
    for want in ["near: 1", "far: 1", "query: 1"] {
        assert!(said.out.contains(want), "{}", said.out);
    }
    let asked: Vec<String> = server.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(asked, ["/near.yaml", "/far.yaml", "/query.yaml?token=hunter2"]);
    let there = elsewhere.asked();
    assert!(there.len() == 1 && !there[0].headers.contains_key("authorization"), "{there:?}");
    // A secret in the query goes nowhere else, and is in no error.
    is_refused(&user, &format!("{url}/far.yaml?token=hunter2"), "far.yaml");
    is_refused(&user, &format!("{url}/round.yaml?token=hunter2"), "404");
    assert!(elsewhere.asked().is_empty());
}

#[test]
fn archives_are_unpacked_and_verified() {
    let (server, user) = (Server::plain(), User::new());
    let bytes = package(
        &[("app-1.0/values/a.yaml", "a: 1\n"), ("app-1.0/b.yaml", "b: 1\n")],
        &[("app-1.0/values/c.yaml", "../b.yaml")],
    );
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    server.body("/app.tgz", bytes.clone());
    server.body("/download", bytes.clone());
    server.body("/cut.tgz", &bytes[..bytes.len() / 2]);
    server.body("/SUMS", format!("{}  other.tgz\n{digest}  app.tgz\n", "0".repeat(64)));
    server.body("/escaping.tgz", package(&[], &[("values.yaml", "/etc/passwd")]));
    let url = &server.url;
    is_read(&user, &format!("http::{url}/app.tgz//app-*/values@a.yaml"), &[], "a: 1");
    is_read(&user, &format!("http::{url}/app.tgz@app-1.0/values/c.yaml"), &[], "b: 1");
    is_read(&user, &format!("http::{url}/app.tgz//app-1.0/b.yaml"), &[], "b: 1");
    is_read(&user, &format!("http::{url}/download//app-1.0@b.yaml?archive=tgz"), &[], "b: 1");
    is_read(&user, &format!("http::{url}/app.tgz//app-1.0@b.yaml?checksum=sha256:{digest}"), &[], "b: 1");
    is_read(&user, &format!("http::{url}/app.tgz//app-1.0@b.yaml?checksum=file:{url}/SUMS"), &[], "b: 1");
    let wrong = "0".repeat(64);
    is_refused(&user, &format!("http::{url}/app.tgz//app-1.0@b.yaml?checksum={wrong}"), "the checksum is");
    is_refused(
        &user,
        &format!("http::{url}/download@b.yaml?archive=tgz&checksum=file:{url}/SUMS"),
        "no checksum of download",
    );
    is_refused(&user, &format!("http::{url}/cut.tgz@b.yaml"), "the archive is damaged");
    is_refused(&user, &format!("http::{url}/escaping.tgz@values.yaml"), "leaves the directory");
    is_refused(&user, &format!("http::{url}/app.tgz@../../x"), "leaves what is fetched");
    is_refused(&user, &format!("http::{url}/SUMS@x"), "not an archive");
}

#[test]
fn objects_of_buckets_are_signed_for_their_servers_alone() {
    let (server, user) = (Server::plain(), User::new());
    server.body("/bucket/team/a.yaml", "a: 1\n");
    server.body("/bucket/team/a.yaml?versionId=v1", "a: 0\n");
    server.body("/bucket/app.tgz", package(&[("b.yaml", "b: 1\n")], &[]));
    let keys = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "hunter2"),
        ("AWS_ENDPOINT_URL", server.url.as_str()),
    ];
    let signed_by = |id: &str, region: &str| {
        let said = server.asked().remove(0).headers.remove("authorization").unwrap_or_default();
        assert!(
            said.contains(&format!("Credential={id}/")) && said.contains(&format!("/{region}/s3/")),
            "{said}"
        );
    };
    is_read(&user, "s3://bucket/team/a.yaml", &keys, "a: 1");
    signed_by("id", "us-east-1");
    is_read(&user, "s3://bucket/team/a.yaml?version=v1", &keys, "a: 0");
    signed_by("id", "us-east-1");
    is_read(&user, "s3::https://bucket.s3.eu-north-1.amazonaws.com/app.tgz@b.yaml", &keys, "b: 1");
    signed_by("id", "eu-north-1");
    // The environment's keys are not for a server that an address names.
    let named = format!("s3::{}/bucket/team/a.yaml", server.url);
    is_read(&user, &named, &keys, "a: 1");
    let headers = server.asked().remove(0).headers;
    assert!(
        !headers.contains_key("authorization") && !headers.contains_key("x-amz-security-token"),
        "{headers:?}"
    );
    let own = format!("{named}?region=r&aws_access_key_id=mine&aws_access_key_secret=hunter2");
    is_read(&user, &own, &keys, "a: 1");
    signed_by("mine", "r");
    let none = format!("s3::{}/bucket/none.yaml?aws_access_key_secret=hunter2", server.url);
    is_refused(&user, &format!("{none}&aws_access_key_id=mine"), "has no object");
    server.asked();
    is_refused(&user, &none, "aws_access_key_id is missing: set both");
    assert!(server.asked().is_empty());
    let google = [("STORAGE_EMULATOR_HOST", server.url.as_str()), ("GOOGLE_OAUTH_ACCESS_TOKEN", "token")];
    server.asked();
    is_read(&user, "gcs::https://www.googleapis.com/storage/v1/bucket/team/a.yaml", &google, "a: 1");
    assert_eq!(server.asked().remove(0).headers["authorization"], "Bearer token");
}

#[test]
fn repositories_by_http_are_asked_once() {
    let (server, user) = (Server::plain(), User::new());
    user.write("repository/a.yaml", "a: 1\n");
    user.write("repository/b.yaml", "b: 1\n");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@example.com"]).args(words);
        command.current_dir(user.path("repository")).env("HOME", user.path(""));
        assert!(command.output().unwrap().status.success(), "git {words:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "one"]);
    git(&["update-server-info"]);
    // As a plain web server has it.
    for file in user.files("repository/.git") {
        server.body(
            &format!("/r.git/{file}"),
            fs::read(user.path(&format!("repository/.git/{file}"))).unwrap(),
        );
    }
    let refs = fs::read(user.path("repository/.git/info/refs")).unwrap();
    server.body("/r.git/info/refs?service=git-upload-pack", refs);
    server.require("Basic bWU6aHVudGVyMg==");
    let count = |files: &[&str]| {
        let url = with_login(&server);
        let said =
            values(&user, &files.iter().map(|f| format!("git::{url}/r.git@{f}")).collect::<Vec<_>>(), &[]);
        assert!(said.ok && said.out.contains("a: 1"), "{}", said.err);
        server.asked().len()
    };
    assert_eq!(count(&["a.yaml"]), count(&["a.yaml", "b.yaml", "a.yaml?depth=1", "b.yaml?ref="]));
    is_refused(&user, &format!("git::{}/none.git@a.yaml?ref=x", with_login(&server)), "none.git");
}
