//! Pull secrets that objects of charts' kinds name: awaited, given to ServiceAccounts, and taken from them again.

use serde_json::{Value, json};
use windlass_testing::ControlPlane;

use super::chart_objects;
use super::chart_resources::Running;

/// The names of the pull secrets of a ServiceAccount.
fn secrets(cp: &ControlPlane, namespace: &str, account: &str) -> String {
    let path = "jsonpath={.imagePullSecrets[*].name}";
    cp.kubectl(["get", "serviceaccount", account, "-n", namespace, "--ignore-not-found", "-o", path]).unwrap()
}

fn create_secret(cp: &ControlPlane, namespace: &str, name: &str) {
    cp.kubectl(["create", "secret", "generic", name, "-n", namespace, "--from-literal=a=b"]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_names_the_pull_secret() {
    let mut own = Running::start().await;
    let (cp, n) = (own.cp, own.ns.name().to_owned());
    let kind = format!("webs.{}", own.group());
    let account = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: \"{{ .Release.Name }}\"}\nimagePullSecrets: [{name: of-the-chart}]\n";
    own.chart("0.1.0", "size: {type: integer}", account);
    let image = json!({"type": "object", "properties": {"pullSecret": {"type": "string"}}});
    own.resource("web", &json!({"schema": {"overlay": {"properties": {"image": image}}}}));
    own.ready("web", "True Registered");
    let user = r#"{"imagePullSecrets":[{"name":"of-a-user"}]}"#;
    own.wait("the namespace has its account", || {
        cp.kubectl(["patch", "serviceaccount", "default", "-n", &n, "--type=merge", "-p", user]).is_ok()
    });
    // Nothing is deployed before the Secret is there: Pods would not get it later.
    own.web("one", &json!({"image": {"pullSecret": "registry"}}));
    let ready = "{.status.conditions[?(@.type==\"Ready\")].reason}";
    own.wait("its absence is a condition", || own.get(&kind, "one", ready) == "PullSecretUnavailable");
    let message = own.get(&kind, "one", "{.status.conditions[?(@.type==\"Irreconcilable\")].message}");
    assert!(
        message.starts_with(&format!("Secret {n}/registry, with which images are to be pulled")),
        "{message}"
    );
    assert_eq!((own.data("one"), secrets(cp, &n, "default")), (String::new(), "of-a-user".to_owned()));
    create_secret(cp, &n, "registry");
    own.wait("its appearance is noticed", || own.get(&kind, "one", ready) == "Ready");
    let shown = || [secrets(cp, &n, "default"), secrets(cp, &n, "one")];
    assert_eq!(shown(), ["of-a-user registry", "of-the-chart registry"]);
    // What somebody takes away comes back, and another name replaces the one before.
    cp.kubectl(["patch", "serviceaccount", "default", "-n", &n, "--type=merge", "-p", user]).unwrap();
    own.wait("the account has it again", || secrets(cp, &n, "default") == "of-a-user registry");
    create_secret(cp, &n, "other");
    own.web("one", &json!({"image": {"pullSecret": "other"}}));
    own.wait("accounts have the other one", || shown() == ["of-a-user other", "of-the-chart other"]);
    // A deployed release stays while the Secret is gone.
    cp.kubectl(["delete", "secret", "other", "-n", &n]).unwrap();
    own.wait("its deletion is a condition", || own.get(&kind, "one", ready) == "PullSecretUnavailable");
    own.delete("configmap", "one", true);
    own.wait("drift is corrected", || own.data("one") == "1 0.1.0");
    create_secret(cp, &n, "other");
    own.wait("it is ready again", || own.get(&kind, "one", ready) == "Ready");
    // Without a name it goes, and with the object.
    own.web("one", &json!({}));
    own.wait("accounts have it no more", || shown() == ["of-a-user", "of-the-chart"]);
    own.web("one", &json!({"image": {"pullSecret": "registry"}}));
    own.wait("accounts have it again", || shown() == ["of-a-user registry", "of-the-chart registry"]);
    own.web("two", &json!({"image": {"pullSecret": "registry"}}));
    own.wait("two objects need it", || own.get(&kind, "two", ready) == "Ready");
    own.delete(&kind, "one", true);
    assert_eq!(secrets(cp, &n, "default"), "of-a-user registry");
    own.delete(&kind, "two", true);
    assert_eq!(secrets(cp, &n, "default"), "of-a-user");
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_names_the_pull_secret_of_a_kind_of_the_file() {
    let mut own = chart_objects::Running::start(&["Cache"]).await;
    let (cp, n) = (own.cp, own.ns.name().to_owned());
    create_secret(cp, &n, "registry");
    let metadata = json!({"name": "web", "annotations": {"windlass.dev/pull-secret": "registry"}});
    own.apply_in(&n, "Cache", &metadata, &json!({"size": 2}));
    own.ready("Cache", "web");
    assert_eq!(secrets(cp, &n, "default"), "registry");
    assert_eq!(own.object("Cache", "web").unwrap()["status"]["pullSecret"], "registry");
    own.annotate("Cache", "web", "windlass.dev/pull-secret-");
    own.wait("it is taken away", || secrets(cp, &n, "default").is_empty());
    own.wait("the status says so", || {
        own.object("Cache", "web").unwrap()["status"].get("pullSecret").unwrap_or(&Value::Null).is_null()
    });
    own.annotate("Cache", "web", "windlass.dev/pull-secret=a/b");
    let message = own.wait_condition("Cache", "web", "Irreconcilable", "True PullSecretUnavailable");
    assert!(message.starts_with("annotation windlass.dev/pull-secret: \"a/b\" is not the name"), "{message}");
    own.delete("Cache", "web");
    own.end().await;
}
