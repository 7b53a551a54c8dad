//! A release whose objects are in `targetNamespace`, and its records in the HelmRelease's namespace.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_testing::{Namespace, wait_until};

use super::support::{LIMIT, Running, chart, condition};

impl Running {
    /// Status, output and errors of a command in this namespace.
    fn windlass(&self, line: &str) -> (i32, String, String) {
        let done = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(line.split_whitespace())
            .args(["-n", self.ns.name()])
            .env("KUBECONFIG", self.cp.kubeconfig())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code().unwrap(), text(&done.stdout), text(&done.stderr))
    }

    fn size_in(&self, namespace: &str) -> String {
        let args =
            ["get", "configmap", "web", "-n", namespace, "--ignore-not-found", "-o", "jsonpath={.data.size}"];
        self.cp.kubectl(args).unwrap()
    }

    fn namespaces_of(&self, revisions: std::ops::RangeInclusive<u64>) -> Vec<Value> {
        revisions.map(|revision| self.stored_record("web", revision)["namespace"].clone()).collect()
    }
}

fn spec(target: &Namespace<'_>, size: &str) -> Value {
    json!({
        "targetNamespace": target.name(), "releaseName": "web", "values": {"size": size},
        "driftDetection": {"mode": "enabled"},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_acts_in_its_target_namespace() {
    let mut running = Running::prepare("from").await;
    let target = running.cp.namespace("into").unwrap();
    let own = running.ns.name().to_owned();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    running.release("web", &spec(&target, "one"));
    running.wait_ready("web", "True InstallSucceeded");

    // A restart makes no revision, and drift none.
    running.stop().await;
    running.start().await;
    running.ask("web", "1");
    running.wait("handled", |object| object["status"]["lastHandledReconcileAt"] == "1", "web");
    running
        .cp
        .kubectl([
            "patch",
            "configmap",
            "web",
            "-n",
            target.name(),
            "--type=merge",
            "-p",
            r#"{"data":{"size":"9"}}"#,
        ])
        .unwrap();
    wait_until("corrected", LIMIT, || Ok((running.size_in(target.name()) == "one").then_some(()))).unwrap();
    running.ask("web", "2");
    let object = running.wait("handled", |object| object["status"]["lastHandledReconcileAt"] == "2", "web");
    assert_eq!(condition(&object, "Ready"), "True InstallSucceeded");
    assert_eq!(running.records(), ["deployed"]);

    running.release("web", &spec(&target, "two"));
    let object = running.wait_ready("web", "True UpgradeSucceeded");
    assert_eq!(running.records(), ["superseded", "deployed"]);
    let name = Value::from(target.name());
    assert_eq!(running.namespaces_of(1..=2), [name.clone(), name.clone()]);
    for shot in object["status"]["history"].as_array().unwrap() {
        assert_eq!(shot["namespace"], name);
    }
    running.stop().await;

    // The commands find the release by its records, and act where it is.
    let line = |text: &str| {
        let rows: Vec<Vec<String>> = text
            .lines()
            .skip(1)
            .map(|row| row.split_whitespace().take(3).map(str::to_owned).collect())
            .collect();
        rows
    };
    let expected = [["web".to_owned(), target.name().to_owned(), "2".to_owned()]];
    assert_eq!(line(&running.cp.helm4(["list", "-n", &own]).unwrap()), expected);
    assert_eq!(line(&running.windlass("list").1), expected);
    let (status, shown, _) = running.windlass("status web");
    assert!(status == 0 && shown.contains(&format!("NAMESPACE: {}", target.name())), "{shown}");
    assert!(shown.contains("v1/ConfigMap"), "{shown}");
    let (status, _, error) = running.windlass("rollback web 1");
    assert_eq!(
        (status, running.size_in(target.name()).as_str(), running.size_in(&own).as_str()),
        (0, "one", ""),
        "{error}"
    );
    assert_eq!(running.namespaces_of(1..=3), [name.clone(), name.clone(), name]);
    let (status, _, error) = running.windlass("uninstall web");
    assert_eq!((status, running.size_in(target.name()).as_str()), (0, ""), "{error}");
    assert!(running.records().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn records_with_the_wrong_namespace_are_found_and_repaired() {
    let mut running = Running::prepare("wrong").await;
    let target = running.cp.namespace("right").unwrap();
    let own = running.ns.name().to_owned();
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    running.release("web", &spec(&target, "one"));
    running.wait_ready("web", "True InstallSucceeded");
    running.release("web", &spec(&target, "two"));
    running.wait_ready("web", "True UpgradeSucceeded");
    running.stop().await;

    let misname = || {
        for revision in 1..=2 {
            running.forge("web", revision, |record| record["namespace"] = own.as_str().into());
        }
    };
    misname();
    let (status, shown, error) = running.windlass("doctor records");
    let expected = format!(
        "wrong: {own}/sh.helm.release.v1.web.v1: names the namespace {own}, and the release is in {}:",
        target.name()
    );
    assert!(status == 2 && shown.contains(&expected) && shown.contains("web.v2"), "{status}: {shown}{error}");
    assert_eq!(
        running.namespaces_of(1..=2),
        [own.as_str(), own.as_str()],
        "nothing is written without the flag"
    );
    let (status, shown, _) = running.windlass("doctor records --fix");
    assert!(status == 0 && shown.contains("repaired: ") && shown.contains("2 record(s) repaired"), "{shown}");
    assert_eq!(running.namespaces_of(1..=2), [target.name(), target.name()]);
    let (status, shown, _) = running.windlass("doctor records");
    assert_eq!((status, shown.as_str()), (0, "all records name the namespace of their release\n"));

    // The operator repairs them before its first pass, and makes no revision.
    misname();
    running.start().await;
    let repaired = || {
        let right = running.namespaces_of(1..=2).iter().all(|namespace| *namespace == *target.name());
        Ok(right.then_some(()))
    };
    wait_until("repaired", LIMIT, repaired).unwrap();
    running.ask("web", "1");
    let object = running.wait("handled", |object| object["status"]["lastHandledReconcileAt"] == "1", "web");
    assert_eq!(condition(&object, "Ready"), "True UpgradeSucceeded");
    assert_eq!(running.records(), ["superseded", "deployed"]);
    let told = wait_until("the Event", LIMIT, || {
        let events = running.list("events");
        Ok(events.iter().find(|event| event["reason"] == "RecordsRepaired").cloned())
    });
    let note = told.unwrap()["message"].as_str().unwrap().to_owned();
    assert!(
        note.contains("sh.helm.release.v1.web.v1") && note.contains("sh.helm.release.v1.web.v2"),
        "{note}"
    );
    running.cp.kubectl(["delete", "helmrelease", "web", "-n", &own, "--timeout=30s"]).unwrap();
    assert_eq!(running.size_in(target.name()), "");
    running.end().await;
}

/// `fixtures/helm-controller/adopted.json`: a release of the real helm-controller with a target namespace, after an upgrade.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_helm_controller_in_a_target_namespace_stays_as_it_is() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/helm-controller/adopted.json");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut running = Running::prepare("adopt").await;
    let cp = running.cp;
    // The digests contain the names of the namespaces.
    let own = kept["namespaces"][0].as_str().unwrap().to_owned();
    for name in kept["namespaces"].as_array().unwrap() {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        cp.kubectl_with(["apply", "-f", "-"], &namespace.to_string()).unwrap();
    }
    let create = |object: &Value| {
        let mut object = object.clone();
        let metadata = object["metadata"].as_object_mut().unwrap();
        for field in ["resourceVersion", "uid", "creationTimestamp", "generation"] {
            metadata.remove(field);
        }
        cp.kubectl_with(["create", "-f", "-"], &object.to_string()).unwrap();
    };
    let status = |kind: &str, name: &str, status: &Value| {
        let patch = json!({"status": status}).to_string();
        cp.kubectl(["patch", kind, name, "-n", &own, "--subresource=status", "--type=merge", "-p", &patch])
            .unwrap();
    };
    let objects = ["secrets", "objects"].iter().flat_map(|list| kept[*list].as_array().unwrap());
    objects.for_each(create);
    let package = STANDARD.decode(kept["package"].as_str().unwrap()).unwrap();
    running.artifacts.put("demo.tgz", package);
    let mut source = kept["source"]["status"].clone();
    source["artifact"]["url"] = format!("http://{}/demo.tgz", running.address).into();
    source["observedGeneration"] = 1.into();
    create(&kept["source"]);
    status("ocirepository", "demo", &source);
    let mut before = kept["release"]["status"].clone();
    // The generation of the new object is its first.
    for field in ["observedGeneration", "lastAttemptedGeneration"] {
        before[field] = 1.into();
    }
    for condition in before["conditions"].as_array_mut().unwrap() {
        condition["observedGeneration"] = 1.into();
    }
    create(&kept["release"]);
    status("helmrelease", "web", &before);
    let versions = || {
        let path = "jsonpath={range .items[*]}{.metadata.name}={.metadata.resourceVersion}{\"\\n\"}{end}";
        kept["namespaces"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| {
                cp.kubectl(["get", "secrets,configmaps", "-n", name.as_str().unwrap(), "-o", path]).unwrap()
            })
            .collect::<Vec<_>>()
    };
    let seen = versions();
    running.start_in(&own, 4).await;
    cp.kubectl([
        "annotate",
        "helmrelease",
        "web",
        "-n",
        &own,
        "--overwrite",
        "reconcile.fluxcd.io/requestedAt=x2",
    ])
    .unwrap();
    let handled = wait_until("reconciled", LIMIT, || {
        let object = cp.find(&["helmrelease", "web", "-n", &own])?.unwrap();
        Ok((object["status"]["lastHandledReconcileAt"] == "x2").then_some(object))
    });
    let after = handled.unwrap();
    assert_eq!(after["status"]["history"], before["history"]);
    assert_eq!(after["status"]["conditions"], before["conditions"]);
    assert_eq!(versions(), seen);
    running.end().await;
}
