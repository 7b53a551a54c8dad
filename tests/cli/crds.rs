//! CRDs of a chart, which come ahead of rendering it, where the rest is refused.

use super::{chart, control_plane, fails, run, windlass};
use serde_json::json;
use windlass::release::record::{self, RecordExtension, ReleaseStatus};

#[test]
fn what_is_refused_leaves_no_crd() {
    let cp = control_plane();
    let ns = cp.namespace("nocrd").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    windlass(&["install", "one", path, "-n", n]);
    windlass(&["install", "busy", path, "-n", n, "--set", "name=busy"]);
    let name = format!("things.{n}.example.com");
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name}, "spec": {"group": format!("{n}.example.com"), "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"}, "versions": [{"name": "v1", "served": true,
                "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    std::fs::create_dir_all(dir.path().join("crds")).unwrap();
    std::fs::write(dir.path().join("crds/things.yaml"), crd.to_string()).unwrap();
    // Helm is at work on one of them, and one of ours on a third.
    let secret = cp.get(&format!("/api/v1/namespaces/{n}/secrets/sh.helm.release.v1.busy.v1")).unwrap();
    let mut pending = record::decode_secret(&secret).unwrap();
    (pending.version, pending.info.status, pending.extension) =
        (2, ReleaseStatus::PendingUpgrade, RecordExtension::default());
    pending.info.last_deployed = jiff::Timestamp::now().to_string();
    let pending = record::encode_secret(&pending, "createdAt").unwrap();
    cp.kubectl_with(["create", "-f", "-"], &pending.to_string()).unwrap();
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "windlass-held", "namespace": n}, "spec": {"holderIdentity": "windlass-7/a.b.1/7/7/cd",
            "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now}});
    cp.kubectl_with(["create", "-f", "-"], &lease.to_string()).unwrap();
    let there = || cp.kubectl(["get", "crd", &name, "--ignore-not-found", "-o", "name"]).unwrap();
    let table: [(&[&str], &str); 5] = [
        (
            &["install", "held"],
            "INSTALLATION FAILED: another operation (install/upgrade/rollback) is in progress",
        ),
        (
            &["install", "one"],
            "INSTALLATION FAILED: release name check failed: cannot reuse a name that is still in use",
        ),
        (&["upgrade", "nope"], "UPGRADE FAILED: \"nope\" has no deployed releases"),
        (&["upgrade", "busy"], "UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress"),
        (
            &["install", "late", "--deadline", "1us"],
            "INSTALLATION FAILED: the operation was not done within its deadline",
        ),
    ];
    for (words, expected) in table {
        let told = fails(&[words, &[path, "-n", n, "--crds=apply"]].concat());
        assert!(told.contains(expected), "{words:?}: {told}");
        assert_eq!(there(), "", "{words:?}");
    }
    assert!(run(&["upgrade", "one", path, "-n", n, "--crds=apply"]).status.success());
    assert_eq!(there().trim(), format!("customresourcedefinition.apiextensions.k8s.io/{name}"));
    cp.kubectl(["delete", "crd", &name]).unwrap();
}
