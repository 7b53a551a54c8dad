//! Charts of registries: a real one on loopback, and one that answers badly.

use std::fs;

use base64::Engine as _;
use windlass_testing::RegistryServer;

use super::server::{Answer, Certificates, Server};
use super::support::{User, chart};

/// The reference registry, in memory, with a user `me` whose password is `secret`; gone when dropped.
pub(crate) struct Registry {
    pub(crate) host: String,
    _server: RegistryServer,
}

/// `secret` by bcrypt, as htpasswd files have it.
const HTPASSWD: &str = "me:$2y$10$2UAcldG1SszelM2oEWyHUOPGXG8Uz3cdAuNW/B867rB16hNdlJV4q\n";

impl Registry {
    pub(crate) fn start(login: bool) -> Self {
        Self::start_with(login, None)
    }

    pub(crate) fn start_with(login: bool, certificates: Option<&Certificates>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let auth = if login {
            let path = dir.path().join("htpasswd");
            fs::write(&path, HTPASSWD).unwrap();
            format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", path.display())
        } else {
            String::new()
        };
        let tls = certificates.map_or_else(String::new, |certificates| {
            let place = |name: &str, text: &str| {
                let path = dir.path().join(name);
                fs::write(&path, text).unwrap();
                path.display().to_string()
            };
            let (chain, key) = (place("chain.pem", &certificates.chain), place("key.pem", &certificates.key));
            format!(", tls: {{certificate: {chain}, key: {key}}}")
        });
        let server = RegistryServer::start(dir, &tls, &auth).unwrap();
        Self { host: server.host().to_owned(), _server: server }
    }

    pub(crate) fn path(&self) -> String {
        format!("oci://{}/charts", self.host)
    }
}

/// Packages of `web` in three versions.
fn packages(user: &User) -> Vec<String> {
    let versions = ["1.2.3", "1.10.0+build.5", "2.0.0-rc.1"];
    let pack = |version: &str| {
        let source = user.path(&format!("charts/web-{version}"));
        chart(&source, "web", version, "home: https://web.example.test\nannotations: {a: b}\n");
        user.helm_ok(&["package", source.to_str().unwrap()]);
        format!("web-{version}.tgz")
    };
    versions.into_iter().map(pack).collect()
}

#[test]
fn each_pulls_what_the_other_pushed() {
    let (registry, user) = (Registry::start(false), User::new());
    let (ours, theirs) = (format!("{}/ours", registry.path()), format!("{}/theirs", registry.path()));
    for file in packages(&user) {
        let own = user.ok(&["push", &file, &ours, "--plain-http"]);
        let helm = user.helm_ok(&["push", &file, &theirs, "--plain-http"]);
        // The same artifact to the byte: the digest tells.
        assert_eq!(own.replace("/ours/", "/theirs/"), helm);
    }
    let cases: [&[&str]; 8] = [
        &["pull", "NAME"],
        &["pull", "NAME", "--version", "1.2.3"],
        &["pull", "NAME:1.2.3"],
        &["pull", "NAME", "--version", "1.10.0+build.5"],
        &["pull", "NAME", "--devel"],
        &["pull", "NAME", "--version", "~1.2"],
        &["show", "chart", "NAME"],
        &["pull", "--untar", "NAME"],
    ];
    for case in cases {
        let run = |program: &str, repository: &str| {
            let name = format!("{repository}/web");
            let mut args: Vec<String> = case.iter().map(|a| a.replace("NAME", &name)).collect();
            args.push("--plain-http".to_owned());
            if args[0] == "pull" {
                fs::create_dir_all(user.path(program)).unwrap();
                args.extend(["-d".to_owned(), program.to_owned()]);
            }
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            if program == "ours" { user.ours(&args) } else { user.helm(&args) }
        };
        let (own, helm) = (run("ours", &theirs), run("theirs", &ours));
        assert!(own.ok && helm.ok, "{case:?}\n{}{}", own.err, helm.err);
        assert_eq!(own.out.replace("/theirs/", "/ours/"), helm.out, "{case:?}");
        let files = user.files("theirs");
        assert_eq!(user.files("ours"), files, "{case:?}");
        for file in files {
            let read = |dir: &str| fs::read(user.path(&format!("{dir}/{file}"))).unwrap();
            assert!(read("ours") == read("theirs"), "{file}");
        }
    }
    let reference = format!("{ours}/web");
    let args = ["template", "x", &reference, "--plain-http"];
    assert_eq!(user.ok(&args), user.helm_ok(&args));
    // An install tells of the pull on standard output.
    let args = ["install", "x", &reference, "--plain-http", "--dry-run=client"];
    let untimed = |text: String| {
        let lines = text.lines().filter(|line| !line.starts_with("LAST DEPLOYED"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let own = untimed(user.ok(&args));
    assert_eq!(own, untimed(user.helm_ok(&args)));
    assert!(own[0].starts_with("Pulled: "), "{own:?}");
}

#[test]
fn what_is_not_there_is_told() {
    let (registry, user) = (Registry::start(false), User::new());
    packages(&user);
    user.ok(&["push", "web-1.2.3.tgz", &registry.path(), "--plain-http"]);
    let web = format!("{}/web", registry.path());
    let cases = [
        (vec!["pull", &*web, "--version", "9.9.9"], "web:9.9.9: not found"),
        (
            vec!["pull", &*web, "--version", "^9"],
            "could not locate a version matching provided version string ^9",
        ),
        (vec!["pull", "oci://h"], "invalid reference: missing registry or repository"),
        (vec!["push", "none.tgz", &*web], "none.tgz: no such file"),
        (vec!["push", "charts", &*web], "cannot push directory, must provide chart archive (.tgz)"),
        (vec!["push", "web-1.2.3.tgz", "h/x"], "scheme prefix missing from remote (e.g. \"oci://\")"),
        (vec!["push", "web-1.2.3.tgz", "http://h/x"], "scheme \"http\" not supported"),
    ];
    for (args, want) in cases {
        let args = [&args[..], &["--plain-http"]].concat();
        let (error, theirs) = (user.fails(&args), user.helm(&args));
        assert!(error.contains(want), "{args:?}: {error}\nhelm: {}", theirs.err);
        assert!(!theirs.ok && theirs.err.contains(want), "{args:?}\nhelm: {}", theirs.err);
    }
    let mismatch = user.fails(&["pull", &format!("{web}:1.2.3"), "--version", "1.2.4", "--plain-http"]);
    assert!(mismatch.contains("chart reference and version mismatch: 1.2.4 is not 1.2.3"), "{mismatch}");
}

#[test]
fn logins_are_shared_with_helm_and_docker() {
    let (registry, user) = (Registry::start(true), User::new());
    packages(&user);
    let host = &*registry.host;
    let web = format!("{}/web", registry.path());
    let push = ["push", "web-1.2.3.tgz", &registry.path(), "--plain-http"];
    let error = user.fails(&push);
    assert!(error.contains("401 Unauthorized") && error.contains("registry login"), "{error}");
    let login = ["registry", "login", host, "-u", "me", "--plain-http", "-p"];
    let error = user.fails(&[&login[..], &["wrong"]].concat());
    assert!(error.contains(&format!("authenticating to \"{host}\"")) && !error.contains("wrong"), "{error}");
    let (own, theirs) =
        (user.ours(&[&login[..], &["secret"]].concat()), user.helm(&[&login[..], &["secret"]].concat()));
    assert_eq!((own.ok, &own.out, &own.err), (theirs.ok, &theirs.out, &theirs.err));
    user.ok(&push);
    user.helm_ok(&["pull", &web, "--plain-http"]);
    let (own, theirs) = (user.ours(&["registry", "logout", host]), user.helm(&["registry", "logout", host]));
    assert_eq!((own.ok, own.out, own.err), (theirs.ok, theirs.out, theirs.err));
    assert!(user.fails(&["pull", &web, "--plain-http"]).contains("401"));
    // What Helm keeps we find, and what Docker keeps, and what a helper program knows.
    user.helm_ok(&[&login[..], &["secret"]].concat());
    user.ok(&["pull", &web, "--plain-http"]);
    user.helm_ok(&["registry", "logout", host]);
    let token = base64::engine::general_purpose::STANDARD.encode("me:secret");
    user.write(".docker/config.json", &format!("{{\"auths\": {{\"{host}\": {{\"auth\": \"{token}\"}}}}}}"));
    user.ok(&["pull", &web, "--plain-http"]);
    let helper = user.path("bin/docker-credential-test");
    user.write("bin/docker-credential-test", "#!/bin/sh\n[ \"$1\" = get ] || exit 1\nread -r host\necho '{\"Username\": \"me\", \"Secret\": \"secret\"}'\n");
    fs::set_permissions(&helper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    user.write(".docker/config.json", &format!("{{\"credHelpers\": {{\"{host}\": \"test\"}}}}"));
    let path = format!("{}:{}", user.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command =
        user.command(std::path::Path::new(env!("CARGO_BIN_EXE_windlass")), &["pull", &web, "--plain-http"]);
    let output = command.env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Flags go before all of them.
    user.write(".docker/config.json", "{}");
    user.ok(&["pull", &web, "--plain-http", "--username", "me", "--password", "secret"]);
}

#[test]
fn dependencies_come_from_registries_too() {
    let (registry, user) = (Registry::start(false), User::new());
    for file in packages(&user) {
        user.ok(&["push", &file, &registry.path(), "--plain-http"]);
    }
    for place in ["theirs", "ours"] {
        let dependencies = format!(
            "dependencies:\n- {{name: web, version: ^1, repository: \"{0}\"}}\n- {{name: web, version: 1.2.3, repository: \"{0}\", alias: x}}\n",
            registry.path()
        );
        chart(&user.path(&format!("{place}/umbrella")), "umbrella", "1.0.0", &dependencies);
    }
    let theirs = user.helm_ok(&["dependency", "update", "theirs/umbrella", "--plain-http"]);
    let own = user.ok(&["dependency", "update", "ours/umbrella", "--plain-http"]);
    let sorted = |text: &str| {
        // Ours fetches side by side, and tells after.
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&own), sorted(&theirs));
    assert_eq!(user.files("ours/umbrella"), user.files("theirs/umbrella"));
    let digest = |place: &str| {
        let text = user.read(&format!("{place}/umbrella/Chart.lock"));
        text.lines().find(|l| l.starts_with("digest: ")).unwrap().to_owned()
    };
    assert_eq!(digest("ours"), digest("theirs"));
}

#[test]
fn a_tag_that_was_pushed_again_is_noticed() {
    let (registry, user) = (Registry::start(false), User::new());
    packages(&user);
    let web = format!("{}/web:1.2.3", registry.path());
    user.ok(&["push", "web-1.2.3.tgz", &registry.path(), "--plain-http"]);
    let first = user.ours(&["pull", &web, "--plain-http"]);
    let again = user.ours(&["pull", &web, "--plain-http"]);
    assert_eq!((&first.out, &first.err), (&again.out, &again.err));
    user.write("charts/web-1.2.3/values.yaml", "size: 2\n");
    user.helm_ok(&["package", "charts/web-1.2.3"]);
    user.helm_ok(&["push", "web-1.2.3.tgz", &registry.path(), "--plain-http"]);
    let other = user.ours(&["pull", &web, "--plain-http"]);
    assert!(other.ok && other.err.contains("the tag was pushed again with another content"), "{}", other.err);
    let digest = first.out.lines().find_map(|l| l.strip_prefix("Digest: ")).unwrap().to_owned();
    let by_digest =
        user.ok(&["show", "values", &format!("{}/web@{digest}", registry.path()), "--plain-http"]);
    assert!(by_digest.contains("size: 1"), "{by_digest}");
}

#[test]
fn a_registry_that_lies_is_found_out() {
    let (server, user) = (Server::plain(), User::new());
    let host = server.url.strip_prefix("http://").unwrap();
    let name = format!("oci://{host}/web:1.0.0");
    let digest = format!("sha256:{}", "a".repeat(64));
    let manifest = |config: &str, layer: &str, size: u64| {
        format!(
            "{{\"schemaVersion\":2,\"config\":{{\"mediaType\":\"{config}\",\"digest\":\"{digest}\",\"size\":2}},\
             \"layers\":[{{\"mediaType\":\"{layer}\",\"digest\":\"{digest}\",\"size\":{size}}}]}}"
        )
    };
    let (config, layer) =
        ("application/vnd.cncf.helm.config.v1+json", "application/vnd.cncf.helm.chart.content.v1.tar+gzip");
    let blob = format!("/v2/web/blobs/{digest}");
    let cases = [
        (Answer::Body(b"no json".to_vec()), Answer::Status(404), "the registry's answer is wrong: manifest"),
        (Answer::Status(500), Answer::Status(404), "500 Internal Server Error"),
        (
            Answer::Body(manifest("x", layer, 1).into()),
            Answer::Status(404),
            "could not load config with mediatype",
        ),
        (
            Answer::Body(manifest(config, "x", 1).into()),
            Answer::Status(404),
            "does not contain a layer with mediatype",
        ),
        (Answer::Body(manifest(config, layer, 1).into()), Answer::Status(404), "not found"),
        (
            Answer::Body(manifest(config, layer, 4).into()),
            Answer::Body(b"evil".to_vec()),
            "the digest is sha256:",
        ),
        (
            Answer::Body(manifest(config, layer, 4).into()),
            Answer::Endless,
            "the answer is larger than 4 bytes",
        ),
        (Answer::Body(manifest(config, layer, 1 << 40).into()), Answer::Endless, "more than the maximum"),
    ];
    for (manifest, answer, want) in cases {
        server.answer("/v2/web/manifests/1.0.0", manifest);
        server.answer(&blob, answer);
        let error = user.fails(&["pull", &name, "--plain-http"]);
        assert!(error.contains(want), "{want}: {error}");
        assert_eq!(user.files(""), Vec::<String>::new());
    }
}
