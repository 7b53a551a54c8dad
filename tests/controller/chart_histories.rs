//! What others write of objects of charts' kinds and of their releases, which objects are the process' own, and how many revisions are kept.

use serde_json::json;

use super::chart_objects::{GROUP, Running, Setup};
use super::helmchart_records::forge;

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_another_client_left_failed_is_followed_by_another() {
    let mut own =
        Running::start_with(&["Cache"], Setup { fields: ", reconcilePeriod: 1h", ..Setup::default() }).await;
    let (n, root) = (own.ns.name().to_owned(), own.root.path().to_str().unwrap().to_owned());
    own.apply("Cache", "web", &json!({"size": 2}));
    own.ready("Cache", "web");
    let upgrade = ["upgrade", "web", &root, "-n", &n, "--set", "size=9", "--set", "broken=true"];
    own.cp.helm4(upgrade).unwrap_err();
    // The watch of records tells it.
    own.wait("the values are the object's again", || {
        own.data("web", "size") == "2" && own.history("web").last().is_some_and(|last| last == "deployed")
    });
    assert_eq!(own.history("web").len(), 3);
    own.ready("Cache", "web");
    assert_eq!(own.object("Cache", "web").unwrap()["status"]["revision"], 3);
    own.delete("Cache", "web");
    assert_eq!(own.history("web"), [""; 0]);
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newest_revision_that_is_superseded_is_followed_by_another() {
    let mut own =
        Running::start_with(&["Cache"], Setup { fields: ", reconcilePeriod: 1h", ..Setup::default() }).await;
    own.apply("Cache", "web", &json!({"size": 2}));
    own.ready("Cache", "web");
    assert_eq!(own.history("web"), ["deployed"]);
    let namespace = own.ns.name().to_owned();
    forge((own.cp, &namespace), "web", 1, |record| record["info"]["status"] = "superseded".into());
    // The watch of records tells it.
    own.wait("there is a deployed revision", || own.history("web") == ["superseded", "deployed"]);
    own.ready("Cache", "web");
    assert_eq!(own.object("Cache", "web").unwrap()["status"]["revision"], 2);
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_revisions_are_kept_and_fields_of_others_stay() {
    let mut own = Running::start(&["Cache"]).await;
    for size in 1..=12 {
        own.apply("Cache", "web", &json!({"size": size}));
        own.wait("it is upgraded", || own.data("web", "size") == size.to_string());
        own.ready("Cache", "web");
    }
    let history = own.history("web");
    assert_eq!((history.len(), history.last().map(String::as_str)), (10, Some("deployed")));
    // A correction removes nothing that the chart does not have.
    let patch = r#"{"metadata":{"labels":{"theirs":"yes"}},"data":{"size":"99","theirs":"kept"}}"#;
    own.cp.kubectl(["patch", "configmap", "web", "-n", own.ns.name(), "--type=merge", "-p", patch]).unwrap();
    own.wait("its own field is corrected", || own.data("web", "size") == "12");
    let config = own.object("configmap", "web").unwrap();
    assert_eq!(
        (&config["data"]["theirs"], &config["metadata"]["labels"]["theirs"]),
        (&json!("kept"), &json!("yes"))
    );
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_a_selector_leaves_out_are_others() {
    let fields = ", selector: {matchExpressions: [{key: shard, operator: In, values: [own, first]}]}";
    let mut own = Running::start_with(&["Cache"], Setup { fields, ..Setup::default() }).await;
    let n = own.ns.name().to_owned();
    own.apply_in(&n, "Cache", &json!({"name": "theirs", "labels": {"shard": "other"}}), &json!({}));
    own.apply("Cache", "nobodys", &json!({}));
    own.apply_in(&n, "Cache", &json!({"name": "ours", "labels": {"shard": "own"}}), &json!({}));
    own.ready("Cache", "ours");
    for name in ["theirs", "nobodys"] {
        let object = own.object("Cache", name).unwrap();
        assert!(object["status"].is_null() && object["metadata"]["finalizers"].is_null(), "{object}");
    }
    let kind = format!("caches.{GROUP}");
    own.cp.kubectl(["label", "--overwrite", &kind, "theirs", "-n", &n, "shard=first"]).unwrap();
    own.ready("Cache", "theirs");
    own.end().await;
}
