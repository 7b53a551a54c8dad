//! What helm-controller left in a cluster is taken over without a change.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::support::{Running, digest};

/// Records of real helm-controller; they are test data of a development tree.
fn records() -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/records/helm-controller");
    path.is_dir().then_some(path)
}

fn documents(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let parts = text.split("\n---\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| windlass_render::parse_manifest(part).unwrap()).collect()
}

fn items(path: &std::path::Path) -> Vec<Value> {
    let read: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    read["items"].as_array().or(read.as_array()).unwrap().clone()
}

/// An object as it can be created: without what the old cluster added, in another namespace.
fn fresh(mut object: Value) -> Value {
    for field in ["resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_of_helm_controller_stay_as_they_are() {
    let Some(records) = records() else {
        eprintln!("no records of helm-controller beside this tree: nothing is compared");
        return;
    };
    let mut running = Running::prepare("adopt").await;
    // The digests contain the namespace.
    let cp = running.cp;
    cp.kubectl_with(
        ["apply", "-f", "-"],
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"flux"}}"#,
    )
    .unwrap();
    let package = std::fs::read(records.join("demo-0.1.0.tgz")).unwrap();
    let package_digest = digest(&package);
    running.artifacts.put("demo.tgz", package);
    let create = |object: &Value| {
        cp.kubectl_with(["create", "-f", "-"], &object.to_string()).unwrap();
    };
    for object in items(&records.join("objects.json")) {
        // With helm-controller's managed fields.
        let managed = object["metadata"]["managedFields"].clone();
        let mut object = fresh(object);
        object.as_object_mut().unwrap().remove("status");
        for field in ["clusterIP", "clusterIPs"] {
            if object["kind"] == "Service" {
                object["spec"].as_object_mut().unwrap().remove(field);
            }
        }
        object["metadata"]["managedFields"] = managed;
        create(&object);
    }
    for secret in items(&records.join("release-secrets.json")) {
        create(&fresh(secret));
    }
    let status = |plural: &str, object: &Value, status: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap();
        let patch = json!({"status": status}).to_string();
        cp.kubectl([
            "patch",
            plural,
            name,
            "-n",
            "flux",
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ])
        .unwrap();
    };
    for source in documents(&records.join("ocirepository.yaml")) {
        let mut state = source["status"].clone();
        assert_eq!(state["artifact"]["digest"], package_digest.as_str());
        state["artifact"]["url"] = format!("http://{}/demo.tgz", running.address).into();
        create(&fresh(source.clone()));
        status("ocirepository", &source, &state);
    }
    let releases = documents(&records.join("helmreleases.yaml"));
    for release in &releases {
        create(&fresh(release.clone()));
        status("helmrelease", release, &release["status"]);
    }
    let versions = |kind: &str| {
        let path = "jsonpath={range .items[*]}{.metadata.name}={.metadata.resourceVersion}{\"\\n\"}{end}";
        cp.kubectl(["get", kind, "-n", "flux", "-o", path]).unwrap()
    };
    let objects = "deployments,services,serviceaccounts";
    // The controllers of the cluster write statuses once; the specs are what counts.
    let specs = || {
        let path =
            "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.generation} {.spec}{\"\\n\"}{end}";
        cp.kubectl(["get", objects, "-n", "flux", "-o", path]).unwrap()
    };
    let before = specs();
    let secrets = versions("secrets");
    running.start_in("flux", 4).await;
    for release in &releases {
        let name = release["metadata"]["name"].as_str().unwrap();
        cp.kubectl([
            "annotate",
            "helmrelease",
            name,
            "-n",
            "flux",
            "--overwrite",
            "reconcile.fluxcd.io/requestedAt=x2",
        ])
        .unwrap();
        let handled = windlass_testing::wait_until("reconciled", super::support::LIMIT, || {
            let object = cp.find(&["helmrelease", name, "-n", "flux"])?.unwrap();
            Ok((object["status"]["lastHandledReconcileAt"] == "x2").then_some(object))
        });
        let object = handled.unwrap();
        assert_eq!(object["status"]["history"], release["status"]["history"], "{name}");
        assert_eq!(object["status"]["conditions"], release["status"]["conditions"], "{name}");
        assert_eq!(
            object["status"]["lastAttemptedConfigDigest"],
            release["status"]["lastAttemptedConfigDigest"]
        );
    }
    assert_eq!(specs(), before);
    assert_eq!(versions("secrets"), secrets);
    running.end().await;
}
