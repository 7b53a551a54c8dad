//! Coming from addon-operator: its releases stay as they are, and ours can be read by it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use windlass_testing::ControlPlane;

use crate::support::{Modules, Operator, control_plane, history, object, writes_since};

/// What must not change: UID and version of every object and record in a namespace, Leases and Events aside.
fn versions(cp: &ControlPlane, namespace: &str) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    for item in cp.list(&["configmaps,secrets,services,serviceaccounts", "-n", namespace]).unwrap() {
        let meta = &item["metadata"];
        let key = format!("{}/{}", item["kind"].as_str().unwrap(), meta["name"].as_str().unwrap());
        seen.insert(key, format!("{} {}", meta["uid"], meta["resourceVersion"]));
    }
    // The status of a Deployment moves by itself.
    for item in cp.list(&["deployments", "-n", namespace]).unwrap() {
        let meta = &item["metadata"];
        let key = format!("Deployment/{}", meta["name"].as_str().unwrap());
        let managers: Vec<&Value> = meta["managedFields"].as_array().into_iter().flatten().collect();
        let helm = managers.iter().filter(|m| m["manager"] == "helm").count();
        seen.insert(key, format!("{} {} {helm}", meta["uid"], meta["generation"]));
    }
    seen
}

/// Exit status and text of `operator --observe`, which must write nothing.
fn observed(cp: &ControlPlane, namespace: &str, modules: &Path) -> (i32, String) {
    observed_with(cp, namespace, modules, &[])
}

fn observed_with(cp: &ControlPlane, namespace: &str, modules: &Path, more: &[&str]) -> (i32, String) {
    let mark = cp.audit_mark().unwrap();
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["operator", "--observe", "-n", namespace, "--modules-dir", modules.to_str().unwrap()])
        .args(more)
        .env("KUBECONFIG", cp.kubeconfig())
        .output()
        .unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(errors.is_empty(), "{errors}");
    let events = cp.audit_since(mark).unwrap();
    let writes: Vec<_> = events
        .iter()
        .filter(|e| e.user_agent.starts_with("windlass/") && e.is_write())
        .filter(|e| e.namespace == namespace || e.name.contains(namespace))
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
    (done.status.code().unwrap(), String::from_utf8(done.stdout).unwrap())
}

/// Runs an operator on the modules until all had an outcome, twice; nothing may be written but Leases.
fn leaves_all(cp: &ControlPlane, namespace: &str, modules: &Path) {
    let before = versions(cp, namespace);
    let mark = cp.audit_mark().unwrap();
    for _ in 0..2 {
        let (operator, _) = Operator::converged(cp, namespace, modules);
        operator.stop();
    }
    let writes = writes_since(cp, namespace, mark);
    assert!(writes.is_empty(), "{writes:?}");
    assert_eq!(versions(cp, namespace), before);
}

#[test]
fn what_addon_operator_left_stays_as_it_is() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/records/addon-operator");
    if !records.is_dir() {
        println!("no records at ../shared/records: skipped");
        return;
    }
    let cp = control_plane();
    // The records name it.
    let namespace = "addons";
    cp.kubectl(["create", "namespace", namespace]).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    for file in ["objects.json", "release-secrets.json"] {
        let text = std::fs::read_to_string(records.join(file)).unwrap();
        let mut list: Value = serde_json::from_str(&text).unwrap();
        let items = if list.is_array() { list } else { list["items"].take() };
        let mut items = items.as_array().unwrap().clone();
        for item in &mut items {
            let meta = item["metadata"].as_object_mut().unwrap();
            for key in ["resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"] {
                meta.remove(key);
            }
            if item["kind"] == "Service" {
                let spec = item["spec"].as_object_mut().unwrap();
                spec.remove("clusterIP");
                spec.remove("clusterIPs");
            }
        }
        let path = scratch.path().join(file);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        std::fs::write(&path, list.to_string()).unwrap();
        cp.kubectl(["create", "--field-manager=helm", "-n", namespace, "-f", path.to_str().unwrap()])
            .unwrap();
    }
    cp.kubectl(["create", "configmap", "addon-operator", "-n", namespace]).unwrap();
    let (status, told) = observed(cp, namespace, &records.join("modules"));
    assert_eq!(told, "mod01: unchanged\nmod02: unchanged\nmod03: unchanged\n0 of 3 modules would change\n");
    assert_eq!(status, 0);
    leaves_all(cp, namespace, &records.join("modules"));
    assert_eq!(history(cp, namespace, "mod01"), [(1, "superseded".into()), (2, "deployed".into())]);
    assert_eq!(history(cp, namespace, "mod03"), [(1, "deployed".into())]);
    // Taken over means kept: what someone deletes comes back, without a revision.
    let (operator, _) = Operator::converged(cp, namespace, &records.join("modules"));
    cp.kubectl(["delete", "service", "mod02", "-n", namespace]).unwrap();
    crate::support::wait_for("the Service comes back", || {
        object(cp, namespace, "service", "mod02").is_some()
    });
    operator.stop();
    assert_eq!(history(cp, namespace, "mod02").len(), 2);
    let restored = object(cp, namespace, "service", "mod02").unwrap();
    assert_eq!(restored["metadata"]["labels"]["heritage"], "addon-operator");
    cp.kubectl(["delete", "namespace", namespace, "--wait=false"]).unwrap();
}

#[test]
fn what_helm_3_made_as_the_peer_does_stays_as_it_is() {
    let cp = control_plane();
    let ns = cp.namespace("helm3").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    // addon-operator's post-renderer puts its label on every object: here by a program of ours.
    let renderer = "#!/bin/sh\nsed 's/^metadata:$/metadata:\\n  labels: {heritage: addon-operator}/'\n";
    modules.write("label.sh", renderer);
    let script = modules.path().join("label.sh");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let values = modules.path().join("given.yaml");
    std::fs::write(&values, "alpha: {size: 1}\nglobal: {}\n").unwrap();
    let chart = modules.path().join("001-alpha");
    cp.helm3([
        "upgrade",
        "--install",
        "alpha",
        chart.to_str().unwrap(),
        "-n",
        ns.name(),
        "-f",
        values.to_str().unwrap(),
        "--post-renderer",
        script.to_str().unwrap(),
        "--labels",
        "moduleChecksum=0123456789abcdef0123456789abcdef",
    ])
    .unwrap();
    leaves_all(cp, ns.name(), modules.path());
    assert_eq!(history(cp, ns.name(), "alpha"), [(1, "deployed".into())]);
}

#[test]
fn what_would_change_is_told_and_not_done() {
    let cp = control_plane();
    let ns = cp.namespace("observe").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").small("003-gamma").enable(&["alpha", "beta"]);
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    assert_eq!(observed(cp, ns.name(), modules.path()).0, 0);
    modules.write("001-alpha/values.yaml", "alpha: {size: 7}\n").enable(&["alpha", "gamma"]);
    let (status, told) = observed(cp, ns.name(), modules.path());
    let parts = [
        "alpha: would change:\n",
        "data.size: \"1\" → \"7\"",
        "beta: would be uninstalled\n",
        "gamma: would change:\n",
        "+ Deployment ",
        "3 of 3 modules would change\n",
    ];
    for part in parts {
        assert!(told.contains(part), "{part:?} in {told}");
    }
    assert_eq!(status, 2);
}

#[test]
fn crds_without_a_chart_and_webhooks_are_foreseen() {
    let cp = control_plane();
    let ns = cp.namespace("observe-besides").unwrap();
    let name = |plural: &str| format!("{plural}.{}.example.com", ns.name());
    let crd = |plural: &str, more: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {}}}\nspec:\n  group: \
             {}.example.com\n  scope: Namespaced\n  names: {{kind: {plural}, plural: {plural}, singular: {plural}}}\n  versions:\n  - \
             {{name: v1, served: true, storage: true{more}, schema: {{openAPIV3Schema: {{type: object}}}}}}\n",
            name(plural),
            ns.name()
        )
    };
    let modules = Modules::new();
    modules.write("modules/010-kinds/crds/one.yaml", &crd("ones", ""));
    modules.write("modules/values.yaml", "kindsEnabled: true\nchecksEnabled: true\n");
    let entry = |name: &str, more: &str| {
        format!(
            "{{name: {name}.{}.example.com{more}, namespace: {{labelSelector: {{matchLabels: {{none: such}}}}}}, rules: [{{apiVersions: [v1], \
             apiGroups: [''], resources: [configmaps], operations: [CREATE], scope: Namespaced}}]}}",
            ns.name()
        )
    };
    let checks = |more: &str| {
        let conversions = "conversions: [{fromVersion: v1, toVersion: v2}]";
        let config = format!(
            "configVersion: v1\nkubernetesValidating: [{}]\nkubernetesCustomResourceConversion: [{{name: c, crdName: {}, {conversions}}}]",
            entry("check", more),
            name("ones")
        );
        modules.hook("modules/020-checks/hooks/check", &config, "exit 1");
    };
    checks("");
    let mutate = format!("configVersion: v1\nkubernetesMutating: [{}]", entry("mutate", ""));
    modules.hook("global-hooks/mutate", &mutate, "exit 1");
    let global = modules.path().join("global-hooks");
    let mut arguments = crate::support::ON_LOOPBACK.to_vec();
    arguments.extend(["--global-hooks-dir", global.to_str().unwrap()]);
    let look = || observed_with(cp, ns.name(), &modules.path().join("modules"), &arguments);
    let told = |parts: &[&str]| {
        let (status, told) = look();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines, parts, "{told}");
        assert_eq!(status, if parts.last().unwrap().starts_with("0 of") { 0 } else { 2 });
    };
    let configuration = |kind: &str| format!("{kind}WebhookConfiguration windlass-{}-hooks", ns.name());
    let webhook = |name: &str| format!("webhook {name}.{}.example.com", ns.name());
    let one = format!("  CustomResourceDefinition {} would be ", name("ones"));
    let check = webhook("check");
    let added = format!("  {check} would be added to {}", configuration("Validating"));
    let mutating = format!("  {} would be added to {}", webhook("mutate"), configuration("Mutating"));
    told(&[
        "kinds: on, without a chart",
        &format!("{one}created"),
        "checks: on, without a chart",
        &added,
        "global hooks: on, without a chart",
        &mutating,
        "3 of 3 modules would change",
    ]);

    // Beside one that runs with the same nothing would change; where it has written what it would, neither.
    let operator = Operator::start_with(cp, ns.name(), &modules.path().join("modules"), &arguments);
    operator.wait_converged();
    let none = ["kinds: on, without a chart", "checks: on, without a chart", "0 of 2 modules would change"];
    told(&none);
    operator.stop();
    told(&none);

    modules.write("modules/010-kinds/crds/one.yaml", &crd("ones", ", deprecated: true"));
    checks(", timeoutSeconds: 3");
    std::fs::remove_file(global.join("mutate")).unwrap();
    cp.kubectl([
        "patch",
        "crd",
        &name("ones"),
        "--type=merge",
        "-p",
        r#"{"spec":{"conversion":{"strategy":"None","webhook":null}}}"#,
    ])
    .unwrap();
    told(&[
        "kinds: on, without a chart",
        &format!("{one}changed"),
        "checks: on, without a chart",
        &format!("  {check} of {} would be changed", configuration("Validating")),
        &format!("  CustomResourceDefinition {} would have its objects converted by hooks", name("ones")),
        "global hooks: on, without a chart",
        &format!("  {} would be taken out of {}", webhook("mutate"), configuration("Mutating")),
        "3 of 3 modules would change",
    ]);
    for kind in ["validating", "mutating"] {
        let kind = format!("{kind}webhookconfiguration");
        cp.kubectl(["delete", &kind, &format!("windlass-{}-hooks", ns.name()), "--wait=false"]).unwrap();
    }
    cp.kubectl(["delete", "crd", &name("ones"), "--wait=false"]).unwrap();
}

#[test]
fn our_records_carry_what_the_peer_looks_for() {
    let cp = control_plane();
    let ns = cp.namespace("checksum").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    modules.write("001-alpha/crds/_note.yaml", "no: crd\n");
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    let secret = object(cp, ns.name(), "secret", "sh.helm.release.v1.alpha.v1").unwrap();
    let labels = &secret["metadata"]["labels"];
    let manifest = cp.helm3(["get", "manifest", "alpha", "-n", ns.name()]).unwrap();
    assert_eq!(manifest.matches("heritage: addon-operator").count(), 3, "{manifest}");
    let sum = labels["moduleChecksum"].as_str().unwrap();
    assert!(sum.len() == 32 && sum.bytes().all(|b| b.is_ascii_hexdigit()), "{labels}");
    assert_eq!(labels["maintenance.deckhouse.io/no-resource-reconciliation"], "false");
    let live = object(cp, ns.name(), "configmap", "alpha").unwrap();
    assert_eq!(live["metadata"]["labels"]["heritage"], "addon-operator");
}

#[test]
fn our_checksums_are_those_that_the_peer_recorded() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/records/addon-operator");
    if !records.is_dir() {
        println!("no records at ../shared/records: skipped");
        return;
    }
    let text = std::fs::read_to_string(records.join("release-secrets.json")).unwrap();
    let secrets: Value = serde_json::from_str(&text).unwrap();
    let sum = |secret: &Value| secret["metadata"]["labels"]["moduleChecksum"].as_str().map(str::to_owned);
    let items = if secrets.is_array() { &secrets } else { &secrets["items"] };
    let theirs: BTreeMap<String, String> = items
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s["metadata"]["labels"]["name"].as_str().unwrap().to_owned(), sum(s).unwrap()))
        .collect();
    assert_eq!(theirs.len(), 3);
    let cp = control_plane();
    let ns = cp.namespace("sums").unwrap();
    let (operator, _) = Operator::converged(cp, ns.name(), &records.join("modules"));
    for (name, theirs) in &theirs {
        let secret = object(cp, ns.name(), "secret", &format!("sh.helm.release.v1.{name}.v1"))
            .unwrap_or_else(|| panic!("{name}: {}", operator.log_end()));
        assert_eq!(sum(&secret).as_ref(), Some(theirs), "{name}");
    }
    operator.stop();
}
