//! Objects that exist before a module: nobody's are taken, another release's only on demand.

use serde_json::json;

use crate::support::{Modules, Operator, control_plane, object};

#[test]
fn an_object_of_another_release_is_left_alone_unless_that_is_asked_for() {
    let cp = control_plane();
    let ns = cp.namespace("adopt").unwrap();
    let modules = Modules::new();
    modules.small("001-web").enable(&["web"]);
    let theirs = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "web", "namespace": ns.name(), "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "theirs", "meta.helm.sh/release-namespace": ns.name()},
        },
        "data": {"size": "theirs"},
    });
    let nobodys = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": ns.name()},
        "spec": {"ports": [{"port": 80}]},
    });
    for object in [theirs, nobodys] {
        cp.kubectl_with(["create", "-f", "-"], &object.to_string()).unwrap();
    }
    let size = || object(cp, ns.name(), "configmap", "web").unwrap()["data"]["size"].clone();
    let operator = Operator::start(cp, ns.name(), modules.path());
    operator.wait_log(&["\"module\":\"web\"", &format!("it belongs to release {}/theirs", ns.name())]);
    assert_eq!(size(), "theirs");
    operator.stop();

    let operator = Operator::start_with(cp, ns.name(), modules.path(), &["--take-ownership"]);
    operator.wait_converged();
    assert_eq!(size(), "1");
    let service = object(cp, ns.name(), "service", "web").unwrap();
    assert_eq!(
        service["metadata"]["annotations"]["meta.helm.sh/release-name"], "web",
        "nobody's is taken as ever"
    );
    operator.stop();
}
