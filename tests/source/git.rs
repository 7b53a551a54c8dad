//! Charts in Git repositories: over HTTP, over ssh as the user's own program does it, and from disk.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::server::Server;
use super::support::{User, chart};
use windlass_testing::write_file;

pub(crate) fn git(directory: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(directory).args(args).stdin(Stdio::null()).env("HOME", directory);
    for (key, value) in [("NAME", "me"), ("EMAIL", "me@example.test")] {
        command.env(format!("GIT_AUTHOR_{key}"), value).env(format!("GIT_COMMITTER_{key}"), value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A bare repository with a chart at two tags and on a branch; the first commit.
pub(crate) fn repository(user: &User) -> String {
    let work = user.path("work");
    chart(&work.join("charts/web"), "web", "1.0.0", "");
    git(&work, &["init", "-q", "-b", "main"]);
    let commit = |message: &str| {
        git(&work, &["add", "-A"]);
        git(&work, &["commit", "-q", "-m", message]);
        git(&work, &["rev-parse", "HEAD"])
    };
    let first = commit("one");
    git(&work, &["tag", "v1.0.0"]);
    write_file(work.join("charts/web/values.yaml"), "size: 2\n");
    commit("two");
    git(&work, &["tag", "-a", "v1.1.0", "-m", "two"]);
    git(&work, &["checkout", "-q", "-b", "next"]);
    write_file(work.join("charts/web/values.yaml"), "size: 3\n");
    std::os::unix::fs::symlink("/etc/passwd", work.join("charts/web/files")).unwrap();
    commit("three");
    git(&work, &["checkout", "-q", "main"]);
    git(&user.path(""), &["clone", "-q", "--bare", "work", "repo.git"]);
    git(&user.path("repo.git"), &["update-server-info"]);
    first
}

/// Which size the chart of a reference has.
pub(crate) fn size(user: &User, reference: &str) -> String {
    let text = user.ok(&["show", "values", reference]);
    text.lines().find_map(|l| l.strip_prefix("size: ")).unwrap().to_owned()
}

#[test]
fn commits_are_found_by_every_name() {
    let user = User::new();
    let first = repository(&user);
    let base = format!("git+file://{}//charts/web", user.path("repo.git").display());
    for (query, want) in [
        (String::new(), "2"),
        ("?ref=v1.0.0".to_owned(), "1"),
        ("?ref=next".to_owned(), "3"),
        ("?branch=main".to_owned(), "2"),
        ("?tag=v1.1.0".to_owned(), "2"),
        ("?semver=~1.0".to_owned(), "1"),
        ("?semver=%5E1".to_owned(), "2"),
        (format!("?commit={first}"), "1"),
        (format!("?ref={first}"), "1"),
    ] {
        assert_eq!(size(&user, &format!("{base}{query}")), want, "{query}");
    }
    // A link is a file that holds where it points to.
    user.ok(&["pull", &format!("{base}?ref=next"), "--untar"]);
    assert_eq!(user.read("web/files"), "/etc/passwd");
    for (reference, want) in [
        (format!("{base}?ref=nowhere"), "has no branch, tag or commit nowhere"),
        (format!("{base}?semver=9.x"), "has no tag in 9.x"),
        (format!("{base}x"), "has no directory \"charts/webx\""),
        (base.replace("//charts/web", ""), "Chart.yaml file is missing"),
        (base.replace("repo.git", "none.git"), "git ls-remote file:///"),
    ] {
        let error = user.fails(&["show", "values", &reference]);
        assert!(error.contains(want), "{want}: {error}");
    }
    let error = user.fails(&["show", "values", &base, "--offline"]);
    assert!(error.contains("offline mode forbids"), "{error}");
}

#[test]
fn repositories_are_fetched_over_http_and_ssh() {
    let (server, user) = (Server::plain(), User::new());
    let first = repository(&user);
    let serve = |user: &User| {
        for name in user.files("repo.git") {
            server.body(
                &format!("/repo.git/{name}"),
                fs::read(user.path(&format!("repo.git/{name}"))).unwrap(),
            );
        }
    };
    serve(&user);
    // As `git` asks smart servers; ours is none.
    let refs = fs::read(user.path("repo.git/info/refs")).unwrap();
    server.body("/repo.git/info/refs?service=git-upload-pack", refs);
    server.require("Basic bWU6c2VjcmV0");
    let reference = |rest: &str| format!("git+{}/repo.git//charts/web{rest}", server.url);
    let error = user.fails(&["show", "values", &reference("")]);
    assert!(error.contains("git ls-remote http://"), "{error}");
    let login = reference("?tag=v1.0.0").replace("http://", "http://me:secret@");
    assert_eq!(size(&user, &login), "1");
    let flags = user.ok(&[
        "show",
        "values",
        &reference(&format!("?commit={first}")),
        "--username",
        "me",
        "--password",
        "secret",
    ]);
    assert!(flags.contains("size: 1"), "{flags}");
    // What was fetched once is not fetched again: only the refs are asked for.
    server.asked();
    assert_eq!(size(&user, &login), "1");
    assert!(server.asked().iter().all(|a| !a.path.contains("objects")));
    // ssh is the user's own program: here one that runs what it is told on this machine.
    user.write("ssh", "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n");
    fs::set_permissions(user.path("ssh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let name = format!("git+ssh://git@example.test{}//charts/web?ref=next", user.path("repo.git").display());
    let mut command = user.command(Path::new(env!("CARGO_BIN_EXE_windlass")), &["show", "values", &name]);
    let output = command.env("GIT_SSH_COMMAND", user.path("ssh")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("size: 3"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
