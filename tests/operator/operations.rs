//! What hooks ask to be done to objects, done on a real API server.

use serde_json::{Value, json};
use windlass_cluster::{Cluster, ConnectOptions};
use windlass_modules::shell_hooks::apply_operations::apply_operations;
use windlass_modules::shell_hooks::operations::parse;
use windlass_testing::Namespace;

use crate::support::{control_plane, object, wait_for};

struct World {
    cluster: Cluster,
    namespace: Namespace<'static>,
}

impl World {
    async fn new() -> Self {
        let kubeconfig = Some(control_plane().kubeconfig().to_owned());
        let options = ConnectOptions { kubeconfig, ..ConnectOptions::default() };
        let cluster = Cluster::connect(&options).await.expect("a cluster");
        Self { cluster, namespace: control_plane().namespace("operations").unwrap() }
    }

    async fn run(&self, operations: &[Value]) -> Result<(), String> {
        let text: String = operations.iter().map(|o| format!("{o}\n")).collect();
        apply_operations(&self.cluster, &parse(&text).unwrap()).await
    }

    fn map(&self, name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": self.namespace.name()},
            "data": {"value": value}})
    }

    /// An operation on a ConfigMap, with more of its fields.
    fn on(&self, operation: &str, name: &str, more: &Value) -> Value {
        let mut whole = json!({"operation": operation, "apiVersion": "v1", "kind": "ConfigMap",
            "namespace": self.namespace.name(), "name": name});
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        whole
    }

    fn get(&self, kind: &str, name: &str) -> Option<Value> {
        object(control_plane(), self.namespace.name(), kind, name)
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.get("configmap", name).map(|o| o["data"]["value"].clone())
    }
}

fn make(operation: &str, object: &Value) -> Value {
    json!({"operation": operation, "object": object})
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_made_changed_and_deleted_as_hooks_ask() {
    let world = World::new().await;
    let (first, second) = (world.map("a", "1"), world.map("a", "2"));

    // Each kind of making, where the object is there and where it is not.
    world.run(&[make("Create", &first)]).await.unwrap();
    let refused = world.run(&[make("Create", &second)]).await.unwrap_err();
    assert!(refused.starts_with("create ConfigMap ") && refused.contains("already exists"), "{refused}");
    world.run(&[make("CreateIfNotExists", &second)]).await.unwrap();
    assert_eq!(world.value("a"), Some("1".into()));
    world.run(&[make("CreateOrUpdate", &second)]).await.unwrap();
    assert_eq!(world.value("a"), Some("2".into()));
    let mut unnamed = world.map("", "made");
    unnamed["metadata"] = json!({"generateName": "made-", "namespace": world.namespace.name()});
    world.run(&[make("Create", &unnamed), make("Create", &unnamed)]).await.unwrap();
    let names =
        control_plane().kubectl(["get", "configmaps", "-n", world.namespace.name(), "-o", "name"]).unwrap();
    assert_eq!(names.lines().filter(|n| n.starts_with("configmap/made-")).count(), 2, "{names}");

    // All are tried, whichever fails; to delete what is not there is no failure.
    let none = json!({});
    let mixed = [
        make("Create", &first),
        world.on("Delete", "nowhere", &none),
        world.on("JSONPatch", "nowhere", &json!({"jsonPatch": [{"op": "remove", "path": "/data"}]})),
        make("Create", &world.map("b", "1")),
    ];
    let failed = world.run(&mixed).await.unwrap_err();
    let lines: Vec<&str> = failed.lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("patch ConfigMap "), "{failed}");
    assert_eq!(world.value("b"), Some("1".into()));

    // Patches; also of a part, and of what may be missing.
    let steps =
        json!([{"op": "add", "path": "/data/more", "value": "x"}, {"op": "remove", "path": "/data/value"}]);
    let ignored = json!({"jsonPatch": steps, "ignoreMissingObject": true});
    world
        .run(&[
            world.on("JSONPatch", "a", &json!({"jsonPatch": steps})),
            world.on("JSONPatch", "nowhere", &ignored),
        ])
        .await
        .unwrap();
    assert_eq!(world.get("configmap", "a").unwrap()["data"], json!({"more": "x"}));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": world.namespace.name()},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    let status = json!({"metadata": {"labels": {"part": "no"}}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let mut part = world.on("MergePatch", "s", &json!({"mergePatch": status, "subresource": "/status"}));
    part["kind"] = "Service".into();
    world.run(&[make("Create", &service), part]).await.unwrap();
    let patched = world.get("service", "s").unwrap();
    assert_eq!(patched["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1", "{patched}");

    // A deletion is over when the object is gone.
    let mut slow = world.map("slow", "1");
    slow["metadata"]["finalizers"] = json!(["windlass.test/hold"]);
    world.run(&[make("Create", &slow)]).await.unwrap();
    let delete = world.on("Delete", "slow", &none);
    let delete = parse(&delete.to_string()).unwrap();
    let cluster = world.cluster.clone();
    let deletion = tokio::spawn(async move { apply_operations(&cluster, &delete).await });
    wait_for("the deletion has begun", || {
        world.get("configmap", "slow").unwrap()["metadata"]["deletionTimestamp"].is_string()
    });
    assert!(!deletion.is_finished(), "it is waited for");
    let free = json!({"mergePatch": {"metadata": {"finalizers": null}}});
    world.run(&[world.on("MergePatch", "slow", &free)]).await.unwrap();
    deletion.await.unwrap().unwrap();
    assert_eq!(world.value("slow"), None);

    // What belongs to an object goes with it, or stays.
    for (operation, stays) in [("DeleteNonCascading", true), ("DeleteInBackground", false)] {
        world.run(&[make("Create", &world.map("owner", "1"))]).await.unwrap();
        let uid = world.get("configmap", "owner").unwrap()["metadata"]["uid"].clone();
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
        let name = operation.to_lowercase();
        let mut owned = world.map(&name, "1");
        owned["metadata"]["ownerReferences"] = json!([owner]);
        world.run(&[make("Create", &owned), world.on(operation, "owner", &none)]).await.unwrap();
        wait_for("the owner is gone", || world.value("owner").is_none());
        if stays {
            wait_for("it belongs to nobody", || {
                world.get("configmap", &name).unwrap()["metadata"]["ownerReferences"].is_null()
            });
        } else {
            wait_for("it goes, too", || world.value(&name).is_none());
        }
    }
}
