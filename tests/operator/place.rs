//! Modules with a namespace and a ServiceAccount of their own.

use crate::support::{Modules, Operator, control_plane, history, object, wait_for};

/// The annotations of a chart, as its file takes them.
fn annotated(modules: &Modules, directory: &str, annotations: &str) {
    let name = directory.split_once('-').unwrap().1;
    let text = format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\nannotations:\n{annotations}");
    modules.write(&format!("{directory}/Chart.yaml"), &text);
}

#[test]
fn a_module_lives_where_its_chart_says() {
    let cp = control_plane();
    let (ns, other) = (cp.namespace("place").unwrap(), cp.namespace("elsewhere").unwrap());
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    annotated(&modules, "002-beta", &format!("  windlass.dev/namespace: {}\n", other.name()));
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    assert!(object(cp, ns.name(), "configmap", "beta").is_none());
    assert!(object(cp, other.name(), "configmap", "beta").is_some());
    assert_eq!(history(cp, other.name(), "beta"), [(1, "deployed".into())]);
    cp.kubectl(["delete", "service", "beta", "-n", other.name()]).unwrap();
    wait_for("the Service comes back", || object(cp, other.name(), "service", "beta").is_some());
    operator.stop();

    // It moves back while nobody looks: the release elsewhere goes.
    modules.small("002-beta");
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    assert!(object(cp, ns.name(), "configmap", "beta").is_some());
    wait_for("the old release goes", || object(cp, other.name(), "configmap", "beta").is_none());
    wait_for("its record goes", || cp.helm4(["list", "-n", other.name(), "-q"]).unwrap().is_empty());
    assert_eq!(history(cp, ns.name(), "beta"), [(1, "deployed".into())]);
    operator.stop();
}

#[test]
fn a_module_may_do_what_its_service_account_may() {
    let cp = control_plane();
    let ns = cp.namespace("account").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    annotated(&modules, "001-alpha", "  windlass.dev/service-account: deployer\n");
    cp.kubectl(["create", "serviceaccount", "deployer", "-n", ns.name()]).unwrap();
    let mark = cp.audit_mark().unwrap();
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    let user = format!("system:serviceaccount:{}:deployer", ns.name());
    operator.wait_log(&["\"module\":\"alpha\"", &user, "forbidden"]);
    assert!(object(cp, ns.name(), "configmap", "alpha").is_none());
    assert!(object(cp, ns.name(), "configmap", "beta").is_some(), "the others go on");
    let admin = ["create", "rolebinding", "deployer", "--clusterrole=admin", "-n", ns.name()];
    cp.kubectl(admin.iter().copied().chain([format!("--serviceaccount={}:deployer", ns.name()).as_str()]))
        .unwrap();
    wait_for("it is applied", || object(cp, ns.name(), "service", "alpha").is_some());
    wait_for("it is released", || {
        history(cp, ns.name(), "alpha").last().is_some_and(|(_, status)| status == "deployed")
    });
    operator.stop();
    let events = cp.audit_since(mark).unwrap();
    let wrote = |name: &str| {
        let of = events.iter().filter(|e| e.is_write() && e.namespace == ns.name() && e.name == name);
        of.filter(|e| ["configmaps", "services", "deployments"].contains(&e.resource.as_str()))
            .filter(|e| e.user_agent.starts_with("windlass/"))
            .map(|e| e.user.clone())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(wrote("alpha").into_iter().collect::<Vec<_>>(), [user]);
    assert_ne!(wrote("beta").len(), 0);
}

#[test]
fn hooks_may_write_what_the_service_account_of_their_module_may() {
    let cp = control_plane();
    let (ns, other) = (cp.namespace("account-hooks").unwrap(), cp.namespace("not-theirs").unwrap());
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    annotated(&modules, "001-alpha", "  windlass.dev/service-account: deployer\n");
    cp.kubectl(["create", "serviceaccount", "deployer", "-n", ns.name()]).unwrap();
    let account = format!("--serviceaccount={}:deployer", ns.name());
    cp.kubectl(["create", "rolebinding", "deployer", "--clusterrole=admin", "-n", ns.name(), &account])
        .unwrap();
    let make = |name: &str| {
        let object = |namespace: &str| {
            format!(
                r#"{{"operation":"CreateOrUpdate","object":{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"by-{name}","namespace":"{namespace}"}}}}}}"#
            )
        };
        format!("echo '{}{}' > \"$KUBERNETES_PATCH_PATH\"", object(ns.name()), object(other.name()))
    };
    for (directory, name) in [("001-alpha", "alpha"), ("002-beta", "beta")] {
        let config = "configVersion: v1\nafterHelm: 1\nafterDeleteHelm: 1";
        modules.hook(&format!("{directory}/hooks/makes"), config, &make(name));
    }
    let mark = cp.audit_mark().unwrap();
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    let user = format!("system:serviceaccount:{}:deployer", ns.name());
    let there = |namespace: &str, name: &str| object(cp, namespace, "configmap", name).is_some();
    operator.wait_log(&["\"module\":\"alpha\"", "001-alpha/hooks/makes", &user, "forbidden", other.name()]);
    assert!(there(ns.name(), "by-alpha") && !there(other.name(), "by-alpha"), "{}", operator.log_end());
    // Without an account of its own a module's hooks write as the operator.
    assert!(there(ns.name(), "by-beta") && there(other.name(), "by-beta"));
    // The account's rights are what counts, also when the module goes.
    let account = ["create", "rolebinding", "deployer", "--clusterrole=admin", "-n", other.name(), &account];
    cp.kubectl(account).unwrap();
    wait_for("it is made once it may be", || there(other.name(), "by-alpha"));
    cp.kubectl(["delete", "configmap", "by-alpha", "-n", other.name()]).unwrap();
    modules.enable(&["beta"]);
    wait_for("it is made once more when the module goes", || there(other.name(), "by-alpha"));
    operator.stop();
    let events = cp.audit_since(mark).unwrap();
    let writers = |name: &str| {
        let of = events.iter().filter(|e| e.is_write() && e.name == name && e.code < 400);
        of.filter(|e| e.user_agent.starts_with("windlass/"))
            .map(|e| e.user.clone())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(writers("by-alpha").into_iter().collect::<Vec<_>>(), [user]);
    assert!(writers("by-beta").len() == 1 && writers("by-beta") != writers("by-alpha"));
}
