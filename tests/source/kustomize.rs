//! Kustomizations with charts and remote bases: charts beside Helm's output, repositories from a real server on loopback.

use super::git::git;
use super::registries::Registry;
use super::server::{Certificates, Server};
use super::support::{User, chart, ours};

/// A chart with a CRD, a hook and a test in `app/charts/web`.
fn local_chart(user: &User) {
    chart(&user.path("app/charts/web"), "web", "1.0.0", "");
    user.write(
        "app/charts/web/crds/thing.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.test}\n",
    );
    for event in ["pre-install", "test"] {
        user.write(
            &format!("app/charts/web/templates/{event}.yaml"),
            &format!(
                "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {event}\n  namespace: {{{{ .Release.Namespace }}}}\n  \
                 annotations: {{helm.sh/hook: {event}}}\n"
            ),
        );
    }
    user.write(
        "app/charts/web/templates/values.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: values}\ndata:\n  release: {{ .Release.Name }}\n  kube: {{ .Capabilities.KubeVersion.Version }}\n  \
         api: {{ .Capabilities.APIVersions.Has \"example.test/v1\" | quote }}\n  values: {{ .Values | toJson | quote }}\n",
    );
    user.write("app/charts/web/values.yaml", "size: 1\nport: 80\nlist: [a]\nnested: {a: 1, b: 2}\n");
    user.write("app/more.yaml", "extra: yes\nnested: {c: 3}\n");
}

/// The same objects in kustomize's form: a kustomization of a file that Helm has printed.
fn as_kustomize_prints(user: &User, manifests: &str) -> String {
    user.write("printed/manifests.yaml", manifests);
    user.write("printed/kustomization.yaml", "resources: [manifests.yaml]\n");
    user.ok(&["build", "printed"])
}

#[test]
fn charts_are_rendered_as_helm_template_prints_them() {
    let user = User::new();
    local_chart(&user);
    let inline = "valuesInline: {size: 2, list: [b], nested: {b: 5, d: null}}";
    user.write("override.yaml", "size: 2\nport: 80\nlist: [b]\nnested: {a: 1, b: 5}\n");
    user.write("merge.yaml", "size: 1\nport: 80\nlist: [a]\nnested: {a: 1, b: 2, d: null}\n");
    user.write("replace.yaml", "size: 2\nlist: [b]\nnested: {b: 5, d: null}\n");
    for (fields, args) in [
        ("", &["release-name", "app/charts/web"][..]),
        (
            "releaseName: one, namespace: two, includeCRDs: true",
            &["one", "app/charts/web", "-n", "two", "--include-crds"],
        ),
        ("skipHooks: true", &["release-name", "app/charts/web", "--no-hooks"]),
        ("skipTests: true", &["release-name", "app/charts/web", "--skip-tests"]),
        ("nameTemplate: '{{ \"x\" | upper | lower }}-y'", &["x-y", "app/charts/web"]),
        (
            "kubeVersion: 1.29.0, apiVersions: [example.test/v1]",
            &["release-name", "app/charts/web", "--kube-version", "1.29.0", "-a", "example.test/v1"],
        ),
        ("additionalValuesFiles: [more.yaml]", &["release-name", "app/charts/web", "-f", "app/more.yaml"]),
        ("valuesFile: more.yaml", &["release-name", "app/charts/web", "-f", "app/more.yaml"]),
        (inline, &["release-name", "app/charts/web", "-f", "override.yaml"]),
        (&format!("{inline}, valuesMerge: merge"), &["release-name", "app/charts/web", "-f", "merge.yaml"]),
        (
            &format!("{inline}, valuesMerge: replace"),
            &["release-name", "app/charts/web", "-f", "replace.yaml"],
        ),
    ] {
        let comma = if fields.is_empty() { "" } else { ", " };
        user.write("app/kustomization.yaml", &format!("helmCharts:\n- {{name: web{comma}{fields}}}\n"));
        let built = user.ok(&["build", "app", "--enable-helm"]);
        let printed = user.helm_ok(&[&["template"], args].concat());
        assert_eq!(built, as_kustomize_prints(&user, &printed), "{fields}");
    }
    let told = user.fails(&["build", "app"]);
    assert!(told.contains("must specify --enable-helm"), "{told}");
    user.write("app/kustomization.yaml", "helmCharts:\n- {name: nope}\n");
    let told = user.fails(&["build", "app", "--enable-helm"]);
    assert!(
        told.starts_with("Error: ") && told.contains("no repo specified for pull, no chart found at '"),
        "{told}"
    );
    user.write("app/kustomization.yaml", "helmCharts:\n- {name: web, valuesFile: ../override.yaml}\n");
    let told = user.fails(&["build", "app", "--enable-helm"]);
    assert!(told.contains("is not in or below"), "{told}");
}

#[test]
fn charts_of_repositories_are_fetched_with_the_users_login() {
    let (server, user) = (Server::plain(), User::new());
    chart(&user.path("web"), "web", "1.2.0", "");
    user.ok(&["package", "web", "-d", "packages"]);
    user.ok(&["repo", "index", "packages", "--url", &server.url]);
    for file in ["index.yaml", "web-1.2.0.tgz"] {
        server.body(&format!("/{file}"), std::fs::read(user.path(&format!("packages/{file}"))).unwrap());
    }
    server.require("Basic bWU6c2VjcmV0");
    user.write(
        "app/kustomization.yaml",
        &format!(
            "helmCharts:\n- name: web\n  repo: {}\n  version: 1.2.0\n  releaseName: one\n  valuesInline: {{size: 7}}\n",
            server.url
        ),
    );
    let told = user.fails(&["build", "app", "--enable-helm"]);
    assert!(told.contains("helmCharts: chart \"web\"") && told.contains("401"), "{told}");
    user.ok(&["repo", "add", "mine", &server.url, "--username", "me", "--password", "secret"]);
    let built = user.ok(&["build", "app", "--enable-helm"]);
    assert_eq!(built, "apiVersion: v1\ndata:\n  size: \"7\"\nkind: ConfigMap\nmetadata:\n  name: one\n");
    assert_eq!(user.files("app"), ["kustomization.yaml"], "a build writes no charts into the tree");
}

#[test]
fn charts_of_registries_are_fetched_with_the_users_login() {
    let (certificates, user) = (Certificates::new(false), User::new());
    let registry = Registry::start_with(true, Some(&certificates));
    user.write("ca.pem", &certificates.authority);
    chart(&user.path("web"), "web", "1.2.0", "");
    user.ok(&["package", "web"]);
    user.write(
        "app/kustomization.yaml",
        &format!(
            "helmCharts:\n- {{name: web, repo: '{}', version: 1.2.0, releaseName: one, valuesInline: {{size: 7}}}}\n",
            registry.path()
        ),
    );
    // A kustomization has no field for an authority: it is one of the system's.
    let build = || {
        user.command(ours(), &["build", "app", "--enable-helm"])
            .env("SSL_CERT_FILE", user.path("ca.pem"))
            .output()
            .unwrap()
    };
    let login = ["registry", "login", &registry.host, "-u", "me", "-p", "secret", "--ca-file", "ca.pem"];
    user.ok(&login);
    user.ok(&["push", "web-1.2.0.tgz", &registry.path(), "--ca-file", "ca.pem"]);
    let output = build();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reference = format!("{}/web", registry.path());
    let printed = user.helm_ok(&[
        "template",
        "one",
        &reference,
        "--version",
        "1.2.0",
        "--set",
        "size=7",
        "--ca-file",
        "ca.pem",
    ]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), as_kustomize_prints(&user, &printed));
    assert_eq!(user.files("app"), ["kustomization.yaml"], "a build writes no charts into the tree");
    user.ok(&["registry", "logout", &registry.host]);
    let output = build();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && told.contains("helmCharts: chart \"web\"") && told.contains("401"),
        "{told}"
    );
}

/// Serves the files of a bare repository, without git's own server.
pub(crate) fn serve_repository(user: &User, server: &Server, name: &str) {
    git(&user.path(name), &["update-server-info"]);
    for file in user.files(name) {
        server.body(&format!("/{name}/{file}"), std::fs::read(user.path(&format!("{name}/{file}"))).unwrap());
    }
    // As `git` asks smart servers.
    let refs = std::fs::read(user.path(&format!("{name}/info/refs"))).unwrap();
    server.body(&format!("/{name}/info/refs?service=git-upload-pack"), refs);
}

#[test]
fn submodules_of_bases_are_fetched_unless_that_is_refused() {
    let (server, user) = (Server::plain(), User::new());
    user.write("shared/base/kustomization.yaml", "resources: [config.yaml]\n");
    user.write("shared/base/config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\n");
    user.write("apps/app/kustomization.yaml", "namePrefix: app-\nresources: [../modules/shared/base]\n");
    let commit = |directory: &str| {
        let directory = user.path(directory);
        git(&directory, &["add", "-A"]);
        git(&directory, &["commit", "-q", "-m", "one"]);
    };
    for directory in ["shared", "apps"] {
        git(&user.path(directory), &["init", "-q", "-b", "main"]);
    }
    commit("shared");
    let from = user.path("shared").display().to_string();
    git(
        &user.path("apps"),
        &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &from, "modules/shared"],
    );
    let modules = user.read("apps/.gitmodules").replace(&from, &format!("{}/shared.git", server.url));
    user.write("apps/.gitmodules", &modules);
    commit("apps");
    for name in ["shared", "apps"] {
        git(&user.path(""), &["clone", "-q", "--bare", name, &format!("{name}.git")]);
        serve_repository(&user, &server, &format!("{name}.git"));
    }
    let base = |query: &str| format!("{}/apps.git/app{query}", server.url);
    for query in ["", "?submodules=true", "?submodules=1&ref=main"] {
        let built = user.ok(&["build", &base(query)]);
        assert_eq!(built, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app-shared\n", "{query}");
    }
    server.asked();
    let told = user.fails(&["build", &base("?submodules=false")]);
    assert!(told.contains("modules/shared/base"), "{told}");
    assert!(!server.asked().iter().any(|asked| asked.path.starts_with("/shared.git")), "it is not fetched");
}

#[test]
fn bases_of_repositories_are_fetched_once() {
    let (server, user) = (Server::plain(), User::new());
    let config = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    for (directory, resources) in [("one", "[config.yaml]"), ("two", "[config.yaml, ../one]")] {
        user.write(&format!("work/{directory}/kustomization.yaml"), &format!("resources: {resources}\n"));
        user.write(&format!("work/{directory}/config.yaml"), &config(directory));
    }
    user.write("work/out/kustomization.yaml", "resources: [secret.yaml]\n");
    let secret = user.path("secret.yaml");
    user.write("secret.yaml", &config("secret"));
    std::os::unix::fs::symlink(&secret, user.path("work/out/secret.yaml")).unwrap();
    let work = user.path("work");
    git(&work, &["init", "-q", "-b", "main"]);
    git(&work, &["add", "-A"]);
    git(&work, &["commit", "-q", "-m", "one"]);
    git(&work, &["tag", "v1"]);
    user.write("work/one/config.yaml", &config("newer"));
    git(&work, &["commit", "-q", "-a", "-m", "two"]);
    git(&user.path(""), &["clone", "-q", "--bare", "work", "repo.git"]);
    serve_repository(&user, &server, "repo.git");
    server.body("/file.yaml", config("file").into_bytes());

    let base = |directory: &str, query: &str| format!("{}/repo.git/{directory}{query}", server.url);
    let kustomization = |paths: &[String]| {
        user.write("app/kustomization.yaml", &format!("resources:\n- {}\n", paths.join("\n- ")));
    };
    let names = |text: &str| -> Vec<String> {
        text.lines().filter_map(|l| l.strip_prefix("  name: ")).map(str::to_owned).collect()
    };
    let file = format!("{}/file.yaml", server.url);
    kustomization(&[base("two", "?ref=v1"), file, base("one", "")]);
    server.asked();
    assert_eq!(names(&user.ok(&["build", "app"])), ["file", "newer", "one", "two"]);
    let refs =
        server.asked().iter().filter(|a| a.path.ends_with("info/refs?service=git-upload-pack")).count();
    assert!(refs >= 2, "each reference is resolved");

    // A repository that is named twice is fetched once.
    kustomization(&[base("one", "?ref=v1"), base("one", "?ref=v1&submodules=false")]);
    assert!(user.fails(&["build", "app"]).contains("already registered id"));
    user.write(
        "app/names/kustomization.yaml",
        &format!("namePrefix: a-\nresources: ['{}']\n", base("one", "?ref=v1")),
    );
    kustomization(&["names".to_owned(), base("one", "?ref=v1")]);
    server.asked();
    assert_eq!(names(&user.ok(&["build", "app"])), ["a-one", "one"]);
    let heads = server.asked().iter().filter(|a| a.path == "/repo.git/HEAD").count();
    kustomization(&[base("one", "?ref=v1")]);
    user.ok(&["build", "app"]);
    assert_eq!(server.asked().iter().filter(|a| a.path == "/repo.git/HEAD").count(), heads);

    // The target may be a repository. Its links do not lead out.
    assert_eq!(names(&user.ok(&["build", &base("one", "?ref=v1")])), ["one"]);
    let told = user.fails(&["build", &base("out", "")]);
    assert!(!told.contains("kind: ConfigMap"), "{told}");
    for (reference, want) in [
        (base("one", "?ref=nowhere"), "has no branch, tag or commit nowhere"),
        (base("one", "?ref=--upload-pack=x"), "is not a name of a branch, tag or commit"),
        (format!("file://{}//one", user.path("repo.git").display()), "name the directory"),
        (format!("{}/gone.yaml", server.url), "404"),
    ] {
        kustomization(std::slice::from_ref(&reference));
        let told = user.fails(&["build", "app"]);
        assert!(told.starts_with("Error: ") && told.contains(want), "{reference}: {told}");
    }
    kustomization(&[base("one", "")]);
    assert!(user.fails(&["build", "app", "--offline"]).contains("offline"));
}

#[test]
fn output_goes_to_a_file_or_a_directory() {
    let user = User::new();
    user.write(
        "app/all.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: One}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: one}\n\
         ---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: two}\n",
    );
    user.write("app/kustomization.yaml", "resources: [all.yaml]\n");
    let text = user.ok(&["build", "app"]);
    assert_eq!(user.ok(&["build", "app", "-o", "file"]), "");
    assert_eq!(user.read("file"), text);
    user.write("directory/keep", "");
    user.ok(&["build", "app", "-o", "directory"]);
    assert_eq!(
        user.files("directory"),
        ["keep", "one_apps_v1_deployment_web.yaml", "two_v1_service_web.yaml", "v1_namespace_one.yaml"]
    );
    assert!(text.contains(&user.read("directory/two_v1_service_web.yaml")));
    let kinds = |text: &str| -> Vec<String> {
        text.lines().filter_map(|l| l.strip_prefix("kind: ")).map(str::to_owned).collect()
    };
    assert_eq!(kinds(&text), ["Namespace", "Service", "Deployment"]);
    let unordered = user.ok(&["build", "app", "--reorder", "none"]);
    assert_eq!(kinds(&unordered), ["Namespace", "Deployment", "Service"]);
    for (flags, want) in [
        (
            &["--load-restrictor", "x"][..],
            "illegal flag value --load-restrictor x; legal values: [LoadRestrictionsRootOnly LoadRestrictionsNone]",
        ),
        (&["--reorder", "x"], "illegal flag value --reorder x; legal values: [legacy none]"),
        (&["-o", "gone/file"], "open gone/file: no such file or directory"),
    ] {
        assert!(user.fails(&[&["build", "app"], flags].concat()).contains(want), "{flags:?}");
    }
    let said = user.ours(&["build", "app", "--network", "-e", "A=1", "--helm-command", "x"]);
    assert_eq!(said.out, text);
    for flag in ["network", "env", "helm-command"] {
        assert!(said.err.contains(&format!("--{flag} has no effect")), "{}", said.err);
    }
    assert!(user.fails(&["build", "nowhere"]).contains("must build at directory: not a valid directory"));
}
