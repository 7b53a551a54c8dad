//! Whatever is wrong with one module is told by name, and the others converge.

use crate::hooks::{data, shows_size, start};
use crate::support::{Modules, Operator, control_plane, object, status, wait_for};
use windlass_testing::write_file;

/// A tar.gz whose one file inflates to 101 MiB.
fn bomb(entry: &str, size: usize) -> Vec<u8> {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(size as u64);
    header.set_mode(0o644);
    // Written by hand, since the builder refuses paths that leave the archive.
    header.as_gnu_mut().unwrap().name[..entry.len()].copy_from_slice(entry.as_bytes());
    header.set_cksum();
    tar.append(&header, &vec![0u8; size][..]).unwrap();
    tar.into_inner().unwrap().finish().unwrap()
}

#[test]
fn bad_modules_are_named_and_the_others_converge() {
    let cp = control_plane();
    let ns = cp.namespace("bad").unwrap();
    let modules = Modules::new();
    modules.small("001-good").small("002-template").small("003-values").small("004-rejected");
    modules.small("005-bomb").small("006-escape").small("009-late");
    modules.write("002-template/templates/broken.yaml", "a: 1\nb: {{ .Values.template.size | nope }}\n");
    modules.write("003-values/values.yaml", "values:\n  size: 1\n bad: indent\n");
    modules.write(
        "004-rejected/templates/object.yaml",
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: Not_A_Name\nspec: {ports: [{port: 80}]}\n",
    );
    for (module, entry, size) in
        [("005-bomb", "sub/templates/x", 101 << 20), ("006-escape", "sub/../../x", 10)]
    {
        write_file(modules.path().join(module).join("charts/sub.tgz"), bomb(entry, size));
    }
    modules.small("007-module-1");
    modules.enable(&["good", "template", "values", "rejected", "bomb", "escape", "late"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    for good in ["good", "late"] {
        assert!(object(cp, ns.name(), "deployment", good).is_some(), "{good} converged\n{}", operator.log());
    }
    operator.wait_log(&["\"module\":\"template\"", "template/templates/broken.yaml:2", "nope"]);
    operator.wait_log(&["\"module\":\"values\"", "003-values/values.yaml:3: "]);
    operator.wait_log(&["\"module\":\"rejected\"", "Not_A_Name", "rejected/templates/object.yaml"]);
    operator.wait_log(&["\"module\":\"bomb\"", "larger than the maximum size"]);
    operator.wait_log(&["\"module\":\"escape\"", "references parent directory"]);
    operator.wait_log(&["007-module-1", "rename the module to"]);
    operator.stop();
}

#[test]
fn a_bad_key_of_the_configmap_is_told_and_the_rest_applies() {
    let cp = control_plane();
    let ns = cp.namespace("badkey").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    cp.kubectl([
        "create",
        "configmap",
        "addon-operator",
        "-n",
        ns.name(),
        "--from-literal=unknownThing=a: 1",
        "--from-literal=alpha=size: [1",
        "--from-literal=beta=size: 5",
    ])
    .unwrap();
    wait_for("the good key applies", || {
        object(cp, ns.name(), "configmap", "beta").is_some_and(|o| o["data"]["size"] == "5")
    });
    operator.wait_log(&["unknownThing", "belongs to no module"]);
    operator.wait_log(&["\"key\":\"alpha\"", "line 1"]);
    let alpha = object(cp, ns.name(), "configmap", "alpha").unwrap();
    assert_eq!(alpha["data"]["size"], "1", "the last good values stay in force");
    wait_for("both problems are Events", || {
        let args = ["get", "events", "-n", ns.name(), "-o", "jsonpath={.items[*].message}"];
        let text = cp.kubectl(args).unwrap();
        text.contains("unknownThing belongs to no module") && text.contains("key alpha")
    });
    operator.stop();
}

#[test]
fn values_that_break_a_schema_are_told_and_the_last_good_ones_stay() {
    let cp = control_plane();
    let ns = cp.namespace("schema").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    let config = "type: object\nproperties:\n  size: {type: integer, maximum: 5}\n";
    modules.write("001-alpha/openapi/config-values.yaml", config);
    let values = "type: object\nx-required-for-helm: token\nproperties:\n  size: {type: integer}\n  token: {type: string}\n";
    modules.write("002-beta/openapi/values.yaml", values);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    operator.wait_log(&[
        "\"module\":\"beta\"",
        "values: beta: missing property 'token'",
        "002-beta/openapi/values.yaml",
    ]);
    assert!(
        object(cp, ns.name(), "deployment", "beta").is_none(),
        "it is not rendered without what it requires"
    );
    let size = || object(cp, ns.name(), "configmap", "alpha").unwrap()["data"]["size"].clone();
    let map = [
        "create",
        "configmap",
        "addon-operator",
        "-n",
        ns.name(),
        "--from-literal=alpha=size: 9",
        "--from-literal=beta=token: t",
    ];
    cp.kubectl(map).unwrap();
    operator
        .wait_log(&["key alpha: alpha.size: maximum: got 9, want 5", "001-alpha/openapi/config-values.yaml"]);
    wait_for("the other module's section is taken", || object(cp, ns.name(), "deployment", "beta").is_some());
    assert_eq!(size(), "1", "the last good values stay");
    let patch = ["patch", "configmap", "addon-operator", "-n", ns.name(), "--type=merge", "-p"];
    cp.kubectl(patch.iter().chain([&r#"{"data":{"alpha":"size: 4"}}"#])).unwrap();
    wait_for("the mended section is applied", || size() == "4");
    operator.stop();
}

#[test]
fn a_bad_section_is_told_when_a_hook_turns_its_module_on() {
    let cp = control_plane();
    let ns = cp.namespace("bad-section").unwrap();
    let modules = Modules::new();
    shows_size(&modules, "modules/020-beta");
    modules
        .write("modules/values.yaml", "")
        .write("modules/020-beta/openapi/config-values.yaml", "properties: {size: {type: integer}}\n")
        .hook(
            "global-hooks/up",
            "configVersion: v1\nonStartup: 1",
            r#"echo '[{"op":"add","path":"/betaEnabled","value":true}]' > "$VALUES_JSON_PATCH_PATH""#,
        );
    let create = ["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=beta=size: nine"];
    cp.kubectl(create).unwrap();
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_log(&["\"level\":\"WARN\"", "key beta: ", "size"]);
    wait_for("the module says why it does not run", || {
        let status = status(ns.name(), "beta");
        status["reason"] == "ConfigInvalid" && status["lastError"].as_str().unwrap().contains("size")
    });
    wait_for("an Event tells it", || {
        let events = cp.kubectl(["get", "events", "-n", ns.name(), "-o", "json"]).unwrap();
        events.contains("InvalidConfigKey") && events.contains("key beta: ")
    });
    assert_eq!(data(ns.name(), "beta", "size"), None, "nothing is released without what the user wrote");
    let patch = ["patch", "configmap", "addon-operator", "-n", ns.name(), "--type=merge", "-p"];
    cp.kubectl(patch.iter().chain([&r#"{"data":{"beta":"size: 9"}}"#])).unwrap();
    wait_for("the mended section counts", || data(ns.name(), "beta", "size").as_deref() == Some("9"));
    operator.stop();
}
