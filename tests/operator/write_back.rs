//! Config values that hooks write while users edit the ConfigMap.

use crate::hooks::{data, shows_size, start};
use crate::support::{Modules, control_plane, wait_for};

fn patch(namespace: &str, data: &str) {
    let text = format!("{{\"data\":{data}}}");
    let arguments = ["patch", "configmap", "addon-operator", "-n", namespace, "--type=merge", "-p", &text];
    control_plane().kubectl(arguments).unwrap();
}

fn create(namespace: &str, literals: &[&str]) {
    let start = ["create", "configmap", "addon-operator", "-n", namespace];
    control_plane().kubectl(start.iter().chain(literals)).unwrap();
}

#[test]
fn edits_of_users_stay_while_a_hook_writes() {
    let ns = control_plane().namespace("meanwhile").unwrap();
    let modules = Modules::new();
    shows_size(&modules, "modules/010-alpha");
    // It reads its values, waits until it is told to go on, and writes what it found out.
    let body = "size=$(grep -o '\"size\":[0-9]*' \"$CONFIG_VALUES_PATH\" | cut -d: -f2)\nnote \"read $size\"\n\
                here=$(dirname \"$TMPDIR\")\nuntil [[ -e $here/go-$size ]]; do sleep 0.05; done\n\
                if (( size < 5 )); then echo '{\"op\":\"add\",\"path\":\"/alpha/size\",\"value\":5}' > \"$CONFIG_VALUES_JSON_PATCH_PATH\"; fi";
    modules
        .hook("modules/010-alpha/hooks/decides", "configVersion: v1\nbeforeHelm: 1", body)
        .write("modules/values.yaml", "alphaEnabled: true\n");
    create(ns.name(), &["--from-literal=alpha=size: 1", "--from-literal=global=zone: a"]);
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_note("decides read 1");
    // Other keys of the section and of the ConfigMap stay as someone made them meanwhile.
    patch(ns.name(), r#"{"alpha":"size: 1\nnote: mine\n","global":"zone: b"}"#);
    operator.put("go-1");
    wait_for("the hook's value is written", || {
        data(ns.name(), "addon-operator", "alpha").as_deref() == Some("note: mine\nsize: 5\n")
    });
    assert_eq!(data(ns.name(), "addon-operator", "global").as_deref(), Some("zone: b"));
    operator.put("go-5");
    wait_for("the module runs with it", || data(ns.name(), "alpha", "size").as_deref() == Some("5"));
    // The same value, edited after the hook has read it: the hook is run again, and finds the edit.
    patch(ns.name(), r#"{"alpha":"size: 2"}"#);
    operator.wait_note("decides read 2");
    patch(ns.name(), r#"{"alpha":"size: 7"}"#);
    operator.put("go-7");
    operator.put("go-2");
    operator.wait_log(&[
        "010-alpha/hooks/decides",
        "path \\\"/alpha/size\\\"",
        "edited there since the hook read it",
    ]);
    wait_for("the module runs with the edit", || data(ns.name(), "alpha", "size").as_deref() == Some("7"));
    assert_eq!(data(ns.name(), "addon-operator", "alpha").as_deref(), Some("size: 7"));
    operator.stop();
}

#[test]
fn a_section_that_cannot_be_read_is_not_written_over() {
    let ns = control_plane().namespace("unread-section").unwrap();
    let modules = Modules::new();
    shows_size(&modules, "modules/010-alpha");
    let body = "here=$(dirname \"$TMPDIR\")\nnote ran\nuntil [[ -e $here/go ]]; do sleep 0.05; done\n\
                echo '{\"op\":\"add\",\"path\":\"/alpha/size\",\"value\":5}' > \"$CONFIG_VALUES_JSON_PATCH_PATH\"";
    modules
        .hook("modules/010-alpha/hooks/decides", "configVersion: v1\nbeforeHelm: 1", body)
        .write("modules/values.yaml", "alphaEnabled: true\n");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_note("decides ran");
    create(ns.name(), &["--from-literal=alpha=size: [1"]);
    operator.put("go");
    operator.wait_log(&["010-alpha/hooks/decides", "config values: key alpha line ", "mend it first"]);
    assert_eq!(data(ns.name(), "addon-operator", "alpha").as_deref(), Some("size: [1"));
    patch(ns.name(), r#"{"alpha":"note: mine"}"#);
    wait_for("the hook's value is written once it is mended", || {
        data(ns.name(), "addon-operator", "alpha").as_deref() == Some("note: mine\nsize: 5\n")
    });
    operator.stop();
}
