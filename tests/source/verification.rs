//! Flags that demand a signature: where there can be none, the command fails, and nothing is rendered, saved or fetched in silence.

use std::collections::BTreeSet;
use std::fs;

use super::git;
use super::registries::Registry;
use super::repositories::serve;
use super::server::Server;
use super::support::{User, chart};

/// Every command that takes a chart and these flags.
const COMMANDS: [&[&str]; 14] = [
    &["template", "x"],
    &["install", "x"],
    &["install", "x", "--dependency-update"],
    &["upgrade", "x"],
    &["upgrade", "--install", "x"],
    &["plan", "x"],
    &["pull"],
    &["crd"],
    &["rbac"],
    &["init", "operator"],
    &["show", "chart"],
    &["show", "all"],
    &["show", "values"],
    &["values", "explain", "x"],
];

/// The words of a command with a chart and flags.
fn words<'w>(command: &[&'w str], reference: &'w str, flags: &[&'w str]) -> Vec<&'w str> {
    let directory: &[&str] = if command[0] == "init" { &["new"] } else { &[] };
    [command, &[reference], directory, flags].concat()
}

/// A directory, a package, and a package of a repository and of Git: none of them signed.
fn unsigned(user: &User, server: &Server) -> [String; 4] {
    git::repository(user);
    chart(&user.path("web"), "web", "1.2.3", "");
    user.ok(&["package", "web", "-d", "repository"]);
    user.ok(&["repo", "index", "repository"]);
    fs::copy(user.path("repository/web-1.2.3.tgz"), user.path("web-1.2.3.tgz")).unwrap();
    serve(user, server);
    user.ok(&["repo", "add", "a", &format!("{}/charts", server.url)]);
    [
        "./web".to_owned(),
        "./web-1.2.3.tgz".to_owned(),
        "a/web".to_owned(),
        format!("git+file://{}//charts/web", user.path("repo.git").display()),
    ]
}

/// The commands below one whose help tells of a flag.
fn commands_with(user: &User, above: &[String], flag: &str, found: &mut BTreeSet<String>) {
    let args: Vec<&str> = above.iter().map(String::as_str).chain(["--help"]).collect();
    let help = user.ok(&args);
    if help.lines().any(|l| l.split_whitespace().any(|w| w == flag)) {
        found.insert(above.join(" "));
    }
    let below = help.split("Commands:\n").nth(1).and_then(|l| l.split("\n\n").next()).unwrap_or_default();
    for name in below.lines().filter_map(|l| l.strip_prefix("  ")?.split(' ').next()) {
        if !name.is_empty() && name != "help" {
            commands_with(user, &[above, &[name.to_owned()]].concat(), flag, found);
        }
    }
}

#[test]
fn every_command_with_such_flags_is_known_here() {
    let user = User::new();
    let names = |flag| {
        let mut found = BTreeSet::new();
        commands_with(&user, &[], flag, &mut found);
        found
    };
    let charts = [
        "crd",
        "init operator",
        "install",
        "plan",
        "pull",
        "rbac",
        "show all",
        "show chart",
        "show crds",
        "show readme",
        "show values",
        "template",
        "upgrade",
        "values explain",
    ];
    let charts: BTreeSet<String> = charts.map(str::to_owned).into();
    assert_eq!(names("--cosign-key"), charts);
    assert_eq!(names("--cosign-identity"), charts);
    let more = ["dependency build", "dependency update"].map(str::to_owned);
    assert_eq!(names("--verify"), &charts | &more.into());
}

#[test]
fn cosign_is_refused_where_no_registry_is() {
    let (server, user) = (Server::plain(), User::new());
    let mut references = unsigned(&user, &server).to_vec();
    references.push(format!("{}/charts/web-1.2.3.tgz", server.url));
    let before = user.files("");
    let flags: [&[&str]; 2] = [
        &["--cosign-key", "any.pub"],
        &["--cosign-identity", "me@example.test", "--cosign-issuer", "https://tokens.example.test"],
    ];
    for command in COMMANDS {
        for reference in &references {
            if command[0] == "pull" && reference.starts_with('.') {
                continue;
            }
            for flags in flags {
                let error = user.fails(&words(command, reference, flags));
                let want = format!("{reference}: only charts in registries (oci://) have cosign signatures");
                assert!(error.contains(&want), "{command:?} {reference}: {error}");
            }
        }
    }
    let by_repository = ["template", "x", "web", "--repo", &format!("{}/charts", server.url)];
    let error = user.fails(&[&by_repository[..], flags[0]].concat());
    assert!(error.contains("web: only charts in registries"), "{error}");
    assert_eq!(user.files(""), before);
    let wrong: [(&[&str], &str); 5] = [
        (&["--cosign-identity", "x"], "--cosign-identity needs --cosign-issuer"),
        (&["--cosign-issuer-regexp", "x"], "--cosign-issuer needs --cosign-identity"),
        (&["--cosign-trusted-root", "x"], "--cosign-trusted-root needs --cosign-key or --cosign-identity"),
        (&["--cosign-key", "x", "--cosign-issuer", "x"], "cannot be used with"),
        (&["--cosign-identity", "x", "--cosign-identity-regexp", "x"], "cannot be used with"),
    ];
    for (flags, want) in wrong {
        let error = user.fails(&[&["template", "x", "./web"], flags].concat());
        assert!(error.contains(want), "{flags:?}: {error}");
    }
}

#[test]
fn verify_fails_where_no_provenance_file_is() {
    let (server, user) = (Server::plain(), User::new());
    let [directory, package, repository, git] = unsigned(&user, &server);
    user.write("pubring.gpg", "");
    for command in COMMANDS {
        for (reference, want) in [
            (&directory, "unpacked charts cannot be verified"),
            (&package, "could not load provenance file"),
            (&repository, "failed to fetch provenance"),
            (&git, "charts of Git have no provenance file"),
        ] {
            if command[0] == "pull" && reference.starts_with('.') {
                continue;
            }
            let verify = ["--verify", "--keyring", "pubring.gpg"];
            let error = user.fails(&words(command, reference, &verify));
            assert!(error.contains(want), "{command:?} {reference}: {error}");
        }
    }
    // A chart directory fails in Helm's words, also where its dependencies are to be fetched first.
    for flags in [&["--verify"][..], &["--verify", "--dependency-update"]] {
        let args = [&["template", "x", directory.as_str()], flags].concat();
        let (own, theirs) = (user.ours(&args), user.helm(&args));
        assert!(!own.ok && !theirs.ok);
        assert_eq!(own.err, theirs.err);
    }
}

#[test]
fn dependencies_that_nobody_signed_are_refused() {
    let (server, user) = (Server::plain(), User::new());
    let registry = Registry::start(false);
    unsigned(&user, &server);
    let oci = format!("oci://{}/charts", registry.host);
    user.ok(&["push", "web-1.2.3.tgz", &oci, "--plain-http"]);
    user.write("pubring.gpg", "");
    for (name, repository, want) in [
        ("directory", "file://../web", "failed to verify web: charts in directories have no provenance file"),
        ("unpacked", "", "failed to verify web: charts in directories have no provenance file"),
        ("served", &format!("{}/charts", server.url), "failed to fetch provenance"),
        ("registry", &oci, "failed to fetch provenance"),
    ] {
        let dependency =
            format!("dependencies: [{{name: web, version: 1.2.3, repository: \"{repository}\"}}]\n");
        chart(&user.path(name), name, "1.0.0", &dependency);
        if name == "unpacked" {
            chart(&user.path("unpacked/charts/web"), "web", "1.2.3", "");
        }
        let update = ["dependency", "update", name, "--plain-http"];
        let verify = ["--verify", "--keyring", "pubring.gpg"];
        let before = user.files(name);
        let error = user.fails(&[&update[..], &verify].concat());
        assert!(error.contains(want), "{name}: {error}");
        assert_eq!(user.files(name), before, "{name}");
        // A lock file says what was chosen, not that anybody signed it.
        user.ok(&update);
        let build = ["dependency", "build", name, "--plain-http"];
        let error = user.fails(&[&build[..], &verify].concat());
        assert!(error.contains(want), "{name}: {error}");
        user.ok(&build);
    }
}
