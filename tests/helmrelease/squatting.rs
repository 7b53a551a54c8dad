//! HelmReleases of a tenant that name the release of somebody else, in a namespace where the tenant has no right.

use serde_json::{Value, json};
use windlass_cluster::{Gvk, ObjectRef};
use windlass_controller::ControllerContext;
use windlass_engine::ReleaseId;
use windlass_testing::{Namespace, wait_until};

use super::support::{LIMIT, Running, chart, condition, package};

const POLICY: &str = "windlass.dev/image-policy";

/// The namespaces beside the tenant's: whose HelmReleases are older, and where all releases are.
struct Others {
    platform: Namespace<'static>,
    victim: Namespace<'static>,
}

impl Others {
    fn of(running: &Running) -> Self {
        let namespace = |name: &str| running.cp.namespace(name).unwrap();
        Self { platform: namespace("platform"), victim: namespace("victim") }
    }

    /// A HelmRelease of the platform, with the rights of the operator. `more`: of its spec.
    fn release(&self, running: &Running, name: &str, size: &str, more: &Value) {
        let source = json!({"kind": "OCIRepository", "name": "demo", "namespace": running.ns.name()});
        let mut spec = more.clone();
        spec["chartRef"] = source;
        spec["targetNamespace"] = self.victim.name().into();
        spec["releaseName"] = name.into();
        spec["values"] = json!({"size": size});
        running.release_in(self.platform.name(), name, &spec);
    }

    fn wait(&self, running: &Running, name: &str, state: &str) {
        let get = || running.cp.find(&["helmrelease", name, "-n", self.platform.name()]);
        let done = || {
            let object = get()?.unwrap_or_default();
            let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            Ok((current && condition(&object, "Ready") == state).then_some(()))
        };
        wait_until(state, LIMIT, done)
            .unwrap_or_else(|e| panic!("{e}: {:#}", get().unwrap().unwrap()["status"]));
    }

    /// What there is in the namespace of the releases: objects and records.
    fn left(&self, running: &Running, name: &str) -> (String, String) {
        let get = |kind: &str, namespace: &str, selector: &str| {
            running.cp.kubectl(["get", kind, "-n", namespace, "-o", "name", selector]).unwrap()
        };
        let objects =
            get("configmap", self.victim.name(), "--field-selector=metadata.name!=kube-root-ca.crt");
        let objects = objects.lines().filter(|line| line.ends_with(&format!("/{name}"))).collect();
        (objects, get("secret", self.victim.name(), &format!("-lowner=helm,name={name}")))
    }
}

/// A tenant with all rights in its own namespace, and none elsewhere.
async fn prepared(name: &str) -> (Running, Others) {
    let running = Running::prepare(name).await;
    let others = Others::of(&running);
    let own = running.ns.name();
    running.cp.kubectl(["create", "serviceaccount", "tenant", "-n", own]).unwrap();
    let account = format!("--serviceaccount={own}:tenant");
    running
        .cp
        .kubectl(["create", "rolebinding", "tenant", "-n", own, "--clusterrole=admin", &account])
        .unwrap();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    let empty = [("Chart.yaml", "apiVersion: v2\nname: empty\nversion: 1.0.0\n".to_owned())];
    running.publish("empty", "1.0.0", package(&empty));
    (running, others)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_names_a_release_without_rights_keeps_nobody_from_it() {
    let (mut running, others) = prepared("squat").await;
    running.start_beside(&[others.platform.name()]).await;
    let spec = json!({"targetNamespace": others.victim.name(), "releaseName": "prom", "serviceAccountName": "tenant"});
    running.release("a-squat", &spec);
    let refused = |o: &Value| o["status"]["conditions"].to_string().contains("forbidden");
    running.wait("forbidden", refused, "a-squat");
    // The same records, too: those are not the tenant's to read.
    let mut stored = spec.clone();
    stored["storageNamespace"] = others.victim.name().into();
    running.release("b-squat", &stored);
    running.wait("forbidden", refused, "b-squat");

    let records = json!({"storageNamespace": others.victim.name()});
    others.release(&running, "prom", "one", &records);
    others.wait(&running, "prom", "True InstallSucceeded");
    // In another order.
    running.stop().await;
    running.start_beside(&[others.platform.name()]).await;
    running.ask("a-squat", "1");
    running.ask("b-squat", "1");
    others.release(&running, "prom", "two", &records);
    others.wait(&running, "prom", "True UpgradeSucceeded");
    for name in ["a-squat", "b-squat"] {
        let shown = running.get("helmrelease", name);
        assert!(!shown.to_string().contains("True InstallSucceeded"), "{shown}");
    }
    assert!(others.left(&running, "prom").0.contains("configmap/prom"));
    // Neither does the deletion of one of them touch the release, nor is that left behind when its own object is deleted.
    running
        .cp
        .kubectl(["delete", "helmrelease", "a-squat", "-n", running.ns.name(), "--timeout=60s"])
        .unwrap();
    assert!(others.left(&running, "prom").0.contains("configmap/prom"));
    running
        .cp
        .kubectl(["delete", "helmrelease", "prom", "-n", others.platform.name(), "--timeout=60s"])
        .unwrap();
    assert_eq!(others.left(&running, "prom"), (String::new(), String::new()));
    running.end().await;
}

/// Of one with the same records only the first one has it, also after a restart; when it is gone, the other one has.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_of_the_object_that_has_deployed_it() {
    let mut running = Running::prepare("same").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    running.release("web", &json!({"releaseName": "shared"}));
    running.wait_ready("web", "True InstallSucceeded");
    running.release("another", &json!({"releaseName": "shared", "values": {"size": "two"}}));
    let text =
        format!("release {0}/shared belongs to {0}/web already: choose another name", running.ns.name());
    let refused = |o: &Value| o["status"]["conditions"].to_string().contains(&text);
    running.wait("refused", refused, "another");
    running.stop().await;
    running.start().await;
    running.ask("another", "1");
    running.ask("web", "1");
    running.wait("handled", |o| o["status"]["lastHandledReconcileAt"] == "1", "web");
    running.wait("handled", |o| o["status"]["lastHandledReconcileAt"] == "1" && refused(o), "another");
    running.wait_ready("web", "True InstallSucceeded");
    assert_eq!(running.records(), ["deployed"]);
    let delete = |name: &str| {
        running
            .cp
            .kubectl(["delete", "helmrelease", name, "-n", running.ns.name(), "--timeout=60s"])
            .unwrap();
    };
    running.release("third", &json!({"releaseName": "shared"}));
    running.wait("refused", refused, "third");
    delete("third");
    assert_eq!(running.records(), ["deployed"], "it was not that one's to uninstall");
    delete("web");
    running.wait_ready("another", "True InstallSucceeded");
    running.end().await;
}

/// The settings of a release that is only called as another one do not reach the objects of that, whatever its object becomes during a pass.
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_a_release_reach_no_object_of_another_one_of_its_name() {
    let (mut running, others) = prepared("govern").await;
    let context = running.start_beside(&[others.platform.name()]).await;
    let own = running.ns.name().to_owned();
    // Passes take long.
    let references: Vec<Value> =
        (0..1000).map(|i| json!({"kind": "ConfigMap", "name": format!("n{i}"), "optional": true})).collect();
    running.release(
        "squat",
        &json!({
            "targetNamespace": others.victim.name(), "releaseName": "late", "serviceAccountName": "tenant",
            "chartRef": {"kind": "OCIRepository", "name": "empty"}, "valuesFrom": references,
        }),
    );
    running.cp.kubectl(["annotate", "helmrelease", "squat", "-n", &own, &format!("{POLICY}=force")]).unwrap();
    running.wait_ready("squat", "True InstallSucceeded");
    others.release(&running, "late", "one", &json!({}));
    others.wait(&running, "late", "True InstallSucceeded");
    let id = ReleaseId::new(others.victim.name(), "late");
    let storages = |context: &ControllerContext| {
        let all = context.release_settings.of(&id);
        all.into_iter().map(|found| found.release.storage).collect::<Vec<_>>()
    };
    wait_until("both have settings", LIMIT, || Ok((storages(&context).len() == 2).then_some(()))).unwrap();
    let object = ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some(others.victim.name()), "late");
    for (storage, expected) in [(own.as_str(), false), (others.platform.name(), true)] {
        let runner = context.runner.clone().with_storage_namespace(storage, false);
        let found = runner.engine().records().has_object(&id, &object).await.unwrap();
        assert_eq!(found, Some(expected), "{storage}");
    }
    // A pass runs, and its object goes to a cluster that nobody reaches.
    running.ask("squat", "1");
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let patch = r#"{"spec":{"kubeConfig":{"secretRef":{"name":"nothere"}},"serviceAccountName":null}}"#;
    running.cp.kubectl(["patch", "helmrelease", "squat", "-n", &own, "--type=merge", "-p", patch]).unwrap();
    running.wait("unreachable", |o| condition(o, "Ready") == "False RESTClientError", "squat");
    for _ in 0..20 {
        assert_eq!(storages(&context), [others.platform.name()]);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    running.end().await;
}
