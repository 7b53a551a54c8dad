//! The order in which objects of a release are applied, as the API server saw it.

use crate::support::*;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn annotations_hold_objects_back_until_others_are_ready() {
    let plane = control_plane();
    let namespace = plane.namespace("order").unwrap();
    let ns = namespace.name();
    let mut late = config_map("late", "1");
    late["metadata"]["annotations"] = json!({"windlass.dev/depends-on": "Job/migrate, Deployment/db"});
    let mut web = deployment("web", "x:1");
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "late"}}]);
    let objects = [web, late, config_map("early", "1"), job("migrate"), deployment("db", "x:1")];
    let mark = plane.audit_mark().unwrap();
    engine().await.reconcile(&request(ns, "web", &objects, vec![])).await.unwrap();
    let requests = requests_since(mark, ns);
    let applied: Vec<&str> = requests.iter().filter_map(|r| r.strip_prefix("patch ")).collect();
    let place = |what: &str| {
        applied.iter().position(|a| *a == what).unwrap_or_else(|| panic!("{what} in {applied:?}"))
    };
    assert!(place("configmaps/early") < place("deployments/db"));
    assert!(place("jobs/migrate") < place("configmaps/late"));
    assert!(place("configmaps/late") < place("deployments/web"), "{applied:?}");
    let live = get(ns, "configmap", "late").unwrap();
    let job = get(ns, "job", "migrate").unwrap();
    let created = live["metadata"]["creationTimestamp"].as_str().unwrap();
    assert!(job["status"]["completionTime"].as_str().unwrap() <= created, "{job}");
    engine().await.uninstall(&uninstall(ns, "web")).await.unwrap();
}
