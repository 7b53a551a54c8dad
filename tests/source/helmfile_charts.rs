//! Charts of the releases of a helmfile, from a repository on loopback: locked, checked, linted, and copied for runs without it.

use std::fs;

use super::repositories::repository;
use super::server::{Answer, Server, nobody};
use super::support::{Said, User, chart};

/// A home with a helmfile, and the server of its repository, which wants a login.
struct Place {
    user: User,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let place = Self { user: User::new(), server: Server::plain() };
        repository(&place.user, &place.server);
        place.server.require("Basic bWU6aHVudGVyMg==");
        let file = format!(
            "repositories: [{{name: team, url: {}/charts, username: me, password: hunter2}}]\n\
             releases:\n\
             - {{name: web, namespace: a, chart: team/web, version: ^1.0}}\n\
             - {{name: again, namespace: b, chart: team/web, version: ^1.0}}\n\
             - {{name: db, chart: team/database, devel: true, values: [{{size: 2}}]}}\n\
             - {{name: near, chart: ./near}}\n\
             - {{name: raw, chart: ./raw}}\n",
            place.server.url
        );
        place.user.write("helmfile.yaml", &file);
        chart(&place.user.path("sub"), "sub", "0.1.0", "");
        let sub = "dependencies: [{name: sub, version: 0.1.0, repository: \"file://../sub\"}]\n";
        chart(&place.user.path("near"), "near", "1.0.0", sub);
        place.user.write("raw/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: raw}\n");
        place
    }

    fn ok(&self, words: &[&str]) -> String {
        self.user.ok(&[&["helmfile"], words].concat())
    }

    fn fails(&self, words: &[&str], told: &str) {
        let said: Said = self.user.ours(&[&["helmfile"], words].concat());
        assert!(
            !said.ok && said.err.contains(told) && !said.err.contains("hunter2"),
            "{words:?}\n{}",
            said.err
        );
    }
}

#[test]
fn versions_are_locked_with_the_digest_of_helm() {
    let place = Place::new();
    let (user, url) = (&place.user, format!("{}/charts", place.server.url));
    place.ok(&["deps"]);
    // Helm's lock of the chart that helmfile makes of the releases.
    let open = Server::plain();
    let of_helm = User::new();
    repository(&of_helm, &open);
    let wanted = |name: &str, version: &str, alias: &str| {
        format!(
            "- {{name: {name}, repository: \"{}/charts\", version: \"{version}\", alias: {alias}}}\n",
            open.url
        )
    };
    let all =
        [wanted("database", "*", "-db"), wanted("web", "^1.0", "a-web"), wanted("web", "^1.0", "b-again")];
    let file = format!("apiVersion: v2\nname: helmfile\nversion: 1.0.0\ndependencies:\n{}", all.concat());
    of_helm.write("made/Chart.yaml", &file);
    of_helm.helm_ok(&["dependency", "update", "made"]);
    of_helm.write(
        "helmfile.yaml",
        &user.read("helmfile.yaml").replace(&place.server.url, &open.url).replace("- {name: near", "# {"),
    );
    of_helm.write("raw/map.yaml", "a: 1\n");
    of_helm.ok(&["helmfile", "deps"]);
    let line =
        |text: &str, start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    let (theirs, ours) = (of_helm.read("made/Chart.lock"), of_helm.read("helmfile.lock"));
    assert_eq!(line(&ours, "digest: "), line(&theirs, "digest: "));

    let lock = user.read("helmfile.lock");
    let digest = line(&lock, "digest: sha256:");
    let generated = line(&lock, "generated: \"20");
    let row = |name: &str, version: &str| {
        format!("  - name: {name}\n    repository: {url}\n    version: {version}\n")
    };
    let expected = format!(
        "version: 1.8.0\ndependencies:\n{}{}{digest}\n{generated}\n",
        row("database", "0.3.0"),
        row("web", "1.10.0")
    );
    assert_eq!(lock, expected);
    assert!(user.path("near/charts/sub-0.1.0.tgz").exists());
    place.ok(&["deps"]);
    assert_eq!(user.read("helmfile.lock"), lock, "the time stays with the digest");

    // A lock holds releases until the next `deps`.
    user.write("helmfile.lock", &lock.replace("1.10.0", "1.2.3"));
    assert!(place.ok(&["list", "--output", "json"]).contains("\"chart\":\"team/web\",\"version\":\"1.2.3\""));
    place.ok(&["deps"]);
    assert_eq!(user.read("helmfile.lock"), lock);
    place.fails(
        &["-f", "git::https://127.0.0.1/x@helmfile.yaml", "deps"],
        "a lock file cannot be written there",
    );
    user.write("helmfile.yaml", "releases: [{name: raw, chart: ./raw}]\n");
    fs::remove_file(user.path("helmfile.lock")).unwrap();
    place.ok(&["deps"]);
    assert!(!user.path("helmfile.lock").exists());
}

#[test]
fn repositories_and_registries_are_asked_with_their_logins() {
    let place = Place::new();
    let (user, file) = (&place.user, place.user.read("helmfile.yaml"));
    assert_eq!(place.ok(&["repos"]), "repository \"team\" is reachable\n");
    assert!(!user.path(".config/helm/repositories.yaml").exists());
    user.write("helmfile.yaml", &file.replace("me, password", "you, password"));
    place.fails(&["repos"], "repository \"team\": ");
    user.write("helmfile.yaml", &file.replace(&place.server.url, &nobody()));
    place.fails(&["repos"], "repository \"team\": ");
    let host = place.server.url.trim_start_matches("http://");
    let registry = |login: &str| {
        format!(
            "repositories: [{{name: reg, url: {host}/charts, oci: true, plainHttp: true{login}}}]\nreleases: [{{name: raw, chart: ./raw}}]\n"
        )
    };
    place.server.body("/v2/", "");
    user.write("helmfile.yaml", &registry(", username: me, password: hunter2"));
    assert_eq!(place.ok(&["repos"]), "repository \"reg\" is reachable\n");
    user.write("helmfile.yaml", &registry(""));
    place.fails(&["repos"], "repository \"reg\": ");
}

#[test]
fn charts_are_linted_with_the_values_of_their_releases() {
    let place = Place::new();
    // All are linted before the run fails: the charts of the repository have a bad file below crds.
    let said = place.user.ours(&["helmfile", "lint"]);
    for name in ["team/web", "team/database", "near", "raw"] {
        assert!(said.out.contains(&format!("==> Linting {name}\n")), "{}", said.out);
    }
    assert!(!said.ok && said.err.contains("5 chart(s) linted, 4 chart(s) failed: web, again, db, near"));
    place.user.write("own/Chart.yaml", "apiVersion: v2\nname: own\nversion: 1.0.0\n");
    place.user.write("own/values.schema.json", "{\"required\": [\"size\"]}");
    place.user.write("own/templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\n");
    place.user.write("helmfile.yaml", "releases: [{name: own, chart: ./own}, {name: raw, chart: ./raw}]\n");
    place.fails(&["lint"], "2 chart(s) linted, 1 chart(s) failed: own");
    assert!(place.ok(&["lint", "--set", "size=1"]).contains("1 chart(s) linted, 0 chart(s) failed"));
    place.ok(&["lint", "--args", "--set size=1"]);
    place.fails(&["lint", "--args", "--nope"], "args: --nope is not supported");
}

#[test]
fn fetched_charts_stand_in_for_their_repository() {
    let place = Place::new();
    let user = &place.user;
    let expected = place.ok(&["template"]);
    let state = place.ok(&["fetch", "--output-dir", "out", "--write-output"]);
    let files = user.files("out");
    for file in [
        "a/web/team/web/^1.0/web/Chart.yaml",
        "b/again/team/web/^1.0/web/templates/all.yaml",
        "db/team/database/latest/database/values.yaml",
        "near/near/latest/charts/sub-0.1.0.tgz",
        "raw/raw/latest/map.yaml",
    ] {
        assert!(files.iter().any(|found| found == file), "{file}: {files:?}");
    }
    user.write("offline.yaml", &state);
    place.server.answer_all(Answer::Status(500));
    place.server.guard(|_| false);
    // Manifests are a chart with the name of their directory.
    let offline = place.ok(&["-f", "offline.yaml", "template"]).replace("latest/templates", "raw/templates");
    assert_eq!(offline, expected);
    place.fails(&["fetch", "--write-output"], "--output-dir is required");
    let template = [
        "fetch",
        "--output-dir",
        "out",
        "--output-dir-template",
        "{{ .OutputDir }}/../x/{{ .Release.Name }}",
    ];
    place.fails(&[&["-l", "name=near"], &template[..]].concat(), "is not below ");
    // What is there is replaced.
    user.write("out/raw/raw/latest/old.yaml", "a: 1\n");
    place.ok(&["-l", "name=raw", "fetch", "--output-dir", "out"]);
    assert!(!user.path("out/raw/raw/latest/old.yaml").exists());
    user.write("two.yaml", "helmfiles: [offline.yaml]\nreleases: [{name: raw, chart: ./raw}]\n");
    place.fails(&["-f", "two.yaml", "fetch", "--output-dir", "out", "--write-output"], "there are several");
    assert!(place.ok(&["cache", "info"]).contains(".cache/helm/content"));
    assert_eq!(place.ok(&["cache", "cleanup"]), "");
    assert!(place.ok(&["init"]).contains("not needed"));
}
