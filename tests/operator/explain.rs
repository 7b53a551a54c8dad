//! `windlass values explain --module`: the layers of a module's values, the live ConfigMap with its editor among them.

use std::path::Path;
use std::process::{Command, Output};

use windlass_testing::ControlPlane;

use crate::support::{Modules, Operator, control_plane, object, wait_for};

/// What is said of the values of module `web`.
fn explain(cp: &ControlPlane, namespace: &str, modules: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["values", "explain", "--module", "web", "-n", namespace, "--modules-dir"])
        .arg(modules)
        .args(args)
        .env("KUBECONFIG", cp.kubeconfig())
        .output()
        .unwrap()
}

#[test]
fn each_layer_of_a_module_is_told() {
    let cp = control_plane();
    let ns = cp.namespace("explain").unwrap();
    let modules = Modules::new();
    modules.small("010-web").write("values.yaml", "global: {zone: a}\nwebEnabled: true\nweb:\n  size: 5\n");
    let explain = |args: &[&str]| explain(cp, ns.name(), modules.path(), args);
    let told = |args: &[&str]| -> Vec<String> {
        let out = explain(args);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap().replace(&*modules.path().to_string_lossy(), "ROOT");
        text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    // Without a ConfigMap the files count, the module's own first.
    assert_eq!(
        told(&["size"]),
        [
            "VALUE OF SET BY TO EFFECT",
            "web.size ROOT/010-web/values.yaml:2 1 counts",
            "ROOT/values.yaml:4 5 overridden",
            "web/values.yaml:2 1 overridden",
        ]
    );
    let map = ["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=global=zone: b"];
    cp.kubectl(map).unwrap();
    let patch = r##"{"data": {"web": "# more of them\nsize: 7\n"}}"##;
    let edit =
        ["patch", "configmap", "addon-operator", "-n", ns.name(), "--type=merge", "--field-manager=anna"];
    cp.kubectl(edit.iter().chain(&["-p", patch])).unwrap();
    let name = format!("ConfigMap {}/addon-operator key", ns.name());
    assert_eq!(
        told(&["web.size"])[1..],
        [
            format!("web.size {name} web by anna line 2 7 counts"),
            "ROOT/010-web/values.yaml:2 1 overridden".to_owned(),
            "ROOT/values.yaml:4 5 overridden".to_owned(),
            "web/values.yaml:2 1 overridden".to_owned(),
        ]
    );
    assert_eq!(
        told(&["global.zone"])[1..],
        [
            format!("global.zone {name} global by kubectl-create line 1 \"b\" counts"),
            "ROOT/values.yaml:1 \"a\" overridden".to_owned(),
        ]
    );
    let all = String::from_utf8(explain(&["-o", "json"]).stdout).unwrap();
    let all: Vec<serde_json::Value> = serde_json::from_str(&all).unwrap();
    let size = all.iter().find(|e| e["path"] == "web.size").unwrap();
    assert_eq!((&size["value"], &size["settings"][0]["origin"]["kind"]), (&7.into(), &"object".into()));
    // The operator renders with what was told to count.
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    wait_for("the value counts", || {
        object(cp, ns.name(), "configmap", "web").is_some_and(|o| o["data"]["size"] == "7")
    });
    operator.stop();

    let fails = |args: &[&str]| String::from_utf8(explain(args).stderr).unwrap();
    assert!(
        fails(&["sizes"]).contains("nobody sets web.sizes; did you mean web.size?"),
        "{}",
        fails(&["sizes"])
    );
    assert!(fails(&["size", "--set", "a=1"]).contains("a module's are in its files and the ConfigMap"));
    assert!(fails(&["--module", "nope"]).contains("no module \"nope\" in "));
    cp.kubectl(edit.iter().chain(&["-p", r#"{"data": {"web": "a: b: c"}}"#])).unwrap();
    assert!(
        fails(&["size"]).contains("the operator goes on with the last good values"),
        "{}",
        fails(&["size"])
    );
}

#[test]
fn values_of_secrets_are_told_by_their_names_alone() {
    let cp = control_plane();
    let ns = cp.namespace("explain-secrets").unwrap();
    let modules = Modules::new();
    modules.small("010-web").write("values.yaml", "webEnabled: true\nweb: {size: 5, db: {user: a}}\n");
    let secret = ["create", "secret", "generic", "db", "-n", ns.name()];
    cp.kubectl(secret.iter().chain(&[
        "--from-literal=word=s3cret-word",
        "--from-literal=values.yaml=db: {user: s3cret-user, hosts: [s3cret-host]}",
    ]))
    .unwrap();
    let shared = ["create", "configmap", "shared", "-n", ns.name(), "--from-literal=values.yaml=size: 6"];
    cp.kubectl(shared).unwrap();
    let from = "webValuesFrom=[{kind: ConfigMap, name: shared}, {kind: Secret, name: db}, {kind: Secret, name: db, \
                valuesKey: word, targetPath: db.password}]";
    let literal = format!("--from-literal={from}");
    let map =
        ["create", "configmap", "addon-operator", "-n", ns.name(), &literal, "--from-literal=web=size: 7"];
    cp.kubectl(map).unwrap();
    let explain = |args: &[&str]| explain(cp, ns.name(), modules.path(), args);
    let text = String::from_utf8(explain(&[]).stdout).unwrap();
    let rows: Vec<String> =
        text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let object =
        |kind: &str, name: &str, key: &str| format!("{kind} {}/{name} key {key} (webValuesFrom)", ns.name());
    let has = |start: &str, part: &str, end: &str| {
        let found = rows.iter().any(|r| r.starts_with(start) && r.contains(part) && r.ends_with(end));
        assert!(found, "{start} {part} {end}: {rows:#?}");
    };
    has("web.size ", &format!("ConfigMap {}/addon-operator key web", ns.name()), "7 counts");
    has("", &object("ConfigMap", "shared", "values.yaml"), "6 overridden");
    has("web.db.password ", &object("Secret", "db", "word"), "\"(hidden)\" counts");
    has("web.db.user ", &object("Secret", "db", "values.yaml"), "\"(hidden)\" counts");
    has("web.db.hosts", &object("Secret", "db", "values.yaml"), "\"(hidden)\" counts");
    let json = String::from_utf8(explain(&["-o", "json"]).stdout).unwrap();
    assert!(json.contains("(hidden)") && !json.contains("s3cret") && !text.contains("s3cret"), "{json}");
    cp.kubectl(["delete", "secret", "db", "-n", ns.name()]).unwrap();
    let error = String::from_utf8(explain(&[]).stderr).unwrap();
    assert!(error.contains("webValuesFrom: Secret db is missing"), "{error}");
}
