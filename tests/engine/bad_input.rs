//! What cannot be done: each refusal says what, where and what would help.

use crate::support::*;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use windlass_cluster::{Cluster, ConnectOptions, DeleteOptions, Gvk, ObjectRef, Propagation};
use windlass_engine::{Disposition, Engine, EngineOptions, OperationProgress, Wait};
use windlass_testing::wait_until;

/// An engine of a user with these rights in a namespace: `[apiGroup, resource, verbs…]`.
async fn limited(ns: &str, user: &str, rights: &[[&str; 3]]) -> Engine {
    let plane = control_plane();
    let rules: Vec<Value> = rights
        .iter()
        .map(|[group, resource, verbs]| {
            json!({"apiGroups": [group], "resources": [resource], "verbs": verbs.split(' ').collect::<Vec<_>>()})
        })
        .collect();
    let named = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": user}});
    let (mut role, mut binding) = (named("Role"), named("RoleBinding"));
    role["rules"] = json!(rules);
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user});
    binding["subjects"] = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
    let both = format!("{role}\n---\n{binding}\n");
    plane.kubectl_with(["apply", "-n", ns, "-f", "-"], &both).unwrap();
    let kubeconfig = plane.kubeconfig_as(user, &["system:authenticated"]).unwrap();
    let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
    Engine::new(Cluster::connect(&options).await.unwrap(), parse, EngineOptions::once(user))
}

/// In a URL they mean another path: that of the namespace, or of all objects of the kind.
#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_paths_reach_no_server() {
    let plane = control_plane();
    let namespace = plane.namespace("dots").unwrap();
    let ns = namespace.name();
    let cluster = cluster().await;
    let gvk = || Gvk::new("v1", "ConfigMap");
    cluster.kinds().await.unwrap();
    let mark = plane.audit_mark().unwrap();
    for (namespace, name) in [(ns, ""), (ns, "."), (ns, ".."), (".", "a"), ("..", "a")] {
        let object = ObjectRef::new(gvk(), Some(namespace), name);
        for error in [
            cluster.get(&object).await.map(drop),
            cluster.delete(&object, DeleteOptions::default()).await.map(drop),
        ] {
            let Err(error) = error else { panic!("{object}") };
            assert!(
                error.to_string().contains("is not a name of an object or namespace"),
                "{object}: {error}"
            );
        }
    }
    assert_eq!(requests_since(mark, ns), [""; 0]);
    for name in [".", ".."] {
        let error = engine()
            .await
            .reconcile(&request(ns, "web", &[config_map(name, "1")], vec![]))
            .await
            .unwrap_err();
        let told = format!(
            "test/templates/{name}.yaml: metadata.name: {name:?} is not a name of an object or namespace"
        );
        assert_eq!(error.to_string(), told);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_named() {
    let namespace = control_plane().namespace("rights").unwrap();
    let ns = namespace.name();
    let all = [
        ["", "secrets", "list get create update delete"],
        ["", "configmaps", "get list patch create delete"],
        ["coordination.k8s.io", "leases", "create get update delete"],
    ];
    // Each right that is taken away, and what is said then.
    let cases = [
        ("", "secrets", "list", "list resource \"secrets\""),
        ("", "secrets", "create", "create resource \"secrets\""),
        ("", "secrets", "update", "update resource \"secrets\""),
        ("", "configmaps", "get", "get resource \"configmaps\""),
        ("", "configmaps", "patch", "patch resource \"configmaps\""),
        ("", "configmaps", "create", "create resource \"configmaps\""),
    ];
    for (i, (group, resource, verb, said)) in cases.iter().enumerate() {
        let texts: Vec<String> =
            all.iter()
                .map(|[_, r, verbs]| {
                    if r == resource {
                        verbs.replace(verb, "").trim().to_owned()
                    } else {
                        (*verbs).to_owned()
                    }
                })
                .collect();
        let rights: Vec<[&str; 3]> =
            all.iter().zip(&texts).map(|([g, r, _], verbs)| [*g, *r, verbs.as_str()]).collect();
        let user = format!("limited-{i}");
        let engine = limited(ns, &user, &rights).await;
        let asked = request(ns, &user, &[config_map(&user, "1")], vec![]);
        let error = engine.reconcile(&asked).await.unwrap_err().to_string();
        assert!(
            error.contains(&format!("User \"{user}\" cannot {said} in API group \"{group}\"")),
            "{error}"
        );
        assert!(error.contains(&format!("in the namespace \"{ns}\"")), "{error}");
    }
    let fewer = [all[0], ["", "configmaps", "get list patch create"], all[2]];
    let engine = limited(ns, "no-delete", &fewer).await;
    let asked = |names: &[&str]| {
        let objects: Vec<Value> = names.iter().map(|name| config_map(name, "1")).collect();
        request(ns, "no-delete", &objects, vec![])
    };
    engine.reconcile(&asked(&["kept", "dropped"])).await.unwrap();
    for error in [
        engine.reconcile(&asked(&["kept"])).await.map(drop),
        engine.uninstall(&uninstall(ns, "no-delete")).await.map(drop),
    ] {
        let error = error.unwrap_err().to_string();
        let said =
            "User \"no-delete\" cannot delete resource \"configmaps\" in API group \"\" in the namespace";
        assert!(error.contains(said), "{error}");
    }
    // Without the right to Leases the record alone is the lock.
    let engine = limited(ns, "no-leases", &all[..2]).await;
    let asked = request(ns, "no-leases", &[config_map("no-leases", "1")], vec![]);
    let done = engine.reconcile(&asked).await.unwrap();
    assert_eq!(done.created.len(), 1, "{done:?}");
    engine.uninstall(&uninstall(ns, "no-leases")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_watched_is_asked_for_and_that_is_told_at_once() {
    let namespace = control_plane().namespace("unwatched").unwrap();
    let ns = namespace.name();
    let table = [
        ("get patch create delete", Some("list")),
        ("get list patch create delete", Some("watch")),
        ("get list watch patch create delete", None),
    ];
    for (i, (verbs, missing)) in table.into_iter().enumerate() {
        let user = format!("unwatched-{i}");
        let rights = [
            ["", "secrets", "list get create update delete"],
            ["apps", "deployments", verbs],
            ["coordination.k8s.io", "leases", "create get update delete"],
        ];
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let listener = Arc::new(move |_: &_, step: &OperationProgress<'_>| {
            if let OperationProgress::Warning(text) = step {
                sink.lock().unwrap().push((*text).to_owned());
            }
        });
        let engine = limited(ns, &user, &rights).await.with_progress(listener, false);
        let mut asked = request(ns, &user, &[deployment(&user, "x:1")], vec![]);
        asked.options.wait = Wait::Ready;
        // A refusal that has to be waited out takes longer than the patience with a server that starts.
        asked.options.timeout = Duration::from_secs(25);
        engine.reconcile(&asked).await.unwrap();
        let mut gone = uninstall(ns, &user);
        gone.wait = true;
        gone.propagation = Propagation::Foreground;
        let done = engine.uninstall(&gone).await.unwrap();
        assert!(done.errors.is_empty() && get(ns, "deployment", &user).is_none(), "{done:?}");
        let told = told.lock().unwrap();
        // Once for the install, once for the uninstall.
        assert_eq!(told.len(), if missing.is_some() { 2 } else { 0 }, "{verbs}: {told:?}");
        for (text, verb) in told.iter().zip(missing.iter().cycle()) {
            let said = format!(
                "User \"{user}\" cannot {verb} resource \"deployments\" in API group \"apps\" in the namespace \"{ns}\": \
                 polling each object every 2s instead"
            );
            assert!(text.ends_with(&said), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_the_server_name_object_and_file() {
    let plane = control_plane();
    let namespace = plane.namespace("refuse").unwrap();
    let ns = namespace.name();
    let engine = engine().await;

    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"services": "0"}}});
    plane.kubectl_with(["apply", "-n", ns, "-f", "-"], &quota.to_string()).unwrap();
    wait_until("the quota is in force", Duration::from_secs(30), || {
        let status =
            get(ns, "resourcequota", "few").and_then(|q| q["status"]["hard"].as_object().map(|_| ()));
        Ok(status)
    })
    .unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let error = engine.reconcile(&request(ns, "quota", &[service], vec![])).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&format!("applying Service {ns}/s (test/templates/s.yaml): ")), "{text}");
    assert!(
        text.contains("exceeded quota: few, requested: services=1, used: services=0, limited: services=0"),
        "{text}"
    );
    assert_eq!(error.disposition(), Disposition::Retry, "a quota may be raised");

    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": ns},
        "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]},
            "validations": [{"expression": "object.data.value != 'forbidden'", "message": "no such value here"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": ns},
        "spec": {"policyName": ns, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}}}}});
    plane.kubectl_with(["apply", "-f", "-"], &format!("{policy}\n---\n{binding}\n")).unwrap();
    let probe = config_map("probe", "forbidden").to_string();
    wait_until("the policy is in force", Duration::from_secs(60), || {
        let refused = plane.kubectl_with(["apply", "--dry-run=server", "-n", ns, "-f", "-"], &probe).is_err();
        Ok(refused.then_some(()))
    })
    .unwrap();
    let error =
        engine.reconcile(&request(ns, "policy", &[config_map("c", "forbidden")], vec![])).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&format!("applying ConfigMap {ns}/c (test/templates/c.yaml): ")), "{text}");
    assert!(text.contains("no such value here"), "{text}");
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        plane.kubectl(["delete", kind, ns]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_the_way_is_named() {
    let plane = control_plane();
    let namespace = plane.namespace("stuck").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let with = |data: &str| {
        let mut map = config_map("m", data);
        map["immutable"] = json!(true);
        let mut wanted = request(ns, "web", &[map], vec![]);
        wanted.options.timeout = Duration::from_secs(2);
        wanted
    };
    engine.reconcile(&with("1")).await.unwrap();
    let error = engine.reconcile(&with("2")).await.unwrap_err();
    let text = error.to_string();
    assert!(text.ends_with("data: Forbidden: field is immutable when `immutable` is set"), "{text}");
    assert_eq!(error.disposition(), Disposition::Stall);

    let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    plane.kubectl(["patch", "configmap", "m", "-n", ns, "-p", hold]).unwrap();
    plane.kubectl(["delete", "configmap", "m", "-n", ns, "--wait=false"]).unwrap();
    let text = engine.reconcile(&with("1")).await.unwrap_err().to_string();
    assert!(
        text.contains(&format!("ConfigMap {ns}/m to be gone: it waits for the finalizers example.com/hold")),
        "{text}"
    );
    let mut gone = uninstall(ns, "web");
    gone.wait = true;
    gone.timeout = Duration::from_secs(1);
    let done = engine.uninstall(&gone).await.unwrap();
    assert!(done.errors.join("\n").contains("finalizers example.com/hold"), "{done:?}");
    let free = r#"{"metadata":{"finalizers":null}}"#;
    plane.kubectl(["patch", "configmap", "m", "-n", ns, "--type=merge", "-p", free]).unwrap();

    let foreign = config_map("theirs", "1").to_string();
    plane.kubectl_with(["create", "-n", ns, "-f", "-"], &foreign).unwrap();
    let error =
        engine.reconcile(&request(ns, "other", &[config_map("theirs", "2")], vec![])).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!(
            "unable to continue with install: ConfigMap \"theirs\" in namespace {ns:?} exists and cannot be imported"
        )),
        "{text}"
    );
    assert_eq!(value(ns, "theirs").as_deref(), Some("1"));
}
