//! Charts that are not the same at each revision: what is released is what Helm releases, and it stays.

use crate::hooks::edit;
use crate::support::{Modules, Operator, control_plane, history, wait_for, writes_since};
use windlass_testing::ControlPlane;

const MODULE: &str = "apiVersion: v2\nname: NAME\nversion: 0.1.0\n";

/// A ConfigMap of a module, in a condition.
fn config_map(name: &str, condition: &str, data: &str) -> String {
    format!(
        "{{{{ if {condition} }}}}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  told: {data}\n{{{{ end }}}}\n"
    )
}

/// An operator that adds no labels, once it has converged: its objects are those of Helm.
fn converged(cp: &ControlPlane, namespace: &str, modules: &Modules) -> Operator {
    let operator = Operator::start_with(cp, namespace, modules.path(), &["--crd-extra-labels="]);
    operator.wait_converged();
    operator
}

/// Starts an operator, which must write nothing but its own bookkeeping, and stops it.
fn starts_quietly(cp: &ControlPlane, namespace: &str, modules: &Modules) {
    let mark = cp.audit_mark().unwrap();
    converged(cp, namespace, modules).stop();
    let writes = writes_since(cp, namespace, mark);
    assert!(writes.is_empty(), "{writes:?}");
}

fn manifest(cp: &ControlPlane, namespace: &str, module: &str) -> String {
    cp.helm4(["get", "manifest", module, "-n", namespace]).unwrap()
}

/// Waits until a revision is deployed, and is the last.
fn reaches(cp: &ControlPlane, namespace: &str, module: &str, revision: u64) {
    let wanted = Some((revision, "deployed".to_owned()));
    wait_for(&format!("{module} comes to revision {revision}"), || {
        history(cp, namespace, module).last().cloned() == wanted
    });
}

#[test]
fn installs_upgrades_and_revisions_come_out_as_with_helm() {
    let cp = control_plane();
    let (ns, helms) = (cp.namespace("forms").unwrap(), cp.namespace("forms-helm").unwrap());
    let modules = Modules::new();
    modules.write("001-alpha/Chart.yaml", &MODULE.replace("NAME", "alpha"));
    modules.write("001-alpha/values.yaml", "alpha: {size: 1}\n");
    let numbered = "{{ .Release.Revision }}-{{ .Values.alpha.size }}";
    for (name, condition, data) in [
        ("first", ".Release.IsInstall", "a"),
        ("later", ".Release.IsUpgrade", "b{{ .Values.alpha.other }}"),
        ("numbered", "true", numbered),
    ] {
        modules.write(&format!("001-alpha/templates/{name}.yaml"), &config_map(name, condition, data));
    }
    modules.enable(&["alpha"]);
    let chart = modules.path().join("001-alpha");
    let helm = |set: &str| {
        let arguments =
            ["upgrade", "--install", "alpha", chart.to_str().unwrap(), "-n", helms.name(), "--set", set];
        cp.helm4(arguments).unwrap();
        manifest(cp, helms.name(), "alpha")
    };

    let operator = converged(cp, ns.name(), &modules);
    assert_eq!(manifest(cp, ns.name(), "alpha"), helm("alpha.size=1"));
    assert_eq!(history(cp, ns.name(), "alpha"), [(1, "deployed".to_owned())]);
    cp.kubectl(["delete", "configmap", "first", "-n", ns.name()]).unwrap();
    wait_for("what is there at the first revision only comes back", || {
        cp.kubectl(["get", "configmap", "first", "-n", ns.name()]).is_ok()
    });
    operator.stop();
    starts_quietly(cp, ns.name(), &modules);

    let operator = converged(cp, ns.name(), &modules);
    let edit = |text: &str| edit(ns.name(), "addon-operator", "alpha", text);
    // Nothing of the first revision changes by that, and what an upgrade makes does.
    edit("other: 1");
    reaches(cp, ns.name(), "alpha", 2);
    assert_eq!(manifest(cp, ns.name(), "alpha"), helm("alpha.other=1"));
    edit("other: 1\nsize: 2");
    reaches(cp, ns.name(), "alpha", 3);
    assert_eq!(manifest(cp, ns.name(), "alpha"), helm("alpha.other=1,alpha.size=2"));
    operator.stop();
    starts_quietly(cp, ns.name(), &modules);

    // Begun anew after an uninstall that kept its history.
    cp.helm4(["uninstall", "alpha", "-n", ns.name(), "--keep-history"]).unwrap();
    cp.helm4(["uninstall", "alpha", "-n", helms.name(), "--keep-history"]).unwrap();
    let operator = converged(cp, ns.name(), &modules);
    reaches(cp, ns.name(), "alpha", 4);
    assert_eq!(manifest(cp, ns.name(), "alpha"), helm("alpha.other=1,alpha.size=2"));
    operator.stop();
    starts_quietly(cp, ns.name(), &modules);
}

#[test]
fn what_helm_installed_is_taken_over_as_it_is() {
    let cp = control_plane();
    let ns = cp.namespace("forms-taken").unwrap();
    let modules = Modules::new();
    modules.write("001-alpha/Chart.yaml", &MODULE.replace("NAME", "alpha"));
    modules.write("001-alpha/templates/a.yaml", &config_map("a", ".Release.IsInstall", "a"));
    modules.write("001-alpha/templates/b.yaml", &config_map("b", "true", "\"{{ .Release.Revision }}\""));
    modules.enable(&["alpha"]);
    let chart = modules.path().join("001-alpha");
    cp.helm3(["install", "alpha", chart.to_str().unwrap(), "-n", ns.name()]).unwrap();
    starts_quietly(cp, ns.name(), &modules);
    assert_eq!(history(cp, ns.name(), "alpha"), [(1, "deployed".to_owned())]);
}

#[test]
fn a_chart_that_wants_a_password_of_upgrades_is_installed() {
    let cp = control_plane();
    let ns = cp.namespace("forms-fail").unwrap();
    let modules = Modules::new();
    let fails = "{{ if and .Release.IsUpgrade (not .Values.NAME.password) CONDITION }}{{ fail \"PASSWORDS ERROR: give NAME.password\" }}{{ end }}\n";
    let found = "(not (lookup \"v1\" \"Secret\" .Release.Namespace \"found\"))";
    for (directory, name, condition) in [("001-asks", "asks", "true"), ("002-found", "found", found)] {
        modules.write(&format!("{directory}/Chart.yaml"), &MODULE.replace("NAME", name));
        modules.write(&format!("{directory}/values.yaml"), &format!("{name}: {{password: \"\", size: 1}}\n"));
        let text = fails.replace("NAME", name).replace("CONDITION", condition);
        modules.write(&format!("{directory}/templates/check.yaml"), &text);
        modules.write(
            &format!("{directory}/templates/job.yaml"),
            &config_map(&format!("{name}-first"), ".Release.IsInstall", "a"),
        );
        modules.write(
            &format!("{directory}/templates/secret.yaml"),
            &format!("apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\nstringData:\n  p: \"{{{{ .Values.{name}.size }}}}\"\n"),
        );
    }
    modules.enable(&["asks", "found"]);
    let operator = converged(cp, ns.name(), &modules);
    let one = [(1, "deployed".to_owned())];
    for module in ["asks", "found"] {
        assert_eq!(history(cp, ns.name(), module), one, "{module}");
    }
    operator.stop();
    starts_quietly(cp, ns.name(), &modules);

    let operator = converged(cp, ns.name(), &modules);
    let create = ["create", "configmap", "addon-operator", "-n", ns.name()];
    let sizes = ["--from-literal=asks=size: 2", "--from-literal=found=size: 2"];
    cp.kubectl(create.into_iter().chain(sizes)).unwrap();
    // The chart finds its password in the cluster.
    reaches(cp, ns.name(), "found", 2);
    operator.wait_log(&["PASSWORDS ERROR: give asks.password"]);
    assert_eq!(history(cp, ns.name(), "asks"), one);
    edit(ns.name(), "addon-operator", "asks", "size: 2\npassword: x");
    reaches(cp, ns.name(), "asks", 2);
    operator.stop();
}
