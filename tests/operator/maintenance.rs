//! Modules whose objects are left alone for a while.

use crate::support::{Modules, Operator, control_plane, history, object, wait_for};

const LABEL: &str = "maintenance.deckhouse.io/no-resource-reconciliation";

fn label(namespace: &str, release: &str) -> String {
    let selector = format!("owner=helm,name={release},status=deployed");
    let records = control_plane().list(&["secrets", "-n", namespace, "-l", &selector]).unwrap();
    let label = records.first().and_then(|record| record["metadata"]["labels"][LABEL].as_str());
    label.unwrap_or_default().to_owned()
}

#[test]
fn objects_are_left_alone_until_it_is_over() {
    let cp = control_plane();
    let ns = cp.namespace("maintenance").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    modules.hook("001-alpha/hooks/told", "configVersion: v1\nbeforeHelm: 1", "note ran");
    modules.hook("001-alpha/hooks/after", "configVersion: v1\nafterHelm: 1", "note ran");
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    assert_eq!(label(ns.name(), "alpha"), "false");
    let create = ["create", "configmap", "addon-operator", "-n", ns.name()];
    cp.kubectl(create.iter().chain(&["--from-literal=alphaMaintenance=NoResourceReconciliation"])).unwrap();
    wait_for("the record says so", || label(ns.name(), "alpha") == "true");
    operator.wait_log(&["\"module\":\"alpha\"", "maintenance begins"]);
    let metric = || operator.get("/metrics").unwrap().1;
    let series =
        "addon_operator_mm_module_maintenance{module=\"alpha\",state=\"NoResourceReconciliation\"} 1";
    assert!(metric().contains(series));
    // What is deleted, changed, or wanted by values stays as it is; others go on.
    for module in ["alpha", "beta"] {
        cp.kubectl(["delete", "service", module, "-n", ns.name()]).unwrap();
    }
    let patch = ["patch", "configmap", "addon-operator", "-n", ns.name(), "--type=merge", "-p"];
    let runs = operator.notes().len();
    cp.kubectl(patch.iter().chain([&r#"{"data":{"alpha":"size: 7","beta":"size: 7"}}"#])).unwrap();
    let size = |name: &str| object(cp, ns.name(), "configmap", name).unwrap()["data"]["size"].clone();
    wait_for("the other module is as it is wanted", || {
        size("beta") == "7" && object(cp, ns.name(), "service", "beta").is_some()
    });
    wait_for("the hooks of the module run, those after the release, too", || {
        operator.notes()[runs..].ends_with(&["told ran".to_owned(), "after ran".to_owned()])
    });
    let untouched = || {
        size("alpha") == "1"
            && object(cp, ns.name(), "service", "alpha").is_none()
            && history(cp, ns.name(), "alpha") == [(1, "deployed".to_owned())]
    };
    assert!(untouched(), "{}", operator.log_end());
    // A restart changes nothing about that.
    operator.stop();
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    assert!(untouched(), "{}", operator.log_end());
    // A word that means nothing leaves it as it is.
    cp.kubectl(patch.iter().chain([&r#"{"data":{"alphaMaintenance":"sometimes"}}"#])).unwrap();
    operator.wait_log(&["alphaMaintenance", "neither"]);
    assert!(untouched());
    cp.kubectl(patch.iter().chain([&r#"{"data":{"alphaMaintenance":""}}"#])).unwrap();
    let took = wait_for("all is as it is wanted again", || {
        size("alpha") == "7" && object(cp, ns.name(), "service", "alpha").is_some()
    });
    println!("maintenance over to all as wanted: {took:?}, the looking included");
    wait_for("the record says so", || label(ns.name(), "alpha") == "false");
    assert!(!operator.get("/metrics").unwrap().1.contains("mm_module_maintenance{"));
    operator.stop();
}

#[test]
fn what_ended_while_nobody_looked_has_ended() {
    let cp = control_plane();
    let ns = cp.namespace("maintenance-over").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    let create = ["create", "configmap", "addon-operator", "-n", ns.name()];
    cp.kubectl(create.iter().chain(&["--from-literal=alphaMaintenance=NoResourceReconciliation"])).unwrap();
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    // There was nothing to leave alone yet.
    assert!(object(cp, ns.name(), "service", "alpha").is_some());
    assert_eq!(label(ns.name(), "alpha"), "true");
    cp.kubectl(["delete", "service", "alpha", "-n", ns.name()]).unwrap();
    operator.stop();
    cp.kubectl(["delete", "configmap", "addon-operator", "-n", ns.name()]).unwrap();
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    wait_for("the object is back", || object(cp, ns.name(), "service", "alpha").is_some());
    assert_eq!(label(ns.name(), "alpha"), "false");
    operator.stop();
}
