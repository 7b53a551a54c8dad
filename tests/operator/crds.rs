//! CRDs come before the modules.

use crate::support::{Modules, Operator, control_plane, object};

/// A CRD of a kind whose objects keep all fields.
fn crd(group: &str, kind: &str) -> String {
    let plural = kind.to_lowercase() + "s";
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.{group}}}\nspec:\n  \
         group: {group}\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}, singular: {}}}\n  versions:\n  - name: v1\n    \
         served: true\n    storage: true\n    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n",
        kind.to_lowercase()
    )
}

#[test]
fn crds_of_all_modules_are_there_before_the_first_one_runs() {
    let cp = control_plane();
    let ns = cp.namespace("crds-first").unwrap();
    let group = format!("{}.example.com", ns.name());
    let modules = Modules::new();
    let crd = |kind: &str| crd(&group, kind);
    let one = |kind: &str| {
        format!(
            "apiVersion: {group}/v1\nkind: {kind}\nmetadata: {{name: {}}}\nspec: {{a: b}}\n",
            kind.to_lowercase()
        )
    };
    modules
        .small("010-user")
        .write(
            "010-user/templates/cr.yaml",
            &[one("Chartly"), one("Hookly"), one("Templately")].join("---\n"),
        )
        .small("020-chart")
        .write("020-chart/crds/c.yaml", &crd("Chartly"))
        // The chart's own rules leave the directory out, as those of public modules do.
        .write("020-chart/.helmignore", "crds\n")
        .write("025-templates/templates/none.yaml", "{{/* No Chart.yaml. */}}\n")
        .write("025-templates/crds/t.yaml", &crd("Templately"))
        // No chart: hooks are all there is beside the CRDs.
        .hook("030-hooks/hooks/up", "configVersion: v1\nonStartup: 1", "note up")
        .write("030-hooks/crds/doc-x.yaml", "not: a CRD\n")
        .write("030-hooks/crds/_y.yaml", "not: a CRD\n")
        .write("030-hooks/crds/h.yaml", &crd("Hookly"))
        .write("040-off/crds/o.yaml", &crd("Offly"))
        .hook("040-off/hooks/up", "configVersion: v1\nonStartup: 1", "note up")
        .enable(&["user", "chart", "templates", "hooks"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    for kind in ["chartly", "templately", "hookly"] {
        let found = object(cp, ns.name(), &format!("{kind}s.{group}"), kind);
        assert!(found.is_some(), "{kind}\n{}", operator.log_end());
    }
    let metrics = operator.get("/metrics").unwrap().1;
    let failed = metrics.lines().any(|l| l.contains("module_run_errors_total{module=\"user\"}"));
    assert!(!failed, "it works at the first try: {}", operator.log_end());
    let label = |plural: &str| {
        object(cp, "", "crd", &format!("{plural}.{group}"))
            .map(|o| o["metadata"]["labels"]["heritage"].clone())
    };
    assert_eq!(label("hooklys"), Some("addon-operator".into()));
    assert_eq!(label("offlys"), None, "that module is off");
    operator.stop();
    // With nothing to do none of them is written; a change is.
    let mark = cp.audit_mark().unwrap();
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    let writes = |mark| {
        let mut events = cp.audit_since(mark).unwrap();
        events.retain(|e| {
            e.is_write() && e.resource == "customresourcedefinitions" && e.name.ends_with(&group)
        });
        events
    };
    assert_eq!(writes(mark).len(), 0, "{:?}", writes(mark));
    modules.write(
        "030-hooks/crds/h.yaml",
        &crd("Hookly").replace("singular: hookly", "singular: hookly, shortNames: [hk]"),
    );
    // Other names of files are no CRDs now, and other labels are given.
    std::fs::remove_file(modules.path().join("030-hooks/crds/doc-x.yaml")).unwrap();
    std::fs::remove_file(modules.path().join("030-hooks/crds/_y.yaml")).unwrap();
    modules.write("030-hooks/crds/skip-z.yaml", "not: a CRD\n");
    let arguments = ["--crd-filters", "doc-, skip-", "--crd-extra-labels", "heritage=addon-operator, team=a"];
    let operator = Operator::start_with(cp, ns.name(), modules.path(), &arguments);
    operator.wait_converged();
    let labels = object(cp, "", "crd", &format!("hooklys.{group}")).unwrap()["metadata"]["labels"].clone();
    assert_eq!((&labels["team"], &labels["heritage"]), (&"a".into(), &"addon-operator".into()));
    operator.stop();
    let changed = object(cp, "", "crd", &format!("hooklys.{group}")).unwrap();
    assert_eq!(changed["spec"]["names"]["shortNames"][0], "hk");
    for plural in ["chartlys", "hooklys"] {
        cp.kubectl(["delete", &format!("crd/{plural}.{group}"), "--wait=false"]).unwrap();
    }
}

#[test]
fn a_crd_that_is_deleted_comes_back() {
    let cp = control_plane();
    let ns = cp.namespace("crdback").unwrap();
    let group = format!("{}.example.com", ns.name());
    let modules = Modules::new();
    let crd = |kind: &str| crd(&group, kind);
    modules
        .small("010-chart")
        .write("010-chart/crds/c.yaml", &crd("Chartly"))
        .write(
            "010-chart/templates/cr.yaml",
            &format!("apiVersion: {group}/v1\nkind: Chartly\nmetadata: {{name: one}}\n"),
        )
        // No chart, and so no release.
        .hook("020-hooks/hooks/up", "configVersion: v1\nonStartup: 1", "note up")
        .write("020-hooks/crds/h.yaml", &crd("Hookly"))
        .enable(&["chart", "hooks"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    let uid = |plural: &str| {
        object(cp, "", "crd", &format!("{plural}.{group}")).map(|o| o["metadata"]["uid"].to_string())
    };
    for plural in ["chartlys", "hooklys"] {
        for _ in 0..2 {
            let before = uid(plural).unwrap();
            cp.kubectl(["delete", "crd", &format!("{plural}.{group}")]).unwrap();
            windlass_testing::wait_until(plural, std::time::Duration::from_secs(30), || {
                Ok(uid(plural).filter(|now| *now != before).map(drop))
            })
            .unwrap_or_else(|e| panic!("{e}\n{}", operator.log_end()));
        }
    }
    // What was deleted with its kind is back, too.
    windlass_testing::wait_until("the object", std::time::Duration::from_secs(30), || {
        Ok(object(cp, ns.name(), &format!("chartlys.{group}"), "one").map(drop))
    })
    .unwrap_or_else(|e| panic!("{e}\n{}", operator.log_end()));
    operator.wait_log(&["CustomResourceDefinition hooklys", "was deleted"]);
    operator.stop();
    for plural in ["chartlys", "hooklys"] {
        cp.kubectl(["delete", &format!("crd/{plural}.{group}"), "--wait=false"]).unwrap();
    }
}

#[test]
fn a_version_that_objects_may_be_stored_in_goes_only_without_objects() {
    let cp = control_plane();
    let ns = cp.namespace("stored").unwrap();
    let name = format!("things.{}.example.com", ns.name());
    let modules = Modules::new();
    let write = |versions: &[(&str, bool)]| {
        let version = |(name, storage): &(&str, bool)| {
            format!(
                "  - name: {name}\n    served: true\n    storage: {storage}\n    schema: {{openAPIV3Schema: {{type: object, \
                 x-kubernetes-preserve-unknown-fields: true}}}}\n"
            )
        };
        let versions: String = versions.iter().map(version).collect();
        modules.write(
            "010-kinds/crds/things.yaml",
            &format!(
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {name}}}\nspec:\n  group: \
                 {}.example.com\n  scope: Namespaced\n  names: {{kind: Thing, plural: things, singular: thing}}\n  versions:\n{versions}",
                ns.name()
            ),
        );
    };
    let stored = || object(cp, "", "crd", &name).unwrap()["status"]["storedVersions"].clone();
    modules.small("010-kinds").enable(&["kinds"]);
    write(&[("v1", true)]);
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    let thing = format!(
        "{{apiVersion: {}.example.com/v1, kind: Thing, metadata: {{name: one}}, spec: {{a: b}}}}",
        ns.name()
    );
    cp.kubectl_with(["apply", "-n", ns.name(), "-f", "-"], &thing).unwrap();
    // The next version, beside the one before, and then alone: by now the object may be stored in either.
    write(&[("v1", false), ("v2", true)]);
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    assert_eq!(stored(), serde_json::json!(["v1", "v2"]));
    write(&[("v2", true)]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    operator.wait_log(&[
        "\"module\":\"kinds\"",
        "would drop data of its 1 objects",
        "objects may be stored in version v1, which is gone",
    ]);
    assert_eq!(stored(), serde_json::json!(["v1", "v2"]), "nothing was done");
    assert!(object(cp, ns.name(), &name, "one").is_some());
    operator.stop();
    cp.kubectl(["delete", &name, "one", "-n", ns.name()]).unwrap();
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    operator.wait_log(&["removing stored versions", &name]);
    let crd = object(cp, "", "crd", &name).unwrap();
    assert_eq!(
        (&crd["spec"]["versions"][1], &stored()),
        (&serde_json::Value::Null, &serde_json::json!(["v2"]))
    );
    assert_eq!(crd["spec"]["versions"][0]["name"], "v2");
    operator.stop();
    // Of nothing but v3, where v2 is what is stored now.
    write(&[("v3", true)]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["operator", "--observe", "-n", ns.name(), "--modules-dir"]).arg(modules.path());
    let seen = command.env("KUBECONFIG", cp.kubeconfig()).output().unwrap();
    let text = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert_eq!(seen.status.code(), Some(2), "{text}");
    assert!(text.contains("kinds: would change:") && text.contains(&name) && text.contains("v3"), "{text}");
    assert!(!text.contains("blocked") && !text.contains("cannot tell"), "{text}");
    assert_eq!(stored(), serde_json::json!(["v2"]), "nothing is written for that");
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    assert_eq!(stored(), serde_json::json!(["v3"]));
    cp.kubectl(["delete", "crd", &name, "--wait=false"]).unwrap();
}

#[test]
fn a_crd_that_moves_out_of_the_templates_is_kept() {
    let cp = control_plane();
    let ns = cp.namespace("crdmoves").unwrap();
    let group = format!("{}.example.com", ns.name());
    let modules = Modules::new();
    let name = format!("backups.{group}");
    modules
        .small("010-mover")
        .write("010-mover/templates/crd.yaml", &crd(&group, "Backup"))
        .enable(&["mover"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    operator.stop();
    let backup = format!(
        "apiVersion: {group}/v1\nkind: Backup\nmetadata: {{name: precious, namespace: {}}}\n",
        ns.name()
    );
    cp.kubectl_with(["create", "-f", "-"], &backup).unwrap();
    std::fs::remove_file(modules.path().join("010-mover/templates/crd.yaml")).unwrap();
    modules.write("010-mover/crds/crd.yaml", &crd(&group, "Backup"));
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    let kept = "crds/ of the chart has it";
    assert!(operator.log().contains(kept), "{}", operator.log_end());
    windlass_testing::wait_until("an Event on the CRD", std::time::Duration::from_secs(30), || {
        let is_ours = |event: &serde_json::Value| {
            event["involvedObject"]["name"] == name.as_str() && event["message"].to_string().contains(kept)
        };
        Ok(cp.list(&["events", "-A"])?.iter().any(is_ours).then_some(()))
    })
    .unwrap_or_else(|e| panic!("{e}\n{}", operator.log_end()));
    operator.stop();
    assert!(object(cp, ns.name(), &name, "precious").is_some());
    cp.kubectl(["delete", "crd", &name, "--wait=false"]).unwrap();
}
