//! CRDs come before the modules.

use crate::support::{Modules, Operator, control_plane, object};

#[test]
fn crds_of_all_modules_are_there_before_the_first_one_runs() {
    let cp = control_plane();
    let ns = cp.namespace("crds-first").unwrap();
    let group = format!("{}.example.com", ns.name());
    let modules = Modules::new();
    let crd = |kind: &str| {
        let plural = kind.to_lowercase() + "s";
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.{group}}}\nspec:\n  \
             group: {group}\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}, singular: {}}}\n  versions:\n  - name: v1\n    \
             served: true\n    storage: true\n    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n",
            kind.to_lowercase()
        )
    };
    let one = |kind: &str| {
        format!(
            "apiVersion: {group}/v1\nkind: {kind}\nmetadata: {{name: {}}}\nspec: {{a: b}}\n",
            kind.to_lowercase()
        )
    };
    modules
        .small("010-user")
        .write("010-user/templates/cr.yaml", &format!("{}---\n{}", one("Chartly"), one("Hookly")))
        .small("020-chart")
        .write("020-chart/crds/c.yaml", &crd("Chartly"))
        // No chart: hooks are all there is beside the CRDs.
        .hook("030-hooks/hooks/up", "configVersion: v1\nonStartup: 1", "note up")
        .write("030-hooks/crds/doc-x.yaml", "not: a CRD\n")
        .write("030-hooks/crds/h.yaml", &crd("Hookly"))
        .write("040-off/crds/o.yaml", &crd("Offly"))
        .hook("040-off/hooks/up", "configVersion: v1\nonStartup: 1", "note up")
        .enable(&["user", "chart", "hooks"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    for kind in ["chartly", "hookly"] {
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
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    let changed = object(cp, "", "crd", &format!("hooklys.{group}")).unwrap();
    assert_eq!(changed["spec"]["names"]["shortNames"][0], "hk");
    for plural in ["chartlys", "hooklys"] {
        cp.kubectl(["delete", &format!("crd/{plural}.{group}"), "--wait=false"]).unwrap();
    }
}
