//! Sources that are not there for a while, and objects that are suspended, moved or deleted meanwhile.

use serde_json::{Value, json};
use windlass_testing::wait_until;

use super::support::{LIMIT, Running, chart, condition, digest};

impl Running {
    /// Points the source `demo` at an artifact that its server does not have.
    fn lose_artifact(&self, revision: &str, bytes: &[u8]) {
        let digest = digest(bytes);
        let file = format!("{}.tgz", digest.trim_start_matches("sha256:"));
        self.set_status("ocirepository", "demo", &json!({"artifact": {
            "url": format!("http://{}/{file}", self.address), "digest": digest, "revision": revision, "path": file,
            "lastUpdateTime": "2026-01-02T00:00:00Z",
        }}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_a_source_changes_no_release_and_ends_by_itself() {
    let mut running = Running::prepare("outage").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    let spec = json!({"interval": "1s", "driftDetection": {"mode": "enabled"}});
    for name in ["one", "two"] {
        running.release(name, &spec);
        running.wait_ready(name, "True InstallSucceeded");
    }
    // A new artifact, whose server is down: the releases stay, fail at each of their intervals, and say why.
    let next = chart("1.1.0", &[]);
    running.lose_artifact("1.1.0", &next);
    let failed = |o: &Value| condition(o, "Ready") == "False ArtifactFailed";
    for name in ["one", "two"] {
        let object = running.wait("the artifact is missed", failed, name);
        assert_eq!(object["status"]["history"][0]["version"], 1);
    }
    // A change of the spec waits, too; suspension and deletion do not.
    running.release("one", &json!({"interval": "1s", "values": {"size": "two"}}));
    running.ask("one", "during");
    running.wait("handled", |o| o["status"]["lastHandledReconcileAt"] == "during" && failed(o), "one");
    running.cp.kubectl(["delete", "helmrelease", "two", "-n", running.ns.name(), "--timeout=30s"]).unwrap();
    assert!(running.get("configmap", "two").is_null());
    assert_eq!(running.get("configmap", "one")["data"]["size"], "one");
    assert_eq!(running.records(), ["deployed"]);

    // It is back: one upgrade for both changes.
    running.publish("demo", "1.1.0", next);
    let object = running.wait_ready("one", "True UpgradeSucceeded");
    assert_eq!(object["status"]["history"][0]["chartVersion"], "1.1.0");
    assert_eq!(running.get("configmap", "one")["data"]["size"], "two");
    assert_eq!(running.records(), ["superseded", "deployed"]);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_object_is_left_alone_until_it_is_resumed() {
    let mut running = Running::prepare("suspend").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    running.release("web", &json!({"driftDetection": {"mode": "enabled"}}));
    running.wait_ready("web", "True InstallSucceeded");
    running.release(
        "web",
        &json!({"driftDetection": {"mode": "enabled"}, "suspend": true, "values": {"size": "two"}}),
    );
    running.ask("web", "1");
    running.wait("handled", |o| o["status"]["lastHandledReconcileAt"] == "1", "web");
    let patch = r#"{"data":{"size":"mine"}}"#;
    running
        .cp
        .kubectl(["patch", "configmap", "web", "-n", running.ns.name(), "--type=merge", "-p", patch])
        .unwrap();
    running.publish("demo", "1.1.0", chart("1.1.0", &[]));
    // Another object shows that all of this has been seen.
    running.release("seen", &json!({}));
    let object = running.wait_ready("seen", "True InstallSucceeded");
    assert_eq!(object["status"]["history"][0]["chartVersion"], "1.1.0");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "mine");
    assert_eq!(running.get("helmrelease", "web")["status"]["history"][0]["version"], 1);
    // All at once afterwards.
    running.release(
        "web",
        &json!({"driftDetection": {"mode": "enabled"}, "suspend": false, "values": {"size": "two"}}),
    );
    let object = running.wait_ready("web", "True UpgradeSucceeded");
    let latest = &object["status"]["history"][0];
    assert_eq!((&latest["version"], &latest["chartVersion"]), (&json!(2), &json!("1.1.0")));
    assert_eq!(running.get("configmap", "web")["data"]["size"], "two");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_while_suspended_leaves_the_release_and_its_chart() {
    let mut running = Running::prepare("kept").await;
    let ns = running.ns.name().to_owned();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    running.release("web", &json!({}));
    running.wait_ready("web", "True InstallSucceeded");
    running.release("web", &json!({"suspend": true}));
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", &ns, "--timeout=30s"]).unwrap();
    assert_eq!(running.records(), ["deployed"]);
    // An object of the same name takes the release over as it is; without having done so, it leaves it when it goes.
    running.release("web", &json!({"chartRef": {"kind": "OCIRepository", "name": "none"}}));
    running.wait("no source", |o| condition(o, "Ready") == "False SourceNotReady", "web");
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", &ns, "--timeout=30s"]).unwrap();
    assert_eq!(running.records(), ["deployed"]);
    assert_eq!(running.get("configmap", "web")["data"]["size"], "one");
    running.release("web", &json!({}));
    let object = running.wait("taken over", |o| condition(o, "Ready").starts_with("True"), "web");
    assert_eq!(object["status"]["history"][0]["version"], 1, "{object}");
    assert_eq!(running.records(), ["deployed"]);
    // What a later object asks for besides, of the same generation, is not taken for released.
    running.release("web", &json!({"suspend": true}));
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", &ns, "--timeout=30s"]).unwrap();
    running.release("web", &json!({"commonMetadata": {"labels": {"tier": "new"}}}));
    running.wait("upgraded", |o| condition(o, "Ready") == "True UpgradeSucceeded", "web");
    assert_eq!(running.get("configmap", "web")["metadata"]["labels"]["tier"], "new");
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", &ns, "--timeout=30s"]).unwrap();
    assert!(running.records().is_empty() && running.get("configmap", "web").is_null());
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_moves_leaves_nothing_behind() {
    let mut running = Running::prepare("moves").await;
    let (first, second) = (running.cp.namespace("first").unwrap(), running.cp.namespace("second").unwrap());
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    let there = |namespace: &str, name: &str| {
        let args = ["get", "configmap", name, "-n", namespace, "--ignore-not-found", "-o", "name"];
        !running.cp.kubectl(args).unwrap().is_empty()
    };
    let records = |namespace: &str| {
        let args = ["get", "secrets", "-n", namespace, "-l", "owner=helm", "-o", "name"];
        running.cp.kubectl(args).unwrap().lines().count()
    };
    let moved = |what: &str, spec: Value, namespace: &str| {
        running.release("web", &spec);
        let arrived = |o: &Value| {
            o["status"]["history"][0]["namespace"] == namespace
                && o["status"]["observedGeneration"] == o["metadata"]["generation"]
                && condition(o, "Ready") == "True InstallSucceeded"
        };
        running.wait(what, arrived, "web")
    };
    let named = json!({"targetNamespace": first.name(), "releaseName": "web"});
    moved("the first namespace", named, first.name());
    assert!(there(first.name(), "web") && records(running.ns.name()) == 1);
    // Another namespace of the objects.
    moved(
        "the second namespace",
        json!({"targetNamespace": second.name(), "releaseName": "web"}),
        second.name(),
    );
    assert!(!there(first.name(), "web") && there(second.name(), "web"));
    assert_eq!(records(running.ns.name()), 1);
    // Another namespace of the records.
    let stored =
        json!({"targetNamespace": second.name(), "releaseName": "web", "storageNamespace": first.name()});
    running.release("web", &stored);
    running.wait(
        "records elsewhere",
        |o| {
            o["status"]["storageNamespace"] == first.name()
                && condition(o, "Ready") == "True InstallSucceeded"
        },
        "web",
    );
    assert_eq!((records(running.ns.name()), records(first.name())), (0, 1));
    assert!(there(second.name(), "web"));
    // Another name.
    let renamed =
        json!({"targetNamespace": second.name(), "releaseName": "new", "storageNamespace": first.name()});
    running.release("web", &renamed);
    running.wait(
        "another name",
        |o| o["status"]["history"][0]["name"] == "new" && condition(o, "Ready") == "True InstallSucceeded",
        "web",
    );
    assert!(!there(second.name(), "web") && there(second.name(), "new"));
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", running.ns.name(), "--timeout=30s"]).unwrap();
    assert!(!there(second.name(), "new") && records(first.name()) == 0);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_dependencies_is_released_in_its_order() {
    let mut running = Running::prepare("chain").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    // The last one is asked for first.
    let names = ["four", "three", "two", "one"];
    for pair in names.windows(2) {
        running.release(pair[0], &json!({"dependsOn": [{"name": pair[1]}]}));
    }
    for name in &names[..3] {
        running.wait("waits", |o| condition(o, "Ready") == "False DependencyNotReady", name);
    }
    running.release("one", &json!({}));
    for name in names {
        running.wait_ready(name, "True InstallSucceeded");
    }
    let created = |name: &str| -> jiff::Timestamp {
        let secret = running.get("secret", &format!("sh.helm.release.v1.{name}.v1"));
        secret["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap()
    };
    for pair in names.windows(2) {
        assert!(created(pair[0]) >= created(pair[1]), "{pair:?}");
    }
    // A circle is refused, and says so.
    running.release("one", &json!({"dependsOn": [{"name": "four"}], "values": {"size": "two"}}));
    let refused = |o: &Value| o["status"]["conditions"].to_string().contains("depends on itself");
    running.wait("refused", refused, "one");
    assert_eq!(running.get("configmap", "one")["data"]["size"], "one");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_without_a_status_is_taken_or_deleted() {
    let mut running = Running::prepare("lost").await;
    let ns = running.ns.name().to_owned();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    for name in ["kept", "deleted"] {
        running.release(name, &json!({}));
        running.wait_ready(name, "True InstallSucceeded");
    }
    running.stop().await;
    // As if the operator had been killed right after it wrote the records.
    for name in ["kept", "deleted"] {
        let args = ["patch", "helmrelease", name, "-n", &ns, "--subresource=status", "--type=json", "-p"];
        let patch = r#"[{"op": "replace", "path": "/status", "value": {"observedGeneration": -1}}]"#;
        running.cp.kubectl(args.iter().chain([&patch])).unwrap();
    }
    running.cp.kubectl(["delete", "helmrelease", "deleted", "-n", &ns, "--wait=false"]).unwrap();
    running.start().await;
    let object = running.wait_ready("kept", "True InstallSucceeded");
    assert_eq!(object["status"]["history"][0]["action"], "install");
    assert!(!object["status"]["inventory"]["entries"].as_array().unwrap().is_empty());
    let gone = || Ok(running.get("helmrelease", "deleted").is_null().then_some(()));
    wait_until("deleted", LIMIT, gone).unwrap();
    assert!(running.get("configmap", "deleted").is_null());
    assert_eq!(running.records(), ["deployed"], "one revision, of the object that is there");
    running.end().await;
}

/// A ConfigMap of values.
fn sizes(size: &str) -> Value {
    let data = json!({"values.yaml": format!("size: {size}\n")});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sizes"}, "data": data})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_after_a_crash_is_released() {
    let mut running = Running::prepare("changed").await;
    let ns = running.ns.name().to_owned();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    running.apply(&sizes("one"));
    let referred = json!({"valuesFrom": [{"kind": "ConfigMap", "name": "sizes"}]});
    running.release("referred", &referred);
    running.release("own", &json!({"values": {"size": "one"}}));
    for name in ["referred", "own"] {
        running.wait_ready(name, "True InstallSucceeded");
    }
    running.stop().await;
    // As if the operator had been killed right after it wrote the records, and then the values changed.
    for name in ["referred", "own"] {
        let args = ["patch", "helmrelease", name, "-n", &ns, "--subresource=status", "--type=json", "-p"];
        let patch = r#"[{"op": "replace", "path": "/status", "value": {"observedGeneration": -1}}]"#;
        running.cp.kubectl(args.iter().chain([&patch])).unwrap();
    }
    running.apply(&sizes("two"));
    running.release("own", &json!({"values": {"size": "two"}}));
    running.start().await;
    for name in ["referred", "own"] {
        let object = running.wait_ready(name, "True UpgradeSucceeded");
        assert_eq!(object["status"]["history"][0]["version"], 2, "{name}");
        assert_eq!(running.get("configmap", name)["data"]["size"], "two", "{name}");
    }
    assert_eq!(running.records().len(), 4);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_before_a_crash_with_other_values_is_tried_again() {
    let mut running = Running::prepare("retried").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    running.apply(&sizes("bad"));
    running.release("web", &json!({"valuesFrom": [{"kind": "ConfigMap", "name": "sizes"}]}));
    running.wait("stalled", is_stalled, "web");
    running.stop().await;
    // As if the operator had been killed right after it wrote the record. The generation stays, the values do not.
    let patch = r#"[{"op": "replace", "path": "/status", "value": {"observedGeneration": -1}}]"#;
    let args =
        ["patch", "helmrelease", "web", "-n", running.ns.name(), "--subresource=status", "--type=json"];
    running.cp.kubectl(args.iter().chain(&["-p", patch])).unwrap();
    running.apply(&sizes("two"));
    running.start().await;
    let object = running.wait_ready("web", "True UpgradeSucceeded");
    assert_eq!(object["status"]["history"][0]["version"], 2, "{object}");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "two");
    running.end().await;
}

/// A release whose failed upgrade is rolled back, once.
fn remediated(size: &str) -> Value {
    json!({"values": {"size": size}, "upgrade": {"remediation": {"retries": 0, "remediateLastFailure": true}}})
}

fn is_stalled(object: &Value) -> bool {
    condition(object, "Stalled") == "True RetriesExceeded"
}

impl Running {
    /// Takes the newest revision and what it led to out of a status, as if the operator had been killed before it wrote that. `first`:
    /// what the status had of the first revision before.
    fn forget_newest(&self, name: &str, object: &Value, first: &Value) {
        let mut status = object["status"].clone();
        let history = status["history"].as_array_mut().unwrap();
        history.remove(0);
        *history.last_mut().unwrap() = first.clone();
        status["conditions"].as_array_mut().unwrap().retain(|c| c["type"] == "Released");
        let patch = json!([{"op": "replace", "path": "/status", "value": status}]).to_string();
        let ns = self.ns.name();
        let args =
            ["patch", "helmrelease", name, "-n", ns, "--subresource=status", "--type=json", "-p", &patch];
        self.cp.kubectl(args).unwrap();
    }
}

/// A stopped front end and its HelmRelease `web`, whose second revision failed and was rolled back.
async fn rolled_back(name: &str) -> (Running, Value, Value) {
    let mut running = Running::prepare(name).await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    running.release("web", &remediated("one"));
    let first = running.wait_ready("web", "True InstallSucceeded")["status"]["history"][0].clone();
    running.release("web", &remediated("bad"));
    let object = running.wait("rolled back", is_stalled, "web");
    assert_eq!(running.records(), ["superseded", "failed", "deployed"]);
    running.stop().await;
    (running, object, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_failed_before_a_crash_is_taken() {
    let (mut running, object, first) = rolled_back("rollback").await;
    running.forge("web", 1, |record| record["info"]["status"] = "deployed".into());
    running.forge("web", 3, |record| {
        record["info"]["status"] = "failed".into();
        record["info"]["description"] = "Rollback failed: no answer".into();
    });
    running.forget_newest("web", &object, &first);
    running.start().await;
    // The rollback is repeated, not the upgrade.
    let object = running.wait("rolled back again", is_stalled, "web");
    let latest = &object["status"]["history"][0];
    assert_eq!((&latest["version"], &latest["action"]), (&json!(4), &json!("rollback")), "{object}");
    assert_eq!(condition(&object, "Remediated"), "True RollbackSucceeded");
    assert_eq!(running.records(), ["superseded", "failed", "failed", "deployed"]);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_a_crash_left_with_two_deployed_revisions_is_ended() {
    let (mut running, object, first) = rolled_back("two-deployed").await;
    // As if the operator had been killed before it wrote that the revision before is superseded.
    running.forge("web", 1, |record| record["info"]["status"] = "deployed".into());
    running.forget_newest("web", &object, &first);
    assert_eq!(running.records(), ["deployed", "failed", "deployed"]);
    running.start().await;
    let object = running.wait("ended", is_stalled, "web");
    let latest = &object["status"]["history"][0];
    assert_eq!((&latest["version"], &latest["action"]), (&json!(3), &json!("rollback")), "{object}");
    assert_eq!(condition(&object, "Remediated"), "True RollbackSucceeded");
    assert_eq!(running.records(), ["superseded", "failed", "deployed"]);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_a_crash_left_with_two_deployed_revisions_is_ended() {
    let mut running = Running::prepare("two-deployed-up").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    running.release("web", &json!({"values": {"size": "one"}}));
    let first = running.wait_ready("web", "True InstallSucceeded")["status"]["history"][0].clone();
    running.release("web", &json!({"values": {"size": "two"}}));
    let object = running.wait_ready("web", "True UpgradeSucceeded");
    running.stop().await;
    // As if the operator had been killed before it wrote that the revision before is superseded.
    running.forge("web", 1, |record| record["info"]["status"] = "deployed".into());
    running.forget_newest("web", &object, &first);
    assert_eq!(running.records(), ["deployed", "deployed"]);
    running.start().await;
    let object = running.wait_ready("web", "True UpgradeSucceeded");
    let shown = |at: usize| {
        let shot = &object["status"]["history"][at];
        (shot["version"].as_u64(), shot["status"].as_str())
    };
    assert_eq!(
        [shown(0), shown(1)],
        [(Some(2), Some("deployed")), (Some(1), Some("superseded"))],
        "{object}"
    );
    assert_eq!(running.records(), ["superseded", "deployed"]);
    running.end().await;
}
