//! Kustomizations with charts and remote bases: charts beside Helm's output, repositories from a real server on loopback.

use super::git::git;
use super::server::Server;
use super::support::{User, chart};

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
    git(&user.path("repo.git"), &["update-server-info"]);
    for name in user.files("repo.git") {
        server.body(
            &format!("/repo.git/{name}"),
            std::fs::read(user.path(&format!("repo.git/{name}"))).unwrap(),
        );
    }
    // As `git` asks smart servers; ours is none.
    let refs = std::fs::read(user.path("repo.git/info/refs")).unwrap();
    server.body("/repo.git/info/refs?service=git-upload-pack", refs);
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
