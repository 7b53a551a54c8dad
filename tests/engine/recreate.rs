//! What is not deleted for the sake of a field that cannot be changed.

use crate::support::*;
use serde_json::{Value, json};
use windlass_engine::{ChangeVerb, Disposition, Immutable, ReleaseRequest};

const ALLOW: &str = "windlass.dev/allow-data-loss";

fn claim(class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}}}})
}

fn fixed(value: &str) -> Value {
    let mut object = config_map("data", value);
    object["immutable"] = true.into();
    object
}

fn replacing(ns: &str, object: &Value) -> ReleaseRequest {
    let mut wanted = request(ns, "web", std::slice::from_ref(object), vec![]);
    wanted.options.objects.immutable = Immutable::Recreate;
    wanted
}

/// One object is planned so, and for a reason that says this.
async fn planned(wanted: &ReleaseRequest, verb: ChangeVerb, words: &[&str]) {
    let preview = engine().await.plan(wanted).await.unwrap();
    let change = &preview.changes[0];
    assert_eq!(change.verb, verb, "{change:?}");
    assert!(words.iter().all(|words| change.reason.contains(words)), "{}", change.reason);
}

/// It fails, names the object and says this, in the plan and in the deed.
async fn refused(wanted: &ReleaseRequest, object: &str, words: &[&str]) {
    planned(wanted, ChangeVerb::Blocked, words).await;
    let error = engine().await.reconcile(wanted).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(object) && words.iter().all(|words| text.contains(words)), "{text}");
    assert_eq!(error.disposition(), Disposition::Stall, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_to_be_kept_is_not_deleted_for_another() {
    let namespace = control_plane().namespace("keptfor").unwrap();
    let ns = namespace.name();
    let keep = |value: &str| {
        let mut object = fixed(value);
        // Data loss is another question.
        object["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep", ALLOW: "true"});
        replacing(ns, &object)
    };
    let uid = || get(ns, "configmap", "data").unwrap()["metadata"]["uid"].clone();
    engine().await.reconcile(&keep("1")).await.unwrap();
    let before = uid();
    let words =
        ["immutable", "its helm.sh/resource-policy is keep; have a revision without that annotation first"];
    refused(&keep("2"), &format!("ConfigMap {ns}/data"), &words).await;
    // The live object bears the annotation still.
    refused(&replacing(ns, &fixed("2")), &format!("ConfigMap {ns}/data"), &words).await;
    assert_eq!((value(ns, "data").unwrap(), uid()), ("1".to_owned(), before.clone()));
    engine().await.reconcile(&replacing(ns, &fixed("1"))).await.unwrap();
    engine().await.reconcile(&replacing(ns, &fixed("2"))).await.unwrap();
    assert!(value(ns, "data").unwrap() == "2" && uid() != before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_data_is_deleted_only_where_it_says_so() {
    let namespace = control_plane().namespace("claim").unwrap();
    let ns = namespace.name();
    let uid = || get(ns, "persistentvolumeclaim", "data").unwrap()["metadata"]["uid"].clone();
    engine().await.reconcile(&replacing(ns, &claim("slow"))).await.unwrap();
    let before = uid();
    let words = [
        "is immutable after creation",
        "its data would be deleted with it",
        "windlass.dev/allow-data-loss: \"true\"",
    ];
    refused(&replacing(ns, &claim("fast")), &format!("PersistentVolumeClaim {ns}/data"), &words).await;
    assert_eq!(uid(), before);
    let mut allowed = claim("fast");
    allowed["metadata"]["annotations"] = json!({ALLOW: "true"});
    let allowed = replacing(ns, &allowed);
    planned(&allowed, ChangeVerb::Recreate, &["its data is deleted with it"]).await;
    engine().await.reconcile(&allowed).await.unwrap();
    assert_ne!(uid(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_goes_with_its_objects_only_where_it_says_so() {
    let namespace = control_plane().namespace("scope").unwrap();
    let ns = namespace.name();
    let group = format!("{ns}.example.com");
    let name = format!("things.{group}");
    let crd = |scope: &str, allow: bool| {
        let mut crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name}, "spec": {"group": group, "scope": scope,
                "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
        if allow {
            crd["metadata"]["annotations"] = json!({ALLOW: "true"});
        }
        replacing(ns, &crd)
    };
    let uid = || get(ns, "crd", &name).unwrap()["metadata"]["uid"].clone();
    engine().await.reconcile(&crd("Namespaced", false)).await.unwrap();
    let one = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "one"}});
    control_plane().kubectl_with(["create", "-n", ns, "-f", "-"], &one.to_string()).unwrap();
    let before = uid();
    let words = ["would drop data of its 1 objects", "its scope is Cluster and was Namespaced"];
    refused(&crd("Cluster", false), &name, &words).await;
    assert!(uid() == before && get(ns, &name, "one").is_some());
    planned(&crd("Cluster", true), ChangeVerb::Recreate, &["its data is deleted with it"]).await;
    engine().await.reconcile(&crd("Cluster", true)).await.unwrap();
    assert_ne!(uid(), before);
    // Without objects nothing goes.
    engine().await.reconcile(&crd("Cluster", false)).await.unwrap();
    engine().await.reconcile(&crd("Namespaced", false)).await.unwrap();
    assert_eq!(get(ns, "crd", &name).unwrap()["spec"]["scope"], "Namespaced");
    engine().await.uninstall(&uninstall(ns, "web")).await.unwrap();
}
