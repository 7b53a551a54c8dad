//! Pull secrets on real ServiceAccounts: added for objects, and removed with the last of them.

use serde_json::{Value, json};
use windlass_cluster::{Cluster, ConnectOptions};
use windlass_controller::{AccountState, PullSecretOwner, PullSecretState};
use windlass_testing::{ControlPlane, shared, wait_until};

use super::LIMIT;

const MANAGER: &str = "windlass-pull-secret";

/// The names of the pull secrets of a ServiceAccount.
fn listed(cp: &ControlPlane, namespace: &str, account: &str) -> Vec<String> {
    let live = cp.get(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}")).unwrap();
    let items = live["imagePullSecrets"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

/// Applies a ServiceAccount as a release does.
fn apply_account(cp: &ControlPlane, namespace: &str, name: &str, more: &Value) {
    let mut object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}});
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let apply = ["apply", "--server-side", "--field-manager=helm", "-f", "-"];
    cp.kubectl_with(apply, &object.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_secret_is_added_and_removed_with_its_last_object() {
    let cp = shared().unwrap();
    let ns = cp.namespace("pull").unwrap();
    let n = ns.name();
    let kubeconfig = Some(cp.kubeconfig().to_owned());
    let client = Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
    let owner =
        |object: &'static str| PullSecretOwner { client: &client, namespace: n, object, manager: MANAGER };
    let (plants, roses) = (owner("LibertyApp.example.com/plants"), owner("LibertyApp.example.com/roses"));
    wait_until("the namespace has its account", LIMIT, || {
        let found =
            cp.kubectl(["get", "serviceaccount", "default", "-n", n, "--ignore-not-found", "-o", "name"])?;
        Ok((!found.is_empty()).then_some(()))
    })
    .unwrap();
    apply_account(cp, n, "own", &json!({"automountServiceAccountToken": true}));
    apply_account(cp, n, "declared", &json!({"imagePullSecrets": [{"name": "of-the-chart"}]}));
    let user = r#"{"imagePullSecrets":[{"name":"of-a-user"}]}"#;
    cp.kubectl(["patch", "serviceaccount", "default", "-n", n, "--type=merge", "-p", user]).unwrap();
    let accounts = ["default", "own", "declared", "nobody"];
    // There is no such Secret: nothing is written.
    assert_eq!(plants.add("registry", &accounts).await.unwrap(), PullSecretState::Absent);
    assert_eq!(listed(cp, n, "own"), [""; 0]);
    cp.kubectl(["create", "secret", "generic", "registry", "-n", n, "--from-literal=a=b"]).unwrap();
    let states = |own: &AccountState| {
        let applied = AccountState::Applied("helm".to_owned());
        let all = [
            ("default", own.clone()),
            ("own", own.clone()),
            ("declared", applied),
            ("nobody", AccountState::Missing),
        ];
        PullSecretState::Added(all.map(|(name, state)| (name.to_owned(), state)).into())
    };
    assert_eq!(plants.add("registry", &accounts).await.unwrap(), states(&AccountState::Written));
    assert_eq!(plants.add("registry", &accounts).await.unwrap(), states(&AccountState::Unchanged));
    assert_eq!(listed(cp, n, "default"), ["of-a-user", "registry"]);
    assert_eq!(listed(cp, n, "declared"), ["of-the-chart"]);
    // Of an object without fields, such as `default`, the API server keeps no managers.
    let live = cp.get(&format!("/api/v1/namespaces/{n}/serviceaccounts/own")).unwrap();
    let managers = live["metadata"]["managedFields"].as_array().unwrap();
    let own = managers.iter().find(|entry| entry["manager"] == MANAGER).unwrap();
    assert!(own["fieldsV1"].get("f:imagePullSecrets").is_some(), "{own}");
    // The next upgrade of the chart leaves it there.
    apply_account(cp, n, "own", &json!({"automountServiceAccountToken": false}));
    assert_eq!(listed(cp, n, "own"), ["registry"]);
    // Another object needs it, too: it goes with the last one, and what a user added stays.
    roses.add("registry", &accounts).await.unwrap();
    plants.remove(&accounts).await.unwrap();
    assert_eq!(listed(cp, n, "default"), ["of-a-user", "registry"]);
    roses.remove(&accounts).await.unwrap();
    assert_eq!(listed(cp, n, "default"), ["of-a-user"]);
    assert_eq!(listed(cp, n, "own"), [""; 0]);
    let live = cp.get(&format!("/api/v1/namespaces/{n}/serviceaccounts/default")).unwrap();
    assert!(!live["metadata"]["annotations"].to_string().contains("windlass.dev/pull-secret"), "{live}");
    roses.remove(&accounts).await.unwrap();
}
