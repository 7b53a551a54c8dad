//! Config values that hooks write while users edit the ConfigMap, and hooks while it is broken.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use windlass_cluster::{Cluster, ConnectOptions, Gvk, ObjectRef, PatchKind};

use crate::hooks::{data, shows_size, start};
use crate::support::{Modules, control_plane, object, status, wait_for};

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

/// Edits one key of a ConfigMap as fast as it goes until it is told to stop; after each edit it must be there. Gives how often.
async fn edit_without_a_break(map: &ObjectRef, stop: &AtomicBool) -> u64 {
    let kubeconfig = Some(control_plane().kubeconfig().to_owned());
    let options = ConnectOptions { kubeconfig, ..ConnectOptions::default() };
    let cluster = Cluster::connect(&options).await.expect("a cluster");
    let mut edits = 0;
    while !stop.load(Ordering::Acquire) {
        edits += 1;
        let edit = json!({"data": {"unrelated": edits.to_string()}});
        cluster.patch_subresource(map, "", PatchKind::Merge, &edit, "someone").await.unwrap();
        let live = cluster.get(map).await.unwrap().unwrap();
        assert_eq!(live["data"]["unrelated"], edits.to_string(), "a hook's write took an edit back");
    }
    edits
}

#[test]
fn edits_and_writes_at_the_same_time_are_all_there_in_the_end() {
    let cp = control_plane();
    let ns = cp.namespace("at-once").unwrap();
    let modules = Modules::new();
    let names: Vec<String> = (0..12).map(|n| format!("m{n}")).collect();
    for name in &names {
        let body = format!(
            "echo '{{\"op\":\"add\",\"path\":\"/{name}/size\",\"value\":5}}' > \"$CONFIG_VALUES_JSON_PATCH_PATH\""
        );
        modules.hook(&format!("modules/{name}/hooks/writes"), "configVersion: v1\nbeforeHelm: 1", &body);
    }
    modules.write(
        "modules/values.yaml",
        &names.iter().map(|n| format!("{n}Enabled: true\n")).collect::<String>(),
    );
    create(ns.name(), &["--from-literal=unrelated=0"]);
    let map = ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some(ns.name()), "addon-operator");
    let (stop, mark) = (AtomicBool::new(false), cp.audit_mark().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let edits = std::thread::scope(|scope| {
        let editing = scope.spawn(|| runtime.block_on(edit_without_a_break(&map, &stop)));
        let operator = start(ns.name(), &modules, &[]);
        let written = |name: &String| data(ns.name(), "addon-operator", name).as_deref() == Some("size: 5\n");
        wait_for("all hooks have written", || editing.is_finished() || names.iter().all(written));
        stop.store(true, Ordering::Release);
        let edits = editing.join().unwrap();
        operator.stop();
        edits
    });
    assert_eq!(data(ns.name(), "addon-operator", "unrelated"), Some(edits.to_string()));
    let writes = cp.audit_since(mark).unwrap();
    let refused = writes.iter().filter(|e| e.namespace == ns.name() && e.verb == "update" && e.code == 409);
    println!(
        "{edits} edits; {} writes of hooks were tried again",
        refused.filter(|e| e.resource == "configmaps").count()
    );
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
    operator.wait_log(&["010-alpha/hooks/decides", "config values: key alpha line ", "correct it first"]);
    assert_eq!(data(ns.name(), "addon-operator", "alpha").as_deref(), Some("size: [1"));
    patch(ns.name(), r#"{"alpha":"note: mine"}"#);
    wait_for("the hook's value is written once it is mended", || {
        data(ns.name(), "addon-operator", "alpha").as_deref() == Some("note: mine\nsize: 5\n")
    });
    operator.stop();
}

#[test]
fn hooks_wait_for_global_values_that_cannot_be_used_yet() {
    let cp = control_plane();
    let ns = cp.namespace("unread-globals").unwrap();
    let modules = Modules::new();
    shows_size(&modules, "modules/010-alpha");
    let tell = "note \"$(grep -o '\"zone\":\"[a-z]*\"' \"$CONFIG_VALUES_PATH\" || echo none)\"";
    modules
        .hook("global-hooks/start", "configVersion: v1\nonStartup: 1", tell)
        .hook("global-hooks/tick", "configVersion: v1\nschedule: [{crontab: '* * * * * *'}]", tell)
        .write("modules/values.yaml", "alphaEnabled: true\n");
    create(ns.name(), &["--from-literal=global=zone: ["]);
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_log(&["hooks and modules wait until the global values can be used: key global line "]);
    wait_for("the module says why", || {
        let status = status(ns.name(), "alpha");
        status["phase"] == "Pending"
            && status["lastError"].as_str().is_some_and(|e| e.contains("key global line "))
    });
    // The rest of the ConfigMap is read all the same, and lets nobody run.
    patch(ns.name(), r#"{"alpha":"size: 3"}"#);
    patch(ns.name(), r#"{"unknown":"a: b"}"#);
    operator.wait_log(&["unknown belongs to no module"]);
    assert_eq!((operator.notes().len(), operator.get("/readyz").map(|a| a.0)), (0, Some(500)));
    patch(ns.name(), r#"{"global":"zone: west"}"#);
    operator.wait_converged();
    assert_eq!(operator.notes()[0], "start \"zone\":\"west\"");
    wait_for("the module runs", || object(cp, ns.name(), "configmap", "alpha").is_some());
    assert_eq!(data(ns.name(), "alpha", "size").as_deref(), Some("3"));
    // From here on they run with the last good ones, and that is told.
    patch(ns.name(), r#"{"global":"zone: [", "alpha":"size: 4"}"#);
    wait_for("the rest applies", || data(ns.name(), "alpha", "size").as_deref() == Some("4"));
    let before = operator.notes().len();
    wait_for("hooks tick", || operator.notes().len() > before + 1);
    assert!(operator.notes().iter().all(|n| n.ends_with("\"zone\":\"west\"")), "{:?}", operator.notes());
    operator.wait_log(&["ConfigMap addon-operator: key global line ", "\"key\":\"global\""]);
    operator.stop();
}

#[test]
fn enabled_scripts_wait_for_global_values_too() {
    let cp = control_plane();
    let ns = cp.namespace("unread-script").unwrap();
    let modules = Modules::new();
    shows_size(&modules, "modules/010-alpha");
    let script = "#!/bin/bash\nif grep -q '\"zone\":\"west\"' \"$VALUES_PATH\"; then on=true; else on=false; fi\n\
                  echo asked >> \"$(dirname \"$TMPDIR\")/notes\"\necho $on > \"$MODULE_ENABLED_RESULT\"\n";
    modules.write("modules/010-alpha/enabled", script).write("modules/values.yaml", "alphaEnabled: true\n");
    let path = modules.path().join("modules/010-alpha/enabled");
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    create(ns.name(), &["--from-literal=global=zone: ["]);
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_log(&["hooks and modules wait until the global values can be used"]);
    patch(ns.name(), r#"{"unknown":"a: b"}"#);
    operator.wait_log(&["unknown belongs to no module"]);
    assert_eq!(operator.notes().len(), 0);
    patch(ns.name(), r#"{"global":"zone: west"}"#);
    wait_for("the module runs", || object(cp, ns.name(), "configmap", "alpha").is_some());
    operator.stop();
}
