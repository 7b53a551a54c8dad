//! Charts of ChartResources and HelmCharts from servers on this machine: each login goes to its own origin.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::chart_resources::Running;
use super::chart_server::{ChartServer, tls_before};
use super::helmcharts;
use super::helmfiles::Repository;

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_resource_has_its_chart_from_a_repository_with_a_login() {
    let mut own = Running::start().await;
    let (cp, n) = (own.cp, own.ns.name().to_owned());
    let package = helmcharts::chart("1.2.0", &[]);
    let other = ChartServer::start(&[("/web-1.2.0.tgz", package.clone())]).await;
    let index = format!(
        "apiVersion: v1\nentries:\n  web:\n  - {{name: web, version: 1.2.0, apiVersion: v2, urls: [web-1.2.0.tgz]}}\n  far:\n  - {{name: web, version: 1.2.0, apiVersion: v2, urls: ['http://{}/web-1.2.0.tgz']}}\n",
        other.address
    );
    let server =
        ChartServer::start(&[("/index.yaml", index.into_bytes()), ("/web-1.2.0.tgz", package)]).await;
    let url = format!("http://{}", server.address);
    let secret = json!({"namespace": n, "name": "login"});
    let chart =
        |name: &str| json!({"chart": {"name": name, "repo": url, "version": "1.x", "secretRef": secret}});
    own.resource("web", &chart("web"));
    let message = own.ready("web", "False ConfigInvalid");
    assert!(message.starts_with(&format!("spec.chart.secretRef: Secret {n}/login")), "{message}");
    let words = ["username=me", "password=word"].map(|pair| format!("--from-literal={pair}"));
    cp.kubectl(["create", "secret", "generic", "login", "-n", &n, &words[0], &words[1]]).unwrap();
    own.ready("web", "True Registered");
    assert_eq!(own.status("web")["version"], "1.2.0");
    let basic = format!("Basic {}", STANDARD.encode("me:word"));
    assert!(server.seen.lock().unwrap().contains(&("/web-1.2.0.tgz".to_owned(), basic)));
    own.web("one", &json!({"size": "big"}));
    own.wait("the object is a release", || own.get("configmap", "one", "{.data.size}") == "big");
    // The package of the other chart is elsewhere: the login stays here.
    own.resource("web", &chart("far"));
    own.wait("the other server is asked", || !other.seen.lock().unwrap().is_empty());
    let seen = other.seen.lock().unwrap().clone();
    assert!(seen.iter().all(|(_, login)| login.is_empty()), "{seen:?}");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helmchart_has_its_chart_from_a_registry_with_a_login() {
    let mut running = helmcharts::Running::started().await;
    let basic = STANDARD.encode("me:word");
    let package = helmcharts::chart("1.2.0", &[]);
    let registry = ChartServer::registry("1.2.0", &package, &format!("Basic {basic}")).await;
    let host = registry.address.to_string();
    let config = json!({"auths": {host.as_str(): {"auth": basic}}}).to_string();
    let literal = format!("--from-literal=.dockerconfigjson={config}");
    running
        .kubectl(&format!("create secret generic registry --type=kubernetes.io/dockerconfigjson {literal}"));
    let spec = json!({"chart": format!("oci://{host}/charts/web"), "version": "1.2.0", "plainHTTP": true});
    running.chart("open", &spec);
    running.wait_ready("open", "False ChartUnavailable");
    let mut spec = spec;
    spec["dockerRegistrySecret"] = json!({"name": "registry"});
    running.chart("web", &spec);
    running.wait_revision("web", 1);
    assert!(running.message("web").contains("of web-1.2.0 is deployed"), "{}", running.message("web"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_resource_has_its_chart_from_a_registry_over_tls() {
    let mut own = Running::start().await;
    let (cp, n) = (own.cp, own.ns.name().to_owned());
    let basic = STANDARD.encode("me:word");
    let package = helmcharts::chart("1.2.0", &[]);
    let registry = ChartServer::registry("1.2.0", &package, &format!("Basic {basic}")).await;
    let (host, authority) = tls_before(registry.address).await;
    let (host, files) = (host.to_string(), tempfile::tempdir().unwrap());
    let config = json!({"auths": {host.as_str(): {"auth": basic}}}).to_string();
    super::write(files.path(), "ca.crt", &authority);
    super::write(files.path(), ".dockerconfigjson", &config);
    let secret = |name: &str, keys: &[&str], more: &[&str]| {
        let from = |key: &&str| format!("--from-file={key}={}/{key}", files.path().display());
        let flags: Vec<String> = keys.iter().map(from).collect();
        let flags = flags.iter().map(String::as_str).chain(more.iter().copied());
        cp.kubectl(["create", "secret", "generic", name, "-n", &n].into_iter().chain(flags)).unwrap();
    };
    let login = ["--from-literal=username=me", "--from-literal=password=word"];
    secret("untrusted", &[".dockerconfigjson"], &[]);
    secret("anonymous", &["ca.crt"], &[]);
    secret("basic", &["ca.crt"], &login);
    secret("docker", &["ca.crt", ".dockerconfigjson"], &[]);
    let chart = |secret: &str| {
        let name = format!("oci://{host}/charts/web");
        json!({"chart": {"name": name, "version": "1.x", "secretRef": {"namespace": n, "name": secret}}})
    };
    for (secret, part) in [("untrusted", "certificate"), ("anonymous", "401")] {
        own.resource("web", &chart(secret));
        own.wait(&format!("the message of {secret}"), || {
            let status = own.status("web").to_string();
            status.contains("ChartUnavailable") && status.contains(part)
        });
        assert!(!own.status("web").to_string().contains(&basic));
    }
    for secret in ["basic", "docker"] {
        own.resource("web", &chart(secret));
        own.ready("web", "True Registered");
        assert_eq!(own.status("web")["version"], "1.2.0");
    }
    own.web("one", &json!({"size": "big"}));
    own.wait("the object is a release", || own.get("configmap", "one", "{.data.size}") == "big");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_resource_follows_a_branch_of_a_git_repository() {
    let mut own = Running::start().await;
    let repository = Repository::new("").await;
    let name = format!("git+{}//web?ref=main", repository.url);
    own.resource("web", &json!({"chart": {"name": name, "interval": "1s"}}));
    own.ready("web", "True Registered");
    own.web("one", &json!({"size": 3}));
    own.wait("the object is a release", || own.get("configmap", "one", "{.data.size}") == "3");
    // A push is another chart.
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {size: \"{{ .Values.size }}\", more: pushed}\n";
    super::write(repository.root.path(), "web/templates/config.yaml", object);
    repository.push("");
    own.wait("the push is deployed", || own.get("configmap", "one", "{.data.more}") == "pushed");
    // The operator's own login is nothing for a Secret to replace.
    let secret = json!({"namespace": own.ns.name(), "name": "login"});
    own.resource("web", &json!({"chart": {"name": name, "secretRef": secret}}));
    own.wait("a Secret is refused", || own.status("web").to_string().contains("secretRef"));
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn helmcharts_trust_the_authorities_that_they_name() {
    let mut running = helmcharts::Running::started().await;
    let package = helmcharts::chart("1.2.0", &[]);
    let index = "apiVersion: v1\nentries:\n  web:\n  - {name: web, version: 1.2.0, apiVersion: v2, urls: [web-1.2.0.tgz]}\n";
    let files = [("/index.yaml", index.as_bytes().to_vec()), ("/web-1.2.0.tgz", package.clone())];
    let (repository, authority) = tls_before(ChartServer::start(&files).await.address).await;
    let basic = STANDARD.encode("me:word");
    let registry = ChartServer::registry("1.2.0", &package, &format!("Basic {basic}")).await;
    let (registry, other) = tls_before(registry.address).await;
    let (repo, oci) = (format!("https://{repository}"), format!("oci://{registry}/charts/web"));
    let scratch = tempfile::tempdir().unwrap();
    super::write(scratch.path(), "one", &other);
    super::write(scratch.path(), "two", &authority);
    let directory = scratch.path().display();
    running.kubectl(&format!("create configmap authorities --from-file={directory}"));
    running.kubectl(&format!("create configmap other --from-file={directory}/one"));
    let registry = registry.to_string();
    let config = json!({"auths": {registry.as_str(): {"auth": basic}}}).to_string();
    let literal = format!("--from-literal=.dockerconfigjson={config}");
    running.kubectl(&format!("create secret generic docker --type=kubernetes.io/dockerconfigjson {literal}"));
    running.kubectl("create secret generic login --from-literal=username=me --from-literal=password=word");
    let (docker, login) = (json!({"name": "docker"}), json!({"name": "login"}));
    let authorities = json!({"name": "authorities"});
    for (name, spec, expected) in [
        ("untrusted", json!({"chart": "web", "repo": repo}), Err("certificate")),
        ("wrong", json!({"chart": "web", "repo": repo, "repoCA": other}), Err("certificate")),
        (
            "plain",
            json!({"chart": oci, "plainHTTP": true, "dockerRegistrySecret": docker}),
            Err("spec.chart: "),
        ),
        ("anonymous", json!({"chart": oci, "repoCA": other}), Err("401")),
        (
            "none",
            json!({"chart": "web", "repo": repo, "repoCAConfigMap": {"name": "absent"}}),
            Err("ConfigMap"),
        ),
        ("insecure", json!({"chart": "web", "repo": repo, "insecureSkipTLSVerify": true}), Ok(())),
        ("ca", json!({"chart": "web", "repo": repo, "repoCA": authority}), Ok(())),
        ("map", json!({"chart": "web", "repo": repo, "repoCAConfigMap": authorities}), Ok(())),
        // Both add up.
        (
            "both",
            json!({"chart": "web", "repo": repo, "repoCA": authority, "repoCAConfigMap": {"name": "other"}}),
            Ok(()),
        ),
        ("docker", json!({"chart": oci, "repoCA": other, "dockerRegistrySecret": docker}), Ok(())),
        ("login", json!({"chart": oci, "repoCAConfigMap": authorities, "authSecret": login}), Ok(())),
        (
            "skip",
            json!({"chart": oci, "insecureSkipTLSVerify": true, "dockerRegistrySecret": docker}),
            Ok(()),
        ),
    ] {
        running.chart(name, &spec);
        match expected {
            Ok(()) => running.wait_revision(name, 1),
            Err(part) => running.wait(&format!("{name} fails with {part}"), || {
                running.condition(name, "Ready").starts_with("False ") && running.message(name).contains(part)
            }),
        }
    }
    // A ConfigMap of authorities is watched.
    running.kubectl(&format!("create configmap absent --from-file={directory}"));
    running.wait_revision("none", 1);
    running.stop().await;
}
