//! Servers that answer badly: a clear error each, and nothing left half-written.

use std::fs;

use super::repositories::repository;
use super::server::{Answer, Certificates, Server, babble, nobody};
use super::support::User;

#[test]
fn an_index_that_cannot_be_had_leaves_the_one_that_is_there() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    let url = format!("{}/charts", server.url);
    user.ok(&["repo", "add", "a", &url]);
    let before = user.files(".cache");
    let index = ".cache/helm/repository/a-index.yaml";
    let text = user.read(index);
    let half = text.as_bytes()[..text.len() / 2].to_vec();
    let cases = [
        (Answer::Status(404), "failed to fetch {url}/index.yaml : 404 Not Found"),
        (Answer::Status(500), "500 Internal Server Error"),
        (Answer::Truncated(half), "unexpected EOF"),
        (Answer::Slow, "context deadline exceeded while reading body"),
        (Answer::Body(b"<html>\n<body>no such page</body></html>\n".to_vec()), "cannot unmarshal"),
        (
            Answer::Body(b"apiVersion: v1\nentries:\n  a:\n  - {\n".to_vec()),
            "error converting YAML to JSON: yaml: ",
        ),
        (Answer::Body(b"entries: {}\n".to_vec()), "no API version specified"),
        (Answer::Body(Vec::new()), "empty index.yaml file"),
        (Answer::Redirect("index.yaml".to_owned()), "stopped after 10 redirects"),
        (Answer::Redirect("file:///etc/passwd".to_owned()), "unsupported protocol scheme \"file\""),
        (Answer::Redirect("ftp://h/x".to_owned()), "unsupported protocol scheme \"ftp\""),
    ];
    for (answer, want) in cases {
        server.answer("/charts/index.yaml", answer);
        let said = user.ours(&["repo", "update", "--timeout", "2s"]);
        let want = want.replace("{url}", &url);
        assert!(!said.ok && said.out.contains(&want), "{want}\n{}{}", said.out, said.err);
        assert!(
            said.err.contains(&format!("failed to update the following repositories: [{url}]")),
            "{}",
            said.err
        );
        assert_eq!(user.read(index), text);
        assert_eq!(user.files(".cache"), before, "{want}");
    }
}

#[test]
fn a_package_that_is_not_what_was_promised_is_not_kept() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    let url = format!("{}/charts", server.url);
    user.ok(&["repo", "add", "a", &url]);
    let before = user.files("");
    let package = fs::read(user.path("repository/web-1.10.0.tgz")).unwrap();
    let other = fs::read(user.path("repository/web-1.2.3.tgz")).unwrap();
    let cases = [
        (Answer::Body(other), "but sha256:"),
        (Answer::Truncated(package[..100].to_vec()), "unexpected EOF"),
        (Answer::Endless, "the answer is larger than 104857600 bytes"),
        (Answer::Status(403), "403 Forbidden"),
        (Answer::Redirect(nobody()), "refused"),
        (Answer::Redirect(babble()), "invalid HTTP version"),
    ];
    for (answer, want) in cases {
        server.answer("/charts/web-1.10.0.tgz", answer);
        for command in [&["pull", "a/web"][..], &["pull", "--untar", "a/web"], &["template", "a/web"]] {
            let error = user.fails(command);
            assert!(error.contains(want), "{want}: {error}");
            assert_eq!(user.files(""), before, "{want}");
        }
    }
    server.body("/charts/web-1.10.0.tgz", package);
    user.ok(&["pull", "a/web"]);
}

#[test]
fn a_certificate_that_has_expired_is_told() {
    let (server, user) = (Server::tls(Certificates::new(true), false), User::new());
    user.write("ca.pem", &server.certificates().authority);
    let error = user.fails(&["repo", "add", "a", &server.url, "--ca-file", "ca.pem"]);
    assert!(error.contains("x509: certificate has expired or is not yet valid"), "{error}");
    let error = user.fails(&["repo", "add", "a", &server.url.replace("https", "http")]);
    assert!(error.contains("is not a valid chart repository or cannot be reached"), "{error}");
    let plain = Server::plain();
    let error = user.fails(&["repo", "add", "a", &plain.url.replace("http", "https")]);
    assert!(error.contains("server gave HTTP response to HTTPS client"), "{error}");
}

#[test]
fn what_is_not_there_is_told_as_helm_tells_it() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    let url = format!("{}/charts", server.url);
    user.ok(&["repo", "add", "a", &url]);
    let cases: [&[&str]; 11] = [
        &["template", "web"],
        &["template", "nowhere/web"],
        &["template", "a/nothing"],
        &["template", "a/web", "--version", "9.x"],
        &["template", "a/web", "--version", "nonsense"],
        &["template", "nothing", "--repo", &url],
        &["template", "web", "--repo", &url, "--version", "9.9.9"],
        &["template", "web", "--repo", &format!("{}/none", server.url)],
        &["template", &format!("{url}/none.tgz")],
        &["template", "ftp://h/x.tgz"],
        &["pull", "a/web", "--version", "1.9"],
    ];
    for command in cases {
        let (theirs, own) = (user.helm(command), user.ours(command));
        assert!(!own.ok && !theirs.ok, "{command:?}\n{}{}", theirs.out, theirs.err);
        assert_eq!(own.err, theirs.err, "{command:?}");
    }
    user.ok(&["repo", "add", "stale", &url]);
    fs::remove_file(user.path(".cache/helm/repository/stale-index.yaml")).unwrap();
    let command = ["template", "stale/web"];
    assert_eq!(user.fails(&command), user.helm(&command).err);
}
