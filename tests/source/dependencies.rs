//! Umbrella charts: what Helm resolves, locks and fetches.

use std::fs;

use super::repositories::repository;
use super::server::{Answer, Server};
use super::support::{User, chart, package};
use windlass_testing::write_file;

/// An umbrella chart with dependencies of every kind that needs no registry.
fn umbrella(user: &User, place: &str, url: &str) {
    let dependencies = format!(
        "dependencies:\n- {{name: web, version: ^1, repository: \"{url}\"}}\n\
         - {{name: web, version: ~1.2, repository: \"@a\", alias: old, import-values: [{{child: a, parent: b}}, data]}}\n\
         - {{name: database, version: \">=0.1.0 <1\", repository: \"alias:a\", condition: database.on, tags: [x, y]}}\n\
         - {{name: near, version: 0.x, repository: \"file://../near\"}}\n- {{name: inner, version: 1.0.0, repository: \"\"}}\n"
    );
    chart(&user.path(&format!("{place}/umbrella")), "umbrella", "1.0.0", &dependencies);
    chart(&user.path(&format!("{place}/umbrella/charts/inner")), "inner", "1.0.0", "");
    chart(&user.path(&format!("{place}/near")), "near", "0.4.0", "");
}

/// A lock file without the time at which it was made.
fn lock(user: &User, place: &str) -> String {
    let text = user.read(&format!("{place}/umbrella/Chart.lock"));
    text.lines().filter(|l| !l.starts_with("generated: ")).collect::<Vec<_>>().join("\n")
}

fn prepared() -> (Server, User, String) {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    let url = format!("{}/charts", server.url);
    user.ok(&["repo", "add", "a", &url]);
    for place in ["theirs", "ours"] {
        umbrella(&user, place, &url);
    }
    (server, user, url)
}

#[test]
fn what_is_updated_is_what_helm_updates() {
    let (_server, user, _) = prepared();
    let list = |place: &str| {
        let args = ["dependency", "list", &format!("{place}/umbrella")];
        let (ours, theirs) = (user.ok(&args), user.helm_ok(&args));
        assert_eq!(ours, theirs, "{place}");
    };
    list("theirs");
    let theirs = user.helm_ok(&["dependency", "update", "theirs/umbrella"]);
    assert_eq!(user.ok(&["dependency", "update", "ours/umbrella"]), theirs);
    assert_eq!(lock(&user, "ours"), lock(&user, "theirs"));
    assert_eq!(user.files("ours/umbrella"), user.files("theirs/umbrella"));
    let read =
        |place: &str, name: &str| fs::read(user.path(&format!("{place}/umbrella/charts/{name}"))).unwrap();
    for name in ["web-1.10.0.tgz", "web-1.2.3.tgz", "database-0.3.0.tgz"] {
        assert!(read("ours", name) == read("theirs", name), "{name}");
    }
    let near = |place: &str| package(&user.path(&format!("{place}/umbrella/charts/near-0.4.0.tgz")));
    assert_eq!(near("ours"), near("theirs"));
    list("ours");
    // Nothing changed, so that the lock file stays, time and all.
    let before = user.read("ours/umbrella/Chart.lock");
    user.ok(&["dependency", "update", "ours/umbrella"]);
    assert_eq!(user.read("ours/umbrella/Chart.lock"), before);
    // Packages that are no longer wanted go; what is local stays.
    fs::copy(
        user.path("repository/web-2.0.0-rc.1.tgz"),
        user.path("ours/umbrella/charts/web-2.0.0-rc.1.tgz"),
    )
    .unwrap();
    list("ours");
    let said = user.ok(&["dependency", "update", "--skip-refresh", "ours/umbrella"]);
    assert!(!said.contains("Hang tight"), "{said}");
    let files = user.files("ours/umbrella/charts");
    assert!(!files.contains(&"web-2.0.0-rc.1.tgz".to_owned()), "{files:?}");
    assert!(files.contains(&"inner/Chart.yaml".to_owned()), "{files:?}");
}

#[test]
fn each_builds_from_the_lock_of_the_other() {
    let (_server, user, _) = prepared();
    user.helm_ok(&["dependency", "update", "theirs/umbrella"]);
    user.ok(&["dependency", "update", "ours/umbrella"]);
    let forget = |place: &str| {
        for name in user.files(&format!("{place}/umbrella/charts")).iter().filter(|f| f.ends_with(".tgz")) {
            fs::remove_file(user.path(&format!("{place}/umbrella/charts/{name}"))).unwrap();
        }
    };
    forget("theirs");
    forget("ours");
    assert_eq!(
        user.ok(&["dependency", "build", "theirs/umbrella"]),
        user.helm_ok(&["dependency", "build", "ours/umbrella"])
    );
    assert_eq!(user.files("theirs/umbrella"), user.files("ours/umbrella"));
    // Once Chart.yaml says something else, neither does.
    let text = user.read("ours/umbrella/Chart.yaml").replace("version: ^1,", "version: ^1.1,");
    user.write("ours/umbrella/Chart.yaml", &text);
    let args = ["dependency", "build", "ours/umbrella"];
    assert_eq!(user.fails(&args), user.helm(&args).err);
}

#[test]
fn a_failure_leaves_charts_and_lock_as_they_were() {
    let (server, user, url) = prepared();
    user.ok(&["dependency", "update", "ours/umbrella"]);
    let before = user.files("ours");
    let lock = user.read("ours/umbrella/Chart.lock");
    let text = user.read("ours/umbrella/Chart.yaml");
    let cases = [
        ("version: ^1,", "version: ^9,", "can't get a valid version for 1 subchart(s): \"web\""),
        ("version: ^1,", "version: nonsense,", "dependency \"web\" has an invalid version/constraint format"),
        ("name: database", "name: nothing", "nothing chart not found in repo"),
        ("\"@a\"", "\"@b\"", "no repository definition for @b. Please add them via 'helm repo add'"),
        ("\"@a\"", "\"b\"", "Note that repositories must be URLs or aliases"),
        ("file://../near", "file://../gone", "gone not found"),
        ("version: 0.x", "version: 1.x", "can't get a valid version for 1 subchart(s): \"near\""),
        (
            "name: inner, version: 1.0.0",
            "name: inner, version: 2.0.0",
            "inner at version 1.0.0 does not satisfy the constraint 2.0.0",
        ),
    ];
    for (from, to, want) in cases {
        user.write("ours/umbrella/Chart.yaml", &text.replacen(from, to, 1));
        let args = ["dependency", "update", "ours/umbrella"];
        let (own, theirs) = (user.fails(&args), user.helm(&args));
        assert!(own.contains(want) && !theirs.ok, "{want}: {own}");
        assert_eq!(own, theirs.err, "{to}");
        assert_eq!(user.files("ours"), before, "{to}");
        assert_eq!(user.read("ours/umbrella/Chart.lock"), lock);
    }
    user.write("ours/umbrella/Chart.yaml", &text);
    fs::remove_dir_all(user.path(".cache/helm/content")).unwrap();
    server.answer("/charts/database-0.3.0.tgz", Answer::Truncated(vec![0x1f, 0x8b]));
    let error = user.fails(&["dependency", "update", "ours/umbrella"]);
    assert!(error.contains(&format!("could not download {url}/database-0.3.0.tgz: Get")), "{error}");
    assert_eq!(user.files("ours"), before);
}

#[test]
fn repositories_without_a_name_and_old_charts_work_as_with_helm() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    let url = format!("{}/charts", server.url);
    for place in ["theirs", "ours"] {
        let root = user.path(&format!("{place}/umbrella"));
        chart(&root, "umbrella", "1.0.0", "");
        let text = fs::read_to_string(root.join("Chart.yaml")).unwrap().replace("v2", "v1");
        write_file(root.join("Chart.yaml"), &text);
        write_file(
            root.join("requirements.yaml"),
            format!("dependencies:\n- name: web\n  version: \"*\"\n  repository: {url}/\n"),
        );
    }
    let theirs = user.helm_ok(&["dependency", "update", "theirs/umbrella"]);
    assert_eq!(user.ok(&["dependency", "update", "ours/umbrella"]), theirs);
    let digest = |place: &str| {
        let text = user.read(&format!("{place}/umbrella/requirements.lock"));
        text.lines().find(|l| l.starts_with("digest: ")).unwrap().to_owned()
    };
    assert_eq!(digest("ours"), digest("theirs"));
    assert_eq!(user.files("ours"), user.files("theirs"));
    // A lock file wants its repositories to have names.
    let args = ["dependency", "build", "ours/umbrella"];
    assert_eq!(user.fails(&args), user.helm(&args).err.replace("WARNING: ", ""));
}

#[test]
fn what_is_missing_is_fetched_on_the_way() {
    let (_server, user, _) = prepared();
    let error = user.fails(&["template", "x", "ours/umbrella"]);
    assert!(error.contains("found in Chart.yaml, but missing in charts/ directory: web"), "{error}");
    let ours = user.ours(&["template", "x", "ours/umbrella", "--dependency-update"]);
    let theirs = user.helm(&["template", "x", "theirs/umbrella", "--dependency-update"]);
    assert_eq!((ours.ok, ours.out), (theirs.ok, theirs.out), "{}", ours.err);
    fs::remove_file(user.path("ours/umbrella/charts/database-0.3.0.tgz")).unwrap();
    user.ok(&["package", "-u", "ours/umbrella"]);
    assert!(user.path("umbrella-1.0.0.tgz").exists());
}
