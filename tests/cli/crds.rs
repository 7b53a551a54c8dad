//! CRDs of a chart, which come ahead of rendering it, where the rest is refused; and those that `windlass crds` prints.

use super::{chart, control_plane, fails, run, windlass};
use serde_json::{Value, json};
use windlass_engine::record::{self, RecordExtension, ReleaseStatus};

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

fn definition(group: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("backups.{group}")}, "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": "Backup", "plural": "backups"}, "versions": [{"name": "v1", "served": true,
                "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

/// A chart that moves its CRD from the templates to `crds/`: the upgrade deletes the objects with it, as Helm's does, but says so before
/// and afterwards, and keeps them where `crds/` is applied.
#[test]
fn a_crd_that_moves_out_of_the_templates_goes_as_with_helm() {
    let cp = control_plane();
    let ns = cp.namespace("moved").unwrap();
    let n = ns.name();
    let (before, after) = (chart(), chart());
    for by in ["helm", "plain", "apply"] {
        let group = format!("{by}.{n}.example.com");
        let crd = definition(&group).to_string();
        std::fs::write(before.path().join("templates/crd.yaml"), &crd).unwrap();
        std::fs::create_dir_all(after.path().join("crds")).unwrap();
        std::fs::write(after.path().join("crds/crd.yaml"), &crd).unwrap();
        let [old, new] = [&before, &after].map(|dir| dir.path().to_str().unwrap());
        let name = format!("backups.{group}");
        windlass(&["install", by, old, "-n", n]);
        cp.kubectl(["wait", "--for=condition=Established", &format!("crd/{name}"), "--timeout=30s"]).unwrap();
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": "Backup",
            "metadata": {"name": "precious", "namespace": n}});
        cp.kubectl_with(["create", "-f", "-"], &object.to_string()).unwrap();
        let upgrade = ["upgrade", by, new, "-n", n];
        let count = "1 object of kind Backup is deleted with it";
        match by {
            "helm" => drop(cp.helm4(upgrade).unwrap()),
            "plain" => {
                let left = format!(
                    "- CustomResourceDefinition {name}  it is no longer in the manifest; {count}; crds/ of the chart has it, and \
                                    --crds=apply keeps it\n"
                );
                let plan = |format: &str| windlass(&["plan", by, new, "-n", n, "-o", format]);
                let text = plan("table");
                assert!(text.contains(&left), "{text}");
                let json: Value = serde_json::from_str(&plan("json")).unwrap();
                let change =
                    json["changes"].as_array().unwrap().iter().find(|c| c["verb"] == "delete").unwrap();
                assert_eq!(change["objects"], json!({"kind": "Backup", "count": 1, "atLeast": false}));
                let markdown = plan("markdown");
                assert!(
                    markdown.contains(count) && markdown.contains("**warning**: CustomResourceDefinition"),
                    "{markdown}"
                );
                let gone = windlass(&["uninstall", by, "-n", n, "--plan"]);
                assert!(gone.contains(&format!("it is the release's; {count}")), "{gone}");
                let out = run(&upgrade);
                let told = String::from_utf8(out.stderr).unwrap();
                let place = "left the manifest, and crds/ of the chart has it: ";
                assert!(out.status.success() && told.contains(&format!("{place}{count}")), "{told}");
            }
            _ => {
                let keeps = [&upgrade[..], &["--crds=apply"]].concat();
                let plan = windlass(&[&["plan"], &keeps[1..]].concat());
                assert!(!plan.contains("\n- ") && plan.contains("and it is kept with its objects"), "{plan}");
                let out = run(&keeps);
                let told = String::from_utf8(out.stderr).unwrap();
                assert!(out.status.success() && told.contains("it is kept with its objects"), "{told}");
                windlass(&["uninstall", by, "-n", n]);
            }
        }
        let there = || {
            let live = cp.find(&["crd", &name]).unwrap();
            live.is_some_and(|live| live["metadata"]["deletionTimestamp"].is_null())
        };
        assert_eq!(there(), by == "apply", "{by}");
        if by == "apply" {
            cp.kubectl(["get", &name, "precious", "-n", n]).unwrap();
            cp.kubectl(["delete", "crd", &name]).unwrap();
        }
    }
}

/// The definitions of Flux's API on a real API server: it takes them, fills in their defaults, and refuses what they refuse.
#[test]
fn definitions_of_flux_are_served() {
    let cp = control_plane();
    let ns = cp.namespace("fluxapi").unwrap();
    let n = ns.name();
    let yaml = windlass(&["crds", "flux"]);
    assert_eq!(yaml.matches("\nkind: CustomResourceDefinition\n").count(), 10, "{yaml}");
    cp.kubectl_with(["apply", "-f", "-"], &yaml).unwrap();
    cp.kubectl([
        "wait",
        "--for=condition=Established",
        "crd/helmreleases.helm.toolkit.fluxcd.io",
        "--timeout=30s",
    ])
    .unwrap();
    let release = |name: &str, spec: &Value| {
        let object = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": name, "namespace": n}, "spec": spec});
        cp.kubectl_with(["create", "-o", "json", "-f", "-"], &object.to_string()).map_err(|e| e.to_string())
    };
    let template = json!({"spec": {"chart": "demo", "sourceRef": {"kind": "GitRepository", "name": "demo"}}});
    let made: Value = serde_json::from_str(
        &release("good", &json!({"interval": "1h", "chart": template, "values": {"a": {"b": [1, null]}}}))
            .unwrap(),
    )
    .unwrap();
    assert_eq!(made["status"], json!({"observedGeneration": -1}));
    assert_eq!(made["spec"]["chart"]["spec"]["version"], "*");
    assert_eq!(made["spec"]["values"], json!({"a": {"b": [1, null]}}));
    for (spec, text) in [
        (json!({"interval": "1h"}), "set one of chart and chartRef"),
        (json!({"chart": template}), "spec.interval: Required value"),
        (json!({"interval": "1 day", "chart": template}), "spec.interval in body should match"),
        (
            json!({"interval": "1h", "chart": template, "releaseName": "r".repeat(54)}),
            "may not be more than 53",
        ),
    ] {
        let error = release("bad", &spec).unwrap_err();
        assert!(error.contains(text), "{spec}: {error}");
    }
    let one = windlass(&["crds", "flux", "HelmRelease"]);
    assert_eq!(one.matches("\nkind: CustomResourceDefinition\n").count(), 1);
    let error = fails(&["crds", "flux", "Kustomization"]);
    assert!(error.contains("Flux has no kind \"Kustomization\"; there are Alert, "), "{error}");
}
