//! A release that Flux made, taken over by us: nothing of Flux's stays behind on the objects.

use super::{control_plane, windlass};
use serde_json::{Value, json};
use std::path::Path;

/// The records' own.
const NAMESPACE: &str = "flux";

/// Objects as they were, applied under the name of who applied them.
fn load(text: &str) -> Vec<Value> {
    let mut list: Value = serde_json::from_str(text).unwrap();
    let items = if list.is_array() { list } else { list["items"].take() };
    let mut items = items.as_array().unwrap().clone();
    for item in &mut items {
        let meta = item["metadata"].as_object_mut().unwrap();
        for key in ["resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"] {
            meta.remove(key);
        }
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("deployment.kubernetes.io/revision");
        }
        let object = item.as_object_mut().unwrap();
        object.remove("status");
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            for key in ["clusterIP", "clusterIPs"] {
                spec.remove(key);
            }
        }
    }
    items
}

#[test]
fn what_flux_applied_becomes_ours() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/records/helm-controller");
    if !records.is_dir() {
        println!("no records at ../shared/records: skipped");
        return;
    }
    let cp = control_plane();
    cp.kubectl(["create", "namespace", NAMESPACE]).unwrap();
    for file in ["objects.json", "release-secrets.json"] {
        let items = load(&std::fs::read_to_string(records.join(file)).unwrap());
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let args = ["apply", "--server-side", "--field-manager=helm-controller", "-n", NAMESPACE, "-f", "-"];
        cp.kubectl_with(args, &list).unwrap();
    }
    let objects = |release: &str| -> Vec<Value> {
        let kinds = "deployments,services,serviceaccounts";
        let selector = format!("app.kubernetes.io/instance={release}");
        let args = ["get", kinds, "-n", NAMESPACE, "-l", &selector, "-o", "json", "--show-managed-fields"];
        let list: Value = serde_json::from_str(&cp.kubectl(args).unwrap()).unwrap();
        list["items"].as_array().unwrap().clone()
    };
    let flux = "helm.toolkit.fluxcd.io/name";
    let before = objects("r001");
    assert!(
        before.len() == 3 && before.iter().all(|o| o["metadata"]["labels"][flux] == "r001"),
        "{before:?}"
    );

    let chart = records.join("demo-0.1.0.tgz");
    let chart = chart.to_str().unwrap();
    windlass(&["upgrade", "r001", chart, "-n", NAMESPACE, "--reuse-values", "--set", "replicaCount=2"]);
    let after = objects("r001");
    assert_eq!(after.len(), 3);
    for (old, new) in before.iter().zip(&after) {
        assert_eq!(old["metadata"]["uid"], new["metadata"]["uid"], "the same object");
        let labels = new["metadata"]["labels"].as_object().unwrap();
        assert!(labels.keys().all(|label| !label.contains("fluxcd")), "{labels:?}");
        assert_eq!(labels["helm.sh/chart"], "demo-0.1.0");
        let entries = new["metadata"]["managedFields"].as_array().unwrap();
        let managers: Vec<&str> = entries.iter().map(|e| e["manager"].as_str().unwrap()).collect();
        let others = managers.iter().filter(|m| !["helm", "kube-controller-manager"].contains(m)).count();
        assert!(others == 0 && managers.contains(&"helm"), "{managers:?}");
    }
    let deployment = after.iter().find(|o| o["kind"] == "Deployment").unwrap();
    assert_eq!(deployment["spec"]["replicas"], 2);
    // Flux's record is a revision like any other: Helm reads on, and goes back to it.
    let history = cp.helm4(["history", "r001", "-n", NAMESPACE]).unwrap();
    assert!(history.contains("superseded") && history.contains("deployed"), "{history}");
    windlass(&["rollback", "r001", "1", "-n", NAMESPACE]);
    let back = objects("r001");
    assert!(back.iter().all(|o| o["metadata"]["labels"][flux] == "r001"), "as Flux's record has it");
    cp.helm4(["uninstall", "r001", "-n", NAMESPACE]).unwrap();
    assert_eq!(objects("r001"), Vec::<Value>::new());
    assert_eq!(objects("r002").len(), 3, "other releases stay");
    cp.kubectl(["delete", "namespace", NAMESPACE, "--wait=false"]).unwrap();
}
