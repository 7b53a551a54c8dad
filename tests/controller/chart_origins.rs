//! Charts of ChartResources and HelmCharts from servers on this machine: each login goes to its own origin.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::chart_resources::Running;
use super::chart_server::ChartServer;
use super::helmcharts;

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
