//! Bundles: a helmfile with sources of every kind, packed, and run after its sources are gone and without a network.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::git::git;
use super::kustomize::serve_repository;
use super::registries::Registry;
use super::server::Server;
use super::support::{Said, User, chart, ours};

/// A project with a base, nested files, environments, and charts from everywhere.
struct Project {
    user: User,
    server: Server,
}

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: own}\nspec:\n  template:\n    spec:\n      initContainers: [{name: a, image: \"example.test/init:1\"}]\n      containers: [{name: b, image: \"example.test/app:{{ .Values.tag }}\"}]\n";

impl Project {
    fn new() -> Self {
        let (server, user) = (Server::plain(), User::new());
        for version in ["1.0.0", "1.2.0"] {
            chart(&user.path("web"), "web", version, "");
            user.ok(&["package", "web", "-d", "packages"]);
        }
        user.ok(&["repo", "index", "packages", "--url", &server.url]);
        for file in user.files("packages") {
            server.body(&format!("/{file}"), fs::read(user.path(&format!("packages/{file}"))).unwrap());
        }
        let commit = |directory: &str| {
            let directory = user.path(directory);
            git(&directory, &["init", "-q", "-b", "main"]);
            git(&directory, &["add", "-A"]);
            git(&directory, &["commit", "-q", "-m", "one"]);
            git(&directory, &["tag", "v1"]);
        };
        user.write("far/helmfile.yaml", "releases: [{name: far, chart: ./chart, values: [values.yaml]}]\n");
        user.write("far/values.yaml", "size: 40\n");
        user.write("far/unused.yaml", "unused: true\n");
        chart(&user.path("far/chart"), "far", "1.0.0", "");
        commit("far");
        user.write("bases/config/kustomization.yaml", "resources: [config.yaml]\n");
        user.write("bases/config/config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: remote}\n");
        commit("bases");
        git(&user.path(""), &["clone", "-q", "--bare", "bases", "bases.git"]);
        serve_repository(&user, &server, "bases.git");
        server.body("/extra.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n");
        let project = Self { user, server };
        project.write();
        project
    }

    fn write(&self) {
        let (user, url) = (&self.user, &self.server.url);
        let far = format!("git::file://{}@helmfile.yaml?ref=v1", user.path("far").display());
        user.write(
            "project/apps/helmfile.yaml.gotmpl",
            &format!(
                "bases: [../shared/base.yaml]\n---\nenvironments:\n  default: {{values: [env/default.yaml]}}\n  production: {{values: [env/*.yaml]}}\n---\n\
                 repositories: [{{name: mine, url: \"{url}\"}}]\nhelmfiles: [child.yaml, \"{far}\"]\nreleases:\n\
                 - {{name: web, chart: mine/web, version: ^1.1, values: [{{size: {{{{ .Values.size }}}}}}, web.yaml.gotmpl]}}\n\
                 - name: own\n  chart: ./own\n  values: [{{tag: '{{{{ .Values.tag }}}}'}}]\n  hooks: [{{events: [presync], command: ./hook.sh}}]\n\
                 - {{name: kust, chart: ./kust}}\n- {{name: raw, chart: ../shared/raw}}\n"
            ),
        );
        user.write("project/shared/base.yaml", "helmDefaults: {wait: true}\n");
        user.write("project/apps/env/default.yaml", "size: 1\ntag: one\n");
        user.write("project/apps/env/production.yaml", "size: 3\ntag: two\n");
        user.write(
            "project/apps/web.yaml.gotmpl",
            "home: {{ env \"REGION\" | quote }}\nsaid: {{ exec \"./say.sh\" (list \"hello\") | quote }}\nfiles: {{ readDir \"env\" | len }}\n",
        );
        for (name, text) in [("say.sh", "#!/bin/sh\necho \"$1\"\n"), ("hook.sh", "#!/bin/sh\n")] {
            let path = format!("project/apps/{name}");
            user.write(&path, text);
            fs::set_permissions(user.path(&path), fs::Permissions::from_mode(0o755)).unwrap();
        }
        user.write(
            "project/apps/child.yaml",
            "releases: [{name: child, chart: ./own, values: [{tag: c}]}]\n",
        );
        let dependency = format!("dependencies: [{{name: web, version: 1.0.0, repository: \"{url}\"}}]\n");
        chart(&user.path("project/apps/own"), "own", "1.0.0", &dependency);
        user.write("project/apps/own/templates/deployment.yaml", DEPLOYMENT);
        user.write(
            "project/apps/kust/kustomization.yaml",
            &format!(
                "resources: ['{url}/bases.git/config?ref=v1', '{url}/extra.yaml', ../../shared/kust]\nhelmCharts: [{{name: web, repo: '{url}', version: 1.2.0}}]\n"
            ),
        );
        user.write(
            "project/shared/kust/kustomization.yaml",
            "configMapGenerator: [{name: near, files: [a]}]\n",
        );
        user.write("project/shared/kust/a", "text");
        user.write("project/shared/raw/raw.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: raw}\n");
        user.write("project/apps/secret.txt", "hunter2");
        fs::create_dir_all(user.path("project/.git")).unwrap();
    }

    /// Runs ours in a directory of the home.
    fn run(&self, directory: &str, args: &[&str]) -> Said {
        let mut command = self.user.command(ours(), args);
        command.current_dir(self.user.path(directory)).env("REGION", "eu");
        command.output().unwrap().into()
    }

    fn ok(&self, directory: &str, args: &[&str]) -> String {
        let said = self.run(directory, args);
        assert!(said.ok, "{args:?}\n{}{}", said.out, said.err);
        said.out
    }

    fn bundle(&self, directory: &str, output: &str) -> Said {
        let output = if output.contains("://") {
            output.to_owned()
        } else {
            fs::create_dir_all(self.user.path(output).parent().unwrap()).unwrap();
            self.user.path(output).display().to_string()
        };
        let args = ["bundle", "-e", "default", "-e", "production", "-o", &output];
        let said = self.run(directory, &args);
        assert!(said.ok, "{}{}", said.out, said.err);
        said
    }

    /// The digest that `bundle` prints.
    fn digest(said: &Said) -> String {
        said.out.lines().find_map(|line| line.strip_prefix("Digest: ")).unwrap().to_owned()
    }
}

/// A command without network interfaces, where the system lets tests do that.
fn without_network(command: &Command) -> Command {
    if !Command::new("unshare").args(["-n", "true"]).status().is_ok_and(|status| status.success()) {
        // Past the test harness, which keeps what is printed.
        let text = "unshare -n is not permitted here: the bundle runs with a network, and servers tell whether they are asked";
        drop(writeln!(std::io::stderr(), "{text}"));
        let mut same = Command::new(command.get_program());
        same.args(command.get_args());
        return same;
    }
    let mut unshared = Command::new("unshare");
    unshared.arg("-n").arg(command.get_program()).args(command.get_args());
    unshared
}

/// `build` names the file of each state, which is elsewhere in each run.
fn without_places(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("#  Source: ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_bundle_runs_when_its_sources_are_gone_and_without_a_network() {
    let project = Project::new();
    let user = &project.user;
    let verbs: [&[&str]; 4] = [
        &["-e", "default", "template"],
        &["-e", "production", "template"],
        &["-e", "default", "list"],
        &["-e", "default", "build"],
    ];
    let run = |args: &[&str]| project.ok("project/apps", &[&["helmfile"], args].concat());
    let expected: Vec<String> = verbs.iter().map(|args| run(args)).collect();
    for part in ["name: remote", "name: extra", "name: raw", "size: \"40\"", "example.test/app:one"] {
        assert!(expected[0].contains(part), "{part}: {}", expected[0]);
    }
    let said = project.bundle("project/apps", "bundle.tar");
    assert!(said.err.contains("variables: ") && said.err.contains("REGION"), "{}", said.err);
    assert!(!said.err.contains("not whole"), "{}", said.err);

    for name in ["project", "far", "bases", "bases.git", "packages", "web"] {
        fs::rename(user.path(name), user.path(&format!("gone-{name}"))).unwrap();
    }
    project.server.asked();
    fs::create_dir(user.path("empty")).unwrap();
    let bundle = user.path("bundle.tar").display().to_string();
    let from_bundle = |args: &[&str]| -> Said {
        let mut command = Command::new(ours());
        command.args(["helmfile", "--bundle", &bundle]).args(args);
        let mut command = without_network(&command);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("REGION", "eu")
            .env("TZ", "UTC");
        // Neither a cache of charts nor copies of an earlier run.
        let home = tempfile::tempdir().unwrap();
        command.env("HOME", home.path()).current_dir(user.path("empty")).output().unwrap().into()
    };
    for (args, expected) in verbs.iter().zip(&expected) {
        let said = from_bundle(args);
        assert!(said.ok, "{args:?}: {}", said.err);
        assert_eq!(without_places(&said.out), without_places(expected), "{args:?}");
    }
    let said = from_bundle(&["template", "--output-dir", "out"]);
    assert!(said.ok && !user.files("empty/out").is_empty(), "{}", said.err);
    let template = "values/{{ .Release.Name }}.yaml";
    let said = from_bundle(&["-e", "production", "write-values", "--output-file-template", template]);
    assert!(said.ok && user.files("empty/values").contains(&"web.yaml".to_owned()), "{}", said.err);
    for (args, words) in [
        (&["-e", "staging", "list"][..], "the bundle has the environments default, production"),
        (&["-f", "x.yaml", "list"], "a bundle has its own state file"),
    ] {
        let said = from_bundle(args);
        assert!(!said.ok && said.err.contains(words), "{args:?}: {}", said.err);
    }
    assert_eq!(project.server.asked().len(), 0, "no server is asked");
}

#[test]
fn equal_sources_are_equal_bundles_wherever_they_are() {
    let project = Project::new();
    let user = &project.user;
    let first = Project::digest(&project.bundle("project/apps", "one.tar"));
    fs::rename(user.path("project"), user.path("moved")).unwrap();
    assert_eq!(Project::digest(&project.bundle("moved/apps", "two.tar")), first);
    assert_eq!(fs::read(user.path("one.tar")).unwrap(), fs::read(user.path("two.tar")).unwrap());
    // A registry gets the same artifact.
    let registry = Registry::start(false);
    let tag = format!("oci://{}/bundles/apps:1", registry.host);
    assert_eq!(Project::digest(&project.bundle("moved/apps", &tag)), first);
    let expected = project.ok("moved/apps", &["helmfile", "template"]);
    fs::rename(user.path("moved"), user.path("gone")).unwrap();
    assert_eq!(project.ok("", &["helmfile", "--bundle", &tag, "template"]), expected);
    let said = project.run("", &["helmfile", "--bundle", &tag.replace(":1", ":2"), "template"]);
    assert!(!said.ok && said.err.contains("not found"), "{}", said.err);
}

#[test]
fn a_bundle_beside_the_program_stands_for_a_helmfile_that_is_not_there() {
    let project = Project::new();
    let user = &project.user;
    project.bundle("project/apps", "beside/windlass-bundle.tar");
    let program = user.path("beside/windlass");
    fs::hard_link(ours(), &program).or_else(|_| fs::copy(ours(), &program).map(drop)).unwrap();
    let list = |directory: &str| {
        let mut command = user.command(&program, &["helmfile", "list", "--output", "json"]);
        let said: Said =
            command.current_dir(user.path(directory)).env("REGION", "eu").output().unwrap().into();
        assert!(said.ok, "{}", said.err);
        said.out
    };
    fs::create_dir_all(user.path("empty")).unwrap();
    let listed = list("empty");
    assert!(listed.contains("\"name\":\"far\""), "{listed}");
    user.write("other/helmfile.yaml", "releases: [{name: other, chart: ./x}]\n");
    let listed = list("other");
    assert!(listed.contains("\"name\":\"other\"") && !listed.contains("far"), "{listed}");
}

#[test]
fn a_bundle_has_what_is_read_and_nothing_else() {
    let project = Project::new();
    let user = &project.user;
    project.bundle("project/apps", "bundle.tar");
    let images = project.ok("project/apps", &["bundle", "-e", "default", "--images"]);
    assert_eq!(images, "example.test/app:c\nexample.test/app:one\nexample.test/init:1\n");

    let mut archive = tar::Archive::new(fs::File::open(user.path("bundle.tar")).unwrap());
    let mut blobs: Vec<Vec<u8>> = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry.unwrap(), &mut bytes).unwrap();
        blobs.push(bytes);
    }
    let layer = blobs.iter().find(|blob| blob.starts_with(&[0x1f, 0x8b])).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&layer[..]));
    let paths: Vec<String> =
        archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string()).collect();
    for part in ["files/apps/own/charts/web-1.0.0.tgz", "files/apps/hook.sh", "files/shared/raw/raw.yaml"] {
        assert!(paths.iter().any(|path| path == part), "{part}: {paths:?}");
    }
    for part in ["secret.txt", "unused.yaml", "ignored.bak", ".git/"] {
        assert!(!paths.iter().any(|path| path.contains(part)), "{part}: {paths:?}");
    }
    let manifest = blobs.iter().find(|blob| blob.starts_with(b"{\"version\":1,")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(manifest).unwrap();
    let inputs = manifest["inputs"].as_object().unwrap().values();
    let mut names: Vec<String> = inputs.map(|input| input["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    let url = &project.server.url;
    for name in [format!("{url}/web ^1.1"), format!("{url}/web 1.2.0"), format!("{url}/extra.yaml")] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(names.len(), 5, "{names:?}");
    assert_eq!(manifest["needs"]["programs"], serde_json::json!([]));
    assert!(!String::from_utf8_lossy(&blobs.concat()).contains(&*user.path("project").to_string_lossy()));
}

#[test]
fn files_with_secrets_are_packed_if_they_are_encrypted_or_named() {
    let project = Project::new();
    let user = &project.user;
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sops");
    let write = |reference: &str| {
        user.write("small/chart/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n");
        user.write("small/chart/templates/a.yaml", "a: {{ .Values.a }}\n");
        user.write(
            "small/helmfile.yaml",
            &format!("releases: [{{name: a, chart: ./chart, values: [{{a: '{reference}'}}]}}]\n"),
        );
    };
    let run = |args: &[&str]| -> Said {
        let mut command = user.command(ours(), args);
        command.env("SOPS_AGE_KEY_FILE", keys.join("keys/age.txt"));
        command.current_dir(user.path("small")).output().unwrap().into()
    };
    user.write("small/plain", "hunter2");
    user.write("small/values.yaml", &fs::read_to_string(keys.join("encrypted/values.yaml")).unwrap());
    write("ref+file://plain");
    let said = run(&["bundle", "-o", "out.tar"]);
    assert!(
        !said.ok && said.err.contains("--include plain") && !said.err.contains("hunter2"),
        "{}",
        said.err
    );
    for (reference, more) in
        [("ref+file://plain", &["--include", "plain"][..]), ("ref+sops://values.yaml#/number", &[])]
    {
        write(reference);
        let expected = run(&["helmfile", "template"]);
        assert!(expected.ok && expected.out.contains("a: "), "{}", expected.err);
        let said = run(&[&["bundle", "-o", "out.tar"], more].concat());
        assert!(said.ok, "{}", said.err);
        for name in ["plain", "values.yaml"] {
            fs::rename(user.path(&format!("small/{name}")), user.path(&format!("gone-{name}"))).unwrap();
        }
        assert_eq!(run(&["helmfile", "--bundle", "out.tar", "template"]).out, expected.out);
        for name in ["plain", "values.yaml"] {
            fs::rename(user.path(&format!("gone-{name}")), user.path(&format!("small/{name}"))).unwrap();
        }
    }
}

#[test]
fn documents_of_schemas_are_packed() {
    let project = Project::new();
    let user = &project.user;
    let url = &project.server.url;
    project.server.body("/size.json", r#"{"type": "integer", "maximum": 5}"#);
    let write = |reference: &str| {
        user.write("small/chart/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n");
        user.write("small/chart/templates/a.yaml", "a: {{ .Values.size }}\n");
        let schema = format!(r#"{{"properties": {{"size": {{"$ref": "{reference}"}}}}}}"#);
        user.write("small/chart/values.schema.json", &schema);
    };
    user.write("small/helmfile.yaml", "releases: [{name: a, chart: ./chart, values: [{size: 3}]}]\n");
    write(&format!("{url}/size.json"));
    let said = project.run("small", &["bundle", "-o", "out.tar"]);
    assert!(said.ok, "{}", said.err);
    project.server.asked();
    let said = project.run("small", &["helmfile", "--bundle", "out.tar", "template"]);
    assert!(said.ok && said.out.contains("a: 3"), "{}", said.err);
    // The document counts.
    let said = project.run("small", &["helmfile", "--bundle", "out.tar", "template", "--set", "size=6"]);
    assert!(!said.ok && said.err.contains("maximum"), "{}", said.err);
    assert_eq!(project.server.asked().len(), 0, "no server is asked");
    write(&format!("file://{}", user.path("size.json").display()));
    let said = project.run("small", &["bundle", "-o", "out.tar"]);
    assert!(!said.ok && said.err.contains("write it into the schema"), "{}", said.err);
}

#[test]
fn a_bundle_that_would_not_run_is_not_made() {
    let project = Project::new();
    let user = &project.user;
    let outside = user.path("outside.yaml");
    fs::write(&outside, "size: 1\n").unwrap();
    let helmfile = |values: &str| {
        user.write("small/chart/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n");
        user.write(
            "small/helmfile.yaml",
            &format!("releases: [{{name: a, chart: ./chart, values: [{values}]}}]\n"),
        );
    };
    let bundle = |more: &[&str]| project.run("small", &[&["bundle", "-o", "out.tar"], more].concat());
    helmfile("../outside.yaml");
    let said = bundle(&[]);
    assert!(!said.ok && said.err.contains("the bundle is not whole"), "{}", said.err);
    assert!(!Path::new(&user.path("small/out.tar")).exists());
    assert!(bundle(&["--root", ".."]).ok);
    // An absolute path is one of each machine.
    helmfile(&outside.display().to_string());
    let said = bundle(&[]);
    let listed = format!("not packed, taken from the machine of each run: files: {}\n", outside.display());
    assert!(said.ok && said.err.contains(&listed), "{}", said.err);
    for (args, words) in [
        (&["bundle"][..], "--output"),
        (&["bundle", "-f", "-", "-o", "x"], "standard input"),
        (&["bundle", "--bundle", "x", "-o", "x"], "not packed again"),
        (&["bundle", "-o", "oci://h/no-tag"], "write a tag"),
    ] {
        let said = project.run("small", args);
        assert!(!said.ok && said.err.contains(words), "{args:?}: {}", said.err);
    }
    user.write("small/no.tar", "not a bundle");
    let said = project.run("small", &["helmfile", "--bundle", "no.tar", "list"]);
    assert!(!said.ok && said.err.contains("bundle no.tar: "), "{}", said.err);
}
