//! Repositories with a name: what Helm wrote we read, what we write Helm reads.

use std::fs;

use super::server::{Certificates, Server};
use super::support::{User, chart};

/// A repository with charts in three versions, one of them not yet done.
pub(crate) fn repository(user: &User, server: &Server) {
    let dir = user.path("repository");
    for (name, version) in [("web", "1.2.3"), ("web", "1.10.0"), ("web", "2.0.0-rc.1"), ("database", "0.3.0")]
    {
        let source = user.path(&format!("charts/{name}-{version}"));
        chart(&source, name, version, "");
        user.helm_ok(&["package", source.to_str().unwrap(), "-d", dir.to_str().unwrap()]);
    }
    user.helm_ok(&["repo", "index", dir.to_str().unwrap()]);
    serve(user, server);
}

/// Serves what lies in `repository` at `/charts`.
pub(crate) fn serve(user: &User, server: &Server) {
    let files = fs::read_dir(user.path("repository")).unwrap().map(Result::unwrap);
    for file in files.filter(|f| f.path().is_file()) {
        let name = file.file_name().into_string().unwrap();
        server.body(&format!("/charts/{name}"), fs::read(file.path()).unwrap());
    }
}

#[test]
fn verbs_say_what_helms_say_and_leave_what_helms_leave() {
    let (server, helm, ours) = (Server::plain(), User::new(), User::new());
    repository(&helm, &server);
    let url = format!("{}/charts", server.url);
    let commands: [&[&str]; 26] = [
        &["repo", "list"],
        &["repo", "update"],
        &["repo", "remove", "a"],
        &["search", "repo"],
        &["repo", "add", "a/b", &url],
        &["repo", "add", "a", &url],
        &["repo", "add", "a", &url],
        &["repo", "add", "a", &url, "--pass-credentials"],
        &["repo", "add", "b", &url, "--username", "me", "--password", "secret"],
        &["repo", "list"],
        &["repo", "list", "--no-headers"],
        &["repo", "list", "-o", "json"],
        &["repo", "list", "-o", "yaml"],
        &["repo", "update", "a"],
        &["repo", "update", "a", "nowhere"],
        &["search", "repo"],
        &["search", "repo", "a chart of web"],
        &["search", "repo", "databaseish", "-o", "json"],
        &["search", "repo", "web", "--devel", "-l"],
        &["search", "repo", "-r", "^da.*e", "-o", "yaml"],
        &["search", "repo", "web", "--version", "^1.0", "--max-col-width", "9"],
        &["search", "repo", "nothing"],
        &["search", "repo", "nothing", "--fail-on-no-result"],
        &["repo", "remove", "b"],
        &["repo", "remove", "b"],
        &["repo", "list"],
    ];
    for command in commands {
        let (theirs, own) = (helm.helm(command), ours.ours(command));
        assert_eq!((own.ok, own.out), (theirs.ok, theirs.out), "{command:?}\n{}", own.err);
        assert_eq!(own.err, theirs.err, "{command:?}");
    }
    let file = ".config/helm/repositories.yaml";
    assert_eq!(ours.read(file), helm.read(file));
    let index = ".cache/helm/repository/a-index.yaml";
    assert_eq!(ours.read(index), helm.read(index));
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let charts = ".cache/helm/repository/a-charts.txt";
    assert_eq!(sorted(ours.read(charts)), sorted(helm.read(charts)));
}

#[test]
fn each_reads_what_the_other_wrote() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    let url = format!("{}/charts", server.url);
    user.ok(&["repo", "add", "ours", &url]);
    user.helm_ok(&["repo", "add", "theirs", &url]);
    assert_eq!(user.ok(&["search", "repo"]), user.helm_ok(&["search", "repo"]));
    for reference in ["ours/web", "theirs/web"] {
        let args = ["template", "x", reference];
        assert_eq!(user.ok(&args), user.helm_ok(&args));
    }
    // What one has fetched the other finds in the cache.
    server.asked();
    user.helm_ok(&["show", "chart", "ours/database"]);
    assert_eq!(server.asked().len(), 1);
    user.ok(&["show", "chart", "ours/database"]);
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn an_index_is_sent_once() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    user.ok(&["repo", "add", "a", &format!("{}/charts", server.url)]);
    server.asked();
    user.ok(&["repo", "update"]);
    let asked = server.asked();
    assert_eq!(asked[0].path, "/charts/index.yaml");
    assert!(asked[0].headers.contains_key("if-none-match"), "{asked:?}");
    // Once Helm has written another index, ours is not what the tag is about.
    user.write(".cache/helm/repository/a-index.yaml", "apiVersion: v1\nentries: {}\n");
    user.ok(&["repo", "update"]);
    assert!(!server.asked()[0].headers.contains_key("if-none-match"));
    assert!(user.read(".cache/helm/repository/a-index.yaml").contains("database"));
    user.ok(&["repo", "remove", "a"]);
    assert_eq!(user.files(".cache/helm/repository"), Vec::<String>::new());
}

#[test]
fn credentials_go_to_the_repository_and_nowhere_else() {
    let (server, elsewhere, user) = (Server::plain(), Server::plain(), User::new());
    repository(&user, &server);
    let package = fs::read(user.path("repository/web-1.10.0.tgz")).unwrap();
    elsewhere.body("/web-1.10.0.tgz", package);
    server.answer(
        "/charts/web-1.10.0.tgz",
        super::server::Answer::Redirect(format!("{}/web-1.10.0.tgz", elsewhere.url)),
    );
    server.require("Basic bWU6c2VjcmV0");
    let url = format!("{}/charts", server.url);
    let error = user.fails(&["repo", "add", "a", &url]);
    assert!(
        error.contains("cannot be reached: failed to fetch") && error.contains("401 Unauthorized"),
        "{error}"
    );
    user.ok(&["repo", "add", "a", &url, "--username", "me", "--password", "secret"]);
    user.ok(&["pull", "a/web"]);
    assert!(server.asked().iter().skip(1).all(|a| a.headers.contains_key("authorization")));
    assert!(elsewhere.asked().iter().all(|a| !a.headers.contains_key("authorization")));
    // The same with flags alone, and with the user in the URL.
    let login = ["--username", "me", "--password", "secret"];
    user.ok(&[&["pull", "web", "--repo", &url][..], &login].concat());
    user.ok(&[
        "show",
        "chart",
        &format!("{url}/database-0.3.0.tgz"),
        "--username",
        "me",
        "--password",
        "secret",
    ]);
    user.ok(&["pull", "web", "--repo", &url.replace("http://", "http://me:secret@")]);
    assert!(elsewhere.asked().iter().all(|a| !a.headers.contains_key("authorization")));
    // Nor does --pass-credentials mean where redirects lead.
    fs::remove_dir_all(user.path(".cache/helm/content")).unwrap();
    user.ok(&[&["pull", "web", "--repo", &url, "--pass-credentials"][..], &login].concat());
    let asked = elsewhere.asked();
    assert!(asked.len() == 1 && !asked[0].headers.contains_key("authorization"), "{asked:?}");
    assert!(!user.read(".cache/helm/repository/a-index.yaml").contains("secret"));
}

#[test]
fn certificates_are_checked_as_the_flags_say() {
    let (server, user) = (Server::tls(Certificates::new(false), true), User::new());
    repository(&user, &server);
    let certificates = server.certificates();
    user.write("ca.pem", &certificates.authority);
    user.write("client.pem", &certificates.client.0);
    user.write("client.key", &certificates.client.1);
    let url = format!("{}/charts", server.url);
    let error = user.fails(&["repo", "add", "a", &url]);
    assert!(error.contains("x509: certificate signed by unknown authority"), "{error}");
    let client = ["--cert-file", "client.pem", "--key-file", "client.key"];
    let error = user.fails(&["repo", "add", "a", &url, "--ca-file", "client.key"]);
    assert!(error.contains("can't create TLS config for client"), "{error}");
    // The server wants to see a certificate, too.
    assert!(!user.ours(&["repo", "add", "a", &url, "--ca-file", "ca.pem"]).ok);
    user.ok(&[&["repo", "add", "a", &url, "--ca-file", "ca.pem"][..], &client].concat());
    user.ok(&["pull", "a/web"]);
    user.helm_ok(&["pull", "a/database"]);
    user.ok(&[&["repo", "add", "b", &url, "--insecure-skip-tls-verify"][..], &client].concat());
    user.ok(&[&["template", "web", "--repo", &url, "--ca-file", "ca.pem"][..], &client].concat());
}

#[test]
fn processes_that_add_at_once_do_not_lose_each_others_repositories() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    let url = format!("{}/charts", server.url);
    let names: Vec<String> = (0..8).map(|n| format!("r{n}")).collect();
    std::thread::scope(|s| {
        for name in &names {
            s.spawn(|| user.ok(&["repo", "add", name, &url]));
        }
    });
    for name in &names {
        assert!(user.read(".config/helm/repositories.yaml").contains(&format!("name: {name}\n")), "{name}");
    }
}

#[test]
fn offline_serves_what_is_there() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    user.ok(&["repo", "add", "a", &format!("{}/charts", server.url)]);
    user.ok(&["show", "chart", "a/web"]);
    server.asked();
    user.ok(&["show", "chart", "a/web", "--offline"]);
    let error = user.fails(&["show", "chart", "a/database", "--offline"]);
    assert!(error.contains("database-0.3.0.tgz is not in the cache, and offline mode forbids"), "{error}");
    assert_eq!(server.asked().len(), 0);
}
